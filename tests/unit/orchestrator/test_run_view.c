/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "orchestrator/options.h"
#include "orchestrator/run_view.h"
#include "state/lock.h"
#include "test.h"

#include <string.h>

/* A project with one run of two trials: task "a" in trials 1 and 2 (two samples), task "b" in trial 3. */
struct project {
    struct test_dir dir;
    struct layout layout;
    char *id;
    struct record *record;
    struct clock clock;
};

static void project_make(struct project *p)
{
    struct orch_err err = ERR_INIT;
    *p = (struct project){.dir = test_dir_new(), .clock = clock_system()};
    cr_assert_eq(layout_find(NULL, p->dir.path, NULL, &p->layout, &err), 0, "%s", err.message);
    cr_assert_eq(layout_make(&p->layout, &err), 0, "%s", err.message);
    cr_assert_eq(layout_run_create(&p->layout, "demo", &p->clock, &p->id, &err), 0, "%s", err.message);
    AUTO_FREE char *run = layout_run_dir(&p->layout, p->id);
    cr_assert_eq(record_open(run, RECORD_CREATE, &p->clock, &p->record, &err), 0, "%s", err.message);
    cr_assert_eq(record_start_writer(p->record, NULL, NULL, &err), 0, "%s", err.message);
    cr_assert_eq(record_meta_set(p->record, "state", "running", NULL, &err), 0, "%s", err.message);
    struct version_add root = {.number = 0, .state = VERSION_ACCEPTED, .sha = "1234567890", .tree = "abcdef"};
    cr_assert_eq(record_version_add(p->record, &root, NULL, &err), 0, "%s", err.message);
    cr_assert_eq(record_step_plan(p->record, 0, 0, "[\"a\",\"b\"]", NULL, &err), 0, "%s", err.message);
    struct trial_key keys[] = {
        {.task = "a", .sample = 0, .split = SPLIT_TRAIN},
        {.task = "a", .sample = 1, .split = SPLIT_TRAIN},
        {.task = "b", .sample = 0, .split = SPLIT_TRAIN},
    };
    int64_t first = 0;
    cr_assert_eq(record_trial_plan(p->record, keys, 3, &first, NULL, &err), 0, "%s", err.message);
    cr_assert_eq(first, 1);
    cr_assert_eq(record_flush(p->record, &err), 0, "%s", err.message);
}

static void project_done(struct project *p)
{
    record_release(&p->record);
    free(p->id);
    layout_done(&p->layout);
    test_dir_done(&p->dir);
}

static void open_view(const struct project *p, const char *selector, struct run_view *v)
{
    struct orch_err err = ERR_INIT;
    struct option_given project = {.name = "project", .value = p->dir.path};
    struct verb_line line = {.options = &project, .option_count = 1};
    struct verb_call call = {.line = &line, .clock = p->clock};
    cr_assert_eq(run_view_open(&call, selector, v, &err), 0, "%s", err.message);
}

Test(run_view, a_run_without_an_owner_is_interrupted)
{
    struct project p;
    project_make(&p);
    struct orch_err err = ERR_INIT;
    AUTO_FREE char *run = layout_run_dir(&p.layout, p.id);
    {
        AUTO_RUN_VIEW struct run_view v = {0};
        AUTO_FREE char *state = NULL;
        open_view(&p, "demo", &v);
        cr_assert_eq(run_view_state(&v, &state, &err), 0);
        cr_assert_str_eq(state, "interrupted");
        cr_assert_str_eq(v.id, p.id);
    }
    {
        AUTO_LOCK struct run_lock *lock = NULL;
        AUTO_RUN_VIEW struct run_view v = {0};
        AUTO_FREE char *state = NULL;
        cr_assert_eq(lock_take(run, &lock, &err), 0, "%s", err.message);
        open_view(&p, NULL, &v);
        cr_assert_eq(run_view_state(&v, &state, &err), 0);
        cr_assert_str_eq(state, "running");
        cr_assert(v.owner.held);
    }
    cr_assert_eq(record_meta_set(p.record, "state", "finished", NULL, &err), 0);
    cr_assert_eq(record_flush(p.record, &err), 0);
    {
        AUTO_RUN_VIEW struct run_view v = {0};
        AUTO_FREE char *state = NULL;
        open_view(&p, "latest", &v);
        cr_assert_eq(run_view_state(&v, &state, &err), 0);
        cr_assert_str_eq(state, "finished");
    }
    project_done(&p);
    TEST_END();
}

Test(run_view, a_trial_is_named_by_number_or_by_its_only_task)
{
    struct project p;
    project_make(&p);
    struct orch_err err = ERR_INIT;
    {
        AUTO_RUN_VIEW struct run_view v = {0};
        int64_t id = 0;
        open_view(&p, NULL, &v);
        cr_assert_eq(run_view_trial(&v, "2", &id, &err), 0);
        cr_assert_eq(id, 2);
        cr_assert_eq(run_view_trial(&v, "trial:3", &id, &err), 0);
        cr_assert_eq(id, 3);
        id = 0;
        cr_assert_eq(run_view_trial(&v, "b", &id, &err), 0, "%s", err.message);
        cr_assert_eq(id, 3);
        cr_assert_eq(run_view_trial(&v, "a", &id, &err), ORCH_E_USAGE, "two trials are no answer");
        cr_assert_not_null(strstr(err.message, "1, 2"), "%s", err.message);
        cr_assert_eq(id, 3, "nothing is returned with an error");
        err_clear(&err);
        cr_assert_eq(run_view_trial(&v, "99", &id, &err), ORCH_E_NOT_FOUND);
    }
    project_done(&p);
    TEST_END();
}

Test(run_view, an_unknown_run_is_not_found)
{
    struct project p;
    project_make(&p);
    struct orch_err err = ERR_INIT;
    struct option_given project = {.name = "project", .value = p.dir.path};
    struct verb_line line = {.options = &project, .option_count = 1};
    struct verb_call call = {.line = &line, .clock = p.clock};
    {
        AUTO_RUN_VIEW struct run_view v = {0};
        cr_assert_eq(run_view_open(&call, "other", &v, &err), ORCH_E_NOT_FOUND);
        cr_assert_null(v.record);
    }
    project_done(&p);
    TEST_END();
}
