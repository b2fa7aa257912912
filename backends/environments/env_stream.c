/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: connections that programs inside made to a declared port. What the
 * owner does only marks the stream; everything is delivered by pump(), which
 * runs from the loop, so no callback comes from inside an owner's call.
 */
#include "backends/environments/environment_impl.h"

#include "base/mem.h"

#define STREAM_BACKLOG_MAX ((size_t)64 << 20)

struct stream_write_mark {
    struct stream_write_mark *next;
    uint64_t end; /* bytes sent when it is done */
    int code;
    void (*cb)(struct stream *s, int code, void *arg);
    void *arg;
};

struct stream {
    struct sandbox *sb;
    struct stream *next, *prev;
    struct node_channel *ch;
    const struct stream_callbacks *callbacks;
    struct stream_callbacks own;
    void *arg;
    struct buf in, out;
    size_t out_at; /* of `out` that was sent */
    uint64_t queued, sent;
    struct stream_write_mark *marks, **marks_end;
    bool paused, pumping;
    bool in_end, in_end_told, out_end, out_end_sent;
    bool closing, gone;
    struct orch_err err;
};

static void pump(struct stream *s);

static void on_data(void *arg, const char *data, size_t len)
{
    struct stream *s = arg;
    buf_add(&s->in, data, len);
    pump(s);
}

static void on_end(void *arg)
{
    struct stream *s = arg;
    s->in_end = true;
    pump(s);
}

static void on_reset(void *arg)
{
    struct stream *s = arg;
    s->gone = true;
    if (s->err.code == 0 && !s->closing) {
        (void)err_set(&s->err, ORCH_E_IO, "the connection was broken");
    }
    pump(s);
}

static void on_room(void *arg)
{
    pump(arg);
}

static const struct node_channel_callbacks channel_callbacks = {
    .data = on_data, .end = on_end, .reset = on_reset, .room = on_room};

static void stream_free(struct stream *s)
{
    if (s->prev != NULL) {
        s->prev->next = s->next;
    } else {
        s->sb->streams = s->next;
    }
    if (s->next != NULL) {
        s->next->prev = s->prev;
    }
    node_channel_free(s->ch);
    buf_done(&s->in);
    buf_done(&s->out);
    while (s->marks != NULL) {
        struct stream_write_mark *m = s->marks;
        s->marks = m->next;
        free(m);
    }
    free(s);
}

static void deliver_in(struct stream *s)
{
    if (s->in.len > 0 && !s->paused && !s->closing) {
        size_t len = 0;
        AUTO_FREE char *data = buf_take(&s->in, &len);
        s->callbacks->read(s, data, len, s->arg);
        node_channel_consumed(s->ch, len);
    }
    if (s->in_end && s->in.len == 0 && !s->in_end_told && !s->paused && !s->closing) {
        s->in_end_told = true;
        s->callbacks->read(s, NULL, 0, s->arg);
    }
}

static void send_out(struct stream *s)
{
    size_t room = node_channel_room(s->ch);
    size_t left = s->out.len - s->out_at;
    size_t n = left < room ? left : room;
    if (n > 0) {
        node_channel_send(s->ch, s->out.data + s->out_at, n);
        s->out_at += n;
        s->sent += n;
    }
    if (s->out_at == s->out.len && s->out_at > 0) {
        buf_reset(&s->out);
        s->out_at = 0;
    }
    if (s->out_end && s->out.len == 0 && !s->out_end_sent) {
        s->out_end_sent = true;
        node_channel_end(s->ch);
    }
}

static void complete_writes(struct stream *s)
{
    while (s->marks != NULL && (s->marks->code < 0 || s->marks->end <= s->sent || s->gone || s->closing)) {
        struct stream_write_mark *m = s->marks;
        int code = m->code < 0 ? m->code : m->end <= s->sent ? 0 : ORCH_E_IO;
        s->marks = m->next;
        if (s->marks == NULL) {
            s->marks_end = &s->marks;
        }
        m->cb(s, code, m->arg);
        free(m);
    }
}

static void pump(struct stream *s)
{
    if (s->pumping || s->callbacks == NULL) {
        return;
    }
    s->pumping = true;
    deliver_in(s);
    if (!s->gone && !s->closing) {
        send_out(s);
    }
    complete_writes(s);
    s->pumping = false;
    bool both_ended = s->in_end_told && s->out_end_sent;
    if (s->closing || s->gone || both_ended) {
        struct stream_callbacks callbacks = s->own;
        struct orch_err err = s->err;
        s->pumping = true; /* nothing more is delivered */
        callbacks.closed(s, &err, s->arg);
        stream_free(s);
    }
}

void stream_pump_all(struct sandbox *sb)
{
    sb->busy++;
    for (struct stream *s = sb->streams, *next; s != NULL; s = next) {
        next = s->next; /* owners' callbacks only mark streams: the next one stays */
        pump(s);
    }
    sandbox_release(sb);
}

void stream_end(struct stream *s, const struct orch_err *err)
{
    if (s->callbacks == NULL) {
        stream_free(s);
        return;
    }
    s->err = s->closing ? s->err : *err;
    s->gone = true;
    pump(s);
}

void stream_connect_event(struct environment *env, json_t *event)
{
    struct sandbox *sb = sandbox_find(env, json_get_str(event, "sandbox", ""));
    uint32_t id = (uint32_t)json_get_int(event, "channel", 0);
    if (id == 0 || id % 2 != 0) {
        return;
    }
    if (sb == NULL || sb->on_stream == NULL || sb->removing) {
        node_channel_refuse(env->client, id);
        return;
    }
    struct stream *s = xcalloc(1, sizeof *s);
    *s = (struct stream){.sb = sb, .next = sb->streams};
    s->marks_end = &s->marks;
    buf_init(&s->in, 2 * PROTOCOL_WINDOW);
    buf_init(&s->out, STREAM_BACKLOG_MAX);
    if (sb->streams != NULL) {
        sb->streams->prev = s;
    }
    sb->streams = s;
    s->ch = node_channel_new(env->client, id, &channel_callbacks, s);
    sb->on_stream(sb, (uint16_t)json_get_int(event, "port", 0), s, sb->stream_arg);
    if (s->callbacks == NULL) {
        stream_free(s); /* nobody took it */
    }
}

/* ---- the owner's side ---- */

void stream_start(struct stream *s, const struct stream_callbacks *callbacks, void *arg)
{
    s->own = *callbacks;
    s->callbacks = &s->own;
    s->arg = arg;
    environment_defer(s->sb->env);
}

void stream_pause(struct stream *s, bool paused)
{
    s->paused = paused;
    environment_defer(s->sb->env);
}

void stream_write(struct stream *s, const void *data, size_t len, void (*cb)(struct stream *s, int code, void *arg),
                  void *arg)
{
    int code = 0;
    if (s->out_end || s->closing || s->gone) {
        code = ORCH_E_IO;
    } else if (s->out.len + len > STREAM_BACKLOG_MAX) {
        code = ORCH_E_LIMIT;
    } else {
        buf_add(&s->out, data, len);
        s->queued += len;
    }
    if (cb != NULL) {
        struct stream_write_mark *m = xcalloc(1, sizeof *m);
        *m = (struct stream_write_mark){.end = s->queued, .code = code, .cb = cb, .arg = arg};
        *s->marks_end = m;
        s->marks_end = &m->next;
    }
    environment_defer(s->sb->env);
}

size_t stream_backlog(const struct stream *s)
{
    return s->out.len - s->out_at;
}

void stream_shutdown(struct stream *s)
{
    s->out_end = true;
    environment_defer(s->sb->env);
}

void stream_close(struct stream *s)
{
    s->closing = true;
    environment_defer(s->sb->env);
}

struct sandbox *stream_sandbox(const struct stream *s)
{
    return s->sb;
}
