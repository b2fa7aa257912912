/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/find_run.h"
#include "orchestrator/run_verb.h"
#include "orchestrator/verbs.h"

#include "base/json.h"
#include "base/mem.h"

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

static int run(struct engine *e, const struct verb_call *call, int *ret_status, struct orch_err *err)
{
    TRY(engine_load(e, call, call->args[0], call->args + 1, err));
    TRY(run_verb_check(e, err));
    TRY(engine_meaning(e, "run", NULL, err));
    AUTO_START_GUARD int guard = -1;
    TRY(start_guard_take(e, &guard, err));
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
    start_guard_drop(&guard);
    verb_note(call, "run %s%s", e->run_id, found == FOUND_UNFINISHED ? " goes on" : "");
    return run_verb_train(e, ret_status, err);
}

static int cmd_run_main(const struct verb_call *call)
{
    struct engine e = {0};
    struct orch_err err = ERR_INIT;
    int status = 0;
    int code = run(&e, call, &status, &err);
    return run_verb_end(&e, call, code, status, &err);
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
