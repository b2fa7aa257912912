/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KEEP = 1 << 16 };
#define SECOND INT64_C(1000000000)

static char *const plain_env[] = {(char[]){"PATH=/usr/bin:/bin"}, (char[]){"LC_ALL=C"}, NULL};

/* Runs `sh -c script` with the fields of `base` that are set. */
static struct command_result run_shell(const char *script, struct command base)
{
    AUTO_FREE char *text = xstrdup(script);
    char sh[] = "sh";
    char dash_c[] = "-c";
    char *argv[] = {sh, dash_c, text, NULL};
    base.program = "/bin/sh";
    base.argv = argv;
    base.envp = plain_env;
    base.output_max = base.output_max ? base.output_max : KEEP;
    struct command_result r = {0};
    struct orch_err err = ERR_INIT;
    cr_assert_eq(command_run(&base, &r, &err), 0, "%s", err.message);
    return r;
}

Test(command, output_status_and_errors_apart)
{
    AUTO_COMMAND_RESULT struct command_result r = run_shell("echo out; echo err >&2; exit 3", (struct command){0});
    cr_assert_eq(r.end, END_EXITED);
    cr_assert_eq(r.code, 3);
    cr_assert_str_eq(r.out, "out\n");
    cr_assert_str_eq(r.err, "err\n");
    cr_assert_eq(r.out_len, 4);
    cr_assert_not(r.out_cut);
    cr_assert_gt(r.wall_ns, 0);
    struct orch_err err = ERR_INIT;
    cr_assert_eq(command_check(&r, "thing", &err), ORCH_E_FAILED);
    cr_assert_not_null(strstr(err.message, "thing"));
    cr_assert_not_null(strstr(err.message, "err"));
    TEST_END();
}

Test(command, success_passes_the_check)
{
    AUTO_COMMAND_RESULT struct command_result r = run_shell("true", (struct command){0});
    struct orch_err err = ERR_INIT;
    cr_assert_eq(command_check(&r, "thing", &err), 0);
    TEST_END();
}

Test(command, a_signal_is_not_a_status)
{
    AUTO_COMMAND_RESULT struct command_result r = run_shell("kill -TERM $$", (struct command){0});
    cr_assert_eq(r.end, END_SIGNALLED);
    cr_assert_eq(r.code, SIGTERM);
    struct orch_err err = ERR_INIT;
    cr_assert_eq(command_check(&r, "thing", &err), ORCH_E_FAILED);
    TEST_END();
}

Test(command, output_is_bounded_and_the_rest_is_drained)
{
    struct command c = {.output_max = 1000};
    AUTO_COMMAND_RESULT struct command_result r =
        run_shell("head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2; exit 5", c);
    cr_assert_eq(r.end, END_EXITED);
    cr_assert_eq(r.code, 5, "it was not stopped by a full pipe or a closed one");
    cr_assert_eq(r.out_len, 1000);
    cr_assert_eq(r.err_len, 1000);
    cr_assert(r.out_cut);
    cr_assert(r.err_cut);
    TEST_END();
}

Test(command, input_arrives_whole_and_ends)
{
    enum { SIZE = 1 << 20 };
    AUTO_FREE char *input = xmalloc(SIZE);
    memset(input, 'x', SIZE);
    struct command c = {.input = input, .input_len = SIZE};
    AUTO_COMMAND_RESULT struct command_result r = run_shell("wc -c", c);
    cr_assert_str_eq(r.out, "1048576\n");
    /* a reader that leaves early is no error and no SIGPIPE */
    AUTO_COMMAND_RESULT struct command_result early = run_shell("exit 4", c);
    cr_assert_eq(early.end, END_EXITED);
    cr_assert_eq(early.code, 4);
    AUTO_COMMAND_RESULT struct command_result none = run_shell("wc -c", (struct command){0});
    cr_assert_str_eq(none.out, "0\n", "no input is /dev/null");
    TEST_END();
}

Test(command, time_limit_kills_the_whole_group)
{
    /* what is orphaned comes to us, who take it: not every PID 1 does */
    cr_assert_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    struct command c = {.timeout_ns = SECOND / 5};
    AUTO_COMMAND_RESULT struct command_result r =
        run_shell("echo $$; (trap '' TERM; cat /dev/zero >/dev/null) & wait", c);
    cr_assert_eq(r.end, END_TIMEOUT);
    cr_assert_geq(r.wall_ns, SECOND / 5);
    cr_assert_lt(r.wall_ns, 10 * SECOND);
    pid_t group = (pid_t)strtol(r.out, NULL, 10);
    cr_assert_gt(group, 1);
    bool gone = false;
    for (int i = 0; i < 500 && !gone; i++) {
        (void)waitpid(-group, NULL, WNOHANG);
        gone = kill(-group, 0) < 0 && errno == ESRCH;
        (void)poll(NULL, 0, gone ? 0 : 10);
    }
    cr_assert(gone, "the group %d is still there", group);
    struct orch_err err = ERR_INIT;
    cr_assert_eq(command_check(&r, "thing", &err), ORCH_E_TIMEOUT);
    TEST_END();
}

Test(command, a_child_that_keeps_the_pipe_does_not_hold_us)
{
    AUTO_COMMAND_RESULT struct command_result r =
        run_shell("cat /dev/zero >/dev/null & echo done", (struct command){0});
    cr_assert_eq(r.end, END_EXITED);
    cr_assert_eq(r.code, 0);
    cr_assert_str_eq(r.out, "done\n");
    cr_assert_lt(r.wall_ns, 10 * SECOND);
    TEST_END();
}

Test(command, what_cannot_start_is_an_error_of_ours)
{
    char name[] = "absent";
    char *argv[] = {name, NULL};
    struct command c = {.program = "/nonexistent/absent", .argv = argv, .envp = plain_env, .output_max = KEEP};
    struct command_result r = {.code = 77};
    struct orch_err err = ERR_INIT;
    int before = test_open_fds();
    cr_assert_eq(command_run(&c, &r, &err), ORCH_E_NOT_FOUND);
    c.program = "/etc/passwd";
    cr_assert_eq(command_run(&c, &r, &err), ORCH_E_IO);
    c.program = "/bin/true";
    c.cwd = "/nonexistent";
    cr_assert_lt(command_run(&c, &r, &err), 0);
    cr_assert_eq(r.code, 77, "the result is untouched");
    cr_assert_eq(test_open_fds(), before);
    TEST_END();
}

Test(command, the_child_gets_nothing_it_was_not_given)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    cr_assert_eq(setenv("ORCH_TEST_SECRET", "hunter2", 1), 0);
    /* a descriptor that somebody forgot to mark */
    int leaky = fcntl(dir.fd, F_DUPFD, 50);
    cr_assert_geq(leaky, 50);
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    cr_assert_eq(sigprocmask(SIG_BLOCK, &blocked, NULL), 0);
    (void)signal(SIGPIPE, SIG_IGN);
    struct command c = {.cwd = dir.path};
    AUTO_COMMAND_RESULT struct command_result r = run_shell(
        "pwd; env | grep -c SECRET; for f in /proc/self/fd/*; do case ${f##*/} in [012]) ;; *) readlink $f; esac; "
        "done; "
        "grep -E '^Sig(Blk|Ign)' /proc/self/status; umask; ps -o sid= -p $$ | tr -d ' ' | grep -qx $$ && echo session",
        c);
    AUTO_FREE char *want_cwd = NULL;
    struct orch_err err = ERR_INIT;
    cr_assert_eq(path_real(dir.path, &want_cwd, &err), 0);
    AUTO_FREE char *first = xasprintf("%s\n0\n", want_cwd);
    cr_assert_eq(strncmp(r.out, first, strlen(first)), 0, "%s", r.out);
    cr_assert_null(strstr(r.out + strlen(want_cwd), want_cwd), "the forgotten descriptor arrived: %s", r.out);
    cr_assert_not_null(strstr(r.out, "SigBlk:\t0000000000000000"), "%s", r.out);
    cr_assert_not_null(strstr(r.out, "SigIgn:\t0000000000000000"), "%s", r.out);
    cr_assert_not_null(strstr(r.out, "0022\n"), "%s", r.out);
    cr_assert_not_null(strstr(r.out, "session\n"), "%s", r.out);
    close(leaky);
    TEST_END();
}

Test(command, output_to_a_descriptor)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    struct orch_err err = ERR_INIT;
    AUTO_FD int out = fd_open_beneath(dir.fd, "out", O_RDWR | O_CREAT, 0600, &err);
    test_write(&dir, "in", "from a file");
    AUTO_FD int in = fd_open_beneath(dir.fd, "in", O_RDONLY, 0, &err);
    struct command c = {.output_fd = out, .input_fd = in};
    AUTO_COMMAND_RESULT struct command_result r = run_shell("cat", c);
    cr_assert_eq(r.code, 0);
    cr_assert_eq(r.out_len, 0);
    AUTO_FREE char *text = test_read(&dir, "out");
    cr_assert_str_eq(text, "from a file");
    TEST_END();
}

Test(command, no_descriptor_is_left)
{
    int before = test_open_fds();
    for (int i = 0; i < 20; i++) {
        AUTO_COMMAND_RESULT struct command_result r =
            run_shell("exit 0", (struct command){.input = "x", .input_len = 1});
        cr_assert_eq(r.end, END_EXITED);
    }
    cr_assert_eq(test_open_fds(), before);
    struct command_result none = {0};
    command_result_done(&none);
    TEST_END();
}

Test(command, an_unknown_end_is_never_success)
{
    struct command_result r = {.end = END_UNKNOWN, .code = 0};
    struct orch_err err = ERR_INIT;
    cr_assert_eq(command_check(&r, "thing", &err), ORCH_E_LOST);
    cr_assert_eq(err_class_of(err.code), ERR_UNKNOWN);
    TEST_END();
}

/* Targets overlap sources in every order: no dup may destroy what a later one needs. */
Test(spawn, crossed_descriptors)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    test_write(&dir, "a", "A");
    test_write(&dir, "b", "B");
    struct orch_err err = ERR_INIT;
    int a = fcntl(fd_open_beneath(dir.fd, "a", O_RDONLY, 0, &err), F_DUPFD_CLOEXEC, 20);
    int b = fcntl(fd_open_beneath(dir.fd, "b", O_RDONLY, 0, &err), F_DUPFD_CLOEXEC, a + 1);
    AUTO_FD int out = fd_open_beneath(dir.fd, "out", O_WRONLY | O_CREAT, 0600, &err);
    AUTO_FREE char *script = xasprintf("cat <&%d; cat <&%d", a, b);
    char sh[] = "sh";
    char dash_c[] = "-c";
    char *argv[] = {sh, dash_c, script, NULL};
    const struct spawn_fd fds[] = {{.child = b, .parent = a}, {.child = a, .parent = b}, {.child = 1, .parent = out}};
    struct spawn s = {.program = "/bin/bash", .argv = argv, .envp = plain_env, .fds = fds, .fd_count = 3};
    AUTO_FD int pidfd = -1;
    pid_t pid = process_spawn(&s, &pidfd, &err);
    cr_assert_gt(pid, 0, "%s", err.message);
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    cr_assert_eq(poll(&p, 1, 20000), 1);
    int status = 0;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(status, 0);
    AUTO_FREE char *text = test_read(&dir, "out");
    cr_assert_str_eq(text, "BA");
    TEST_END();
}

Test(spawn, too_many_descriptors_is_a_bug_of_the_caller)
{
    struct spawn_fd fds[64] = {{0}};
    char name[] = "true";
    char *argv[] = {name, NULL};
    struct spawn s = {.program = "/bin/true", .argv = argv, .envp = plain_env, .fds = fds, .fd_count = 64};
    int pidfd = -1;
    struct orch_err err = ERR_INIT;
    cr_assert_eq(process_spawn(&s, &pidfd, &err), ORCH_E_INTERNAL);
    cr_assert_eq(pidfd, -1);
    TEST_END();
}
