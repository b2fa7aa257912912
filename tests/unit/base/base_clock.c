/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/clock.h"
#include "base/mem.h"

#include <stdlib.h>
#include <time.h>

Test(clock, iso_and_compact)
{
    static const struct {
        int64_t seconds;
        int64_t nanoseconds;
        const char *iso;
        const char *compact;
    } rows[] = {
        {0, 0, "1970-01-01T00:00:00.000Z", "19700101T000000Z"},
        {951782400, 999999, "2000-02-29T00:00:00.000Z", "20000229T000000Z"},
        {951868799, 999999999, "2000-02-29T23:59:59.999Z", "20000229T235959Z"},
        {1709164800, 1000000, "2024-02-29T00:00:00.001Z", "20240229T000000Z"},
        {1796091218, 123456789, "2026-12-01T02:13:38.123Z", "20261201T021338Z"},
        {4102444800, 50000000, "2100-01-01T00:00:00.050Z", "21000101T000000Z"},
    };
    cr_assert_eq(setenv("TZ", "Asia/Tokyo", 1), 0); /* the machine's zone never shows */
    tzset();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[CLOCK_TEXT_MAX];
        int64_t ns = rows[i].seconds * NS_PER_S + rows[i].nanoseconds;
        cr_assert_str_eq(clock_iso(ns, text), rows[i].iso);
        cr_assert_str_eq(clock_compact(ns, text), rows[i].compact);
    }
    TEST_END();
}

Test(clock, durations_for_people)
{
    static const struct {
        int64_t ns;
        const char *text;
    } rows[] = {
        {0, "0.0s"},
        {NS_PER_MS * 1234, "1.2s"},
        {NS_PER_S * 59 + NS_PER_MS * 999, "59.9s"},
        {NS_PER_S * 60, "1m00s"},
        {NS_PER_S * 184, "3m04s"},
        {NS_PER_S * 3599, "59m59s"},
        {NS_PER_S * 3600, "1h00m"},
        {NS_PER_S * 7800, "2h10m"},
        {NS_PER_S * 3600 * 100, "100h00m"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[CLOCK_TEXT_MAX];
        cr_assert_str_eq(clock_duration(rows[i].ns, text), rows[i].text);
    }
    TEST_END();
}

Test(clock, system_clocks_run)
{
    struct clock c = clock_system();
    int64_t first = clock_mono_ns(&c);
    for (int i = 0; i < 1000; i++) {
        int64_t next = clock_mono_ns(&c);
        cr_assert_geq(next, first, "the monotonic clock went back");
        first = next;
    }
    cr_assert_leq(llabs(clock_wall_ns(&c) / NS_PER_S - (int64_t)time(NULL)), 2);
    TEST_END();
}

static int64_t fixed(void *ctx)
{
    return *(int64_t *)ctx;
}

Test(clock, can_be_replaced)
{
    int64_t now = 5;
    struct clock c = {.mono_ns = fixed, .wall_ns = fixed, .ctx = &now};
    cr_assert_eq(clock_mono_ns(&c), 5);
    now = 9;
    cr_assert_eq(clock_wall_ns(&c), 9);
    TEST_END();
}
