/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/diagnosis.h"

#include "base/mem.h"

#include <errno.h>

const char *const diagnosis_step_names[] = {
#define X(id, name) name,
    DIAGNOSIS_STEPS(X)
#undef X
        NULL};

/* ---- facts as conditions ---- */

#define FACT(name, expression)                                                                                         \
    static bool name(const struct machine *m)                                                                          \
    {                                                                                                                  \
        return expression;                                                                                             \
    }
FACT(is_wsl1, m->wsl == 1)
FACT(no_user_namespaces_left, m->max_user_namespaces == 0)
FACT(no_net_namespaces_left, m->max_net_namespaces == 0)
FACT(clone_switched_off, m->userns_clone == 0)
FACT(apparmor_restricts, m->apparmor_restrict > 0)
FACT(selinux_enforces, m->selinux_enforcing > 0)
FACT(kubernetes, m->container == MACHINE_KUBERNETES)
FACT(kubernetes_filtered, m->container == MACHINE_KUBERNETES && m->seccomp == 2)
FACT(container_filtered, m->container != MACHINE_NO_CONTAINER && m->seccomp == 2)
FACT(container_profiled, m->container != MACHINE_NO_CONTAINER && m->apparmor_confined == 1)
FACT(container, m->container != MACHINE_NO_CONTAINER)
FACT(filtered, m->seccomp == 2)
FACT(kubernetes_masked, m->container == MACHINE_KUBERNETES && m->proc_masked == 1)
FACT(masked, m->proc_masked == 1)
FACT(proc_sys_read_only, m->proc_sys_read_only == 1)
FACT(before_5_12,
     m->kernel_major != MACHINE_UNKNOWN && (m->kernel_major < 5 || (m->kernel_major == 5 && m->kernel_minor < 12)))
FACT(before_5_13,
     m->kernel_major != MACHINE_UNKNOWN && (m->kernel_major < 5 || (m->kernel_major == 5 && m->kernel_minor < 13)))
FACT(landlock_unlisted, m->landlock_listed == 0)
FACT(no_groups, m->cgroup_version == 0)
FACT(groups_read_only, m->cgroup_read_only == 1)
FACT(first_version, m->cgroup_version == 1)
FACT(few_ids, m->mapped_ids >= 0 && m->mapped_ids < INT64_C(4294967295))

/* ---- the table ---- */

#define STEP(id) (1u << DIAGNOSIS_##id)
#define NAMESPACES                                                                                                     \
    (STEP(USER_NAMESPACE) | STEP(UID_MAP) | STEP(MOUNT) | STEP(MOUNT_CALLS) | STEP(PROC) | STEP(NETWORK) |             \
     STEP(NO_USER_NAMESPACES))

#define APPARMOR_REMEDY                                                                                                \
    "give the one program a profile instead of switching the restriction off: `abi <abi/4.0>, include "                \
    "<tunables/global> profile orch-init PATH/orch-init flags=(unconfined) { userns, }` in "                           \
    "/etc/apparmor.d/orch-init, then `apparmor_parser -r /etc/apparmor.d/orch-init`"
#define DOCKER_FILTER_REMEDY                                                                                           \
    "start the container with `--security-opt seccomp=PROFILE.json`, a copy of the default profile that also allows "  \
    "clone, unshare, setns, mount, umount2, pivot_root and the fs*, open_tree, move_mount calls; --privileged is not " \
    "needed"
#define KUBERNETES_FILTER_REMEDY                                                                                       \
    "give the pod a seccompProfile of type Localhost that allows clone, unshare, setns and the mount calls (and "      \
    "`hostUsers: false`); privileged is not needed"

struct row {
    unsigned steps; /* STEP bits */
    int errnos[3];  /* 0 ends; none: any */
    bool (*holds)(const struct machine *m);
    struct diagnosis is;
};

static const struct row table[] = {
    /* machines that cannot */
    {NAMESPACES | STEP(SECCOMP),
     {0},
     is_wsl1,
     {"wsl1", "WSL 1 imitates a Linux kernel and has no namespaces",
      "convert the distribution: `wsl --set-version NAME 2` in Windows"}},

    /* bubblewrap */
    {STEP(BUBBLEWRAP),
     {ENOENT, 0},
     NULL,
     {"bubblewrap-absent", "bubblewrap is not installed",
      "install it (`apt install bubblewrap`, `dnf install bubblewrap`); it is needed only where the mechanism "
      "namespaces cannot be used"}},
    {STEP(BUBBLEWRAP),
     {0},
     NULL,
     {"bubblewrap-untrusted", "bwrap, or a directory above it, can be changed by others than root",
      "install it from the distribution; `chown root:root` and `chmod go-w` what is named"}},
    {STEP(BUBBLEWRAP_VERSION),
     {EPERM, 0},
     NULL,
     {"bubblewrap-setuid", "bwrap is setuid root and older than 0.11.2, which has a known hole",
      "update it, or `chmod u-s` it where user namespaces are allowed"}},
    {STEP(BUBBLEWRAP_VERSION),
     {0},
     NULL,
     {"bubblewrap-old", "bubblewrap is older than 0.8.0: it lacks options that orch uses (--disable-userns)",
      "update it (Debian 12 has 0.8.0), or use the mechanism namespaces"}},

    /* sysctls, by their names */
    {STEP(USER_NAMESPACE),
     {ENOSPC, EPERM, 0},
     no_user_namespaces_left,
     {"max-user-namespaces", "user.max_user_namespaces is 0",
      "as root: `sysctl -w user.max_user_namespaces=15000`, and the same line in /etc/sysctl.d/"}},
    {STEP(USER_NAMESPACE),
     {EPERM, 0},
     clone_switched_off,
     {"unprivileged-userns-clone", "kernel.unprivileged_userns_clone is 0 (Debian, hardened kernels)",
      "as root: `sysctl -w kernel.unprivileged_userns_clone=1`, and the same line in /etc/sysctl.d/"}},
    {STEP(USER_NAMESPACE),
     {ENOSPC, EUSERS, 0},
     NULL,
     {"userns-limit", "the limit of user namespaces is reached, or they are nested too deeply",
      "end what holds them (`lsns -t user`), or raise user.max_user_namespaces"}},
    {STEP(NETWORK),
     {ENOSPC, 0},
     no_net_namespaces_left,
     {"max-net-namespaces", "user.max_net_namespaces is 0",
      "as root: `sysctl -w user.max_net_namespaces=15000`, and the same line in /etc/sysctl.d/"}},

    /* /proc, before filters: a filter alone does not refuse this mount */
    {STEP(PROC),
     {EPERM, EACCES, 0},
     kubernetes_masked,
     {"proc-masked", "the pod's /proc is partly covered, so the kernel refuses to mount a whole one",
      "set `procMount: Unmasked` in the container's securityContext (with `hostUsers: false`)"}},
    {STEP(PROC),
     {EPERM, EACCES, 0},
     masked,
     {"proc-masked", "parts of /proc are covered, as containers do it, so the kernel refuses to mount a whole one",
      "start the container with `--security-opt systempaths=unconfined` (podman: `--security-opt unmask=ALL`)"}},

    /* security modules and filters */
    {NAMESPACES,
     {EPERM, EACCES, 0},
     apparmor_restricts,
     {"apparmor-userns",
      "AppArmor restricts unprivileged user namespaces (Ubuntu 23.10 and later): one can be made, but without "
      "capabilities",
      APPARMOR_REMEDY}},
    {NAMESPACES,
     {EPERM, ENOSYS, 0},
     kubernetes_filtered,
     {"kubernetes-seccomp", "the pod's system call filter refuses it", KUBERNETES_FILTER_REMEDY}},
    {STEP(MOUNT) | STEP(MOUNT_CALLS) | STEP(PROC),
     {EACCES, 0},
     container_profiled,
     {"container-apparmor", "the container's AppArmor profile (docker-default) refuses mounts",
      "start the container with `--security-opt apparmor=PROFILE` that allows mount, or apparmor=unconfined"}},
    {NAMESPACES,
     {EPERM, ENOSYS, 0},
     container_filtered,
     {"container-seccomp", "the container's system call filter (Docker's default profile) refuses it",
      DOCKER_FILTER_REMEDY}},
    {NAMESPACES,
     {EPERM, EACCES, 0},
     kubernetes,
     {"kubernetes-policy", "the cluster's policy leaves no confinement by the kernel to this pod",
      "ask for a namespace with another Pod Security level, or run on a machine of your own"}},
    {STEP(NO_USER_NAMESPACES),
     {EROFS, EACCES, EPERM},
     proc_sys_read_only,
     {"proc-sys-read-only", "/proc/sys is read-only here, so further user namespaces cannot be forbidden",
      "start the container with `--security-opt systempaths=unconfined`"}},
    {STEP(NO_USER_NAMESPACES),
     {EACCES, EPERM, EROFS},
     NULL,
     {"user-sysctl", "/proc/sys/user/max_user_namespaces cannot be written in a user namespace of one's own",
      "look for a policy on /proc/sys/user (`ausearch -m avc`, `dmesg`); without it namespaces within a sandbox "
      "cannot be forbidden"}},
    {NAMESPACES,
     {EPERM, EACCES, 0},
     selinux_enforces,
     {"selinux-userns", "SELinux is enforcing and may refuse it",
      "`ausearch -m avc -ts recent` shows the rule; `audit2allow` makes a module for it"}},
    {NAMESPACES,
     {EPERM, EACCES, 0},
     container,
     {"container", "the container forbids it",
      "look at how it is started: its seccomp and AppArmor profiles, its user namespace"}},
    {NAMESPACES,
     {EPERM, ENOSYS, 0},
     filtered,
     {"seccomp", "a system call filter that orch was started under refuses it",
      "start orch outside of it (a service's SystemCallFilter= or RestrictNamespaces=, an agent's own sandbox)"}},

    /* the kernel */
    {STEP(MOUNT_CALLS) | STEP(NETWORK) | STEP(PROC),
     {ENOSYS, EINVAL, EOPNOTSUPP},
     before_5_12,
     {"kernel-old", "the kernel is older than 5.12: the mechanism namespaces needs its mount calls",
      "use a newer kernel, or install bubblewrap, which is taken instead"}},
    {NAMESPACES,
     {ENOSYS, EINVAL, 0},
     NULL,
     {"kernel-without", "the kernel was built without this kind of namespace",
      "use a distribution's kernel (CONFIG_USER_NS, CONFIG_PID_NS, CONFIG_NET_NS)"}},

    /* each step's last word */
    {STEP(USER_NAMESPACE),
     {EPERM, 0},
     NULL,
     {"userns-refused", "this user may not make user namespaces, or orch runs in a chroot",
      "look for a policy: `sysctl -a | grep -i userns`, `dmesg`, `ausearch -m avc`"}},
    {STEP(UID_MAP),
     {0},
     NULL,
     {"uid-map-refused",
      "a user namespace is made but its ids cannot be mapped: a security module, or a namespace "
      "within one that is restricted",
      "look at `dmesg` and the security modules in /sys/kernel/security/lsm"}},
    {STEP(SECCOMP),
     {EINVAL, ENOSYS, 0},
     NULL,
     {"seccomp-absent", "the kernel has no system call filters (CONFIG_SECCOMP_FILTER)",
      "use a distribution's kernel"}},
    {STEP(SECCOMP),
     {ENOTRECOVERABLE, 0},
     NULL,
     {"seccomp-inert", "a filter loads but does not hold: the kernel is imitated (gVisor, an emulator)",
      "run orch on a real kernel"}},
    {STEP(SECCOMP),
     {0},
     NULL,
     {"seccomp-refused", "a system call filter cannot be loaded", "look at what orch is started under"}},
    {STEP(LANDLOCK),
     {ENOSYS, 0},
     before_5_13,
     {"landlock-old", "the kernel is older than 5.13 and has no Landlock",
      "nothing has to be done: Landlock is a second layer; the record of each sandbox says that it is not there"}},
    {STEP(LANDLOCK),
     {EOPNOTSUPP, ENOSYS, 0},
     landlock_unlisted,
     {"landlock-unlisted", "Landlock is not among the active security modules",
      "add landlock to `lsm=` of the kernel's command line (/sys/kernel/security/lsm shows the others)"}},
    {STEP(LANDLOCK),
     {ENOSYS, EPERM, 0},
     container,
     {"landlock-container", "the container's system call filter does not know Landlock",
      "update the container's engine, or allow landlock_* in its seccomp profile"}},
    {STEP(LANDLOCK),
     {0},
     NULL,
     {"landlock-absent", "the kernel offers no Landlock",
      "add landlock to `lsm=` of the kernel's command line; it is a second layer, and only the mechanism landlock "
      "depends on it alone"}},
    {STEP(CGROUP),
     {0},
     no_groups,
     {"cgroup-absent", "no control groups are mounted: limits hold for each process, not for the whole sandbox",
      "mount cgroup2 on /sys/fs/cgroup"}},
    {STEP(CGROUP),
     {0},
     groups_read_only,
     {"cgroup-read-only", "/sys/fs/cgroup is read-only, as in most containers: limits hold for each process only",
      "start the container with `--cgroupns=private` and a writable /sys/fs/cgroup"}},
    {STEP(CGROUP),
     {0},
     first_version,
     {"cgroup-v1", "control groups are of version 1, which only root may use: limits hold for each process only",
      "boot with `systemd.unified_cgroup_hierarchy=1`, or start orch as root"}},
    {STEP(CGROUP),
     {0},
     NULL,
     {"cgroup-undelegated", "no control group is delegated to this user: limits hold for each process only",
      "`systemd-run --user --scope -p Delegate=yes orch …`"}},
    {STEP(IDENTITY),
     {0},
     few_ids,
     {"ids-unmapped", "orch is root of a user namespace that does not know the ids for sandboxes",
      "set uid_range in the operator config to ids that this namespace maps (/proc/self/uid_map), or start orch as an "
      "ordinary user"}},
    {STEP(IDENTITY),
     {0},
     NULL,
     {"ids-refused", "the ids for sandboxes cannot be used",
      "set uid_range in the operator config, or start orch as an "
      "ordinary user"}},
    {~0u,
     {0},
     NULL,
     {"unknown", "this is not one of the known causes", "look at `dmesg`, and report it with this text"}},
};

static bool fits(const struct row *row, enum diagnosis_step step, int sys, const struct machine *m)
{
    bool any = row->errnos[0] == 0;
    for (size_t i = 0; i < ARRAY_LEN(row->errnos); i++) {
        any = any || (row->errnos[i] != 0 && row->errnos[i] == sys);
    }
    return (row->steps & (1u << step)) != 0 && any && (row->holds == NULL || row->holds(m));
}

struct diagnosis diagnose(enum diagnosis_step step, int sys, const struct machine *m)
{
    size_t i = 0;
    while (i + 1 < ARRAY_LEN(table) && !fits(&table[i], step, sys, m)) {
        i++;
    }
    return table[i].is;
}
