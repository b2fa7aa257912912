/* SPDX-License-Identifier: Apache-2.0 */
#include "lab.h"

#include <stdio.h>

struct echo {
    int connections, closed, ends, writes;
    bool pause_first;
    size_t bytes;
};

static void on_written(struct stream *s, int code, void *arg)
{
    struct echo *e = arg;
    (void)s;
    cr_assert_eq(code, 0);
    e->writes++;
}

static void on_read(struct stream *s, const char *data, size_t len, void *arg)
{
    struct echo *e = arg;
    if (len == 0) {
        e->ends++;
        stream_shutdown(s);
        return;
    }
    e->bytes += len;
    stream_write(s, data, len, on_written, e);
}

static void on_closed(struct stream *s, const struct orch_err *err, void *arg)
{
    struct echo *e = arg;
    (void)s;
    (void)err;
    e->closed++;
}

static void on_stream(struct sandbox *sb, uint16_t port, struct stream *s, void *arg)
{
    static const struct stream_callbacks callbacks = {.read = on_read, .closed = on_closed};
    struct echo *e = arg;
    cr_assert_eq(stream_sandbox(s), sb);
    cr_assert_eq(port, 8080);
    e->connections++;
    stream_start(s, &callbacks, e);
}

static void on_open(struct sandbox *sb, const struct sandbox_opened *r, void *arg)
{
    (void)sb;
    cr_assert_eq(r->err.code, 0, "%s", r->err.message);
    *(bool *)arg = true;
}

static struct sandbox *open_with(struct lab *lab, sandbox_stream_cb cb, void *arg)
{
    AUTO_SPEC struct sandbox_spec spec = lab_spec(lab);
    spec_add_port(&spec, 8080);
    const struct sandbox_options options = {.name = spec.name, .on_stream = cb, .stream_arg = arg};
    struct sandbox *sb = NULL;
    bool done = false;
    cr_assert_eq(sandbox_open(lab->env, &spec, &options, on_open, &done, &sb, &lab->err), 0, "%s", lab->err.message);
    lab_wait(lab, &done);
    return sb;
}

static struct call_result bash(struct lab *lab, struct sandbox *sb, const char *script)
{
    AUTO_FREE char *text = xstrdup(script);
    char name[] = "bash";
    char flag[] = "-c";
    char *argv[] = {name, flag, text, NULL};
    return lab_call(lab, sb, &(struct call_spec){.argv = argv, .timeout_ns = INT64_C(20000000000)});
}

ENVIRONMENT_TEST(echoes_through_a_port)
{
    struct echo e = {0};
    struct sandbox *sb = open_with(lab, on_stream, &e);
    AUTO_CALL_RESULT struct call_result r =
        bash(lab, sb, "exec 3<>/dev/tcp/127.0.0.1/8080; echo hello >&3; read -r x <&3; echo \"got $x\"");
    cr_assert_str_eq(r.out.head, "got hello\n", "%s", r.errout.head);
    AUTO_CALL_RESULT struct call_result again =
        bash(lab, sb, "exec 3<>/dev/tcp/127.0.0.1/8080; echo two >&3; read -r x <&3; echo \"got $x\"");
    cr_assert_str_eq(again.out.head, "got two\n", "%s", again.errout.head);
    cr_assert_eq(e.connections, 2);
    cr_assert_geq(e.writes, 2);
    lab_remove(lab, sb);
    cr_assert_eq(e.closed, 2);
}

/* More than any window, both ways at once. */
ENVIRONMENT_TEST(moves_much_through_a_port)
{
    struct echo e = {0};
    struct sandbox *sb = open_with(lab, on_stream, &e);
    AUTO_CALL_RESULT struct call_result r =
        bash(lab, sb, "exec 3<>/dev/tcp/127.0.0.1/8080; head -c 3000000 /dev/zero >&3 & head -c 3000000 <&3 | wc -c");
    cr_assert_str_eq(r.out.head, "3000000\n", "%s", r.errout.head);
    cr_assert_eq(e.bytes, 3000000);
    lab_remove(lab, sb);
    cr_assert_eq(e.closed, e.connections);
}

ENVIRONMENT_TEST(closes_streams_nobody_takes)
{
    struct sandbox *sb = open_with(lab, NULL, NULL);
    AUTO_CALL_RESULT struct call_result r =
        bash(lab, sb, "exec 3<>/dev/tcp/127.0.0.1/8080 && { read -r x <&3 || echo ended; }");
    cr_assert_str_eq(r.out.head, "ended\n", "%s", r.errout.head);
    lab_remove(lab, sb);
}
