/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "orchestrator/run_view.h"
#include "orchestrator/show.h"
#include "orchestrator/verbs.h"

static int show(const struct verb_call *call, struct orch_err *err)
{
    AUTO_RUN_VIEW struct run_view v = {0};
    bool list = verb_flag(call, "trials");
    if (list && call->arg_count > 1) {
        return err_set(err, ORCH_E_USAGE, "--trials lists trials: give it or one trial");
    }
    TRY(run_view_open(call, call->arg_count > 0 ? call->args[0] : NULL, &v, err));
    if (list) {
        return show_trials(call, &v, err);
    }
    if (call->arg_count > 1) {
        int64_t trial = 0;
        TRY(run_view_trial(&v, call->args[1], &trial, err));
        return show_trial(call, &v, trial, err);
    }
    return show_run(call, &v, err);
}

static int run(const struct verb_call *call)
{
    struct orch_err err = ERR_INIT;
    return show(call, &err) < 0 ? verb_fail(call, &err) : 0;
}

static const struct verb_option options[] = {
    {"trials", NULL, "list the trials instead"},
    {"step", "N", "with --trials: only of this step"},
    {"split", "SPLIT", "with --trials: train, val, test or rollout"},
    {"result", "KIND", "with --trials: scored, agent-limit, infrastructure-error, judge-error or not-run"},
    {"task", "ID", "with --trials: only of this task"},
    RUN_VIEW_OPTION,
    {NULL, NULL, NULL},
};

const struct verb cmd_show = {
    .name = "show",
    .summary = "Shows a run, its trials, or one trial in full",
    .usage = "orch show [RUN [TRIAL]] [--trials]",
    .help =
        "RUN: an id, a unique prefix, a name (its newest run) or latest (the default). TRIAL: its number, or the id\n"
        "of a task that has one trial.\n"
        "\n"
        "Every summary names what was planned, scored, limited, lost to infrastructure or to the judge, and not\n"
        "run, what the mean is over, and the grades: what confinement the calls really had.\n"
        "\n"
        "Examples:\n"
        "  orch show\n"
        "  orch show dates --trials --step 3 --result agent-limit\n"
        "  orch show dates 17\n"
        "  orch show latest --json\n",
    .options = options,
    .max_args = 2,
    .run = run,
};
