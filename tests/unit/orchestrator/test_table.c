/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "orchestrator/progress_text.h"
#include "orchestrator/row_json.h"
#include "orchestrator/table.h"
#include "test.h"

#include <string.h>

static const struct table_column columns[] = {
    {"TASK", TABLE_CUT}, {"N", TABLE_RIGHT}, {"SCORE", TABLE_RIGHT}, {NULL, TABLE_LEFT}};

Test(table, aligns_and_shows_absence)
{
    AUTO_TABLE struct table *t = table_new(columns);
    table_row(t);
    table_text(t, "größe");
    table_int(t, 7);
    table_score(t, true, 0.5);
    table_row(t);
    table_text(t, NULL);
    table_int(t, 1234);
    table_score(t, false, 0.5);
    table_text(t, "one cell too many is dropped");
    cr_assert_eq(table_rows(t), 2);
    AUTO_FREE char *text = table_render(t, 0);
    cr_assert_str_eq(text, "TASK     N  SCORE\ngröße    7 0.5000\n-     1234      -\n");
    TEST_END();
}

Test(table, escapes_its_cells)
{
    AUTO_TABLE struct table *t = table_new(columns);
    table_row(t);
    table_text(t, "a\x1b[2Jb\nc\xff");
    AUTO_FREE char *text = table_render(t, 0);
    cr_assert_null(strchr(text, '\x1b'));
    cr_assert_not_null(strstr(text, "a\\x1b[2Jb\\x0ac\\xff"), "%s", text);
    TEST_END();
}

Test(table, fits_the_terminal)
{
    AUTO_TABLE struct table *t = table_new(columns);
    table_row(t);
    table_text(t, "a long name of a task that does not fit into a narrow terminal at all");
    table_int(t, 7);
    table_score(t, true, 1);
    AUTO_FREE char *text = table_render(t, 40);
    for (const char *line = text; *line != '\0';) {
        size_t len = strcspn(line, "\n");
        cr_assert_leq(text_width(line, len), 40, "%s", text);
        line += len + 1;
    }
    cr_assert_not_null(strstr(text, "1.0000"), "%s", text);
    TEST_END();
}

Test(row_json, no_score_is_null_and_not_zero)
{
    struct trial_row row = {.id = 3, .key = {.task = "t", .version = 1}, .incarnation = 1};
    AUTO_JSON json_t *trial = row_json_trial(&row, true);
    cr_assert(json_is_null(json_get(trial, "score")));
    cr_assert_str_eq(json_get_str(trial, "result", ""), "not-run");
    struct trial_counts counts = {.planned = 2};
    AUTO_JSON json_t *c = row_json_counts(&counts);
    cr_assert(json_is_null(json_get(c, "mean")));
    struct call_usage usage = {.wall_ns = -1, .usd = 3, .usd_known = false};
    AUTO_JSON json_t *u = row_json_usage(1, &usage);
    cr_assert(json_is_null(json_get(u, "wall_ns")));
    cr_assert(json_is_null(json_get(u, "usd")), "an unknown price is not a price");
    TEST_END();
}

Test(row_json, texts_that_hold_json_become_values)
{
    AUTO_JSON json_t *map = row_json_value("{\"a\":[1,2]}");
    cr_assert(json_is_object(map));
    AUTO_JSON json_t *text = row_json_value("not json \xff");
    cr_assert(json_is_string(text));
    AUTO_JSON json_t *none = row_json_value(NULL);
    cr_assert(json_is_null(none));
    cr_assert_eq(row_json_length("[\"a\",\"b\"]"), 2);
    cr_assert_eq(row_json_length("{}"), 0);
    cr_assert_eq(row_json_length(NULL), 0);
    TEST_END();
}
