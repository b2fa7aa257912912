/* SPDX-License-Identifier: Apache-2.0 */
/*
 * orch-node: opens sandboxes on the machine where it runs, told over standard input and output.
 * Exit status: 0 the host ended the stream, 3 the stream broke.
 */
#include "backends/node/node.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define READ_CHUNK ((size_t)256 << 10)

/* ---- to the host ---- */

size_t node_backlog(const struct node *n)
{
    return n->queue.len - n->queue_at;
}

static void watch_in(struct node *n);

static bool flush(struct node *n)
{
    while (n->queue_at < n->queue.len) {
        ssize_t w = write(n->out, n->queue.data + n->queue_at, n->queue.len - n->queue_at);
        if (w < 0 && errno == EINTR) {
            continue;
        }
        if (w < 0) {
            return errno == EAGAIN;
        }
        n->queue_at += (size_t)w;
    }
    buf_reset(&n->queue);
    n->queue_at = 0;
    return true;
}

static void on_writable(uv_poll_t *handle, int status, int events)
{
    struct node *n = handle->data;
    (void)status, (void)events;
    if (!flush(n)) {
        node_end(n, 0);
    }
}

/* Before the loop waits: everything that was said in this turn leaves in one write. */
static void on_prepare(uv_prepare_t *handle)
{
    struct node *n = handle->data;
    if (n->ending) {
        return;
    }
    size_t before = node_backlog(n);
    if (!flush(n) || n->queue.overflow) {
        node_end(n, 0);
        return;
    }
    bool waiting = node_backlog(n) > 0;
    if (waiting != n->out_writing) {
        n->out_writing = waiting;
        if (waiting) {
            (void)uv_poll_start(&n->out_poll, UV_WRITABLE, on_writable);
        } else {
            (void)uv_poll_stop(&n->out_poll);
        }
    }
    watch_in(n);
    if (before >= NODE_OUT_PAUSE && node_backlog(n) < NODE_OUT_PAUSE) {
        channels_resume(n);
    }
}

static void send_json(struct node *n, enum frame_type type, json_t *value)
{
    struct orch_err err = ERR_INIT;
    if (!n->ending && frame_put_json(&n->queue, type, value, &err) < 0) {
        node_end(n, 3);
    }
}

static void reply(struct node *n, json_t *value)
{
    n->replies++;
    if (n->lose > 0 && n->replies % n->lose == 0) {
        n->lost++;
        json_decref(value);
        return;
    }
    if (n->ending) {
        json_decref(value);
        return;
    }
    send_json(n, FRAME_REPLY, value);
}

void node_reply(struct node *n, int64_t id, json_t *ok)
{
    reply(n, reply_ok(id, ok));
}

void node_reply_error(struct node *n, int64_t id, const struct orch_err *e)
{
    reply(n, reply_error(id, e));
}

void node_event(struct node *n, json_t *event)
{
    if (n->ending) {
        json_decref(event);
        return;
    }
    send_json(n, FRAME_EVENT, event);
}

/* ---- from the host ---- */

static int take_frames(struct node *n, struct orch_err *err)
{
    struct frame f;
    int got;
    while (!n->ending && (got = frame_decoder_next(&n->decoder, &f, err)) != 0) {
        if (got < 0) {
            return got;
        }
        if (f.type == FRAME_REQUEST) {
            TRY(node_request(n, &f, err));
        } else if (f.type == FRAME_REPLY || f.type == FRAME_EVENT) {
            return err_set(err, ORCH_E_PROTOCOL, "the host may only ask");
        } else {
            TRY(channel_frame(n, &f, err));
        }
    }
    return 0;
}

static void on_readable(uv_poll_t *handle, int status, int events)
{
    struct node *n = handle->data;
    (void)status, (void)events;
    size_t room;
    char *to = frame_decoder_room(&n->decoder, READ_CHUNK, &room);
    ssize_t got = read(n->in, to, room);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (got <= 0) {
        node_end(n, 0);
        return;
    }
    frame_decoder_filled(&n->decoder, (size_t)got);
    struct orch_err err = ERR_INIT;
    if (take_frames(n, &err) < 0) {
        node_end(n, 3);
    }
}

static void watch_in(struct node *n)
{
    bool read_on = !n->ending && node_backlog(n) < NODE_OUT_STOP;
    if (read_on != n->in_reading) {
        n->in_reading = read_on;
        if (read_on) {
            (void)uv_poll_start(&n->in_poll, UV_READABLE, on_readable);
        } else {
            (void)uv_poll_stop(&n->in_poll);
        }
    }
}

void node_end(struct node *n, int exit_code)
{
    if (n->ending) {
        return;
    }
    n->ending = true;
    n->exit_code = exit_code;
    trees_free(n);
    sandboxes_close_all(n);
    uv_close((uv_handle_t *)&n->in_poll, NULL);
    uv_close((uv_handle_t *)&n->out_poll, NULL);
    uv_close((uv_handle_t *)&n->prepare, NULL);
}

static int start(struct node *n)
{
    if (uv_loop_init(&n->loop) < 0 || uv_poll_init(&n->loop, &n->in_poll, n->in) < 0 ||
        uv_poll_init(&n->loop, &n->out_poll, n->out) < 0 || uv_prepare_init(&n->loop, &n->prepare) < 0) {
        return -1;
    }
    n->in_poll.data = n->out_poll.data = n->prepare.data = n;
    (void)uv_prepare_start(&n->prepare, on_prepare);
    watch_in(n);
    return 0;
}

/* Every sandbox takes half a dozen; what runs inside gets its own limit. */
static void raise_descriptors(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
        r.rlim_cur = r.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &r);
    }
}

/* One empty session keyring for every sandbox of this node, in which nobody may look or put anything; joined again by
 * each, it would use up the user's keys (kernel.keys.maxkeys, 200, given back late), and one that got none would keep
 * the caller's. See keyctl(2). */
static bool leave_keyring(void)
{
    long id = syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
    return id >= 0 && syscall(SYS_keyctl, KEYCTL_SETPERM, id, 0) == 0;
}

int main(void)
{
    /* its memory may hold what sandboxes must not see; and the host's death is the end of the stream anyway */
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); /* PID 1 may not reap: a container's often does not */
    (void)signal(SIGPIPE, SIG_IGN);
    raise_descriptors();
    AUTO_FREE struct node *n = xcalloc(1, sizeof *n);
    *n = (struct node){
        .in = 0, .out = 1, .workfd = -1, .has_keyring = leave_keyring(), .clock = clock_system(), .trees = map_new()};
    buf_init(&n->queue, NODE_OUT_MAX);
    frame_decoder_init(&n->decoder);
    if (start(n) < 0) {
        return 3;
    }
    (void)uv_run(&n->loop, UV_RUN_DEFAULT);
    channels_free(n);
    node_release(n);
    frame_decoder_done(&n->decoder);
    buf_done(&n->queue);
    (void)uv_loop_close(&n->loop);
    return n->exit_code;
}
