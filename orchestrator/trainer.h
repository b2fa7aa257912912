/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The training loop: step 0 is the root; each further step is one batch of
 * trials with the current version and one evolver call. Reading the record is
 * resuming: every part that is settled there is not done again.
 */
#ifndef ORCH_ORCHESTRATOR_TRAINER_H
#define ORCH_ORCHESTRATOR_TRAINER_H

#include "orchestrator/trials.h"

struct trainer_end {
    const char *stop_reason;  /* "steps", "budget", "patience"; static */
    struct version_ref final; /* by trainer.select */
    int64_t steps;            /* settled, without step 0 */
};

/* Trains from wherever the record stands; the engine is started. ORCH_E_INTERRUPTED after a signal. */
MUST_USE int trainer_run(struct engine *e, struct trainer_end *ret, struct orch_err *err);
/* Number of steps that the config asks for. */
int64_t trainer_steps(const struct engine *e);

#endif
