/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/utf8.h"

#include <string.h>

/* An encoder of its own, from RFC 3629 section 3. */
static size_t encode(uint32_t c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

Test(utf8, every_code_point_goes_round)
{
    for (uint32_t c = 0; c <= 0x110010; c++) {
        char bytes[4];
        size_t n = encode(c, bytes);
        bool good = c <= 0x10ffff && !(c >= 0xd800 && c <= 0xdfff);
        uint32_t got = 0xffffffff;
        size_t used = utf8_decode(bytes, n, &got);
        if (used != (good ? n : 0) || (good && got != c)) {
            cr_assert_fail("U+%04X: used %zu, got U+%04X", c, used, got);
        }
        for (size_t cut = 0; cut < n; cut++) {
            if (utf8_decode(bytes, cut, &got) != 0) {
                cr_assert_fail("U+%04X cut to %zu bytes passes", c, cut);
            }
        }
    }
    TEST_END();
}

Test(utf8, bad_sequences)
{
    static const char *const bad[] = {
        "\x80",
        "\xbf",
        "\xc0\x80",
        "\xc1\xbf",
        "\xc2",
        "\xc2\xc2",
        "\xe0\x80\x80",
        "\xe0\x9f\xbf",
        "\xed\xa0\x80",
        "\xed\xbf\xbf",
        "\xe2\x82",
        "\xe2\x28\xa1",
        "\xf0\x80\x80\x80",
        "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80",
        "\xf8\x88\x80\x80\x80",
        "\xfe",
        "\xff",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint32_t c = 77;
        cr_assert_eq(utf8_decode(bad[i], strlen(bad[i]), &c), 0, "row %zu", i);
        cr_assert_eq(c, 77, "an output of a failure is untouched, row %zu", i);
        cr_assert_not(utf8_valid(bad[i], strlen(bad[i])), "row %zu", i);
    }
    cr_assert(utf8_valid("", 0));
    cr_assert(utf8_valid("a\0b", 3));
    cr_assert(utf8_valid("gr\xc3\xbc\xc3\x9f", 6));
    TEST_END();
}

Test(utf8, cut_never_splits_a_character)
{
    static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z"; /* 1 + 2 + 3 + 4 + 1 bytes */
    static const size_t want[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11};
    size_t len = sizeof text - 1;
    for (size_t max = 0; max < sizeof want / sizeof *want; max++) {
        cr_assert_eq(utf8_cut(text, len, max), want[max], "max %zu", max);
    }
    TEST_END();
}

Test(utf8, cut_of_what_is_no_text_stays_within_the_maximum)
{
    char bytes[100];
    memset(bytes, 0x80, sizeof bytes);
    for (size_t max = 0; max <= sizeof bytes; max++) {
        size_t n = utf8_cut(bytes, sizeof bytes, max);
        cr_assert_leq(n, max);
        cr_assert_geq(n + 3, max, "at most three bytes are given up");
    }
    TEST_END();
}
