/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes of an environment: open, adopt, observe, list, remove. */
#include "backends/environments/environment_impl.h"

#include "backends/spec.h"
#include "base/mem.h"

#include <string.h>

struct sandbox *sandbox_find(const struct environment *env, const char *name)
{
    return map_get(env->sandboxes, name);
}

const char *sandbox_name(const struct sandbox *sb)
{
    return sb->name;
}

struct environment *sandbox_environment(const struct sandbox *sb)
{
    return sb->env;
}

void sandbox_set_data(struct sandbox *sb, void *data)
{
    sb->data = data;
}

void *sandbox_data(const struct sandbox *sb)
{
    return sb->data;
}

void sandbox_free(struct sandbox *sb)
{
    (void)map_remove(sb->env->sandboxes, sb->name);
    json_release(&sb->spec);
    free(sb->name);
    free(sb);
}

static json_t *sandbox_request(const char *op, const char *name)
{
    json_t *q = json_object();
    json_set_str(q, "op", op);
    json_set_str(q, "sandbox", name);
    return q;
}

/* ---- open ---- */

/* What the record keeps of a start: asked, enforced, checked. New reference. */
static json_t *start_record(const struct sandbox *sb, json_t *ok)
{
    json_t *o = json_object();
    if (sb->spec != NULL) {
        json_set_take(o, "asked", json_incref(sb->spec));
    }
    json_set_take(o, "mechanism", json_deep_copy(json_get(sb->env->report, "mechanism")));
    json_set_take(o, "enforced", json_incref(json_get(ok, "enforced")));
    json_set_take(o, "checks", json_incref(json_get(ok, "checks")));
    json_set_take(o, "left_out", json_incref(json_get(ok, "left_out")));
    json_set_take(o, "grants", json_incref(json_get(ok, "grants")));
    json_set_int(o, "host_uid", json_get_int(ok, "host_uid", -1));
    json_set_int(o, "uid", json_get_int(ok, "uid", -1));
    json_set_int(o, "open_ns", json_get_int(ok, "open_ns", -1));
    return o;
}

static void deliver_open(struct sandbox *sb, json_t *ok, const struct orch_err *err)
{
    sandbox_open_cb cb = sb->open_cb;
    sb->open_cb = NULL;
    sb->open_request = NULL;
    struct sandbox_opened opened = {.err = *err, .mechanism = "", .version = "", .grade = ""};
    AUTO_JSON json_t *record = NULL;
    if (ok != NULL) {
        const json_t *enforced = json_get(ok, "enforced");
        const char *network = json_get_str(enforced, "network", "no-network");
        record = start_record(sb, ok);
        opened.mechanism = json_get_str(enforced, "mechanism", "");
        opened.version = json_get_str(json_get(sb->env->report, "mechanism"), "version", "");
        opened.grade = strcmp(network, "public") == 0 ? "public-network" : "confined";
        opened.uid = (uint32_t)json_get_int(ok, "host_uid", 0);
        opened.checks = record;
        opened.degraded = json_get(ok, "degraded");
    }
    if (cb != NULL) {
        cb(sb, &opened, sb->open_arg);
    }
}

static void opened(struct sandbox *sb, json_t *ok, const struct orch_err *err)
{
    sb->busy++; /* the callback may remove it */
    sb->state = ok != NULL ? SANDBOX_OPEN : SANDBOX_FAILED;
    sb->err = *err;
    deliver_open(sb, ok, err);
    if (ok == NULL) {
        sandbox_end_all(sb, &sb->err);
    } else {
        call_open_settled(sb);
    }
    sandbox_release(sb);
}

static void on_open(void *arg, json_t *ok, const struct orch_err *err)
{
    struct sandbox *sb = arg;
    opened(sb, ok, err);
}

static void send_open(struct sandbox *sb);

/* What the node says about a sandbox whose open was not answered. */
static void on_late_open(void *arg, json_t *ok, const struct orch_err *err)
{
    struct sandbox *sb = arg;
    struct orch_err e = ERR_INIT;
    sb->observe_request = NULL;
    if (sb->open_request == NULL) {
        sandbox_release(sb);
        return; /* it was answered meanwhile */
    }
    const char *state = ok != NULL ? json_get_str(ok, "state", "") : "";
    if (ok == NULL) {
        node_request_settle(sb->open_request, NULL, err);
    } else if (strcmp(state, "open") == 0) {
        node_request_settle(sb->open_request, json_get(ok, "open"), NULL);
    } else if (strcmp(state, "absent") == 0) {
        /* It failed there, and the answer that said so was lost: ask again to learn why. */
        node_request_forget(sb->open_request);
        send_open(sb);
    } else if (strcmp(state, "closed") == 0) {
        (void)err_set(&e, ORCH_E_LOST, "the sandbox ended before it was ready: %s", json_get_str(ok, "reason", ""));
        node_request_settle(sb->open_request, NULL, &e);
    }
    sandbox_release(sb);
}

void sandbox_ask_open(struct sandbox *sb)
{
    /* Without a spec it is an adoption, whose own request is an observe. */
    if (sb->observe_request == NULL && sb->spec != NULL) {
        sb->busy++;
        sb->observe_request =
            node_request(sb->env->client, sandbox_request("observe", sb->name), NULL, on_late_open, sb);
    }
}

static enum node_retry late_open(void *arg, json_t *request, unsigned times)
{
    (void)request, (void)times;
    sandbox_ask_open(arg);
    return NODE_WAIT; /* a silent node is found out by the observe */
}

static void send_open(struct sandbox *sb)
{
    json_t *q = sandbox_request("open", sb->name);
    json_set_take(q, "spec", json_incref(sb->spec));
    sb->open_request = node_request(sb->env->client, q, late_open, on_open, sb);
}

/* NULL: refused, `err` says why. */
static struct sandbox *new_sandbox(struct environment *env, const struct sandbox_options *options, sandbox_open_cb cb,
                                   void *arg, struct orch_err *err)
{
    if (environment_asked(env, err) < 0) {
        return NULL;
    }
    if (options->name == NULL || !spec_name_is_valid(options->name)) {
        (void)err_set(err, ORCH_E_USAGE, "`%s` is not a sandbox name", options->name ? options->name : "");
        return NULL;
    }
    if (map_has(env->sandboxes, options->name)) {
        (void)err_set(err, ORCH_E_USAGE, "there is a sandbox `%s` already", options->name);
        return NULL;
    }
    struct sandbox *sb = xcalloc(1, sizeof *sb);
    sb->env = env;
    sb->name = xstrdup(options->name);
    sb->open_cb = cb;
    sb->open_arg = arg;
    sb->on_stream = options->on_stream;
    sb->stream_arg = options->stream_arg;
    (void)map_set(env->sandboxes, sb->name, sb);
    return sb;
}

int sandbox_open(struct environment *env, const struct sandbox_spec *spec, const struct sandbox_options *options,
                 sandbox_open_cb cb, void *arg, struct sandbox **ret, struct orch_err *err)
{
    TRY(spec_check(spec, err));
    struct sandbox *sb = new_sandbox(env, options, cb, arg, err);
    if (sb == NULL) {
        return err->code;
    }
    sb->spec = spec_to_json(spec);
    json_set_str(sb->spec, "name", sb->name);
    send_open(sb);
    *ret = sb;
    return 0;
}

static void on_adopt(void *arg, json_t *ok, const struct orch_err *err)
{
    struct sandbox *sb = arg;
    struct orch_err e = *err;
    const char *state = ok != NULL ? json_get_str(ok, "state", "absent") : "";
    json_t *open = ok != NULL ? json_get(ok, "open") : NULL;
    if (ok != NULL && (strcmp(state, "open") != 0 || open == NULL || json_is_null(open))) {
        open = NULL;
        (void)err_set(&e, strcmp(state, "absent") == 0 ? ORCH_E_NOT_FOUND : ORCH_E_LOST,
                      "there is no open sandbox `%s` (it is %s)", sb->name, state);
    }
    opened(sb, open, &e);
}

int sandbox_adopt(struct environment *env, const struct sandbox_options *options, sandbox_open_cb cb, void *arg,
                  struct sandbox **ret, struct orch_err *err)
{
    struct sandbox *sb = new_sandbox(env, options, cb, arg, err);
    if (sb == NULL) {
        return err->code;
    }
    sb->open_request = node_request(env->client, sandbox_request("observe", sb->name), NULL, on_adopt, sb);
    *ret = sb;
    return 0;
}

void sandbox_end_all(struct sandbox *sb, const struct orch_err *err)
{
    struct orch_err e = *err;
    sb->busy++;
    if (sb->state == SANDBOX_OPENING) {
        node_request_forget(sb->open_request);
        sb->state = SANDBOX_FAILED;
        sb->err = e;
        deliver_open(sb, NULL, &e);
    }
    while (sb->calls != NULL) {
        call_fail(sb->calls, &e);
    }
    while (sb->streams != NULL) {
        stream_end(sb->streams, &e);
    }
    sandbox_release(sb);
}

void sandbox_closed_event(struct environment *env, json_t *event)
{
    struct sandbox *sb = sandbox_find(env, json_get_str(event, "sandbox", ""));
    if (sb == NULL || sb->state != SANDBOX_OPEN) {
        return; /* the answer to `open` says it, or it is ours that go */
    }
    sb->state = SANDBOX_CLOSED;
    (void)err_set(&sb->err, ORCH_E_LOST, "the sandbox ended by itself: %s", json_get_str(event, "reason", ""));
    struct orch_err e = sb->err;
    sandbox_end_all(sb, &e);
}

/* ---- remove ---- */

void sandbox_release(struct sandbox *sb)
{
    sb->busy--;
    if (!sb->removed || sb->busy > 0) {
        return;
    }
    struct environment *env = sb->env;
    struct environment_result result = {.err = sb->remove_err};
    environment_cb cb = sb->remove_cb;
    void *arg = sb->remove_arg;
    sandbox_free(sb);
    if (cb != NULL) {
        cb(env, &result, arg);
    }
}

static void on_removed(void *arg, json_t *ok, const struct orch_err *err)
{
    struct sandbox *sb = arg;
    struct orch_err why = *err;
    if (ok != NULL) {
        (void)err_set(&why, ORCH_E_INTERRUPTED, "the sandbox was removed");
    }
    sb->remove_err = *err;
    sandbox_end_all(sb, &why); /* our own `busy` keeps it */
    sb->removed = true;        /* NOLINT(clang-analyzer-unix.Malloc): not freed while busy */
    sandbox_release(sb);
}

/* Killing and unmounting may take longer than one time-out; the request is idempotent. */
static enum node_retry late_remove(void *arg, json_t *request, unsigned times)
{
    (void)arg, (void)request;
    return times < 2 * NODE_ATTEMPTS ? NODE_AGAIN : NODE_GIVE_UP;
}

int sandbox_remove(struct sandbox *sb, environment_cb cb, void *arg, struct orch_err *err)
{
    if (sb->env->state == ENV_CLOSING) {
        return err_set(err, ORCH_E_INTERRUPTED, "the environment is being closed: that removes it");
    }
    if (sb->removing) {
        return err_set(err, ORCH_E_USAGE, "the sandbox `%s` is being removed already", sb->name);
    }
    sb->removing = true;
    sb->remove_cb = cb;
    sb->remove_arg = arg;
    sb->busy++;
    (void)node_request(sb->env->client, sandbox_request("remove", sb->name), late_remove, on_removed, sb);
    return 0;
}

int sandbox_forget(struct sandbox *sb, struct orch_err *err)
{
    if (sb->observe_request != NULL && sb->open_cb == NULL) {
        node_request_forget(take(sb->observe_request)); /* it was answered meanwhile */
        sb->busy--;
    }
    if (sb->busy > 0 || sb->calls != NULL || sb->streams != NULL || sb->open_cb != NULL || sb->removing) {
        return err_set(err, ORCH_E_USAGE, "the sandbox `%s` is in use", sb->name);
    }
    sandbox_free(sb);
    return 0;
}

/* ---- by name ---- */

struct named_op {
    struct environment *env;
    environment_cb remove_cb;
    sandbox_list_cb list_cb;
    void *arg;
};

static void on_named_removed(void *arg, json_t *ok, const struct orch_err *err)
{
    struct named_op *op = arg;
    struct environment_result result = {.err = *err};
    (void)ok;
    op->remove_cb(op->env, &result, op->arg);
    free(op);
}

int environment_remove_named(struct environment *env, const char *name, environment_cb cb, void *arg,
                             struct orch_err *err)
{
    TRY(environment_usable(env, err));
    if (map_has(env->sandboxes, name)) {
        return err_set(err, ORCH_E_USAGE, "the sandbox `%s` has a handle here", name);
    }
    struct named_op *op = xcalloc(1, sizeof *op);
    *op = (struct named_op){.env = env, .remove_cb = cb, .arg = arg};
    (void)node_request(env->client, sandbox_request("remove", name), late_remove, on_named_removed, op);
    return 0;
}

static void on_list(void *arg, json_t *ok, const struct orch_err *err)
{
    struct named_op *op = arg;
    struct sandbox_list list = {.err = *err};
    const json_t *all = json_get(ok, "sandboxes");
    size_t count = json_array_size(all);
    const char **names = xcalloc(count + 1, sizeof *names);
    for (size_t i = 0; i < count; i++) {
        const char *name = json_get_str(json_array_get(all, i), "sandbox", NULL);
        if (name != NULL) {
            names[list.count++] = name;
        }
    }
    list.names = names;
    op->list_cb(op->env, &list, op->arg);
    free(names);
    free(op);
}

int environment_list(struct environment *env, sandbox_list_cb cb, void *arg, struct orch_err *err)
{
    TRY(environment_usable(env, err));
    json_t *q = json_object();
    json_set_str(q, "op", "list");
    struct named_op *op = xcalloc(1, sizeof *op);
    *op = (struct named_op){.env = env, .list_cb = cb, .arg = arg};
    (void)node_request(env->client, q, NULL, on_list, op);
    return 0;
}

struct observe_op {
    struct sandbox *sb;
    char *call;
    call_state_cb cb;
    void *arg;
};

static void on_observe(void *arg, json_t *ok, const struct orch_err *err)
{
    struct observe_op *op = arg;
    struct call_state state = {.err = *err};
    const json_t *call = json_get(json_get(ok, "calls"), op->call);
    if (ok != NULL && call == NULL) {
        (void)err_set(&state.err, ORCH_E_NOT_FOUND, "no call `%s` was started in `%s`", op->call, op->sb->name);
    } else if (call != NULL) {
        state.running = strcmp(json_get_str(call, "state", ""), "ended") != 0;
        state.wall_ns = json_get_int(json_get(call, "result"), "wall_ns", -1);
    }
    op->cb(op->sb, &state, op->arg);
    sandbox_release(op->sb);
    free(op->call);
    free(op);
}

int sandbox_observe(struct sandbox *sb, const char *call, call_state_cb cb, void *arg, struct orch_err *err)
{
    TRY(environment_usable(sb->env, err));
    struct observe_op *op = xcalloc(1, sizeof *op);
    *op = (struct observe_op){.sb = sb, .call = xstrdup(call), .cb = cb, .arg = arg};
    sb->busy++;
    (void)node_request(sb->env->client, sandbox_request("observe", sb->name), NULL, on_observe, op);
    return 0;
}
