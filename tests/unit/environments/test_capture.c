/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/environments/capture.h"
#include "base/mem.h"
#include "test.h"

#include <string.h>

static struct capture captured(size_t head, size_t tail, const char *data, size_t len, size_t chunk)
{
    struct capture_state c;
    struct capture r;
    capture_init(&c, head, tail);
    for (size_t at = 0; at < len; at += chunk) {
        capture_add(&c, data + at, len - at < chunk ? len - at : chunk);
    }
    capture_result(&c, &r);
    capture_done(&c);
    return r;
}

Test(capture, keeps_everything_that_fits)
{
    struct capture r = captured(10, 10, "hello", 5, 2);
    cr_assert_str_eq(r.head, "hello");
    cr_assert_str_eq(r.tail, "");
    cr_assert_eq(r.total, 5);
    cr_assert_eq(r.dropped, 0);
    capture_release(&r);
    TEST_END();
}

/* Against the definition, for every chunk size: the first bytes, the last bytes, what lies between. */
Test(capture, keeps_head_and_tail_for_every_chunking)
{
    char data[200];
    for (size_t i = 0; i < sizeof data; i++) {
        data[i] = (char)('!' + i % 90);
    }
    for (size_t len = 0; len <= sizeof data; len++) {
        for (size_t chunk = 1; chunk < 60; chunk += 7) {
            struct capture r = captured(16, 24, data, len, chunk);
            size_t head = len < 16 ? len : 16;
            size_t tail = len - head < 24 ? len - head : 24;
            cr_assert_eq(r.head_len, head);
            cr_assert_eq(r.tail_len, tail);
            cr_assert_eq(memcmp(r.head, data, head), 0);
            cr_assert_eq(memcmp(r.tail, data + len - tail, tail), 0, "len %zu chunk %zu", len, chunk);
            cr_assert_eq(r.dropped, len - head - tail);
            capture_release(&r);
        }
    }
    TEST_END();
}

Test(capture, may_keep_no_tail)
{
    struct capture r = captured(4, 0, "abcdefgh", 8, 3);
    cr_assert_str_eq(r.head, "abcd");
    cr_assert_eq(r.dropped, 4);
    capture_release(&r);
    TEST_END();
}
