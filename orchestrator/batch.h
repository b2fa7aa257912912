/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch of trials: runs them at task.concurrency, retries infrastructure
 * errors with bounded back-off, and stops when told to. It is the only owner of
 * retries (bugs.md E2).
 */
#ifndef ORCH_ORCHESTRATOR_BATCH_H
#define ORCH_ORCHESTRATOR_BATCH_H

#include "orchestrator/engine.h"

struct batch_item {
    int64_t trial;
    int64_t version;
    int64_t sample;
    int64_t incarnation; /* the one that runs next, from 1 */
    size_t row;          /* of the tasks */
};

struct batch_plan {
    const char *title;
    struct batch_item *items; /* borrowed until batch_run returns; only unsettled trials */
    size_t count;
    int64_t total;              /* for progress: with those settled before */
    const char *adapter_source; /* NULL: the no-adapter baseline */
};

/*
 * Runs all items and awaits them. 0 when every item is settled;
 * ORCH_E_INTERRUPTED after batch_stop (running calls were ended, their trials
 * are planned again); ORCH_E_BUDGET when the budget did not
 * allow another trial; ORCH_E_FAILED when more than retry.stop_share of the
 * trials ended as infrastructure errors; or the record's error.
 */
MUST_USE int batch_run(struct engine *e, const struct batch_plan *plan, struct orch_err *err);
/* No new trial starts and running calls are ended. */
void batch_stop(struct batch *b);

#endif
