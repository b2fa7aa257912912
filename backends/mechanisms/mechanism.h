/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What encloses a sandbox on a machine. Each mechanism takes the same plan and ends with orch-init as PID 1 in the new
 * root, its control socket on descriptor 3; what then happens is the same for all.
 *
 *   namespaces   orch-init is its own launcher (guest/launch.h). Needs Linux 5.12, and a policy that lets this user
 *                make user namespaces.
 *   bubblewrap   the machine's bwrap starts orch-init.
 *   landlock     orch-init as it is, in the machine's own root and namespaces (landlock.h): weaker, taken only when it
 *                is asked for. The rest of this file's words on plans and PID 1 are not about it.
 *
 * "auto" is namespaces where a probe says that it works here, else bubblewrap: the same confinement (one plan, one
 * init); the second costs more.
 */
#ifndef ORCH_BACKENDS_MECHANISMS_MECHANISM_H
#define ORCH_BACKENDS_MECHANISMS_MECHANISM_H

#include "backends/mechanisms/mount_plan.h"
#include "base/buf.h"

#include <sys/types.h>

#define MECHANISM_VERSION_MAX 80 /* uname(2) gives at most 65 */

struct mechanism_options {
    const struct mount_plan *mounts;
    const char *hostname;
    bool share_network;
    bool named_identity; /* the user namespace comes from outside, on MECHANISM_FD_USERNS */
    int control;         /* becomes descriptor 3 of the init */
    int userns;          /* -1 without a named identity */
    int complaints;      /* takes a line that says what failed */
};

/* Descriptor numbers in the child; PLAN holds bubblewrap's arguments or the launcher's plan. */
enum { MECHANISM_FD_CONTROL = 3, MECHANISM_FD_PLAN = 4, MECHANISM_FD_USERNS = 5 };

struct mechanism {
    const char *name;
    char *program;                       /* owned: what is started */
    char version[MECHANISM_VERSION_MAX]; /* of bwrap; of the kernel for namespaces */
    bool private_mounts;                 /* as root: nothing the machine mounts later shows; others do that inside */
    bool init_inside;                    /* the prepared root must hold orch-init */
    bool in_place;                       /* no root or namespace of its own: orch-init is an ordinary process */
    pid_t (*start)(const struct mechanism *m, const struct mechanism_options *o, int *ret_pidfd, struct orch_err *err);
};

/* `asked`: "auto", "namespaces", "bubblewrap" or "landlock". ORCH_E_UNAVAILABLE says what is missing, and its remedy.
 * Blocks for a few milliseconds: it probes. */
MUST_USE int mechanism_choose(const char *asked, const char *init_program, struct mechanism *ret, struct orch_err *err);
void mechanism_done(struct mechanism *m);

/* Starts the sandbox's first process. Returns its pid (a child of the caller); *ret_pidfd is owned by the caller. */
static inline pid_t mechanism_start(const struct mechanism *m, const struct mechanism_options *o, int *ret_pidfd,
                                    struct orch_err *err)
{
    return m->start(m, o, ret_pidfd, err);
}

/* For the mechanisms: starts m->program with these arguments, the plan and the option's descriptors. */
MUST_USE pid_t mechanism_spawn(const struct mechanism *m, char *const *argv, const struct buf *plan,
                               const struct mechanism_options *o, int *ret_pidfd, struct orch_err *err);

#endif
