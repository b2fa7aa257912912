/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/guest/probe_step.h"

#include "backends/guest/launch_mount.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* A step's answer: 0, or an errno and what gave it. */
struct answer {
    int sys;
    const char *what;
    long detail;
};

static struct answer failed(const char *what)
{
    return (struct answer){.sys = errno != 0 ? errno : EIO, .what = what};
}

static const struct answer works = {.sys = 0, .what = "works"};

static int put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    ssize_t n = write(fd, text, strlen(text));
    int sys = errno;
    (void)close(fd);
    errno = sys;
    return n < 0 ? -1 : 0;
}

static struct answer user_namespace(void)
{
    return unshare(CLONE_NEWUSER) < 0 ? failed("unshare user namespace") : works;
}

static struct answer uid_map(void)
{
    char uids[48];
    char gids[48];
    (void)snprintf(uids, sizeof uids, "%u %u 1", getuid(), getuid());
    (void)snprintf(gids, sizeof gids, "%u %u 1", getgid(), getgid());
    struct answer a = user_namespace();
    if (a.sys != 0) {
        return a;
    }
    if (put("/proc/self/setgroups", "deny") < 0) {
        return failed("write setgroups");
    }
    if (put("/proc/self/uid_map", uids) < 0) {
        return failed("write uid_map");
    }
    return put("/proc/self/gid_map", gids) < 0 ? failed("write gid_map") : works;
}

/* In the mapped user namespace, with further ones. */
static struct answer with_namespaces(int flags, const char *what)
{
    struct answer a = uid_map();
    if (a.sys != 0) {
        return a;
    }
    return unshare(flags) < 0 ? failed(what) : works;
}

static struct answer mount_namespace(void)
{
    struct answer a = with_namespaces(CLONE_NEWNS, "unshare mount namespace");
    if (a.sys == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
        a = failed("make / private");
    }
    return a;
}

static struct answer mount_tmpfs(void)
{
    struct answer a = mount_namespace();
    if (a.sys == 0 && mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755") < 0) {
        a = failed("mount tmpfs");
    }
    return a;
}

static struct answer mount_calls(void)
{
    struct answer a = mount_namespace();
    if (a.sys != 0) {
        return a;
    }
    long fs = syscall(SYS_fsopen, "tmpfs", 1U); /* FSOPEN_CLOEXEC */
    if (fs < 0) {
        return failed("fsopen tmpfs");
    }
    (void)close((int)fs);
    errno = 0;
    return launch_mount_probe() < 0 ? failed("make a tmpfs by descriptor") : works;
}

static struct answer proc(void)
{
    struct answer a = mount_namespace();
    if (a.sys == 0 && unshare(CLONE_NEWPID) < 0) {
        return failed("unshare PID namespace");
    }
    if (a.sys != 0) {
        return a;
    }
    pid_t pid = fork();
    if (pid < 0) {
        return failed("fork into the PID namespace");
    }
    if (pid == 0) { /* its errno is its status: all that matter here are below 256 */
        _exit(mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0 ? errno : 0);
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    errno = WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
    return errno != 0 ? failed("mount /proc") : works;
}

static struct answer network(void)
{
    struct answer a = with_namespaces(CLONE_NEWNET, "unshare network namespace");
    if (a.sys != 0) {
        return a;
    }
    struct ifreq r = {.ifr_flags = IFF_UP | IFF_RUNNING};
    memcpy(r.ifr_name, "lo", sizeof "lo");
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return failed("socket");
    }
    a = ioctl(fd, SIOCSIFFLAGS, &r) < 0 ? failed("raise the loopback interface") : works;
    (void)close(fd);
    return a;
}

static struct answer no_user_namespaces(void)
{
    struct answer a = uid_map();
    if (a.sys != 0) {
        return a;
    }
    if (put("/proc/sys/user/max_user_namespaces", "0") < 0) {
        return failed("write max_user_namespaces");
    }
    if (unshare(CLONE_NEWUSER) == 0) {
        errno = ENOTRECOVERABLE;
        return failed("a further user namespace could be made");
    }
    return works;
}

/* One call gets an errno that the kernel itself never gives for it: then the filter is on, and holds. */
static struct answer seccomp(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOTNAM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
        return failed("prctl no new privileges");
    }
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0) {
        return failed("load a filter");
    }
    if (syscall(SYS_getppid) >= 0 || errno != ENOTNAM) {
        errno = ENOTRECOVERABLE;
        return failed("a filter was loaded and does not hold");
    }
    return works;
}

static struct answer landlock(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    struct answer a = abi < 0 ? failed("ask for the ABI") : works;
    a.detail = abi;
    return a;
}

int probe_step_main(const char *name)
{
    static const char *const names[] = {
#define X(id, word) [PROBE_STEP_##id] = (word),
        PROBE_STEPS(X)
#undef X
    };
    static struct answer (*const tries[])(void) = {
        [PROBE_STEP_USER_NAMESPACE] = user_namespace,
        [PROBE_STEP_UID_MAP] = uid_map,
        [PROBE_STEP_MOUNT] = mount_tmpfs,
        [PROBE_STEP_MOUNT_CALLS] = mount_calls,
        [PROBE_STEP_PROC] = proc,
        [PROBE_STEP_NETWORK] = network,
        [PROBE_STEP_NO_USER_NAMESPACES] = no_user_namespaces,
        [PROBE_STEP_SECCOMP] = seccomp,
        [PROBE_STEP_LANDLOCK] = landlock,
    };
    for (size_t i = 0; i < PROBE_STEP_COUNT; i++) {
        if (strcmp(names[i], name) == 0) {
            struct answer a = tries[i]();
            (void)(a.sys == 0 ? dprintf(1, "0 %ld\n", a.detail) : dprintf(1, "%d %s\n", a.sys, a.what));
            return a.sys != 0;
        }
    }
    return 2;
}
