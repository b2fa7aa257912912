/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "orchestrator/text_diff.h"
#include "test.h"

#define HEAD "--- f\n+++ f\n"

Test(text_diff, small_texts)
{
    static const struct {
        const char *old_text, *new_text, *expected;
    } table[] = {
        {"", "", ""},
        {"a\n", "a\n", ""},
        {"", "a\n", HEAD "@@ -0,0 +1,1 @@\n+a\n"},
        {"a\n", "", HEAD "@@ -1,1 +0,0 @@\n-a\n"},
        {"a", "b", HEAD "@@ -1,1 +1,1 @@\n-a\n+b\n"},
        {"a\nb\nc\nd\n", "a\nb\nx\nc\nd\n", HEAD "@@ -1,4 +1,5 @@\n a\n b\n+x\n c\n d\n"},
        {"1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\nX\n3\n4\n5\n6\n7\n8\n",
         HEAD "@@ -1,4 +1,4 @@\n 1\n-2\n+X\n 3\n 4\n@@ -7,3 +7,2 @@\n 7\n 8\n-9\n"},
        {"k:\n  a: 1\n  b: 2\n", "k:\n  b: 2\n  a: 1\n", HEAD "@@ -1,3 +1,3 @@\n k:\n-  a: 1\n   b: 2\n+  a: 1\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        AUTO_FREE char *diff = text_diff("f", table[i].old_text, table[i].new_text);
        cr_assert_str_eq(diff, table[i].expected, "row %zu:\n%s", i, diff);
    }
    TEST_END();
}
