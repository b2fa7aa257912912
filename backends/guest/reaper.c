/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/guest/reaper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CANNOT_START = 126, LIST_MAX = 16384, PATIENCE_S = 1, ROUNDS = 30 };

static int say(const char *what)
{
    (void)dprintf(2, "%s: %s\n", what, strerrordesc_np(errno));
    return CANNOT_START;
}

static pid_t start(char **argv)
{
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid != 0) {
        return pid;
    }
    sigset_t none;
    (void)sigemptyset(&none);
    (void)pthread_sigmask(SIG_SETMASK, &none, NULL);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent) {
        (void)execve(argv[0], argv + 1, environ);
        (void)say(argv[0]);
    }
    _exit(CANNOT_START);
}

/* SIGKILL for every child; those of the killed become ours and are in the next list. */
static void kill_children(void)
{
    char path[64];
    char list[LIST_MAX];
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, list, sizeof list - 1);
    if (fd >= 0) {
        (void)close(fd);
    }
    list[n > 0 ? n : 0] = '\0';
    for (char *at = list; *at != '\0';) {
        char *end = at;
        long pid = strtol(at, &end, 10);
        if (end == at) {
            break;
        }
        (void)kill((pid_t)pid, SIGKILL);
        at = end + strspn(end, " ");
    }
}

/* Bounded: a process that the kernel cannot end does not keep the run. */
static void end_tree(const sigset_t *awaited)
{
    for (int round = 0; round < ROUNDS; round++) {
        kill_children();
        pid_t pid;
        while ((pid = waitpid(-1, NULL, WNOHANG | __WALL)) > 0) {
        }
        if (pid < 0 && errno == ECHILD) {
            return;
        }
        const struct timespec patience = {.tv_sec = PATIENCE_S};
        (void)sigtimedwait(awaited, NULL, &patience);
    }
}

/* Whether the program has ended; its orphans are taken in on the way. */
static int has_ended(pid_t program, int *status)
{
    int one;
    pid_t pid;
    int ended = 0;
    while ((pid = waitpid(-1, &one, WNOHANG | __WALL)) > 0) {
        if (pid == program) {
            *status = one;
            ended = 1;
        }
    }
    return ended;
}

static void end_as(int status) __attribute__((noreturn));
static void end_as(int status)
{
    if (WIFSIGNALED(status)) {
        const struct rlimit none = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        sigset_t one;
        (void)sigemptyset(&one);
        (void)sigaddset(&one, WTERMSIG(status));
        (void)signal(WTERMSIG(status), SIG_DFL);
        (void)raise(WTERMSIG(status));
        (void)pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    }
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : CANNOT_START);
}

int reaper_main(char **argv)
{
    if (argv[0] == NULL || argv[1] == NULL || argv[2] == NULL) {
        errno = EINVAL;
        return say("reap");
    }
    sigset_t awaited;
    (void)sigemptyset(&awaited);
    (void)sigaddset(&awaited, SIGCHLD);
    (void)sigaddset(&awaited, SIGTERM);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 || prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 ||
        pthread_sigmask(SIG_BLOCK, &awaited, NULL) != 0) {
        return say("reap");
    }
    if (getppid() != (pid_t)strtol(argv[0], NULL, 10)) {
        return CANNOT_START; /* it died before the line above */
    }
    pid_t program = start(argv + 1);
    if (program < 0) {
        return say("fork");
    }
    int status = 0;
    for (int ended = 0; ended == 0;) {
        int sig = sigwaitinfo(&awaited, NULL);
        if (sig == SIGTERM) {
            status = SIGKILL; /* as waitpid(2) tells it */
            break;
        }
        ended = has_ended(program, &status);
    }
    end_tree(&awaited);
    end_as(status);
}
