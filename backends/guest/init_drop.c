/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/guest/init_drop.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Bounding first: it needs CAP_SETPCAP, which the change of uid takes away. */
static int drop_bounding(void)
{
    for (int cap = 0; cap <= 63; cap++) {
        int held = prctl(PR_CAPBSET_READ, cap);
        if (held < 0) {
            return errno == EINVAL ? 0 : -errno; /* past the last one of this kernel */
        }
        if (held == 1 && prctl(PR_CAPBSET_DROP, cap) < 0) {
            return -errno;
        }
    }
    return 0;
}

static int become(uid_t uid, gid_t gid)
{
    if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0) {
        return -errno;
    }
    return 0;
}

int drop_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

static int read_capabilities(int with_bounding, uint64_t *ret)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) < 0) {
        return -errno;
    }
    uint64_t all = data[0].effective | data[0].permitted | data[0].inheritable;
    all |= (uint64_t)(data[1].effective | data[1].permitted | data[1].inheritable) << 32;
    for (int cap = 0; cap <= 63 && with_bounding != 0; cap++) {
        all |= prctl(PR_CAPBSET_READ, cap) == 1 ? UINT64_C(1) << cap : 0;
    }
    *ret = all;
    return 0;
}

int drop_init(const struct control_spec *spec, struct control_hello *facts)
{
    /* Nobody but root, or who has a user namespace, may shrink the bounding set. No new privileges keep it idle:
     * nothing that is run can take a capability out of it (prctl(2), execve(2)). */
    int bounding = spec->switch_identity != 0 || spec->in_place == 0;
    int code = bounding != 0 ? drop_bounding() : 0;
    if (code == 0 && spec->switch_identity != 0) {
        code = become(spec->uid, spec->gid);
    }
    if (code == 0) {
        code = drop_capabilities();
    }
    if (code < 0) {
        return code;
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) {
        return -errno;
    }
    /* the change of uid cleared it; without a PID namespace the init must outlive its tree */
    if (spec->in_place == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) < 0) {
        return -errno;
    }
    facts->no_new_privileges = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
    facts->uid = (uint32_t)getuid();
    facts->gid = (uint32_t)getgid();
    facts->pid = (uint32_t)getpid();
    return read_capabilities(bounding, &facts->capabilities);
}

static int limit(__rlimit_resource_t which, uint64_t soft, uint64_t hard)
{
    struct rlimit now;
    if (getrlimit(which, &now) < 0) {
        return -errno;
    }
    struct rlimit to = {.rlim_cur = soft, .rlim_max = hard};
    if (now.rlim_max != RLIM_INFINITY && to.rlim_max > now.rlim_max) {
        to.rlim_max = now.rlim_max; /* already tighter: it cannot be raised and need not be */
    }
    if (to.rlim_cur > to.rlim_max) {
        to.rlim_cur = to.rlim_max;
    }
    return setrlimit(which, &to) < 0 ? -errno : 0;
}

static int set_limits(const struct control_call *call)
{
    const struct {
        __rlimit_resource_t which;
        uint64_t soft, hard;
    } limits[] = {
        {RLIMIT_DATA, call->memory, call->memory},        {RLIMIT_FSIZE, call->file, call->file},
        {RLIMIT_CPU, call->cpu_s, call->cpu_s + 1}, /* the soft one gives SIGXCPU, which tells the cause */
        {RLIMIT_NPROC, call->processes, call->processes}, {RLIMIT_NOFILE, call->nofile, call->nofile},
    };
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        int code = limits[i].soft == 0 ? 0 : limit(limits[i].which, limits[i].soft, limits[i].hard);
        if (code < 0) {
            return code;
        }
    }
    return limit(RLIMIT_CORE, 0, 0);
}

/* Landlock scopes and the system call filter belong here, after the limits and before exec. */
int drop_call(const struct control_call *call)
{
    (void)umask(022);
    struct sigaction defaults = {.sa_handler = SIG_DFL};
    for (int sig = 1; sig < NSIG; sig++) {
        (void)sigaction(sig, &defaults, NULL);
    }
    sigset_t none;
    (void)sigemptyset(&none);
    int sys = pthread_sigmask(SIG_SETMASK, &none, NULL);
    if (sys != 0 || setsid() < 0) {
        return sys != 0 ? -sys : -errno;
    }
    return set_limits(call);
}
