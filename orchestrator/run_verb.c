/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/run_verb.h"

#include "base/mem.h"
#include "base/path.h"
#include "orchestrator/finish.h"
#include "orchestrator/trainer.h"

#include <unistd.h>

int run_verb_check(const struct engine *e, struct orch_err *err)
{
    const struct run_config *c = e->config;
    if (tasks_split_count(e->tasks, TASKS_TRAIN) == 0) {
        return err_set(err, ORCH_E_CONFIG, "data.train: the training split is empty");
    }
    if (c->evolver.agent == CONFIG_AGENT_COMMAND && c->evolver.command[0] == NULL) {
        return err_set(err, ORCH_E_CONFIG,
                       "evolver.command: a training run needs an evolver; name the program, or write "
                       "`evolver.agent: nop` to measure only (`orch eval` needs none)");
    }
    if (c->task_info != NULL) {
        AUTO_FREE char *readme = path_join(c->task_info, "README.md");
        if (access(readme, R_OK) != 0) {
            return err_set(err, ORCH_E_CONFIG, "task_info: %s is missing; write it, or leave task_info out", readme);
        }
    }
    bool validates = c->trainer.gate == CONFIG_GATE_VALIDATION || c->trainer.select == CONFIG_SELECT_BEST;
    if (validates && tasks_split_count(e->tasks, TASKS_VAL) == 0) {
        return err_set(err, ORCH_E_CONFIG, "trainer.gate: validation and trainer.select: best need data.val");
    }
    return 0;
}

int run_verb_train(struct engine *e, int *ret_status, struct orch_err *err)
{
    TRY(engine_start(e, true, err));
    struct trainer_end end;
    TRY(trainer_run(e, &end, err));
    struct finish f = {.kind = "run", .stop_reason = end.stop_reason, .final = &end.final};
    return finish_run(e, &f, ret_status, err);
}

int run_verb_end(struct engine *e, const struct verb_call *call, int code, int status, struct orch_err *err)
{
    if (code < 0) {
        finish_stopped(e, err);
        progress_free(e->progress); /* ends the live line before the error is told */
        e->progress = NULL;
        status = verb_fail_findings(call, &e->findings, err);
    }
    engine_close(e);
    return status;
}
