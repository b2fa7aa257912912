/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The budget of a run, over all its starts: calls of all roles, and time in which a runner worked on it. Looked at
 * before each trial and each evolver call; what runs is not ended. Loop thread only.
 */
#ifndef ORCH_ORCHESTRATOR_BUDGET_H
#define ORCH_ORCHESTRATOR_BUDGET_H

#include "orchestrator/engine.h"

/* What earlier starts used, from the record. After engine_adopt. */
MUST_USE int budget_open(struct engine *e, struct orch_err *err);
/* Whether `calls` more calls, or any more time, are over what the config allows. */
bool budget_over(const struct engine *e, int64_t calls);
/* ORCH_E_BUDGET if so. */
MUST_USE int budget_check(const struct engine *e, int64_t calls, struct orch_err *err);
/* Keeps the time so far in the record. */
MUST_USE int budget_keep(struct engine *e, struct orch_err *err);

#endif
