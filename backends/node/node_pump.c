/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pump moves bytes between one descriptor and one channel. Reading stops where
 * credit ends, except when what is read is dropped anyway: a program is never
 * blocked by output that nobody wants.
 */
#include "backends/node/node.h"

#include "base/fd.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#define READS_PER_TURN 8 /* chunks read before others get their turn */

static void on_ready(uv_poll_t *handle, int status, int events);

static bool dropping(const struct pump *p)
{
    return p->channel == NULL || p->channel->sent_end || (p->limit != 0 && p->forwarded >= p->limit);
}

static bool may_read(const struct pump *p)
{
    return dropping(p) || (p->channel->may_send > 0 && node_backlog(p->node) < NODE_OUT_PAUSE);
}

static void watch(struct pump *p)
{
    if (p->fd < 0) {
        return;
    }
    int events = (p->reads && may_read(p) ? UV_READABLE : 0) | (p->in_at < p->in.len ? UV_WRITABLE : 0);
    if (events == 0) {
        (void)uv_poll_stop(&p->poll);
    } else {
        (void)uv_poll_start(&p->poll, events, on_ready);
    }
}

static void on_closed(uv_handle_t *handle)
{
    struct pump *p = handle->data;
    fd_close(&p->fd);
    buf_done(&p->in);
    free(p);
}

void pump_free(struct pump *p)
{
    if (p == NULL) {
        return;
    }
    if (p->channel != NULL && p->channel->sent_end && p->channel->got_end) {
        channel_end(&p->channel);
    } else if (p->channel != NULL) {
        channel_reset(&p->channel); /* cut short: the host must not wait for more */
    }
    p->done = NULL;
    p->reads = p->writes = false;
    uv_close((uv_handle_t *)&p->poll, on_closed);
}

static void finish_if_over(struct pump *p)
{
    watch(p);
    if (!p->reads && !p->writes && p->done != NULL) {
        void (*done)(struct pump *, void *) = p->done;
        p->done = NULL;
        (void)uv_poll_stop(&p->poll);
        done(p, p->arg); /* may free it */
    }
}

/* Nothing more comes from the descriptor. */
static void reading_over(struct pump *p)
{
    p->reads = false;
    if (p->channel != NULL) {
        channel_end(&p->channel);
    }
}

/* Nothing more goes to the descriptor. */
static void writing_over(struct pump *p)
{
    p->writes = false;
    buf_reset(&p->in);
    p->in_at = 0;
    if (p->reads) {
        (void)shutdown(p->fd, SHUT_WR);
    } else {
        (void)uv_poll_stop(&p->poll);
        if (p->channel != NULL && !p->channel->sent_end) {
            channel_end(&p->channel);
        }
    }
}

static void forward(struct pump *p, const char *data, size_t len)
{
    p->total += len;
    if (dropping(p)) {
        return;
    }
    if (p->limit != 0 && len > p->limit - p->forwarded) {
        len = (size_t)(p->limit - p->forwarded);
    }
    p->forwarded += len;
    channel_send(p->channel, data, len);
}

static void do_read(struct pump *p)
{
    char chunk[PROTOCOL_DATA_MAX];
    for (int i = 0; i < READS_PER_TURN && p->reads && may_read(p); i++) {
        size_t want = sizeof chunk;
        if (!dropping(p) && want > p->channel->may_send) {
            want = (size_t)p->channel->may_send;
        }
        ssize_t n = read(p->fd, chunk, want);
        if (n > 0) {
            forward(p, chunk, (size_t)n);
            if ((size_t)n < want) {
                return; /* a short read: it is empty now, or the next turn says that it ended */
            }
        } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        } else {
            reading_over(p);
        }
    }
}

static void do_write(struct pump *p)
{
    while (p->in_at < p->in.len) {
        ssize_t n = write(p->fd, p->in.data + p->in_at, p->in.len - p->in_at);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (n < 0) { /* the reader is gone: what is left and what still comes is dropped */
            if (p->channel != NULL) {
                channel_consumed(p->channel, p->in.len - p->in_at);
            }
            writing_over(p);
            return;
        }
        p->in_at += (size_t)n;
        if (p->channel != NULL) {
            channel_consumed(p->channel, (size_t)n);
        }
    }
    buf_reset(&p->in);
    p->in_at = 0;
    if (p->input_ended) {
        writing_over(p);
    }
}

static void on_ready(uv_poll_t *handle, int status, int events)
{
    struct pump *p = handle->data;
    if (status < 0) {
        events = UV_READABLE | UV_WRITABLE; /* the calls below find out what is wrong */
    }
    if ((events & UV_READABLE) != 0 && p->reads) {
        do_read(p);
    }
    if ((events & UV_WRITABLE) != 0 && p->writes) {
        do_write(p);
    }
    finish_if_over(p);
}

/* ---- the channel's side ---- */

static void channel_data(void *owner, const char *data, size_t len)
{
    struct pump *p = owner;
    if (!p->writes || p->input_ended) {
        channel_consumed(p->channel, len);
        return;
    }
    if (p->in_at > 0) { /* keep the buffer as small as the window */
        AUTO_BUF struct buf rest;
        buf_init(&rest, PROTOCOL_CREDIT_MAX);
        buf_add(&rest, p->in.data + p->in_at, p->in.len - p->in_at);
        buf_reset(&p->in);
        buf_add(&p->in, rest.data, rest.len);
        p->in_at = 0;
    }
    buf_add(&p->in, data, len);
    do_write(p);
    finish_if_over(p);
}

static void channel_ended(void *owner)
{
    struct pump *p = owner;
    p->input_ended = true;
    if (p->writes && p->in_at >= p->in.len) {
        writing_over(p);
    }
    finish_if_over(p);
}

static void channel_gone(void *owner)
{
    struct pump *p = owner;
    p->channel = NULL;
    if (p->reads && p->writes) { /* a connection: nobody wants either way */
        p->reads = false;
    }
    if (p->writes) {
        writing_over(p);
    }
    finish_if_over(p);
}

static void channel_more(void *owner)
{
    watch(owner);
}

static const struct channel_ops pump_ops = {channel_data, channel_ended, channel_gone, channel_more};

int pump_new(struct node *n, int fd, bool reads, bool writes, struct pump **ret, struct orch_err *err)
{
    struct pump *p = xcalloc(1, sizeof *p);
    *p = (struct pump){.node = n, .fd = fd, .reads = reads, .writes = writes};
    int code = uv_poll_init(&n->loop, &p->poll, fd); /* makes it non-blocking */
    if (code < 0) {
        (void)close(fd);
        free(p);
        return err_set(err, ORCH_E_IO, "watch a descriptor: %s", uv_strerror(code));
    }
    p->poll.data = p;
    buf_init(&p->in, PROTOCOL_CREDIT_MAX);
    *ret = p;
    return 0;
}

int pump_attach(struct pump *p, uint32_t channel, struct orch_err *err)
{
    return channel_open(p->node, channel, &pump_ops, p, &p->channel, err);
}

void pump_start(struct pump *p)
{
    finish_if_over(p);
}
