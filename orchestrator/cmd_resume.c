/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/find_run.h"
#include "orchestrator/run_verb.h"
#include "orchestrator/verbs.h"

#include "base/json.h"
#include "base/mem.h"

#include <string.h>

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
    TRY(run_verb_check(e, err));
    TRY(engine_meaning(e, "run", NULL, err));
    TRY(find_run_compare(e, id, err));
    TRY(engine_adopt(e, id, err));
    verb_note(call, "run %s goes on", e->run_id);
    return run_verb_train(e, ret_status, err);
}

static int cmd_resume_main(const struct verb_call *call)
{
    struct engine e = {0};
    struct orch_err err = ERR_INIT;
    int status = 0;
    int code = resume(&e, call, &status, &err);
    return run_verb_end(&e, call, code, status, &err);
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
