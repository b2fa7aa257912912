/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "orchestrator/matrix.h"
#include "test.h"

#include <string.h>

#define PAGE_MAX_BYTES ((size_t)1 << 20)

Test(matrix, the_page_is_current)
{
    struct orch_err err = ERR_INIT;
    AUTO_FREE char *path = test_source("docs/sandbox-matrix.md");
    AUTO_FREE char *have = NULL;
    AUTO_FREE char *want = matrix_markdown();
    size_t len = 0;
    cr_assert_eq(fd_read_file(path, PAGE_MAX_BYTES, &have, &len, &err), 0, "%s", err.message);
    cr_assert_str_eq(have, want,
                     "docs/sandbox-matrix.md is stale: write it anew with "
                     "`orch sandbox status --matrix --markdown`");
    TEST_END();
}

Test(matrix, every_code_is_explained)
{
    AUTO_FREE char *text = matrix_text(0);
    AUTO_FREE char *page = matrix_markdown();
    AUTO_JSON json_t *rows = matrix_json();
    size_t i;
    json_t *row;
    cr_assert_gt(json_array_size(rows), 20);
    json_array_foreach(rows, i, row)
    {
        const char *code = json_get_str(row, "code", "");
        if (code[0] != '\0') {
            AUTO_FREE char *line =
                xasprintf("\n%s (%s): %s\n", code, json_get_str(row, "value", ""), json_get_str(row, "note", ""));
            AUTO_FREE char *cell = xasprintf("| `%s` | %s |", code, json_get_str(row, "value", ""));
            cr_assert_not_null(strstr(text, line), "%s", line);
            cr_assert_not_null(strstr(page, cell), "%s", cell);
        }
    }
    TEST_END();
}
