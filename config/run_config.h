/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The run config: built-in defaults < file < overrides, as one plain struct.
 * All strings and vectors are owned by the struct; vectors are NULL-terminated
 * and never NULL; durations are nanoseconds, sizes bytes; -1 (numbers, sizes,
 * durations, enums) and NULL (text) stand for null. Paths are absolute.
 * A loaded config does not change and may be read from any thread.
 */
#ifndef ORCH_CONFIG_RUN_CONFIG_H
#define ORCH_CONFIG_RUN_CONFIG_H

#include "config/findings.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* The words of each enum key, in order; config_*_names[] hold them as text. */
#define CONFIG_ENVIRONMENTS(X)                                                                                         \
    X(HOST, "host")                                                                                                    \
    X(DOCKER, "docker")                                                                                                \
    X(SLURM, "slurm") X(SKYPILOT, "skypilot") X(MODAL, "modal") X(LOOPBACK_REMOTE, "loopback-remote")
#define CONFIG_BACKENDS(X) X(AUTO, "auto") X(CPU, "cpu") X(CUDA, "cuda") X(ROCM, "rocm") X(METAL, "metal")
#define CONFIG_RUNNERS(X) X(SANDBOX, "sandbox") X(HOST, "host")
#define CONFIG_AGENTS(X)                                                                                               \
    X(COMMAND, "command") X(CODEX, "codex") X(CLAUDE_CODE, "claude-code") X(ORACLE, "oracle") X(NOP, "nop")
#define CONFIG_NETWORKS(X) X(NO_NETWORK, "no-network") X(ALLOWLIST, "allowlist") X(PUBLIC, "public")
#define CONFIG_JUDGE_MODES(X) X(HOST, "host") X(SHARED, "shared") X(SEPARATE, "separate")
#define CONFIG_GATES(X) X(NONE, "none") X(VALIDATION, "validation")
#define CONFIG_SELECTS(X) X(LAST, "last") X(BEST, "best")
#define CONFIG_UNPRICED(X) X(REFUSE, "refuse") X(ALLOW, "allow")
#define CONFIG_MECHANISMS(X)                                                                                           \
    X(AUTO, "auto")                                                                                                    \
    X(NAMESPACES, "namespaces")                                                                                        \
    X(BUBBLEWRAP, "bubblewrap") X(LANDLOCK, "landlock") X(SEATBELT, "seatbelt") X(CONTAINER, "container")
#define CONFIG_PROVIDERS(X)                                                                                            \
    X(OPENAI, "openai") X(ANTHROPIC, "anthropic") X(FIREWORKS, "fireworks") X(DEEPSEEK, "deepseek") X(LOCAL, "local")

#define CONFIG_ENUM_TABLE(X)                                                                                           \
    X(environment, ENVIRONMENT, CONFIG_ENVIRONMENTS)                                                                   \
    X(backend, BACKEND, CONFIG_BACKENDS)                                                                               \
    X(runner, RUNNER, CONFIG_RUNNERS)                                                                                  \
    X(agent, AGENT, CONFIG_AGENTS)                                                                                     \
    X(network, NETWORK, CONFIG_NETWORKS)                                                                               \
    X(judge_mode, JUDGE, CONFIG_JUDGE_MODES)                                                                           \
    X(gate, GATE, CONFIG_GATES)                                                                                        \
    X(select, SELECT, CONFIG_SELECTS)                                                                                  \
    X(unpriced, UNPRICED, CONFIG_UNPRICED)                                                                             \
    X(mechanism, MECHANISM, CONFIG_MECHANISMS)                                                                         \
    X(provider, PROVIDER, CONFIG_PROVIDERS)

enum config_environment_kind {
#define X(n, w) CONFIG_ENVIRONMENT_##n,
    CONFIG_ENVIRONMENTS(X)
#undef X
        CONFIG_ENVIRONMENT_COUNT
};
enum config_backend {
#define X(n, w) CONFIG_BACKEND_##n,
    CONFIG_BACKENDS(X)
#undef X
        CONFIG_BACKEND_COUNT
};
enum config_runner {
#define X(n, w) CONFIG_RUNNER_##n,
    CONFIG_RUNNERS(X)
#undef X
        CONFIG_RUNNER_COUNT
};
enum config_agent {
#define X(n, w) CONFIG_AGENT_##n,
    CONFIG_AGENTS(X)
#undef X
        CONFIG_AGENT_COUNT
};
enum config_network {
#define X(n, w) CONFIG_NETWORK_##n,
    CONFIG_NETWORKS(X)
#undef X
        CONFIG_NETWORK_COUNT
};
enum config_judge_mode {
#define X(n, w) CONFIG_JUDGE_##n,
    CONFIG_JUDGE_MODES(X)
#undef X
        CONFIG_JUDGE_COUNT
};
enum config_gate {
#define X(n, w) CONFIG_GATE_##n,
    CONFIG_GATES(X)
#undef X
        CONFIG_GATE_COUNT
};
enum config_select {
#define X(n, w) CONFIG_SELECT_##n,
    CONFIG_SELECTS(X)
#undef X
        CONFIG_SELECT_COUNT
};
enum config_unpriced {
#define X(n, w) CONFIG_UNPRICED_##n,
    CONFIG_UNPRICED(X)
#undef X
        CONFIG_UNPRICED_COUNT
};
enum config_mechanism {
#define X(n, w) CONFIG_MECHANISM_##n,
    CONFIG_MECHANISMS(X)
#undef X
        CONFIG_MECHANISM_COUNT
};
enum config_provider {
#define X(n, w) CONFIG_PROVIDER_##n,
    CONFIG_PROVIDERS(X)
#undef X
        CONFIG_PROVIDER_COUNT
};

/* NULL-terminated word lists: config_environment_names[CONFIG_ENVIRONMENT_HOST] is "host", … */
#define X(lower, upper, list) extern const char *const config_##lower##_names[];
CONFIG_ENUM_TABLE(X)
#undef X

struct config_environment {
    int kind; /* enum config_environment_kind; after loading never -1: task and evolver fall back to `environment` */
    bool inherited; /* task.environment, evolver.environment: was null, so this is a copy of `environment` */
    int backend;    /* enum config_backend: the accelerator */
    int runner;     /* enum config_runner: `host` runs the acting agent unconfined in the host's environment */
    json_t *host, *docker, *slurm, *skypilot, *modal; /* settings of each, free-form */
    int64_t lose;                                     /* loopback-remote: every how many replies one is lost; 0: none */
};

struct config_limits {
    int64_t memory, file, disk, output; /* bytes */
    int64_t cpu_ns;
    int64_t processes;
};

/* What a role may read, write, see and reach. */
struct config_access {
    char **paths_read, **paths_write;
    char **env;   /* variable names or patterns */
    char *python; /* interpreter: a name or a path; NULL: none */
    char **packages;
    int network; /* enum config_network */
    char **allowed_hosts;
    int64_t gpu; /* devices.gpu: how many */
    struct config_limits limits;
};

struct config_tool {
    char *name;
    char **command;
    json_t *schema; /* JSON Schema of its arguments, an object */
    int64_t timeout_ns;
    int network; /* enum config_network */
};

struct config_model {
    char *name;                       /* the key in `models` */
    int provider;                     /* enum config_provider */
    char *base_url;                   /* never NULL after loading: the provider's own when left out */
    char *key;                        /* NAME of the variable; NULL: none */
    char *model;                      /* the provider's model id */
    double price_input, price_output; /* US dollars a million tokens; -1: unknown */
};

struct run_config {
    char *file; /* absolute path of the config */
    char *dir;  /* its directory: where relative paths start */

    int64_t version;
    char *name;
    int64_t seed;
    char *state_dir; /* NULL: .state in the project's root */
    struct {
        char *tasks, *harbor; /* one of them */
        char *train, *val, *test;
        int64_t step_size;
        bool shuffle;
        char **answers; /* fields of a row that the acting agent never gets */
    } data;
    char *task_info;
    struct {
        char *template_dir, *project; /* one of them (template:, project:) */
        char *start_from;
        char **read_only, **hidden; /* relative to the candidate */
        struct {
            char **command, **outputs;
            int64_t timeout_ns;
        } build;
    } candidate;
    struct config_environment environment;
    struct {
        int agent; /* enum config_agent */
        char **command;
        char *model; /* a name in models, or NULL */
        struct config_environment environment;
        struct config_access access;
        struct config_tool *tools;
        size_t tool_count;
        int64_t timeout_ns;
        int64_t concurrency;
        int64_t samples;
    } task;
    struct {
        int mode; /* enum config_judge_mode */
        char **command;
        char **tests;   /* paths only the judge sees */
        char **collect; /* what of /w it gets, as written (relative to /w) */
        int64_t timeout_ns;
        struct config_access access; /* env, paths.read, python, packages, limits; the rest is closed */
        char **check_command;
        struct {
            char **command;
            int64_t warmup, repeats;
            json_t *metrics;
        } measure;
    } judge;
    struct {
        int agent; /* enum config_agent */
        char **command;
        char *model;
        char *method; /* path */
        json_t *params;
        struct config_environment environment;
        struct config_access access;
        struct {
            bool validation;
            char **environment; /* paths shown at /w/environment/<name> */
            char **tools;       /* names of task tools */
        } grants;               /* evolver.access */
        int64_t timeout_ns;
    } evolver;
    struct config_model *models;
    size_t model_count;
    struct {
        int64_t epochs, steps, patience;
        int gate, select;
    } trainer;
    struct {
        int64_t repeats;
    } eval;
    struct {
        int64_t wall_ns, calls, tokens;
        double usd;
        int unpriced;
    } budget;
    struct {
        int64_t max;
        int64_t backoff_min_ns, backoff_max_ns;
        double backoff_factor, stop_share;
    } retry;
    struct {
        int mechanism; /* enum config_mechanism */
        char **hide;
    } sandbox;

    struct config_source *source; /* where each value came from; for run_config_show and messages */
};

/*
 * Loads and checks. `overrides` is NULL-terminated, each "key.path=value" with
 * the value read as YAML. On any finding returns ORCH_E_CONFIG with the whole
 * list in *findings (initialised by the caller). ${VAR} and ~ come from the
 * process's environment. Opens the config only; other paths are not touched.
 * A file that cannot be read is an error without findings.
 */
MUST_USE int run_config_load(const char *path, char *const *overrides, struct run_config **ret,
                             struct config_findings *findings, struct orch_err *err);
/* The same from text; `place` is the name in findings, `dir` (absolute) where paths start. */
MUST_USE int run_config_parse(const char *place, const char *dir, const char *text, size_t len, char *const *overrides,
                              struct run_config **ret, struct config_findings *findings, struct orch_err *err);
void run_config_free(struct run_config *config); /* NULL is fine */
void run_config_release(struct run_config **config);
#define AUTO_RUN_CONFIG __attribute__((cleanup(run_config_release)))

/* The whole effective config, keys in table order, paths absolute, units as text; reads back as an equal config.
 * Holds names of key variables only, never their values. New reference. */
json_t *run_config_effective(const struct run_config *config);
/* Only what changes meaning, for the fingerprint: rows that are not volatile, canonical units, paths as they were
 * written (normalised). Moving a project does not change it. New reference. */
json_t *run_config_meaning(const struct run_config *config);
/* The effective config as YAML, each value with its origin as a comment: default, file:line or the override. Owned. */
char *run_config_show(const struct run_config *config);
/* The place of a key for later messages: "file:3:5", "override …" or "default". Owned by the caller. */
char *run_config_where(const struct run_config *config, const char *key);
/* Borrowed; NULL when there is none of that name (or name is NULL). */
const struct config_model *run_config_model(const struct run_config *config, const char *name);
const struct config_tool *run_config_tool(const struct run_config *config, const char *name);

/* True for what is never granted, by anyone: "/", whole homes, and credential stores. `path` absolute and normalised.
 */
bool config_path_is_forbidden(const char *path);

#endif
