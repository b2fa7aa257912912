/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/guest/launch.h"

#include "backends/guest/control.h"
#include "backends/guest/init_drop.h"
#include "backends/guest/launch_mount.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int say(const char *what)
{
    (void)dprintf(2, "%s: %s\n", what, strerrordesc_np(errno));
    return -1;
}

/* ---- the user namespace ---- */

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

/* One id, the caller's own, and no namespace below it: nobody inside has the capability to raise the limit again. */
static int own_user_namespace(void)
{
    char uids[48];
    char gids[48];
    (void)snprintf(uids, sizeof uids, "%u %u 1", getuid(), getuid());
    (void)snprintf(gids, sizeof gids, "%u %u 1", getgid(), getgid());
    if (unshare(CLONE_NEWUSER) < 0) {
        return say("make a user namespace");
    }
    if (put("/proc/self/setgroups", "deny") < 0 || put("/proc/self/uid_map", uids) < 0 ||
        put("/proc/self/gid_map", gids) < 0) {
        return say("map the ids of a user namespace");
    }
    return put("/proc/sys/user/max_user_namespaces", "0") < 0 ? say("forbid further user namespaces") : 0;
}

/* ---- the new process ---- */

static int raise_loopback(void)
{
    struct ifreq r = {.ifr_flags = IFF_UP | IFF_RUNNING};
    memcpy(r.ifr_name, "lo", sizeof "lo");
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int code = fd < 0 || ioctl(fd, SIOCSIFFLAGS, &r) < 0 ? say("raise the loopback interface") : 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    return code;
}

/* The old root goes with everything that hung on it: pivot_root(2), "pivot_root(".", ".")". */
static int enter(int root)
{
    if (fchdir(root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0) {
        return say("enter the new root");
    }
    return 0;
}

static int build(const struct launch_plan *plan, const char *steps, size_t len)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || setsid() < 0) {
        return say("leave the session");
    }
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
        return say("make the mounts private");
    }
    if (sethostname(plan->hostname, strnlen(plan->hostname, sizeof plan->hostname)) < 0) {
        return say("set the host name");
    }
    if (!plan->share_network && raise_loopback() < 0) {
        return -1;
    }
    int root = launch_mount_all(plan->step_count, steps, len);
    if (root < 0) {
        return -1;
    }
    int code = enter(root);
    (void)close(root);
    return code;
}

/* Between the node and PID 1 stands this process, as PID 1 of a namespace needs a parent that reaps it. It holds
 * nothing: no descriptor but its standard ones, no capability. */
static void wait_for(pid_t pid) __attribute__((noreturn));
static void wait_for(pid_t pid)
{
    (void)syscall(SYS_close_range, 3U, ~0U, 0);
    (void)close(2); /* end of file there: the mechanism has nothing more to say */
    (void)drop_capabilities();
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static pid_t clone_namespaces(bool share_network)
{
    unsigned long flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP | SIGCHLD;
    flags |= share_network ? 0 : (unsigned long)CLONE_NEWNET;
    /* as fork(2), which takes no flags: the child goes on with a copy of this stack */
    return (pid_t)syscall(SYS_clone, flags, NULL, NULL, NULL, 0UL);
}

static int read_plan(const char **ret, size_t *ret_len)
{
    struct stat st;
    if (fstat(LAUNCH_FD_PLAN, &st) < 0 || st.st_size < (off_t)sizeof(struct launch_plan) ||
        st.st_size > (off_t)LAUNCH_PLAN_MAX) {
        errno = EPROTO;
        return say("read the plan");
    }
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, LAUNCH_FD_PLAN, 0);
    if (p == MAP_FAILED) {
        return say("read the plan");
    }
    *ret = p;
    *ret_len = (size_t)st.st_size;
    return 0;
}

int launch(void)
{
    const char *text = NULL;
    size_t len = 0;
    struct launch_plan plan;
    if (read_plan(&text, &len) < 0) {
        return -1;
    }
    memcpy(&plan, text, sizeof plan);
    if (plan.named_identity == 0 && own_user_namespace() < 0) {
        return -1;
    }
    if (plan.named_identity != 0 && setns(LAUNCH_FD_USERNS, CLONE_NEWUSER) < 0) {
        return say("join the user namespace");
    }
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0) { /* the change of credentials cleared it */
        return say("prctl");
    }
    pid_t pid = clone_namespaces(plan.share_network != 0);
    if (pid < 0) {
        return say("make the namespaces");
    }
    if (pid > 0) {
        wait_for(pid);
    }
    int code = build(&plan, text + sizeof plan, len - sizeof plan);
    (void)munmap((void *)(uintptr_t)text, len);
    return code;
}

int launch_probe(void)
{
    if (geteuid() != 0 && own_user_namespace() < 0) {
        return -1;
    }
    pid_t pid = clone_namespaces(false);
    if (pid < 0) {
        return say("make the namespaces");
    }
    if (pid == 0) {
        _exit(raise_loopback() == 0 && launch_mount_probe() == 0 ? 0 : 1);
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}
