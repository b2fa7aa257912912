/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each role's sandbox holds (DESIGN 6 and the role table of docs/design.md):
 * one builder a role. A builder only fills a spec; opening and running is
 * role_call's. `sources` are grant sources that environment_put() gave.
 */
#ifndef ORCH_ROLES_TASK_ROLE_H
#define ORCH_ROLES_TASK_ROLE_H

#include "backends/environment.h"
#include "backends/spec.h"
#include "config/run_config.h"
#include "roles/program.h"

#define ROLE_OUTPUT "/w/output"
#define ROLE_ADAPTER "/w/adapter"
#define ROLE_COLLECTED "/w/collected"
#define ROLE_TESTS "/w/tests"
#define ROLE_VERDICT "/w/verdict"
#define ROLE_STATE "/w/state"

struct task_sandbox {
    const char *name; /* of the sandbox */
    const struct run_config *config;
    const struct program *program;
    const char *program_source; /* NULL: nothing staged */
    const char *adapter_source; /* NULL: the no-adapter baseline gets none */
    const char *task_text;      /* the row without answers */
    size_t task_len;
    int64_t seed; /* of this trial */
    int64_t sample;
};
/* *ret is initialised here; spec_done() it. */
void task_role_spec(const struct task_sandbox *t, struct sandbox_spec *ret);
/* The call in it; borrows from t. */
struct call_spec task_role_call(const struct task_sandbox *t);

struct judge_sandbox {
    const char *name;
    const struct run_config *config;
    const struct program *program;
    const char *program_source;
    const char *tests_source; /* NULL: none */
    const char *collected_source;
    const char *task_text; /* the whole row, with answers */
    size_t task_len;
};
void judge_role_spec(const struct judge_sandbox *j, struct sandbox_spec *ret);
struct call_spec judge_role_call(const struct judge_sandbox *j);

struct evolver_sandbox {
    const char *name;
    const struct run_config *config;
    const struct program *program;
    const char *program_source;
    const char *adapter_source; /* the current version: /w/adapter starts as its copy */
    const char *state_source;   /* kept state of the last step: /w/state starts as its copy; NULL: empty */
    const char *material_source;
    const char *task_info_source; /* NULL: none */
    const char *history_source;
    const char *root_source;
    const char *validation_source; /* NULL: not granted */
    int64_t seed;
    int64_t step;
};
void evolver_role_spec(const struct evolver_sandbox *e, struct sandbox_spec *ret);
struct call_spec evolver_role_call(const struct evolver_sandbox *e);

struct check_sandbox { /* a template's check program: strict, sees the candidate and itself */
    const char *name;
    const struct program *program; /* without the candidate's path, which is added last */
    const char *program_source;
    const char *candidate_source;
    const char *root_source;
    int64_t timeout_ns;
    char **argv; /* filled by check_role_spec; owned; strv_free() it after the call was started */
};
void check_role_spec(struct check_sandbox *c, struct sandbox_spec *ret);
struct call_spec check_role_call(const struct check_sandbox *c);

#endif
