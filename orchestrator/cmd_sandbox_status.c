/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `orch sandbox status`: what the operator config asks for, and what a sandbox opened just now really had. The exit
 * status says whether both agree.
 */
#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "config/confinement.h"
#include "orchestrator/attempt.h"
#include "orchestrator/last_record.h"
#include "orchestrator/layers.h"
#include "orchestrator/matrix.h"
#include "orchestrator/verbs.h"

#include <string.h>

enum state { STATE_ENFORCED, STATE_UNENFORCEABLE, STATE_DISABLED, STATE_COUNT };

/* id, exit status, sentence */
static const struct {
    const char *id;
    int status;
    const char *text;
} states[STATE_COUNT] = {
    [STATE_ENFORCED] = {"enforced", 0, "confinement is enforced as configured"},
    [STATE_UNENFORCEABLE] = {"unenforceable", 3, "confinement cannot be had as configured: nothing would be run"},
    [STATE_DISABLED] = {"disabled", 7,
                        "confinement is switched off by the operator config and " CONFINEMENT_VARIABLE
                        ": runs refuse to start, as running without it is not built yet"},
};

/* Keys that say something about confinement, as the operator config has them. */
static const char *const keys[] = {
    "confinement.required", "confinement.on_unavailable", "confinement.mechanism", "network.permitted", "readable",
    "allow.runner_host",    "allow.container_root",       "uid_range.first",       "uid_range.count"};

static json_t *keys_json(const struct operator_config *config)
{
    AUTO_JSON json_t *all = operator_effective(config);
    json_t *list = json_array();
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        AUTO_FREE char *origin = operator_origin(config, keys[i]);
        json_t *value = all;
        for (const char *at = keys[i]; *at != '\0' && value != NULL;) {
            size_t len = strcspn(at, ".");
            AUTO_FREE char *word = xmemdup0(at, len);
            value = json_get(value, word);
            at += len + (at[len] == '.');
        }
        json_t *o = json_object();
        json_set_str(o, "key", keys[i]);
        json_set_take(o, "value", value != NULL ? json_incref(value) : json_null());
        json_set_str(o, "source", origin);
        json_add_take(list, o);
    }
    return list;
}

static json_t *variables_json(const struct confinement_request *r)
{
    json_t *o = json_object();
    json_set_str(o, CONFINEMENT_VARIABLE, r->word[0] != '\0' ? r->word : NULL);
    json_set_take(o, CONFINEMENT_ALLOW_VARIABLE, json_from_strv(r->readable));
    return o;
}

static json_t *document_of(const struct operator_config *config, const struct confinement_request *request,
                           const struct attempt *a, enum state state, const struct verb_call *call)
{
    json_t *d = verb_json();
    json_t *last = last_record(call);
    const json_t *mechanism = json_get(a->node, "mechanism");
    json_set_str(d, "state", states[state].id);
    json_set_int(d, "exit_status", states[state].status);
    json_set_flag(d, "required", config->confinement.required);
    json_set_take(d, "files", json_from_strv(config->files));
    json_set_take(d, "keys", keys_json(config));
    json_set_take(d, "variables", variables_json(request));
    json_set_take(d, "mechanism", mechanism != NULL ? json_deep_copy(mechanism) : json_null());
    json_set_take(d, "layers", layers_json(a));
    json_set_str(d, "problem", a->err.code < 0 ? a->err.message : NULL);
    json_set_take(d, "last", last != NULL ? last : json_null());
    return d;
}

/* ---- for people ---- */

static void print_escaped(const struct verb_call *call, const char *label, const char *text)
{
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_LINE);
    buf_escaped(&b, text, strlen(text), false);
    verb_print(call, "%-28s %s\n", label, b.data);
}

static void print_keys(const struct verb_call *call, const json_t *d)
{
    size_t i;
    json_t *row;
    verb_print(call, "\nOperator config\n");
    json_array_foreach(json_get(d, "keys"), i, row)
    {
        AUTO_FREE char *value = json_dumps(json_get(row, "value"), JSON_ENCODE_ANY | JSON_COMPACT);
        AUTO_FREE char *text = xasprintf("%s  (%s)", value, json_get_str(row, "source", ""));
        AUTO_FREE char *label = xasprintf("  %s", json_get_str(row, "key", ""));
        print_escaped(call, label, text);
    }
    const char *word = json_get_str(json_get(d, "variables"), CONFINEMENT_VARIABLE, NULL);
    if (word != NULL) {
        print_escaped(call, "  " CONFINEMENT_VARIABLE, word);
    }
    json_array_foreach(json_get(json_get(d, "variables"), CONFINEMENT_ALLOW_VARIABLE), i, row)
    {
        print_escaped(call, "  " CONFINEMENT_ALLOW_VARIABLE, json_string_value(row));
    }
}

static void print_layers(const struct verb_call *call, const json_t *d)
{
    size_t i;
    json_t *row;
    verb_print(call, "\nLayers of a sandbox opened now\n");
    json_array_foreach(json_get(d, "layers"), i, row)
    {
        AUTO_FREE char *label =
            xasprintf("  %-20s %s", json_get_str(row, "id", ""), json_get_flag(row, "on", false) ? "on" : "off");
        print_escaped(call, label, json_get_str(row, "reason", ""));
    }
}

static void print_last(const struct verb_call *call, const json_t *last)
{
    if (!json_is_object(last)) {
        verb_print(call, "\nNo sandbox was recorded in this project\n");
        return;
    }
    const json_t *enforced = json_get(last, "enforced");
    AUTO_FREE char *what = xasprintf("%s %s, network %s, seccomp %s, landlock %s, cgroup %s",
                                     json_get_str(last, "mechanism", "?"), json_get_str(last, "mechanism_version", ""),
                                     json_get_str(enforced, "network", "?"), json_get_str(enforced, "seccomp", "?"),
                                     json_get_str(enforced, "landlock", "?"), json_get_str(enforced, "cgroup", "?"));
    AUTO_FREE char *whose = xasprintf("%s, %s", json_get_str(last, "role", "?"), json_get_str(last, "grade", "?"));
    verb_print(call, "\nLast sandbox of this project\n");
    print_escaped(call, "  run", json_get_str(last, "run", ""));
    print_escaped(call, "  role, grade", whose);
    print_escaped(call, "  written", json_get_str(last, "written", ""));
    print_escaped(call, "  enforced", what);
    print_escaped(call, "  record", json_get_str(last, "file", ""));
}

static void print_text(const struct verb_call *call, const json_t *d, enum state state)
{
    const json_t *mechanism = json_get(d, "mechanism");
    const char *problem = json_get_str(d, "problem", NULL);
    print_escaped(call, "Status", states[state].text);
    print_escaped(call, "Required", json_get_flag(d, "required", true) ? "yes" : "no");
    if (json_is_object(mechanism)) {
        AUTO_FREE char *text = xasprintf("%s %s (%s)", json_get_str(mechanism, "name", ""),
                                         json_get_str(mechanism, "version", ""), json_get_str(mechanism, "path", ""));
        print_escaped(call, "Mechanism", text);
    }
    if (problem != NULL) {
        print_escaped(call, "Problem", problem);
        verb_print(call, "%-28s %s\n", "", "`orch doctor` finds the step that fails, and its remedy");
    }
    print_keys(call, d);
    print_layers(call, d);
    print_last(call, json_get(d, "last"));
}

/* ---- the verb ---- */

static int show_matrix(const struct verb_call *call)
{
    if (call->json) {
        json_t *d = verb_json();
        json_set_take(d, "matrix", matrix_json());
        verb_print_json(call, d);
        return 0;
    }
    bool markdown = verb_flag(call, "markdown");
    AUTO_FREE char *text = markdown ? matrix_markdown() : matrix_text(call->output_terminal ? verb_output_width() : 0);
    verb_print(call, "%s", text);
    return 0;
}

/* Errors here are of the config or of a variable; that confinement cannot be had is a state, not an error. */
static int look(const struct verb_call *call, struct config_findings *findings, int *ret_status, struct orch_err *err)
{
    AUTO_OPERATOR_CONFIG struct operator_config *config = NULL;
    AUTO_CONFINEMENT_REQUEST struct confinement_request request = {0};
    AUTO_ATTEMPT struct attempt a = {.err = ERR_INIT};
    AUTO_FREE char *system = NULL;
    AUTO_FREE char *user = NULL;
    int mechanism = CONFIG_MECHANISM_AUTO;
    operator_directories(&system, &user);
    TRY(operator_load(system, user, &config, findings, err));
    TRY(confinement_request_read(call->environ, &request, err));
    int code = confinement_choose(config, &request, CONFIG_MECHANISM_AUTO, "", false, &mechanism, err);
    enum state state = STATE_UNENFORCEABLE;
    if (code == ORCH_E_UNAVAILABLE) {
        a.err = *err;
        state = request.off && !config->confinement.required ? STATE_DISABLED : STATE_UNENFORCEABLE;
    } else {
        TRY(code);
        attempt_make(call, config, mechanism, &a);
        state = a.enforced ? STATE_ENFORCED : STATE_UNENFORCEABLE;
    }
    json_t *d = document_of(config, &request, &a, state, call);
    *ret_status = states[state].status;
    if (call->json) {
        verb_print_json(call, d);
    } else {
        print_text(call, d, state);
        json_decref(d);
    }
    err_clear(err);
    return 0;
}

static int run(const struct verb_call *call)
{
    if (verb_flag(call, "matrix") || verb_flag(call, "markdown")) {
        return show_matrix(call);
    }
    struct orch_err err = ERR_INIT;
    AUTO_FINDINGS struct config_findings findings = {.count = 0};
    int status = 0;
    int code = look(call, &findings, &status, &err);
    return code < 0 ? verb_fail_findings(call, &findings, &err) : status;
}

static const struct verb_option options[] = {
    {"matrix", NULL, "what each mechanism enforces in each environment, with codes; nothing is opened"},
    {"markdown", NULL, "the matrix as Markdown"},
    {NULL, NULL, NULL},
};

const struct verb cmd_sandbox_status = {
    .name = "sandbox status",
    .summary = "Shows whether confinement is required, and what a sandbox has here",
    .usage = "orch sandbox status [--matrix [--markdown]]",
    .help = "Opens an empty sandbox and shows each layer as it found it, the operator config with the file each key\n"
            "comes from, and the project's last sandbox record. Exit 0: enforced as configured; 3: it cannot be\n"
            "enforced, nothing would be run; 7: switched off (`required: false` and ORCH_AGENT_SANDBOX=off).\n"
            "\n"
            "Examples:\n"
            "  orch sandbox status\n"
            "  orch sandbox status --json\n"
            "  orch sandbox status --matrix\n"
            "  orch sandbox status --matrix --markdown >sandbox-matrix.md\n",
    .options = options,
    .run = run,
};
