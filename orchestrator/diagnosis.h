/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a failing step of confinement means: a table of (step, errno, facts of the machine) → (cause, remedy). The first
 * row that fits is the answer; each step ends with a row that always fits. Pure.
 */
#ifndef ORCH_ORCHESTRATOR_DIAGNOSIS_H
#define ORCH_ORCHESTRATOR_DIAGNOSIS_H

#include "orchestrator/machine.h"

/* The probing order. Those between bubblewrap and cgroup are tried by orch-init (backends/guest/probe_step.h). */
#define DIAGNOSIS_STEPS(X)                                                                                             \
    X(BUBBLEWRAP, "bubblewrap")                                                                                        \
    X(BUBBLEWRAP_VERSION, "bubblewrap-version")                                                                        \
    X(USER_NAMESPACE, "user-namespace")                                                                                \
    X(UID_MAP, "uid-map")                                                                                              \
    X(MOUNT, "mount")                                                                                                  \
    X(MOUNT_CALLS, "mount-calls")                                                                                      \
    X(PROC, "proc")                                                                                                    \
    X(NETWORK, "network")                                                                                              \
    X(NO_USER_NAMESPACES, "no-user-namespaces")                                                                        \
    X(SECCOMP, "seccomp")                                                                                              \
    X(LANDLOCK, "landlock")                                                                                            \
    X(CGROUP, "cgroup")                                                                                                \
    X(IDENTITY, "identity-range")

enum diagnosis_step {
#define X(id, name) DIAGNOSIS_##id,
    DIAGNOSIS_STEPS(X)
#undef X
        DIAGNOSIS_STEP_COUNT
};
extern const char *const diagnosis_step_names[];

struct diagnosis {
    const char *id; /* stable: "apparmor-userns" */
    const char *cause;
    const char *remedy; /* what to do, with the command where there is one */
};

/* `sys`: the errno, 0 where none was given. Never fails. */
struct diagnosis diagnose(enum diagnosis_step step, int sys, const struct machine *m);

#endif
