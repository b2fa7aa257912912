/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/node/protocol.h"
#include "base/rng.h"
#include "test.h"

#include <string.h>

Test(protocol, frames_pass_in_pieces_of_any_size)
{
    for (size_t step = 1; step < 40; step += 3) {
        struct orch_err err = ERR_INIT;
        AUTO_BUF struct buf b;
        buf_init(&b, BUF_MAX_LINE);
        cr_assert_eq(frame_put_json(&b, FRAME_REQUEST, request_new(3, "list"), &err), 0);
        frame_put(&b, FRAME_DATA, 7, "hello", 5);
        frame_put_credit(&b, 7, 70000);
        frame_put(&b, FRAME_END, 9, NULL, 0);
        struct frame_decoder d;
        frame_decoder_init(&d);
        struct frame f;
        size_t got = 0;
        for (size_t at = 0; at < b.len; at += step) {
            frame_decoder_feed(&d, b.data + at, at + step <= b.len ? step : b.len - at);
            while (frame_decoder_next(&d, &f, &err) == 1) {
                static const enum frame_type order[] = {FRAME_REQUEST, FRAME_DATA, FRAME_CREDIT, FRAME_END};
                cr_assert_eq(f.type, order[got]);
                cr_assert(f.type != FRAME_DATA || (f.channel == 7 && f.len == 5 && memcmp(f.data, "hello", 5) == 0));
                cr_assert(f.type != FRAME_CREDIT || frame_credit(&f) == 70000);
                if (f.type == FRAME_REQUEST) {
                    AUTO_JSON json_t *j = NULL;
                    cr_assert_eq(frame_json(&f, &j, &err), 0);
                    cr_assert_str_eq(json_get_str(j, "op", ""), "list");
                }
                got++;
            }
        }
        cr_assert_eq(got, 4u);
        frame_decoder_done(&d);
    }
}

static int decode(const unsigned char *bytes, size_t len)
{
    struct orch_err err = ERR_INIT;
    struct frame_decoder d;
    struct frame f;
    frame_decoder_init(&d);
    frame_decoder_feed(&d, bytes, len);
    int code = frame_decoder_next(&d, &f, &err);
    if (code < 0) {
        cr_assert_eq(frame_decoder_next(&d, &f, &err), ORCH_E_PROTOCOL, "a broken stream stays broken");
    }
    frame_decoder_done(&d);
    return code;
}

Test(protocol, hostile_headers_are_refused_before_their_payload)
{
    static const struct {
        const char *why;
        unsigned char bytes[PROTOCOL_HEADER + 4];
    } bad[] = {
        {"type 0", {1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0}},
        {"type 8", {1, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0}},
        {"a flag", {1, 0, 0, 0, 4, 1, 0, 0, 1, 0, 0, 0}},
        {"reserved", {1, 0, 0, 0, 4, 0, 0, 1, 1, 0, 0, 0}},
        {"data without channel", {1, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0}},
        {"request with channel", {2, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0}},
        {"empty data", {0, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0}},
        {"too much data", {1, 0, 1, 0, 4, 0, 0, 0, 1, 0, 0, 0}},
        {"huge request", {0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0, 0, 0, 0}},
        {"end with payload", {1, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0}},
        {"short credit", {3, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0}},
        {"credit of nothing", {4, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        size_t len = strcmp(bad[i].why, "credit of nothing") == 0 ? PROTOCOL_HEADER + 4 : PROTOCOL_HEADER;
        cr_assert_eq(decode(bad[i].bytes, len), ORCH_E_PROTOCOL, "%s was accepted", bad[i].why);
    }
    cr_assert_eq(decode((const unsigned char[]){1, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 'x'}, 13), 1);
}

Test(protocol, random_bytes_never_do_harm)
{
    struct rng r = rng_seeded(5, "frames");
    for (int i = 0; i < 3000; i++) {
        unsigned char bytes[64];
        size_t len = (size_t)rng_below(&r, sizeof bytes) + 1;
        for (size_t k = 0; k < len; k++) {
            bytes[k] = rng_below(&r, 3) == 0 ? (unsigned char)rng_next(&r) : (unsigned char)rng_below(&r, 8);
        }
        (void)decode(bytes, len);
    }
}

Test(protocol, messages_that_are_no_objects_are_refused)
{
    static const char *const bad[] = {"[]", "{", "{}x", "{\"a\":1,\"a\":2}", "\xff\xff", "12"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct orch_err err = ERR_INIT;
        json_t *j = NULL;
        struct frame f = {.type = FRAME_REQUEST, .data = bad[i], .len = strlen(bad[i])};
        cr_assert_eq(frame_json(&f, &j, &err), ORCH_E_PROTOCOL, "%s", bad[i]);
    }
}

Test(protocol, an_error_reply_keeps_its_code)
{
    struct orch_err e = ERR_INIT;
    (void)err_set(&e, ORCH_E_UNAVAILABLE, "no bubblewrap");
    AUTO_JSON json_t *r = reply_error(4, &e);
    struct orch_err got = ERR_INIT;
    int64_t id = 0;
    json_t *ok = NULL;
    cr_assert_eq(reply_read(r, &id, &ok, &got), ORCH_E_UNAVAILABLE);
    cr_assert_eq(id, 4);
    cr_assert_str_eq(got.message, "no bubblewrap");
    cr_assert_eq(protocol_code("no-such"), ORCH_E_INTERNAL);
    cr_assert_eq(protocol_code("not-found"), ORCH_E_NOT_FOUND);
    AUTO_JSON json_t *none = json_object();
    json_set_int(none, "id", 5);
    struct orch_err third = ERR_INIT;
    cr_assert_eq(reply_read(none, &id, &ok, &third), ORCH_E_PROTOCOL);
}
