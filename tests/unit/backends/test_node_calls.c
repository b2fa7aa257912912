/* SPDX-License-Identifier: Apache-2.0 */
/* Real calls in real sandboxes, by a node as root and as a user. */
#include "node_driver.h"

#include "base/mem.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static void open_plain(struct driver *d, const char *name)
{
    AUTO_SPEC struct sandbox_spec s;
    driver_spec(&s, name);
    driver_open_ok(d, &s);
}

static void expect(struct driver *d, const char *call, const char *script, const char *end, int code)
{
    AUTO_OUTCOME struct outcome o = driver_sh(d, "box", call, script, 20000);
    cr_assert(strcmp(outcome_end(&o), end) == 0 && outcome_code(&o) == code, "%s: %s %d, not %s %d (%s)", script,
              outcome_end(&o), outcome_code(&o), end, code, o.err);
}

static void check_ends(struct driver *d)
{
    open_plain(d, "box");
    expect(d, "c1", "true", "exited", 0);
    expect(d, "c2", "exit 7", "exited", 7);
    expect(d, "c3", "kill -9 $$", "signalled", SIGKILL);
    expect(d, "c4", "kill -15 $$", "signalled", SIGTERM);
    expect(d, "c5", "kill -9 1; kill -15 1; kill -1 1; exit 3", "exited", 3); /* PID 1 does not care */
    expect(d, "c6", "exit 255", "exited", 255);
    driver_remove(d, "box");
}

Test(node_calls, ends_are_told_apart)
{
    driver_each(check_ends);
    TEST_END();
}

static void check_streams(struct driver *d)
{
    open_plain(d, "box");
    AUTO_OUTCOME struct outcome o = driver_sh(d, "box", "c1", "printf out; printf err >&2", 20000);
    cr_assert_str_eq(o.out, "out");
    cr_assert_str_eq(o.err, "err");
    char cat[] = "cat";
    char *argv[] = {cat, NULL};
    struct call_ids ids = driver_call_start(d, "box", "c2", argv, 20000, true);
    AUTO_FREE char *big = xcalloc(1, 200000);
    memset(big, 'x', 200000);
    for (size_t at = 0; at < 200000; at += 50000) {
        driver_data(d, ids.in, big + at, 50000);
    }
    driver_end(d, ids.in);
    AUTO_OUTCOME struct outcome c = driver_call_wait(d, &ids);
    cr_assert_eq(c.out_len, 200000u);
    cr_assert(memcmp(c.out, big, 200000) == 0);
    /* input that nobody reads does not hold the call */
    char yes[] = "true";
    char *quick[] = {yes, NULL};
    struct call_ids q = driver_call_start(d, "box", "c3", quick, 20000, true);
    AUTO_OUTCOME struct outcome e = driver_call_wait(d, &q);
    cr_assert_str_eq(outcome_end(&e), "exited");
    driver_remove(d, "box");
}

Test(node_calls, input_and_both_outputs_pass)
{
    driver_each(check_streams);
    TEST_END();
}

static void check_not_started(struct driver *d)
{
    open_plain(d, "box");
    static const struct {
        const char *program;
        int status;
    } cases[] = {{"no-such-program", 127}, {"/w/nothing", 127}, {"/etc/passwd", 126}, {"/usr", 126}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "n%zu", i);
        AUTO_FREE char *program = xstrdup(cases[i].program);
        char *argv[] = {program, NULL};
        struct call_ids ids = driver_call_start(d, "box", name, argv, 20000, false);
        AUTO_OUTCOME struct outcome o = driver_call_wait(d, &ids);
        cr_assert_str_eq(outcome_end(&o), "not-started");
        cr_assert_eq(json_get_int(o.result, "program", 0), cases[i].status, "%s", cases[i].program);
    }
    driver_remove(d, "box");
}

Test(node_calls, a_program_that_cannot_start_is_reported_apart)
{
    driver_each(check_not_started);
    TEST_END();
}

static void check_timeout(struct driver *d)
{
    open_plain(d, "box");
    AUTO_OUTCOME struct outcome o =
        driver_sh(d, "box", "c1",
                  "trap '' TERM HUP INT; for i in 1 2 3; do (setsid sh -c \"trap '' TERM; sleep 600 & sleep 600\" &) ; "
                  "done; echo started; while :; do sleep 600; done",
                  2500);
    cr_assert_str_eq(o.out, "started\n");
    cr_assert_str_eq(outcome_limit(&o), "time");
    cr_assert_str_eq(outcome_end(&o), "signalled");
    const json_t *l = json_get(o.result, "limit");
    cr_assert_eq(json_get_int(l, "value", 0), 2500);
    cr_assert(json_get_int(l, "used", 0) >= 2499 && json_get_int(l, "used", 0) < 30000);
    cr_assert_gt(json_get_int(o.result, "left", 0), 3);
    AUTO_OUTCOME struct outcome next = driver_sh(d, "box", "c2", "ls /proc | grep -c '^[0-9]'", 20000);
    cr_assert_lt(atoi(next.out), 6, "something of the earlier call lives: %s", next.out);
    driver_remove(d, "box");
}

Test(node_calls, the_wall_time_ends_a_whole_tree)
{
    driver_each(check_timeout);
    TEST_END();
}

static void check_background(struct driver *d)
{
    open_plain(d, "box");
    AUTO_OUTCOME struct outcome o = driver_sh(d, "box", "c1", "sleep 600 & echo done", 30000);
    cr_assert_str_eq(o.out, "done\n");
    cr_assert_str_eq(outcome_end(&o), "exited");
    cr_assert_eq(json_get_int(o.result, "left", 0), 1);
    cr_assert_lt(json_get_int(o.result, "wall_ns", 0), INT64_C(20000000000));
    driver_remove(d, "box");
}

Test(node_calls, a_child_left_behind_does_not_keep_the_call_open)
{
    driver_each(check_background);
    TEST_END();
}

static void check_flood(struct driver *d)
{
    AUTO_SPEC struct sandbox_spec s;
    driver_spec(&s, "box");
    s.limits.output = 1000000;
    driver_open_ok(d, &s);
    AUTO_OUTCOME struct outcome o = driver_sh(d, "box", "c1", "head -c 50000000 /dev/zero; echo end >&2", 60000);
    cr_assert_str_eq(outcome_end(&o), "exited");
    cr_assert_eq(o.out_len, 1000000u);
    const json_t *out = json_get(o.result, "stdout");
    cr_assert(json_get_flag(out, "cut", false) && json_get_int(out, "total", 0) == 50000000);
    cr_assert_str_eq(o.err, "end\n");
    driver_remove(d, "box");
}

Test(node_calls, a_flood_is_cut_and_does_not_block)
{
    driver_each(check_flood);
    TEST_END();
}

static bool got_window(struct driver *d, const void *arg)
{
    return driver_channel(d, *(const uint32_t *)arg)->data.len >= PROTOCOL_WINDOW;
}

static void check_credit(struct driver *d)
{
    open_plain(d, "box");
    char sh[] = "sh";
    char c[] = "-c";
    char script[] = "head -c 1000000 /dev/zero";
    char *argv[] = {sh, c, script, NULL};
    uint32_t out = d->next_channel; /* the next one that call_start takes */
    driver_channel(d, out)->hold = true;
    struct call_ids ids = driver_call_start(d, "box", "c1", argv, 30000, false);
    cr_assert_eq(ids.out, out);
    driver_until(d, got_window, &out);
    /* another call's answer comes while this one is held back: nothing more was sent on the channel */
    AUTO_JSON json_t *r = driver_ask(d, "stats", NULL);
    cr_assert_not_null(json_get(r, "ok"));
    cr_assert_eq(driver_channel(d, out)->data.len, PROTOCOL_WINDOW);
    driver_channel(d, out)->hold = false;
    driver_credit(d, out, PROTOCOL_WINDOW);
    AUTO_OUTCOME struct outcome o = driver_call_wait(d, &ids);
    cr_assert_eq(o.out_len, 1000000u);
    driver_remove(d, "box");
}

Test(node_calls, output_waits_for_credit)
{
    driver_each(check_credit);
    TEST_END();
}

static void check_reset_output(struct driver *d)
{
    open_plain(d, "box");
    char sh[] = "sh";
    char c[] = "-c";
    char script[] = "head -c 3000000 /dev/zero; exit 4";
    char *argv[] = {sh, c, script, NULL};
    uint32_t out = d->next_channel;
    driver_channel(d, out)->hold = true;
    struct call_ids ids = driver_call_start(d, "box", "c1", argv, 30000, false);
    driver_until(d, got_window, &out);
    driver_reset(d, out);
    driver_channel(d, out)->ended = true; /* it is gone for us; the node may not send END on it */
    AUTO_OUTCOME struct outcome o = driver_call_wait(d, &ids);
    cr_assert_eq(outcome_code(&o), 4, "a program whose output nobody wants goes on");
    driver_remove(d, "box");
}

Test(node_calls, unwanted_output_does_not_block)
{
    driver_each(check_reset_output);
    TEST_END();
}

static void check_again(struct driver *d)
{
    open_plain(d, "box");
    AUTO_OUTCOME struct outcome first = driver_sh(d, "box", "c1", "echo x >> /w/output/log", 20000);
    cr_assert_eq(outcome_code(&first), 0);
    char sh[] = "sh";
    char *argv[] = {sh, NULL};
    struct call_ids ids = driver_call_start(d, "box", "c1", argv, 0, false); /* the name is known: nothing starts */
    driver_wait_ended(d, ids.out);
    cr_assert(driver_channel(d, ids.out)->reset);
    AUTO_OUTCOME struct outcome count = driver_sh(d, "box", "c2", "cat /w/output/log", 20000);
    cr_assert_str_eq(count.out, "x\n");
    json_t *m = json_object();
    json_set_str(m, "sandbox", "box");
    AUTO_JSON json_t *seen = driver_ask(d, "observe", m);
    const json_t *call = json_get(json_get(json_get(seen, "ok"), "calls"), "c1");
    cr_assert_str_eq(json_get_str(call, "state", ""), "ended");
    cr_assert(json_equal(json_get(call, "result"), first.result));
    driver_remove(d, "box");
}

Test(node_calls, the_same_name_never_starts_twice)
{
    driver_each(check_again);
    TEST_END();
}

static void check_order(struct driver *d)
{
    AUTO_SPEC struct sandbox_spec s;
    driver_spec(&s, "box");
    json_t *m = json_object();
    json_set_str(m, "sandbox", "box");
    json_set_take(m, "spec", spec_to_json(&s));
    int64_t open = driver_send(d, "open", m);
    char sh[] = "sh";
    char c[] = "-c";
    char one[] = "sleep 0.1; echo 1 >> /w/output/x";
    char two[] = "echo 2 >> /w/output/x; cat /w/output/x";
    char *first[] = {sh, c, one, NULL};
    char *second[] = {sh, c, two, NULL};
    struct call_ids a = driver_call_start(d, "box", "a", first, 20000, false); /* before open has answered */
    struct call_ids b = driver_call_start(d, "box", "b", second, 20000, false);
    AUTO_OUTCOME struct outcome ob = driver_call_wait(d, &b);
    AUTO_OUTCOME struct outcome oa = driver_call_wait(d, &a);
    cr_assert_eq(outcome_code(&oa), 0);
    cr_assert_str_eq(ob.out, "1\n2\n");
    AUTO_JSON json_t *opened = driver_wait(d, open);
    cr_assert_not_null(json_get(opened, "ok"));
    driver_remove(d, "box");
}

Test(node_calls, calls_wait_for_the_open_and_for_each_other)
{
    driver_each(check_order);
    TEST_END();
}

static void check_signals(struct driver *d)
{
    open_plain(d, "box");
    char sh[] = "sh";
    char c[] = "-c";
    char script[] = "trap 'echo got; exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    char *argv[] = {sh, c, script, NULL};
    static const struct {
        int signal;
        const char *end;
        int code;
    } cases[] = {{SIGTERM, "exited", 5}, {SIGKILL, "signalled", SIGKILL}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "s%zu", i);
        struct call_ids ids = driver_call_start(d, "box", name, argv, 30000, false);
        while (driver_channel(d, ids.out)->data.len == 0) {
            AUTO_JSON json_t *r = driver_ask(d, "stats", NULL);
            cr_assert_not_null(r);
        }
        json_t *m = json_object();
        json_set_str(m, "sandbox", "box");
        json_set_str(m, "call", name);
        json_set_int(m, "signal", cases[i].signal);
        AUTO_JSON json_t *r = driver_ask(d, "signal", m);
        cr_assert_not_null(json_get(r, "ok"));
        AUTO_OUTCOME struct outcome o = driver_call_wait(d, &ids);
        cr_assert_str_eq(outcome_end(&o), cases[i].end);
        cr_assert_eq(outcome_code(&o), cases[i].code);
        cr_assert_eq(json_get_flag(o.result, "killed", false), cases[i].signal == SIGKILL);
    }
    driver_remove(d, "box");
}

Test(node_calls, signals_reach_the_program)
{
    driver_each(check_signals);
    TEST_END();
}

static void check_cpu_and_file(struct driver *d)
{
    AUTO_SPEC struct sandbox_spec s;
    driver_spec(&s, "box");
    s.limits.cpu_s = 1;
    s.limits.file = 100000;
    driver_open_ok(d, &s);
    AUTO_OUTCOME struct outcome cpu = driver_sh(d, "box", "c1", "while :; do :; done", 60000);
    cr_assert_str_eq(outcome_limit(&cpu), "cpu");
    AUTO_OUTCOME struct outcome file =
        driver_sh(d, "box", "c2", "exec head -c 200000 /dev/zero > /w/output/big", 60000);
    cr_assert_str_eq(outcome_limit(&file), "file", "%s %d", outcome_end(&file), outcome_code(&file));
    driver_remove(d, "box");
}

Test(node_calls, cpu_and_file_limits_are_named)
{
    driver_each(check_cpu_and_file);
    TEST_END();
}

static void check_disk(struct driver *d)
{
    AUTO_SPEC struct sandbox_spec s;
    driver_spec(&s, "box");
    s.limits.disk = 4 << 20;
    driver_open_ok(d, &s);
    AUTO_OUTCOME struct outcome small = driver_sh(d, "box", "c1", "head -c 1000000 /dev/zero > /w/output/a", 60000);
    cr_assert_str_eq(outcome_limit(&small), "");
    AUTO_OUTCOME struct outcome end = driver_sh(d, "box", "c2", "head -c 8000000 /dev/zero > /w/output/a", 60000);
    cr_assert_str_eq(outcome_limit(&end), "disk");
    AUTO_OUTCOME struct outcome during =
        driver_sh(d, "box", "c3", "head -c 9000000 /dev/zero > /w/output/a; sleep 600", 60000);
    cr_assert_str_eq(outcome_limit(&during), "disk");
    cr_assert_str_eq(outcome_end(&during), "signalled");
    driver_remove(d, "box");
}

Test(node_calls, disk_is_measured_while_and_after)
{
    driver_each(check_disk);
    TEST_END();
}

static void check_memory_and_processes(struct driver *d)
{
    AUTO_SPEC struct sandbox_spec s;
    driver_spec(&s, "box");
    s.limits.memory = UINT64_C(64) << 20;
    s.limits.processes = 20;
    driver_open_ok(d, &s);
    AUTO_OUTCOME struct outcome none =
        driver_sh(d, "box", "c1", "head -c 1000 /dev/zero | tail -c 1000 | wc -c", 60000);
    cr_assert_str_eq(none.out, "1000\n");
    AUTO_OUTCOME struct outcome mem =
        driver_sh(d, "box", "c2", "head -c 200000000 /dev/zero | tail -c 190000000 | wc -c", 60000);
    cr_assert_str_neq(mem.out, "190000000\n");
    AUTO_OUTCOME struct outcome forks =
        driver_sh(d, "box", "c3", "i=0; while [ $i -lt 60 ]; do sleep 30 & i=$((i+1)); done; echo all", 60000);
    cr_assert_str_neq(forks.out, "all\n", "60 processes ran with a limit of 20");
    driver_remove(d, "box");
}

Test(node_calls, memory_and_process_limits_bind)
{
    driver_each(check_memory_and_processes);
    TEST_END();
}
