/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/json.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

static json_t *parse(const char *text)
{
    struct orch_err err = ERR_INIT;
    json_t *v = NULL;
    cr_assert_eq(json_parse(text, strlen(text), 1 << 20, &v, &err), 0, "%s: %s", text, err.message);
    return v;
}

Test(json, what_is_not_json_is_refused)
{
    static const struct {
        const char *text;
        size_t len;
    } bad[] = {
#define T(s) {s, sizeof s - 1}
        T(""),
        T(" "),
        T("{"),
        T("{\"a\":1,}"),
        T("[1,]"),
        T("{'a':1}"),
        T("{a:1}"),
        T("{\"a\":1} x"),
        T("{} {}"),
        T("[1] // comment"),
        T("{\"a\":1,\"a\":2}"),
        T("{\"x\":{\"a\":1,\"a\":1}}"),
        T("NaN"),
        T("[NaN]"),
        T("[Infinity]"),
        T("[-Infinity]"),
        T("[1e999]"),
        T("[01]"),
        T("[+1]"),
        T("[.5]"),
        T("[1.]"),
        T("[0x10]"),
        T("[99999999999999999999]"),
        T("\"\xff\""),
        T("\"\xc0\x80\""),
        T("\"\xed\xa0\x80\""),
        T("\"\\ud800\""),
        T("\"\\u0000\""),
        T("\"a\0b\""),
        T("{\"\\u0000\":1}"),
        T("\"\n\""),
        T("\"\\x41\""),
        T("\xef\xbb\xbf{}"),
        T("tru"),
        T("[1]\0"),
#undef T
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct orch_err err = ERR_INIT;
        json_t *v = NULL;
        cr_assert_eq(json_parse(bad[i].text, bad[i].len, 1 << 20, &v, &err), ORCH_E_CONFIG, "row %zu: %s", i,
                     bad[i].text);
        cr_assert_null(v);
    }
    TEST_END();
}

Test(json, good_values_of_every_kind)
{
    AUTO_JSON json_t *v = parse(" {\"s\":\"\\u00e9\",\"i\":-7,\"big\":9223372036854775807,\"n\":1.5,\"t\":true,"
                                "\"f\":false,\"z\":null,\"a\":[\"x\",1,\"y\"],\"o\":{}} \n");
    cr_assert_str_eq(json_get_str(v, "s", "?"), "\xc3\xa9");
    cr_assert_eq(json_get_int(v, "i", 0), -7);
    cr_assert_eq(json_get_int(v, "big", 0), INT64_MAX);
    cr_assert_float_eq(json_get_num(v, "n", 0), 1.5, 0);
    cr_assert_float_eq(json_get_num(v, "i", 0), -7, 0, "integers are numbers");
    cr_assert(json_get_flag(v, "t", false));
    cr_assert_not(json_get_flag(v, "f", true));
    cr_assert(json_is_null(json_get(v, "z")));
    static const char *const scalars[] = {"1", "\"x\"", "null", "true", "-0.5e-3"};
    for (size_t i = 0; i < ARRAY_LEN(scalars); i++) {
        AUTO_JSON json_t *scalar = parse(scalars[i]);
        cr_assert_not_null(scalar);
    }
    TEST_END();
}

Test(json, getters_fall_back_on_absence_and_other_types)
{
    AUTO_JSON json_t *v = parse("{\"s\":\"x\",\"i\":1,\"n\":1.5,\"t\":true,\"a\":[1]}");
    cr_assert_str_eq(json_get_str(v, "i", "fallback"), "fallback");
    cr_assert_str_eq(json_get_str(v, "absent", "fallback"), "fallback");
    cr_assert_null(json_get_str(v, "absent", NULL));
    cr_assert_eq(json_get_int(v, "n", 5), 5, "a fraction is no integer");
    cr_assert_eq(json_get_int(v, "s", 5), 5);
    cr_assert_float_eq(json_get_num(v, "s", 0.5), 0.5, 0);
    cr_assert(json_get_flag(v, "i", true), "1 is no flag");
    cr_assert_null(json_get(v, "absent"));
    /* what is no object has no members */
    AUTO_JSON json_t *array = parse("[1]");
    cr_assert_str_eq(json_get_str(array, "s", "fallback"), "fallback");
    cr_assert_eq(json_get_int(NULL, "s", 5), 5);
    cr_assert_null(json_get(NULL, "s"));
    TEST_END();
}

Test(json, size_and_depth_are_bounded)
{
    struct orch_err err = ERR_INIT;
    json_t *v = NULL;
    cr_assert_eq(json_parse("[1]", 3, 2, &v, &err), ORCH_E_LIMIT);
    cr_assert_eq(json_parse("[1]", 3, 3, &v, &err), 0);
    json_release(&v);
    cr_assert_null(v);
    enum { DEEP = 1 << 20 };
    AUTO_FREE char *deep = xmalloc(DEEP + 1);
    memset(deep, '[', DEEP);
    deep[DEEP] = '\0';
    cr_assert_eq(json_parse(deep, DEEP, DEEP, &v, &err), ORCH_E_CONFIG);
    cr_assert_null(v);
    TEST_END();
}

Test(json, errors_name_the_place)
{
    struct orch_err err = ERR_INIT;
    json_t *v = NULL;
    static const char text[] = "{\n  \"a\": 1,\n  \"b\": ?\n}";
    cr_assert_eq(json_parse(text, strlen(text), 1000, &v, &err), ORCH_E_CONFIG);
    cr_assert_not_null(strstr(err.message, "line 3"), "%s", err.message);
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    test_write(&dir, "bad.json", text);
    AUTO_FREE char *path = xasprintf("%s/bad.json", dir.path);
    cr_assert_eq(json_parse_file(path, 1000, &v, &err), ORCH_E_CONFIG);
    cr_assert_not_null(strstr(err.message, "bad.json: line 3"), "%s", err.message);
    cr_assert_eq(json_parse_file(path, 3, &v, &err), ORCH_E_LIMIT);
    AUTO_FREE char *absent = xasprintf("%s/absent.json", dir.path);
    cr_assert_eq(json_parse_file(absent, 1000, &v, &err), ORCH_E_NOT_FOUND);
    TEST_END();
}

Test(json, canonical_text_does_not_depend_on_order_or_spaces)
{
    AUTO_JSON json_t *a = parse("{ \"b\": [1, 2.5, true, null], \"a\": {\"y\": 1, \"x\": \"\\u00e9\\n\"} }");
    AUTO_JSON json_t *b = parse("{\"a\":{\"x\":\"\xc3\xa9\\n\",\"y\":1},\"b\":[1,2.5,true,null]}");
    AUTO_FREE char *ta = json_canonical(a);
    AUTO_FREE char *tb = json_canonical(b);
    cr_assert_str_eq(ta, tb);
    cr_assert_str_eq(ta, "{\"a\":{\"x\":\"\xc3\xa9\\n\",\"y\":1},\"b\":[1,2.5,true,null]}");
    AUTO_JSON json_t *third = json_real(1.0 / 3);
    AUTO_FREE char *number = json_canonical(third);
    AUTO_JSON json_t *again = parse(number);
    cr_assert(json_real_value(again) == 1.0 / 3, "%s loses bits", number);
    TEST_END();
}

Test(json, pretty_keeps_insertion_order)
{
    AUTO_JSON json_t *o = json_object();
    json_set_int(o, "z", 1);
    json_set_flag(o, "a", true);
    AUTO_FREE char *text = json_pretty(o);
    cr_assert_str_eq(text, "{\n  \"z\": 1,\n  \"a\": true\n}\n");
    TEST_END();
}

Test(json, setters_accept_any_bytes)
{
    AUTO_JSON json_t *o = json_object();
    json_set_str(o, "null", NULL);
    json_set_str(o, "bad",
                 "a\xff"
                 "b\xc3");
    json_set_text(o, "nul", "a\0b", 3);
    json_set_num(o, "nan", NAN);
    json_set_num(o, "inf", INFINITY);
    json_set_num(o, "half", 0.5);
    cr_assert(json_is_null(json_get(o, "null")));
    cr_assert_str_eq(json_get_str(o, "bad", ""), "a\xef\xbf\xbd"
                                                 "b\xef\xbf\xbd");
    cr_assert_eq(json_string_length(json_get(o, "nul")), 3);
    cr_assert(json_is_null(json_get(o, "nan")), "what JSON has no number for is null");
    cr_assert(json_is_null(json_get(o, "inf")));
    cr_assert_float_eq(json_get_num(o, "half", 0), 0.5, 0);
    json_set_int(o, "half", 3); /* replaces */
    cr_assert_eq(json_get_int(o, "half", 0), 3);
    AUTO_JSON json_t *list = json_array();
    json_add_str(list, "\xff");
    json_add_take(list, json_integer(1));
    cr_assert_eq(json_array_size(list), 2);
    cr_assert_str_eq(json_string_value(json_array_get(list, 0)), "\xef\xbf\xbd");
    TEST_END();
}

Test(json, bytes_survive)
{
    static const char *const texts[] = {"", "plain", "\xc3\xa9", "\xff", "a\xfe\x01", "{\"hex\": \"00\"}"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        AUTO_JSON json_t *v = json_bytes(texts[i]);
        AUTO_FREE char *text = json_canonical(v);
        AUTO_JSON json_t *again = json_loads(text, JSON_DECODE_ANY, NULL);
        AUTO_FREE char *back = json_bytes_get(again);
        cr_assert_str_eq(back, texts[i]);
    }
    static const char *const bad[] = {"{\"hex\": \"0\"}",
                                      "{\"hex\": \"00\"}",
                                      "{\"hex\": \"zz\"}",
                                      "{\"hex\": \"6A\"}",
                                      "{\"hex\": \"61\", \"b\": 1}",
                                      "{}",
                                      "7",
                                      "null",
                                      "\"a\\u0000b\""};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        AUTO_JSON json_t *v = json_loads(bad[i], JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        cr_assert_null(json_bytes_get(v), "%s", bad[i]);
    }
    AUTO_JSON json_t *o = json_object();
    json_set_int(o, "n\xff", 1); /* a name from outside aborts nothing */
    cr_assert_eq(json_object_size(o), 1);
    TEST_END();
}

Test(json, string_vectors)
{
    AUTO_JSON json_t *o = parse("{\"a\":[\"x\",1,\"\",\"y\"],\"s\":\"x\"}");
    AUTO_STRV char **v = json_get_strv(o, "a");
    cr_assert_eq(strv_len(v), 3, "what is no string is left out");
    cr_assert_str_eq(v[0], "x");
    cr_assert_str_eq(v[1], "");
    cr_assert_str_eq(v[2], "y");
    AUTO_STRV char **none = json_get_strv(o, "absent");
    cr_assert_not_null(none);
    cr_assert_eq(strv_len(none), 0);
    AUTO_STRV char **other = json_get_strv(o, "s");
    cr_assert_eq(strv_len(other), 0);
    AUTO_STRV char **copy = strv_copy(v);
    copy = strv_append(copy, xstrdup("z"));
    cr_assert_eq(strv_len(copy), 4);
    cr_assert_neq(copy[0], v[0]);
    AUTO_JSON json_t *back = json_from_strv(copy);
    AUTO_FREE char *text = json_canonical(back);
    cr_assert_str_eq(text, "[\"x\",\"\",\"y\",\"z\"]");
    AUTO_STRV char **fresh = strv_append(NULL, xstrdup("only"));
    cr_assert_eq(strv_len(fresh), 1);
    cr_assert_eq(strv_len(NULL), 0);
    AUTO_STRV char **empty = strv_copy(NULL);
    cr_assert_eq(strv_len(empty), 0);
    strv_free(NULL);
    TEST_END();
}
