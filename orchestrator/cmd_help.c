/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "orchestrator/verbs.h"

#include <string.h>

static void add_options(json_t *to, const struct verb_option *list)
{
    json_t *array = json_array();
    for (; list != NULL && list->name != NULL; list++) {
        json_t *option = json_object();
        json_set_str(option, "name", list->name);
        json_set_str(option, "value", list->value);
        json_set_str(option, "help", list->help);
        json_add_take(array, option);
    }
    json_set_take(to, "options", array);
}

static json_t *verb_as_json(const struct verb *verb)
{
    json_t *object = json_object();
    json_set_str(object, "name", verb->name);
    json_set_str(object, "summary", verb->summary);
    json_set_str(object, "usage", verb->usage);
    json_set_str(object, "help", verb->help);
    add_options(object, verb->options);
    return object;
}

static int print_json(const struct verb_call *call, const struct verb *only)
{
    json_t *document = verb_json();
    json_t *array = json_array();
    for (size_t i = 0; verbs[i] != NULL; i++) {
        if (only == NULL || only == verbs[i]) {
            json_add_take(array, verb_as_json(verbs[i]));
        }
    }
    json_set_take(document, "verbs", array);
    add_options(document, verb_common_options);
    verb_print_json(call, document);
    return 0;
}

static int unknown(const struct verb_call *call, const char *name)
{
    struct orch_err err = ERR_INIT;
    char near[VERB_NAME_MAX];
    if (verb_nearest(verbs, name, near) != NULL) {
        (void)err_set(&err, ORCH_E_USAGE, "there is no verb `%.100s`; did you mean `orch help %s`?", name, near);
    } else {
        (void)err_set(&err, ORCH_E_USAGE, "there is no verb `%.100s`", name);
    }
    return verb_fail(call, &err);
}

static int run(const struct verb_call *call)
{
    AUTO_FREE char *name = call->arg_count == 2   ? xasprintf("%s %s", call->args[0], call->args[1])
                           : call->arg_count == 1 ? xstrdup(call->args[0])
                                                  : NULL;
    const struct verb *verb = name != NULL ? verb_find(verbs, name) : NULL;
    bool group = name != NULL && verb_is_group(verbs, name);
    if (name != NULL && verb == NULL && !group) {
        return unknown(call, name);
    }
    if (call->json) {
        return print_json(call, verb);
    }
    AUTO_FREE char *text = verb != NULL ? help_verb(verb) : group ? help_group(verbs, name) : help_overview(verbs);
    verb_print(call, "%s", text);
    return 0;
}

const struct verb cmd_help = {
    .name = "help",
    .summary = "Tells about a verb, with examples",
    .usage = "orch help [VERB]",
    .help = "Examples:\n"
            "  orch help                 all verbs\n"
            "  orch help show            one verb; the same as orch show --help\n"
            "  orch help config          the verbs of two words\n"
            "  orch help --json          verbs and options for programs\n",
    .max_args = 2,
    .run = run,
};
