/* SPDX-License-Identifier: Apache-2.0 */
/* bubblewrap as a mechanism: found by a trusted path, told everything on a descriptor. */
#ifndef ORCH_BACKENDS_MECHANISMS_BWRAP_H
#define ORCH_BACKENDS_MECHANISMS_BWRAP_H

#include "backends/mechanisms/mount_plan.h"
#include "base/buf.h"
#include "base/err.h"

#include <sys/types.h>

#define BWRAP_ARGS_MAX ((size_t)4 << 20)
#define BWRAP_VERSION_MAX 32

struct bwrap {
    char *path; /* owned */
    char version[BWRAP_VERSION_MAX];
};

/* The first of the fixed places that is root's and only root's to change, with all its parents; its version.
 * ORCH_E_UNAVAILABLE says what is wrong with each. Never searched in PATH. */
MUST_USE int bwrap_find(struct bwrap *ret, struct orch_err *err);
void bwrap_done(struct bwrap *b);
/* The rule behind it: `path` and each parent belongs to uid 0 and is not writable for group or others. */
MUST_USE int bwrap_trusted(const char *path, struct orch_err *err);

struct bwrap_options {
    const struct mount_plan *mounts;
    const char *hostname;
    bool share_network;
    bool named_identity; /* the user namespace comes from outside, on BWRAP_FD_USERNS */
};

/* Descriptor numbers in the child. */
enum { BWRAP_FD_CONTROL = 3, BWRAP_FD_ARGS = 4, BWRAP_FD_USERNS = 5 };

/* The options as bubblewrap reads them with --args: each followed by NUL. */
void bwrap_arguments(const struct bwrap_options *o, struct buf *out);

/* Starts it with the init as PID 1. `control` becomes descriptor 3 of the init, `userns` is -1 without a named
 * identity, `stderr_fd` takes its complaints. Returns the pid; *ret_pidfd is owned by the caller. */
MUST_USE pid_t bwrap_start(const struct bwrap *b, const struct bwrap_options *o, int control, int userns, int stderr_fd,
                           int *ret_pidfd, struct orch_err *err);

#endif
