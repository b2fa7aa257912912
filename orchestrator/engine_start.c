/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's environment and programs: start and end. */
#include "orchestrator/engine.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "orchestrator/control_loop.h"
#include "orchestrator/guests.h"
#include "orchestrator/trial_place.h"
#include "state/redact.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define LOSSY_REPLY_NS (NS_PER_S / 2) /* the test environment loses replies: do not wait for them long */

struct start_wait {
    bool done;
    struct orch_err err;
};

static void started(struct environment *env, const struct environment_result *r, void *arg)
{
    (void)env;
    struct start_wait *w = arg;
    w->err = r->err;
    w->done = true;
}

int engine_start_environment(struct engine *e, struct orch_err *err)
{
    const struct config_environment *c = &e->config->task.environment;
    AUTO_FREE char *node = NULL;
    AUTO_FREE char *work = NULL;
    TRY(guest_find(e->call->program, "orch-node", &node, err));
    TRY(guest_find(e->call->program, "orch-init", &e->init_program, err));
    TRY(engine_fresh_dir(e, "node", &work, err));
    bool inside = path_is_beneath(e->layout.state, e->layout.root);
    const char *covered[] = {e->layout.root, inside ? NULL : e->layout.state, NULL};
    struct environment_settings s = {
        .loop = &e->loop,
        .node_program = node,
        .init_program = e->init_program,
        .work_dir = work,
        .mechanism = config_mechanism_names[e->mechanism],
        .owner = e->run_id,
        .uid_first = (uint32_t)e->operator_config->uid_range.first,
        .uid_count = (uint32_t)e->operator_config->uid_range.count,
        .covered = covered,
        .lose_every = (unsigned)c->lose,
        .reply_timeout_ns = c->lose > 0 ? LOSSY_REPLY_NS : 0,
    };
    TRY(environment_new(config_environment_names[c->kind], &s, &e->environment, err));
    struct start_wait w = {.err = ERR_INIT};
    TRY(environment_start(e->environment, started, &w, err));
    engine_await(e, &w.done);
    if (w.err.code < 0) {
        *err = w.err;
        return err->code;
    }
    if (e->readable[0] != NULL && !environment_caps(e->environment)->shares_paths) {
        verb_note(e->call, "orch: extra readable paths are left out: environment %s shares no paths with this machine",
                  environment_caps(e->environment)->name);
    }
    return 0;
}

static int stage(struct engine *e, const char *name, char *const *command, const char *dir, struct role_program *p,
                 struct orch_err *err)
{
    if (command[0] == NULL) {
        return 0;
    }
    AUTO_FREE char *place = xasprintf("%s/program-%s", e->local_dir, name);
    TRY(program_prepare(command, dir, place, &p->program, err));
    return p->program.stage != NULL ? engine_put(e, p->program.stage, &p->source, err) : 0;
}

/* The judge's test files in one tree, each under its last name. */
static int stage_tests(struct engine *e, struct orch_err *err)
{
    char *const *tests = e->config->judge.tests;
    if (tests[0] == NULL) {
        return 0;
    }
    AUTO_STRV char **command = strv_append(NULL, xstrdup("true"));
    for (size_t i = 0; tests[i] != NULL; i++) {
        command = strv_append(command, xasprintf("../%s", tests[i][0] == '/' ? tests[i] + 1 : tests[i]));
    }
    struct program p = {0};
    AUTO_FREE char *place = path_join(e->local_dir, "tests");
    int code = program_prepare(command, "/x", place, &p, err); /* "../abs" from "/x" is "/abs" */
    if (code == 0 && p.stage != NULL) {
        code = engine_put(e, p.stage, &e->tests_source, err);
    }
    program_done(&p);
    return code;
}

int engine_start(struct engine *e, bool with_evolver, struct orch_err *err)
{
    const struct run_config *c = e->config;
    TRY(engine_start_environment(e, err));
    TRY(stage(e, "agent", c->task.command, c->dir, &e->agent, err));
    TRY(stage(e, "judge", c->judge.command, c->dir, &e->judge, err));
    if (c->judge.mode != CONFIG_JUDGE_HOST) {
        TRY(stage_tests(e, err));
    }
    if (with_evolver) {
        TRY(stage(e, "evolver", c->evolver.command, c->dir, &e->evolver, err));
        TRY(stage(e, "check", e->template.check_command, c->candidate.template_dir, &e->check, err));
        if (c->task_info != NULL) {
            TRY(engine_put(e, c->task_info, &e->task_info_source, err));
        }
    }
    return 0;
}

static void closed(void *arg)
{
    *(bool *)arg = true;
}

static void close_loop(struct engine *e)
{
    bool control_done = false;
    control_loop_close(e->control, &control_done);
    engine_await(e, &control_done);
    if (e->environment != NULL) {
        bool done = false;
        environment_close(e->environment, closed, &done);
        engine_await(e, &done);
        e->environment = NULL;
    }
    if (e->record != NULL) {
        struct orch_err err = ERR_INIT;
        (void)record_close(e->record, &err); /* what failed was reported when it was posted */
        e->record = NULL;
    }
    uv_handle_t *handles[] = {(uv_handle_t *)&e->drain, (uv_handle_t *)&e->on_int, (uv_handle_t *)&e->on_term,
                              (uv_handle_t *)&e->on_hup, (uv_handle_t *)&e->tick};
    for (size_t i = 0; i < ARRAY_LEN(handles); i++) {
        uv_close(handles[i], NULL);
    }
    (void)uv_run(&e->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&e->loop);
}

static void role_program_done(struct role_program *p)
{
    program_done(&p->program);
    free(p->source);
}

void engine_close(struct engine *e)
{
    objects_free(e->objects); /* borrows the record */
    if (e->loop_ready) {
        close_loop(e);
    } else if (e->record != NULL) {
        record_release(&e->record);
    }
    progress_free(e->progress);
    places_free(e);
    if (e->local_dir != NULL && (e->lock != NULL || e->run_dir == NULL)) { /* another runner's is not ours to remove */
        AUTO_FREE char *parent = path_dir(e->local_dir);
        struct orch_err err = ERR_INIT;
        AUTO_FD int fd = fd_open(parent, O_RDONLY | O_DIRECTORY, 0, &err);
        if (fd >= 0) {
            (void)!fd_remove_tree(fd, path_base(e->local_dir), &err); /* a later start empties what is left */
        }
    }
    versions_free(e->versions);
    redact_free(e->redactor);
    lock_drop(e->lock);
    struct role_program *programs[] = {&e->agent, &e->judge, &e->evolver, &e->check};
    for (size_t i = 0; i < ARRAY_LEN(programs); i++) {
        role_program_done(programs[i]);
    }
    for (size_t i = 0; i < e->version_source_count; i++) {
        free(e->version_sources[i]);
    }
    free(e->version_sources);
    free(e->tests_source);
    free(e->task_info_source);
    free(e->root_source);
    free(e->run_id);
    free(e->run_dir);
    free(e->init_program);
    free(e->local_dir);
    free(e->root_dir);
    strv_free(e->overrides);
    strv_free(e->readable);
    layout_done(&e->layout);
    template_done(&e->template);
    tasks_free(e->tasks);
    operator_free(e->operator_config);
    run_config_free(e->config);
    json_decref(e->meaning);
    config_findings_done(&e->findings);
    json_decref(e->trouble);
    *e = (struct engine){0};
}
