/* SPDX-License-Identifier: Apache-2.0 */
#include "config/units.h"
#include "config_support.h"

#define S INT64_C(1000000000)

struct good {
    const char *text;
    int64_t value;
};

Test(units, durations_are_exact)
{
    static const struct good table[] = {
        {"10m", 600 * S},
        {"1m30s", 90 * S},
        {"0.5s", S / 2},
        {"500ms", S / 2},
        {"1h", 3600 * S},
        {"2d", 172800 * S},
        {"1.5h", 5400 * S},
        {"0", 0},
        {"0s", 0},
        {"1ns", 1},
        {"0.001us", 1},
        {"PT1M30S", 90 * S},
        {"PT0.5S", S / 2},
        {"P1DT2H", 93600 * S},
        {"1h0.5s", 3600 * S + S / 2},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        int64_t value = -7;
        const char *wrong = units_duration(table[i].text, &value);
        cr_assert_null(wrong, "%s: %s", table[i].text, wrong);
        cr_assert_eq(value, table[i].value, "%s is %lld", table[i].text, (long long)value);
    }
    TEST_END();
}

Test(units, durations_are_strict)
{
    static const char *const table[] = {"",
                                        "10",
                                        "5 m",
                                        "-1s",
                                        "1s1m",
                                        "1m1m",
                                        "1.5m30s",
                                        "m",
                                        "1x",
                                        "1e3s",
                                        "0.1ns",
                                        ".5s",
                                        "1.s",
                                        "PT",
                                        "P1M",
                                        "1M",
                                        "1mo",
                                        "200000000h",
                                        "99999999999999999999s",
                                        "inf",
                                        "nan",
                                        "10s ",
                                        " 10s",
                                        "1m30",
                                        "+1s",
                                        "1:30"};
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        int64_t value = -7;
        cr_assert_not_null(units_duration(table[i], &value), "`%s` was taken as %lld", table[i], (long long)value);
        cr_assert_eq(value, -7, "`%s` changed the output", table[i]);
    }
    TEST_END();
}

Test(units, sizes_are_exact)
{
    static const struct good table[] = {
        {"0", 0},
        {"512B", 512},
        {"256K", 256 << 10},
        {"256M", 256 << 20},
        {"256MiB", 256 << 20},
        {"1.5GiB", INT64_C(1610612736)},
        {"1.5Gi", INT64_C(1610612736)},
        {"1GB", 1000000000},
        {"0.5KiB", 512},
        {"8388607T", INT64_C(8388607) << 40},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        int64_t value = -7;
        const char *wrong = units_size(table[i].text, &value);
        cr_assert_null(wrong, "%s: %s", table[i].text, wrong);
        cr_assert_eq(value, table[i].value, "%s is %lld", table[i].text, (long long)value);
    }
    TEST_END();
}

Test(units, sizes_are_strict)
{
    static const char *const table[] = {"",
                                        "10",
                                        "40 GB",
                                        "1e3M",
                                        "-1",
                                        "-1M",
                                        "1.3KiB",
                                        "0.1B",
                                        "18446744073709551616",
                                        "18446744073709551616B",
                                        "8388608T",
                                        "1m",
                                        "1gb",
                                        "1MiBs",
                                        "M",
                                        ".5M",
                                        "1.M",
                                        "0x10M",
                                        "1_000M",
                                        "inf"};
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        int64_t value = -7;
        cr_assert_not_null(units_size(table[i], &value), "`%s` was taken as %lld", table[i], (long long)value);
        cr_assert_eq(value, -7);
    }
    TEST_END();
}

/* What is written is read back as the same value. */
Test(units, texts_read_back)
{
    static const int64_t values[] = {0,        1, 999, 1000, 1024, 1536, 60 * S, 90 * S, 3661 * S + 5, INT64_C(1) << 40,
                                     INT64_MAX};
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        char text[UNITS_TEXT_MAX];
        int64_t back = -7;
        cr_assert_null(units_duration(units_duration_text(values[i], text), &back), "%s", text);
        cr_assert_eq(back, values[i], "%s", text);
        back = -7;
        cr_assert_null(units_size(units_size_text(values[i], text), &back), "%s", text);
        cr_assert_eq(back, values[i], "%s", text);
    }
    char text[UNITS_TEXT_MAX];
    cr_assert_str_eq(units_duration_text(90 * S, text), "1m30s");
    cr_assert_str_eq(units_duration_text(-1, text), "null");
    cr_assert_str_eq(units_size_text(INT64_C(1) << 30, text), "1GiB");
    TEST_END();
}

Test(units, numbers_have_one_reading)
{
    static const char *const bad_ints[] = {
        "", "-", "+1", "0x10", "0755", "00", "1_000", "1e3", "1.0", "9223372036854775808", " 1", "1 "};
    static const char *const bad_numbers[] = {"",    ".5",    "1.",    "0755",  ".inf", "nan",
                                              "inf", "1e999", "0x1p3", "1_0.5", "1e",   "--1"};
    int64_t whole = -7;
    double number = -7;
    for (size_t i = 0; i < ARRAY_LEN(bad_ints); i++) {
        cr_assert_not_null(units_int(bad_ints[i], &whole), "`%s`", bad_ints[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad_numbers); i++) {
        cr_assert_not_null(units_number(bad_numbers[i], &number), "`%s`", bad_numbers[i]);
    }
    cr_assert_null(units_int("9223372036854775807", &whole));
    cr_assert_eq(whole, INT64_MAX);
    cr_assert_null(units_number("-2.5e-3", &number));
    cr_assert_float_eq(number, -0.0025, 1e-12);
    TEST_END();
}

Test(units, names)
{
    char long_name[65];
    memset(long_name, 'a', 64);
    long_name[64] = '\0';
    cr_assert_not(units_is_name(long_name));
    long_name[63] = '\0';
    cr_assert(units_is_name(long_name));
    cr_assert(units_is_name("a") && units_is_name("0.9_b-c"));
    cr_assert_not(units_is_name("") || units_is_name("A") || units_is_name(".a") || units_is_name("-a") ||
                  units_is_name("a b") || units_is_name("a/b") || units_is_name("é"));
    cr_assert(units_is_variable("HOME_1") && units_is_variable_pattern("APP_*"));
    cr_assert_not(units_is_variable("1A") || units_is_variable("A-B") || units_is_variable("") ||
                  units_is_variable_pattern("*") || units_is_variable_pattern("**") ||
                  units_is_variable_pattern("A=B"));
    cr_assert(units_is_host("pypi.org") && units_is_host("*.example.com:443") && units_is_host("10.0.0.1") &&
              units_is_host("[::1]:80"));
    cr_assert_not(units_is_host("https://pypi.org") || units_is_host("a/b") || units_is_host("") ||
                  units_is_host("*") || units_is_host("a..b") || units_is_host("host:") || units_is_host("host:x") ||
                  units_is_host("*.") || units_is_host("a.*.b"));
    TEST_END();
}

Test(units, distance)
{
    cr_assert_eq(units_distance("timeout", "tiemout", 3), 1, "a swap is one");
    cr_assert_eq(units_distance("timeout", "timout", 3), 1);
    cr_assert_eq(units_distance("timeout", "timeout", 3), 0);
    cr_assert_eq(units_distance("abc", "xyz", 2), 3, "beyond the cap");
    cr_assert_eq(units_distance("", "ab", 3), 2);
    TEST_END();
}
