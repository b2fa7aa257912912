/* SPDX-License-Identifier: Apache-2.0 */
/* What is inherited, and the kernel's surface. */
#include "backends/guest/probe.h"

#include <fcntl.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- inherited ---- */

int probe_descriptor(const struct fixture *f)
{
    char byte;
    return probe_result(pread(f->descriptor, &byte, 1, 0));
}

int probe_variable(const struct fixture *f)
{
    return getenv(f->variable) != NULL ? 0 : ENOENT; /* NOLINT(concurrency-mt-unsafe): one thread */
}

int probe_session_key(const struct fixture *f)
{
    return probe_result(syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_SESSION_KEYRING, "user", f->key, 0));
}

int probe_make_key(const struct fixture *f)
{
    (void)f;
    return probe_result(syscall(SYS_add_key, "user", "orch-probe", "x", 1UL, KEY_SPEC_PROCESS_KEYRING));
}

int probe_request_key_call(const struct fixture *f)
{
    (void)f;
    return probe_result(syscall(SYS_request_key, "user", "orch-probe-absent", NULL, 0));
}

int probe_shared_memory(const struct fixture *f)
{
    void *at = shmat(f->shared, NULL, SHM_RDONLY);
    return at == (void *)-1 ? errno : 0; // NOLINT(performance-no-int-to-ptr): as shmat(2) says it
}

int probe_message_queue(const struct fixture *f)
{
    return probe_result(syscall(SYS_mq_open, f->queue, O_RDONLY, 0, NULL)); /* without the slash: the system call */
}

int probe_ignored_signals(const struct fixture *f)
{
    (void)f;
    sigset_t blocked;
    (void)sigemptyset(&blocked);
    (void)sigprocmask(SIG_SETMASK, NULL, &blocked); /* NOLINT(concurrency-mt-unsafe): one thread */
    for (int sig = 1; sig < 32; sig++) {
        struct sigaction now;
        if (sigismember(&blocked, sig) == 1 || (sigaction(sig, NULL, &now) == 0 && now.sa_handler == SIG_IGN)) {
            return 0;
        }
    }
    return ENOENT;
}

int probe_loose_umask(const struct fixture *f)
{
    (void)f;
    return umask(077) == 022 ? EPERM : 0;
}

int probe_dump_core(const struct fixture *f)
{
    struct rlimit r;
    (void)f;
    return getrlimit(RLIMIT_CORE, &r) == 0 && r.rlim_max == 0 ? EFBIG : 0;
}

/* ---- mounts; outside in a namespace of its own ---- */

int probe_mount_tmpfs(const struct fixture *f)
{
    return probe_result(mount("tmpfs", f->output, "tmpfs", 0, NULL));
}

int probe_remount(const struct fixture *f)
{
    if (!f->inside && mount("/usr", "/usr", NULL, MS_BIND, NULL) < 0) {
        return EIO; /* outside it has to be a mount first */
    }
    return probe_result(mount(NULL, "/usr", NULL, MS_REMOUNT | MS_BIND, NULL));
}

int probe_unmount(const struct fixture *f)
{
    if (!f->inside && mount("/usr", "/usr", NULL, MS_BIND, NULL) < 0) {
        return EIO;
    }
    return probe_result(umount2("/usr", MNT_DETACH));
}

int probe_pivot(const struct fixture *f)
{
    if (!f->inside && mount("tmpfs", f->output, "tmpfs", 0, NULL) < 0) {
        return EIO;
    }
    return probe_result(syscall(SYS_pivot_root, f->output, f->output));
}

int probe_change_root(const struct fixture *f)
{
    return probe_result(chroot(f->output));
}

int probe_open_tree_call(const struct fixture *f)
{
    return probe_result(syscall(SYS_open_tree, AT_FDCWD, f->output, 1U /* OPEN_TREE_CLONE */));
}

int probe_move_mount_call(const struct fixture *f)
{
    (void)f;
    return probe_result(syscall(SYS_move_mount, -1, "", -1, "", 0)); /* outside: its arguments are wrong */
}

int probe_fsopen_call(const struct fixture *f)
{
    (void)f;
    return probe_result(syscall(SYS_fsopen, "tmpfs", 0));
}

int probe_mount_setattr_call(const struct fixture *f)
{
    (void)f;
    return probe_result(syscall(SYS_mount_setattr, -1, "", 0, NULL, 0UL));
}

/* ---- calls ---- */

int probe_io_uring(const struct fixture *f)
{
    char parameters[120] = {0}; /* struct io_uring_params */
    (void)f;
    return probe_result(syscall(SYS_io_uring_setup, 1, parameters));
}

int probe_userfault(const struct fixture *f)
{
    (void)f;
    return probe_result(syscall(SYS_userfaultfd, 1 /* UFFD_USER_MODE_ONLY */));
}

int probe_bpf_call(const struct fixture *f)
{
    char attributes[72] = {0};
    (void)f;
    return probe_result(syscall(SYS_bpf, 0, attributes, sizeof attributes));
}

int probe_perf_call(const struct fixture *f)
{
    (void)f;
    return probe_result(syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0));
}

int probe_second_abi(const struct fixture *f)
{
    (void)f;
#if defined(__x86_64__)
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(20L) : "memory", "r8", "r9", "r10", "r11"); /* getpid */
    return (int)result < 0 ? -(int)result : 0;
#else
    return ENOSYS;
#endif
}

int probe_x32_abi(const struct fixture *f)
{
    (void)f;
    return probe_result(syscall(0x40000000L + SYS_getpid));
}

int probe_kernel_log(const struct fixture *f)
{
    (void)f;
    return probe_result(klogctl(10 /* SYSLOG_ACTION_SIZE_BUFFER */, NULL, 0));
}

int probe_kmsg(const struct fixture *f)
{
    (void)f;
    return access("/dev/kmsg", F_OK) == 0 ? 0 : errno;
}

int probe_core_pattern(const struct fixture *f)
{
    (void)f;
    return probe_open("/proc/sys/kernel/core_pattern", O_WRONLY, 0);
}

int probe_sysrq(const struct fixture *f)
{
    (void)f;
    return probe_open("/proc/sysrq-trigger", O_WRONLY, 0);
}

int probe_memory_device(const struct fixture *f)
{
    (void)f;
    return access("/dev/mem", F_OK) == 0 ? 0 : errno;
}

/* Any device of a disk: the machine has some, or the check is skipped. */
int probe_disk_device(const struct fixture *f)
{
    static const char *const disks[] = {"/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/xvda", "/dev/loop0", "/dev/fuse"};
    (void)f;
    for (size_t i = 0; i < sizeof disks / sizeof disks[0]; i++) {
        if (access(disks[i], F_OK) == 0) {
            return 0;
        }
    }
    return ENOENT;
}

int probe_load_module(const struct fixture *f)
{
    (void)f;
    return probe_result(syscall(SYS_finit_module, -1, "", 0));
}

int probe_load_kernel(const struct fixture *f)
{
    (void)f;
    return probe_result(syscall(SYS_kexec_load, 0UL, 17UL, NULL, ~0UL)); /* outside: its flags are wrong */
}

static int type_into_terminal(unsigned long request)
{
    int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    int number = 0;
    int unlock = 0;
    char path[32];
    if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0 || ioctl(master, TIOCGPTN, &number) < 0) {
        return ENODEV;
    }
    (void)snprintf(path, sizeof path, "/dev/pts/%d", number);
    (void)setsid();
    int terminal = open(path, O_RDWR | O_CLOEXEC);
    if (terminal < 0) {
        return ENODEV;
    }
    (void)ioctl(terminal, TIOCSCTTY, 0);
    return probe_result(syscall(SYS_ioctl, terminal, request, "x"));
}

int probe_terminal_input(const struct fixture *f)
{
    (void)f;
    return type_into_terminal(TIOCSTI);
}

int probe_terminal_input_high(const struct fixture *f)
{
    (void)f;
    return type_into_terminal(TIOCSTI | (1UL << 32));
}
