/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/engine.h"

#include "backends/capability.h"
#include "backends/handoff.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/rng.h"
#include "config/confinement.h"
#include "orchestrator/batch.h"
#include "orchestrator/budget.h"
#include "orchestrator/built.h"
#include "orchestrator/control_loop.h"
#include "orchestrator/readable.h"
#include "orchestrator/row_json.h"
#include "orchestrator/sweep.h"
#include "roles/context.h"
#include "state/durable.h"
#include "state/fingerprint.h"
#include "state/redact.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TICK_MS 100
#define BUDGET_TICKS 50 /* a runner that is killed loses at most so much of its time */

/* ------------------------------------------------------------------ loading */

static int load_operator(struct engine *e, struct orch_err *err)
{
    struct config_findings *f = &e->findings;
    AUTO_FREE char *system_dir = NULL;
    AUTO_FREE char *user_dir = NULL;
    operator_directories(&system_dir, &user_dir);
    TRY(operator_load(system_dir, user_dir, &e->operator_config, f, err));
    operator_check(e->operator_config, e->config, f);
    return config_findings_result(f, err);
}

static int load_confinement(struct engine *e, struct orch_err *err)
{
    AUTO_CONFINEMENT_REQUEST struct confinement_request request = {0};
    TRY(confinement_request_read(e->call->environ, &request, err));
    TRY(confinement_choose(e->operator_config, &request, e->config->sandbox.mechanism, "sandbox.mechanism", false,
                           &e->mechanism, err));
    /* every role has its things at /w */
    TRY(capability_require(config_environment_names[e->config->environment.kind], config_mechanism_names[e->mechanism],
                           CAPABILITY_OWN_PATHS, NULL, err));
    e->readable = readable_paths(e->operator_config, &request);
    return 0;
}

static int load_tasks(struct engine *e, struct orch_err *err)
{
    struct tasks_source source = {
        .tasks = e->config->data.tasks,
        .split = {e->config->data.train, e->config->data.val, e->config->data.test},
        .answers = e->config->data.answers,
    };
    return tasks_open(&source, &e->tasks, &e->findings, err);
}

int engine_scan_tree(const char *dir, const char *what, struct orch_err *err)
{
    AUTO_FD int fd = fd_open(dir, O_RDONLY | O_DIRECTORY, 0, err);
    TRY(fd);
    struct handoff_limits limits = {.bytes = TEMPLATE_BYTES_MAX, .entries = TEMPLATE_FILES_MAX};
    struct handoff_report report;
    TRY(handoff_scan(fd, &limits, &report, err));
    if (report.dropped == 0) {
        return 0;
    }
    const struct handoff_note *first = &report.notes[0];
    AUTO_BUF struct buf path;
    buf_init(&path, BUF_MAX_LINE);
    buf_escaped(&path, first->path, strlen(first->path), false);
    return err_set(err, ORCH_E_CONFIG, "%s/%s (%s): %s holds regular files and directories only", dir, path.data,
                   handoff_reason_name(first->reason), what);
}

static int load_template(struct engine *e, struct orch_err *err)
{
    const char *root =
        e->config->candidate.start_from != NULL ? e->config->candidate.start_from : e->config->candidate.template_dir;
    e->root_dir = xstrdup(root);
    TRY(template_load(e->config->candidate.template_dir, &e->template, &e->findings, err));
    return engine_scan_tree(e->root_dir, "a template", err);
}

/* Every environment that is built runs the programs of this machine: one that is not found here would fail each call.
 */
static int check_program(char *const *command, const char *dir, const char *key, struct orch_err *err)
{
    if (command[0] == NULL) {
        return 0;
    }
    TRY(program_check(command, dir, err));
    AUTO_FREE char *path = NULL;
    if (strchr(command[0], '/') == NULL && path_search(command[0], CONTEXT_PATH, &path, err) < 0) {
        err->code = ORCH_E_CONFIG;
        return err_wrap(err, "%s", key);
    }
    return 0;
}

static int load_all(struct engine *e, const char *config_path, char *const *overrides, struct orch_err *err)
{
    TRY(run_config_load(config_path, overrides, &e->config, &e->findings, err));
    TRY(built_check(e->config, err));
    TRY(load_operator(e, err));
    TRY(load_confinement(e, err));
    TRY(load_tasks(e, err));
    TRY(load_template(e, err));
    const struct run_config *c = e->config;
    TRY(check_program(c->task.command, c->dir, "task.command", err));
    TRY(check_program(c->judge.command, c->dir, "judge.command", err));
    TRY(check_program(c->evolver.command, c->dir, "evolver.command", err));
    return check_program(e->template.check_command, c->candidate.template_dir, "the template's check.command", err);
}

int engine_load(struct engine *e, const struct verb_call *call, const char *config_path, char *const *overrides,
                struct orch_err *err)
{
    *e = (struct engine){.call = call, .clock = call->clock, .trouble = json_array()};
    e->began_ns = clock_mono_ns(&e->clock);
    e->overrides = strv_copy(overrides);
    int code = load_all(e, config_path, overrides, err);
    if (code == ORCH_E_IO || code == ORCH_E_HOSTILE || code == ORCH_E_LIMIT || code == ORCH_E_NOT_FOUND) {
        err->code = ORCH_E_CONFIG; /* a path of the user's that cannot be read as what it should be */
        return err->code;
    }
    TRY(code);
    TRY(layout_find(e->config->file, verb_option_value(call, "project"), e->config->state_dir, &e->layout, err));
    return engine_check_grants(e, err);
}

/* ------------------------------------------------------------------ fingerprint */

static int add_program(json_t *into, const char *key, char *const *command, const char *dir, struct orch_err *err)
{
    if (command[0] == NULL) {
        return 0;
    }
    char digest[DIGEST_TEXT_MAX];
    TRY(program_digest_now(command, dir, digest, err));
    json_set_str(into, key, digest);
    return 0;
}

static int add_tree(json_t *into, const char *key, const char *path, struct orch_err *err)
{
    if (path == NULL) {
        return 0;
    }
    char digest[DIGEST_TEXT_MAX];
    TRY(contents_digest(path, digest, err));
    json_set_str(into, key, digest);
    return 0;
}

int engine_meaning(struct engine *e, const char *kind, json_t *more, struct orch_err *err)
{
    const struct run_config *c = e->config;
    json_t *doc = json_object();
    e->meaning = doc;
    json_set_str(doc, "kind", kind);
    json_set_take(doc, "config", run_config_meaning(c));
    json_t *data = json_object();
    json_set_take(doc, "data", data);
    json_set_str(data, "tasks", tasks_digest(e->tasks));
    for (int s = 0; s < TASKS_SPLIT_COUNT; s++) {
        json_set_str(data, tasks_split_names[s], tasks_split_digest(e->tasks, (enum tasks_split)s));
    }
    json_t *contents = json_object();
    json_set_take(doc, "contents", contents);
    TRY(add_program(contents, "task.command", c->task.command, c->dir, err));
    TRY(add_program(contents, "judge.command", c->judge.command, c->dir, err));
    TRY(add_program(contents, "evolver.command", c->evolver.command, c->dir, err));
    TRY(add_program(contents, "template.check", e->template.check_command, c->candidate.template_dir, err));
    TRY(add_tree(contents, "template", c->candidate.template_dir, err));
    TRY(add_tree(contents, "start_from", c->candidate.start_from, err));
    TRY(add_tree(contents, "task_info", c->task_info, err));
    for (size_t i = 0; c->judge.tests[i] != NULL; i++) {
        AUTO_FREE char *key = xasprintf("judge.tests[%zu]", i);
        TRY(add_tree(contents, key, c->judge.tests[i], err));
    }
    if (more != NULL) {
        json_set_take(doc, "eval", more);
    }
    return 0;
}

/* ------------------------------------------------------------------ create, adopt */

/* What a runner that died left half made or half removed must not be taken for whole. */
static int fresh_local(const struct engine *e, struct orch_err *err)
{
    AUTO_FREE char *parent = path_dir(e->local_dir);
    TRY(fd_mkdirs(parent, 0700, err));
    AUTO_FD int fd = fd_open(parent, O_RDONLY | O_DIRECTORY, 0, err);
    TRY(fd);
    TRY(fd_remove_tree(fd, path_base(e->local_dir), err));
    return fd_mkdirs(e->local_dir, 0700, err);
}

static int open_kept(struct engine *e, struct orch_err *err)
{
    AUTO_FREE char *objects = path_join(e->run_dir, RUN_OBJECTS);
    TRY(objects_open(objects, e->record, e->redactor, &e->objects, err));
    AUTO_FREE char *versions = path_join(e->run_dir, RUN_VERSIONS);
    return versions_create(NULL, versions, &e->versions, err);
}

static int open_parts(struct engine *e, enum record_mode mode, struct orch_err *err)
{
    e->run_dir = layout_run_dir(&e->layout, e->run_id);
    e->local_dir = layout_local_dir(&e->layout, e->run_id);
    TRY(lock_take(e->run_dir, &e->lock, err));
    sweep_local(&e->layout);
    TRY(fresh_local(e, err));
    e->redactor = redact_new(e->call->environ);
    TRY(record_open(e->run_dir, mode, &e->clock, &e->record, err));
    int code = open_kept(e, err);
    if (mode == RECORD_WRITE && (code == ORCH_E_NOT_FOUND || code == ORCH_E_FAILED)) {
        err->code = ORCH_E_DAMAGED;
        return err_wrap(err, "run %s: " RUN_OBJECTS " or " RUN_VERSIONS, e->run_id);
    }
    return code;
}

static int write_config(const struct engine *e, struct orch_err *err)
{
    AUTO_FREE char *shown = run_config_show(e->config);
    AUTO_FREE char *text = redact_text(e->redactor, shown);
    AUTO_FREE char *path = path_join(e->run_dir, RUN_CONFIG);
    return durable_write_path(path, text, strlen(text), 0600, err);
}

static int write_meta(struct engine *e, const char *kind, struct orch_err *err)
{
    char fingerprint[FINGERPRINT_MAX];
    fingerprint_of(e->meaning, fingerprint);
    AUTO_FREE char *document = json_canonical(e->meaning);
    AUTO_FREE char *seed = xasprintf("%lld", (long long)e->config->seed);
    AUTO_JSON json_t *given = json_from_strv(e->overrides);
    AUTO_FREE char *overrides = json_canonical(given);
    char created[CLOCK_TEXT_MAX];
    const struct {
        const char *key, *value;
    } facts[] = {
        {"run_id", e->run_id},
        {"name", e->config->name},
        {"kind", kind},
        {"fingerprint", fingerprint},
        {"fingerprint_document", document},
        {"seed", seed},
        {"config_file", e->config->file},
        {"overrides", overrides},
        {"environment", config_environment_names[e->config->task.environment.kind]},
        {"created", clock_iso(clock_wall_ns(&e->clock), created)},
        {"orch_version", ORCH_VERSION},
        {"state", "running"},
    };
    for (size_t i = 0; i < ARRAY_LEN(facts); i++) {
        TRY(record_meta_set(e->record, facts[i].key, facts[i].value, RECORD_FSYNC(NULL, NULL), err));
    }
    return 0;
}

static void on_drain(uv_async_t *async)
{
    struct engine *e = async->data;
    if (e->record != NULL) {
        (void)record_drain(e->record);
    }
}

static void notify_drain(void *arg)
{
    struct engine *e = arg;
    (void)uv_async_send(&e->drain);
}

static int start_record(struct engine *e, struct orch_err *err)
{
    TRY(record_start_writer(e->record, notify_drain, e, err));
    struct orch_err no_control = ERR_INIT;
    if (control_loop_start(e, &e->control, &no_control) < 0) {
        verb_note(e->call, "no control socket: %s", no_control.message);
    }
    return 0;
}

void engine_stop(struct engine *e)
{
    e->interrupts++;
    progress_line(e->progress, "stopping: running calls are ended and will be repeated; once more to quit at once");
    if (e->batch != NULL) {
        batch_stop(e->batch);
    }
}

static void on_signal(uv_signal_t *handle, int signum)
{
    (void)signum;
    struct engine *e = handle->data;
    if (e->interrupts > 0) {
        _exit(130); /* the node reads the end of its stream and kills everything */
    }
    engine_stop(e);
}

static bool print_event(void *arg, const struct event_row *row)
{
    struct engine *e = arg;
    e->events_seen = row->seq;
    verb_print_json_line(e->call, row_json_event(row));
    return true;
}

static void print_events(struct engine *e)
{
    struct orch_err err = ERR_INIT;
    if (e->call->json && e->record != NULL && record_events(e->record, e->events_seen, 0, print_event, e, &err) == 0) {
        (void)fflush(stdout);
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct engine *e = timer->data;
    progress_tick(e->progress);
    print_events(e);
    struct orch_err ignored = ERR_INIT; /* the next word of the record's own says what is wrong with it */
    if (++e->ticks % BUDGET_TICKS == 0 && e->record != NULL && e->lock != NULL) {
        (void)!budget_keep(e, &ignored);
    }
}

static void start_loop(struct engine *e)
{
    if (e->loop_ready) {
        return;
    }
    char threads[16];
    int64_t n = e->config->task.concurrency * 2 + 4;
    (void)snprintf(threads, sizeof threads, "%d", n > 64 ? 64 : (int)n);
    (void)setenv("UV_THREADPOOL_SIZE", threads, 1); /* NOLINT(concurrency-mt-unsafe): no thread is there yet */
    (void)uv_loop_init(&e->loop);
    e->drain.data = e->on_int.data = e->on_term.data = e->on_hup.data = e->tick.data = e;
    (void)uv_async_init(&e->loop, &e->drain, on_drain);
    (void)uv_signal_init(&e->loop, &e->on_int);
    (void)uv_signal_init(&e->loop, &e->on_term);
    (void)uv_signal_start(&e->on_int, on_signal, SIGINT);
    (void)uv_signal_start(&e->on_term, on_signal, SIGTERM);
    (void)uv_signal_init(&e->loop, &e->on_hup);
    (void)uv_signal_start(&e->on_hup, on_signal, SIGHUP);
    (void)uv_timer_init(&e->loop, &e->tick);
    (void)uv_timer_start(&e->tick, on_tick, TICK_MS, TICK_MS);
    e->progress = progress_new(e->call);
    e->loop_ready = true;
}

int engine_create(struct engine *e, const char *kind, struct orch_err *err)
{
    TRY(layout_make(&e->layout, err));
    TRY(layout_run_create(&e->layout, e->config->name, &e->clock, &e->run_id, err));
    AUTO_FREE char *starting = layout_run_path(&e->layout, e->run_id, RUN_STARTING);
    TRY(durable_write_path(starting, "", 0, 0600, err));
    TRY(open_parts(e, RECORD_CREATE, err));
    TRY(write_config(e, err));
    start_loop(e);
    TRY(start_record(e, err));
    TRY(write_meta(e, kind, err));
    TRY(engine_settle(e, err));
    return unlink(starting) < 0 ? err_errno(err, ORCH_E_IO, "remove %s", starting) : 0;
}

int engine_create_place(struct engine *e, struct orch_err *err)
{
    TRY(layout_make(&e->layout, err));
    char random[9];
    random_name(random, sizeof random - 1);
    sweep_local(&e->layout);
    AUTO_FREE char *name = xasprintf("check-%d-%s", (int)getpid(), random);
    e->run_id = take(name);
    e->local_dir = layout_local_dir(&e->layout, e->run_id);
    TRY(fd_mkdirs(e->local_dir, 0700, err));
    start_loop(e);
    return 0;
}

int engine_adopt(struct engine *e, const char *run_id, struct orch_err *err)
{
    e->run_id = xstrdup(run_id);
    TRY(open_parts(e, RECORD_WRITE, err));
    TRY(engine_whole(e, err));
    TRY(budget_open(e, err));
    start_loop(e);
    TRY(start_record(e, err));
    int64_t head = 0;
    char hash[65];
    TRY(record_head(e->record, &head, hash, err));
    e->events_seen = head;
    TRY(record_event(e->record, "run.resumed", "run", "{}", NULL, err));
    return record_meta_set(e->record, "state", "running", RECORD_FSYNC(NULL, NULL), err);
}

/* ------------------------------------------------------------------ awaiting */

void engine_await(struct engine *e, const bool *done)
{
    while (!*done) {
        (void)uv_run(&e->loop, UV_RUN_ONCE);
    }
}

struct job {
    uv_work_t work;
    void (*fn)(void *arg);
    void *arg;
    bool done;
};

static void job_run(uv_work_t *work)
{
    struct job *j = work->data;
    j->fn(j->arg);
}

static void job_done(uv_work_t *work, int status)
{
    (void)status;
    struct job *j = work->data;
    j->done = true;
}

void engine_work(struct engine *e, void (*fn)(void *arg), void *arg)
{
    struct job j = {.fn = fn, .arg = arg};
    j.work.data = &j;
    if (uv_queue_work(&e->loop, &j.work, job_run, job_done) != 0) {
        fn(arg);
        return;
    }
    engine_await(e, &j.done);
}

int engine_check(const struct engine *e, struct orch_err *err)
{
    return e->interrupts > 0 ? err_set(err, ORCH_E_INTERRUPTED, "stopped by a signal") : 0;
}

struct flush_job {
    struct record *record;
    int code;
    struct orch_err err;
};

static void flush_run(void *arg)
{
    struct flush_job *j = arg;
    j->code = record_flush(j->record, &j->err);
}

int engine_settle(struct engine *e, struct orch_err *err)
{
    struct flush_job j = {.record = e->record, .err = ERR_INIT};
    engine_work(e, flush_run, &j);
    (void)record_drain(e->record);
    print_events(e);
    if (j.code < 0) {
        *err = j.err;
    }
    return j.code;
}

struct put_wait {
    bool done;
    struct orch_err err;
    char *source;
};

static void put_done(struct environment *env, const struct put_result *r, void *arg)
{
    (void)env;
    struct put_wait *w = arg;
    w->err = r->err;
    w->source = r->err.code == 0 ? xstrdup(r->source) : NULL;
    w->done = true;
}

int engine_put(struct engine *e, const char *dir, char **ret_source, struct orch_err *err)
{
    struct put_wait w = {.err = ERR_INIT};
    TRY(environment_put(e->environment, dir, put_done, &w, err));
    engine_await(e, &w.done);
    if (w.err.code < 0) {
        *err = w.err;
        return err_wrap(err, "hand over %s", dir);
    }
    *ret_source = w.source;
    return 0;
}

void engine_grant_readable(const struct engine *e, struct sandbox_spec *spec)
{
    if (environment_caps(e->environment)->shares_paths) {
        readable_grant(spec, e->readable);
    }
}

/* ------------------------------------------------------------------ directories */

int engine_fresh_dir(struct engine *e, const char *name, char **ret, struct orch_err *err)
{
    AUTO_FD int local = fd_open(e->local_dir, O_RDONLY | O_DIRECTORY, 0, err);
    TRY(local);
    TRY(fd_remove_tree(local, name, err));
    char *path = path_join(e->local_dir, name);
    int code = fd_mkdirs(path, 0755, err);
    if (code < 0) {
        free(path);
        return code;
    }
    *ret = path;
    return 0;
}

struct checkout_job {
    struct engine *e;
    const char *sha;
    const char *name;
    char *dir;
    int code;
    struct orch_err err;
};

static int checkout(struct checkout_job *j)
{
    AUTO_FREE char *partial_name = xasprintf("%s.new", j->name);
    AUTO_FREE char *partial = NULL;
    TRY(engine_fresh_dir(j->e, partial_name, &partial, &j->err));
    AUTO_FD int fd = fd_open(partial, O_RDONLY | O_DIRECTORY, 0, &j->err);
    TRY(fd);
    TRY(versions_checkout(j->e->versions, j->sha, fd, &j->err));
    if (rename(partial, j->dir) < 0) {
        return err_errno(&j->err, ORCH_E_IO, "rename %s", partial);
    }
    return 0;
}

static void checkout_run(void *arg)
{
    struct checkout_job *j = arg;
    j->code = access(j->dir, F_OK) == 0 ? 0 : checkout(j);
}

int engine_version(struct engine *e, int64_t number, const char *sha, const char **ret_source, char **ret_dir,
                   struct orch_err *err)
{
    AUTO_FREE char *name = xasprintf("version-%.16s", sha);
    AUTO_FREE char *dir = path_join(e->local_dir, name);
    struct checkout_job j = {.e = e, .sha = sha, .name = name, .dir = dir, .err = ERR_INIT};
    engine_work(e, checkout_run, &j);
    if (j.code < 0) {
        *err = j.err;
        return err_wrap(err, "check out version %lld", (long long)number);
    }
    size_t index = (size_t)number;
    if (index >= e->version_source_count) {
        e->version_sources = xrealloc(e->version_sources, (index + 1) * sizeof *e->version_sources);
        while (e->version_source_count <= index) {
            e->version_sources[e->version_source_count++] = NULL;
        }
    }
    if (e->version_sources[index] == NULL) {
        TRY(engine_put(e, dir, &e->version_sources[index], err));
    }
    if (ret_source != NULL) {
        *ret_source = e->version_sources[index];
    }
    if (ret_dir != NULL) {
        *ret_dir = take(dir);
    }
    return 0;
}

void engine_sandbox_record(const struct engine *e, const char *role, int64_t n, const json_t *document)
{
    AUTO_FREE char *path = xasprintf("%s/" RUN_SANDBOX "/%s-%lld.json", e->run_dir, role, (long long)n);
    AUTO_FREE char *text = json_pretty(document);
    AUTO_FREE char *clean = redact_text(e->redactor, text);
    struct orch_err err = ERR_INIT;
    AUTO_FD int fd = fd_open(path, O_WRONLY | O_CREAT, 0600, &err);
    if (fd >= 0) {
        (void)!fd_overwrite(fd, clean, strlen(clean), &err); /* the record holds the same; this is the copy to read */
    }
}
