/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/guest/init_call.h"

#include "backends/guest/init_confine.h"
#include "backends/guest/init_drop.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define REPORT_FD 3 /* in the child: why the exec failed */

static int64_t now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

struct plan {
    struct control_call call;
    const char *cwd;
    char **argv; /* owned; argv[0..argc) NULL env[0..envc) NULL */
    char **env;
};

/* Splits the texts of a CALL; they stay in the message. */
static int read_plan(const struct control_message *m, struct plan *ret)
{
    struct plan p;
    if (m->len < sizeof p.call) {
        return -EPROTO;
    }
    memcpy(&p.call, m->data, sizeof p.call);
    size_t count = (size_t)p.call.argc + p.call.envc;
    if (p.call.argc == 0 || count > CONTROL_PAYLOAD_MAX || m->fd_count != 3) {
        return -EPROTO;
    }
    p.argv = calloc(count + 2, sizeof *p.argv);
    if (p.argv == NULL) {
        return -ENOMEM;
    }
    p.env = p.argv + p.call.argc + 1;
    char *text = m->data + sizeof p.call;
    char *end = m->data + m->len;
    p.cwd = text;
    for (size_t i = 0; i <= count && text < end; i++) {
        if (i > 0) {
            size_t at = i - 1;
            p.argv[at < p.call.argc ? at : at + 1] = text;
        }
        text += strlen(text) + 1;
    }
    if (text != end || p.argv[p.call.argc - 1] == NULL || (p.call.envc > 0 && p.env[p.call.envc - 1] == NULL)) {
        free(p.argv);
        return -EPROTO;
    }
    *ret = p;
    return 0;
}

struct failure {
    int sys; /* errno; negative: not the program's fault, nothing may run here */
    enum control_step step;
};

static void child(struct plan *p, const struct confinement *c, const int stdio[3], int report)
    __attribute__((noreturn));
static void child(struct plan *p, const struct confinement *c, const int stdio[3], int report)
{
    /* all sources lie above 3 (the control socket is 3), so no dup2 destroys another's source */
    int high = fcntl(report, F_DUPFD_CLOEXEC, 16);
    int sys = high < 0 ? errno : 0;
    for (int i = 0; i < 3 && sys == 0; i++) {
        sys = dup2(stdio[i], i) < 0 ? errno : 0;
    }
    if (sys == 0) {
        sys = dup3(high, REPORT_FD, O_CLOEXEC) < 0 ? errno : 0;
    }
    if (sys == 0) {
        sys = -drop_call(&p->call);
    }
    enum control_step step = CONTROL_STEP_PROGRAM;
    if (sys == 0 && chdir(p->cwd) < 0) {
        sys = errno;
        step = CONTROL_STEP_DIRECTORY;
    }
    if (sys == 0) {
        sys = confine_call(c);
    }
    if (sys == 0) {
        sys = syscall(SYS_close_range, REPORT_FD + 1, ~0U, 0) < 0 ? errno : 0;
    }
    if (sys == 0) {
        environ = p->env; /* execvp searches in the PATH of the call */
        (void)execvp(p->argv[0], p->argv);
        sys = errno;
    }
    const struct failure f = {sys, step};
    ssize_t ignored = write(REPORT_FD, &f, sizeof f);
    (void)ignored;
    _exit(127);
}

static int start(struct plan *p, const struct confinement *c, const int stdio[3], struct running_call *ret,
                 struct control_exit *ret_exit)
{
    int report[2];
    if (pipe2(report, O_CLOEXEC) < 0) {
        return -errno;
    }
    int64_t started = now_ns();
    pid_t pid = fork();
    if (pid == 0) {
        child(p, c, stdio, report[1]);
    }
    struct failure f = {.sys = pid < 0 ? errno : 0};
    (void)close(report[1]);
    if (f.sys == 0) {
        struct failure told;
        ssize_t n;
        do {
            n = read(report[0], &told, sizeof told);
        } while (n < 0 && errno == EINTR);
        f = n == (ssize_t)sizeof told ? told : f;
    }
    (void)close(report[0]);
    if (f.sys < 0) {
        return f.sys;
    }
    if (f.sys != 0) {
        (void)kill_all();
        *ret_exit = (struct control_exit){
            .exec_errno = f.sys, .exec_step = (uint32_t)f.step, .wall_ns = (uint64_t)(now_ns() - started)};
        return 0;
    }
    *ret = (struct running_call){.pid = pid, .started_ns = started};
    return 0;
}

int call_start(struct control_message *m, const struct confinement *c, struct running_call *ret,
               struct control_exit *ret_exit)
{
    struct plan p;
    int code = read_plan(m, &p);
    if (code < 0) {
        return code;
    }
    int stdio[3] = {m->fds[0], m->fds[1], m->fds[2]};
    code = start(&p, c, stdio, ret, ret_exit);
    free(p.argv);
    return code;
}

uint32_t kill_all(void)
{
    uint32_t reaped = 0;
    for (;;) {
        (void)kill(-1, SIGKILL); /* again after each: one may have forked meanwhile */
        pid_t pid = waitpid(-1, NULL, __WALL);
        if (pid < 0 && errno == ECHILD) {
            return reaped;
        }
        reaped += pid > 0;
    }
}

void call_end(struct running_call *c, int status, struct control_exit *ret_exit)
{
    struct control_exit e = {.status = status, .killed = c->killed};
    e.wall_ns = (uint64_t)(now_ns() - c->started_ns);
    e.left = c->left + kill_all();
    struct rusage u;
    if (getrusage(RUSAGE_CHILDREN, &u) == 0) {
        e.user_us = (uint64_t)u.ru_utime.tv_sec * 1000000 + (uint64_t)u.ru_utime.tv_usec;
        e.system_us = (uint64_t)u.ru_stime.tv_sec * 1000000 + (uint64_t)u.ru_stime.tv_usec;
        e.maxrss_kb = (uint64_t)u.ru_maxrss;
    }
    *c = (struct running_call){.pid = 0};
    *ret_exit = e;
}
