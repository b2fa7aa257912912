/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/mem.h"

#include <string.h>

static char *made(void)
{
    AUTO_FREE char *s = xstrdup("escapes");
    return take(s);
}

Test(mem, take_lets_a_value_escape)
{
    AUTO_FREE char *s = made();
    cr_assert_str_eq(s, "escapes");
    TEST_END();
}

Test(mem, small_helpers)
{
    AUTO_FREE char *empty = xstrdup(NULL);
    cr_assert_str_eq(empty, "");
    AUTO_FREE char *bytes = xmemdup0("a\0b", 3);
    cr_assert_eq(memcmp(bytes, "a\0b", 4), 0);
    AUTO_FREE char *text = xasprintf("%d-%s", 7, "x");
    cr_assert_str_eq(text, "7-x");
    AUTO_FREE char *zeroed = xcalloc(100, 3);
    for (int i = 0; i < 300; i++) {
        cr_assert_eq(zeroed[i], 0);
    }
    AUTO_FREE void *none = xmalloc(0);
    cr_assert_not_null(none);
    char *p = xstrdup("x");
    free_pointer(&p);
    cr_assert_null(p);
    free_pointer(&p);
    TEST_END();
}
