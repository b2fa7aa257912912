/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/evolve.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/rng.h"
#include "orchestrator/row_json.h"
#include "orchestrator/trial_record.h"
#include "roles/material.h"
#include "roles/role_call.h"
#include "roles/task_role.h"
#include "state/durable.h"
#include "state/redact.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY_SEARCH_MAX ((size_t)1 << 30) /* of one file: the handoff's own cap */

char *evolve_path(const struct engine *e, int64_t step, const char *part)
{
    AUTO_FREE char *dir = layout_step_dir(&e->layout, e->run_id, step);
    return path_join(dir, part);
}

/* ------------------------------------------------------------------ directories */

/* steps/<step>/<part>, empty. */
static int fresh_part(const struct engine *e, int64_t step, const char *part, char **ret, struct orch_err *err)
{
    AUTO_FREE char *dir = layout_step_dir(&e->layout, e->run_id, step);
    TRY(fd_mkdirs(dir, 0700, err));
    AUTO_FD int fd = fd_open(dir, O_RDONLY | O_DIRECTORY, 0, err);
    TRY(fd);
    TRY(fd_remove_tree(fd, part, err));
    if (mkdirat(fd, part, 0755) < 0) {
        return err_errno(err, ORCH_E_IO, "make %s/%s", dir, part);
    }
    *ret = path_join(dir, part);
    return 0;
}

/* A fetched directory becomes the step's, whole or not at all. */
static int publish(const struct engine *e, int64_t step, const char *from, const char *to, struct orch_err *err)
{
    AUTO_FREE char *dir = layout_step_dir(&e->layout, e->run_id, step);
    AUTO_FD int fd = fd_open(dir, O_RDONLY | O_DIRECTORY, 0, err);
    TRY(fd);
    TRY(fd_remove_tree(fd, to, err));
    if (renameat(fd, from, fd, to) < 0) {
        return err_errno(err, ORCH_E_IO, "rename %s to %s", from, to);
    }
    if (syncfs(fd) < 0) { /* the files in it were not synced one by one */
        return err_errno(err, ORCH_E_IO, "sync %s", dir);
    }
    return durable_sync_dir(fd, err);
}

/* ------------------------------------------------------------------ what the evolver reads */

struct material_job {
    struct engine *e;
    int64_t step;
    char *dir;
    char *history;
    int code;
    struct orch_err err;
};

static bool add_step(void *arg, const struct step_row *row)
{
    json_t *list = arg;
    if (row->outcome == NULL) {
        return true;
    }
    json_t *o = json_object();
    json_set_int(o, "step", row->number);
    json_set_int(o, "base_version", row->base_version);
    json_set_str(o, "outcome", row->outcome);
    json_set_int(o, "version", row->version);
    json_t *data = row->data != NULL ? json_loads(row->data, 0, NULL) : NULL;
    json_set_str(o, "reason", row_json_step_reason(data));
    json_set_take(o, "mean_score",
                  json_is_number(json_get(data, "mean_score")) ? json_incref(json_get(data, "mean_score"))
                                                               : json_null());
    json_decref(data);
    json_add_take(list, o);
    return true;
}

static int write_history(struct material_job *j)
{
    AUTO_JSON json_t *list = json_array();
    TRY(record_steps(j->e->record, add_step, list, &j->err));
    AUTO_FREE char *text = json_pretty(list);
    AUTO_FREE char *path = path_join(j->history, "steps.json");
    AUTO_FD int fd = fd_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644, &j->err);
    TRY(fd);
    return fd_write_all(fd, text, strlen(text), &j->err);
}

static void write_material(void *arg)
{
    struct material_job *j = arg;
    j->code = fresh_part(j->e, j->step, "material", &j->dir, &j->err);
    if (j->code == 0) {
        j->code = material_write(j->e->record, j->e->objects, j->e->tasks, j->step, j->dir, &j->err);
    }
    if (j->code == 0) {
        j->code = fresh_part(j->e, j->step, "history", &j->history, &j->err);
    }
    if (j->code == 0) {
        j->code = write_history(j);
    }
}

static int prepare_reading(struct engine *e, int64_t step, char **ret_material, char **ret_history,
                           struct orch_err *err)
{
    TRY(engine_settle(e, err)); /* the material is made from what is committed */
    struct material_job j = {.e = e, .step = step, .err = ERR_INIT};
    engine_work(e, write_material, &j);
    AUTO_FREE char *dir = j.dir;
    AUTO_FREE char *history = j.history;
    if (j.code < 0) {
        *err = j.err;
        return err_wrap(err, "write the material of step %lld", (long long)step);
    }
    TRY(fault_point(FAULT_STEP_MATERIAL, err));
    TRY(engine_put(e, dir, ret_material, err));
    return engine_put(e, history, ret_history, err);
}

/* ------------------------------------------------------------------ the call */

struct call_wait {
    struct engine *e;
    struct call_note *note;
    bool done;
    bool failed;
    int code;
    struct orch_err err;     /* ours, or the record's */
    struct orch_err outcome; /* infrastructure */
};

static void call_ended(struct role_call_outcome *o, void *arg)
{
    struct call_wait *w = arg;
    w->outcome = o->err;
    w->code = call_note_ended(w->e, w->note, o, &w->err);
    w->done = true;
}

struct stopper { /* lets a signal end the evolver's call */
    uv_timer_t timer;
    struct engine *e;
    struct role_call *running;
    struct call_wait *wait;
    bool closed;
};

static void stop_if_asked(uv_timer_t *timer)
{
    struct stopper *s = timer->data;
    if (s->e->interrupts > 0 && !s->wait->done) {
        role_call_cancel(s->running);
    }
}

static void stopper_closed(uv_handle_t *handle)
{
    ((struct stopper *)handle->data)->closed = true;
}

/* Opens, runs, fetches; awaits it. w->outcome holds an infrastructure error. */
static int run_call(struct engine *e, const struct sandbox_spec *spec, const struct call_spec *call,
                    struct role_fetch *fetches, size_t n, struct call_note *note, struct call_wait *w,
                    struct orch_err *err)
{
    *w = (struct call_wait){.e = e, .note = note, .err = ERR_INIT, .outcome = ERR_INIT};
    struct stopper s = {.e = e, .wait = w};
    call_note_asked(note, spec);
    struct role_call_plan plan = {
        .spec = spec, .call = call, .fetches = fetches, .fetch_count = n, .ended = call_ended, .arg = w};
    e->calls++;
    TRY(role_call_start(e->environment, &plan, &s.running, err));
    int code = call_note_started(e, note, err);
    s.timer.data = &s;
    (void)uv_timer_init(&e->loop, &s.timer);
    (void)uv_timer_start(&s.timer, stop_if_asked, 50, 50);
    engine_await(e, &w->done);
    uv_close((uv_handle_t *)&s.timer, stopper_closed);
    engine_await(e, &s.closed);
    if (w->code < 0) {
        *err = w->err;
        return w->code;
    }
    return code;
}

struct keep_job {
    struct engine *e;
    struct call_note *note;
    int code;
    struct orch_err err;
};

static void keep_run(void *arg)
{
    struct keep_job *j = arg;
    j->code = call_note_keep(j->e, j->note, &j->err);
}

static int keep_and_settle(struct engine *e, struct call_note *note, struct orch_err *err)
{
    struct keep_job j = {.e = e, .note = note, .err = ERR_INIT};
    engine_work(e, keep_run, &j);
    if (j.code < 0) {
        *err = j.err;
        return j.code;
    }
    return call_note_settle(e, note, NULL, err);
}

/* NULL when the evolver did its part; else why not. Owned. */
static char *evolver_failure(const struct call_note *n, const struct role_fetch *adapter,
                             const struct role_fetch *state)
{
    if (n->end.end == CALL_LIMIT) {
        return xasprintf("the evolver was stopped by its limit \"%s\"", n->limit);
    }
    if (n->end.end != CALL_EXITED || n->end.code != 0) {
        return xasprintf("the evolver %s %d", call_end_name(n->end.end), n->end.code);
    }
    if (adapter->err.code < 0) {
        return xasprintf("its candidate could not be taken over: %s", adapter->err.message);
    }
    return state->err.code < 0 ? xasprintf("its state could not be taken over: %s", state->err.message) : NULL;
}

/* ------------------------------------------------------------------ keys in what it left */

struct key_search {
    const struct redactor *redactor;
    const char *variable; /* found; borrowed from the redactor */
};

static int search_file(const char *path, int fd, uint64_t size, bool executable, void *arg, struct orch_err *err)
{
    (void)size;
    (void)executable;
    struct key_search *k = arg;
    AUTO_FREE char *data = NULL;
    size_t len = 0;
    TRY(fd_read_all(fd, KEY_SEARCH_MAX, &data, &len, err));
    const char *found = redact_contains(k->redactor, data, len);
    found = found != NULL ? found : redact_contains(k->redactor, path, strlen(path));
    k->variable = found != NULL ? found : k->variable;
    return 0;
}

struct key_job {
    struct key_search search;
    const int *fds;
    size_t count;
    int code;
    struct orch_err err;
};

static void search_run(void *arg)
{
    struct key_job *j = arg;
    struct handoff_limits limits = {.observe = search_file, .observe_arg = &j->search};
    for (size_t i = 0; i < j->count && j->code == 0; i++) {
        struct handoff_report report;
        j->code = handoff_scan(j->fds[i], &limits, &report, &j->err);
    }
}

/* A candidate or a state with a key in it is refused whole, and not kept: nothing is rewritten behind its back. */
static int refuse_keys(struct engine *e, const int *fds, size_t count, char **ret_reason, struct orch_err *err)
{
    struct key_job j = {.search = {.redactor = e->redactor}, .fds = fds, .count = count, .err = ERR_INIT};
    engine_work(e, search_run, &j);
    if (j.code < 0) {
        *err = j.err;
        return err_wrap(err, "search what the evolver left for keys");
    }
    if (j.search.variable != NULL) {
        *ret_reason =
            xasprintf("it left the value of %s in its candidate or state; nothing of it was kept", j.search.variable);
    }
    return 0;
}

static int64_t evolver_seed(const struct engine *e, int64_t step)
{
    AUTO_FREE char *label = xasprintf("evolver %lld", (long long)step);
    struct rng r = rng_seeded((uint64_t)e->config->seed, label);
    return (int64_t)(rng_next(&r) >> 12);
}

/* Links and special files never pass; whoever reads on must not wonder. Owned; NULL: everything passed. */
static char *left_out_text(const struct handoff_report *r)
{
    if (r->dropped == 0) {
        return NULL;
    }
    size_t i = 0;
    while (i + 1 < r->note_count && !handoff_reason_drops(r->notes[i].reason)) {
        i++;
    }
    AUTO_BUF struct buf path;
    buf_init(&path, BUF_MAX_LINE);
    buf_escaped(&path, r->notes[i].path, strlen(r->notes[i].path), false);
    return xasprintf("left out of its candidate: %llu, first %s (%s)", (unsigned long long)r->dropped, path.data,
                     handoff_reason_name(r->notes[i].reason));
}

struct fetched { /* fresh directories for what the evolver leaves */
    char *adapter;
    char *state;
    int adapter_fd;
    int state_fd;
};

static void fetched_done(struct fetched *f)
{
    free(f->adapter);
    free(f->state);
    fd_close(&f->adapter_fd);
    fd_close(&f->state_fd);
}

static int fetched_open(const struct engine *e, int64_t step, struct fetched *f, struct orch_err *err)
{
    TRY(fresh_part(e, step, "candidate.new", &f->adapter, err));
    TRY(fresh_part(e, step, "state.new", &f->state, err));
    f->adapter_fd = fd_open(f->adapter, O_RDONLY | O_DIRECTORY, 0, err);
    TRY(f->adapter_fd);
    f->state_fd = fd_open(f->state, O_RDONLY | O_DIRECTORY, 0, err);
    return f->state_fd < 0 ? f->state_fd : 0;
}

static int drop_left(const struct fetched *f, struct orch_err *err)
{
    TRY(fd_empty_dir(f->adapter_fd, err));
    return fd_empty_dir(f->state_fd, err);
}

/* One attempt. *again: an infrastructure error that may pass (err says which). */
static int attempt(struct engine *e, const struct evolve_step *s, const struct evolver_sandbox *setup,
                   int64_t incarnation, struct evolve_result *ret, bool *again, struct orch_err *err)
{
    __attribute__((cleanup(fetched_done))) struct fetched f = {.adapter_fd = -1, .state_fd = -1};
    __attribute__((cleanup(call_note_done))) struct call_note note = {0};
    TRY(fetched_open(e, s->step, &f, err));
    TRY(call_note_plan(e, &note, CALL_EVOLVER, 0, incarnation, s->step, err));
    TRY(engine_settle(e, err));
    struct evolver_sandbox named = *setup;
    named.name = note.name;
    AUTO_SPEC struct sandbox_spec spec;
    evolver_role_spec(&named, &spec);
    engine_grant_readable(e, &spec);
    struct call_spec call = evolver_role_call(&named);
    struct role_fetch fetches[] = {
        {.inside = ROLE_ADAPTER, .dest_dirfd = f.adapter_fd},
        {.inside = ROLE_STATE, .dest_dirfd = f.state_fd},
    };
    struct call_wait w;
    TRY(run_call(e, &spec, &call, fetches, 2, &note, &w, err));
    call_note_left_out(&note, &fetches[0].report);
    TRY(keep_and_settle(e, &note, err));
    TRY(engine_check(e, err));
    if (w.outcome.code < 0) {
        *err = w.outcome;
        *again = err_class_of(err->code) == ERR_RETRY || err_class_of(err->code) == ERR_UNKNOWN;
        return err_wrap(err, "evolver of step %lld", (long long)s->step);
    }
    ret->reason = evolver_failure(&note, &fetches[0], &fetches[1]);
    ret->left_out = left_out_text(&fetches[0].report);
    if (ret->reason == NULL) {
        const int left[] = {f.adapter_fd, f.state_fd};
        TRY(refuse_keys(e, left, ARRAY_LEN(left), &ret->reason, err));
    }
    ret->ok = ret->reason == NULL;
    if (!ret->ok) {
        TRY(drop_left(&f, err));
    }
    if (ret->ok) {
        TRY(publish(e, s->step, "candidate.new", "candidate", err));
        TRY(publish(e, s->step, "state.new", "state", err));
    }
    return 0;
}

static int put_state(struct engine *e, int64_t state_step, char **ret, struct orch_err *err)
{
    if (state_step == 0) {
        return 0;
    }
    AUTO_FREE char *dir = evolve_path(e, state_step, "state");
    return engine_put(e, dir, ret, err);
}

int evolve_call(struct engine *e, const struct evolve_step *s, struct evolve_result *ret, struct orch_err *err)
{
    *ret = (struct evolve_result){0};
    AUTO_FREE char *material = NULL;
    AUTO_FREE char *history = NULL;
    AUTO_FREE char *state = NULL;
    progress_activity(e->progress, "evolver");
    TRY(prepare_reading(e, s->step, &material, &history, err));
    TRY(put_state(e, s->state_step, &state, err));
    struct evolver_sandbox setup = {
        .config = e->config,
        .program = &e->evolver.program,
        .program_source = e->evolver.source,
        .state_source = state,
        .material_source = material,
        .task_info_source = e->task_info_source,
        .history_source = history,
        .root_source = s->root_source,
        .seed = evolver_seed(e, s->step),
        .step = s->step,
    };
    TRY(engine_version(e, s->base->number, s->base->sha, &setup.adapter_source, NULL, err));
    for (int64_t incarnation = 1;; incarnation++) {
        bool again = false;
        int code = attempt(e, s, &setup, incarnation, ret, &again, err);
        if (code == 0 || !again || incarnation > e->config->retry.max) {
            return code;
        }
        progress_line(e->progress, "%s; attempt %lld", err->message, (long long)incarnation + 1);
        err_clear(err);
    }
}

/* ------------------------------------------------------------------ the check */

struct rules_job {
    struct engine *e;
    const char *root_dir;
    const char *candidate;
    struct template_verdict verdict;
    int code;
    struct orch_err err;
};

static void rules_run(void *arg)
{
    struct rules_job *j = arg;
    j->code = template_settle(&j->e->template, j->root_dir, j->candidate, &j->verdict, &j->err);
}

static char *violations_text(const struct template_verdict *v)
{
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_LINE);
    for (size_t i = 0; i < strv_len(v->violations); i++) {
        buf_fmt(&b, "%s%s", i > 0 ? "; " : "", v->violations[i]);
    }
    if (v->more > 0) {
        buf_fmt(&b, "; and %zu more", v->more);
    }
    return buf_take(&b, NULL);
}

static int check_rules(struct engine *e, const char *root_dir, const char *candidate, char **ret_reason,
                       struct orch_err *err)
{
    struct rules_job j = {.e = e, .root_dir = root_dir, .candidate = candidate, .err = ERR_INIT};
    engine_work(e, rules_run, &j);
    if (j.code == ORCH_E_LIMIT) { /* more than any candidate may be: the evolver's doing, as a violation is */
        *ret_reason = xstrdup(j.err.message);
        template_verdict_done(&j.verdict);
        return 0;
    }
    if (j.code < 0) {
        *err = j.err;
        return err_wrap(err, "check the candidate");
    }
    if (strv_len(j.verdict.violations) > 0 && !e->template.drop) {
        *ret_reason = violations_text(&j.verdict);
    }
    template_verdict_done(&j.verdict);
    return 0;
}

static char *check_failure(const struct call_note *n)
{
    if (n->end.end == CALL_EXITED && n->end.code == 0) {
        return NULL;
    }
    AUTO_BUF struct buf b;
    buf_init(&b, 2048);
    buf_fmt(&b, "the template's check %s %d: ", call_end_name(n->end.end), n->end.code);
    size_t len = n->end.errout.head_len < 1000 ? n->end.errout.head_len : 1000;
    buf_escaped(&b, n->end.errout.head, len, false);
    return buf_take(&b, NULL);
}

static int check_program(struct engine *e, const struct evolve_step *s, const char *candidate, char **ret_reason,
                         struct orch_err *err)
{
    __attribute__((cleanup(call_note_done))) struct call_note note = {0};
    AUTO_FREE char *source = NULL;
    TRY(engine_put(e, candidate, &source, err));
    TRY(call_note_plan(e, &note, CALL_CHECK, 0, 1, s->step, err));
    struct check_sandbox setup = {
        .name = note.name,
        .program = &e->check.program,
        .program_source = e->check.source,
        .candidate_source = source,
        .root_source = s->root_source,
        .timeout_ns = e->template.check_timeout_ns,
    };
    AUTO_SPEC struct sandbox_spec spec;
    check_role_spec(&setup, &spec);
    engine_grant_readable(e, &spec);
    struct call_spec call = check_role_call(&setup);
    struct call_wait w;
    int code = run_call(e, &spec, &call, NULL, 0, &note, &w, err);
    strv_free(setup.argv);
    code = code < 0 ? code : keep_and_settle(e, &note, err);
    TRY(code);
    TRY(engine_check(e, err));
    if (w.outcome.code < 0) {
        *err = w.outcome;
        return err_wrap(err, "template check of step %lld", (long long)s->step);
    }
    *ret_reason = check_failure(&note);
    return 0;
}

int evolve_check(struct engine *e, const struct evolve_step *s, const char *root_dir, char **ret_reason,
                 struct orch_err *err)
{
    AUTO_FREE char *candidate = evolve_path(e, s->step, "candidate");
    *ret_reason = NULL;
    progress_activity(e->progress, "check of the candidate");
    TRY(check_rules(e, root_dir, candidate, ret_reason, err));
    if (*ret_reason != NULL || e->template.check_command[0] == NULL) {
        return 0;
    }
    return check_program(e, s, candidate, ret_reason, err);
}
