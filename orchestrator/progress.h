/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a person sees while a run works: on a terminal one live line (bar, counts by result, rate, time
 * left) redrawn at most ten times a second, elsewhere a plain line at the end of each batch and at most
 * every ten seconds; nothing with --quiet; with --json the record's events are printed instead (by the
 * caller). Text is escaped here. A NULL progress shows nothing. Loop thread.
 */
#ifndef ORCH_ORCHESTRATOR_PROGRESS_H
#define ORCH_ORCHESTRATOR_PROGRESS_H

#include "orchestrator/verb.h"

#include <stdint.h>

struct progress;

struct progress *progress_new(const struct verb_call *call); /* call is borrowed */
void progress_free(struct progress *p);                      /* ends the live line; NULL is fine */

/* A batch of trials: `title` such as "step 3/20, version 2" or "eval test, version 7". `done` were settled before. */
void progress_begin(struct progress *p, const char *title, int64_t total, int64_t done);
/* One trial settled; `result` is the record's word ("scored", "agent-limit", …); score counts when has_score. */
void progress_trial(struct progress *p, const char *result, bool has_score, double score);
/* The batch is over: prints its line (mean, counts, time). */
void progress_end(struct progress *p);
/* What happens outside batches: "evolver runs", "checking the candidate". Shown with a running clock. */
void progress_activity(struct progress *p, const char *text);
/* A line that stays (a step's outcome, a warning). */
void progress_line(struct progress *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Redraws; call it from a timer of about 100 ms. */
void progress_tick(struct progress *p);

#endif
