/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/buf.h"
#include "base/mem.h"

#include <string.h>

Test(buf, grows_and_stays_terminated)
{
    AUTO_BUF struct buf b;
    buf_init(&b, 1 << 20);
    for (int i = 0; i < 10000; i++) {
        buf_fmt(&b, "%d,", i);
        cr_assert_eq(b.data[b.len], '\0');
    }
    cr_assert_not(b.overflow);
    cr_assert_eq(strlen(b.data), b.len);
    cr_assert_eq(strncmp(b.data, "0,1,2,", 6), 0);
    cr_assert_str_eq(b.data + b.len - 6, ",9999,");
    buf_reset(&b);
    cr_assert_eq(b.len, 0);
    cr_assert_str_eq(b.data, "");
    TEST_END();
}

Test(buf, keeps_the_maximum_and_remembers_it)
{
    static const size_t maxima[] = {0, 1, 5, 63, 64, 65, 1000};
    for (size_t i = 0; i < sizeof maxima / sizeof *maxima; i++) {
        AUTO_BUF struct buf b;
        buf_init(&b, maxima[i]);
        for (size_t n = 0; n < maxima[i]; n++) {
            buf_char(&b, 'a');
        }
        cr_assert_not(b.overflow, "max %zu", maxima[i]);
        buf_str(&b, "more");
        cr_assert(b.overflow, "max %zu", maxima[i]);
        cr_assert_eq(b.len, maxima[i]);
        cr_assert_eq(b.data[b.len], '\0');
        buf_reset(&b);
        cr_assert_not(b.overflow);
    }
    TEST_END();
}

Test(buf, an_overflow_keeps_what_fits)
{
    AUTO_BUF struct buf b;
    buf_init(&b, 5);
    buf_str(&b, "abcdefgh");
    cr_assert_str_eq(b.data, "abcde");
    cr_assert(b.overflow);
    TEST_END();
}

Test(buf, bytes_stay_bytes)
{
    AUTO_BUF struct buf b;
    buf_init(&b, 100);
    buf_add(&b, "a\0b\xff", 4);
    buf_add(&b, NULL, 0);
    cr_assert_eq(b.len, 4);
    cr_assert_eq(memcmp(b.data, "a\0b\xff", 5), 0);
    TEST_END();
}

Test(buf, long_formats)
{
    AUTO_BUF struct buf b;
    buf_init(&b, 10000);
    for (int width = 510; width <= 514; width++) { /* around the size of the stack copy */
        buf_reset(&b);
        buf_fmt(&b, "%*d", width, 7);
        cr_assert_eq(b.len, (size_t)width);
        cr_assert_eq(b.data[b.len - 1], '7');
    }
    TEST_END();
}

Test(buf, take_hands_over_and_starts_anew)
{
    AUTO_BUF struct buf b;
    buf_init(&b, 10);
    buf_str(&b, "abc");
    size_t len = 0;
    AUTO_FREE char *text = buf_take(&b, &len);
    cr_assert_str_eq(text, "abc");
    cr_assert_eq(len, 3);
    cr_assert_eq(b.len, 0);
    cr_assert_eq(b.max, 10);
    buf_str(&b, "d");
    cr_assert_str_eq(b.data, "d");
    struct buf unfinished; /* no buf_done: after buf_take there is nothing to free */
    buf_init(&unfinished, 10);
    buf_str(&unfinished, "x");
    AUTO_FREE char *taken = buf_take(&unfinished, NULL);
    cr_assert_str_eq(taken, "x");
    cr_assert_null(unfinished.data);
    buf_reset(&unfinished);
    AUTO_FREE char *empty = buf_take(&unfinished, &len);
    cr_assert_str_eq(empty, "");
    cr_assert_eq(len, 0);
    struct buf none = {0};
    buf_done(&none); /* a zeroed one is fine */
    TEST_END();
}

Test(buf, escaped_text_cannot_move_a_cursor_or_hide)
{
    static const struct {
        const char *in;
        size_t len;
        bool lines;
        const char *out;
    } rows[] = {
        {"plain", 5, false, "plain"},
        {"h\xc3\xa9llo \xe2\x82\xac \xf0\x9f\x98\x80", 15, false, "h\xc3\xa9llo \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"a\nb\tc", 5, true, "a\nb\tc"},
        {"a\nb\tc", 5, false, "a\\x0ab\\x09c"},
        {"a\rb", 3, true, "a\\x0db"}, /* a return would overwrite the line */
        {"\033[2J\033]0;x\a", 10, true, "\\x1b[2J\\x1b]0;x\\x07"},
        {"\0", 1, true, "\\x00"},
        {"\x7f", 1, true, "\\x7f"},
        {"\xc2\x9b"
         "31m",
         5, true, "\\u{9b}31m"},                                     /* C1 control sequence introducer */
        {"\xe2\x80\xae", 3, true, "\\u{202e}"},                      /* right-to-left override */
        {"\xe2\x81\xa6", 3, true, "\\u{2066}"},                      /* isolate */
        {"\xe2\x80\x8b\xef\xbb\xbf", 6, true, "\\u{200b}\\u{feff}"}, /* invisible */
        {"\xff\xfe", 2, true, "\\xff\\xfe"},
        {"\xc0\xaf", 2, true, "\\xc0\\xaf"},          /* overlong */
        {"\xed\xa0\x80", 3, true, "\\xed\\xa0\\x80"}, /* surrogate */
        {"\xe2\x82", 2, true, "\\xe2\\x82"},          /* cut */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        AUTO_BUF struct buf b;
        buf_init(&b, 1000);
        buf_escaped(&b, rows[i].in, rows[i].len, rows[i].lines);
        cr_assert_str_eq(b.data, rows[i].out, "row %zu", i);
    }
    TEST_END();
}
