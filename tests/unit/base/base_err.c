/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/err.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

Test(err, set_keeps_code_place_and_message)
{
    struct orch_err err = ERR_INIT;
    cr_assert_eq(err_set(&err, ORCH_E_CONFIG, "bad %d", 7), ORCH_E_CONFIG);
    cr_assert_eq(err.code, ORCH_E_CONFIG);
    cr_assert_eq(err.sys, 0);
    cr_assert_str_eq(err.message, "bad 7");
    cr_assert_not_null(strstr(err.file, "base_err.c"));
    cr_assert_gt(err.line, 0);
    cr_assert_not(err.truncated);
    TEST_END();
}

Test(err, wrap_prefixes_and_keeps_code_and_place)
{
    struct orch_err err = ERR_INIT;
    errno = ENOENT;
    cr_assert_eq(err_errno(&err, ORCH_E_NOT_FOUND, "open %s", "x"), ORCH_E_NOT_FOUND);
    int line = err.line;
    cr_assert_eq(err.sys, ENOENT);
    cr_assert_str_eq(err.message, "open x: No such file or directory");
    cr_assert_eq(err_wrap(&err, "start trial %s", "7"), ORCH_E_NOT_FOUND);
    cr_assert_str_eq(err.message, "start trial 7: open x: No such file or directory");
    cr_assert_eq(err.line, line);
    cr_assert_eq(err.sys, ENOENT);
    TEST_END();
}

Test(err, a_full_disk_has_its_own_code)
{
    static const int full[] = {ENOSPC, EDQUOT};
    for (size_t i = 0; i < 2; i++) {
        struct orch_err err = ERR_INIT;
        errno = full[i];
        cr_assert_eq(err_errno(&err, ORCH_E_IO, "write"), ORCH_E_NO_SPACE);
        errno = full[i];
        cr_assert_eq(err_errno(&err, ORCH_E_DAMAGED, "write"), ORCH_E_DAMAGED, "only plain I/O errors change");
    }
    TEST_END();
}

Test(err, long_messages_are_cut_and_say_so)
{
    char longer[2 * ERR_MESSAGE_MAX];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    struct orch_err err = ERR_INIT;
    cr_assert_eq(err_set(&err, ORCH_E_IO, "%s", longer), ORCH_E_IO);
    cr_assert(err.truncated);
    cr_assert_eq(strlen(err.message), ERR_MESSAGE_MAX - 1);

    cr_assert_eq(err_set(&err, ORCH_E_IO, "short"), ORCH_E_IO);
    cr_assert_not(err.truncated, "a new report starts anew");
    cr_assert_eq(err_wrap(&err, "%s", longer), ORCH_E_IO);
    cr_assert(err.truncated);
    cr_assert_eq(strlen(err.message), ERR_MESSAGE_MAX - 1);

    errno = EIO;
    cr_assert_eq(err_errno(&err, ORCH_E_IO, "%s", longer), ORCH_E_IO);
    cr_assert(err.truncated);
    TEST_END();
}

Test(err, a_code_that_is_none_becomes_internal)
{
    struct orch_err err = ERR_INIT;
    cr_assert_eq(err_set(&err, 0, "no code"), ORCH_E_INTERNAL, "success is not an error code");
    cr_assert_eq(err_set(&err, 5, "positive"), ORCH_E_INTERNAL);
    static const int strange[] = {1, INT_MAX, INT_MIN, -(int)ORCH_X_COUNT, -1000};
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
        cr_assert_str_eq(err_name(strange[i]), "internal", "%d", strange[i]);
        cr_assert_eq(err_class_of(strange[i]), ERR_BUG, "%d", strange[i]);
        cr_assert_eq(err_exit_status(strange[i]), 1, "%d", strange[i]);
    }
    TEST_END();
}

/* The exit statuses are a contract with scripts: written down again here. */
Test(err, exit_statuses_and_names)
{
    static const struct {
        int code;
        int status;
        const char *name;
    } contract[] = {
        {ORCH_E_OK, 0, "ok"},
        {ORCH_E_FAILED, 1, "failed"},
        {ORCH_E_USAGE, 2, "usage"},
        {ORCH_E_CONFIG, 2, "config"},
        {ORCH_E_NOT_FOUND, 2, "not-found"},
        {ORCH_E_DRIFT, 2, "drift"},
        {ORCH_E_UNAVAILABLE, 3, "unavailable"},
        {ORCH_E_OWNED, 4, "owned"},
        {ORCH_E_BUDGET, 5, "budget"},
        {ORCH_E_DAMAGED, 6, "damaged"},
        {ORCH_E_DISABLED, 7, "disabled"},
        {ORCH_E_INCONCLUSIVE, 8, "inconclusive"},
        {ORCH_E_INTERRUPTED, 130, "interrupted"},
    };
    for (size_t i = 0; i < sizeof contract / sizeof *contract; i++) {
        cr_assert_eq(err_exit_status(contract[i].code), contract[i].status, "%s", contract[i].name);
        cr_assert_str_eq(err_name(contract[i].code), contract[i].name);
    }
    for (int i = 0; i < (int)ORCH_X_COUNT; i++) {
        cr_assert_not_null(err_remedy(-i));
        cr_assert_lt(err_class_of(-i), ERR_CLASS_COUNT);
        for (int j = 0; j < i; j++) {
            cr_assert_str_neq(err_name(-i), err_name(-j));
        }
    }
    TEST_END();
}

Test(err, clear_forgets_everything)
{
    struct orch_err err = ERR_INIT;
    cr_assert_eq(err_set(&err, ORCH_E_IO, "x"), ORCH_E_IO);
    err_clear(&err);
    cr_assert_eq(err.code, 0);
    cr_assert_str_eq(err.message, "");
    cr_assert_null(err.file);
    TEST_END();
}
