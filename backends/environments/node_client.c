/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/environments/node_client.h"

#include "base/fd.h"
#include "base/map.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define READ_CHUNK ((size_t)128 << 10)
#define OUT_MAX ((size_t)1 << 30) /* more than credit and bounded requests can ever queue: reaching it is our bug */
#define DEFAULT_TIMEOUT_NS (10 * INT64_C(1000000000))
#define LATE_MAX_MS 5000
#define SEND_WINDOW_MAX ((uint64_t)1 << 40)

struct node_request {
    struct node_client *client;
    struct node_request *next, *prev;
    int64_t id; /* of the last time it was sent */
    json_t *body;
    node_late_cb late;
    node_reply_cb cb;
    void *arg;
    uint64_t began, due; /* uv_now() milliseconds */
    unsigned times;
    bool settled; /* by node_request_settle: delivered on the next tick */
    json_t *ok;
    struct orch_err *err;
};

struct node_channel {
    struct node_client *client;
    uint32_t id;
    const struct node_channel_callbacks *cb;
    void *arg;
    uint64_t send_room;
    size_t take_room; /* bytes the node may still send */
    uint32_t owed;    /* consumed bytes not granted yet */
    bool sent_end, got_end, gone;
};

struct node_client {
    uv_loop_t *loop;
    uv_pipe_t pipe;
    uv_timer_t timer;
    uv_write_t write;
    char *writing; /* bytes of the write under way, owned */
    struct buf out;
    struct frame_decoder decoder;
    struct node_request *requests; /* a ring through a list head would do; order is not needed */
    struct map *channels;
    const struct node_client_callbacks *callbacks;
    void *arg;
    int64_t last_id;
    uint32_t last_channel;
    uint64_t timeout_ms;
    uint64_t heard; /* uv_now() when the node last said anything */
    bool down, told, closing;
    struct orch_err why;
    int open_handles;
    void (*closed)(void *arg);
    void *closed_arg;
};

static void tick(uv_timer_t *timer);
static void reset_all(struct node_client *c);
static void flush(struct node_client *c);
static void fail(struct node_client *c, const struct orch_err *err);

/* ---- requests ---- */

static void request_unlink(struct node_request *r)
{
    struct node_client *c = r->client;
    if (r->prev != NULL) {
        r->prev->next = r->next;
    } else {
        c->requests = r->next;
    }
    if (r->next != NULL) {
        r->next->prev = r->prev; /* NOLINT(clang-analyzer-unix.Malloc): the freed one was unlinked */
    }
}

static void request_free(struct node_request *r)
{
    json_release(&r->body);
    json_release(&r->ok);
    free(r->err);
    free(r);
}

static void request_finish(struct node_request *r, json_t *ok, const struct orch_err *err)
{
    struct orch_err none = ERR_INIT;
    request_unlink(r);
    r->cb(r->arg, ok, err != NULL ? err : &none);
    request_free(r);
}

/* Longer each time, up to LATE_MAX_MS: a machine under load is slow, not silent. */
static uint64_t patience(const struct node_request *r)
{
    uint64_t first = r->client->timeout_ms;
    uint64_t wait = first << (r->times < 10 ? r->times : 10);
    uint64_t most = first > LATE_MAX_MS ? first : LATE_MAX_MS;
    return wait < most ? wait : most;
}

static void request_send(struct node_request *r)
{
    struct node_client *c = r->client;
    struct orch_err err = ERR_INIT;
    r->id = ++c->last_id;
    r->due = uv_now(c->loop) + patience(r);
    json_set_int(r->body, "id", r->id);
    if (c->down) {
        node_request_settle(r, NULL, &c->why);
        return;
    }
    if (frame_put_json(&c->out, FRAME_REQUEST, json_incref(r->body), &err) < 0) {
        node_request_settle(r, NULL, &err);
        return;
    }
    flush(c);
}

struct node_request *node_request(struct node_client *c, json_t *request, node_late_cb late, node_reply_cb cb,
                                  void *arg)
{
    struct node_request *r = xcalloc(1, sizeof *r);
    *r = (struct node_request){.client = c, .body = request, .late = late, .cb = cb, .arg = arg, .next = c->requests};
    r->began = uv_now(c->loop);
    if (c->requests != NULL) {
        c->requests->prev = r;
    }
    c->requests = r;
    request_send(r);
    return r;
}

void node_request_forget(struct node_request *r)
{
    if (r != NULL) {
        request_unlink(r);
        request_free(r);
    }
}

void node_request_settle(struct node_request *r, json_t *ok, const struct orch_err *err)
{
    struct node_client *c = r->client;
    if (r->settled) {
        return;
    }
    r->settled = true;
    r->ok = json_incref(ok);
    if (err != NULL && err->code < 0) {
        r->err = xmalloc(sizeof *r->err);
        *r->err = *err;
    }
    if (!c->closing) {
        (void)uv_timer_start(&c->timer, tick, 0, c->timeout_ms / 4 + 1);
    }
}

/* True if something was done: the list may have changed, look from its start again. */
static bool tick_one(struct node_request *r, uint64_t now)
{
    if (r->settled) {
        json_t *ok = r->ok;
        request_finish(r, ok, r->err);
        return true;
    }
    if (now < r->due) {
        return false;
    }
    r->times++;
    enum node_retry what = r->late != NULL            ? r->late(r->arg, r->body, r->times)
                           : r->times < NODE_ATTEMPTS ? NODE_AGAIN
                                                      : NODE_GIVE_UP;
    if (r->settled) {
        return true;
    }
    if (what == NODE_AGAIN) {
        request_send(r);
    } else if (what == NODE_WAIT) {
        r->due = now + patience(r);
    } else {
        struct orch_err err = ERR_INIT;
        struct node_client *c = r->client;
        bool silent = c->heard <= r->began;
        (void)err_set(&err, ORCH_E_LOST, "no answer to `%s` from the node", json_get_str(r->body, "op", "?"));
        request_finish(r, NULL, &err);
        if (silent) { /* stopped, or stuck: long calls would be waited for without end */
            fail(c, &err);
        }
    }
    return true;
}

static void tick(uv_timer_t *timer)
{
    struct node_client *c = timer->data;
    for (;;) {
        struct node_request *r = c->requests;
        while (r != NULL &&
               !tick_one(r, uv_now(c->loop))) { /* NOLINT(clang-analyzer-unix.Malloc): the freed one was unlinked */
            r = r->next;
        }
        if (r == NULL || c->closing) {
            break;
        }
    }
    if (c->down && !c->told && !c->closing) {
        c->told = true;
        reset_all(c);
        c->callbacks->down(c->arg, &c->why);
    }
}

static void on_reply(struct node_client *c, const struct frame *f)
{
    AUTO_JSON json_t *reply = NULL;
    struct orch_err err = ERR_INIT;
    json_t *ok = NULL;
    int64_t id = 0;
    if (frame_json(f, &reply, &err) < 0) {
        fail(c, &err);
        return;
    }
    int r = reply_read(reply, &id, &ok, &err);
    for (struct node_request *q = c->requests; q != NULL; q = q->next) {
        if (q->id == id && !q->settled) {
            request_finish(q, r < 0 ? NULL : ok, &err);
            return;
        }
    }
    /* An answer to an earlier sending of something that was asked again: not needed any more. */
}

static void on_event(struct node_client *c, const struct frame *f)
{
    AUTO_JSON json_t *event = NULL;
    struct orch_err err = ERR_INIT;
    if (frame_json(f, &event, &err) < 0) {
        fail(c, &err);
        return;
    }
    c->callbacks->event(c->arg, json_get_str(event, "event", ""), event);
}

/* ---- channels ---- */

static void channel_key(uint32_t id, char out[16])
{
    (void)snprintf(out, 16, "%" PRIu32, id);
}

static struct node_channel *channel_find(const struct node_client *c, uint32_t id)
{
    char key[16];
    channel_key(id, key);
    return map_get(c->channels, key);
}

struct node_channel *node_channel_new(struct node_client *c, uint32_t id, const struct node_channel_callbacks *cb,
                                      void *arg)
{
    struct node_channel *ch = xcalloc(1, sizeof *ch);
    char key[16];
    if (id == 0) {
        id = c->last_channel == 0 ? 1 : c->last_channel + 2;
        c->last_channel = id;
    }
    *ch = (struct node_channel){.client = c,
                                .id = id,
                                .cb = cb,
                                .arg = arg,
                                .send_room = PROTOCOL_WINDOW,
                                .take_room = PROTOCOL_WINDOW,
                                .gone = c->down};
    channel_key(id, key);
    (void)map_set(c->channels, key, ch);
    return ch;
}

void node_channel_free(struct node_channel *ch)
{
    if (ch == NULL) {
        return;
    }
    struct node_client *c = ch->client;
    char key[16];
    channel_key(ch->id, key);
    (void)map_remove(c->channels, key);
    if (!ch->gone && !(ch->sent_end && ch->got_end)) {
        node_channel_refuse(c, ch->id);
    }
    free(ch);
}

uint32_t node_channel_id(const struct node_channel *ch)
{
    return ch->id;
}

void node_channel_refuse(struct node_client *c, uint32_t id)
{
    if (!c->down) {
        frame_put(&c->out, FRAME_RESET, id, NULL, 0);
        flush(c);
    }
}

/* Grants in halves of the window: a frame for every few bytes would cost more than it gives. */
void node_channel_consumed(struct node_channel *ch, size_t len)
{
    ch->owed += (uint32_t)len;
    if (ch->owed >= PROTOCOL_WINDOW / 2 && !ch->gone && !ch->got_end && !ch->client->down) {
        frame_put_credit(&ch->client->out, ch->id, ch->owed);
        ch->take_room += ch->owed;
        ch->owed = 0;
        flush(ch->client);
    }
}

size_t node_channel_room(const struct node_channel *ch)
{
    return ch->gone || ch->sent_end || ch->client->down ? 0 : (size_t)ch->send_room;
}

void node_channel_send(struct node_channel *ch, const void *data, size_t len)
{
    const char *p = data;
    ch->send_room -= len;
    while (len > 0) {
        size_t n = len < PROTOCOL_DATA_MAX ? len : PROTOCOL_DATA_MAX;
        frame_put(&ch->client->out, FRAME_DATA, ch->id, p, n);
        p += n;
        len -= n;
    }
    flush(ch->client);
}

void node_channel_end(struct node_channel *ch)
{
    if (!ch->gone && !ch->sent_end && !ch->client->down) {
        ch->sent_end = true;
        frame_put(&ch->client->out, FRAME_END, ch->id, NULL, 0);
        flush(ch->client);
    }
}

static bool credit_fits(const struct node_channel *ch, uint32_t more)
{
    return ch->send_room + more <= PROTOCOL_CREDIT_MAX && ch->send_room < SEND_WINDOW_MAX;
}

static void on_channel(struct node_client *c, const struct frame *f)
{
    struct node_channel *ch = channel_find(c, f->channel);
    struct orch_err err = ERR_INIT;
    if (ch == NULL || ch->gone) {
        return; /* it was under way when the channel went */
    }
    switch (f->type) {
    case FRAME_DATA:
        if (f->len > ch->take_room || ch->got_end) {
            (void)err_set(&err, ORCH_E_PROTOCOL, "the node sent more than it was granted");
            fail(c, &err);
            break;
        }
        ch->take_room -= f->len;
        ch->cb->data(ch->arg, f->data, f->len);
        break;
    case FRAME_END:
        if (!ch->got_end) {
            ch->got_end = true;
            ch->cb->end(ch->arg);
        }
        break;
    case FRAME_RESET:
        ch->gone = true;
        ch->cb->reset(ch->arg);
        break;
    case FRAME_CREDIT:
        if (!credit_fits(ch, frame_credit(f))) {
            (void)err_set(&err, ORCH_E_PROTOCOL, "the node granted more than a channel may have");
            fail(c, &err);
            break;
        }
        ch->send_room += frame_credit(f);
        if (ch->cb->room != NULL) {
            ch->cb->room(ch->arg);
        }
        break;
    case FRAME_REQUEST:
    case FRAME_REPLY:
    case FRAME_EVENT:
    case FRAME_TYPE_COUNT:
    default:
        break;
    }
}

/* ---- the stream ---- */

static bool reset_one(const char *key, void *value, void *arg)
{
    struct node_channel *ch = value;
    (void)key;
    if (ch->gone) {
        return true;
    }
    ch->gone = true;
    *(struct node_channel **)arg = ch;
    return false;
}

/* The callbacks may free channels, so each search starts anew. */
static void reset_all(struct node_client *c)
{
    for (;;) {
        struct node_channel *ch = NULL;
        map_each(c->channels, reset_one, &ch);
        if (ch == NULL) {
            return;
        }
        ch->cb->reset(ch->arg);
    }
}

static void end_requests(struct node_client *c)
{
    for (struct node_request *r = c->requests; r != NULL; r = r->next) {
        node_request_settle(r, NULL, &c->why);
    }
}

/* Marks the stream as gone; everybody is told from the loop, not from inside the call that noticed. */
static void fail(struct node_client *c, const struct orch_err *err)
{
    if (c->down) {
        return;
    }
    c->down = true;
    c->why = *err;
    (void)uv_read_stop((uv_stream_t *)&c->pipe);
    end_requests(c);
    if (!c->closing) {
        (void)uv_timer_start(&c->timer, tick, 0, c->timeout_ms / 4 + 1);
    }
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    struct node_client *c = handle->data;
    size_t room = 0;
    (void)suggested;
    ret->base = frame_decoder_room(&c->decoder, READ_CHUNK, &room);
    ret->len = room;
}

static void dispatch(struct node_client *c)
{
    struct orch_err err = ERR_INIT;
    while (!c->down && !c->closing) {
        struct frame f;
        int r = frame_decoder_next(&c->decoder, &f, &err);
        if (r < 0) {
            fail(c, &err);
        }
        if (r <= 0) {
            return;
        }
        if (f.type == FRAME_REPLY) {
            on_reply(c, &f);
        } else if (f.type == FRAME_EVENT) {
            on_event(c, &f);
        } else if (f.type == FRAME_REQUEST) {
            (void)err_set(&err, ORCH_E_PROTOCOL, "the node sent a request");
            fail(c, &err);
        } else {
            on_channel(c, &f);
        }
    }
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *b)
{
    struct node_client *c = stream->data;
    (void)b;
    if (n > 0) {
        c->heard = uv_now(c->loop);
        frame_decoder_filled(&c->decoder, (size_t)n);
        dispatch(c);
    } else if (n < 0) {
        struct orch_err err = ERR_INIT;
        (void)err_set(&err, ORCH_E_LOST, "the node is gone (%s)",
                      n == UV_EOF ? "its stream ended" : uv_strerror((int)n));
        fail(c, &err);
    }
}

static void on_written(uv_write_t *write, int status)
{
    struct node_client *c = write->data;
    free_pointer(&c->writing);
    if (status < 0 && !c->closing) {
        struct orch_err err = ERR_INIT;
        (void)err_set(&err, ORCH_E_LOST, "the node is gone (%s)", uv_strerror(status));
        fail(c, &err);
        return;
    }
    flush(c);
}

/* One write at a time; what gathers meanwhile goes with the next. */
static void flush(struct node_client *c)
{
    struct orch_err err = ERR_INIT;
    if (c->writing != NULL || c->out.len == 0 || c->down || c->closing) {
        return;
    }
    if (c->out.overflow) {
        (void)err_set(&err, ORCH_E_INTERNAL, "more than %zu bytes wait for the node", OUT_MAX);
        fail(c, &err);
        return;
    }
    size_t len = 0;
    c->writing = buf_take(&c->out, &len);
    uv_buf_t b = {.base = c->writing, .len = len};
    c->write.data = c;
    int r = uv_write(&c->write, (uv_stream_t *)&c->pipe, &b, 1, on_written);
    if (r < 0) {
        free_pointer(&c->writing);
        (void)err_set(&err, ORCH_E_LOST, "the node is gone (%s)", uv_strerror(r));
        fail(c, &err);
    }
}

static void free_unopened(uv_handle_t *handle)
{
    free(handle->data);
}

int node_client_new(uv_loop_t *loop, int fd, int64_t reply_timeout_ns, const struct node_client_callbacks *callbacks,
                    void *arg, struct node_client **ret, struct orch_err *err)
{
    struct node_client *c = xcalloc(1, sizeof *c);
    c->loop = loop;
    c->callbacks = callbacks;
    c->arg = arg;
    c->timeout_ms = (uint64_t)(reply_timeout_ns > 0 ? reply_timeout_ns : DEFAULT_TIMEOUT_NS) / 1000000;
    c->timeout_ms = c->timeout_ms > 0 ? c->timeout_ms : 1;
    (void)uv_pipe_init(loop, &c->pipe, 0);
    int r = uv_pipe_open(&c->pipe, fd);
    if (r < 0) {
        fd_close(&fd);
        (void)err_set(err, ORCH_E_IO, "open the node's stream: %s", uv_strerror(r));
        /* The handle is in the loop's lists: it must be closed before its memory goes. */
        c->pipe.data = c;
        uv_close((uv_handle_t *)&c->pipe, free_unopened);
        return err->code;
    }
    (void)uv_timer_init(loop, &c->timer);
    c->pipe.data = c;
    c->timer.data = c;
    c->open_handles = 2;
    c->channels = map_new();
    buf_init(&c->out, OUT_MAX);
    frame_decoder_init(&c->decoder);
    (void)uv_read_start((uv_stream_t *)&c->pipe, on_alloc, on_read);
    (void)uv_timer_start(&c->timer, tick, c->timeout_ms / 4 + 1, c->timeout_ms / 4 + 1);
    *ret = c;
    return 0;
}

bool node_client_is_down(const struct node_client *c)
{
    return c->down;
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct node_client *c = handle->data;
    if (--c->open_handles > 0) {
        return;
    }
    void (*closed)(void *) = c->closed;
    void *arg = c->closed_arg;
    map_free(c->channels);
    buf_done(&c->out);
    frame_decoder_done(&c->decoder);
    free(c->writing);
    free(c);
    closed(arg);
}

void node_client_close(struct node_client *c, void (*closed)(void *arg), void *arg)
{
    c->closed = closed;
    c->closed_arg = arg;
    if (!c->down) {
        (void)err_set(&c->why, ORCH_E_INTERRUPTED, "the environment was closed");
        c->down = true;
    }
    while (c->requests != NULL) {
        request_finish(c->requests, NULL, &c->why);
    }
    reset_all(c);
    c->closing = true;
    uv_close((uv_handle_t *)&c->pipe, on_handle_closed);
    uv_close((uv_handle_t *)&c->timer, on_handle_closed);
}
