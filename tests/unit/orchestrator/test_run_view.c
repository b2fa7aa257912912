/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "demo_run.h"
#include "orchestrator/options.h"
#include "orchestrator/run_view.h"
#include "state/lock.h"

#include <string.h>

static void open_view(const struct demo *p, const char *selector, struct run_view *v)
{
    struct orch_err err = ERR_INIT;
    struct option_given project = {.name = "project", .value = p->dir.path};
    struct verb_line line = {.options = &project, .option_count = 1};
    struct verb_call call = {.line = &line, .clock = p->clock};
    cr_assert_eq(run_view_open(&call, selector, v, &err), 0, "%s", err.message);
}

Test(run_view, a_run_without_an_owner_is_interrupted)
{
    struct demo p;
    demo_make(&p);
    struct orch_err err = ERR_INIT;
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
        cr_assert_eq(lock_take(p.run_dir, &lock, &err), 0, "%s", err.message);
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
    demo_done(&p);
    TEST_END();
}

Test(run_view, a_trial_is_named_by_number_or_by_its_only_task)
{
    struct demo p;
    demo_make(&p);
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
    demo_done(&p);
    TEST_END();
}

Test(run_view, an_unknown_run_is_not_found)
{
    struct demo p;
    demo_make(&p);
    struct orch_err err = ERR_INIT;
    struct option_given project = {.name = "project", .value = p.dir.path};
    struct verb_line line = {.options = &project, .option_count = 1};
    struct verb_call call = {.line = &line, .clock = p.clock};
    {
        AUTO_RUN_VIEW struct run_view v = {0};
        cr_assert_eq(run_view_open(&call, "other", &v, &err), ORCH_E_NOT_FOUND);
        cr_assert_null(v.record);
    }
    demo_done(&p);
    TEST_END();
}
