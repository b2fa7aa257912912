/* SPDX-License-Identifier: Apache-2.0 */
/*
 * orch-init as its own launcher: the mechanism "namespaces". `orch-init launch` reads a mount plan from a descriptor,
 * makes the namespaces, builds the root with the descriptor-based mount calls (open_tree(2), mount_setattr(2),
 * move_mount(2), fsopen(2)), enters it and goes on as PID 1 in the same image. Compared with bubblewrap: no program
 * between the node and the init, no reading of the mount table after each bind, no path walked twice, and a link where
 * a mount would have to be is refused. What is granted and what the init does are the same.
 */
#ifndef ORCH_BACKENDS_GUEST_LAUNCH_H
#define ORCH_BACKENDS_GUEST_LAUNCH_H

#include <stdint.h>

#define LAUNCH_WORD "launch"
#define LAUNCH_PROBE_WORD "probe"
#define LAUNCH_PLAN_MAX ((size_t)4 << 20)
#define LAUNCH_HOST_MAX 64 /* sethostname(2) */

/* Descriptors besides CONTROL_FD. Descriptor 2 takes one line that says what failed. */
enum { LAUNCH_FD_PLAN = 4, LAUNCH_FD_USERNS = 5 };

/* The plan: this, then for each step a launch_step followed by its source and its target, each with its NUL.
 * The first step binds the root. Both ends are of one build. */
struct launch_plan {
    uint32_t share_network;
    uint32_t named_identity; /* 1: join the user namespace on LAUNCH_FD_USERNS; 0: make one for the caller's own ids */
    uint32_t step_count;
    char hostname[LAUNCH_HOST_MAX + 1];
};
struct launch_step {
    uint32_t kind; /* enum mount_kind */
    uint32_t source_len, target_len;
    uint64_t size;
};

/* Returns 0 in the new PID 1, which then owns nothing but the descriptors 0-3, or -1 when something failed and was
 * said on descriptor 2. In the caller itself it does not return: it waits for the new process and exits as it did. */
int launch(void);

/* Whether the kernel and its policy let us do that: makes the namespaces and a mount, then exits 0 or says what failed.
 */
int launch_probe(void);

#endif
