/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "orchestrator/progress_text.h"
#include "orchestrator/show.h"
#include "test.h"

#include "base/mem.h"

#include <string.h>

static struct progress_counts batch(void)
{
    struct progress_counts c = {.title = "step 3/20", .total = 40, .before = 4, .elapsed_ns = 4 * NS_PER_S};
    for (int i = 0; i < 6; i++) {
        progress_count(&c, "scored", true, 0.5);
    }
    progress_count(&c, "agent-limit", true, 0.0);
    progress_count(&c, "infrastructure-error", false, 0.9);
    return c;
}

Test(progress, counts_by_result_and_over_scores_only)
{
    struct progress_counts c = batch();
    cr_assert_eq(c.settled, 8);
    cr_assert_eq(c.scored, 6);
    cr_assert_eq(c.limited, 1);
    cr_assert_eq(c.infrastructure, 1);
    cr_assert_eq(c.judge, 0);
    cr_assert_eq(c.scores, 7, "an infrastructure error has no score");
    cr_assert_float_eq(c.sum, 3.0, 1e-12);
    progress_count(&c, "never-heard-of", false, 0);
    cr_assert_eq(c.settled, 9);
    TEST_END();
}

Test(progress, the_live_line_has_bar_count_rate_and_time_left)
{
    struct progress_counts c = batch();
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_LINE);
    progress_live(&c, 200, &b);
    /* 12 of 40 done, 8 in four seconds: 2.0/s, 28 left: 14 s */
    cr_assert_str_eq(b.data, "step 3/20 [#########.....................] 12/40  6 scored, 1 limited, 1 infrastructure"
                             "  2.0/s  left 14.0s  mean 0.4286");
    TEST_END();
}

Test(progress, no_width_is_too_small)
{
    struct progress_counts c = batch();
    c.title = "step 3/20, Größe 日本語の名前";
    for (size_t width = 0; width < 160; width++) {
        AUTO_BUF struct buf b;
        buf_init(&b, BUF_MAX_LINE);
        progress_live(&c, width, &b);
        cr_assert_leq(text_width(b.data, b.len), width, "width %zu: \"%s\"", width, b.data);
        if (width >= 7) {
            cr_assert_not_null(strstr(b.data, "12/40"), "width %zu: the count goes last: \"%s\"", width, b.data);
        }
    }
    TEST_END();
}

Test(progress, nothing_settled_has_no_rate_and_nothing_left_no_time)
{
    struct progress_counts c = {.title = "t", .total = 5, .elapsed_ns = NS_PER_S};
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_LINE);
    progress_live(&c, 100, &b);
    cr_assert_null(strstr(b.data, "/s"));
    cr_assert_null(strstr(b.data, "left"));
    for (int i = 0; i < 5; i++) {
        progress_count(&c, "scored", true, 1);
    }
    buf_reset(&b);
    progress_live(&c, 100, &b);
    cr_assert_not_null(strstr(b.data, "5.0/s"), "%s", b.data);
    cr_assert_null(strstr(b.data, "left"));
    TEST_END();
}

Test(progress, an_empty_batch_divides_by_nothing)
{
    struct progress_counts c = {.title = "t"};
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_LINE);
    progress_live(&c, 40, &b);
    cr_assert_not_null(strstr(b.data, "0/0"));
    buf_reset(&b);
    progress_final(&c, &b);
    cr_assert_str_eq(b.data,
                     "t: 0 trials: 0 scored, 0 limited, 0 infrastructure, 0 judge errors, 0 not run; no score (0.0s)");
    TEST_END();
}

Test(progress, the_last_line_names_every_kind)
{
    struct progress_counts c = batch();
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_LINE);
    progress_final(&c, &b);
    cr_assert_str_eq(b.data, "step 3/20: 40 trials: 6 scored, 1 limited, 1 infrastructure, 0 judge errors, "
                             "4 settled before, 28 not run; mean 0.4286 over 7 (4.0s)");
    TEST_END();
}

Test(progress, widths_are_of_what_is_seen)
{
    cr_assert_eq(text_width("abc", 3), 3);
    cr_assert_eq(text_width("日本", strlen("日本")), 4);
    cr_assert_eq(text_width("e\xcc\x81", 3), 1, "a combining accent takes no column");
    cr_assert_eq(text_fit("日本", strlen("日本"), 3), 3, "a wide character is not cut");
    cr_assert_eq(text_width("\xff\xfe", 2), 2);
    TEST_END();
}

Test(show, counts_name_every_kind_and_what_the_mean_is_over)
{
    struct trial_counts c = {.planned = 10, .scores = 1, .mean = 0.25};
    c.kind[RESULT_SCORED] = 1;
    c.kind[RESULT_NONE] = 9;
    AUTO_FREE char *text = show_counts_text(&c);
    cr_assert_str_eq(text, "planned 10, scored 1, limited 0, infrastructure 0, judge errors 0, not run 9; mean 0.2500 "
                           "over 1 score");
    c.scores = 0;
    AUTO_FREE char *none = show_counts_text(&c);
    cr_assert_not_null(strstr(none, "; no score"), "no score is not a score of zero");
    TEST_END();
}
