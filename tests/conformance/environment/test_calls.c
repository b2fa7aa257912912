/* SPDX-License-Identifier: Apache-2.0 */
#include "lab.h"

#include "base/json.h"

#include <signal.h>
#include <stdio.h>

ENVIRONMENT_TEST(runs_true)
{
    AUTO_SPEC struct sandbox_spec spec = lab_spec(lab);
    struct sandbox *sb = lab_sandbox(lab, &spec);
    AUTO_CALL_RESULT struct call_result r = lab_sh(lab, sb, "true");
    cr_assert_eq(r.err.code, 0, "%s", r.err.message);
    cr_assert_eq(r.end, CALL_EXITED);
    cr_assert_eq(r.code, 0);
    cr_assert_gt(r.wall_ns, 0);
    cr_assert_eq(r.out.total, 0);
    lab_remove(lab, sb);
}

ENVIRONMENT_TEST(tells_exit_codes_and_outputs_apart)
{
    AUTO_SPEC struct sandbox_spec spec = lab_spec(lab);
    struct sandbox *sb = lab_sandbox(lab, &spec);
    for (int code = 0; code <= 255; code += 51) {
        char script[64];
        (void)snprintf(script, sizeof script, "echo out; echo err >&2; exit %d", code);
        AUTO_CALL_RESULT struct call_result r = lab_sh(lab, sb, script);
        cr_assert_eq(r.end, CALL_EXITED);
        cr_assert_eq(r.code, code);
        cr_assert_str_eq(r.out.head, "out\n");
        cr_assert_str_eq(r.errout.head, "err\n");
    }
    lab_remove(lab, sb);
}

ENVIRONMENT_TEST(tells_signals)
{
    AUTO_SPEC struct sandbox_spec spec = lab_spec(lab);
    struct sandbox *sb = lab_sandbox(lab, &spec);
    AUTO_CALL_RESULT struct call_result r = lab_sh(lab, sb, "kill -SEGV $$");
    cr_assert_eq(r.err.code, 0, "%s", r.err.message);
    cr_assert_eq(r.end, CALL_SIGNALLED);
    cr_assert_eq(r.code, SIGSEGV);
    lab_remove(lab, sb);
}

ENVIRONMENT_TEST(reports_a_program_that_is_not_there)
{
    AUTO_SPEC struct sandbox_spec spec = lab_spec(lab);
    struct sandbox *sb = lab_sandbox(lab, &spec);
    char name[] = "no-such-program";
    char *argv[] = {name, NULL};
    AUTO_CALL_RESULT struct call_result r = lab_call(lab, sb, &(struct call_spec){.argv = argv});
    cr_assert_eq(r.end, CALL_EXITED);
    cr_assert_eq(r.code, 127);
    char directory[] = "/tmp";
    char *argv2[] = {directory, NULL};
    AUTO_CALL_RESULT struct call_result r2 = lab_call(lab, sb, &(struct call_spec){.argv = argv2});
    cr_assert_eq(r2.end, CALL_EXITED);
    cr_assert_eq(r2.code, 126);
    lab_remove(lab, sb);
}

ENVIRONMENT_TEST(stops_at_the_timeout)
{
    AUTO_SPEC struct sandbox_spec spec = lab_spec(lab);
    struct sandbox *sb = lab_sandbox(lab, &spec);
    char sleep[] = "sleep";
    char time[] = "1000";
    char *argv[] = {sleep, time, NULL};
    AUTO_CALL_RESULT struct call_result r =
        lab_call(lab, sb, &(struct call_spec){.argv = argv, .timeout_ns = INT64_C(300000000)});
    cr_assert_eq(r.end, CALL_LIMIT);
    cr_assert_str_eq(r.limit, "timeout");
    cr_assert_eq(r.limit_value, INT64_C(300000000));
    cr_assert_geq(r.wall_ns, INT64_C(290000000));
    cr_assert_lt(r.wall_ns, INT64_C(20000000000));
    lab_remove(lab, sb);
}

ENVIRONMENT_TEST(bounds_a_flood)
{
    AUTO_SPEC struct sandbox_spec spec = lab_spec(lab);
    spec.limits.output = (uint64_t)1 << 30;
    struct sandbox *sb = lab_sandbox(lab, &spec);
    AUTO_CALL_RESULT struct call_result r =
        lab_sh(lab, sb, "head -c 50000000 /dev/zero | tr '\\0' x; printf END; printf e >&2");
    cr_assert_eq(r.end, CALL_EXITED, "%s", call_end_name(r.end));
    cr_assert_eq(r.out.total, 50000003);
    cr_assert_eq(r.out.head_len, 65536);
    cr_assert_eq(r.out.tail_len, 65536);
    cr_assert_eq(r.out.dropped, 50000003 - 131072);
    cr_assert_str_eq(r.out.tail + r.out.tail_len - 4, "xEND");
    cr_assert_str_eq(r.errout.head, "e");
    lab_remove(lab, sb);
}

ENVIRONMENT_TEST(stops_at_the_output_limit)
{
    AUTO_SPEC struct sandbox_spec spec = lab_spec(lab);
    struct sandbox *sb = lab_sandbox(lab, &spec);
    char yes[] = "yes";
    char *argv[] = {yes, NULL};
    AUTO_CALL_RESULT struct call_result r =
        lab_call(lab, sb, &(struct call_spec){.argv = argv, .output_limit = 1 << 20});
    cr_assert_eq(r.end, CALL_LIMIT);
    cr_assert_str_eq(r.limit, "output");
    cr_assert_geq(r.out.total, 1 << 20);
    lab_remove(lab, sb);
}

ENVIRONMENT_TEST(kills_what_a_call_leaves)
{
    AUTO_SPEC struct sandbox_spec spec = lab_spec(lab);
    struct sandbox *sb = lab_sandbox(lab, &spec);
    /* The background child keeps the outputs open: the call ends all the same. */
    AUTO_CALL_RESULT struct call_result r = lab_sh(lab, sb, "sleep 1000 & (setsid sleep 1000 &) ; echo ready");
    cr_assert_eq(r.end, CALL_EXITED);
    cr_assert_eq(r.code, 0);
    cr_assert_str_eq(r.out.head, "ready\n");
    cr_assert_geq(r.left_behind, 1);
    AUTO_CALL_RESULT struct call_result after = lab_sh(lab, sb, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '");
    cr_assert_null(strstr(after.out.head, "sleep"), "%s", after.out.head);
    lab_remove(lab, sb);
}

ENVIRONMENT_TEST(feeds_standard_input)
{
    AUTO_SPEC struct sandbox_spec spec = lab_spec(lab);
    struct sandbox *sb = lab_sandbox(lab, &spec);
    enum { SIZE = 3000000 };
    AUTO_FREE char *input = xmalloc(SIZE);
    memset(input, 'i', SIZE);
    char wc[] = "wc";
    char flag[] = "-c";
    char *argv[] = {wc, flag, NULL};
    AUTO_CALL_RESULT struct call_result r =
        lab_call(lab, sb, &(struct call_spec){.argv = argv, .input = input, .input_len = SIZE});
    cr_assert_str_eq(r.out.head, "3000000\n");
    /* A program that does not read it is no obstacle. */
    char yes[] = "true";
    char *argv2[] = {yes, NULL};
    AUTO_CALL_RESULT struct call_result r2 =
        lab_call(lab, sb, &(struct call_spec){.argv = argv2, .input = input, .input_len = SIZE});
    cr_assert_eq(r2.end, CALL_EXITED);
    cr_assert_eq(r2.code, 0);
    AUTO_CALL_RESULT struct call_result r3 = lab_sh(lab, sb, "cat; echo end");
    cr_assert_str_eq(r3.out.head, "end\n");
    lab_remove(lab, sb);
}

ENVIRONMENT_TEST(adds_the_calls_variables)
{
    AUTO_SPEC struct sandbox_spec spec = lab_spec(lab);
    spec_set_env(&spec, "A", "spec");
    spec_set_env(&spec, "B", "spec");
    struct sandbox *sb = lab_sandbox(lab, &spec);
    char sh[] = "sh";
    char flag[] = "-c";
    char script[] = "echo $A $B $C; pwd";
    char *argv[] = {sh, flag, script, NULL};
    char b[] = "B=call";
    char c[] = "C=x=y";
    char *env[] = {b, c, NULL};
    AUTO_CALL_RESULT struct call_result r =
        lab_call(lab, sb, &(struct call_spec){.argv = argv, .env = env, .cwd = "/tmp"});
    cr_assert_str_eq(r.out.head, "spec call x=y\n/tmp\n");
    lab_remove(lab, sb);
}

ENVIRONMENT_TEST(keeps_the_sandbox_between_calls)
{
    AUTO_SPEC struct sandbox_spec spec = lab_spec(lab);
    struct sandbox *sb = lab_sandbox(lab, &spec);
    AUTO_CALL_RESULT struct call_result a = lab_sh(lab, sb, "echo kept > /tmp/x");
    cr_assert_eq(a.code, 0);
    AUTO_CALL_RESULT struct call_result b = lab_sh(lab, sb, "cat /tmp/x");
    cr_assert_str_eq(b.out.head, "kept\n");
    lab_remove(lab, sb);
}

struct live {
    struct lab *lab;
    bool done;
    int chunks;
    struct call_result r;
};

static void live_output(struct call *call, int stream, const char *data, size_t len, void *arg)
{
    struct live *live = arg;
    (void)data;
    (void)len;
    cr_assert_eq(stream, 1);
    if (live->chunks++ == 0) {
        call_cancel(call);
    }
}

static void live_done(struct call *call, struct call_result *r, void *arg)
{
    struct live *live = arg;
    (void)call;
    call_result_take(&live->r, r);
    live->done = true;
}

ENVIRONMENT_TEST(shows_output_live_and_cancels)
{
    AUTO_SPEC struct sandbox_spec spec = lab_spec(lab);
    struct sandbox *sb = lab_sandbox(lab, &spec);
    struct live live = {.lab = lab};
    char sh[] = "sh";
    char flag[] = "-c";
    char script[] = "echo started; sleep 1000 & sleep 1000; echo never";
    char *argv[] = {sh, flag, script, NULL};
    struct call_spec call = {.name = "live", .argv = argv, .on_output = live_output};
    cr_assert_eq(sandbox_call(sb, &call, live_done, &live, NULL, &lab->err), 0, "%s", lab->err.message);
    lab_wait(lab, &live.done);
    cr_assert_eq(live.r.end, CALL_SIGNALLED);
    cr_assert_eq(live.r.code, SIGKILL);
    cr_assert_str_eq(live.r.out.head, "started\n");
    call_result_done(&live.r);
    lab_remove(lab, sb);
}

static void signal_output(struct call *call, int stream, const char *data, size_t len, void *arg)
{
    struct live *live = arg;
    (void)stream;
    (void)data;
    (void)len;
    if (live->chunks++ == 0) {
        call_signal(call, SIGTERM);
    }
}

ENVIRONMENT_TEST(passes_signals)
{
    AUTO_SPEC struct sandbox_spec spec = lab_spec(lab);
    struct sandbox *sb = lab_sandbox(lab, &spec);
    struct live live = {.lab = lab};
    char sh[] = "sh";
    char flag[] = "-c";
    char script[] = "trap 'echo got; exit 7' TERM; echo started; sleep 1000 & wait";
    char *argv[] = {sh, flag, script, NULL};
    struct call_spec call = {.name = "live", .argv = argv, .on_output = signal_output};
    cr_assert_eq(sandbox_call(sb, &call, live_done, &live, NULL, &lab->err), 0, "%s", lab->err.message);
    lab_wait(lab, &live.done);
    cr_assert_eq(live.r.end, CALL_EXITED);
    cr_assert_eq(live.r.code, 7);
    cr_assert_str_eq(live.r.out.head, "started\ngot\n");
    call_result_done(&live.r);
    lab_remove(lab, sb);
}

/* Open and calls in one go, without waiting for anything between. */
ENVIRONMENT_TEST(pipelines_open_and_calls)
{
    AUTO_SPEC struct sandbox_spec spec = lab_spec(lab);
    struct live first = {.lab = lab};
    struct live second = {.lab = lab};
    const struct sandbox_options options = {.name = spec.name};
    struct sandbox *sb = NULL;
    char sh[] = "sh";
    char flag[] = "-c";
    char one[] = "echo 1 > /tmp/one";
    char two[] = "cat /tmp/one";
    char *argv1[] = {sh, flag, one, NULL};
    char *argv2[] = {sh, flag, two, NULL};
    struct call_spec call = {.name = "one", .argv = argv1};
    cr_assert_eq(sandbox_run(lab->env, &spec, &options, &call, NULL, live_done, &first, &sb, &lab->err), 0, "%s",
                 lab->err.message);
    call = (struct call_spec){.name = "two", .argv = argv2};
    cr_assert_eq(sandbox_call(sb, &call, live_done, &second, NULL, &lab->err), 0, "%s", lab->err.message);
    lab_wait(lab, &second.done);
    cr_assert(first.done);
    cr_assert_str_eq(second.r.out.head, "1\n");
    call_result_done(&first.r);
    call_result_done(&second.r);
    lab_remove(lab, sb);
}

/* A failed open is the error of the calls that were asked for with it. */
ENVIRONMENT_TEST(fails_pipelined_calls_with_the_open)
{
    AUTO_SPEC struct sandbox_spec spec = lab_spec(lab);
    spec_grant(&spec, lab->work.path, "/w/absent", SPEC_RO, SPEC_FILE); /* a directory, or no shared path */
    struct live call_live = {.lab = lab};
    const struct sandbox_options options = {.name = spec.name};
    struct sandbox *sb = NULL;
    char name[] = "true";
    char *argv[] = {name, NULL};
    struct call_spec call = {.name = "one", .argv = argv};
    cr_assert_eq(sandbox_run(lab->env, &spec, &options, &call, NULL, live_done, &call_live, &sb, &lab->err), 0, "%s",
                 lab->err.message);
    lab_wait(lab, &call_live.done);
    cr_assert_eq(call_live.r.end, CALL_UNKNOWN);
    cr_assert_lt(call_live.r.err.code, 0);
    cr_assert_neq(call_live.r.err.code, ORCH_E_LOST, "%s", call_live.r.err.message);
    call_result_done(&call_live.r);
    lab_remove(lab, sb);
}

static void on_interrupted(struct call *call, struct call_result *r, void *arg)
{
    struct lab *lab = arg;
    (void)call;
    cr_assert_eq(r->end, CALL_UNKNOWN);
    cr_assert_eq(r->err.code, ORCH_E_INTERRUPTED, "%s", r->err.message);
    lab->ended++;
}

/* Closing ends what runs, each with one completion, and it is not a result. lab_close() follows the body. */
ENVIRONMENT_TEST(closes_while_a_call_runs)
{
    AUTO_SPEC struct sandbox_spec spec = lab_spec(lab);
    struct sandbox *sb = lab_sandbox(lab, &spec);
    char name[] = "sleep";
    char time[] = "1000";
    char *argv[] = {name, time, NULL};
    struct call_spec call = {.name = "one", .argv = argv};
    cr_assert_eq(sandbox_call(sb, &call, on_interrupted, lab, NULL, &lab->err), 0, "%s", lab->err.message);
    for (int i = 0; i < 3; i++) {
        (void)uv_run(&lab->loop, UV_RUN_NOWAIT);
    }
    cr_assert_eq(lab->ended, 0);
    lab->must_end = 1;
}

/* The same before anything was answered. */
ENVIRONMENT_TEST(closes_while_a_sandbox_opens)
{
    AUTO_SPEC struct sandbox_spec spec = lab_spec(lab);
    const struct sandbox_options options = {.name = spec.name};
    struct sandbox *sb = NULL;
    char name[] = "true";
    char *argv[] = {name, NULL};
    struct call_spec call = {.name = "one", .argv = argv};
    cr_assert_eq(sandbox_run(lab->env, &spec, &options, &call, NULL, on_interrupted, lab, &sb, &lab->err), 0, "%s",
                 lab->err.message);
    lab->must_end = 1;
}
