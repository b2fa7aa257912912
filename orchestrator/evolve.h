/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second half of a step: material, the evolver's call, the candidate, the
 * template's check. Each part leaves its result in the step's directory before
 * the record says so; a run that was stopped goes on after the last one.
 *
 *   steps/0003/material/    what the evolver read
 *   steps/0003/candidate/   what it left, through the handoff
 *   steps/0003/state/       its kept state
 */
#ifndef ORCH_ORCHESTRATOR_EVOLVE_H
#define ORCH_ORCHESTRATOR_EVOLVE_H

#include "orchestrator/trials.h"

struct evolve_step {
    int64_t step;
    const struct version_ref *base;
    const char *root_source; /* grant source of version 0 */
    int64_t state_step;      /* the step whose kept state goes on; 0: none */
};

struct evolve_result {
    bool ok;        /* the evolver exited 0 and left a candidate */
    char *reason;   /* why not; owned, NULL when ok */
    char *left_out; /* what of its candidate did not pass the handoff; owned, NULL: nothing */
};

/* Writes the material, runs the evolver (infrastructure errors are repeated as trials are), keeps what it left.
 * ret->ok false: the evolver's own failure; an error: ours. */
MUST_USE int evolve_call(struct engine *e, const struct evolve_step *s, struct evolve_result *ret,
                         struct orch_err *err);
/* Checks steps/<step>/candidate by the template's rules and its check program. *ret_reason: NULL when it passes,
 * else why not (owned). */
MUST_USE int evolve_check(struct engine *e, const struct evolve_step *s, const char *root_dir, char **ret_reason,
                          struct orch_err *err);
/* Absolute path of steps/<step>/<part>; owned. */
char *evolve_path(const struct engine *e, int64_t step, const char *part);

#endif
