/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/built.h"

#include "backends/environments/registry.h"
#include "base/mem.h"

#include <unistd.h>

static bool network_of(const struct config_access *a)
{
    return a->network != CONFIG_NETWORK_NO_NETWORK;
}

static bool python_of(const struct config_access *a)
{
    return a->python != NULL || a->packages[0] != NULL;
}

#define ASKS(name, expression)                                                                                         \
    static bool asks_##name(const struct run_config *c)                                                                \
    {                                                                                                                  \
        return expression;                                                                                             \
    }
ASKS(harbor, c->data.harbor != NULL)
ASKS(project, c->candidate.project != NULL)
ASKS(masks, c->candidate.read_only[0] != NULL || c->candidate.hidden[0] != NULL)
ASKS(build, c->candidate.build.command[0] != NULL)
ASKS(runner, c->task.environment.runner != CONFIG_RUNNER_SANDBOX)
ASKS(accelerator, c->task.environment.backend > CONFIG_BACKEND_CPU)
ASKS(agent, c->task.agent != CONFIG_AGENT_COMMAND && c->task.agent != CONFIG_AGENT_NOP)
ASKS(evolver, c->evolver.agent != CONFIG_AGENT_COMMAND && c->evolver.agent != CONFIG_AGENT_NOP)
ASKS(models, c->task.model != NULL || c->evolver.model != NULL)
ASKS(tools, c->task.tool_count > 0 || c->evolver.grants.tools[0] != NULL)
ASKS(method, c->evolver.method != NULL)
ASKS(validation, c->evolver.grants.validation)
ASKS(network, network_of(&c->task.access) || network_of(&c->evolver.access))
ASKS(gpu, c->task.access.gpu > 0 || c->evolver.access.gpu > 0)
ASKS(python, python_of(&c->task.access) || python_of(&c->judge.access) || python_of(&c->evolver.access))
ASKS(shared, c->judge.mode == CONFIG_JUDGE_SHARED)
ASKS(gates, c->judge.check_command[0] != NULL || c->judge.measure.command[0] != NULL)
ASKS(mechanism, c->sandbox.mechanism != CONFIG_MECHANISM_AUTO && c->sandbox.mechanism != CONFIG_MECHANISM_NAMESPACES &&
                    c->sandbox.mechanism != CONFIG_MECHANISM_BUBBLEWRAP &&
                    c->sandbox.mechanism != CONFIG_MECHANISM_LANDLOCK)
ASKS(hide, c->sandbox.hide[0] != NULL)
/* as root each sandbox is another uid: they cannot share a directory of the user's yet */
ASKS(shared_writes,
     geteuid() == 0 && (c->task.access.paths_write[0] != NULL || c->evolver.access.paths_write[0] != NULL))

struct unbuilt {
    bool (*asks)(const struct run_config *c);
    const char *key;
    const char *instead;
};

static const struct unbuilt table[] = {
    {asks_harbor, "data.harbor", "give data.tasks"},
    {asks_project, "candidate.project", "give candidate.template"},
    {asks_masks, "candidate.read_only, candidate.hidden", "name what is fixed in adapter.yaml"},
    {asks_build, "candidate.build", "leave it out"},
    {asks_runner, "environment.runner: host", "leave it out"},
    {asks_accelerator, "environment.backend", "write auto or cpu"},
    {asks_agent, "task.agent", "write command or nop"},
    {asks_evolver, "evolver.agent", "write command or nop"},
    {asks_models, "task.model, evolver.model", "leave them out"},
    {asks_tools, "task.tools", "leave them out"},
    {asks_method, "evolver.method", "give evolver.command"},
    {asks_validation, "evolver.access.validation", "leave it out"},
    {asks_network, "network", "write no-network"},
    {asks_gpu, "devices.gpu", "leave it out"},
    {asks_python, "python, packages", "name the interpreter in the program's first line"},
    {asks_shared, "judge.mode: shared", "write host or separate"},
    {asks_gates, "judge.check, judge.measure", "leave them out"},
    {asks_mechanism, "sandbox.mechanism", "write auto, namespaces or bubblewrap"},
    {asks_hide, "sandbox.hide", "leave it out"},
    {asks_shared_writes, "paths.write as root", "write to /w/output, or run orch as an ordinary user"},
};

int built_check(const struct run_config *c, struct orch_err *err)
{
    const struct environment_row *row;
    TRY(environment_row_find(config_environment_names[c->environment.kind], &row, err));
    TRY(environment_row_find(config_environment_names[c->task.environment.kind], &row, err));
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        if (table[i].asks(c)) {
            return err_set(err, ORCH_E_UNAVAILABLE, "%s is not built yet; %s", table[i].key, table[i].instead);
        }
    }
    return 0;
}
