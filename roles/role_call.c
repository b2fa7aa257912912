/* SPDX-License-Identifier: Apache-2.0 */
#include "roles/role_call.h"

#include "base/mem.h"

struct role_call {
    struct sandbox *sb;
    struct call *call; /* NULL before and after it runs */
    struct role_call_plan plan;
    size_t next; /* fetch under way */
    bool cancelled;
    bool answered;           /* the open's answer came; a lost one may come after the call's end */
    bool over;               /* everything else is done */
    struct orch_err refused; /* the call was never sent: reported when the open has answered */
    struct role_call_outcome outcome;
};

static void outcome_done(struct role_call_outcome *o)
{
    free(o->mechanism);
    free(o->mechanism_version);
    free(o->grade);
    json_decref(o->checks);
    call_result_done(&o->call);
}

static void removed(struct environment *env, const struct environment_result *result, void *arg)
{
    (void)env;
    (void)result; /* a node that cannot say so is gone, and everything in it */
    (void)arg;
}

static void finish(struct role_call *rc)
{
    rc->over = true;
    if (!rc->answered) {
        return;
    }
    struct orch_err err = ERR_INIT;
    int code = sandbox_remove(rc->sb, removed, NULL, &err);
    if (code < 0 && rc->outcome.err.code == 0) {
        rc->outcome.err = err;
    }
    rc->plan.ended(&rc->outcome, rc->plan.arg);
    outcome_done(&rc->outcome);
    free(rc);
}

static void fetch_next(struct role_call *rc);

static void fetched(struct sandbox *sb, const struct get_result *result, void *arg)
{
    (void)sb;
    struct role_call *rc = arg;
    struct role_fetch *f = &rc->plan.fetches[rc->next++];
    f->err = result->err;
    f->report = *result->report;
    fetch_next(rc);
}

static void fetch_next(struct role_call *rc)
{
    while (rc->next < rc->plan.fetch_count) {
        struct role_fetch *f = &rc->plan.fetches[rc->next];
        f->done = true;
        if (sandbox_get(rc->sb, f->inside, f->dest_dirfd, &f->limits, fetched, rc, &f->err) == 0) {
            return;
        }
        rc->next++;
    }
    finish(rc);
}

static void opened(struct sandbox *sb, const struct sandbox_opened *o, void *arg)
{
    (void)sb;
    struct role_call *rc = arg;
    rc->answered = true;
    if (o->err.code < 0 || rc->refused.code < 0) {
        rc->outcome.err = o->err.code < 0 ? o->err : rc->refused;
        if (rc->over || rc->refused.code < 0) {
            finish(rc);
        }
        return; /* else the call ends with it too */
    }
    rc->outcome.opened = true;
    free(rc->outcome.mechanism);
    free(rc->outcome.mechanism_version);
    free(rc->outcome.grade);
    rc->outcome.mechanism = xstrdup(o->mechanism);
    rc->outcome.mechanism_version = xstrdup(o->version);
    rc->outcome.grade = xstrdup(o->grade);
    rc->outcome.uid = o->uid;
    rc->outcome.checks = o->checks != NULL ? json_deep_copy(o->checks) : NULL;
    if (rc->over) {
        finish(rc);
    }
}

static void ended(struct call *call, struct call_result *result, void *arg)
{
    (void)call;
    struct role_call *rc = arg;
    rc->call = NULL;
    if (result->err.code < 0 && rc->outcome.err.code == 0) {
        rc->outcome.err = result->err;
    }
    call_result_take(&rc->outcome.call, result);
    if (rc->outcome.err.code < 0) {
        finish(rc);
        return;
    }
    if (rc->plan.exited != NULL) {
        rc->plan.exited(rc->plan.arg);
    }
    fetch_next(rc);
}

int role_call_start(struct environment *env, const struct role_call_plan *plan, struct role_call **ret,
                    struct orch_err *err)
{
    struct role_call *rc = xcalloc(1, sizeof *rc);
    *rc = (struct role_call){.plan = *plan};
    rc->plan.spec = NULL; /* theirs, and copied below */
    rc->plan.call = NULL;
    rc->outcome.mechanism = xstrdup("");
    rc->outcome.mechanism_version = xstrdup("");
    rc->outcome.grade = xstrdup("");
    struct sandbox_options options = {.name = plan->spec->name};
    int code = sandbox_open(env, plan->spec, &options, opened, rc, &rc->sb, err);
    if (code < 0) {
        outcome_done(&rc->outcome);
        free(rc);
        return code;
    }
    /* pipelined: the call waits there for the checks; a refusal of it comes when the open has answered */
    struct orch_err refused = ERR_INIT;
    if (sandbox_call(rc->sb, plan->call, ended, rc, &rc->call, &refused) < 0) {
        rc->refused = refused;
    }
    if (ret != NULL) {
        *ret = rc;
    }
    return 0;
}

void role_call_cancel(struct role_call *rc)
{
    if (!rc->cancelled && rc->call != NULL) {
        rc->cancelled = true;
        call_cancel(rc->call);
    }
}
