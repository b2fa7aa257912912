/* SPDX-License-Identifier: Apache-2.0 */
/* `orch sandbox enable`: requires confinement in the user's operator config, and says on what terms. */
#include "base/json.h"
#include "base/mem.h"
#include "config/confinement.h"
#include "orchestrator/attempt.h"
#include "orchestrator/policy_edit.h"
#include "orchestrator/verbs.h"

#include <string.h>

static char *list_of(const char *const *names)
{
    char *text = xstrdup("");
    for (size_t i = 0; names[i] != NULL; i++) {
        char *more = xasprintf("%s%s%s", text, i == 0 ? "" : ", ", names[i]);
        free(text);
        text = more;
    }
    return text;
}

static int check_word(const char *option, const char *word, const char *const *names, struct orch_err *err)
{
    for (size_t i = 0; names[i] != NULL; i++) {
        if (strcmp(names[i], word) == 0) {
            return 0;
        }
    }
    AUTO_FREE char *all = list_of(names);
    return err_set(err, ORCH_E_USAGE, "--%s %.60s: write one of %s", option, word, all);
}

/* What a config can hold: UTF-8 without control characters. */
static bool is_text(const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f) {
            return false;
        }
    }
    AUTO_JSON json_t *value = json_string(text); /* NULL: not UTF-8 */
    return value != NULL;
}

static void add_once(json_t *list, const char *text)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        if (strcmp(json_string_value(item), text) == 0) {
            return;
        }
    }
    json_add_str(list, text);
}

/* ---- one function an option ---- */

/* Given several times, or with commas. */
static int set_networks(const struct verb_call *call, struct policy_edit *e, struct orch_err *err)
{
    AUTO_STRV char **given = verb_option_values(call, "network");
    AUTO_JSON json_t *list = json_array();
    for (char **g = given; *g != NULL; g++) {
        const char *at = *g;
        for (bool more = true; more;) {
            size_t len = strcspn(at, ",");
            AUTO_FREE char *word = xmemdup0(at, len);
            TRY(check_word("network", word, config_network_names, err));
            add_once(list, word);
            more = at[len] == ',';
            at += len + more;
        }
    }
    if (given[0] != NULL) {
        policy_edit_set(e, "network.permitted", json_incref(list));
    }
    return 0;
}

static int set_mechanism(const struct verb_call *call, struct policy_edit *e, struct orch_err *err)
{
    const char *word = verb_option_value(call, "mechanism");
    if (word != NULL) {
        TRY(check_word("mechanism", word, config_mechanism_names, err));
        policy_edit_set(e, "confinement.mechanism", json_text(word, strlen(word)));
    }
    return 0;
}

/* Whatever was in effect, `required: true` allows only this. */
static int set_unavailable(const struct verb_call *call, struct policy_edit *e, struct orch_err *err)
{
    const char *word = verb_option_value(call, "on-unavailable");
    const char *refuse = config_unavailable_names[OPERATOR_ON_UNAVAILABLE_REFUSE];
    if (word != NULL) {
        TRY(check_word("on-unavailable", word, config_unavailable_names, err));
        if (strcmp(word, refuse) != 0) {
            return err_set(err, ORCH_E_USAGE,
                           "--on-unavailable %s starts calls without confinement, which enable forbids: it sets "
                           "confinement.required: true. Write refuse, or edit %s by hand with required: false",
                           word, e->file);
        }
    }
    if (word != NULL || e->now->confinement.on_unavailable != OPERATOR_ON_UNAVAILABLE_REFUSE) {
        policy_edit_set(e, "confinement.on_unavailable", json_text(refuse, strlen(refuse)));
    }
    return 0;
}

static int add_readable(const struct verb_call *call, struct policy_edit *e, struct orch_err *err)
{
    AUTO_STRV char **given = verb_option_values(call, "allow");
    AUTO_JSON json_t *list = json_from_strv(e->now->readable);
    for (char **g = given; *g != NULL; g++) {
        AUTO_FREE char *path = NULL;
        if (confinement_readable_check(*g, &path, err) < 0) {
            return err_wrap(err, "--allow");
        }
        if (strstr(path, "${") != NULL || !is_text(path)) {
            return err_set(err, ORCH_E_CONFIG, "--allow: %.400s cannot be written in a config", path);
        }
        add_once(list, path);
    }
    if (given[0] != NULL) {
        policy_edit_set(e, "readable", json_incref(list));
    }
    return 0;
}

/* ---- the verb ---- */

static int plan(const struct verb_call *call, struct policy_edit *e, struct orch_err *err)
{
    TRY(policy_edit_begin(e, err));
    policy_edit_set(e, "confinement.required", json_true());
    TRY(set_unavailable(call, e, err));
    TRY(set_mechanism(call, e, err));
    TRY(set_networks(call, e, err));
    TRY(add_readable(call, e, err));
    return policy_edit_plan(e, err);
}

static void tell(const struct verb_call *call, const struct policy_edit *e, bool written, const struct attempt *a)
{
    if (call->json) {
        json_t *d = policy_edit_json(e, written);
        json_set_flag(d, "enforceable", a->enforced);
        json_set_str(d, "problem", a->enforced ? NULL : a->err.message);
        verb_print_json(call, d);
        return;
    }
    policy_edit_print(call, e);
    verb_print(call, e->diff[0] == '\0' ? "nothing to change: %s says so already\n" : "written: %s\n", e->file);
    if (!a->enforced) {
        verb_print(call, "confinement cannot be had here, so nothing will be run: %s\n", a->err.message);
    }
    verb_note(call, "`orch sandbox status` shows what a sandbox has here");
}

static int run(const struct verb_call *call)
{
    struct orch_err err = ERR_INIT;
    AUTO_POLICY_EDIT struct policy_edit e = {0};
    AUTO_ATTEMPT struct attempt a = {.enforced = false};
    if (plan(call, &e, &err) < 0) {
        return verb_fail_findings(call, &e.findings, &err);
    }
    attempt_make(call, e.then, e.then->confinement.mechanism, &a);
    if (!a.enforced && !verb_flag(call, "force")) {
        (void)err_set(&err, ORCH_E_UNAVAILABLE,
                      "confinement cannot be had here: %.700s; nothing was written (--force writes it all the same)",
                      a.err.message);
        return verb_fail(call, &err);
    }
    if (policy_edit_write(&e, &err) < 0) {
        return verb_fail(call, &err);
    }
    tell(call, &e, e.diff[0] != '\0', &a);
    return a.enforced ? 0 : err_exit_status(ORCH_E_UNAVAILABLE);
}

static const struct verb_option options[] = {
    {"network", "MODE", "permit only these network modes (no-network, allowlist, public); repeat it, or use commas"},
    {"allow", "PATH", "let every sandbox read this path, too; repeat it for more"},
    {"on-unavailable", "WHAT", "refuse; warn and silent are refused, as they need `required: false`"},
    {"mechanism", "NAME", "the mechanism that must enforce it: auto, namespaces, bubblewrap or landlock"},
    {"force", NULL, "write it even where confinement cannot be had; the exit status is 3 then, too"},
    {NULL, NULL, NULL},
};

const struct verb cmd_sandbox_enable = {
    .name = "sandbox enable",
    .summary = "Requires confinement, in the user's operator config",
    .usage = "orch sandbox enable [--network MODE]… [--allow PATH]… [--mechanism NAME] [--force]",
    .help =
        "Sets confinement.required: true in confinement.yaml of the user's operator config (~/.config/orch), and "
        "what\n"
        "else is asked for; comments and order stay. Prints the change. Whole homes, system roots and credential\n"
        "stores are never allowed. Exit 2: a bad value; 3: confinement cannot be had here, and nothing is written;\n"
        "7: /etc/orch decides otherwise.\n"
        "\n"
        "Examples:\n"
        "  orch sandbox enable\n"
        "  orch sandbox enable --network no-network --allow /data/corpus --allow /opt/tools\n"
        "  orch sandbox enable --mechanism bubblewrap --json\n",
    .options = options,
    .run = run,
};
