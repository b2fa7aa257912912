/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a run: summary.json, CARD.md, the table for people, and the
 * record's last word. Every number says what it is over.
 */
#ifndef ORCH_ORCHESTRATOR_FINISH_H
#define ORCH_ORCHESTRATOR_FINISH_H

#include "orchestrator/trials.h"

struct finish {
    const char *kind;                /* "run", "eval" */
    const char *stop_reason;         /* "steps", "budget", "patience", "evaluated", … */
    const struct version_ref *final; /* NULL: none (eval) */
    const char *adapter;             /* eval: the selector; NULL otherwise */
    const char *source_run;          /* eval; NULL otherwise */
};

/* Writes summary.json and CARD.md, sets meta state and outcome (fsynced), prints the result. *ret_status: the exit
 * status (0, 1 when failures are above retry.stop_share, 5 by budget). */
MUST_USE int finish_run(struct engine *e, const struct finish *f, int *ret_status, struct orch_err *err);
/* After an error or a signal: meta state "stopped" with the reason; the record can be gone on with. */
void finish_stopped(struct engine *e, const struct orch_err *why);

#endif
