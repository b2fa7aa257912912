/* SPDX-License-Identifier: Apache-2.0 */
#include "lab.h"

#include "base/json.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

struct outcome {
    bool done;
    struct orch_err err;
    char **names;
    char *text;
    struct call_result call;
    struct handoff_report *report;
};

void lab_wait(struct lab *lab, const bool *done)
{
    while (!*done) {
        cr_assert_neq(uv_run(&lab->loop, UV_RUN_ONCE) == 0 && !*done, true,
                      "the loop ran out: a completion is missing");
    }
}

static void on_environment(struct environment *env, const struct environment_result *r, void *arg)
{
    struct outcome *o = arg;
    (void)env;
    o->err = r->err;
    o->done = true;
}

static void on_closed(void *arg)
{
    *(bool *)arg = true;
}

void lab_open(struct lab *lab, const char *environment, const char *mechanism, unsigned lose)
{
    if (geteuid() != 0 && strcmp(environment, "loopback-remote") == 0) {
        TEST_SKIP("loopback-remote needs root");
    }
    (void)signal(SIGPIPE, SIG_IGN);
    *lab = (struct lab){.lossy = lose > 0, .err = ERR_INIT};
    lab->dir = test_dir_new();
    lab->work = test_dir_new();
    lab->tmp = test_dir_new();
    /* Where a node without shared paths keeps its own: what a killed one leaves goes with the lab. */
    cr_assert_eq(setenv("TMPDIR", lab->tmp.path, 1), 0);
    /* libuv keeps some descriptors for the process once it has run: not to be counted. */
    cr_assert_eq(uv_loop_init(&lab->loop), 0);
    cr_assert_eq(uv_loop_close(&lab->loop), 0);
    lab->fds = test_open_fds();
    cr_assert_eq(uv_loop_init(&lab->loop), 0);
    AUTO_FREE char *node = test_built("backends/orch-node");
    const char *covered[] = {lab->dir.path, NULL};
    struct environment_settings s = {
        .loop = &lab->loop,
        .node_program = node,
        .work_dir = lab->work.path,
        .mechanism = mechanism,
        .covered = covered,
        .lose_every = lose,
        .owner = "conformance",
        .reply_timeout_ns = lose > 0 ? INT64_C(100000000) : 0,
    };
    struct outcome o = {0};
    cr_assert_eq(environment_new(environment, &s, &lab->env, &lab->err), 0, "%s", lab->err.message);
    cr_assert_eq(environment_start(lab->env, on_environment, &o, &lab->err), 0, "%s", lab->err.message);
    cr_assert_not(o.done, "a completion came from inside the call");
    lab_wait(lab, &o.done);
    cr_assert_eq(o.err.code, 0, "%s", o.err.message);
}

void lab_close(struct lab *lab)
{
    bool done = false;
    environment_close(lab->env, on_closed, &done);
    cr_assert_not(done);
    lab_wait(lab, &done);
    cr_assert_eq(lab->ended, lab->must_end);
    cr_assert_eq(uv_run(&lab->loop, UV_RUN_NOWAIT), 0, "handles are left in the loop");
    cr_assert_eq(uv_loop_close(&lab->loop), 0);
    cr_assert_eq(test_open_fds(), lab->fds, "descriptors were leaked");
    test_dir_done(&lab->dir);
    test_dir_done(&lab->work);
    test_dir_done(&lab->tmp);
}

char *lab_name(struct lab *lab)
{
    return xasprintf("n%u", ++lab->names);
}

struct sandbox_spec lab_spec(struct lab *lab)
{
    struct sandbox_spec s;
    AUTO_FREE char *name = lab_name(lab);
    spec_init(&s, name);
    spec_set_env(&s, "PATH", "/usr/local/bin:/usr/bin:/bin");
    spec_set_env(&s, "HOME", SPEC_HOME);
    return s;
}

static void on_open(struct sandbox *sb, const struct sandbox_opened *r, void *arg)
{
    struct outcome *o = arg;
    (void)sb;
    o->err = r->err;
    if (r->err.code == 0) {
        cr_assert_not_null(r->checks);
        cr_assert(strcmp(r->mechanism, "namespaces") == 0 || strcmp(r->mechanism, "bubblewrap") == 0, "%s",
                  r->mechanism);
        cr_assert_str_eq(r->grade, "confined");
        cr_assert_gt(json_array_size(json_object_get(r->checks, "checks")), 0);
        cr_assert(geteuid() != 0 || r->uid >= 200000, "no identity of its own");
    }
    o->done = true;
}

struct sandbox *lab_try_sandbox(struct lab *lab, const struct sandbox_spec *spec)
{
    struct outcome o = {0};
    struct sandbox *sb = NULL;
    const struct sandbox_options options = {.name = spec->name};
    lab->err = (struct orch_err)ERR_INIT;
    if (sandbox_open(lab->env, spec, &options, on_open, &o, &sb, &lab->err) < 0) {
        return NULL;
    }
    cr_assert_not(o.done);
    lab_wait(lab, &o.done);
    lab->err = o.err;
    if (o.err.code < 0) {
        lab_remove(lab, sb);
        return NULL;
    }
    return sb;
}

struct sandbox *lab_sandbox(struct lab *lab, const struct sandbox_spec *spec)
{
    struct sandbox *sb = lab_try_sandbox(lab, spec);
    cr_assert_not_null(sb, "%s", lab->err.message);
    return sb;
}

void lab_remove(struct lab *lab, struct sandbox *sb)
{
    struct outcome o = {0};
    struct orch_err err = ERR_INIT;
    cr_assert_eq(sandbox_remove(sb, on_environment, &o, &err), 0, "%s", err.message);
    cr_assert_not(o.done);
    lab_wait(lab, &o.done);
    cr_assert_eq(o.err.code, 0, "%s", o.err.message);
}

static void on_call(struct call *call, struct call_result *r, void *arg)
{
    struct outcome *o = arg;
    (void)call;
    call_result_take(&o->call, r);
    o->done = true;
}

struct call_result lab_call(struct lab *lab, struct sandbox *sb, const struct call_spec *spec)
{
    struct outcome o = {0};
    struct orch_err err = ERR_INIT;
    struct call_spec named = *spec;
    AUTO_FREE char *name = lab_name(lab);
    named.name = spec->name != NULL ? spec->name : name;
    cr_assert_eq(sandbox_call(sb, &named, on_call, &o, NULL, &err), 0, "%s", err.message);
    cr_assert_not(o.done);
    lab_wait(lab, &o.done);
    cr_assert_not_null(o.call.out.head);
    cr_assert_not_null(o.call.errout.tail);
    return o.call;
}

struct call_result lab_sh(struct lab *lab, struct sandbox *sb, const char *script)
{
    AUTO_FREE char *text = xstrdup(script);
    char sh[] = "sh";
    char flag[] = "-c";
    char *argv[] = {sh, flag, text, NULL};
    return lab_call(lab, sb, &(struct call_spec){.argv = argv});
}

static void on_put(struct environment *env, const struct put_result *r, void *arg)
{
    struct outcome *o = arg;
    (void)env;
    o->err = r->err;
    o->text = xstrdup(r->source);
    o->done = true;
}

char *lab_put(struct lab *lab, const char *name)
{
    struct outcome o = {0};
    struct orch_err err = ERR_INIT;
    AUTO_FREE char *path = xasprintf("%s/%s", lab->dir.path, name);
    cr_assert_eq(environment_put(lab->env, path, on_put, &o, &err), 0, "%s", err.message);
    cr_assert_not(o.done);
    lab_wait(lab, &o.done);
    cr_assert_eq(o.err.code, 0, "%s", o.err.message);
    return o.text;
}

static void on_get(struct sandbox *sb, const struct get_result *r, void *arg)
{
    struct outcome *o = arg;
    (void)sb;
    o->err = r->err;
    *o->report = *r->report;
    o->done = true;
}

int lab_get(struct lab *lab, struct sandbox *sb, const char *path, const char *name,
            const struct handoff_limits *limits, struct handoff_report *report)
{
    struct outcome o = {.report = report};
    const struct handoff_limits none = {0};
    lab->err = (struct orch_err)ERR_INIT;
    cr_assert_eq(mkdirat(lab->dir.fd, name, 0755), 0);
    int fd = openat(lab->dir.fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cr_assert_geq(fd, 0);
    int r = sandbox_get(sb, path, fd, limits != NULL ? limits : &none, on_get, &o, &lab->err);
    (void)close(fd);
    if (r < 0) {
        return r;
    }
    cr_assert_not(o.done);
    lab_wait(lab, &o.done);
    lab->err = o.err;
    return o.err.code;
}

static void on_list(struct environment *env, const struct sandbox_list *r, void *arg)
{
    struct outcome *o = arg;
    (void)env;
    o->err = r->err;
    for (size_t i = 0; i < r->count; i++) {
        o->names = strv_append(o->names, xstrdup(r->names[i]));
    }
    o->done = true;
}

char **lab_list(struct lab *lab)
{
    struct outcome o = {.names = xcalloc(1, sizeof *o.names)};
    struct orch_err err = ERR_INIT;
    cr_assert_eq(environment_list(lab->env, on_list, &o, &err), 0, "%s", err.message);
    lab_wait(lab, &o.done);
    cr_assert_eq(o.err.code, 0, "%s", o.err.message);
    return o.names;
}
