/* SPDX-License-Identifier: Apache-2.0 */
#include "roles/task_role.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "roles/context.h"
#include "roles/verdict.h"

#include <string.h>
#include <sys/stat.h>

static uint64_t limit_of(int64_t value)
{
    return value > 0 ? (uint64_t)value : 0; /* -1 is null: no limit */
}

static void apply_limits(struct sandbox_spec *spec, const struct config_limits *l)
{
    spec->limits.memory = limit_of(l->memory);
    spec->limits.file = limit_of(l->file);
    spec->limits.cpu_s = limit_of((l->cpu_ns + NS_PER_S - 1) / NS_PER_S);
    spec->limits.processes = limit_of(l->processes);
    spec->limits.disk = limit_of(l->disk);
    spec->limits.output = limit_of(l->output);
}

static void grant_dir(struct sandbox_spec *spec, const char *source, const char *target)
{
    if (source != NULL) {
        spec_grant(spec, source, target, SPEC_RO, SPEC_DIR);
    }
}

static enum spec_kind kind_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) ? SPEC_FILE : SPEC_DIR;
}

/* Declared paths appear under their own names; what a project may never grant the config has refused already. */
static void grant_paths(struct sandbox_spec *spec, const struct config_access *access)
{
    for (size_t i = 0; access->paths_read[i] != NULL; i++) {
        spec_grant(spec, access->paths_read[i], access->paths_read[i], SPEC_RO, kind_of(access->paths_read[i]));
    }
    for (size_t i = 0; access->paths_write[i] != NULL; i++) {
        spec_grant(spec, access->paths_write[i], access->paths_write[i], SPEC_RW, kind_of(access->paths_write[i]));
    }
}

static void begin(struct sandbox_spec *spec, const char *name, const char *role, const char *program_source)
{
    spec_init(spec, name);
    free(spec->role);
    spec->role = xstrdup(role);
    free(spec->cwd);
    spec->cwd = xstrdup("/w");
    grant_dir(spec, program_source, PROGRAM_DIR);
}

/* `output`: bytes kept of each stream, -1 for the default. The node passes the first of them on and counts the rest. */
static struct call_spec call_of(char *const *argv, int64_t timeout_ns, int64_t output)
{
    size_t kept = output > 0 ? (size_t)output : SPEC_DEFAULT_OUTPUT;
    return (struct call_spec){
        .name = "main",
        .argv = argv,
        .timeout_ns = timeout_ns > 0 ? timeout_ns : 0,
        .capture_head = kept < ENVIRONMENT_CAPTURE_MAX ? kept : ENVIRONMENT_CAPTURE_MAX,
    };
}

/* ------------------------------------------------------------------ task */

void task_role_spec(const struct task_sandbox *t, struct sandbox_spec *ret)
{
    const struct config_access *access = &t->config->task.access;
    begin(ret, t->name, "task", t->program_source);
    spec_add_file(ret, "/w/task.json", t->task_text, t->task_len, 0444);
    grant_dir(ret, t->adapter_source, ROLE_ADAPTER);
    spec_grant_work(ret, "output", NULL, ROLE_OUTPUT, SPEC_RW);
    grant_paths(ret, access);
    apply_limits(ret, &access->limits);
    json_t *c = context_new("task");
    json_set_str(c, "task", "/w/task.json");
    json_set_str(c, "adapter", t->adapter_source != NULL ? ROLE_ADAPTER : NULL);
    json_set_str(c, "output", ROLE_OUTPUT);
    json_set_int(c, "seed", t->seed);
    json_set_int(c, "sample", t->sample);
    context_apply(ret, c, access->env);
}

struct call_spec task_role_call(const struct task_sandbox *t)
{
    return call_of(t->program->inside, t->config->task.timeout_ns, t->config->task.access.limits.output);
}

/* ------------------------------------------------------------------ judge (separate) */

void judge_role_spec(const struct judge_sandbox *j, struct sandbox_spec *ret)
{
    const struct config_access *access = &j->config->judge.access;
    begin(ret, j->name, "judge", j->program_source);
    spec_add_file(ret, "/w/task.json", j->task_text, j->task_len, 0444);
    grant_dir(ret, j->collected_source, ROLE_COLLECTED);
    grant_dir(ret, j->tests_source, ROLE_TESTS);
    spec_grant_work(ret, "verdict", NULL, ROLE_VERDICT, SPEC_RW);
    grant_paths(ret, access);
    apply_limits(ret, &access->limits);
    json_t *c = context_new("judge");
    json_set_str(c, "task", "/w/task.json");
    json_set_str(c, "collected", ROLE_COLLECTED);
    json_set_str(c, "tests", j->tests_source != NULL ? ROLE_TESTS : NULL);
    json_set_str(c, "verdict", ROLE_VERDICT "/" VERDICT_FILE);
    context_apply(ret, c, access->env);
}

struct call_spec judge_role_call(const struct judge_sandbox *j)
{
    return call_of(j->program->inside, j->config->judge.timeout_ns, j->config->judge.access.limits.output);
}

/* ------------------------------------------------------------------ evolver */

static void grant_environment(struct sandbox_spec *spec, char *const *paths)
{
    for (size_t i = 0; paths[i] != NULL; i++) {
        AUTO_FREE char *target = xasprintf("/w/environment/%s", path_base(paths[i]));
        spec_grant(spec, paths[i], target, SPEC_RO, kind_of(paths[i]));
    }
}

void evolver_role_spec(const struct evolver_sandbox *e, struct sandbox_spec *ret)
{
    const struct config_access *access = &e->config->evolver.access;
    begin(ret, e->name, "evolver", e->program_source);
    spec_grant_work(ret, "adapter", e->adapter_source, ROLE_ADAPTER, SPEC_RW);
    spec_grant_work(ret, "state", e->state_source, ROLE_STATE, SPEC_RW);
    spec_grant_work(ret, "output", NULL, ROLE_OUTPUT, SPEC_RW);
    spec_grant_work(ret, "scratch", NULL, "/w/scratch", SPEC_RW);
    grant_dir(ret, e->material_source, "/w/material");
    grant_dir(ret, e->task_info_source, "/w/task-info");
    grant_dir(ret, e->history_source, "/w/history");
    grant_dir(ret, e->root_source, "/w/root");
    grant_dir(ret, e->validation_source, "/w/validation");
    grant_environment(ret, e->config->evolver.grants.environment);
    grant_paths(ret, access);
    apply_limits(ret, &access->limits);
    json_t *c = context_new("evolver");
    json_set_str(c, "adapter", ROLE_ADAPTER);
    json_set_str(c, "state", ROLE_STATE);
    json_set_str(c, "output", ROLE_OUTPUT);
    json_set_str(c, "scratch", "/w/scratch");
    json_set_str(c, "material", "/w/material");
    json_set_str(c, "task_info", e->task_info_source != NULL ? "/w/task-info" : NULL);
    json_set_str(c, "history", "/w/history");
    json_set_str(c, "root", "/w/root");
    json_set_str(c, "validation", e->validation_source != NULL ? "/w/validation" : NULL);
    json_set_take(c, "params", json_deep_copy(e->config->evolver.params));
    json_set_int(c, "seed", e->seed);
    json_set_int(c, "step", e->step);
    context_apply(ret, c, access->env);
}

struct call_spec evolver_role_call(const struct evolver_sandbox *e)
{
    return call_of(e->program->inside, e->config->evolver.timeout_ns, e->config->evolver.access.limits.output);
}

/* ------------------------------------------------------------------ template check */

void check_role_spec(struct check_sandbox *c, struct sandbox_spec *ret)
{
    begin(ret, c->name, "check", c->program_source);
    grant_dir(ret, c->candidate_source, ROLE_ADAPTER);
    grant_dir(ret, c->root_source, "/w/root");
    json_t *context = context_new("check");
    json_set_str(context, "adapter", ROLE_ADAPTER);
    json_set_str(context, "root", "/w/root");
    context_apply(ret, context, NULL);
    c->argv = strv_append(strv_copy(c->program->inside), xstrdup(ROLE_ADAPTER));
}

struct call_spec check_role_call(const struct check_sandbox *c)
{
    return call_of(c->argv, c->timeout_ns, -1);
}
