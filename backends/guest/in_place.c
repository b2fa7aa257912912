/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/guest/in_place.h"

#include "backends/guest/init_call.h"
#include "backends/guest/ruleset.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define FS_READ (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define FS_IOCTL_DEV (UINT64_C(1) << 15) /* ABI 5 */
#define NET_TCP UINT64_C(3)              /* ABI 4: to bind and to connect */

/* What a file, not a directory, may have. */
#define FILE_READ (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE)

static int say(const char *what)
{
    (void)dprintf(2, "%s: %s\n", what, strerrordesc_np(errno));
    return -1;
}

/* As root the sandbox's processes are another uid's: that one capability stays. */
static void keep_kill_only(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0, 0, 0}, {0, 0, 0}};
    if (geteuid() == 0) {
        data[0].effective = data[0].permitted = 1U << CAP_KILL;
    }
    (void)syscall(SYS_capset, &header, data);
}

static void guard(pid_t init) __attribute__((noreturn));
static void guard(pid_t init)
{
    sigset_t all;
    int status = 0;
    int one = 0;
    pid_t pid = 0;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, NULL);
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    keep_kill_only();
    (void)syscall(SYS_close_range, 0U, ~0U, 0);
    while (pid != init && (pid > 0 || errno != ECHILD)) {
        errno = 0;
        pid = waitpid(-1, &one, __WALL);
        status = pid == init ? one : status;
    }
    (void)kill_all();
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

/* A domain from which the parent, which could be signalled before, no longer can. */
static int scope_signals(void)
{
    /* REFER is denied by every domain that does not speak of it: allowed here, it is left to the call's */
    const struct ruleset_attr scopes = {.fs = LANDLOCK_ACCESS_FS_REFER, .scoped = RULESET_SCOPES};
    pid_t parent = getppid();
    if (kill(parent, 0) < 0) {
        return say("signal the parent");
    }
    int ruleset = ruleset_new(&scopes);
    if (ruleset < 0 || ruleset_allow(ruleset, "/", LANDLOCK_ACCESS_FS_REFER, 0) < 0 ||
        syscall(SYS_landlock_restrict_self, ruleset, 0) < 0) {
        return say("enter a Landlock domain");
    }
    (void)close(ruleset);
    if (kill(parent, 0) == 0 || errno != EPERM) {
        errno = ENOTRECOVERABLE;
        return say("a Landlock domain is on and does not scope signals");
    }
    return 0;
}

int in_place_enter(void)
{
    /* it dies after its tree, whatever becomes of the node */
    if (prctl(PR_SET_PDEATHSIG, 0) < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
        return say("prctl");
    }
    if (scope_signals() < 0) {
        return -1;
    }
    pid_t init = fork();
    if (init < 0) {
        return say("fork");
    }
    if (init > 0) {
        guard(init);
    }
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0) { /* not inherited */
        return say("prctl");
    }
    return scope_signals(); /* again: what kills all must not reach the guardian */
}

struct rules {
    int ruleset;
    uint64_t directory, file;
};

static int allow_all(const struct rules *r, const char *paths, size_t len)
{
    for (const char *p = paths; p < paths + len; p += strlen(p) + 1) {
        int code = ruleset_allow(r->ruleset, p, r->directory, r->file);
        if (code < 0) {
            (void)dprintf(2, "grant %.900s: %s (the sandbox's user must be able to reach it)\n", p,
                          strerrordesc_np(-code));
            return code;
        }
    }
    return 0;
}

int in_place_ruleset(int isolated, const char *writable, size_t writable_len, const char *readable, size_t readable_len)
{
    uint64_t change = (uint64_t)RULESET_FS_CHANGE | LANDLOCK_ACCESS_FS_REFER | RULESET_FS_TRUNCATE;
    const struct ruleset_attr attr = {
        .fs = change | (uint64_t)FS_READ | FS_IOCTL_DEV, .net = isolated != 0 ? NET_TCP : 0, .scoped = RULESET_SCOPES};
    struct rules write = {.directory = (change | (uint64_t)FS_READ) & ~(uint64_t)RULESET_FS_DEVICES,
                          .file = (uint64_t)RULESET_FS_FILE | (uint64_t)FILE_READ};
    struct rules read = {.directory = (uint64_t)FS_READ, .file = (uint64_t)FILE_READ};
    int ruleset = ruleset_new(&attr);
    if (ruleset < 0) {
        return ruleset;
    }
    write.ruleset = read.ruleset = ruleset;
    int code = allow_all(&write, writable, writable_len);
    code = code == 0 ? allow_all(&read, readable, readable_len) : code;
    if (code < 0) {
        (void)close(ruleset);
        return code;
    }
    return ruleset;
}

static int refused(int family)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        (void)close(fd);
    }
    return fd < 0 && errno == EAFNOSUPPORT;
}

/* The root directory is granted to nobody. */
int in_place_try(int isolated, int filtered)
{
    int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 || errno != EACCES) {
        return -ENOTRECOVERABLE;
    }
    bool held = filtered == 0 || (refused(AF_UNIX) && (isolated == 0 || refused(AF_INET)));
    return held ? 0 : -ENOTRECOVERABLE;
}
