/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/guest/probe.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static char *of_process(char *to, pid_t pid, const char *what)
{
    (void)snprintf(to, 64, "/proc/%d/%s", (int)pid, what);
    return to;
}

/* Outside, a process of the caller's own stands for the sandbox's first one. */
static pid_t first(const struct fixture *f)
{
    return f->inside ? 1 : f->process;
}

static int attach(pid_t pid)
{
    if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0) {
        return errno;
    }
    (void)ptrace(PTRACE_DETACH, pid, NULL, NULL);
    return 0;
}

int probe_own_child(const struct fixture *f)
{
    (void)f;
    pid_t pid = fork();
    if (pid == 0) {
        (void)pause();
        _exit(0);
    }
    int code = attach(pid);
    code = code == 0 ? probe_result(kill(pid, SIGKILL)) : code;
    (void)waitpid(pid, NULL, 0);
    return code;
}

int probe_own_process(const struct fixture *f)
{
    (void)f;
    return probe_open("/proc/self/environ", O_RDONLY, 0);
}

int probe_see_process(const struct fixture *f)
{
    char path[64];
    struct stat st;
    return probe_result(stat(of_process(path, f->process, "status"), &st));
}

int probe_walk_process_root(const struct fixture *f)
{
    char path[64];
    return probe_open(of_process(path, f->process, "root/"), O_RDONLY | O_DIRECTORY, 0);
}

int probe_signal_process(const struct fixture *f)
{
    return probe_result(kill(f->process, 0));
}

int probe_trace_process(const struct fixture *f)
{
    return attach(f->process);
}

static int vm_call(long number, pid_t pid)
{
    char byte = 0;
    struct iovec iov = {&byte, 1};
    return probe_result(syscall(number, pid, &iov, 1UL, &iov, 1UL, 0UL));
}

/* Outside on itself, where it may. */
int probe_read_process(const struct fixture *f)
{
    return vm_call(SYS_process_vm_readv, f->inside ? f->process : getpid());
}

int probe_write_process(const struct fixture *f)
{
    return vm_call(SYS_process_vm_writev, f->inside ? f->process : getpid());
}

int probe_take_descriptor(const struct fixture *f)
{
    (void)f;
    int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    return pidfd < 0 ? EIO : probe_result(syscall(SYS_pidfd_getfd, pidfd, 1, 0));
}

int probe_compare_process(const struct fixture *f)
{
    (void)f;
    return probe_result(syscall(SYS_kcmp, getpid(), getpid(), 0, 0, 1));
}

int probe_first_environ(const struct fixture *f)
{
    char path[64];
    return probe_open(of_process(path, first(f), "environ"), O_RDONLY, 0);
}

int probe_first_memory(const struct fixture *f)
{
    char path[64];
    return probe_open(of_process(path, first(f), "mem"), O_RDONLY, 0);
}

int probe_first_program(const struct fixture *f)
{
    char path[64];
    char to[256];
    return probe_result(readlink(of_process(path, first(f), "exe"), to, sizeof to));
}

int probe_first_descriptors(const struct fixture *f)
{
    char path[64];
    return probe_open(of_process(path, first(f), "fd"), O_RDONLY | O_DIRECTORY, 0);
}

int probe_first_trace(const struct fixture *f)
{
    return attach(first(f));
}

int probe_first_signal(const struct fixture *f)
{
    return probe_result(kill(first(f), 0));
}

/* ---- namespaces ---- */

int probe_namespace_user(const struct fixture *f)
{
    (void)f;
    return probe_result(unshare(CLONE_NEWUSER));
}

int probe_namespace_user_clone(const struct fixture *f)
{
    (void)f;
    long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, 0UL);
    if (pid == 0) {
        _exit(0);
    }
    return probe_result(pid);
}

int probe_namespace_mount(const struct fixture *f)
{
    (void)f;
    return probe_result(unshare(CLONE_NEWNS));
}

int probe_namespace_network(const struct fixture *f)
{
    (void)f;
    return probe_result(unshare(CLONE_NEWNET));
}

int probe_namespace_process(const struct fixture *f)
{
    (void)f;
    return probe_result(unshare(CLONE_NEWPID));
}

int probe_namespace_ipc(const struct fixture *f)
{
    (void)f;
    return probe_result(unshare(CLONE_NEWIPC));
}

int probe_namespace_name(const struct fixture *f)
{
    (void)f;
    return probe_result(unshare(CLONE_NEWUTS));
}

int probe_namespace_group(const struct fixture *f)
{
    (void)f;
    return probe_result(unshare(CLONE_NEWCGROUP));
}

int probe_namespace_join(const struct fixture *f)
{
    (void)f;
    int fd = open("/proc/self/ns/uts", O_RDONLY | O_CLOEXEC);
    return fd < 0 ? EIO : probe_result(setns(fd, CLONE_NEWUTS));
}

int probe_clone3_call(const struct fixture *f)
{
    (void)f;
    return probe_result(syscall(SYS_clone3, NULL, 0));
}

/* ---- privileges ---- */

int probe_is_root(const struct fixture *f)
{
    (void)f;
    return getuid() == 0 || geteuid() == 0 || getgid() == 0 ? 0 : EPERM;
}

int probe_has_capability(const struct fixture *f)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    (void)f;
    if (syscall(SYS_capget, &header, data) < 0) {
        return errno;
    }
    int may_gain = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1; /* by running a program, out of the bounding set */
    for (int cap = 0; cap <= 40 && may_gain != 0; cap++) {
        if (prctl(PR_CAPBSET_READ, cap) == 1) {
            return 0;
        }
    }
    return (data[0].effective | data[0].permitted | data[1].effective | data[1].permitted) != 0 ? 0 : EPERM;
}

int probe_gains_privileges(const struct fixture *f)
{
    (void)f;
    return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? EPERM : 0;
}

int probe_read_owned_by_root(const struct fixture *f)
{
    char path[FIXTURE_PATH_MAX + 64];
    return probe_open(probe_path(path, f->readable, "root-only"), O_RDONLY, 0);
}
