/* SPDX-License-Identifier: Apache-2.0 */
/* An environment on a node: start, facts, close, and what comes over its stream. */
#include "backends/environments/environment_impl.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/utf8.h"

#include <string.h>
#include <unistd.h>

/* A node that was told to end removes its sandboxes first; this is far more than it takes. */
#define NODE_END_MS 20000

static void on_event(void *arg, const char *name, json_t *event);
static void on_down(void *arg, const struct orch_err *why);
static const struct node_client_callbacks client_callbacks = {.event = on_event, .down = on_down};

int environment_usable(const struct environment *env, struct orch_err *err)
{
    switch (env->state) {
    case ENV_UP:
        return 0;
    case ENV_DOWN:
        *err = env->why;
        return err->code;
    case ENV_CLOSING:
        return err_set(err, ORCH_E_INTERRUPTED, "the environment is being closed");
    case ENV_NEW:
    case ENV_STARTING:
    default:
        return err_set(err, ORCH_E_USAGE, "the environment is not started");
    }
}

int environment_asked(const struct environment *env, struct orch_err *err)
{
    return env->state == ENV_STARTING ? 0 : environment_usable(env, err);
}

static int check_settings(const struct environment_settings *s, struct orch_err *err)
{
    if (s->loop == NULL || s->node_program == NULL || s->node_program[0] != '/') {
        return err_set(err, ORCH_E_USAGE, "an environment needs a loop and the absolute path of orch-node");
    }
    if (s->work_dir == NULL || s->work_dir[0] != '/') {
        return err_set(err, ORCH_E_USAGE, "an environment needs the absolute path of a working directory");
    }
    const char *const paths[] = {s->node_program, s->init_program, s->work_dir};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        if (paths[i] != NULL && !utf8_valid(paths[i], strlen(paths[i]))) {
            return err_set(err, ORCH_E_USAGE, "%.400s is not UTF-8: give that directory another name, or set TMPDIR",
                           paths[i]);
        }
    }
    return 0;
}

int environment_new(const char *name, const struct environment_settings *settings, struct environment **ret,
                    struct orch_err *err)
{
    const struct environment_row *row = NULL;
    TRY(environment_row_find(name, &row, err));
    TRY(check_settings(settings, err));
    struct environment *env = xcalloc(1, sizeof *env);
    env->loop = settings->loop;
    env->row = row;
    env->caps = (struct environment_caps){
        .name = row->name,
        .shares_paths = row->shares_paths,
        .shares_kernel = true,
        .streams = true,
        .adopt = true,
    };
    env->node_program = xstrdup(settings->node_program);
    AUTO_FREE char *dir = path_dir(settings->node_program);
    env->pass_stdio = settings->pass_stdio;
    env->off = settings->off != NULL ? xstrdup(settings->off) : NULL;
    env->mechanism = xstrdup(settings->mechanism != NULL ? settings->mechanism : "auto");
    env->init_program = settings->init_program != NULL ? xstrdup(settings->init_program) : path_join(dir, "orch-init");
    env->work_dir = xstrdup(settings->work_dir);
    env->work_is_new = settings->work_is_new;
    for (size_t i = 0; settings->covered != NULL && settings->covered[i] != NULL; i++) {
        env->covered = strv_append(env->covered, xstrdup(settings->covered[i]));
    }
    env->uid_first = settings->uid_first;
    env->uid_count = settings->uid_count;
    env->lose_every = settings->lose_every;
    env->reply_timeout_ns = settings->reply_timeout_ns;
    env->pidfd = -1;
    env->node_lock = -1;
    env->sandboxes = map_new();
    (void)uv_timer_init(env->loop, &env->defer);
    env->defer.data = env;
    *ret = env;
    return 0;
}

bool environment_alive(const struct environment *env)
{
    return env->state == ENV_UP;
}

const struct environment_caps *environment_caps(const struct environment *env)
{
    return &env->caps;
}

/* ---- start ---- */

static void started(struct environment *env, const struct orch_err *err)
{
    struct environment_result result = {.err = *err};
    environment_cb cb = env->start_cb;
    env->start_cb = NULL;
    if (cb != NULL) {
        cb(env, &result, env->start_arg);
    }
}

/* A node that cannot start says why on its standard error. */
static void add_last_words(struct environment *env, struct orch_err *err)
{
    size_t len = env->stderr_len;
    while (len > 0 && env->stderr_tail[len - 1] == '\n') {
        len--;
    }
    if (len > 0) {
        struct orch_err more = *err;
        (void)err_set_at(err, more.code, more.sys, more.file, more.line, "%s: %.*s", more.message, (int)len,
                         env->stderr_tail);
    }
}

static void on_hello(void *arg, json_t *ok, const struct orch_err *err)
{
    struct environment *env = arg;
    struct orch_err e = *err;
    if (env->state == ENV_CLOSING) {
        started(env, &e);
        return;
    }
    if (ok == NULL) {
        if (e.code == ORCH_E_LOST) {
            e.code = ORCH_E_UNAVAILABLE; /* nothing was asked of it yet: nothing is unknown */
            add_last_words(env, &e);
        }
        (void)err_wrap(&e, "environment %s", env->row->name);
        env->state = ENV_DOWN;
        env->why = e;
        started(env, &e);
        return;
    }
    env->report = json_incref(ok);
    const json_t *mechanism = json_get(ok, "mechanism");
    env->caps.mechanism = json_get_str(mechanism, "name", "?");
    env->caps.limits = json_get_str(ok, "limits", "rlimit");
    env->caps.node_version = json_get_str(ok, "node_version", "1");
    env->caps.report = env->report;
    const char *work = json_get_str(ok, "work", NULL);
    if (work != NULL && env->row->shares_paths) {
        env->node_lock = environment_lock_dir(work);
    }
    env->state = ENV_UP;
    started(env, &e);
}

static json_t *hello_request(const struct environment *env)
{
    json_t *q = json_object();
    json_set_str(q, "op", "hello");
    json_set_int(q, "version", PROTOCOL_VERSION);
    json_set_flag(q, "shares_paths", env->row->shares_paths);
    json_set_str(q, "work", env->row->shares_paths ? env->work_dir : NULL);
    json_set_str(q, "init", env->init_program);
    json_set_str(q, "mechanism", env->mechanism);
    json_set_flag(q, "stdio", env->pass_stdio);
    json_t *ids = json_null();
    if (env->uid_count > 0) {
        ids = json_object();
        json_set_int(ids, "first", env->uid_first);
        json_set_int(ids, "count", env->uid_count);
    } else if (geteuid() == 0) {
        ids = json_object();
        json_set_int(ids, "first", 200000);
        json_set_int(ids, "count", 65000);
    }
    json_set_take(q, "ids", ids);
    json_t *faults = json_null();
    if (env->lose_every > 0 || env->off != NULL) {
        json_t *off = json_array();
        if (env->off != NULL) {
            json_add_str(off, env->off);
        }
        faults = json_object();
        json_set_int(faults, "lose", env->lose_every);
        json_set_take(faults, "off", off);
    }
    json_set_take(q, "faults", faults);
    return q;
}

/* Hello is never lost; a machine under load may take its time. */
static enum node_retry late_hello(void *arg, json_t *request, unsigned times)
{
    (void)arg, (void)request;
    return times < NODE_ATTEMPTS ? NODE_WAIT : NODE_GIVE_UP;
}

int environment_start(struct environment *env, environment_cb cb, void *arg, struct orch_err *err)
{
    struct node_launch launch = {0};
    int stream = -1;
    if (env->state != ENV_NEW) {
        return err_set(err, ORCH_E_USAGE, "the environment was started before");
    }
    TRY(env->row->launch(env, &launch, err));
    int r = node_process_start(env, &launch, &stream, err);
    node_launch_done(&launch);
    TRY(r);
    r = node_client_new(env->loop, stream, env->reply_timeout_ns, &client_callbacks, env, &env->client, err);
    if (r < 0) {
        node_process_kill(env);
        return r;
    }
    env->state = ENV_STARTING;
    if (!env->work_is_new) {
        environment_start_sweep(env);
    }
    env->start_cb = cb;
    env->start_arg = arg;
    (void)node_request(env->client, hello_request(env), late_hello, on_hello, env);
    return 0;
}

/* ---- events ---- */

static void on_event(void *arg, const char *name, json_t *event)
{
    struct environment *env = arg;
    static const struct {
        const char *name;
        void (*on)(struct environment *env, json_t *event);
    } events[] = {
        {"exited", call_exited_event},
        {"closed", sandbox_closed_event},
        {"connect", stream_connect_event},
    };
    for (size_t i = 0; i < ARRAY_LEN(events); i++) {
        if (strcmp(events[i].name, name) == 0) {
            events[i].on(env, event);
            return;
        }
    }
}

static bool first_value(const char *key, void *value, void *arg)
{
    (void)key;
    *(void **)arg = value;
    return false;
}

static bool end_one(const char *key, void *value, void *arg)
{
    struct sandbox *sb = value;
    (void)key;
    if (sb->calls == NULL && sb->streams == NULL && sb->state != SANDBOX_OPENING) {
        return true;
    }
    *(struct sandbox **)arg = sb;
    return false;
}

/* Callbacks may remove sandboxes: each search starts anew. */
static void end_sandboxes(struct environment *env, const struct orch_err *why)
{
    for (;;) {
        struct sandbox *sb = NULL;
        map_each(env->sandboxes, end_one, &sb);
        if (sb == NULL) {
            return;
        }
        sandbox_end_all(sb, why);
    }
}

static void on_down(void *arg, const struct orch_err *why)
{
    struct environment *env = arg;
    struct orch_err e = *why;
    add_last_words(env, &e);
    if (env->state == ENV_UP) {
        env->state = ENV_DOWN;
        env->why = e;
    }
    tree_end_all(env, &e);
    end_sandboxes(env, &e);
}

static bool collect_name(const char *key, void *value, void *arg)
{
    struct sandbox *sb = value;
    char ***names = arg;
    if (sb->streams != NULL) {
        *names = strv_append(*names, xstrdup(key));
    }
    return true;
}

static void on_defer(uv_timer_t *timer)
{
    struct environment *env = timer->data;
    AUTO_STRV char **names = NULL;
    map_each(env->sandboxes, collect_name, &names);
    for (size_t i = 0; i < strv_len(names); i++) {
        struct sandbox *sb = sandbox_find(env, names[i]);
        if (sb != NULL) {
            stream_pump_all(sb);
        }
    }
}

void environment_defer(struct environment *env)
{
    if (env->state != ENV_CLOSING) {
        (void)uv_timer_start(&env->defer, on_defer, 0, 0);
    }
}

/* ---- close ---- */

static void on_defer_closed(uv_handle_t *handle)
{
    struct environment *env = handle->data;
    env->handles--;
    environment_maybe_closed(env);
}

static void environment_free(struct environment *env)
{
    for (;;) {
        struct sandbox *sb = NULL;
        map_each(env->sandboxes, first_value, (void *)&sb);
        if (sb == NULL) {
            break;
        }
        sandbox_free(sb);
    }
    map_free(env->sandboxes);
    fd_close(&env->pidfd);
    fd_close(&env->node_lock);
    json_release(&env->report);
    free(env->node_program);
    free(env->init_program);
    free(env->mechanism);
    free(env->off);
    free(env->work_dir);
    strv_free(env->covered);
    free(env);
}

void environment_maybe_closed(struct environment *env)
{
    if (env->state != ENV_CLOSING || !env->close_begun || env->works > 0 || (env->pid > 0 && !env->exited) ||
        (env->client != NULL && !env->client_closed)) {
        return;
    }
    if (!env->closing_handles) {
        env->closing_handles = true;
        env->handles = 1;
        uv_close((uv_handle_t *)&env->defer, on_defer_closed);
        node_process_close(env);
        return;
    }
    if (env->handles > 0) {
        return;
    }
    void (*cb)(void *) = env->close_cb;
    void *arg = env->close_arg;
    environment_free(env);
    cb(arg);
}

static void on_client_closed(void *arg)
{
    struct environment *env = arg;
    env->client_closed = true;
    environment_maybe_closed(env);
}

static void on_node_late(uv_timer_t *timer)
{
    node_process_kill(timer->data);
}

/* From a clean stack: no callback of ours is under way, everything may go. */
static void on_close(uv_timer_t *timer)
{
    struct environment *env = timer->data;
    struct orch_err why = ERR_INIT;
    (void)err_set(&why, ORCH_E_INTERRUPTED, "the environment was closed");
    env->close_begun = true;
    (void)uv_timer_start(&env->defer, on_node_late, NODE_END_MS, 0);
    if (env->client != NULL) {
        node_client_close(env->client, on_client_closed, env);
    }
    tree_end_all(env, &why);
    end_sandboxes(env, &why);
    environment_maybe_closed(env);
}

void environment_close(struct environment *env, void (*cb)(void *arg), void *arg)
{
    env->state = ENV_CLOSING;
    env->close_cb = cb;
    env->close_arg = arg;
    (void)uv_timer_start(&env->defer, on_close, 0, 0);
}
