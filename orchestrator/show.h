/* SPDX-License-Identifier: Apache-2.0 */
/* What `orch show` prints, in parts: a run, its trials, one trial. */
#ifndef ORCH_ORCHESTRATOR_SHOW_H
#define ORCH_ORCHESTRATOR_SHOW_H

#include "orchestrator/run_view.h"

/* The whole run: facts, counts, steps, evaluations, versions, usage, grades. */
MUST_USE int show_run(const struct verb_call *call, struct run_view *v, struct orch_err *err);
/* Its trials as a table; --step, --split, --result, --task restrict it. */
MUST_USE int show_trials(const struct verb_call *call, struct run_view *v, struct orch_err *err);
/* One trial in full: result, why, evidence, calls, sandboxes. */
MUST_USE int show_trial(const struct verb_call *call, struct run_view *v, int64_t trial, struct orch_err *err);

/* "planned 8, scored 6, limited 1, infrastructure 1, judge errors 0, not run 0; mean 0.5000 over 7 scores". Every kind
 * is named, zero or not. Owned by the caller. */
char *show_counts_text(const struct trial_counts *counts);
/* A label and a text from the record, escaped; nothing for an empty one. */
void show_fact(const struct verb_call *call, const char *label, const char *text);

#endif
