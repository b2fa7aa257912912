/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a sandbox: opening → open → closing → closed → removed. It is
 * closed when nothing of it is left: the mechanism is reaped, the pidfd of the
 * init says that its namespace is empty, and no handle of ours is open.
 */
#include "backends/node/node.h"

#include "base/fd.h"
#include "base/mem.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const state_names[] = {"opening", "open", "closing", "closed"};

const char *sandbox_state_name(const struct node_sandbox *sb)
{
    return state_names[sb->state == BOX_CLOSING ? BOX_CLOSED : sb->state];
}

struct node_sandbox *sandbox_find(struct node *n, const char *name)
{
    struct node_sandbox *sb = n->sandboxes;
    while (sb != NULL && strcmp(sb->name, name) != 0) {
        sb = sb->next;
    }
    return sb;
}

static void add_waiter(struct waiter **list, int64_t id)
{
    struct waiter *w = xcalloc(1, sizeof *w);
    *w = (struct waiter){.id = id, .next = *list};
    *list = w;
}

static void answer_waiters(struct node *n, struct waiter **list, json_t *ok, const struct orch_err *e)
{
    while (*list != NULL) {
        struct waiter *w = *list;
        *list = w->next;
        if (ok != NULL) {
            node_reply(n, w->id, json_incref(ok));
        } else {
            node_reply_error(n, w->id, e);
        }
        free(w);
    }
}

/* ---- handles ---- */

static void on_unwatched(uv_handle_t *handle)
{
    struct node_sandbox *sb = handle->data;
    sb->handles--;
    sandbox_advance_end(sb);
}

static void on_listener_closed(uv_handle_t *handle)
{
    struct listener *l = handle->data;
    fd_close(&l->fd);
    l->sandbox->handles--;
    sandbox_advance_end(l->sandbox);
}

int sandbox_watch(struct node_sandbox *sb, uv_poll_t *handle, int fd, uv_poll_cb cb, struct orch_err *err)
{
    int code = uv_poll_init(&sb->node->loop, handle, fd);
    if (code < 0) {
        return err_set(err, ORCH_E_IO, "watch a sandbox: %s", uv_strerror(code));
    }
    sb->handles++;
    handle->data = sb;
    (void)uv_poll_start(handle, UV_READABLE, cb);
    return 0;
}

void sandbox_unwatch(struct node_sandbox *sb, uv_handle_t *handle)
{
    if (handle->data == sb && !uv_is_closing(handle)) {
        uv_close(handle, on_unwatched);
    }
}

/* ---- the end ---- */

static void free_sandbox(struct node_sandbox *sb)
{
    struct node_sandbox **at = &sb->node->sandboxes;
    while (*at != sb) {
        at = &(*at)->next;
    }
    *at = sb->next;
    calls_free(sb);
    spec_done(&sb->spec);
    strv_free(sb->left_out);
    json_release(&sb->opened);
    free(sb->listeners);
    free(sb->streams);
    free(sb->spec_text);
    json_release(&sb->scanned);
    spare_forget(sb);
    free(sb->dir);
    free(sb->scratch);
    free(sb->name);
    free(sb);
}

static void say_closed(struct node_sandbox *sb)
{
    json_t *e = json_object();
    json_set_str(e, "event", "closed");
    json_set_str(e, "sandbox", sb->name);
    json_set_str(e, "reason", sb->error.message);
    node_event(sb->node, e);
}

static void remove_now(struct node_sandbox *sb)
{
    struct orch_err err = ERR_INIT;
    struct node *n = sb->node;
    int code = files_end(sb, true, &err);
    if (code < 0) {
        answer_waiters(n, &sb->remove_waiters, NULL, &err);
    } else {
        AUTO_JSON json_t *ok = json_object();
        json_set_flag(ok, "gone", true);
        answer_waiters(n, &sb->remove_waiters, ok, NULL);
    }
    free_sandbox(sb);
}

static void finish_close(struct node_sandbox *sb)
{
    bool was_open = sb->opened != NULL;
    sb->state = BOX_CLOSED;
    fd_close(&sb->control);
    fd_close(&sb->pidfd);
    fd_close(&sb->init_pidfd);
    fd_close(&sb->complaints);
    struct orch_err err = ERR_INIT;
    if (!sb->removing && files_end(sb, false, &err) < 0) {
        sb->error = err;
    }
    if (sb->has_identity) {
        identity_release(sb->node->identities, &sb->identity);
    }
    if (sb->place != NULL) {
        sb->place->busy = false; /* nothing of the sandbox is left */
        sb->place = NULL;
    }
    answer_waiters(sb->node, &sb->open_waiters, NULL, &sb->error); /* first: it is why waiting calls never start */
    calls_lose(sb);
    if (was_open && !sb->removing && !sb->node->ending) {
        say_closed(sb);
    }
    /* an open that failed leaves nothing; what had been open stays until `remove` (its results and work) */
    if (sb->removing || !was_open || sb->node->ending) {
        remove_now(sb);
    }
}

/* Called after every step of the end. */
void sandbox_advance_end(struct node_sandbox *sb)
{
    if (sb->state != BOX_CLOSING || sb->disk_busy) {
        return;
    }
    if (sb->pid == 0) {
        sandbox_unwatch(sb, (uv_handle_t *)&sb->pidfd_poll);
    }
    if (sb->init_gone) {
        sandbox_unwatch(sb, (uv_handle_t *)&sb->init_poll);
    }
    if (sb->pid == 0 && (sb->init_pidfd < 0 || sb->init_gone) && sb->handles == 0) {
        finish_close(sb);
    }
}

static void read_complaint(struct node_sandbox *sb)
{
    char text[512];
    ssize_t n = sb->complaints < 0 ? 0 : read(sb->complaints, text, sizeof text);
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' ')) {
        n--;
    }
    if (n > 0) {
        AUTO_BUF struct buf b;
        buf_init(&b, 4 * sizeof text);
        buf_escaped(&b, text, (size_t)n, false);
        (void)err_set(&sb->error, ORCH_E_UNAVAILABLE, "the mechanism failed: %s", b.data);
    }
}

static void kill_everything(struct node_sandbox *sb)
{
    if (sb->init_pidfd >= 0 && !sb->init_gone) {
        (void)syscall(SYS_pidfd_send_signal, sb->init_pidfd, SIGKILL, NULL, 0);
    }
    if (sb->node->mechanism.in_place) { /* the process we started ends the tree (guest/in_place.h): it must live */
        if (sb->control >= 0) {
            (void)shutdown(sb->control, SHUT_RDWR);
        }
    } else if (sb->pid > 0) {
        (void)kill(sb->pid, SIGKILL);
    }
}

void sandbox_close(struct node_sandbox *sb, const struct orch_err *why)
{
    if (sb->state == BOX_CLOSING || sb->state == BOX_CLOSED) {
        return;
    }
    sb->error = *why;
    if (sb->state == BOX_OPENING && sb->init_pidfd < 0) {
        read_complaint(sb);
    }
    sb->state = BOX_CLOSING;
    kill_everything(sb);
    for (size_t i = 0; i < sb->listener_count; i++) {
        uv_close((uv_handle_t *)&sb->listeners[i].poll, on_listener_closed);
    }
    for (size_t i = 0; i < sb->stream_count; i++) {
        pump_free(sb->streams[i]);
        sb->streams[i] = NULL;
    }
    sandbox_unwatch(sb, (uv_handle_t *)&sb->control_poll);
    sandbox_unwatch(sb, (uv_handle_t *)&sb->timer);
    sandbox_unwatch(sb, (uv_handle_t *)&sb->disk_timer);
    sandbox_advance_end(sb);
}

void sandboxes_close_all(struct node *n)
{
    struct orch_err why = ERR_INIT;
    (void)err_set(&why, ORCH_E_INTERRUPTED, "the node ends");
    for (struct node_sandbox *sb = n->sandboxes; sb != NULL;) {
        struct node_sandbox *next = sb->next;
        sandbox_close(sb, &why);
        sb = next;
    }
    for (struct node_sandbox *sb = n->sandboxes; sb != NULL;) {
        struct node_sandbox *next = sb->next;
        if (sb->state == BOX_CLOSED) {
            remove_now(sb);
        }
        sb = next;
    }
}

/* ---- what the loop tells ---- */

/* An init whose launcher was killed before it could reap it is ours (the node is its subreaper). */
static void reap_init(const struct node_sandbox *sb)
{
    siginfo_t info;
    if (sb->init_pidfd >= 0) {
        (void)waitid(P_PIDFD, (id_t)sb->init_pidfd, &info, WEXITED | WNOHANG);
    }
}

void sandbox_on_pidfd(uv_poll_t *handle, int status, int events)
{
    struct node_sandbox *sb = handle->data;
    (void)status, (void)events;
    int how = 0;
    if (sb->pid <= 0 || waitpid(sb->pid, &how, WNOHANG) != sb->pid) {
        return;
    }
    sb->pid = 0;
    reap_init(sb);
    (void)uv_poll_stop(handle);
    struct orch_err why = ERR_INIT;
    (void)err_set(&why, ORCH_E_UNAVAILABLE, "the sandbox ended (%s %d)", WIFEXITED(how) ? "status" : "signal",
                  WIFEXITED(how) ? WEXITSTATUS(how) : WTERMSIG(how));
    if (sb->state == BOX_CLOSING) {
        sandbox_advance_end(sb);
    } else {
        sandbox_close(sb, &why);
    }
}

void sandbox_on_init(uv_poll_t *handle, int status, int events)
{
    struct node_sandbox *sb = handle->data;
    (void)status, (void)events;
    sb->init_gone = true;
    reap_init(sb);
    (void)uv_poll_stop(handle);
    struct orch_err why = ERR_INIT;
    (void)err_set(&why, ORCH_E_UNAVAILABLE, "the init of the sandbox is gone");
    if (sb->state == BOX_CLOSING) {
        sandbox_advance_end(sb);
    } else {
        sandbox_close(sb, &why);
    }
}

void sandbox_on_control(uv_poll_t *handle, int status, int events)
{
    struct node_sandbox *sb = handle->data;
    (void)status, (void)events;
    struct control_message m;
    int got = control_receive(sb->control, &m);
    if (got == -EAGAIN) {
        return;
    }
    if (got <= 0) {
        (void)uv_poll_stop(handle); /* the pidfds tell the rest; without hello the mechanism says why */
        return;
    }
    struct orch_err why = ERR_INIT;
    if (sb->state == BOX_OPENING) {
        sandbox_hello(sb, &m);
    } else if (m.type == CONTROL_EXIT && m.len == sizeof(struct control_exit) && sb->running != NULL) {
        struct control_exit e;
        memcpy(&e, m.data, sizeof e);
        call_exit_reported(sb, &e);
    } else {
        (void)err_set(&why, ORCH_E_UNAVAILABLE, "the init said something wrong");
        sandbox_close(sb, &why);
    }
    control_message_done(&m);
}

static void on_open_timeout(uv_timer_t *timer)
{
    struct orch_err why = ERR_INIT;
    (void)err_set(&why, ORCH_E_TIMEOUT, "the sandbox did not say hello in time");
    sandbox_close(timer->data, &why);
}

void sandbox_opened(struct node_sandbox *sb)
{
    sb->state = BOX_OPEN;
    sb->node->opened++;
    (void)uv_timer_stop(&sb->timer);
    fd_close(&sb->complaints);
    answer_waiters(sb->node, &sb->open_waiters, sb->opened, NULL);
    calls_advance(sb);
}

/* ---- requests ---- */

static struct node_sandbox *new_sandbox(struct node *n, struct sandbox_spec *spec, char *spec_text)
{
    struct node_sandbox *sb = xcalloc(1, sizeof *sb);
    *sb = (struct node_sandbox){
        .node = n,
        .name = xstrdup(spec->name),
        .spec_text = spec_text,
        .spec = *spec,
        .dir = xasprintf("%s/s/%s", n->work, spec->name),
        .control = -1,
        .pidfd = -1,
        .init_pidfd = -1,
        .complaints = -1,
        .left_out = xcalloc(1, sizeof(char *)),
        .asked_ns = clock_mono_ns(&n->clock),
        .next = n->sandboxes,
    };
    n->sandboxes = sb;
    (void)uv_timer_init(&n->loop, &sb->timer);
    (void)uv_timer_init(&n->loop, &sb->disk_timer);
    sb->timer.data = sb->disk_timer.data = sb;
    sb->handles = 2;
    (void)uv_timer_start(&sb->timer, on_open_timeout, NODE_OPEN_NS / NS_PER_MS, 0);
    return sb;
}

static void open_again(struct node_sandbox *sb, int64_t id, const char *spec_text)
{
    struct orch_err err = ERR_INIT;
    if (strcmp(sb->spec_text, spec_text) != 0) {
        (void)err_set(&err, ORCH_E_CONFIG, "sandbox %s exists with another spec", sb->name);
        node_reply_error(sb->node, id, &err);
    } else if (sb->state == BOX_OPENING) {
        add_waiter(&sb->open_waiters, id);
    } else if (sb->opened != NULL) {
        node_reply(sb->node, id, json_incref(sb->opened));
    } else {
        node_reply_error(sb->node, id, &sb->error);
    }
}

void sandbox_open_request(struct node *n, int64_t id, const json_t *request)
{
    struct orch_err err = ERR_INIT;
    struct sandbox_spec spec;
    const char *name = json_get_str(request, "sandbox", "");
    if (spec_from_json(json_get(request, "spec"), &spec, &err) < 0) {
        node_reply_error(n, id, &err);
        return;
    }
    if (strcmp(spec.name, name) != 0) {
        (void)err_set(&err, ORCH_E_CONFIG, "the spec is for sandbox %s, not %.200s", spec.name, name);
        node_reply_error(n, id, &err);
        spec_done(&spec);
        return;
    }
    json_t *again = spec_to_json(&spec);
    char *text = json_canonical(again);
    json_release(&again);
    struct node_sandbox *sb = sandbox_find(n, name);
    if (sb != NULL) {
        open_again(sb, id, text);
        free(text);
        spec_done(&spec);
        return;
    }
    sb = new_sandbox(n, &spec, text);
    add_waiter(&sb->open_waiters, id);
    if (sandbox_start(sb, &err) < 0) {
        sandbox_close(sb, &err);
    }
}

void sandbox_remove_request(struct node *n, int64_t id, const char *name)
{
    struct node_sandbox *sb = sandbox_find(n, name);
    if (sb == NULL) {
        json_t *ok = json_object();
        json_set_flag(ok, "gone", true);
        node_reply(n, id, ok);
        return;
    }
    add_waiter(&sb->remove_waiters, id);
    sb->removing = true;
    if (sb->state == BOX_CLOSED) {
        remove_now(sb);
        return;
    }
    struct orch_err why = ERR_INIT;
    (void)err_set(&why, ORCH_E_INTERRUPTED, "the sandbox was removed");
    sandbox_close(sb, &why);
}

json_t *sandbox_observe_json(struct node_sandbox *sb)
{
    json_t *o = json_object();
    json_t *calls = json_object();
    json_set_str(o, "state", sandbox_state_name(sb));
    json_set_str(o, "reason", sb->error.message);
    json_set_take(o, "open", sb->opened == NULL ? json_null() : json_incref(sb->opened));
    for (const struct node_call *c = sb->calls; c != NULL; c = c->next) {
        json_set_take(calls, c->name, call_json(c));
    }
    json_set_take(o, "calls", calls);
    return o;
}
