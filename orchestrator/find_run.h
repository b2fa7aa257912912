/* SPDX-License-Identifier: Apache-2.0 */
/* Which run a config means: go on with one, say that it is complete, or start another (DESIGN 3). */
#ifndef ORCH_ORCHESTRATOR_FIND_RUN_H
#define ORCH_ORCHESTRATOR_FIND_RUN_H

#include "orchestrator/engine.h"

enum found {
    FOUND_NONE,       /* no run of this name and kind: start one */
    FOUND_UNFINISHED, /* equal fingerprint: go on */
    FOUND_FINISHED,   /* equal fingerprint: nothing to do */
    FOUND_COUNT
};

/* Among the runs of the config's name and `kind`, newest first; e->meaning is set. *ret_id is owned. When there are
 * runs but none is equal: with `strict` ORCH_E_DRIFT, the differences to the newest printed; else FOUND_NONE. */
MUST_USE int find_run(struct engine *e, const char *kind, bool strict, enum found *ret, char **ret_id,
                      struct orch_err *err);
/* From here until start_guard_drop only one process of this project looks for a run and starts it: two at once would
 * start two. Waits for the other. */
MUST_USE int start_guard_take(struct engine *e, int *ret_guard, struct orch_err *err);
void start_guard_drop(int *guard);
#define AUTO_START_GUARD __attribute__((cleanup(start_guard_drop)))
/* The newest run of the config's name that is finished (`finished`), else the newest at all. *ret_id is owned. */
MUST_USE int find_run_source(struct engine *e, bool finished, char **ret_id, struct orch_err *err);
/* ORCH_E_DRIFT (differences printed) unless the run's fingerprint equals e->meaning. */
MUST_USE int find_run_compare(struct engine *e, const char *run_id, struct orch_err *err);
/* A meta value of a run that nobody needs to own; "" when absent. Owned. */
MUST_USE int find_run_meta(const struct layout *l, const struct clock *clock, const char *run_id, const char *key,
                           char **ret, struct orch_err *err);

#endif
