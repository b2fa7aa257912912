/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/finish.h"
#include "orchestrator/find_run.h"
#include "orchestrator/trainer.h"
#include "orchestrator/verbs.h"

#include "base/json.h"
#include "base/mem.h"

#include <string.h>

static int check_config(const struct engine *e, struct orch_err *err)
{
    const struct run_config *c = e->config;
    if (tasks_split_count(e->tasks, TASKS_TRAIN) == 0) {
        return err_set(err, ORCH_E_CONFIG, "data.train: the training split is empty");
    }
    if (c->evolver.command[0] == NULL) {
        return err_set(err, ORCH_E_CONFIG, "evolver.command: a training run needs an evolver");
    }
    bool validates = c->trainer.gate == CONFIG_GATE_VALIDATION || c->trainer.select == CONFIG_SELECT_BEST;
    if (validates && tasks_split_count(e->tasks, TASKS_VAL) == 0) {
        return err_set(err, ORCH_E_CONFIG, "trainer.gate: validation and trainer.select: best need data.val");
    }
    return 0;
}

static int say_complete(const struct verb_call *call, const char *id)
{
    if (call->json) {
        json_t *o = json_object();
        json_set_int(o, "version", 1);
        json_set_str(o, "run", id);
        json_set_str(o, "state", "finished");
        json_set_flag(o, "ran", false);
        verb_print_json(call, o);
    } else {
        verb_print(call, "run %s is complete; nothing was run (--new starts another, `orch show %s` shows it)\n", id,
                   id);
    }
    return 0;
}

static int train(struct engine *e, int *ret_status, struct orch_err *err)
{
    TRY(engine_start(e, true, err));
    struct trainer_end end;
    TRY(trainer_run(e, &end, err));
    struct finish f = {.kind = "run", .stop_reason = end.stop_reason, .final = &end.final};
    return finish_run(e, &f, ret_status, err);
}

static int run(struct engine *e, const struct verb_call *call, int *ret_status, struct orch_err *err)
{
    TRY(engine_load(e, call, call->args[0], call->args + 1, err));
    TRY(check_config(e, err));
    TRY(engine_meaning(e, "run", NULL, err));
    enum found found = FOUND_NONE;
    AUTO_FREE char *id = NULL;
    if (!verb_flag(call, "new")) {
        TRY(find_run(e, "run", true, &found, &id, err));
    }
    if (found == FOUND_FINISHED) {
        *ret_status = say_complete(call, id);
        return 0;
    }
    TRY(found == FOUND_UNFINISHED ? engine_adopt(e, id, err) : engine_create(e, "run", err));
    verb_note(call, "run %s%s", e->run_id, found == FOUND_UNFINISHED ? " goes on" : "");
    return train(e, ret_status, err);
}

/* Shared with `orch resume`: an error after the run was opened is told to the record too. */
static int end_verb(struct engine *e, const struct verb_call *call, int code, int status, struct orch_err *err)
{
    if (code < 0) {
        finish_stopped(e, err);
    }
    engine_close(e);
    return code < 0 ? verb_fail(call, err) : status;
}

static int cmd_run_main(const struct verb_call *call)
{
    struct engine e = {0};
    struct orch_err err = ERR_INIT;
    int status = 0;
    int code = run(&e, call, &status, &err);
    return end_verb(&e, call, code, status, &err);
}

static const struct verb_option run_options[] = {
    {"new", NULL, "start another run, whatever exists"},
    {NULL, NULL, NULL},
};

const struct verb cmd_run = {
    .name = "run",
    .summary = "Train: run the training loop that a config describes, or go on with it",
    .usage = "orch run FILE [key.path=value…]",
    .help = "Runs the newest unfinished run of the config's name whose meaning is the same, says so when it is\n"
            "complete, and refuses with the differences when the config or what it names has changed.\n"
            "The first Ctrl-C stops and keeps everything; the same command goes on.\n"
            "\n"
            "Examples:\n"
            "  orch run examples/tiny/run.yaml\n"
            "  orch run run.yaml task.concurrency=8 trainer.steps=3\n"
            "  orch run run.yaml --new --json\n",
    .options = run_options,
    .min_args = 1,
    .max_args = SIZE_MAX,
    .run = cmd_run_main,
};

/* ------------------------------------------------------------------ resume */

static int resume(struct engine *e, const struct verb_call *call, int *ret_status, struct orch_err *err)
{
    AUTO_LAYOUT struct layout layout = {0};
    AUTO_FREE char *id = NULL;
    AUTO_FREE char *config = NULL;
    AUTO_FREE char *kind = NULL;
    AUTO_FREE char *given = NULL;
    TRY(layout_find(NULL, verb_option_value(call, "project"), NULL, &layout, err));
    TRY(layout_run_select(&layout, call->args[0], &id, err));
    TRY(find_run_meta(&layout, &call->clock, id, "config_file", &config, err));
    TRY(find_run_meta(&layout, &call->clock, id, "kind", &kind, err));
    TRY(find_run_meta(&layout, &call->clock, id, "overrides", &given, err));
    if (strcmp(kind, "run") != 0) {
        return err_set(err, ORCH_E_USAGE, "run %s is of kind \"%s\"; repeat its command to go on with it", id, kind);
    }
    AUTO_JSON json_t *wrapped = json_object();
    json_t *list = json_loads(given, 0, NULL);
    json_set_take(wrapped, "overrides", list != NULL ? list : json_array());
    AUTO_STRV char **overrides = json_get_strv(wrapped, "overrides");
    for (size_t i = 1; i < call->arg_count; i++) {
        overrides = strv_append(overrides, xstrdup(call->args[i]));
    }
    TRY(engine_load(e, call, config, overrides, err));
    TRY(check_config(e, err));
    TRY(engine_meaning(e, "run", NULL, err));
    TRY(find_run_compare(e, id, err));
    TRY(engine_adopt(e, id, err));
    verb_note(call, "run %s goes on", e->run_id);
    return train(e, ret_status, err);
}

static int cmd_resume_main(const struct verb_call *call)
{
    struct engine e = {0};
    struct orch_err err = ERR_INIT;
    int status = 0;
    int code = resume(&e, call, &status, &err);
    return end_verb(&e, call, code, status, &err);
}

const struct verb cmd_resume = {
    .name = "resume",
    .summary = "Make a run go on, whatever stopped it",
    .usage = "orch resume RUN [key.path=value…]",
    .help = "The config it was started from is read again; what changes its meaning is refused with the difference.\n"
            "Budgets, limits of time and concurrency may change.\n"
            "\n"
            "Examples:\n"
            "  orch resume latest\n"
            "  orch resume dates budget.wall=2h\n",
    .min_args = 1,
    .max_args = SIZE_MAX,
    .run = cmd_resume_main,
};
