/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs that look, run in this process on a run made by hand. */
#include "base/json.h"
#include "base/mem.h"
#include "demo_run.h"
#include "state/lock.h"

#include <string.h>
#include <unistd.h>

static void has(const char *text, const char *part)
{
    cr_assert_not_null(strstr(text, part), "no \"%s\" in:\n%s", part, text);
}

static void no_control(const char *text)
{
    cr_assert_null(strchr(text, '\x1b'), "an escape got through:\n%s", text);
    cr_assert_null(strchr(text, '\x07'), "a bell got through:\n%s", text);
}

static json_t *parse(const struct outcome *o)
{
    struct orch_err err = ERR_INIT;
    json_t *value = NULL;
    cr_assert_eq(json_parse(o->out, strlen(o->out), 1 << 24, &value, &err), 0, "%s in:\n%s", err.message, o->out);
    cr_assert_eq(json_get_int(value, "version", 0), 1);
    return value;
}

Test(looking, runs_lists_the_run)
{
    struct demo d;
    demo_make(&d);
    demo_fill(&d);
    {
        AUTO_OUTCOME struct outcome text = VERB(&d, "runs");
        cr_assert_eq(text.status, 0, "%s", text.err);
        has(text.out, d.id);
        has(text.out, "finished");
        has(text.out, "2/3");
        AUTO_OUTCOME struct outcome json = VERB(&d, "runs", "--json");
        AUTO_JSON json_t *value = parse(&json);
        const json_t *run = json_array_get(json_get(value, "runs"), 0);
        cr_assert_str_eq(json_get_str(run, "id", ""), d.id);
        cr_assert_eq(json_get_int(json_get(run, "trials"), "not_run", -1), 1);
        AUTO_OUTCOME struct outcome other = VERB(&d, "runs", "--name", "other", "--json");
        AUTO_JSON json_t *none = parse(&other);
        cr_assert_eq(json_array_size(json_get(none, "runs")), 0);
    }
    demo_done(&d);
    TEST_END();
}

Test(looking, a_damaged_record_is_listed_as_damaged)
{
    struct demo d;
    demo_make(&d);
    demo_fill(&d);
    {
        AUTO_FREE char *path = layout_run_path(&d.layout, d.id, RUN_RECORD);
        cr_assert_eq(truncate(path, 100), 0);
        AUTO_OUTCOME struct outcome list = VERB(&d, "runs");
        cr_assert_eq(list.status, 0);
        has(list.out, "damaged");
        AUTO_OUTCOME struct outcome show = VERB(&d, "show");
        cr_assert_eq(show.status, 6, "%s", show.err);
    }
    demo_done(&d);
    TEST_END();
}

Test(looking, show_names_every_kind_of_result_and_the_grades)
{
    struct demo d;
    demo_make(&d);
    demo_fill(&d);
    {
        AUTO_OUTCOME struct outcome text = VERB(&d, "show", "demo");
        cr_assert_eq(text.status, 0, "%s", text.err);
        has(text.out,
            "planned 3, scored 1, limited 1, infrastructure 0, judge errors 0, not run 1; mean 0.5000 over 1");
        has(text.out, "confined");
        has(text.out, "accepted");
        has(text.out, "better");
        AUTO_OUTCOME struct outcome json = VERB(&d, "show", "--json");
        AUTO_JSON json_t *value = parse(&json);
        cr_assert_eq(json_get_int(json_get(value, "counts"), "limited", -1), 1);
        cr_assert_eq(json_array_size(json_get(value, "steps")), 1);
        cr_assert_eq(json_array_size(json_get(value, "versions")), 2);
        cr_assert_str_eq(json_get_str(json_get(value, "run"), "state", ""), "finished");
    }
    demo_done(&d);
    TEST_END();
}

Test(looking, show_of_trials_and_of_one_trial)
{
    struct demo d;
    demo_make(&d);
    demo_fill(&d);
    {
        AUTO_OUTCOME struct outcome list = VERB(&d, "show", "--trials", "--result", "agent-limit", "--json");
        AUTO_JSON json_t *trials = parse(&list);
        cr_assert_eq(json_array_size(json_get(trials, "trials")), 1);
        cr_assert_eq(json_get_int(json_array_get(json_get(trials, "trials"), 0), "id", 0), 2);
        AUTO_OUTCOME struct outcome wrong = VERB(&d, "show", "--trials", "--result", "bad");
        cr_assert_eq(wrong.status, 2);

        AUTO_OUTCOME struct outcome one = VERB(&d, "show", "latest", "1");
        cr_assert_eq(one.status, 0, "%s", one.err);
        has(one.out, "score        0.5");
        has(one.out, "\"lines\": 3");
        has(one.out, "  half\n  right \\x1b[5m\n");
        has(one.out, "exited 3");
        no_control(one.out);
        AUTO_OUTCOME struct outcome limited = VERB(&d, "show", "latest", "2");
        has(limited.out, "timeout");
        has(limited.out, "10.50 s of 10.00 s");
        AUTO_OUTCOME struct outcome json = VERB(&d, "show", "latest", "2", "--json");
        AUTO_JSON json_t *value = parse(&json);
        cr_assert(json_is_null(json_get(json_get(value, "trial"), "score")), "no score is not zero");
        AUTO_OUTCOME struct outcome absent = VERB(&d, "show", "latest", "77");
        cr_assert_eq(absent.status, 2);
    }
    demo_done(&d);
    TEST_END();
}

Test(looking, logs_of_a_trial_are_escaped_unless_raw)
{
    struct demo d;
    demo_make(&d);
    demo_fill(&d);
    {
        AUTO_OUTCOME struct outcome text = VERB(&d, "logs", "demo", "1");
        cr_assert_eq(text.status, 0, "%s", text.err);
        has(text.out, "hello \\x1b]0;title\\x07 \\xff end\n");
        has(text.out, "warning: \\x1b[2J");
        has(text.out, "exited 3");
        no_control(text.out);
        AUTO_OUTCOME struct outcome raw = VERB(&d, "logs", "demo", "1", "--raw", "--stdout");
        cr_assert_str_eq(raw.out, "hello \x1b]0;title\x07 \xff end\n");
        AUTO_OUTCOME struct outcome cut = VERB(&d, "logs", "demo", "1", "--stdout", "--bytes", "3");
        has(cut.out, "hel\n--- ");
        has(cut.out, "bytes left out");
        has(cut.out, "nd\n");
        AUTO_OUTCOME struct outcome json = VERB(&d, "logs", "demo", "1", "--json");
        AUTO_JSON json_t *value = parse(&json);
        const json_t *call = json_array_get(json_get(value, "calls"), 0);
        cr_assert_eq(json_get_int(json_get(call, "stderr"), "bytes", 0), (int64_t)strlen("warning: \x1b[2J\n"));
        AUTO_OUTCOME struct outcome both = VERB(&d, "logs", "demo", "1", "--raw", "--json");
        cr_assert_eq(both.status, 2, "raw bytes are no JSON");
    }
    demo_done(&d);
    TEST_END();
}

Test(looking, logs_are_the_events_and_can_begin_anywhere)
{
    struct demo d;
    demo_make(&d);
    demo_fill(&d);
    {
        AUTO_OUTCOME struct outcome all = VERB(&d, "logs", "--json");
        AUTO_JSON json_t *value = parse(&all);
        const json_t *events = json_get(value, "events");
        size_t n = json_array_size(events);
        cr_assert_gt(n, 10);
        cr_assert_eq(json_get_int(json_array_get(events, n - 1), "seq", 0), json_get_int(value, "next", -1));
        AUTO_OUTCOME struct outcome late = VERB(&d, "logs", "--since", "3", "--json");
        AUTO_JSON json_t *rest = parse(&late);
        cr_assert_eq(json_array_size(json_get(rest, "events")), n - 3);
        AUTO_OUTCOME struct outcome text = VERB(&d, "logs");
        has(text.out, "trial:1");
        /* Nobody holds the run: following ends at once, one event a line. */
        AUTO_OUTCOME struct outcome follow = VERB(&d, "logs", "--follow", "--json");
        cr_assert_eq(follow.status, 0);
        size_t lines = 0;
        for (const char *c = follow.out; *c != '\0'; c++) {
            lines += *c == '\n';
        }
        cr_assert_eq(lines, n);
    }
    demo_done(&d);
    TEST_END();
}

Test(looking, diff_is_escaped_and_knows_the_versions)
{
    struct demo d;
    demo_make(&d);
    demo_fill(&d);
    {
        AUTO_OUTCOME struct outcome text = VERB(&d, "diff");
        cr_assert_eq(text.status, 0, "%s", text.err);
        has(text.out, "+two \\x1b[31mred");
        no_control(text.out);
        AUTO_OUTCOME struct outcome one = VERB(&d, "diff", "demo", "1");
        cr_assert_str_eq(one.out, text.out);
        AUTO_OUTCOME struct outcome json = VERB(&d, "diff", "demo", "0", "0", "--json");
        AUTO_JSON json_t *value = parse(&json);
        cr_assert(json_get_flag(value, "equal", false));
        AUTO_OUTCOME struct outcome root = VERB(&d, "diff", "demo", "0");
        cr_assert_eq(root.status, 2, "the root has no parent");
        AUTO_OUTCOME struct outcome absent = VERB(&d, "diff", "demo", "0", "99");
        cr_assert_eq(absent.status, 2, "%s", absent.err);
    }
    demo_done(&d);
    TEST_END();
}

Test(looking, export_writes_one_document)
{
    struct demo d;
    demo_make(&d);
    demo_fill(&d);
    {
        AUTO_OUTCOME struct outcome whole = VERB(&d, "export", "demo", "--format", "json", "--calls", "--events");
        cr_assert_eq(whole.status, 0, "%s", whole.err);
        has(whole.out, d.id);
        AUTO_OUTCOME struct outcome meaning = VERB(&d, "export", "demo", "--normalize");
        cr_assert_eq(meaning.status, 0, "%s", meaning.err);
        cr_assert_null(strstr(meaning.out, d.id), "a normalised export names no run");
        AUTO_OUTCOME struct outcome both = VERB(&d, "export", "demo", "--normalize", "--calls");
        cr_assert_eq(both.status, 2);
    }
    demo_done(&d);
    TEST_END();
}

Test(looking, the_owner_is_shown_while_it_runs)
{
    struct demo d;
    demo_make(&d);
    struct orch_err err = ERR_INIT;
    {
        AUTO_LOCK struct run_lock *lock = NULL;
        cr_assert_eq(lock_take(d.run_dir, &lock, &err), 0);
        AUTO_OUTCOME struct outcome text = VERB(&d, "show");
        AUTO_FREE char *owner = xasprintf("running (process %d on ", getpid());
        has(text.out, owner);
    }
    {
        AUTO_OUTCOME struct outcome text = VERB(&d, "show");
        has(text.out, "interrupted");
    }
    demo_done(&d);
    TEST_END();
}
