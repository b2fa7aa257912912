/* SPDX-License-Identifier: Apache-2.0 */
/* `orch sandbox disable`: no longer requires confinement, as far as the system's config leaves that to the user. */
#include "base/json.h"
#include "base/mem.h"
#include "orchestrator/policy_edit.h"
#include "orchestrator/verbs.h"

#include <string.h>

#define STILL                                                                                                          \
    "calls are still confined wherever that can be had, and refused elsewhere: running without is not built yet"

static int plan(struct policy_edit *e, struct orch_err *err)
{
    TRY(policy_edit_begin(e, err));
    policy_edit_set(e, "confinement.required", json_false());
    return policy_edit_plan(e, err);
}

/* Without --yes: what would be done, and exit 2. */
static int ask(const struct verb_call *call, const struct policy_edit *e)
{
    struct orch_err err = ERR_INIT;
    if (!call->json) {
        policy_edit_print(call, e);
    }
    (void)err_set(&err, ORCH_E_USAGE, "this would no longer require confinement (%s); nothing was written: add --yes",
                  e->file);
    return verb_fail(call, &err);
}

static void tell(const struct verb_call *call, const struct policy_edit *e, bool written)
{
    if (call->json) {
        json_t *d = policy_edit_json(e, written);
        json_set_str(d, "note", STILL);
        verb_print_json(call, d);
        return;
    }
    policy_edit_print(call, e);
    verb_print(call, written ? "written: %s\n" : "nothing to change: %s says so already\n", e->file);
    verb_note(call, STILL);
}

static int run(const struct verb_call *call)
{
    struct orch_err err = ERR_INIT;
    AUTO_POLICY_EDIT struct policy_edit e = {0};
    if (plan(&e, &err) < 0) {
        return verb_fail_findings(call, &e.findings, &err);
    }
    bool changes = e.diff[0] != '\0';
    if (changes && !verb_flag(call, "yes")) {
        return ask(call, &e);
    }
    if (policy_edit_write(&e, &err) < 0) {
        return verb_fail(call, &err);
    }
    tell(call, &e, changes);
    return 0;
}

static const struct verb_option options[] = {
    {"yes", NULL, "do it; without it the change is only shown, with exit 2"},
    {NULL, NULL, NULL},
};

const struct verb cmd_sandbox_disable = {
    .name = "sandbox disable",
    .summary = "No longer requires confinement, in the user's operator config",
    .usage = "orch sandbox disable [--yes]",
    .help = "Sets confinement.required: false in confinement.yaml of the user's operator config (~/.config/orch).\n"
            "Exit 2: without --yes, nothing is written; 7: /etc/orch requires confinement, which nobody else decides.\n"
            "\n"
            "Examples:\n"
            "  orch sandbox disable\n"
            "  orch sandbox disable --yes\n",
    .options = options,
    .run = run,
};
