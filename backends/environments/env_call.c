/* SPDX-License-Identifier: Apache-2.0 */
/* Calls: one program run in a sandbox, its input, its bounded output and its one result. */
#include "backends/environments/environment_impl.h"

#include "backends/spec.h"
#include "base/clock.h"
#include "base/mem.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static void send_call(struct call *call);

const char *call_end_name(enum call_end end)
{
    static const char *const names[CALL_END_COUNT] = {
        [CALL_UNKNOWN] = "unknown",
        [CALL_EXITED] = "exited",
        [CALL_SIGNALLED] = "signalled",
        [CALL_LIMIT] = "limit",
    };
    return (unsigned)end < CALL_END_COUNT ? names[end] : "?";
}

struct sandbox *call_sandbox(const struct call *call)
{
    return call->sb;
}

const char *call_name(const struct call *call)
{
    return call->name;
}

void call_result_take(struct call_result *to, struct call_result *from)
{
    *to = *from;
    from->out = (struct capture){0};
    from->errout = (struct capture){0};
}

void call_result_done(struct call_result *result)
{
    capture_release(&result->out);
    capture_release(&result->errout);
}

/* ---- the end ---- */

static void call_unlink(struct call *call)
{
    if (call->prev != NULL) {
        call->prev->next = call->next;
    } else {
        call->sb->calls = call->next;
    }
    if (call->next != NULL) {
        call->next->prev = call->prev;
    }
}

static void finish(struct call *call, struct call_result *result)
{
    struct sandbox *sb = call->sb;
    bool out_cut = result->out.cut;
    bool err_cut = result->errout.cut;
    capture_result(&call->out_capture, &result->out);
    capture_result(&call->err_capture, &result->errout);
    result->out.cut = out_cut;
    result->errout.cut = err_cut;
    node_request_forget(call->request);
    node_channel_free(call->in);
    node_channel_free(call->out);
    node_channel_free(call->errout);
    call_unlink(call);
    sb->busy++;
    call->cb(call, result, call->arg);
    call_result_done(result);
    json_release(&call->body);
    json_release(&call->held);
    free(call->name);
    free(call->input);
    free(call);
    sandbox_release(sb);
}

void call_fail(struct call *call, const struct orch_err *err)
{
    struct call_result result = {.err = *err, .end = CALL_UNKNOWN, .cpu_ns = -1, .max_rss = -1};
    finish(call, &result);
}

/* Limits by the node's name: ours, and what its unit is worth in ours. */
static const struct limit_row {
    const char *name, *ours;
    int64_t factor;
} limit_rows[] = {
    {"time", "timeout", NS_PER_MS}, {"cpu", "cpu", NS_PER_S}, {"file", "file", 1},
    {"memory", "memory", 1},        {"disk", "disk", 1},      {"processes", "processes", 1},
    {"output", "output", 1},
};

static void set_limit(struct call_result *r, const json_t *limit)
{
    const char *name = json_get_str(limit, "name", "");
    const struct limit_row other = {name, name, 1};
    const struct limit_row *row = &other;
    for (size_t i = 0; i < ARRAY_LEN(limit_rows); i++) {
        if (strcmp(limit_rows[i].name, name) == 0) {
            row = &limit_rows[i];
        }
    }
    r->end = CALL_LIMIT;
    (void)snprintf(r->limit, sizeof r->limit, "%s", row->ours);
    r->limit_value = json_get_int(limit, "value", 0) * row->factor;
}

/* What the node read and dropped counts as written too. True if there was any. */
static bool add_total(struct capture_state *c, const json_t *output)
{
    int64_t total = json_get_int(output, "total", 0);
    if (total > 0 && (uint64_t)total > c->total) {
        c->total = (uint64_t)total;
    }
    return json_get_flag(output, "cut", false);
}

static void finish_json(struct call *call, const json_t *result)
{
    struct call_result r = {.cpu_ns = -1, .max_rss = -1};
    const char *end = json_get_str(result, "end", "");
    const json_t *limit = json_get(result, "limit");
    r.code = (int)json_get_int(result, "code", 0);
    r.signalled = strcmp(end, "signalled") == 0;
    r.wall_ns = json_get_int(result, "wall_ns", 0);
    r.left_behind = (uint32_t)json_get_int(result, "left", 0);
    int64_t user = json_get_int(result, "user_us", -1);
    int64_t system = json_get_int(result, "system_us", -1);
    if (user >= 0 && system >= 0) {
        r.cpu_ns = (user + system) * 1000;
    }
    int64_t rss = json_get_int(result, "maxrss_kb", -1);
    r.max_rss = rss >= 0 ? rss * 1024 : -1;
    bool out_cut = add_total(&call->out_capture, json_get(result, "stdout"));
    bool err_cut = add_total(&call->err_capture, json_get(result, "stderr"));
    if (call->over_output || (call->output_limit > 0 && (out_cut || err_cut))) {
        r.end = CALL_LIMIT;
        (void)snprintf(r.limit, sizeof r.limit, "output");
        r.limit_value = (int64_t)call->output_limit;
    } else if (json_is_object(limit)) {
        set_limit(&r, limit);
    } else if (strcmp(end, "exited") == 0) {
        r.end = CALL_EXITED;
    } else if (strcmp(end, "signalled") == 0) {
        r.end = CALL_SIGNALLED;
    } else if (strcmp(end, "not-started") == 0) {
        /* As a shell reports it: 126 and 127 are the program's own answer too. */
        r.end = CALL_EXITED;
        r.not_started = true;
        r.start_errno = r.code;
        r.no_directory = json_get_flag(result, "no_directory", false);
        r.code = (int)json_get_int(result, "program", 127);
    } else {
        (void)err_set(&r.err, ORCH_E_LOST, "the sandbox died with call `%s` under way", call->name);
    }
    r.out.cut = out_cut;
    r.errout.cut = err_cut;
    finish(call, &r);
}

/* The owner hears of the open first, even when its answer was lost and the call is quick. */
static void ended(struct call *call, json_t *result)
{
    if (call->sb->state != SANDBOX_OPENING) {
        finish_json(call, result);
    } else if (call->held == NULL) {
        call->held = json_incref(result);
        sandbox_ask_open(call->sb);
    }
}

static struct call *find_call(const struct sandbox *sb, const char *name)
{
    for (struct call *c = sb->calls; c != NULL; c = c->next) {
        if (strcmp(c->name, name) == 0) {
            return c;
        }
    }
    return NULL;
}

void call_exited_event(struct environment *env, json_t *event)
{
    struct sandbox *sb = sandbox_find(env, json_get_str(event, "sandbox", ""));
    struct call *call = sb != NULL ? find_call(sb, json_get_str(event, "call", "")) : NULL;
    if (call != NULL) {
        ended(call, json_get(event, "result"));
    }
}

/* ---- signals ---- */

static void on_signal_sent(void *arg, json_t *ok, const struct orch_err *err)
{
    (void)arg, (void)ok, (void)err; /* the call's result tells */
}

/* Sent once: a second SIGINT means something else. */
static enum node_retry late_signal(void *arg, json_t *request, unsigned times)
{
    (void)arg, (void)request, (void)times;
    return NODE_GIVE_UP;
}

void call_signal(struct call *call, int signal)
{
    struct environment *env = call->sb->env;
    if (env->state != ENV_UP) {
        return;
    }
    json_t *q = json_object();
    json_set_str(q, "op", "signal");
    json_set_str(q, "sandbox", call->sb->name);
    json_set_str(q, "call", call->name);
    json_set_int(q, "signal", signal);
    (void)node_request(env->client, q, late_signal, on_signal_sent, NULL);
}

void call_cancel(struct call *call)
{
    call_signal(call, SIGKILL);
}

/* ---- output and input ---- */

static void output(struct call *call, struct node_channel *ch, struct capture_state *capture, int stream,
                   const char *data, size_t len)
{
    size_t kept = len;
    if (call->output_limit > 0 && call->output + len > call->output_limit) {
        kept = (size_t)(call->output_limit - call->output);
        call->over_output = true;
    }
    call->output += kept;
    capture_add(capture, data, kept);
    capture->total += len - kept; /* written, dropped */
    if (kept > 0 && call->on_output != NULL) {
        call->on_output(call, stream, data, kept, call->arg);
    }
    node_channel_consumed(ch, len);
    if (call->over_output && !call->over_sent) {
        call->over_sent = true;
        call_signal(call, SIGKILL);
    }
}

static void on_out(void *arg, const char *data, size_t len)
{
    struct call *call = arg;
    output(call, call->out, &call->out_capture, 1, data, len);
}

static void on_err(void *arg, const char *data, size_t len)
{
    struct call *call = arg;
    output(call, call->errout, &call->err_capture, 2, data, len);
}

/* The end of an output is no result: `exited` follows it. The node never sees more from us either. */
static void on_output_end(void *arg)
{
    (void)arg;
}

static void on_in_data(void *arg, const char *data, size_t len)
{
    (void)arg, (void)data, (void)len;
}

static void send_input(void *arg)
{
    struct call *call = arg;
    size_t room = node_channel_room(call->in);
    size_t left = call->input_len - call->input_sent;
    size_t n = left < room ? left : room;
    if (n > 0) {
        const char *from = call->input + call->input_sent;
        call->input_sent += n;
        node_channel_send(call->in, from, n);
    }
    if (call->input_sent == call->input_len) {
        node_channel_end(call->in);
    }
}

static const struct node_channel_callbacks out_callbacks = {
    .data = on_out, .end = on_output_end, .reset = on_output_end};
static const struct node_channel_callbacks err_callbacks = {
    .data = on_err, .end = on_output_end, .reset = on_output_end};
static const struct node_channel_callbacks in_callbacks = {
    .data = on_in_data, .end = on_output_end, .reset = on_output_end, .room = send_input};

/* ---- start ---- */

static void on_call_reply(void *arg, json_t *ok, const struct orch_err *err)
{
    struct call *call = arg;
    call->request = NULL;
    if (ok != NULL) {
        return;
    }
    /* When the open fails its own error is the one to show, whichever answer comes first. */
    if (call->sb->state == SANDBOX_OPENING) {
        call->refused = *err;
        return;
    }
    call_fail(call, err);
}

static struct call *first_waiting(const struct sandbox *sb)
{
    struct call *call = sb->calls;
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what was freed before is not in the list any more */
    while (call != NULL && call->refused.code == 0 && call->held == NULL) {
        call = call->next;
    }
    return call;
}

void call_open_settled(struct sandbox *sb)
{
    struct call *call;
    while ((call = first_waiting(sb)) != NULL) {
        if (call->held != NULL) {
            finish_json(call, call->held);
        } else {
            struct orch_err e = call->refused;
            call_fail(call, &e);
        }
    }
}

/* By name: the call may end before the answer comes. */
struct observed {
    struct environment *env;
    char *sandbox, *call;
};

/* The node's view of a call whose request was not answered, or that somebody else started. */
static void on_call_observed(void *arg, json_t *ok, const struct orch_err *err)
{
    struct observed *op = arg;
    struct sandbox *sb = sandbox_find(op->env, op->sandbox);
    struct call *call = sb != NULL ? find_call(sb, op->call) : NULL;
    free(op->sandbox);
    free(op->call);
    free(op);
    if (call == NULL) {
        return; /* it ended meanwhile */
    }
    call->observing = false;
    if (ok == NULL) {
        call_fail(call, err);
        return;
    }
    const char *state = json_get_str(ok, "state", "");
    const json_t *there = json_get(json_get(ok, "calls"), call->name);
    json_t *result = json_get(there, "result");
    if (json_is_object(result) && strcmp(json_get_str(there, "state", ""), "ended") == 0) {
        ended(call, result);
    } else if (there != NULL || strcmp(state, "opening") == 0) {
        if (there != NULL) {
            node_request_forget(take(call->request));
        }
    } else if (call->body != NULL && strcmp(state, "open") == 0 && call->request != NULL) {
        /* It was refused there, and the answer that said so was lost: ask again to learn why. */
        node_request_forget(take(call->request));
        send_call(call);
    } else if (call->body == NULL || strcmp(state, "open") != 0) {
        struct orch_err e = ERR_INIT;
        (void)err_set(&e, call->body == NULL ? ORCH_E_NOT_FOUND : ORCH_E_LOST, "no call `%s` is known there",
                      call->name);
        if (sb->state == SANDBOX_OPENING) {
            return; /* the open's answer decides */
        }
        call_fail(call, &e);
    }
}

static void observe_call(struct call *call)
{
    if (call->observing) {
        return;
    }
    call->observing = true;
    json_t *q = json_object();
    json_set_str(q, "op", "observe");
    json_set_str(q, "sandbox", call->sb->name);
    struct observed *op = xcalloc(1, sizeof *op);
    *op = (struct observed){call->sb->env, xstrdup(call->sb->name), xstrdup(call->name)};
    (void)node_request(op->env->client, q, NULL, on_call_observed, op);
}

static enum node_retry late_call(void *arg, json_t *request, unsigned times)
{
    (void)request, (void)times;
    observe_call(arg);
    return NODE_WAIT;
}

static void send_call(struct call *call)
{
    struct node_client *client = call->sb->env->client;
    node_channel_free(call->in);
    node_channel_free(call->out);
    node_channel_free(call->errout);
    call->in = call->out = call->errout = NULL;
    json_t *q = json_copy(call->body);
    if (call->stdio) {
        json_set_flag(q, "stdio", true);
        call->request = node_request(client, q, late_call, on_call_reply, call);
        return;
    }
    call->in = call->input_len > 0 ? node_channel_new(client, 0, &in_callbacks, call) : NULL;
    call->out = node_channel_new(client, 0, &out_callbacks, call);
    call->errout = node_channel_new(client, 0, &err_callbacks, call);
    call->input_sent = 0;
    json_set_int(q, "stdin", call->in != NULL ? node_channel_id(call->in) : 0);
    json_set_int(q, "stdout", node_channel_id(call->out));
    json_set_int(q, "stderr", node_channel_id(call->errout));
    call->request = node_request(client, q, late_call, on_call_reply, call);
    if (call->in != NULL) {
        send_input(call);
    }
    node_channel_end(call->out);
    node_channel_end(call->errout);
}

static json_t *env_object(char *const *env)
{
    json_t *o = json_object();
    for (; *env != NULL; env++) {
        const char *eq = strchr(*env, '=');
        if (eq != NULL) {
            AUTO_FREE char *name = xmemdup0(*env, (size_t)(eq - *env));
            json_set_str(o, name, eq + 1);
        }
    }
    return o;
}

static json_t *call_body(const struct sandbox *sb, const struct call_spec *spec)
{
    json_t *q = json_object();
    json_set_str(q, "op", "call");
    json_set_str(q, "sandbox", sb->name);
    json_set_str(q, "call", spec->name);
    json_set_take(q, "argv", json_from_byte_strv(spec->argv));
    if (spec->env != NULL) {
        json_set_take(q, "env", env_object(spec->env));
    }
    if (spec->cwd != NULL) {
        json_set_str(q, "cwd", spec->cwd);
    }
    if (spec->limits != NULL) {
        json_set_take(q, "limits", json_deep_copy(spec->limits));
    }
    json_set_int(q, "wall_ms", (spec->timeout_ns + NS_PER_MS - 1) / NS_PER_MS);
    return q;
}

static int check_call(const struct sandbox *sb, const struct call_spec *spec, struct orch_err *err)
{
    TRY(environment_asked(sb->env, err));
    if (spec->name == NULL || !spec_name_is_valid(spec->name)) {
        return err_set(err, ORCH_E_USAGE, "`%s` is not a call name", spec->name != NULL ? spec->name : "");
    }
    if (strv_len(spec->argv) == 0) {
        return err_set(err, ORCH_E_USAGE, "a call needs a program");
    }
    if (spec->input_len > ENVIRONMENT_INPUT_MAX || spec->capture_head > ENVIRONMENT_CAPTURE_MAX ||
        spec->capture_tail > ENVIRONMENT_CAPTURE_MAX || spec->timeout_ns < 0) {
        return err_set(err, ORCH_E_USAGE, "the input or a limit of call `%s` is out of range", spec->name);
    }
    if (find_call(sb, spec->name) != NULL) {
        return err_set(err, ORCH_E_USAGE, "a call `%s` runs in `%s` already", spec->name, sb->name);
    }
    if (sb->state == SANDBOX_FAILED || sb->state == SANDBOX_CLOSED) {
        *err = sb->err;
        return err_wrap(err, "sandbox %s", sb->name);
    }
    if (sb->removing) {
        return err_set(err, ORCH_E_USAGE, "the sandbox `%s` is being removed", sb->name);
    }
    return 0;
}

static struct call *new_call(struct sandbox *sb, const char *name, call_cb cb, void *arg)
{
    struct call *call = xcalloc(1, sizeof *call);
    *call = (struct call){.sb = sb, .name = xstrdup(name), .cb = cb, .arg = arg, .next = sb->calls};
    if (sb->calls != NULL) {
        sb->calls->prev = call;
    }
    sb->calls = call;
    return call;
}

int sandbox_call(struct sandbox *sb, const struct call_spec *spec, call_cb cb, void *arg, struct call **ret,
                 struct orch_err *err)
{
    TRY(check_call(sb, spec, err));
    struct call *call = new_call(sb, spec->name, cb, arg);
    call->body = call_body(sb, spec);
    call->on_output = spec->on_output;
    call->output_limit = spec->output_limit;
    call->stdio = spec->stdio;
    if (spec->input_len > 0) {
        call->input = xmemdup0(spec->input, spec->input_len);
        call->input_len = spec->input_len;
    }
    capture_init(&call->out_capture, spec->capture_head, spec->capture_tail);
    capture_init(&call->err_capture, spec->capture_head, spec->capture_tail);
    send_call(call);
    if (ret != NULL) {
        *ret = call;
    }
    return 0;
}

int sandbox_run(struct environment *env, const struct sandbox_spec *spec, const struct sandbox_options *options,
                const struct call_spec *call, sandbox_open_cb open_cb, call_cb cb, void *arg, struct sandbox **ret,
                struct orch_err *err)
{
    struct sandbox *sb = NULL;
    if (call->name == NULL || strv_len(call->argv) == 0) {
        return err_set(err, ORCH_E_USAGE, "a call needs a name and a program");
    }
    TRY(sandbox_open(env, spec, options, open_cb, arg, &sb, err));
    int r = sandbox_call(sb, call, cb, arg, NULL, err);
    if (r < 0) {
        /* The caller gets no handle: it must not stay. */
        struct orch_err ignored = ERR_INIT;
        sb->open_cb = NULL;
        int removed = sandbox_remove(sb, NULL, NULL, &ignored);
        (void)removed; /* the environment is closing: that removes it */
        return r;
    }
    *ret = sb;
    return 0;
}

int sandbox_wait_call(struct sandbox *sb, const char *name, call_cb cb, void *arg, struct call **ret,
                      struct orch_err *err)
{
    TRY(environment_usable(sb->env, err));
    if (find_call(sb, name) != NULL) {
        return err_set(err, ORCH_E_USAGE, "the call `%s` is waited for already", name);
    }
    struct call *call = new_call(sb, name, cb, arg);
    capture_init(&call->out_capture, 0, 0);
    capture_init(&call->err_capture, 0, 0);
    observe_call(call);
    if (ret != NULL) {
        *ret = call;
    }
    return 0;
}
