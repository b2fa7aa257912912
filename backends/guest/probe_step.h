/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps that confinement is made of, each tried alone in a process of its own: `orch-init step NAME`, for
 * `orch doctor`. It is this program that tries, as it is this program that is confined: a policy of the machine may
 * tell programs apart. One line on standard output: "0 DETAIL" when the step works, "ERRNO WHAT" when it does not.
 */
#ifndef ORCH_BACKENDS_GUEST_PROBE_STEP_H
#define ORCH_BACKENDS_GUEST_PROBE_STEP_H

#define PROBE_STEP_WORD "step"

/* In the order in which they build on one another; those from user-namespace to no-user-namespaces need all before. */
#define PROBE_STEPS(X)                                                                                                 \
    X(USER_NAMESPACE, "user-namespace")         /* unshare(2) */                                                       \
    X(UID_MAP, "uid-map")                       /* the caller's own ids in it */                                       \
    X(MOUNT, "mount")                           /* a mount namespace, and a tmpfs in it */                             \
    X(MOUNT_CALLS, "mount-calls")               /* the descriptor-based calls, Linux 5.12 */                           \
    X(PROC, "proc")                             /* a PID namespace, and its /proc */                                   \
    X(NETWORK, "network")                       /* a network namespace, and its loopback up */                         \
    X(NO_USER_NAMESPACES, "no-user-namespaces") /* no other user namespace below */                                    \
    X(SECCOMP, "seccomp")                       /* a system call filter loads and holds */                             \
    X(LANDLOCK, "landlock")                     /* DETAIL: the ABI */

enum probe_step {
#define X(id, name) PROBE_STEP_##id,
    PROBE_STEPS(X)
#undef X
        PROBE_STEP_COUNT
};

/* Tries the step of that name, and says how it went. 0: it works; 1: it does not; 2: there is no such step. */
int probe_step_main(const char *name);

#endif
