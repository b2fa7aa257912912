/* SPDX-License-Identifier: Apache-2.0 */
/* What `orch run` and `orch resume` share. */
#ifndef ORCH_ORCHESTRATOR_RUN_VERB_H
#define ORCH_ORCHESTRATOR_RUN_VERB_H

#include "orchestrator/engine.h"

/* What a training run needs beyond a valid config. */
MUST_USE int run_verb_check(const struct engine *e, struct orch_err *err);
/* Starts the opened run's parts, trains to the end, writes the summary. */
MUST_USE int run_verb_train(struct engine *e, int *ret_status, struct orch_err *err);
/* Closes the engine; an error is told to the record and to the user. Returns the exit status. */
int run_verb_end(struct engine *e, const struct verb_call *call, int code, int status, struct orch_err *err);

#endif
