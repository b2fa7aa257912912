/* SPDX-License-Identifier: Apache-2.0 */
#include "lab.h"

#include "backends/environments/environment_impl.h"
#include "base/json.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

ENVIRONMENT_TEST(lists_and_removes)
{
    AUTO_SPEC struct sandbox_spec a = lab_spec(lab);
    AUTO_SPEC struct sandbox_spec b = lab_spec(lab);
    struct sandbox *sa = lab_sandbox(lab, &a);
    struct sandbox *sb = lab_sandbox(lab, &b);
    AUTO_STRV char **two = lab_list(lab);
    cr_assert_eq(strv_len(two), 2);
    lab_remove(lab, sa);
    AUTO_STRV char **one = lab_list(lab);
    cr_assert_eq(strv_len(one), 1);
    cr_assert_str_eq(one[0], b.name);
    lab_remove(lab, sb);
    AUTO_STRV char **none = lab_list(lab);
    cr_assert_eq(strv_len(none), 0);
}

static void on_removed(struct environment *env, const struct environment_result *r, void *arg)
{
    (void)env;
    cr_assert_eq(r->err.code, 0, "%s", r->err.message);
    *(bool *)arg = true;
}

struct adopted {
    bool opened, ended;
    struct orch_err err;
    struct call_result r;
};

static void on_adopted(struct sandbox *sb, const struct sandbox_opened *r, void *arg)
{
    struct adopted *a = arg;
    (void)sb;
    a->err = r->err;
    a->opened = true;
}

static void on_call_ended(struct call *call, struct call_result *r, void *arg)
{
    struct adopted *a = arg;
    (void)call;
    call_result_take(&a->r, r);
    a->ended = true;
}

ENVIRONMENT_TEST(adopts_by_name)
{
    AUTO_SPEC struct sandbox_spec spec = lab_spec(lab);
    struct sandbox *sb = lab_sandbox(lab, &spec);
    char sh[] = "sh";
    char flag[] = "-c";
    char script[] = "echo x > /tmp/x; exit 9";
    char *argv[] = {sh, flag, script, NULL};
    AUTO_CALL_RESULT struct call_result r = lab_call(lab, sb, &(struct call_spec){.name = "first", .argv = argv});
    cr_assert_eq(r.code, 9);
    cr_assert_eq(sandbox_forget(sb, &lab->err), 0, "%s", lab->err.message);
    struct adopted a = {0};
    const struct sandbox_options options = {.name = spec.name};
    cr_assert_eq(sandbox_adopt(lab->env, &options, on_adopted, &a, &sb, &lab->err), 0, "%s", lab->err.message);
    lab_wait(lab, &a.opened);
    cr_assert_eq(a.err.code, 0, "%s", a.err.message);
    cr_assert_eq(sandbox_wait_call(sb, "first", on_call_ended, &a, NULL, &lab->err), 0, "%s", lab->err.message);
    lab_wait(lab, &a.ended);
    cr_assert_eq(a.r.end, CALL_EXITED);
    cr_assert_eq(a.r.code, 9);
    call_result_done(&a.r);
    AUTO_CALL_RESULT struct call_result more = lab_sh(lab, sb, "cat /tmp/x");
    cr_assert_str_eq(more.out.head, "x\n");
    /* What never was is said to be so. */
    a.ended = false;
    cr_assert_eq(sandbox_wait_call(sb, "never", on_call_ended, &a, NULL, &lab->err), 0, "%s", lab->err.message);
    lab_wait(lab, &a.ended);
    cr_assert_eq(a.r.err.code, ORCH_E_NOT_FOUND);
    call_result_done(&a.r);
    lab_remove(lab, sb);
}

ENVIRONMENT_TEST(does_not_adopt_what_is_not_there)
{
    struct adopted a = {0};
    struct sandbox *sb = NULL;
    const struct sandbox_options options = {.name = "nobody"};
    cr_assert_eq(sandbox_adopt(lab->env, &options, on_adopted, &a, &sb, &lab->err), 0, "%s", lab->err.message);
    lab_wait(lab, &a.opened);
    cr_assert_eq(a.err.code, ORCH_E_NOT_FOUND);
    lab_remove(lab, sb);
}

ENVIRONMENT_TEST(removes_by_name)
{
    AUTO_SPEC struct sandbox_spec spec = lab_spec(lab);
    struct sandbox *sb = lab_sandbox(lab, &spec);
    cr_assert_eq(sandbox_forget(sb, &lab->err), 0, "%s", lab->err.message);
    for (int i = 0; i < 2; i++) {
        bool done = false;
        cr_assert_eq(environment_remove_named(lab->env, spec.name, on_removed, &done, &lab->err), 0);
        lab_wait(lab, &done);
        AUTO_STRV char **none = lab_list(lab);
        cr_assert_eq(strv_len(none), 0);
    }
}

ENVIRONMENT_TEST(refuses_a_name_twice)
{
    AUTO_SPEC struct sandbox_spec spec = lab_spec(lab);
    struct sandbox *sb = lab_sandbox(lab, &spec);
    cr_assert_null(lab_try_sandbox(lab, &spec));
    cr_assert_eq(lab->err.code, ORCH_E_USAGE);
    lab_remove(lab, sb);
}

struct stopper {
    bool ended, removed;
    struct call_result r;
};

static void on_stopped(struct call *call, struct call_result *r, void *arg)
{
    struct stopper *s = arg;
    (void)call;
    cr_assert_not(s->removed, "the call must end before its sandbox is gone");
    call_result_take(&s->r, r);
    s->ended = true;
}

ENVIRONMENT_TEST(removes_while_a_call_runs)
{
    AUTO_SPEC struct sandbox_spec spec = lab_spec(lab);
    struct sandbox *sb = lab_sandbox(lab, &spec);
    struct stopper s = {0};
    char name[] = "sleep";
    char time[] = "1000";
    char *argv[] = {name, time, NULL};
    struct call_spec call = {.name = "one", .argv = argv};
    cr_assert_eq(sandbox_call(sb, &call, on_stopped, &s, NULL, &lab->err), 0, "%s", lab->err.message);
    cr_assert_eq(sandbox_remove(sb, on_removed, &s.removed, &lab->err), 0, "%s", lab->err.message);
    lab_wait(lab, &s.removed);
    cr_assert(s.ended);
    cr_assert_neq(s.r.end, CALL_EXITED);
    call_result_done(&s.r);
}

static int count_fds(pid_t pid)
{
    AUTO_FREE char *path = xasprintf("/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    int count = 0;
    cr_assert_not_null(dir);
    while (readdir(dir) != NULL) {
        count++;
    }
    (void)closedir(dir);
    return count;
}

ENVIRONMENT_TEST(opens_many_in_sequence_without_a_leak)
{
    int ours = 0;
    int theirs = 0;
    for (int i = 0; i < 200; i++) {
        AUTO_SPEC struct sandbox_spec spec = lab_spec(lab);
        spec_add_port(&spec, 8080);
        spec_grant_work(&spec, "output", NULL, "/w/output", SPEC_RW);
        struct sandbox *sb = lab_sandbox(lab, &spec);
        AUTO_CALL_RESULT struct call_result r = lab_sh(lab, sb, "echo $$ > /w/output/x");
        cr_assert_eq(r.code, 0, "%d: %s %s", i, r.err.message, r.errout.head);
        lab_remove(lab, sb);
        if (i == 9) {
            ours = test_open_fds();
            theirs = geteuid() == 0 ? count_fds(lab->env->pid) : 0; /* a node does not show itself to users */
        }
    }
    cr_assert_eq(test_open_fds(), ours);
    if (theirs > 0) {
        cr_assert_eq(count_fds(lab->env->pid), theirs, "the node leaks descriptors");
    }
}

/* The node dies: everything ends with `unknown`, nothing with a result, and closing works. */
ENVIRONMENT_TEST(survives_the_death_of_the_node)
{
    AUTO_SPEC struct sandbox_spec spec = lab_spec(lab);
    struct sandbox *sb = lab_sandbox(lab, &spec);
    struct stopper s = {0};
    char name[] = "sleep";
    char time[] = "1000";
    char *argv[] = {name, time, NULL};
    struct call_spec call = {.name = "one", .argv = argv};
    cr_assert_eq(sandbox_call(sb, &call, on_stopped, &s, NULL, &lab->err), 0, "%s", lab->err.message);
    cr_assert_eq(kill(lab->env->pid, SIGKILL), 0);
    lab_wait(lab, &s.ended);
    cr_assert_eq(s.r.end, CALL_UNKNOWN);
    cr_assert_eq(s.r.err.code, ORCH_E_LOST, "%s", s.r.err.message);
    cr_assert_eq(err_class_of(s.r.err.code), ERR_UNKNOWN);
    call_result_done(&s.r);
    AUTO_SPEC struct sandbox_spec other = lab_spec(lab);
    cr_assert_null(lab_try_sandbox(lab, &other));
    cr_assert_eq(lab->err.code, ORCH_E_LOST);
}

static int open_pidfd(const char *text)
{
    int fd = (int)syscall(SYS_pidfd_open, atoi(text), 0);
    cr_assert_geq(fd, 0, "%s", text);
    return fd;
}

/* kill -9 of the host process: the node and every process of its sandboxes end. */
Test(host, dies_with_the_host_process)
{
    AUTO_FREE char *victim = test_built("tests/conformance/environment/environment_victim");
    AUTO_FREE char *node = test_built("backends/orch-node");
    AUTO_TEST_DIR struct test_dir work = test_dir_new();
    int out[2];
    cr_assert_eq(pipe2(out, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(out[1], 1);
        (void)execl(victim, victim, node, work.path, (char *)NULL);
        _exit(127);
    }
    (void)close(out[1]);
    /* "NODE INIT": pids as this process sees them, once the call runs. */
    FILE *in = fdopen(out[0], "r");
    char line[128];
    cr_assert_not_null(fgets(line, sizeof line, in));
    char *second = strchr(line, ' ');
    cr_assert_not_null(second, "%s", line);
    int fds[2] = {open_pidfd(line), open_pidfd(second)};
    cr_assert_eq(kill(pid, SIGKILL), 0);
    (void)waitpid(pid, NULL, 0);
    for (int i = 0; i < 2; i++) {
        struct pollfd p = {.fd = fds[i], .events = POLLIN};
        cr_assert_eq(poll(&p, 1, 20000), 1, "process %d lives on", i);
        (void)close(fds[i]);
    }
    (void)fclose(in);
}

enum { CROWD = 16 };

struct member {
    int number;
    int *left;
    bool opened, called, gone;
    char *text;
    struct sandbox *sb;
};

static void on_member_gone(struct environment *env, const struct environment_result *r, void *arg)
{
    struct member *m = arg;
    (void)env;
    cr_assert_eq(r->err.code, 0, "%s", r->err.message);
    m->gone = true;
    (*m->left)--;
}

static void on_member_open(struct sandbox *sb, const struct sandbox_opened *r, void *arg)
{
    struct member *m = arg;
    (void)sb;
    cr_assert_eq(r->err.code, 0, "%s", r->err.message);
    cr_assert_not(m->opened);
    m->opened = true;
}

static void on_member_called(struct call *call, struct call_result *r, void *arg)
{
    struct member *m = arg;
    struct orch_err err = ERR_INIT;
    char expected[32];
    cr_assert_not(m->called, "a second completion");
    cr_assert(m->opened, "the call ended before its sandbox was open");
    m->called = true;
    (void)snprintf(expected, sizeof expected, "I am %d\n", m->number);
    cr_assert_eq(r->end, CALL_EXITED, "%d: %s", m->number, r->err.message);
    cr_assert_eq(r->code, m->number);
    cr_assert_str_eq(r->out.head, expected);
    cr_assert_eq(sandbox_remove(call_sandbox(call), on_member_gone, m, &err), 0, "%s", err.message);
}

/* Many at once: nobody gets another's answer, and each ends exactly once. */
ENVIRONMENT_TEST(runs_a_crowd_at_once)
{
    struct member members[CROWD] = {{0}};
    int left = CROWD;
    for (int i = 0; i < CROWD; i++) {
        struct member *m = &members[i];
        AUTO_SPEC struct sandbox_spec spec = lab_spec(lab);
        const struct sandbox_options options = {.name = spec.name};
        *m = (struct member){.number = i, .left = &left, .text = xasprintf("echo I am %d; exit %d", i, i)};
        char sh[] = "sh";
        char flag[] = "-c";
        char *argv[] = {sh, flag, m->text, NULL};
        const struct call_spec call = {.name = "call", .argv = argv};
        cr_assert_eq(
            sandbox_run(lab->env, &spec, &options, &call, on_member_open, on_member_called, m, &m->sb, &lab->err), 0,
            "%s", lab->err.message);
    }
    while (left > 0) {
        (void)uv_run(&lab->loop, UV_RUN_ONCE);
    }
    for (int i = 0; i < CROWD; i++) {
        cr_assert(members[i].called && members[i].gone);
        free(members[i].text);
    }
    AUTO_STRV char **none = lab_list(lab);
    cr_assert_eq(strv_len(none), 0);
}

/* What the host has below the covered directories does not exist where the node runs. */
Test(loopback_remote, sees_nothing_of_the_host)
{
    struct lab lab;
    lab_open(&lab, "loopback-remote", "auto", 0);
    test_write(&lab.dir, "secret", "x");
    test_write(&lab.work, "secret", "x");
    const struct test_dir *dirs[] = {&lab.dir, &lab.work};
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        AUTO_FREE char *path = xasprintf("/proc/%d/root%s", (int)lab.env->pid, dirs[i]->path);
        AUTO_FREE char *file = xasprintf("%s/secret", path);
        cr_assert_eq(access(path, F_OK), 0, "%s", path);
        cr_assert_neq(access(file, F_OK), 0, "%s", file);
    }
    lab_close(&lab);
    TEST_END();
}
