/* SPDX-License-Identifier: Apache-2.0 */
/* Facts of this machine that explain why a step of confinement fails: what /proc, /sys and a few marker files say. */
#ifndef ORCH_ORCHESTRATOR_MACHINE_H
#define ORCH_ORCHESTRATOR_MACHINE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define MACHINE_UNKNOWN (-1) /* of every number here: the file is not there */

enum machine_container {
    MACHINE_NO_CONTAINER,
    MACHINE_DOCKER,
    MACHINE_PODMAN,
    MACHINE_KUBERNETES,
    MACHINE_OTHER_CONTAINER,
    MACHINE_CONTAINER_COUNT
};

struct machine {
    uid_t uid;
    int kernel_major, kernel_minor;
    int wsl; /* 0: no; 1, 2: the version */
    enum machine_container container;
    int64_t apparmor_restrict;   /* kernel.apparmor_restrict_unprivileged_userns */
    int64_t userns_clone;        /* kernel.unprivileged_userns_clone (Debian) */
    int64_t max_user_namespaces; /* user.max_user_namespaces */
    int64_t max_net_namespaces;
    int64_t selinux_enforcing;
    int64_t seccomp;        /* mode of this process: 2 is a filter */
    int apparmor_confined;  /* 1: this process has a profile that is enforced */
    int landlock_listed;    /* 1: among the active security modules */
    int proc_masked;        /* 1: something is mounted over parts of /proc */
    int proc_sys_read_only; /* 1: /proc/sys is */
    int cgroup_version;     /* 0: none is mounted */
    int cgroup_read_only;   /* 1: the mount is */
    int64_t mapped_ids;     /* ids of this user namespace that are known: 4294967295 is all */
};

/* `root`: "" for this machine; a test names a made-up tree. */
void machine_read(const char *root, struct machine *ret);
/* New reference. */
json_t *machine_json(const struct machine *m);
const char *machine_container_name(enum machine_container c); /* "docker"; "none" */

#endif
