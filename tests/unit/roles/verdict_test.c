/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/mem.h"
#include "roles/verdict.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int parse(const char *text, struct verdict *v, struct orch_err *err)
{
    return verdict_parse(text, strlen(text), v, err);
}

Test(verdict, accepts_what_the_contract_names)
{
    struct orch_err err = ERR_INIT;
    struct verdict v = {0};
    cr_assert_eq(
        parse("{\"score\": 0.5, \"feedback\": \"half\", \"metrics\": {\"a\": 1, \"b\": {\"value\": 2.5, \"unit\": "
              "\"ms\", \"better\": \"lower\"}}}",
              &v, &err),
        0, "%s", err.message);
    cr_assert_float_eq(v.score, 0.5, 1e-12);
    cr_assert_str_eq(v.feedback, "half");
    cr_assert_eq(json_object_size(v.metrics), 2);
    verdict_done(&v);
    cr_assert_eq(parse("1", &v, &err), 0, "a bare number");
    cr_assert_float_eq(v.score, 1.0, 1e-12);
    verdict_done(&v);
    TEST_END();
}

Test(verdict, anything_else_is_an_error_and_never_a_score)
{
    static const char *const bad[] = {
        "",
        "yes",
        "\"1\"",
        "[1]",
        "{}",
        "{\"score\": null}",
        "{\"score\": \"1\"}",
        "{\"score\": NaN}",
        "{\"score\": 1e999}",
        "{\"score\": 1} trailing",
        "{\"score\": 1, \"score\": 0}",
        "{\"score\": 1, \"reward\": 2}",
        "{\"score\": 1, \"feedback\": 3}",
        "{\"score\": 1, \"metrics\": [1]}",
        "{\"score\": 1, \"metrics\": {\"a\": \"fast\"}}",
        "{\"score\": 1, \"metrics\": {\"a\": {\"value\": 1, \"better\": \"bigger\"}}}",
        "{\"score\": 1, \"metrics\": {\"a\": {\"value\": 1, \"extra\": 1}}}",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct orch_err err = ERR_INIT;
        struct verdict v = {0};
        cr_assert_eq(parse(bad[i], &v, &err), ORCH_E_FAILED, "accepted: %s", bad[i]);
        cr_assert_null(v.feedback, "output touched: %s", bad[i]);
    }
    TEST_END();
}

Test(verdict, file_may_not_be_a_link_or_a_pipe)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    struct orch_err err = ERR_INIT;
    struct verdict v = {0};
    cr_assert_eq(verdict_read(dir.fd, &v, &err), ORCH_E_NOT_FOUND);
    test_write(&dir, "elsewhere.json", "1");
    cr_assert_eq(symlinkat("elsewhere.json", dir.fd, VERDICT_FILE), 0);
    cr_assert_eq(verdict_read(dir.fd, &v, &err), ORCH_E_HOSTILE);
    cr_assert_eq(unlinkat(dir.fd, VERDICT_FILE, 0), 0);
    cr_assert_eq(mkfifoat(dir.fd, VERDICT_FILE, 0600), 0);
    cr_assert_eq(verdict_read(dir.fd, &v, &err), ORCH_E_HOSTILE);
    cr_assert_eq(unlinkat(dir.fd, VERDICT_FILE, 0), 0);
    test_write(&dir, VERDICT_FILE, "0.25");
    cr_assert_eq(verdict_read(dir.fd, &v, &err), 0, "the control: a regular file is read");
    cr_assert_float_eq(v.score, 0.25, 1e-12);
    verdict_done(&v);
    TEST_END();
}
