/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/err.h"

#include <errno.h>
#include <string.h>

Test(err, set_keeps_code_place_and_message)
{
    struct orch_err err = ERR_INIT;
    cr_assert_eq(err_set(&err, ORCH_E_CONFIG, "bad %d", 7), ORCH_E_CONFIG);
    cr_assert_eq(err.code, ORCH_E_CONFIG);
    cr_assert_eq(err.sys, 0);
    cr_assert_str_eq(err.message, "bad 7");
    cr_assert_not_null(strstr(err.file, "test_err.c"));
    cr_assert_gt(err.line, 0);
    cr_assert_not(err.truncated);
    TEST_END();
}
