/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of trials: planned once in the record, then run until each is settled,
 * however often the program is stopped in between.
 */
#ifndef ORCH_ORCHESTRATOR_TRIALS_H
#define ORCH_ORCHESTRATOR_TRIALS_H

#include "orchestrator/engine.h"

struct version_ref {
    int64_t number; /* VERSION_NONE: no adapter */
    int64_t step;   /* that made it */
    char sha[VERSIONS_SHA_MAX];
    char tree[VERSIONS_SHA_MAX];
};

struct trial_set {
    const char *title;
    const struct version_ref *version;
    enum split split;
    int64_t step;
    int64_t repeats;    /* at least 1 */
    int64_t samples;    /* at least 1 */
    const size_t *rows; /* of the tasks, in order; used when the set is planned for the first time */
    size_t row_count;
};

/* Plans the set if the record has none of it yet, runs what is not settled, and awaits it. Errors as batch_run. */
MUST_USE int trials_run(struct engine *e, const struct trial_set *set, struct orch_err *err);
/* Counts and mean of a set's trials, as the record has them now. */
MUST_USE int trials_counts(struct engine *e, int64_t step, enum split split, int64_t version, struct trial_counts *ret,
                           struct orch_err *err);

#endif
