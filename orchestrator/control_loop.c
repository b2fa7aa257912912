/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/control_loop.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "orchestrator/row_json.h"
#include "state/control_socket.h"

#include <string.h>
#include <unistd.h>

#define CLIENTS_MAX 16
#define CLIENT_MS 5000       /* from accept to the end of the answer */
#define EVENTS_DEFAULT 10000 /* lines of one answer */

struct control_loop {
    struct engine *e;
    uv_poll_t listener;
    int fd;
    int handles; /* open uv handles, the listener's and the clients' */
    struct client *clients;
    size_t client_count;
    bool closing;
    bool *done;
};

struct client {
    struct control_loop *c;
    struct client *next;
    uv_pipe_t pipe;
    uv_timer_t timer;
    uv_write_t write;
    char line[CONTROL_REQUEST_MAX];
    size_t len;
    struct buf answer;
    int open; /* handles */
    bool answered;
};

/* ------------------------------------------------------------------ ends */

static void maybe_done(struct control_loop *c)
{
    if (c->closing && c->handles == 0) {
        bool *done = c->done;
        free(c);
        *done = true;
    }
}

static void client_gone(uv_handle_t *handle)
{
    struct client *k = handle->data;
    struct control_loop *c = k->c;
    c->handles--;
    if (--k->open > 0) {
        return;
    }
    struct client **at = &c->clients;
    while (*at != k) {
        at = &(*at)->next;
    }
    *at = k->next;
    c->client_count--;
    buf_done(&k->answer);
    free(k);
    maybe_done(c);
}

static void client_close(struct client *k)
{
    uv_handle_t *handles[] = {(uv_handle_t *)&k->pipe, (uv_handle_t *)&k->timer};
    for (size_t i = 0; i < ARRAY_LEN(handles); i++) {
        if (!uv_is_closing(handles[i])) {
            uv_close(handles[i], client_gone);
        }
    }
}

/* ------------------------------------------------------------------ answers */

static bool add_event(void *arg, const struct event_row *row)
{
    struct client *k = arg;
    AUTO_JSON json_t *o = row_json_event(row);
    control_add_line(&k->answer, o);
    return !k->answer.overflow;
}

static int64_t last_seq(struct record *rec)
{
    int64_t seq = 0;
    char hash[65];
    struct orch_err ignored = ERR_INIT;
    return record_head(rec, &seq, hash, &ignored) < 0 ? 0 : seq;
}

static int answer_events(struct client *k, const struct control_request *q, struct orch_err *err)
{
    int64_t limit = q->limit > 0 && q->limit < EVENTS_DEFAULT ? q->limit : EVENTS_DEFAULT;
    int64_t head = last_seq(k->c->e->record);
    TRY(record_events(k->c->e->record, q->since, limit, add_event, k, err));
    AUTO_JSON json_t *o = json_object();
    json_set_flag(o, "ok", true);
    json_set_int(o, "next", q->since + limit < head ? q->since + limit : head);
    control_add_line(&k->answer, o);
    return 0;
}

static int answer_status(struct client *k, struct orch_err *err)
{
    struct engine *e = k->c->e;
    struct trial_filter all = TRIAL_FILTER_ANY;
    struct trial_counts counts;
    TRY(record_total(e->record, &all, &counts, err));
    AUTO_JSON json_t *o = json_object();
    json_set_flag(o, "ok", true);
    json_set_str(o, "run", e->run_id);
    json_set_int(o, "pid", getpid());
    json_set_str(o, "state", e->interrupts > 0 ? "stopping" : "running");
    json_set_int(o, "events", last_seq(e->record));
    json_set_take(o, "counts", row_json_counts(&counts));
    control_add_line(&k->answer, o);
    return 0;
}

static int answer_stop(struct client *k)
{
    engine_stop(k->c->e);
    AUTO_JSON json_t *o = json_object();
    json_set_flag(o, "ok", true);
    control_add_line(&k->answer, o);
    return 0;
}

static int answer(struct client *k, struct orch_err *err)
{
    struct control_request q;
    TRY(control_parse(k->line, k->len, &q, err));
    switch (q.op) {
    case CONTROL_STATUS:
        return answer_status(k, err);
    case CONTROL_EVENTS:
        return answer_events(k, &q, err);
    case CONTROL_STOP:
        return answer_stop(k);
    case CONTROL_OP_COUNT:
        break;
    }
    return err_set(err, ORCH_E_INTERNAL, "an operation without an answer");
}

static void written(uv_write_t *write, int status)
{
    (void)status;
    client_close(write->data);
}

static void respond(struct client *k)
{
    struct orch_err err = ERR_INIT;
    k->answered = true;
    (void)uv_read_stop((uv_stream_t *)&k->pipe);
    if (answer(k, &err) < 0) {
        control_add_error(&k->answer, &err);
    }
    uv_buf_t b = uv_buf_init(k->answer.data, (unsigned)k->answer.len);
    k->write.data = k;
    if (uv_write(&k->write, (uv_stream_t *)&k->pipe, &b, 1, written) != 0) {
        client_close(k);
    }
}

/* ------------------------------------------------------------------ clients */

static void give_room(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    (void)suggested;
    struct client *k = handle->data;
    *ret = uv_buf_init(k->line + k->len, (unsigned)(sizeof k->line - k->len));
}

static void got_bytes(uv_stream_t *stream, ssize_t n, const uv_buf_t *unused)
{
    (void)unused;
    struct client *k = stream->data;
    if (n < 0) {
        client_close(k);
        return;
    }
    const char *newline = memchr(k->line + k->len, '\n', (size_t)n);
    k->len += (size_t)n;
    if (newline != NULL || k->len == sizeof k->line) {
        k->len = newline != NULL ? (size_t)(newline - k->line) : k->len; /* too long: the parser refuses it */
        respond(k);
    }
}

static void too_slow(uv_timer_t *timer)
{
    client_close(timer->data);
}

static void add_client(struct control_loop *c, int fd)
{
    struct client *k = xcalloc(1, sizeof *k);
    k->c = c;
    k->next = c->clients;
    c->clients = k;
    c->client_count++;
    buf_init(&k->answer, CONTROL_REPLY_MAX);
    k->pipe.data = k->timer.data = k;
    (void)uv_pipe_init(&c->e->loop, &k->pipe, 0);
    (void)uv_timer_init(&c->e->loop, &k->timer);
    k->open = 2;
    c->handles += 2;
    if (uv_pipe_open(&k->pipe, fd) != 0) {
        (void)close(fd);
        client_close(k);
        return;
    }
    (void)uv_timer_start(&k->timer, too_slow, CLIENT_MS, 0);
    (void)uv_read_start((uv_stream_t *)&k->pipe, give_room, got_bytes);
}

static void on_listen(uv_poll_t *handle, int status, int events)
{
    (void)status;
    (void)events;
    struct control_loop *c = handle->data;
    struct orch_err err = ERR_INIT;
    int fd = control_accept(c->fd, &err);
    if (fd < 0) {
        return; /* nobody, or somebody who may not */
    }
    if (c->client_count >= CLIENTS_MAX) {
        (void)close(fd);
        return;
    }
    add_client(c, fd);
}

/* ------------------------------------------------------------------ start, close */

int control_loop_start(struct engine *e, struct control_loop **ret, struct orch_err *err)
{
    int fd = control_listen(&e->layout, e->run_id, err);
    TRY(fd);
    struct control_loop *c = xcalloc(1, sizeof *c);
    *c = (struct control_loop){.e = e, .fd = fd, .handles = 1};
    c->listener.data = c;
    if (uv_poll_init(&e->loop, &c->listener, fd) != 0) {
        fd_close(&c->fd);
        free(c);
        return err_set(err, ORCH_E_IO, "watch the control socket");
    }
    (void)uv_poll_start(&c->listener, UV_READABLE, on_listen);
    *ret = c;
    return 0;
}

static void listener_closed(uv_handle_t *handle)
{
    struct control_loop *c = handle->data;
    fd_close(&c->fd);
    c->handles--;
    maybe_done(c);
}

void control_loop_close(struct control_loop *c, bool *ret_done)
{
    *ret_done = c == NULL;
    if (c == NULL) {
        return;
    }
    control_remove(&c->e->layout, c->e->run_id);
    c->closing = true;
    c->done = ret_done;
    for (struct client *k = c->clients; k != NULL; k = k->next) {
        client_close(k);
    }
    uv_close((uv_handle_t *)&c->listener, listener_closed);
}
