/* SPDX-License-Identifier: Apache-2.0 */
#include "base/process.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SPAWN_FDS_MAX 16
#define SPAWN_SIGNALS 32 /* the classic ones: nobody starts programs with real-time signals ignored */
#define SPAWN_STACK ((size_t)64 << 10)

struct child_plan {
    const struct spawn *s;
    int sys; /* errno of the child when it could not exec: it shares our memory until then */
    pid_t parent;
    int high[SPAWN_FDS_MAX]; /* copies above every target number, so that no dup2 destroys a source */
};

static void child_fail(struct child_plan *p) __attribute__((noreturn));
static void child_fail(struct child_plan *p)
{
    p->sys = errno != 0 ? errno : EIO;
    _exit(127);
}

/* Handlers of ours end at exec by themselves; what was ignored would stay ignored. */
static void child_signals(void)
{
    struct sigaction defaults = {.sa_handler = SIG_DFL};
    for (int sig = 1; sig < SPAWN_SIGNALS; sig++) {
        (void)sigaction(sig, &defaults, NULL); /* fails for KILL, STOP and libc's own: fine */
    }
    sigset_t none;
    sigemptyset(&none);
    (void)pthread_sigmask(SIG_SETMASK, &none, NULL);
}

static void child_descriptors(struct child_plan *p)
{
    const struct spawn *s = p->s;
    int floor = 3;
    for (size_t i = 0; i < s->fd_count; i++) {
        floor = s->fds[i].child >= floor ? s->fds[i].child + 1 : floor;
    }
    for (size_t i = 0; i < s->fd_count; i++) {
        p->high[i] = fcntl(s->fds[i].parent, F_DUPFD_CLOEXEC, floor);
        if (p->high[i] < 0) {
            child_fail(p);
        }
    }
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < floor; fd++) {
        int source = fd <= 2 ? null_fd : -1;
        for (size_t i = 0; i < s->fd_count; i++) {
            source = s->fds[i].child == fd ? p->high[i] : source;
        }
        /* a null_fd below 3 is its own target: dup2 would leave it close-on-exec */
        if (source == fd ? fcntl(fd, F_SETFD, 0) < 0 : source >= 0 && dup2(source, fd) < 0) {
            child_fail(p);
        }
        if (source < 0) {
            (void)close(fd);
        }
    }
    /* what is left above dies at exec; close_range marks it even if an opener forgot O_CLOEXEC */
    (void)syscall(SYS_close_range, (unsigned)floor, ~0U, CLOSE_RANGE_CLOEXEC);
}

static int child_run(void *arg)
{
    struct child_plan *p = arg;
    child_descriptors(p);
    child_signals();
    if (!p->s->same_session) {
        (void)setsid();
    }
    (void)umask(022);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0) {
        child_fail(p);
    }
    if (getppid() != p->parent) { /* it died before the line above */
        _exit(127);
    }
    if (p->s->private_mounts && (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)) {
        child_fail(p);
    }
    if (p->s->cwd != NULL && chdir(p->s->cwd) < 0) {
        child_fail(p);
    }
    execve(p->s->program, p->s->argv, p->s->envp);
    child_fail(p);
}

/*
 * clone(2) with CLONE_VM | CLONE_VFORK, as posix_spawn(3) does: copying the page
 * tables of a large process would cost more than everything else. The caller is
 * suspended until the exec, so the child may use its memory but no lock.
 */
static pid_t clone_child(struct child_plan *plan, int *ret_pidfd)
{
    char *stack = xmalloc(SPAWN_STACK);
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* no handler of ours may run in the child */
    pid_t pid = clone(child_run, stack + SPAWN_STACK, CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, plan, ret_pidfd);
    int sys = errno;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    free(stack);
    errno = sys;
    return pid;
}

pid_t process_spawn(const struct spawn *s, int *ret_pidfd, struct orch_err *err)
{
    if (s->fd_count > SPAWN_FDS_MAX) {
        return err_set(err, ORCH_E_INTERNAL, "%zu descriptors for a child", s->fd_count);
    }
    struct child_plan plan = {.s = s, .parent = getpid()};
    int pidfd = -1; /* close-on-exec by itself */
    pid_t pid = clone_child(&plan, &pidfd);
    if (pid < 0) {
        return err_errno(err, ORCH_E_IO, "start a process");
    }
    if (plan.sys != 0) {
        (void)waitpid(pid, NULL, 0);
        fd_close(&pidfd);
        errno = plan.sys;
        return err_errno(err, plan.sys == ENOENT ? ORCH_E_NOT_FOUND : ORCH_E_IO, "start %s", s->program);
    }
    *ret_pidfd = pidfd;
    return pid;
}

/* ------------------------------------------------------------------ command runner */

struct running {
    const struct command *c;
    pid_t pid;
    int pidfd;
    int in; /* our ends */
    int out;
    int err;
    size_t written;
    struct buf out_bytes;
    struct buf err_bytes;
    int64_t deadline; /* 0: none */
};

static int make_pipe(int *ret_read, int *ret_write, struct orch_err *err)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0) {
        return err_errno(err, ORCH_E_IO, "pipe");
    }
    *ret_read = fds[0];
    *ret_write = fds[1];
    return 0;
}

static int start(struct running *r, struct orch_err *err)
{
    const struct command *c = r->c;
    AUTO_FD int child_in = -1;
    AUTO_FD int child_out = -1;
    AUTO_FD int child_err = -1;
    if (c->input != NULL) {
        TRY(make_pipe(&child_in, &r->in, err));
        (void)fcntl(r->in, F_SETFL, O_NONBLOCK);
    }
    if (c->output_fd <= 0) {
        TRY(make_pipe(&r->out, &child_out, err));
    }
    TRY(make_pipe(&r->err, &child_err, err));
    struct spawn_fd fds[3];
    size_t n = 0;
    if (c->input_fd > 0 || child_in >= 0) {
        fds[n++] = (struct spawn_fd){.child = 0, .parent = c->input_fd > 0 ? c->input_fd : child_in};
    }
    fds[n++] = (struct spawn_fd){.child = 1, .parent = c->output_fd > 0 ? c->output_fd : child_out};
    fds[n++] = (struct spawn_fd){.child = 2, .parent = child_err};
    struct spawn s = {
        .program = c->program, .argv = c->argv, .envp = c->envp, .cwd = c->cwd, .fds = fds, .fd_count = n};
    r->pid = process_spawn(&s, &r->pidfd, err);
    return r->pid < 0 ? (int)r->pid : 0;
}

/* write(2) to a pipe whose reader may have left: EPIPE, whatever this program does with SIGPIPE. */
static ssize_t write_quietly(int fd, const void *data, size_t len)
{
    sigset_t sigpipe;
    sigset_t before;
    sigset_t pending;
    sigemptyset(&sigpipe);
    sigaddset(&sigpipe, SIGPIPE);
    (void)sigpending(&pending);
    (void)pthread_sigmask(SIG_BLOCK, &sigpipe, &before);
    ssize_t n = write(fd, data, len);
    int sys = errno;
    if (n < 0 && sys == EPIPE && sigismember(&pending, SIGPIPE) == 0) {
        static const struct timespec now = {0};
        (void)sigtimedwait(&sigpipe, NULL, &now); /* the signal goes to this thread: take it away again */
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = sys;
    return n;
}

static void feed(struct running *r)
{
    const char *data = r->c->input;
    ssize_t n = write_quietly(r->in, data + r->written, r->c->input_len - r->written);
    if (n > 0) {
        r->written += (size_t)n;
    }
    if (r->written == r->c->input_len || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        fd_close(&r->in); /* done, or the reader left: both are its business */
    }
}

static void drain(int *fd, struct buf *into)
{
    char chunk[65536];
    ssize_t n = read(*fd, chunk, sizeof chunk);
    if (n > 0) {
        buf_add(into, chunk, (size_t)n);
    } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
        fd_close(fd);
    }
}

static int wait_ms(const struct running *r, bool exited, const struct clock *clock)
{
    if (exited) {
        return 0; /* after the exit only what is already in the pipes counts (bugs.md C3) */
    }
    if (r->deadline == 0) {
        return -1;
    }
    int64_t left = r->deadline - clock_mono_ns(clock);
    return left <= 0 ? 0 : (int)(left / NS_PER_MS > 1000000 ? 1000000 : left / NS_PER_MS + 1);
}

/* Pumps the pipes until the child is gone and its pipes are dry; returns false on timeout. */
static bool pump(struct running *r, const struct clock *clock)
{
    bool exited = false;
    for (;;) {
        struct pollfd p[4] = {
            {.fd = r->pidfd, .events = POLLIN},
            {.fd = r->in, .events = POLLOUT},
            {.fd = r->out, .events = POLLIN},
            {.fd = r->err, .events = POLLIN},
        };
        if (exited) {
            p[0].fd = -1;
        }
        int n = poll(p, 4, wait_ms(r, exited, clock));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return exited;
        }
        if (p[1].revents != 0) {
            feed(r);
        }
        if (p[2].revents != 0) {
            drain(&r->out, &r->out_bytes);
        }
        if (p[3].revents != 0) {
            drain(&r->err, &r->err_bytes);
        }
        exited = exited || p[0].revents != 0;
        if (exited && r->out < 0 && r->err < 0) {
            return true;
        }
        if (r->deadline != 0 && !exited && clock_mono_ns(clock) >= r->deadline) {
            return false;
        }
    }
}

/* SIGTERM, and time to act on it. */
static void ask(const struct running *r)
{
    struct pollfd p = {.fd = r->pidfd, .events = POLLIN};
    (void)kill(r->pid, SIGTERM);
    while (poll(&p, 1, (int)(COMMAND_PATIENCE_NS / NS_PER_MS)) < 0 && errno == EINTR) {
    }
}

static void reap(struct running *r, bool timed_out, struct command_result *ret)
{
    if (timed_out && r->c->asked_first) {
        ask(r);
    }
    /* the leader is still a zombie of ours, so its group id cannot have been reused */
    (void)kill(-r->pid, SIGKILL);
    int status = 0;
    pid_t got;
    do {
        got = wait4(r->pid, &status, 0, &ret->usage);
    } while (got < 0 && errno == EINTR);
    if (timed_out) {
        ret->end = END_TIMEOUT;
    } else if (got == r->pid && WIFEXITED(status)) {
        ret->end = END_EXITED;
        ret->code = WEXITSTATUS(status);
    } else if (got == r->pid && WIFSIGNALED(status)) {
        ret->end = END_SIGNALLED;
        ret->code = WTERMSIG(status);
    }
}

int command_run(const struct command *c, struct command_result *ret, struct orch_err *err)
{
    struct clock clock = clock_system();
    int64_t began = clock_mono_ns(&clock);
    struct running r = {.c = c, .pidfd = -1, .in = -1, .out = -1, .err = -1};
    size_t max = c->output_max > 0 ? c->output_max : 1;
    buf_init(&r.out_bytes, max);
    buf_init(&r.err_bytes, max);
    r.deadline = c->timeout_ns > 0 ? began + c->timeout_ns : 0;
    int code = start(&r, err);
    if (code >= 0) {
        struct command_result result = {.end = END_UNKNOWN};
        bool finished = pump(&r, &clock);
        reap(&r, !finished, &result);
        result.out_cut = r.out_bytes.overflow;
        result.err_cut = r.err_bytes.overflow;
        result.out = buf_take(&r.out_bytes, &result.out_len);
        result.err = buf_take(&r.err_bytes, &result.err_len);
        result.wall_ns = clock_mono_ns(&clock) - began;
        *ret = result;
    }
    buf_done(&r.out_bytes);
    buf_done(&r.err_bytes);
    fd_close(&r.pidfd);
    fd_close(&r.in);
    fd_close(&r.out);
    fd_close(&r.err);
    return code;
}

int command_check(const struct command_result *r, const char *what, struct orch_err *err)
{
    if (r->end == END_EXITED && r->code == 0) {
        return 0;
    }
    AUTO_BUF struct buf tail;
    buf_init(&tail, 400);
    size_t skip = r->err_len > 300 ? r->err_len - 300 : 0;
    buf_escaped(&tail, r->err + skip, r->err_len - skip, false);
    switch (r->end) {
    case END_EXITED:
        return err_set(err, ORCH_E_FAILED, "%s: exit status %d: %s", what, r->code, tail.data);
    case END_SIGNALLED:
        return err_set(err, ORCH_E_FAILED, "%s: killed by signal %d: %s", what, r->code, tail.data);
    case END_TIMEOUT:
        return err_set(err, ORCH_E_TIMEOUT, "%s: ran past its time limit", what);
    case END_UNKNOWN:
    case END_COUNT:
        break;
    }
    return err_set(err, ORCH_E_LOST, "%s: its end is unknown", what);
}

void command_result_done(struct command_result *r)
{
    free(r->out);
    free(r->err);
    *r = (struct command_result){0};
}
