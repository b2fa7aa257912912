/* SPDX-License-Identifier: Apache-2.0 */
/* A tool of the build: prints the filters of filter.h as C, for the machine it runs on. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])
#define LOW_32 UINT64_C(0xffffffff)
#define FAMILIES_KNOWN 45 /* AF_MCTP */

typedef scmp_filter_ctx filter;

/* Names libseccomp does not know yet have their number, the same on every architecture since Linux 5.1. */
static const struct {
    const char *name;
    int number; /* 0: by name */
    int error;
} refused[] = {
    /* another view of the machine (E34–E36) */
    {"setns", 0, EPERM},
    {"mount", 0, EPERM},
    {"umount2", 0, EPERM},
    {"pivot_root", 0, EPERM},
    {"chroot", 0, EPERM},
    {"open_tree", 0, EPERM},
    {"move_mount", 0, EPERM},
    {"fsopen", 0, EPERM},
    {"fsconfig", 0, EPERM},
    {"fsmount", 0, EPERM},
    {"fspick", 0, EPERM},
    {"mount_setattr", 442, EPERM},
    {"open_tree_attr", 467, EPERM},
    {"clone3", 0, ENOSYS}, /* its flags lie in memory: callers fall back to clone */
    /* kernel surface (E37–E39, E41, E45) */
    {"io_uring_setup", 0, ENOSYS},
    {"io_uring_enter", 0, ENOSYS},
    {"io_uring_register", 0, ENOSYS},
    {"userfaultfd", 0, EPERM},
    {"bpf", 0, EPERM},
    {"perf_event_open", 0, EPERM},
    {"syslog", 0, EPERM},
    {"name_to_handle_at", 0, EPERM},
    {"open_by_handle_at", 0, EPERM},
    {"fanotify_init", 0, EPERM},
    {"lookup_dcookie", 0, EPERM},
    {"uselib", 0, EPERM},
    {"_sysctl", 0, EPERM},
    {"kexec_load", 0, EPERM},
    {"kexec_file_load", 0, EPERM},
    {"init_module", 0, EPERM},
    {"finit_module", 0, EPERM},
    {"delete_module", 0, EPERM},
    /* keyrings (E11) */
    {"keyctl", 0, EPERM},
    {"add_key", 0, EPERM},
    {"request_key", 0, EPERM},
    /* other processes' memory and descriptors (E02) */
    {"process_vm_readv", 0, EPERM},
    {"process_vm_writev", 0, EPERM},
    {"pidfd_getfd", 0, EPERM},
    {"kcmp", 0, EPERM},
    /* the machine itself */
    {"acct", 0, EPERM},
    {"swapon", 0, EPERM},
    {"swapoff", 0, EPERM},
    {"reboot", 0, EPERM},
    {"quotactl", 0, EPERM},
    {"quotactl_fd", 443, EPERM},
    {"settimeofday", 0, EPERM},
    {"clock_settime", 0, EPERM},
    {"sethostname", 0, EPERM},
    {"setdomainname", 0, EPERM},
    {"iopl", 0, EPERM},
    {"ioperm", 0, EPERM},
    {"vhangup", 0, EPERM},
    /* its mode lies in memory and may hold setuid bits (E23); callers fall back to openat */
    {"openat2", 0, ENOSYS},
};

/* One rule; a call that this architecture does not have is none. */
static int add(filter f, const char *name, int number, int error, unsigned count, const struct scmp_arg_cmp *args)
{
    int nr = number > 0 ? number : seccomp_syscall_resolve_name(name);
    if (nr == __NR_SCMP_ERROR) {
        return 0;
    }
    int code = seccomp_rule_add_array(f, SCMP_ACT_ERRNO((uint32_t)error), nr, count, args);
    return code == -EDOM || code == -EOPNOTSUPP ? 0 : code;
}

static int refuse_calls(filter f)
{
    int code = 0;
    for (size_t i = 0; i < COUNT(refused) && code == 0; i++) {
        code = add(f, refused[i].name, refused[i].number, refused[i].error, 0, NULL);
    }
    return code;
}

/* Namespaces by flag: clone(2) has them in its first argument, as unshare(2) does. */
static int refuse_namespaces(filter f)
{
    static const uint64_t flags[] = {CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWPID,    CLONE_NEWNET,
                                     CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP, CLONE_NEWTIME};
    int code = 0;
    for (size_t i = 0; i < COUNT(flags) && code == 0; i++) {
        const struct scmp_arg_cmp has = SCMP_A0(SCMP_CMP_MASKED_EQ, flags[i], flags[i]);
        /* CLONE_NEWTIME is a bit of clone's exit signal */
        code = flags[i] == CLONE_NEWTIME ? 0 : add(f, "clone", 0, EPERM, 1, &has);
        code = code == 0 ? add(f, "unshare", 0, EPERM, 1, &has) : code;
    }
    return code;
}

struct variant {
    const char *name;
    bool unix_sockets;
    bool networks;     /* AF_INET, AF_INET6 and NETLINK_ROUTE */
    bool shared_kinds; /* the machine's IPC and processes are in reach */
};

static const struct variant variants[] = {
    {"filter_with_unix", true, true, false},
    {"filter_without_unix", false, true, false},
    {"filter_in_place", false, true, true},
    {"filter_in_place_isolated", false, false, true},
};

/* What a namespace of its own would keep apart: objects of System V and queues (E12), and limits of other processes of
 * the same user, for which Landlock has no scope. The caller's own are process 0. */
static int refuse_shared(filter f)
{
    static const char *const calls[] = {"shmget", "shmat",  "shmctl",     "msgget",  "msgsnd",    "msgrcv", "msgctl",
                                        "semget", "semctl", "semtimedop", "mq_open", "mq_unlink", "semop"};
    int code = 0;
    for (size_t i = 0; i < COUNT(calls) && code == 0; i++) {
        code = add(f, calls[i], 0, EPERM, 0, NULL);
    }
    const struct scmp_arg_cmp other = SCMP_A0(SCMP_CMP_NE, 0, 0);
    return code == 0 ? add(f, "prlimit64", 0, EPERM, 1, &other) : code;
}

static bool family_allowed(const struct variant *v, unsigned family)
{
    bool network = family == AF_INET || family == AF_INET6 || family == AF_NETLINK;
    return (family == AF_UNIX && v->unix_sockets) || (network && v->networks);
}

/* A family above the known ones, also by bits the kernel does not look at, is refused as well. */
static int refuse_families(filter f, const struct variant *v, const char *call)
{
    int code = 0;
    for (unsigned family = 0; family <= FAMILIES_KNOWN && code == 0; family++) {
        const struct scmp_arg_cmp is = SCMP_A0(SCMP_CMP_EQ, family, 0);
        code = family_allowed(v, family) ? 0 : add(f, call, 0, EAFNOSUPPORT, 1, &is);
    }
    const struct scmp_arg_cmp above = SCMP_A0(SCMP_CMP_GT, FAMILIES_KNOWN, 0);
    code = code == 0 ? add(f, call, 0, EAFNOSUPPORT, 1, &above) : code;
    if (!v->networks) {
        return code; /* netlink is refused as a whole */
    }
    const struct scmp_arg_cmp not_route[] = {SCMP_A0(SCMP_CMP_EQ, AF_NETLINK, 0), SCMP_A2(SCMP_CMP_NE, 0, 0)};
    return code == 0 ? add(f, call, 0, EAFNOSUPPORT, COUNT(not_route), not_route) : code;
}

/* Only the low 32 bits of the request count, in the kernel and here (CVE-2019-10063). */
static int refuse_terminal_input(filter f)
{
    static const uint64_t requests[] = {0x5412 /* TIOCSTI */, 0x541c /* TIOCLINUX */, 0x5423 /* TIOCSETD */};
    int code = 0;
    for (size_t i = 0; i < COUNT(requests) && code == 0; i++) {
        const struct scmp_arg_cmp is = SCMP_A1(SCMP_CMP_MASKED_EQ, LOW_32, requests[i]);
        code = add(f, "ioctl", 0, EPERM, 1, &is);
    }
    return code;
}

/* `extra` != NULL: only with these flags, which is when the call looks at its mode. */
static int refuse_mode_bits(filter f, const char *name, int number, unsigned mode_arg, const struct scmp_arg_cmp *extra)
{
    static const uint64_t bits[] = {S_ISUID, S_ISGID};
    int code = 0;
    for (size_t i = 0; i < COUNT(bits) && code == 0; i++) {
        const struct scmp_arg_cmp args[] = {SCMP_CMP64(mode_arg, SCMP_CMP_MASKED_EQ, bits[i], bits[i]),
                                            extra != NULL ? *extra : (struct scmp_arg_cmp){0}};
        code = add(f, name, number, EPERM, extra != NULL ? 2 : 1, args);
    }
    return code;
}

static int refuse_setid(filter f)
{
    static const struct {
        const char *name;
        unsigned mode_arg;
        int number;
    } calls[] = {{"chmod", 1, 0},   {"fchmod", 1, 0}, {"fchmodat", 2, 0}, {"fchmodat2", 2, 452}, {"mkdir", 1, 0},
                 {"mkdirat", 2, 0}, {"mknod", 1, 0},  {"mknodat", 2, 0},  {"creat", 1, 0}};
    static const uint64_t creates[] = {O_CREAT, O_TMPFILE & ~O_DIRECTORY};
    int code = 0;
    for (size_t i = 0; i < COUNT(calls) && code == 0; i++) {
        code = refuse_mode_bits(f, calls[i].name, calls[i].number, calls[i].mode_arg, NULL);
    }
    for (size_t i = 0; i < COUNT(creates) && code == 0; i++) {
        const struct scmp_arg_cmp open_flags = SCMP_A1(SCMP_CMP_MASKED_EQ, creates[i], creates[i]);
        const struct scmp_arg_cmp openat_flags = SCMP_A2(SCMP_CMP_MASKED_EQ, creates[i], creates[i]);
        code = refuse_mode_bits(f, "open", 0, 2, &open_flags);
        code = code == 0 ? refuse_mode_bits(f, "openat", 0, 3, &openat_flags) : code;
    }
    return code;
}

static int make_all(filter f, const struct variant *v)
{
    static const struct variant pairs = {.unix_sockets = true, .networks = true};
    /* checked before anything else; x32 counts as another architecture */
    int code = seccomp_attr_set(f, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
    code = code == 0 ? seccomp_attr_set(f, SCMP_FLTATR_CTL_OPTIMIZE, 2) : code;
    code = code == 0 ? refuse_calls(f) : code;
    code = code == 0 ? refuse_namespaces(f) : code;
    code = code == 0 ? refuse_families(f, v, "socket") : code;
    code = code == 0 ? refuse_families(f, &pairs, "socketpair") : code;
    code = code == 0 && v->shared_kinds ? refuse_shared(f) : code;
    code = code == 0 ? refuse_terminal_input(f) : code;
    return code == 0 ? refuse_setid(f) : code;
}

static int print_filter(const struct variant *v)
{
    filter f = seccomp_init(SCMP_ACT_ALLOW);
    int memfd = memfd_create("filter", MFD_CLOEXEC);
    int code = f == NULL || memfd < 0 ? -ENOMEM : make_all(f, v);
    code = code == 0 ? seccomp_export_bpf(f, memfd) : code;
    if (f != NULL) {
        seccomp_release(f);
    }
    if (code < 0 || lseek(memfd, 0, SEEK_SET) < 0) {
        (void)fprintf(stderr, "filter_make: %s\n", strerrordesc_np(-code));
        return 1;
    }
    (void)printf("static const struct sock_filter %s[] = {\n", v->name);
    struct sock_filter one;
    while (read(memfd, &one, sizeof one) == (ssize_t)sizeof one) {
        (void)printf("    {0x%04x, %u, %u, 0x%08x},\n", one.code, one.jt, one.jf, one.k);
    }
    (void)printf("};\n");
    (void)close(memfd);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 2 || freopen(argv[1], "w", stdout) == NULL) {
        (void)fprintf(stderr, "usage: filter_make FILE\n");
        return 2;
    }
    (void)printf("/* Made by filter_make. */\n");
    int failed = 0;
    for (size_t i = 0; i < COUNT(variants); i++) {
        failed += print_filter(&variants[i]);
    }
    return failed == 0 && fflush(stdout) == 0 ? 0 : 1;
}
