/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/attempt.h"

#include "backends/environment.h"
#include "backends/spec.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "config/run_config.h"
#include "orchestrator/guests.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <uv.h>

#define MEMORY ((uint64_t)1 << 30) /* a limit, so that a control group is made where one can be */

struct try_state {
    const struct verb_call *call;
    uv_loop_t loop;
    char *work;
    struct environment *env;
    bool done, closed;
    struct attempt *ret;
};

static void await(struct try_state *t, const bool *done)
{
    while (!*done) {
        (void)uv_run(&t->loop, UV_RUN_ONCE);
    }
}

static void on_started(struct environment *env, const struct environment_result *r, void *arg)
{
    (void)env;
    struct try_state *t = arg;
    t->ret->err = r->err;
    t->done = true;
}

static void on_opened(struct sandbox *sb, const struct sandbox_opened *o, void *arg)
{
    (void)sb;
    struct try_state *t = arg;
    t->ret->err = o->err;
    t->ret->record = o->checks != NULL ? json_deep_copy(o->checks) : NULL;
    t->done = true;
}

static void on_closed(void *arg)
{
    ((struct try_state *)arg)->closed = true;
}

static int make_work(struct try_state *t, struct orch_err *err)
{
    const char *tmp = getenv("TMPDIR"); /* NOLINT(concurrency-mt-unsafe): before any thread */
    t->work = xasprintf("%s/orch-try-XXXXXX", tmp != NULL && tmp[0] == '/' ? tmp : "/tmp");
    if (mkdtemp(t->work) == NULL) {
        int code = err_errno(err, ORCH_E_IO, "make %s", t->work);
        free(t->work);
        t->work = NULL;
        return code;
    }
    (void)chmod(t->work, 0711); /* in place, sandboxes have their directories below it */
    return 0;
}

static int start(struct try_state *t, const struct operator_config *config, int mechanism, struct orch_err *err)
{
    AUTO_FREE char *node = NULL;
    AUTO_FREE char *init = NULL;
    TRY(guest_find(t->call->program, "orch-node", &node, err));
    TRY(guest_find(t->call->program, "orch-init", &init, err));
    TRY(make_work(t, err));
    struct environment_settings settings = {
        .loop = &t->loop,
        .node_program = node,
        .init_program = init,
        .work_dir = t->work,
        .mechanism = config_mechanism_names[mechanism],
        .owner = "try",
        .uid_first = (uint32_t)config->uid_range.first,
        .uid_count = (uint32_t)config->uid_range.count,
    };
    TRY(environment_new("host", &settings, &t->env, err));
    TRY(environment_start(t->env, on_started, t, err));
    await(t, &t->done);
    if (t->ret->err.code < 0) {
        *err = t->ret->err;
        return err->code;
    }
    t->ret->node = json_deep_copy(environment_caps(t->env)->report);
    return 0;
}

static int open_one(struct try_state *t, struct orch_err *err)
{
    AUTO_SPEC struct sandbox_spec spec;
    struct sandbox_options options = {.name = "try"};
    struct sandbox *sb = NULL;
    spec_init(&spec, "try");
    spec.limits.memory = MEMORY;
    t->done = false;
    TRY(sandbox_open(t->env, &spec, &options, on_opened, t, &sb, err));
    await(t, &t->done);
    if (t->ret->err.code < 0) {
        *err = t->ret->err;
    }
    return t->ret->err.code;
}

void attempt_make(const struct verb_call *call, const struct operator_config *config, int mechanism,
                  struct attempt *ret)
{
    struct try_state t = {.call = call, .ret = ret};
    struct orch_err err = ERR_INIT;
    *ret = (struct attempt){.err = ERR_INIT};
    (void)uv_loop_init(&t.loop);
    int code = start(&t, config, mechanism, &err);
    code = code < 0 ? code : open_one(&t, &err);
    ret->err = err;
    ret->enforced = code == 0;
    if (t.env != NULL) {
        environment_close(t.env, on_closed, &t);
        await(&t, &t.closed);
    }
    (void)uv_run(&t.loop, UV_RUN_NOWAIT); /* what is closing */
    (void)uv_loop_close(&t.loop);
    if (t.work != NULL) {
        struct orch_err ignored = ERR_INIT;
        (void)!fd_remove_tree(AT_FDCWD, t.work, &ignored);
        free(t.work);
    }
}

void attempt_done(struct attempt *a)
{
    json_decref(a->node);
    json_decref(a->record);
    a->node = NULL;
    a->record = NULL;
}
