/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/diagnosis.h"

#include "base/mem.h"
#include "orchestrator/doctor.h"
#include "test.h"

#include <errno.h>
#include <string.h>

/* A machine on which nothing is odd. */
static const struct machine plain = {
    .uid = 1000,
    .kernel_major = 6,
    .kernel_minor = 1,
    .apparmor_restrict = MACHINE_UNKNOWN,
    .userns_clone = MACHINE_UNKNOWN,
    .max_user_namespaces = 63000,
    .max_net_namespaces = 63000,
    .selinux_enforcing = MACHINE_UNKNOWN,
    .landlock_listed = 1,
    .cgroup_version = 2,
    .mapped_ids = 4294967295,
};

#define DOCKER "docker filtered groups-ro "
#define POD "pod "

/* The same with what the words say. */
static struct machine machine_of(const char *words)
{
    struct machine m = plain;
    const struct {
        const char *word;
        int *number;
        int64_t *large;
        int value;
    } table[] = {
        {"apparmor=1", NULL, &m.apparmor_restrict, 1},
        {"apparmor=0", NULL, &m.apparmor_restrict, 0},
        {"clone=0", NULL, &m.userns_clone, 0},
        {"clone=1", NULL, &m.userns_clone, 1},
        {"max=0", NULL, &m.max_user_namespaces, 0},
        {"net=0", NULL, &m.max_net_namespaces, 0},
        {"selinux", NULL, &m.selinux_enforcing, 1},
        {"filtered", NULL, &m.seccomp, 2},
        {"few-ids", NULL, &m.mapped_ids, 65536},
        {"groups-ro", &m.cgroup_read_only, NULL, 1},
        {"profiled", &m.apparmor_confined, NULL, 1},
        {"masked", &m.proc_masked, NULL, 1},
        {"sys-ro", &m.proc_sys_read_only, NULL, 1},
        {"wsl1", &m.wsl, NULL, 1},
        {"wsl2", &m.wsl, NULL, 2},
        {"5.4", &m.kernel_major, NULL, 5},
        {"unlisted", &m.landlock_listed, NULL, 0},
        {"groups0", &m.cgroup_version, NULL, 0},
        {"groups1", &m.cgroup_version, NULL, 1},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        if (strstr(words, table[i].word) == NULL) {
            continue;
        }
        if (table[i].number != NULL) {
            *table[i].number = table[i].value;
        } else {
            *table[i].large = table[i].value;
        }
    }
    m.container = strstr(words, "docker") != NULL   ? MACHINE_DOCKER
                  : strstr(words, "pod ") != NULL   ? MACHINE_KUBERNETES
                  : strstr(words, "podman") != NULL ? MACHINE_PODMAN
                                                    : MACHINE_NO_CONTAINER;
    return m;
}

Test(diagnosis, known_machines)
{
    static const struct {
        enum diagnosis_step step;
        int sys;
        const char *words;
        const char *id;
        const char *in_remedy;
    } table[] = {
        /* Ubuntu 23.10 and later */
        {DIAGNOSIS_UID_MAP, EACCES, "apparmor=1", "apparmor-userns", "/etc/apparmor.d"},
        {DIAGNOSIS_UID_MAP, EPERM, "apparmor=1", "apparmor-userns", "userns,"},
        {DIAGNOSIS_NETWORK, EPERM, "apparmor=1", "apparmor-userns", "apparmor_parser"},
        {DIAGNOSIS_UID_MAP, EPERM, "apparmor=0", "uid-map-refused", "dmesg"},
        /* Debian, hardened kernels, RHEL */
        {DIAGNOSIS_USER_NAMESPACE, EPERM, "clone=0", "unprivileged-userns-clone", "userns_clone=1"},
        {DIAGNOSIS_USER_NAMESPACE, EPERM, "clone=1", "userns-refused", "dmesg"},
        {DIAGNOSIS_USER_NAMESPACE, ENOSPC, "max=0", "max-user-namespaces", "sysctl -w user."},
        {DIAGNOSIS_USER_NAMESPACE, ENOSPC, "", "userns-limit", "lsns"},
        {DIAGNOSIS_NETWORK, ENOSPC, "net=0", "max-net-namespaces", "max_net_namespaces"},
        {DIAGNOSIS_USER_NAMESPACE, EPERM, "selinux", "selinux-userns", "ausearch"},
        /* Docker, Kubernetes */
        {DIAGNOSIS_USER_NAMESPACE, EPERM, DOCKER, "container-seccomp", "--security-opt seccomp="},
        {DIAGNOSIS_USER_NAMESPACE, EPERM, POD "filtered", "kubernetes-seccomp", "seccompProfile"},
        {DIAGNOSIS_USER_NAMESPACE, EPERM, POD, "kubernetes-policy", "Pod Security"},
        {DIAGNOSIS_PROC, EPERM, DOCKER "masked", "proc-masked", "systempaths=unconfined"},
        {DIAGNOSIS_PROC, EPERM, POD "masked", "proc-masked", "procMount: Unmasked"},
        {DIAGNOSIS_MOUNT, EACCES, DOCKER "profiled", "container-apparmor", "apparmor="},
        {DIAGNOSIS_MOUNT, EPERM, DOCKER "profiled", "container-seccomp", "seccomp="},
        {DIAGNOSIS_MOUNT_CALLS, ENOSYS, DOCKER, "container-seccomp", "open_tree"},
        {DIAGNOSIS_USER_NAMESPACE, EPERM, "podman", "container", "how it is started"},
        {DIAGNOSIS_USER_NAMESPACE, EPERM, "filtered", "seccomp", "SystemCallFilter"},
        {DIAGNOSIS_NO_USER_NAMESPACES, EROFS, "sys-ro", "proc-sys-read-only", "systempaths"},
        {DIAGNOSIS_NO_USER_NAMESPACES, EACCES, "", "user-sysctl", "ausearch"},
        /* bubblewrap */
        {DIAGNOSIS_BUBBLEWRAP, ENOENT, "", "bubblewrap-absent", "apt install bubblewrap"},
        {DIAGNOSIS_BUBBLEWRAP, 0, "", "bubblewrap-untrusted", "chmod go-w"},
        {DIAGNOSIS_BUBBLEWRAP_VERSION, 0, "", "bubblewrap-old", "update"},
        {DIAGNOSIS_BUBBLEWRAP_VERSION, EPERM, "", "bubblewrap-setuid", "chmod u-s"},
        /* Windows */
        {DIAGNOSIS_USER_NAMESPACE, EINVAL, "wsl1", "wsl1", "--set-version"},
        {DIAGNOSIS_SECCOMP, EINVAL, "wsl1", "wsl1", "--set-version"},
        {DIAGNOSIS_USER_NAMESPACE, EINVAL, "wsl2", "kernel-without", "CONFIG_USER_NS"},
        /* kernels */
        {DIAGNOSIS_MOUNT_CALLS, ENOSYS, "5.4", "kernel-old", "bubblewrap"},
        {DIAGNOSIS_SECCOMP, EINVAL, "", "seccomp-absent", "distribution's kernel"},
        {DIAGNOSIS_SECCOMP, ENOTRECOVERABLE, "", "seccomp-inert", "real kernel"},
        {DIAGNOSIS_LANDLOCK, ENOSYS, "5.4", "landlock-old", "second layer"},
        {DIAGNOSIS_LANDLOCK, EOPNOTSUPP, "unlisted", "landlock-unlisted", "lsm="},
        {DIAGNOSIS_LANDLOCK, ENOSYS, DOCKER, "landlock-container", "landlock_*"},
        {DIAGNOSIS_LANDLOCK, ENOSYS, "", "landlock-absent", "lsm="},
        /* control groups, ids */
        {DIAGNOSIS_CGROUP, 0, "groups0", "cgroup-absent", "mount"},
        {DIAGNOSIS_CGROUP, 0, DOCKER, "cgroup-read-only", "cgroupns"},
        {DIAGNOSIS_CGROUP, 0, "groups1", "cgroup-v1", "unified_cgroup_hierarchy"},
        {DIAGNOSIS_CGROUP, 0, "", "cgroup-undelegated", "Delegate=yes"},
        {DIAGNOSIS_IDENTITY, 0, "few-ids", "ids-unmapped", "uid_range"},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        struct machine m = machine_of(table[i].words);
        struct diagnosis d = diagnose(table[i].step, table[i].sys, &m);
        cr_assert_str_eq(d.id, table[i].id, "row %zu: %s", i, d.cause);
        cr_assert_not_null(strstr(d.remedy, table[i].in_remedy), "row %zu: %s", i, d.remedy);
        cr_assert_null(strstr(d.remedy, "`--privileged"), "row %zu: never the first advice", i);
    }
}

/* Whatever fails with whatever errno on whatever machine has a cause and a remedy. */
Test(diagnosis, never_without_an_answer)
{
    static const char *const machines[] = {"", DOCKER, POD "masked", "wsl1", "podman groups0 few-ids"};
    for (size_t i = 0; i < ARRAY_LEN(machines); i++) {
        struct machine m = machine_of(machines[i]);
        for (int step = 0; step < DIAGNOSIS_STEP_COUNT; step++) {
            for (int sys = 0; sys < 134; sys++) {
                struct diagnosis d = diagnose((enum diagnosis_step)step, sys, &m);
                cr_assert(d.id[0] != '\0' && d.cause[0] != '\0' && d.remedy[0] != '\0');
            }
        }
    }
}

Test(diagnosis, versions)
{
    static const struct {
        const char *version, *than;
        bool older;
    } table[] = {
        {"0.8.0", "0.8.0", false}, {"0.7.9", "0.8.0", true}, {"0.10.0", "0.8.0", false},  {"0.11.1", "0.11.2", true},
        {"0.11", "0.11.2", true},  {"1.0", "0.11.2", false}, {"2.39.5", "2.30.0", false}, {"", "0.8.0", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        cr_assert_eq(walk_is_older(table[i].version, table[i].than), table[i].older, "%s", table[i].version);
    }
}

Test(diagnosis, file_systems)
{
    const char *remedy = NULL;
    cr_assert_str_eq(doctor_file_system_name(0x6969, &remedy), "NFS");
    cr_assert_not_null(remedy);
    cr_assert_str_eq(doctor_file_system_name(0xef53, &remedy), "ext4");
    cr_assert_null(remedy);
    cr_assert_str_eq(doctor_file_system_name(1, &remedy), "");
    cr_assert_null(remedy);
}
