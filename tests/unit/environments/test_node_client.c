/* SPDX-License-Identifier: Apache-2.0 */
/* The client of the node protocol against a node that is played by the test, frame by frame. */
#include "backends/environments/node_client.h"
#include "base/fd.h"
#include "base/mem.h"
#include "test.h"

#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct bench {
    uv_loop_t loop;
    struct node_client *client;
    int fd; /* the node's end */
    struct frame_decoder decoder;
    struct buf seen; /* what the callbacks said */
    bool closed;
};

static void on_event(void *arg, const char *name, json_t *event)
{
    struct bench *b = arg;
    buf_fmt(&b->seen, "event %s %s;", name, json_get_str(event, "sandbox", "?"));
}

static void on_down(void *arg, const struct orch_err *why)
{
    struct bench *b = arg;
    buf_fmt(&b->seen, "down %s;", err_name(why->code));
}

static void on_reply(void *arg, json_t *ok, const struct orch_err *err)
{
    struct bench *b = arg;
    buf_fmt(&b->seen, "reply %s;", ok != NULL ? json_get_str(ok, "x", "-") : err_name(err->code));
}

static void on_closed(void *arg)
{
    *(bool *)arg = true;
}

static const struct node_client_callbacks callbacks = {.event = on_event, .down = on_down};

static struct bench *bench_new(int64_t timeout_ms)
{
    struct bench *b = xcalloc(1, sizeof *b);
    struct orch_err err = ERR_INIT;
    int pair[2];
    (void)signal(SIGPIPE, SIG_IGN);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    cr_assert_eq(uv_loop_init(&b->loop), 0);
    buf_init(&b->seen, BUF_MAX_TEXT);
    frame_decoder_init(&b->decoder);
    b->fd = pair[1];
    cr_assert_eq(node_client_new(&b->loop, pair[0], timeout_ms * 1000000, &callbacks, b, &b->client, &err), 0, "%s",
                 err.message);
    return b;
}

static void bench_free(struct bench *b)
{
    node_client_close(b->client, on_closed, &b->closed);
    while (!b->closed) {
        (void)uv_run(&b->loop, UV_RUN_ONCE);
    }
    cr_assert_eq(uv_run(&b->loop, UV_RUN_NOWAIT), 0);
    cr_assert_eq(uv_loop_close(&b->loop), 0);
    fd_close(&b->fd);
    frame_decoder_done(&b->decoder);
    buf_done(&b->seen);
    free(b);
}

/* Runs the loop until `seen` has `text`. */
static void until(struct bench *b, const char *text)
{
    while (strstr(b->seen.data, text) == NULL) {
        cr_assert_neq(uv_run(&b->loop, UV_RUN_ONCE), 0, "seen: %s", b->seen.data);
    }
}

/* The next frame from the client; the loop runs until it is there. */
static struct frame next(struct bench *b)
{
    struct frame f;
    struct orch_err err = ERR_INIT;
    char data[4096];
    for (;;) {
        int r = frame_decoder_next(&b->decoder, &f, &err);
        cr_assert_geq(r, 0, "%s", err.message);
        if (r > 0) {
            return f;
        }
        ssize_t n = recv(b->fd, data, sizeof data, MSG_DONTWAIT);
        if (n > 0) {
            frame_decoder_feed(&b->decoder, data, (size_t)n);
        } else {
            cr_assert_neq(n, 0, "the client closed the stream");
            (void)uv_run(&b->loop, UV_RUN_ONCE);
        }
    }
}

static void put(struct bench *b, enum frame_type type, uint32_t channel, const void *data, size_t len)
{
    AUTO_BUF struct buf out = {0};
    struct orch_err err = ERR_INIT;
    buf_init(&out, BUF_MAX_TEXT);
    frame_put(&out, type, channel, data, len);
    cr_assert_eq(fd_write_all(b->fd, out.data, out.len, &err), 0, "%s", err.message);
}

static void answer(struct bench *b, int64_t id, const char *x)
{
    json_t *ok = json_object();
    json_set_str(ok, "x", x);
    AUTO_JSON json_t *reply = reply_ok(id, ok);
    AUTO_FREE char *text = json_canonical(reply);
    put(b, FRAME_REPLY, 0, text, strlen(text));
}

static int64_t next_request(struct bench *b, const char *op)
{
    struct frame f = next(b);
    struct orch_err err = ERR_INIT;
    AUTO_JSON json_t *q = NULL;
    cr_assert_eq(f.type, FRAME_REQUEST);
    cr_assert_eq(frame_json(&f, &q, &err), 0, "%s", err.message);
    cr_assert_str_eq(json_get_str(q, "op", ""), op);
    return json_get_int(q, "id", 0);
}

static json_t *request(const char *op)
{
    json_t *q = json_object();
    json_set_str(q, "op", op);
    return q;
}

Test(node_client, matches_replies_in_any_order)
{
    struct bench *b = bench_new(10000);
    (void)node_request(b->client, request("a"), NULL, on_reply, b);
    (void)node_request(b->client, request("b"), NULL, on_reply, b);
    int64_t a = next_request(b, "a");
    int64_t second = next_request(b, "b");
    answer(b, second, "2");
    answer(b, 999, "nobody's");
    answer(b, a, "1");
    until(b, "reply 2;reply 1;");
    cr_assert_str_eq(b->seen.data, "reply 2;reply 1;");
    bench_free(b);
    TEST_END();
}

Test(node_client, asks_again_and_takes_one_answer)
{
    struct bench *b = bench_new(40);
    (void)node_request(b->client, request("a"), NULL, on_reply, b);
    int64_t first = next_request(b, "a");
    int64_t second = next_request(b, "a");
    cr_assert_neq(first, second);
    answer(b, first, "late");
    answer(b, second, "good");
    until(b, "reply good;");
    answer(b, second, "twice");
    (void)node_request(b->client, request("c"), NULL, on_reply, b);
    answer(b, next_request(b, "c"), "last");
    until(b, "reply last;");
    cr_assert_str_eq(b->seen.data, "reply good;reply last;");
    bench_free(b);
    TEST_END();
}

Test(node_client, gives_up_with_an_unknown_outcome)
{
    struct bench *b = bench_new(2);
    (void)node_request(b->client, request("a"), NULL, on_reply, b);
    int64_t id = next_request(b, "a");
    while (strstr(b->seen.data, "reply") == NULL) {
        answer(b, id + 1000, "x"); /* it talks, but of other things */
        (void)uv_run(&b->loop, UV_RUN_ONCE);
    }
    until(b, "reply lost;");
    cr_assert_str_eq(b->seen.data, "reply lost;");
    bench_free(b);
    TEST_END();
}

static enum node_retry wait_on(void *arg, json_t *request, unsigned times)
{
    (void)arg, (void)request, (void)times;
    return NODE_WAIT;
}

/* A long call is waited for without end, but not from a node that answers nothing else either. */
Test(node_client, a_silent_node_is_given_up)
{
    struct bench *b = bench_new(2);
    (void)node_request(b->client, request("call"), wait_on, on_reply, b);
    (void)node_request(b->client, request("a"), NULL, on_reply, b);
    until(b, "down lost;");
    cr_assert_str_eq(b->seen.data, "reply lost;reply lost;down lost;");
    bench_free(b);
    TEST_END();
}

Test(node_client, ends_requests_when_the_stream_ends)
{
    struct bench *b = bench_new(10000);
    (void)node_request(b->client, request("a"), NULL, on_reply, b);
    (void)next_request(b, "a");
    fd_close(&b->fd);
    until(b, "down");
    cr_assert_str_eq(b->seen.data, "reply lost;down lost;");
    /* Later requests get the same answer, from the loop. */
    buf_reset(&b->seen);
    (void)node_request(b->client, request("b"), NULL, on_reply, b);
    cr_assert_eq(b->seen.len, 0);
    until(b, "reply lost;");
    bench_free(b);
    TEST_END();
}

Test(node_client, ends_requests_when_it_is_closed)
{
    struct bench *b = bench_new(10000);
    char seen[64] = "";
    (void)node_request(b->client, request("a"), NULL, on_reply, b);
    node_client_close(b->client, on_closed, &b->closed);
    (void)strncpy(seen, b->seen.data, sizeof seen - 1);
    cr_assert_str_eq(seen, "reply interrupted;");
    while (!b->closed) {
        (void)uv_run(&b->loop, UV_RUN_ONCE);
    }
    cr_assert_eq(uv_loop_close(&b->loop), 0);
    fd_close(&b->fd);
    frame_decoder_done(&b->decoder);
    buf_done(&b->seen);
    free(b);
    TEST_END();
}

struct end {
    struct bench *b;
    size_t got;
    struct node_channel *ch;
};

static void ch_data(void *arg, const char *data, size_t len)
{
    struct end *e = arg;
    (void)data;
    e->got += len;
}

static void ch_end(void *arg)
{
    struct end *e = arg;
    buf_fmt(&e->b->seen, "end %zu;", e->got);
}

static void ch_reset(void *arg)
{
    struct end *e = arg;
    buf_fmt(&e->b->seen, "reset;");
}

static void ch_room(void *arg)
{
    struct end *e = arg;
    buf_fmt(&e->b->seen, "room %zu;", node_channel_room(e->ch));
}

static const struct node_channel_callbacks channel = {
    .data = ch_data, .end = ch_end, .reset = ch_reset, .room = ch_room};

Test(node_client, names_odd_channels_and_grants_what_is_consumed)
{
    struct bench *b = bench_new(10000);
    struct end e = {.b = b};
    AUTO_FREE char *data = xcalloc(1, PROTOCOL_DATA_MAX);
    e.ch = node_channel_new(b->client, 0, &channel, &e);
    struct node_channel *other = node_channel_new(b->client, 0, &channel, &e);
    cr_assert_eq(node_channel_id(e.ch) % 2, 1);
    cr_assert_eq(node_channel_id(other), node_channel_id(e.ch) + 2);
    for (size_t sent = 0; sent < PROTOCOL_WINDOW; sent += PROTOCOL_DATA_MAX) {
        put(b, FRAME_DATA, node_channel_id(e.ch), data, PROTOCOL_DATA_MAX);
        while (e.got < sent + PROTOCOL_DATA_MAX) {
            (void)uv_run(&b->loop, UV_RUN_ONCE);
        }
    }
    node_channel_consumed(e.ch, PROTOCOL_WINDOW);
    struct frame f = next(b);
    cr_assert_eq(f.type, FRAME_CREDIT);
    cr_assert_eq(frame_credit(&f), PROTOCOL_WINDOW);
    put(b, FRAME_END, node_channel_id(e.ch), NULL, 0);
    until(b, "end 262144;");
    node_channel_end(e.ch);
    f = next(b);
    cr_assert_eq(f.type, FRAME_END);
    node_channel_free(e.ch); /* both have ended: no RESET */
    node_channel_free(other);
    f = next(b);
    cr_assert_eq(f.type, FRAME_RESET);
    cr_assert_eq(f.channel, 3);
    bench_free(b);
    TEST_END();
}

Test(node_client, sends_within_the_credit)
{
    struct bench *b = bench_new(10000);
    struct end e = {.b = b};
    AUTO_FREE char *data = xcalloc(1, PROTOCOL_WINDOW);
    e.ch = node_channel_new(b->client, 0, &channel, &e);
    cr_assert_eq(node_channel_room(e.ch), PROTOCOL_WINDOW);
    node_channel_send(e.ch, data, PROTOCOL_WINDOW);
    cr_assert_eq(node_channel_room(e.ch), 0);
    size_t got = 0;
    while (got < PROTOCOL_WINDOW) {
        struct frame f = next(b);
        cr_assert_eq(f.type, FRAME_DATA);
        got += f.len;
    }
    const unsigned char credit[4] = {100, 0, 0, 0};
    put(b, FRAME_CREDIT, node_channel_id(e.ch), credit, sizeof credit);
    until(b, "room 100;");
    put(b, FRAME_RESET, node_channel_id(e.ch), NULL, 0);
    until(b, "reset;");
    cr_assert_eq(node_channel_room(e.ch), 0);
    node_channel_free(e.ch);
    bench_free(b);
    TEST_END();
}

Test(node_client, breaks_on_more_than_it_granted)
{
    struct bench *b = bench_new(10000);
    struct end e = {.b = b};
    AUTO_FREE char *data = xcalloc(1, PROTOCOL_DATA_MAX);
    e.ch = node_channel_new(b->client, 0, &channel, &e);
    for (size_t sent = 0; sent <= PROTOCOL_WINDOW; sent += PROTOCOL_DATA_MAX) {
        put(b, FRAME_DATA, node_channel_id(e.ch), data, PROTOCOL_DATA_MAX);
        (void)uv_run(&b->loop, UV_RUN_NOWAIT);
    }
    until(b, "down protocol;");
    cr_assert_str_eq(b->seen.data, "reset;down protocol;");
    cr_assert_eq(e.got, PROTOCOL_WINDOW);
    node_channel_free(e.ch);
    bench_free(b);
    TEST_END();
}

Test(node_client, breaks_on_what_is_no_frame)
{
    struct bench *b = bench_new(10000);
    struct orch_err err = ERR_INIT;
    cr_assert_eq(fd_write_all(b->fd, "Last login: today on a terminal\n", 32, &err), 0);
    until(b, "down protocol;");
    bench_free(b);
    TEST_END();
}

Test(node_client, passes_events_and_refuses_channels)
{
    struct bench *b = bench_new(10000);
    static const char event[] = "{\"event\":\"closed\",\"sandbox\":\"s\"}";
    put(b, FRAME_EVENT, 0, event, strlen(event));
    until(b, "event closed s;");
    put(b, FRAME_DATA, 44, "x", 1); /* a channel that is gone */
    node_channel_refuse(b->client, 2);
    struct frame f = next(b);
    cr_assert_eq(f.type, FRAME_RESET);
    cr_assert_eq(f.channel, 2);
    cr_assert_not(node_client_is_down(b->client));
    bench_free(b);
    TEST_END();
}
