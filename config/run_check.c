/* SPDX-License-Identifier: Apache-2.0 */
#include "config/run_check.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "config/config_read.h"
#include "config/units.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define REPORT_MAX 2048

struct check {
    const struct run_config *c;
    const char *place;
    struct config_findings *findings;
};

static void report_at(const struct run_config *config, const char *place, struct config_findings *findings,
                      const char *key, const char *id, const char *expected, const char *nearest, const char *remedy,
                      const char *message)
{
    const struct yaml_node *node = config_find(config_run_table(), config->source->tree, key);
    int line;
    int column;
    if (node != NULL) {
        config_findings_add(findings, id, node->place, node->line, node->column, expected, nearest, remedy, "%s",
                            message);
        return;
    }
    config_mark(config->source->tree, key, &line, &column);
    config_findings_add(findings, id, place, line, column, expected, nearest, remedy, "%s", message);
}

void run_check_report(const struct run_config *config, const char *place, struct config_findings *findings,
                      const char *key, const char *id, const char *expected, const char *remedy, const char *format,
                      ...)
{
    char message[REPORT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    report_at(config, place, findings, key, id, expected, NULL, remedy, message);
}

#define REPORT(check, ...) run_check_report((check)->c, (check)->place, (check)->findings, __VA_ARGS__)

static bool is_given(const struct check *k, const char *key)
{
    return config_find(config_run_table(), k->c->source->tree, key) != NULL;
}

/* --- one of two --- */

static void exactly_one(const struct check *k, const char *a, bool has_a, const char *b, bool has_b)
{
    AUTO_FREE char *expected = xasprintf("exactly one of `%s` and `%s`", a, b);
    if (has_a && has_b) {
        REPORT(k, b, "conflict", expected, "remove one of them", "both `%s` and `%s` are given", a, b);
    } else if (!has_a && !has_b) {
        AUTO_FREE char *remedy = xasprintf("add `%s`", a);
        REPORT(k, a, "missing-key", expected, remedy, "neither `%s` nor `%s` is given", a, b);
    }
}

static void check_sources(const struct check *k)
{
    exactly_one(k, "data.tasks", k->c->data.tasks != NULL, "data.harbor", k->c->data.harbor != NULL);
    exactly_one(k, "candidate.template", k->c->candidate.template_dir != NULL, "candidate.project",
                k->c->candidate.project != NULL);
}

/* --- agents, models, environments --- */

/* `needed`: the role has to be there. What only measures needs no evolver; `orch run` says when it misses one. */
static void check_agent(const struct check *k, const char *role, int agent, char *const *command, bool needed)
{
    AUTO_FREE char *key = xasprintf("%s.command", role);
    bool wanted = agent == CONFIG_AGENT_COMMAND;
    if (wanted && command[0] == NULL) {
        if (!needed) {
            return;
        }
        REPORT(k, key, "missing-key", "a command as a list, such as [./program, --option]",
               "name the program, or choose another agent", "`%s` is missing: `%s.agent` is command", key, role);
    } else if (!wanted && command[0] != NULL) {
        AUTO_FREE char *remedy = xasprintf("remove it, or write `%s.agent: command`", role);
        REPORT(k, key, "conflict", "no command", remedy, "`%s` has no effect: `%s.agent` is %s", key, role,
               config_agent_names[agent]);
    }
}

static void check_model(const struct check *k, const char *key, const char *name)
{
    if (name == NULL || run_config_model(k->c, name) != NULL) {
        return;
    }
    const char *near = NULL;
    int best = 4;
    for (size_t i = 0; i < k->c->model_count; i++) {
        int score = units_distance(name, k->c->models[i].name, 3);
        if (score < best) {
            best = score;
            near = k->c->models[i].name;
        }
    }
    AUTO_FREE char *message = xasprintf("`%s` is `%s`, which `models` does not hold", key, name);
    AUTO_FREE char *remedy =
        near == NULL ? xasprintf("add `models.%s`", name) : xasprintf("write `%s`, or add `models.%s`", near, name);
    report_at(k->c, k->place, k->findings, key, "unknown-model", "a name under `models`", near, remedy, message);
}

static void check_lose(const struct check *k, const char *where, const struct config_environment *e)
{
    if (e->lose == 1) {
        AUTO_FREE char *key = xasprintf("%s.loopback-remote.lose", where);
        REPORT(k, key, "out-of-range", "0, or a whole number from 2", "write 0 to lose none",
               "`%s` is 1: no reply would ever arrive", key);
    }
}

static void check_environment(const struct check *k, const char *group, const struct config_environment *e)
{
    if (!e->inherited) {
        return;
    }
    for (size_t i = 0; i < config_run_table()->row_count; i++) {
        const char *key = config_run_table()->rows[i].key;
        size_t len = strlen(group);
        if (strncmp(key, group, len) == 0 && key[len] == '.' && strcmp(key + len, ".name") != 0 && is_given(k, key)) {
            AUTO_FREE char *remedy = xasprintf("add `%s.name`, or set it under `environment`", group);
            REPORT(k, key, "no-effect", "settings beside a name", remedy, "`%s` has no effect without `%s.name`", key,
                   group);
        }
    }
}

static void check_models(const struct check *k)
{
    for (size_t i = 0; i < k->c->model_count; i++) {
        const struct config_model *m = &k->c->models[i];
        AUTO_FREE char *key = xasprintf("models.%s", m->name);
        if (m->base_url == NULL && m->provider == CONFIG_PROVIDER_LOCAL) {
            REPORT(k, key, "missing-key", "a URL that starts with https:// or http://",
                   "add `base_url: http://127.0.0.1:8000/v1`, or where the server is",
                   "`models.%s.base_url` is missing: `provider: local` has no own", m->name);
        }
        if ((m->price_input < 0) != (m->price_output < 0)) {
            REPORT(k, key, "missing-key", "both prices or none", "add the other price",
                   "`models.%s.price` has only one of input and output", m->name);
        }
    }
}

/* --- networks --- */

static void check_network(const struct check *k, const char *role, const struct config_access *a)
{
    AUTO_FREE char *hosts = xasprintf("%s.allowed_hosts", role);
    bool list = a->network == CONFIG_NETWORK_ALLOWLIST;
    if (list && a->allowed_hosts[0] == NULL) {
        REPORT(k, hosts, "missing-key", "a list of hosts, such as [pypi.org, \"*.example.com:443\"]",
               "name the hosts, or write `network: no-network`", "`%s` is missing: `%s.network` is allowlist", hosts,
               role);
    } else if (!list && a->allowed_hosts[0] != NULL) {
        AUTO_FREE char *remedy = xasprintf("write `%s.network: allowlist`, or remove the hosts", role);
        REPORT(k, hosts, "conflict", "no hosts", remedy, "`%s` has no effect: `%s.network` is %s", hosts, role,
               config_network_names[a->network]);
    }
}

/* --- paths --- */

static void check_grants(const struct check *k, const char *key, char *const *paths)
{
    for (size_t i = 0; i < strv_len(paths); i++) {
        if (config_path_is_forbidden(paths[i])) {
            REPORT(k, key, "forbidden-path", "a path that holds no whole home and no credential store",
                   "name the folder that is needed, beneath the project", "`%s` would grant %s", key, paths[i]);
        }
    }
}

static void check_all_grants(const struct check *k)
{
    const struct run_config *c = k->c;
    check_grants(k, "task.paths.read", c->task.access.paths_read);
    check_grants(k, "task.paths.write", c->task.access.paths_write);
    check_grants(k, "judge.paths.read", c->judge.access.paths_read);
    check_grants(k, "judge.tests", c->judge.tests);
    check_grants(k, "evolver.paths.read", c->evolver.access.paths_read);
    check_grants(k, "evolver.access.environment", c->evolver.grants.environment);
}

/* The trust boundary: within a kind no path lies in another, and nothing is read-only inside of what is hidden. */
static void check_overlap(const struct check *k, const char *key, char *const *a, const char *other, char *const *b)
{
    bool same_kind = a == b;
    for (size_t i = 0; i < strv_len(a); i++) {
        for (size_t j = 0; j < strv_len(b); j++) {
            AUTO_FREE char *x = xasprintf("/%s", a[i]);
            AUTO_FREE char *y = xasprintf("/%s", b[j]);
            if ((same_kind && i == j) || !path_is_beneath(x, y)) {
                continue;
            }
            REPORT(k, key, "overlap", "paths that do not lie in one another", "remove one of them",
                   "`%s` holds `%s`, which lies in `%s` of `%s`", key, a[i], b[j], other);
        }
    }
}

static void check_boundary(const struct check *k)
{
    char *const *read_only = k->c->candidate.read_only;
    char *const *hidden = k->c->candidate.hidden;
    check_overlap(k, "candidate.read_only", read_only, "candidate.read_only", read_only);
    check_overlap(k, "candidate.hidden", hidden, "candidate.hidden", hidden);
    check_overlap(k, "candidate.read_only", read_only, "candidate.hidden", hidden);
    for (size_t i = 0; i < strv_len(k->c->candidate.build.outputs); i++) {
        if (k->c->candidate.build.command[0] == NULL) {
            REPORT(k, "candidate.build.outputs", "conflict", "a `candidate.build.command` that leaves them",
                   "add the command, or remove the outputs", "`candidate.build.outputs` without a build");
            return;
        }
    }
}

/* --- the rest --- */

static void check_trainer(const struct check *k)
{
    const struct run_config *c = k->c;
    static const char *const remedy = "add `data.val`, the ids of the validation split";
    if (c->data.val == NULL && c->trainer.gate == CONFIG_GATE_VALIDATION) {
        REPORT(k, "trainer.gate", "missing-key", "a validation split", remedy,
               "`trainer.gate: validation` needs `data.val`");
    }
    if (c->data.val == NULL && c->trainer.select == CONFIG_SELECT_BEST) {
        REPORT(k, "trainer.select", "missing-key", "a validation split", remedy,
               "`trainer.select: best` needs `data.val`");
    }
    if (c->data.val == NULL && c->evolver.grants.validation) {
        REPORT(k, "evolver.access.validation", "missing-key", "a validation split", remedy,
               "`evolver.access.validation: true` needs `data.val`");
    }
    if (c->retry.backoff_min_ns > c->retry.backoff_max_ns) {
        REPORT(k, "retry.backoff.min", "conflict", "at most `retry.backoff.max`", "swap the two",
               "`retry.backoff.min` is longer than `retry.backoff.max`");
    }
}

static void check_tools(const struct check *k)
{
    const struct run_config *c = k->c;
    for (size_t i = 0; i < c->task.tool_count; i++) {
        if (c->task.tools[i].network == CONFIG_NETWORK_ALLOWLIST && c->task.access.allowed_hosts[0] == NULL) {
            REPORT(k, "task.tools", "missing-key", "hosts in `task.allowed_hosts`", "name the hosts",
                   "`task.tools[%zu].network` is allowlist without hosts", i);
        }
        for (size_t j = 0; j < i; j++) {
            const char *name = c->task.tools[i].name;
            if (name != NULL && c->task.tools[j].name != NULL && strcmp(name, c->task.tools[j].name) == 0) {
                REPORT(k, "task.tools", "duplicate-key", "each name once", "rename one of them",
                       "two tools are named `%s`", name);
            }
        }
    }
    for (size_t i = 0; i < strv_len(c->evolver.grants.tools); i++) {
        if (run_config_tool(c, c->evolver.grants.tools[i]) == NULL) {
            REPORT(k, "evolver.access.tools", "unknown-tool", "names of `task.tools`", "declare the tool there",
                   "`evolver.access.tools` names `%s`, which `task.tools` does not hold", c->evolver.grants.tools[i]);
        }
    }
    for (size_t i = 0; i < strv_len(c->evolver.grants.environment); i++) {
        for (size_t j = 0; j < i; j++) {
            const char *name = path_base(c->evolver.grants.environment[i]);
            if (strcmp(name, path_base(c->evolver.grants.environment[j])) == 0) {
                REPORT(k, "evolver.access.environment", "conflict", "paths with different last parts",
                       "rename one of them", "two paths would be shown as /w/environment/%s", name);
            }
        }
    }
}

void run_check(const struct run_config *config, const char *place, struct config_findings *findings)
{
    struct check k = {.c = config, .place = place, .findings = findings};
    check_sources(&k);
    check_agent(&k, "task", config->task.agent, config->task.command, true);
    check_agent(&k, "evolver", config->evolver.agent, config->evolver.command, false);
    check_model(&k, "task.model", config->task.model);
    check_model(&k, "evolver.model", config->evolver.model);
    check_lose(&k, "environment", &config->environment);
    check_lose(&k, "task.environment", &config->task.environment);
    check_environment(&k, "task.environment", &config->task.environment);
    check_environment(&k, "evolver.environment", &config->evolver.environment);
    check_models(&k);
    check_network(&k, "task", &config->task.access);
    check_network(&k, "evolver", &config->evolver.access);
    check_all_grants(&k);
    check_boundary(&k);
    check_trainer(&k);
    check_tools(&k);
}
