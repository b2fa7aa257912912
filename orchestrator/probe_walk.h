/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks the steps of confinement in their order, each in a child process, and names the first that fails. A step that
 * needs one which failed is not tried.
 */
#ifndef ORCH_ORCHESTRATOR_PROBE_WALK_H
#define ORCH_ORCHESTRATOR_PROBE_WALK_H

#include "orchestrator/attempt.h"
#include "orchestrator/diagnosis.h"

enum walk_state { WALK_WORKS, WALK_FAILS, WALK_NOT_TRIED, WALK_STATE_COUNT };

struct walk_step {
    enum walk_state state;
    int sys;                    /* errno of the failure, 0 when there is none to tell */
    char *what;                 /* what was done or found, or the step that is missing; owned */
    struct diagnosis diagnosis; /* of a failure */
    int64_t ns;
};

struct walk {
    struct machine machine;
    struct walk_step steps[DIAGNOSIS_STEP_COUNT];
    int first; /* enum diagnosis_step that failed first and that `auto` cannot do without; -1: none */
};

/* Blocks for some ten milliseconds. `attempt`: what an opened sandbox had, for the control groups. */
void walk_all(const struct verb_call *call, const struct operator_config *config, const struct attempt *attempt,
              struct walk *ret);
void walk_done(struct walk *w); /* accepts a zeroed struct */
#define AUTO_WALK __attribute__((cleanup(walk_done)))

/* Is this version, "0.8.0", older than that one? */
bool walk_is_older(const char *version, const char *than);

#endif
