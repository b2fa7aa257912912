/* SPDX-License-Identifier: Apache-2.0 */
/* The one table of the run config. Everything else about keys is made from it. */
#include "base/mem.h"
#include "config/run_config.h"
#include "config/schema.h"

#include <stddef.h>

#define X(n, word) word,
#define WORDS(lower, list) const char *const config_##lower##_names[] = {list(X) NULL}
WORDS(environment, CONFIG_ENVIRONMENTS);
WORDS(backend, CONFIG_BACKENDS);
WORDS(runner, CONFIG_RUNNERS);
WORDS(agent, CONFIG_AGENTS);
WORDS(network, CONFIG_NETWORKS);
WORDS(judge_mode, CONFIG_JUDGE_MODES);
WORDS(gate, CONFIG_GATES);
WORDS(select, CONFIG_SELECTS);
WORDS(unpriced, CONFIG_UNPRICED);
WORDS(mechanism, CONFIG_MECHANISMS);
WORDS(provider, CONFIG_PROVIDERS);
#undef X

#define AT(member) .offset = offsetof(struct run_config, member)
#define NULLABLE CONFIG_NULLABLE
#define REQUIRED CONFIG_REQUIRED
#define VOLATILE CONFIG_VOLATILE

#define KIB 1024.0
#define TIB (KIB * KIB * KIB * KIB)
#define DAY_S 86400.0
#define YEAR_S (366 * DAY_S)
/* The largest whole number that every JSON reader keeps. */
#define EXACT_MAX 9007199254740991.0

/* NOLINTBEGIN(bugprone-macro-parentheses): members of initialisers and pieces of text cannot stand in parentheses */
#define TOOL_AT(member) .offset = offsetof(struct config_tool, member)
static const struct config_row tool_rows[] = {
    {"name", CONFIG_NAME, REQUIRED, TOOL_AT(name), .example = "lookup", .doc = "How agents call the tool."},
    {"command", CONFIG_COMMAND, REQUIRED, TOOL_AT(command), .example = "[./lookup]",
     .doc = "The program. It gets the arguments as JSON on standard input and answers on standard output."},
    {"schema", CONFIG_JSON, 0, TOOL_AT(schema), .example = "{type: object, properties: {word: {type: string}}}",
     .doc = "JSON Schema of the arguments. Left out: any object."},
    {"timeout", CONFIG_DURATION, VOLATILE, TOOL_AT(timeout_ns), "1m", 0.001, DAY_S,
     .doc = "Longest time of one call of the tool."},
    {"network", CONFIG_ENUM, 0, TOOL_AT(network), "no-network", .values = config_network_names,
     .doc = "What the tool's sandbox may reach."},
};
static const struct config_table tool_table = {
    .title = "tool", .rows = tool_rows, .row_count = ARRAY_LEN(tool_rows), .size = sizeof(struct config_tool)};

#define MODEL_AT(member) .offset = offsetof(struct config_model, member)
static const struct config_row model_rows[] = {
    {"provider", CONFIG_ENUM, REQUIRED, MODEL_AT(provider), .values = config_provider_names, .example = "openai",
     .doc = "Whose API it speaks. `local`: an OpenAI-compatible server of your own."},
    {"base_url", CONFIG_URL, NULLABLE, MODEL_AT(base_url), "null", .example = "https://api.openai.com/v1",
     .doc = "Where requests go. null: the provider's own. A loopback port does not count in the fingerprint."},
    {"key", CONFIG_VARIABLE, NULLABLE | VOLATILE, MODEL_AT(key), "null", .example = "OPENAI_API_KEY",
     .doc = "NAME of the variable that holds the key. The key stays with the host: no sandbox sees it, and the "
            "operator config says which URLs it may be sent to."},
    {"model", CONFIG_TEXT, REQUIRED, MODEL_AT(model), .example = "gpt-5-mini",
     .doc = "The provider's name of the model."},
    {"price.input", CONFIG_NUMBER, NULLABLE | VOLATILE, MODEL_AT(price_input), "null", 0, 1e6, .example = "1.0",
     .doc = "US dollars a million input tokens. null: unknown (see `budget.unpriced`)."},
    {"price.output", CONFIG_NUMBER, NULLABLE | VOLATILE, MODEL_AT(price_output), "null", 0, 1e6, .example = "4.0",
     .doc = "US dollars a million output tokens."},
};
static const struct config_table model_table = {.title = "model",
                                                .rows = model_rows,
                                                .row_count = ARRAY_LEN(model_rows),
                                                .size = sizeof(struct config_model),
                                                .key_type = CONFIG_NAME};

/* The keys of an environment, under `environment`, `task.environment` and `evolver.environment`. */
#define ENVIRONMENT(prefix, member, name_fallback, name_flags, name_doc)                                               \
    {prefix ".name",  CONFIG_ENUM,   CONFIG_SHORTHAND | (name_flags),                                                  \
     AT(member.kind), name_fallback, .values = config_environment_names,                                               \
     .doc = name_doc},                                                                                                 \
        {prefix ".backend",                                                                                            \
         CONFIG_ENUM,                                                                                                  \
         0,                                                                                                            \
         AT(member.backend),                                                                                           \
         "auto",                                                                                                       \
         .values = config_backend_names,                                                                               \
         .doc = "The accelerator: auto takes what the machine has."},                                                  \
        {prefix ".runner",                                                                                             \
         CONFIG_ENUM,                                                                                                  \
         0,                                                                                                            \
         AT(member.runner),                                                                                            \
         "sandbox",                                                                                                    \
         .values = config_runner_names,                                                                                \
         .doc = "host: the acting agent runs without a sandbox, in the host's environment; its grade is host-runner, " \
                "and the operator must permit it."},                                                                   \
        {prefix ".host", CONFIG_JSON, 0, AT(member.host), .environments = "host", .doc = "Settings of `host`."},       \
        {prefix ".docker",                                                                                             \
         CONFIG_JSON,                                                                                                  \
         0,                                                                                                            \
         AT(member.docker),                                                                                            \
         .environments = "docker",                                                                                     \
         .doc = "Settings of `docker`, such as image.",                                                                \
         .example = "{image: \"debian:12\"}"},                                                                         \
        {prefix ".slurm",                                                                                              \
         CONFIG_JSON,                                                                                                  \
         0,                                                                                                            \
         AT(member.slurm),                                                                                             \
         .environments = "slurm",                                                                                      \
         .doc = "Settings of `slurm`, such as partition and agent_gpu.",                                               \
         .example = "{partition: gpu, agent_gpu: true}"},                                                              \
        {prefix ".skypilot",                                                                                           \
         CONFIG_JSON,                                                                                                  \
         0,                                                                                                            \
         AT(member.skypilot),                                                                                          \
         .environments = "skypilot",                                                                                   \
         .doc = "Settings of `skypilot`."},                                                                            \
        {prefix ".modal", CONFIG_JSON, 0, AT(member.modal), .environments = "modal", .doc = "Settings of `modal`."},   \
    {                                                                                                                  \
        prefix ".loopback-remote.lose", CONFIG_INT, CONFIG_TEST_ONLY | VOLATILE, AT(member.lose), "0", 0, 1e6,         \
            .environments = "loopback-remote", .doc = "Test environment: every how many replies one is lost. 0: none." \
    }

#define LIMITS(prefix, member, flags)                                                                                  \
    {                                                                                                                  \
        prefix ".memory",                                                                                              \
        CONFIG_SIZE,                                                                                                   \
        NULLABLE | (flags),                                                                                            \
        AT(member.memory),                                                                                             \
        "1GiB",                                                                                                        \
        KIB * KIB,                                                                                                     \
        64 * TIB,                                                                                                      \
        .doc = "Memory of everything in the sandbox. null: no limit."},                                                \
        {prefix ".file", CONFIG_SIZE, NULLABLE | (flags), AT(member.file),                                             \
         "256MiB",       KIB,         64 * TIB,           .doc = "Largest size of one file."},                         \
        {prefix ".cpu",                                                                                                \
         CONFIG_DURATION,                                                                                              \
         NULLABLE | (flags),                                                                                           \
         AT(member.cpu_ns),                                                                                            \
         "null",                                                                                                       \
         1,                                                                                                            \
         YEAR_S,                                                                                                       \
         .doc = "Processor time of one process."},                                                                     \
        {prefix ".processes",                                                                                          \
         CONFIG_INT,                                                                                                   \
         NULLABLE | (flags),                                                                                           \
         AT(member.processes),                                                                                         \
         "256",                                                                                                        \
         1,                                                                                                            \
         1e6,                                                                                                          \
         .doc = "Processes and threads at once."},                                                                     \
        {prefix ".disk", CONFIG_SIZE, NULLABLE | (flags), AT(member.disk),                                             \
         "1GiB",         KIB * KIB,   64 * TIB,           .doc = "Size of everything the sandbox writes."},            \
    {                                                                                                                  \
        prefix ".output", CONFIG_SIZE, NULLABLE | (flags), AT(member.output), "16MiB", KIB, 64 * KIB *KIB,             \
            .doc = "Kept bytes of standard output and error; what is beyond is dropped and counted."                   \
    }

#define NETWORK(prefix, member)                                                                                        \
    {prefix ".network",                                                                                                \
     CONFIG_ENUM,                                                                                                      \
     0,                                                                                                                \
     AT(member.network),                                                                                               \
     "no-network",                                                                                                     \
     .values = config_network_names,                                                                                   \
     .doc = "What the sandbox may reach. allowlist: only `allowed_hosts`, through a proxy. Models are reached by a "   \
            "loopback port in every mode."},                                                                           \
    {                                                                                                                  \
        prefix ".allowed_hosts", CONFIG_HOSTS, 0, AT(member.allowed_hosts), "[]",                                      \
            .example = "[pypi.org]",                                                                                   \
            .doc =                                                                                                     \
                "Hosts for `network: allowlist`; `*.` before a name means its subdomains, `:port` behind it one port." \
    }

#define SEES(prefix, member, flags)                                                                                    \
    {prefix ".env",                                                                                                    \
     CONFIG_VARIABLES,                                                                                                 \
     0,                                                                                                                \
     AT(member.env),                                                                                                   \
     "[]",                                                                                                             \
     .example = "[LANG, \"APP_*\"]",                                                                                   \
     .doc = "Variables that are passed, as names or patterns; no other one is."},                                      \
        {prefix ".python",                                                                                             \
         CONFIG_TEXT,                                                                                                  \
         NULLABLE,                                                                                                     \
         AT(member.python),                                                                                            \
         "null",                                                                                                       \
         .example = "python3",                                                                                         \
         .doc = "A Python interpreter whose installation is shown."},                                                  \
    {                                                                                                                  \
        prefix ".packages", CONFIG_TEXTS, 0, AT(member.packages), "[]",                                                \
            .example = "[numpy]", .doc = "Python distributions that are shown, with what they need."                   \
    }

/* NOLINTEND(bugprone-macro-parentheses) */

static const struct config_row rows[] = {
    {"version", CONFIG_INT, REQUIRED, AT(version), .min = 1, .max = 1, .example = "1",
     .doc = "Version of this format."},
    {"name", CONFIG_NAME, REQUIRED, AT(name), .example = "dates", .doc = "Name of the run; part of its id."},
    {"seed", CONFIG_INT, 0, AT(seed), "0", 0, EXACT_MAX, .example = "7",
     .doc = "Everything a run decides by chance follows from it."},
    {"state_dir", CONFIG_PATH, NULLABLE | VOLATILE, AT(state_dir), "null", .example = "~/orch-state",
     .doc = "Where the state is kept. null: `.state` in the project's root."},

    {"data.tasks", CONFIG_PATH, NULLABLE, AT(data.tasks), "null", .example = "tasks.jsonl",
     .doc = "JSONL file, one task a line, each with a unique `id`. This or `data.harbor`."},
    {"data.harbor", CONFIG_PATH, NULLABLE, AT(data.harbor), "null", .example = "harbor/tasks",
     .doc = "A folder of Harbor tasks instead of `data.tasks`."},
    {"data.train", CONFIG_PATH, REQUIRED, AT(data.train), .example = "train.txt",
     .doc = "Ids of the training split, one a line."},
    {"data.val", CONFIG_PATH, NULLABLE, AT(data.val), "null", .example = "val.txt",
     .doc = "Ids of the validation split."},
    {"data.test", CONFIG_PATH, NULLABLE, AT(data.test), "null", .example = "test.txt",
     .doc = "Ids of the held-out split that `orch eval` measures."},
    {"data.step_size", CONFIG_INT, 0, AT(data.step_size), "8", 1, 1e6, .doc = "Tasks of one step."},
    {"data.shuffle", CONFIG_FLAG, 0, AT(data.shuffle), "true",
     .doc = "Shuffle the training split anew each epoch; false for ordered streams."},
    {"data.answers", CONFIG_TEXTS, 0, AT(data.answers), "[answer]", .example = "[answer, solution]",
     .doc = "Fields of a task row that are answers. The acting agent never gets them."},

    {"task_info", CONFIG_PATH, NULLABLE, AT(task_info), "null", .example = "task-info/",
     .doc = "Public description of the task, a folder with a README.md."},

    {"candidate.template", CONFIG_PATH, NULLABLE, AT(candidate.template_dir), "null", .example = "template/",
     .doc = "The adapter that is evolved: a folder with adapter.yaml. This or `candidate.project`."},
    {"candidate.project", CONFIG_PATH, NULLABLE, AT(candidate.project), "null", .example = ".",
     .doc = "A Git project that is evolved in worktrees, instead of `candidate.template`."},
    {"candidate.start_from", CONFIG_PATH, NULLABLE, AT(candidate.start_from), "null", .example = "old/adapter/",
     .doc = "A folder to start from instead of the template itself."},
    {"candidate.read_only", CONFIG_INNER_PATHS, 0, AT(candidate.read_only), "[]", .example = "[tests/]",
     .doc = "Trust boundary: paths of the candidate that nobody may change."},
    {"candidate.hidden", CONFIG_INNER_PATHS, 0, AT(candidate.hidden), "[]", .example = "[notes/]",
     .doc = "Trust boundary: paths of the candidate that no sandbox sees. `.env*`, key files and the state are always "
            "hidden."},
    {"candidate.build.command", CONFIG_COMMAND, CONFIG_INSIDE, AT(candidate.build.command), "[]",
     .example = "[make, -j4]",
     .doc = "Builds the candidate, in a sandbox, from the candidate's root. []: nothing to "
            "build."},
    {"candidate.build.outputs", CONFIG_INNER_PATHS, 0, AT(candidate.build.outputs), "[]", .example = "[bin/]",
     .doc = "What the build leaves and later calls get."},
    {"candidate.build.timeout", CONFIG_DURATION, VOLATILE, AT(candidate.build.timeout_ns), "10m", 1, YEAR_S,
     .doc = "Longest time of a build."},

    ENVIRONMENT("environment", environment, "host", 0,
                "Where sandboxes are opened. A text in place of the map is the name: `environment: host`."),

    {"task.agent", CONFIG_ENUM, 0, AT(task.agent), "command", .values = config_agent_names,
     .doc = "The acting agent. command: any program; oracle: the task's own solution; nop: does nothing."},
    {"task.command", CONFIG_COMMAND, 0, AT(task.command), "[]", .example = "[./solve]",
     .doc = "The program of `agent: command`."},
    {"task.model", CONFIG_NAME, NULLABLE, AT(task.model), "null", .example = "fast", .doc = "A name from `models`."},
    ENVIRONMENT("task.environment", task.environment, "null", NULLABLE, "null: as `environment`."),
    {"task.paths.read", CONFIG_PATHS, 0, AT(task.access.paths_read), "[]", .example = "[corpus/]",
     .doc = "Further paths the agent may read."},
    {"task.paths.write", CONFIG_PATHS, 0, AT(task.access.paths_write), "[]", .example = "[cache/]",
     .doc = "Further paths the agent may change. Trials share them: prefer none."},
    SEES("task", task.access, 0),
    {"task.tools", CONFIG_MAPS, 0, AT(task.tools), .element = &tool_table,
     .example = "[{name: lookup, command: [./lookup]}]",
     .doc = "Tools the agent may call. Each call runs in a sandbox of its own."},
    NETWORK("task", task.access),
    {"task.devices.gpu", CONFIG_INT, 0, AT(task.access.gpu), "0", 0, 1024, .example = "1",
     .doc = "Accelerators a task call gets."},
    {"task.timeout", CONFIG_DURATION, 0, AT(task.timeout_ns), "5m", 0.001, YEAR_S,
     .doc = "Longest time of a task call. What the agent left by then is judged (agent-limit)."},
    LIMITS("task.limits", task.access.limits, 0),
    {"task.concurrency", CONFIG_INT, VOLATILE, AT(task.concurrency), "4", 1, 4096, .doc = "Trials at once."},
    {"task.samples", CONFIG_INT, 0, AT(task.samples), "1", 1, 10000, .doc = "Trials of each task, for pass@k."},

    {"judge.mode", CONFIG_ENUM, 0, AT(judge.mode), "host", .values = config_judge_mode_names,
     .doc = "host: the host runs the judge, which it trusts. shared: in the trial's sandbox, after the agent is dead. "
            "separate: in a sandbox of its own."},
    {"judge.command", CONFIG_COMMAND, REQUIRED, AT(judge.command), .example = "[./judge]",
     .doc = "The program that leaves the verdict."},
    {"judge.tests", CONFIG_PATHS, 0, AT(judge.tests), "[]", .example = "[tests/]",
     .doc = "Files that only the judge sees, under /w/tests."},
    {"judge.collect", CONFIG_INNER_PATHS, 0, AT(judge.collect), "[output]", .example = "[output/, logs/]",
     .doc = "What of the trial's /w the judge gets, under /w/collected."},
    {"judge.timeout", CONFIG_DURATION, VOLATILE, AT(judge.timeout_ns), "1m", 0.001, YEAR_S,
     .doc = "Longest time of one judge call; beyond it is a judge error, never a score."},
    {"judge.paths.read", CONFIG_PATHS, 0, AT(judge.access.paths_read), "[]", .example = "[reference/]",
     .doc = "Further paths a judge in a sandbox may read."},
    SEES("judge", judge.access, 0),
    LIMITS("judge.limits", judge.access.limits, VOLATILE),
    {"judge.check.command", CONFIG_COMMAND, 0, AT(judge.check_command), "[]", .example = "[./accuracy]",
     .doc = "The accuracy gate: must exit 0 before a candidate is accepted. Always in a sandbox."},
    {"judge.measure.command", CONFIG_COMMAND, 0, AT(judge.measure.command), "[]", .example = "[./bench]",
     .doc = "Measures a candidate, in a sandbox."},
    {"judge.measure.warmup", CONFIG_INT, 0, AT(judge.measure.warmup), "1", 0, 1000,
     .doc = "Measurements thrown away first."},
    {"judge.measure.repeats", CONFIG_INT, 0, AT(judge.measure.repeats), "5", 1, 1000,
     .doc = "Measurements that count."},
    {"judge.measure.metrics", CONFIG_JSON, 0, AT(judge.measure.metrics),
     .example = "{latency: {unit: ms, direction: lower}}", .doc = "The metrics, by name."},

    {"evolver.agent", CONFIG_ENUM, 0, AT(evolver.agent), "command", .values = config_agent_names,
     .doc = "Who edits the candidate. nop: nobody, the loop only measures."},
    {"evolver.command", CONFIG_COMMAND, 0, AT(evolver.command), "[]", .example = "[./learn]",
     .doc = "The program of `agent: command`."},
    {"evolver.model", CONFIG_NAME, NULLABLE, AT(evolver.model), "null", .example = "strong",
     .doc = "A name from `models`."},
    {"evolver.method", CONFIG_PATH, NULLABLE, AT(evolver.method), "null", .example = "method/",
     .doc = "A folder with the learning method, read-only at /w/method."},
    {"evolver.params", CONFIG_JSON, 0, AT(evolver.params), .example = "{rate: 4}",
     .doc = "Free-form parameters of the method; they reach it by ORCH_CONTEXT."},
    ENVIRONMENT("evolver.environment", evolver.environment, "null", NULLABLE,
                "null: as `environment`. The evolver itself runs in a local sandbox without accelerator."),
    {"evolver.access.validation", CONFIG_FLAG, 0, AT(evolver.grants.validation), "false",
     .doc = "Show the validation split at /w/validation."},
    {"evolver.access.environment", CONFIG_PATHS, 0, AT(evolver.grants.environment), "[]", .example = "[simulator/]",
     .doc = "Paths shown at /w/environment/<name>."},
    {"evolver.access.tools", CONFIG_TEXTS, 0, AT(evolver.grants.tools), "[]", .example = "[lookup]",
     .doc = "Names of `task.tools` the evolver may call."},
    {"evolver.paths.read", CONFIG_PATHS, 0, AT(evolver.access.paths_read), "[]", .example = "[papers/]",
     .doc = "Further paths the evolver may read."},
    SEES("evolver", evolver.access, 0),
    NETWORK("evolver", evolver.access),
    {"evolver.timeout", CONFIG_DURATION, VOLATILE, AT(evolver.timeout_ns), "30m", 0.001, YEAR_S,
     .doc = "Longest time of one evolver call."},
    LIMITS("evolver.limits", evolver.access.limits, VOLATILE),

    {"models", CONFIG_NAMED, 0, AT(models), .element = &model_table,
     .example = "{fast: {provider: openai, key: OPENAI_API_KEY, model: gpt-5-mini}}",
     .doc = "Model endpoints, by the names that `task.model` and `evolver.model` use."},

    {"trainer.epochs", CONFIG_INT, 0, AT(trainer.epochs), "1", 1, 1e6, .doc = "Passes over the training split."},
    {"trainer.steps", CONFIG_INT, NULLABLE, AT(trainer.steps), "null", 0, 1e9, .example = "10",
     .doc = "Stop after so many steps. null: when the epochs are done."},
    {"trainer.gate", CONFIG_ENUM, 0, AT(trainer.gate), "none", .values = config_gate_names,
     .doc = "validation: a candidate is accepted only if it is no worse on the validation split."},
    {"trainer.select", CONFIG_ENUM, 0, AT(trainer.select), "last", .values = config_select_names,
     .doc = "Which version the run ends with. best: by the validation split."},
    {"trainer.patience", CONFIG_INT, NULLABLE, AT(trainer.patience), "null", 1, 1e6, .example = "3",
     .doc = "Stop after so many steps without a better version."},

    {"eval.repeats", CONFIG_INT, 0, AT(eval.repeats), "1", 1, 10000, .doc = "Times the held-out split is measured."},

    {"budget.wall", CONFIG_DURATION, NULLABLE | VOLATILE, AT(budget.wall_ns), "null", 1, 100 * YEAR_S, .example = "8h",
     .doc = "Time the run may be active, all starts together; calls that run when it is reached are finished."},
    {"budget.calls", CONFIG_INT, NULLABLE | VOLATILE, AT(budget.calls), "null", 0, EXACT_MAX, .example = "5000",
     .doc = "Calls of all roles, all starts together; those that run when it is reached are finished."},
    {"budget.tokens", CONFIG_INT, NULLABLE | VOLATILE, AT(budget.tokens), "null", 0, EXACT_MAX, .example = "20000000",
     .doc = "Tokens of all roles, input and output."},
    {"budget.usd", CONFIG_NUMBER, NULLABLE | VOLATILE, AT(budget.usd), "null", 0, 1e9, .example = "25.0",
     .doc = "US dollars of all roles."},
    {"budget.unpriced", CONFIG_ENUM, VOLATILE, AT(budget.unpriced), "refuse", .values = config_unpriced_names,
     .doc = "What becomes of a model without a price when `budget.usd` is set."},

    {"retry.max", CONFIG_INT, VOLATILE, AT(retry.max), "3", 0, 1000,
     .doc = "Times a trial is tried again after an infrastructure error; scores are never retried."},
    {"retry.backoff.min", CONFIG_DURATION, VOLATILE, AT(retry.backoff_min_ns), "1s", 0, DAY_S, .doc = "First pause."},
    {"retry.backoff.max", CONFIG_DURATION, VOLATILE, AT(retry.backoff_max_ns), "1m", 0, DAY_S, .doc = "Longest pause."},
    {"retry.backoff.factor", CONFIG_NUMBER, VOLATILE, AT(retry.backoff_factor), "2", 1, 100,
     .doc = "By what each pause is longer than the one before."},
    {"retry.stop_share", CONFIG_NUMBER, VOLATILE, AT(retry.stop_share), "0.5", 0, 1,
     .doc = "The run stops when more than this share of a step's trials end in infrastructure errors."},

    {"sandbox.mechanism", CONFIG_ENUM, CONFIG_STRENGTHEN | VOLATILE, AT(sandbox.mechanism), "auto",
     .values = config_mechanism_names, .doc = "What must enforce the confinement. auto: the strongest there is."},
    {"sandbox.hide", CONFIG_TEXTS, CONFIG_STRENGTHEN, AT(sandbox.hide), "[]", .example = "[pandas]",
     .doc = "Modules, packages or paths that are covered in every sandbox but the judge's, and in those started from "
            "them."},
};

static const struct config_retired retired[] = {
    {"environment.name", "local", "write `host` for this machine, or `docker` for a container"},
    {"task.environment.name", "local", "write `host` for this machine, or `docker` for a container"},
    {"evolver.environment.name", "local", "write `host` for this machine, or `docker` for a container"},
    {"environment.name", "slurm-gpu", "write `environment: {name: slurm, slurm: {agent_gpu: true}}`"},
    {"task.environment.name", "slurm-gpu", "write `task.environment: {name: slurm, slurm: {agent_gpu: true}}`"},
    {"evolver.environment.name", "slurm-gpu", "write `evolver.environment: {name: slurm, slurm: {agent_gpu: true}}`"},
    {"task.network", "restricted", "write `allowlist` and name the hosts in `task.allowed_hosts`"},
    {"task.network", "none", "write `no-network`"},
    {"task.network", "deny", "write `no-network`"},
    {"task.network", "allow", "write `public`"},
    {"evolver.network", "restricted", "write `allowlist` and name the hosts in `evolver.allowed_hosts`"},
    {"evolver.network", "none", "write `no-network`"},
    {"evolver.network", "deny", "write `no-network`"},
    {"evolver.network", "allow", "write `public`"},
    {"task.agent", "react", "write `agent: command` and name the program in `task.command`"},
    {"task.agent", "claude", "write `claude-code`"},
    {"evolver.agent", "claude", "write `claude-code`"},
    {"docker", NULL, "write `environment: docker`"},
    {"docker_image", NULL, "write `environment: {name: docker, docker: {image: …}}`"},
    {"run_environment", NULL, "write `environment: {name: …}`"},
    {"environment.image", NULL, "write `environment.docker: {image: …}`"},
    {"environment.packages", NULL, "write `task.packages`"},
    {"slurm_gpu.*", NULL, "write `environment: {name: slurm, slurm: {agent_gpu: true}}`"},
    {"slurm_gpu", NULL, "write `environment: {name: slurm, slurm: {agent_gpu: true}}`"},
    {"agent.name", NULL, "write `task.agent`"},
    {"agent.params", NULL, "write `task.command` and `task.model`"},
    {"agent.concurrency", NULL, "write `task.concurrency`"},
    {"agent.*", NULL, "write it under `task:`"},
    {"pipeline.*", NULL, "write `task.command`"},
    {"template", NULL, "write `candidate.template`"},
    {"start_from", NULL, "write `candidate.start_from`"},
    {"llm", NULL, "write the endpoint under `models:` and its name in `task.model`"},
    {"model", NULL, "write `task.model` and `evolver.model`"},
    {"backends", NULL, "write the endpoints under `models:`"},
    {"backend", NULL, "write `environment.backend`"},
    {"data.shuffle_seed", NULL, "write `seed`"},
    {"data.batch_size", NULL, "write `data.step_size`"},
    {"data.answer", NULL, "write `data.answers: [answer]`"},
    {"judge.path", NULL, "write `judge.command`, such as [python3, judge.py]"},
    {"evolver.name", NULL, "write `evolver.agent`, `evolver.command` or `evolver.method`"},
    {"evolver.resume", NULL, "remove it; a learner keeps what it leaves in /w/state"},
    {"evolver.base", NULL, "write `evolver.agent`"},
    {"evolver_access.*", NULL, "write it under `evolver.access:`"},
    {"task.allow", NULL, "write `task.paths.write`"},
    {"task.read", NULL, "write `task.paths.read`"},
    {"task.memory_mb", NULL, "write `task.limits.memory`, such as 1GiB"},
    {"task.file_mb", NULL, "write `task.limits.file`, such as 256MiB"},
    {"task.cpu_s", NULL, "write `task.limits.cpu`, such as 60s"},
    {"memory_mb", NULL, "write `task.limits.memory`, such as 1GiB"},
    {"file_mb", NULL, "write `task.limits.file`, such as 256MiB"},
    {"cpu_s", NULL, "write `task.limits.cpu`, such as 60s"},
    {"allowed_hosts", NULL, "write `task.allowed_hosts`"},
    {"network", NULL, "write `task.network`"},
    {"profiles", NULL, "write `profiles` in the operator config"},
    {"sandbox.enabled", NULL,
     "remove it; confinement is decided by the operator config (`confinement.required`, `orch sandbox enable`)"},
    {"sandbox.enforce", NULL, "remove it; the operator config decides (`confinement.on_unavailable`)"},
    {"sandbox.on_unavailable", NULL, "remove it; the operator config decides (`confinement.on_unavailable`)"},
    {"sandbox.onUnavailable", NULL, "remove it; the operator config decides (`confinement.on_unavailable`)"},
    {"sandbox.network", NULL, "write `task.network` or `evolver.network`"},
    {"sandbox.allowWrite", NULL, "write `task.paths.write`"},
    {"sandbox.memory_mb", NULL, "write `task.limits.memory`, such as 1GiB"},
    {"sandbox.file_mb", NULL, "write `task.limits.file`, such as 256MiB"},
    {"sandbox.cpu_s", NULL, "write `task.limits.cpu`, such as 60s"},
    {"sandbox.runner", NULL, "write `environment.runner`"},
    {"trainer.run_name", NULL, "write `name`"},
    {"trainer.output_dir", NULL, "write `state_dir`"},
    {"trainer.tree_dir", NULL, "remove it; versions are kept in the run's versions.git"},
    {"trainer.call_timeout_min", NULL, "write `evolver.timeout`, such as 30m"},
    {"trainer.batch_size", NULL, "write `data.step_size`"},
    {"run_name", NULL, "write `name`"},
    {"output_dir", NULL, "write `state_dir`"},
};

static const struct config_table run_table = {
    .title = "run config",
    .rows = rows,
    .row_count = ARRAY_LEN(rows),
    .size = sizeof(struct run_config),
    .retired = retired,
    .retired_count = ARRAY_LEN(retired),
};

const struct config_table *config_run_table(void)
{
    return &run_table;
}

/* An array key fills two members at once. */
_Static_assert(offsetof(struct run_config, task.tool_count) == offsetof(struct run_config, task.tools) + sizeof(void *),
               "task.tools is read as a config_array");
_Static_assert(offsetof(struct run_config, model_count) == offsetof(struct run_config, models) + sizeof(void *),
               "models is read as a config_array");
_Static_assert(offsetof(struct config_model, name) == 0, "the name of an element comes first");
