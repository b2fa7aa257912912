/* SPDX-License-Identifier: Apache-2.0 */
/* The two layers that each call puts on itself right before exec: a Landlock domain and the system call filter. */
#ifndef ORCH_BACKENDS_GUEST_INIT_CONFINE_H
#define ORCH_BACKENDS_GUEST_INIT_CONFINE_H

#include "backends/guest/control.h"

#include <linux/filter.h>

struct confinement {
    int ruleset;                /* Landlock; -1: the kernel has none */
    int in_place;               /* 1: there is no namespace behind the two */
    int isolated;               /* 1: no network */
    int scopes;                 /* 1: signals and abstract sockets are scoped (ABI 6) */
    struct sock_filter *filter; /* owned by the init for its life */
    unsigned short filter_count;
};

/* From the SPEC message: keeps the filter, makes the ruleset (nothing but what was granted writable can be written,
 * landlock(7)). Says in `facts` what it has. 0 or -errno. */
int confine_prepare(const struct control_spec *spec, const char *filter, const char *writable, struct confinement *ret,
                    struct control_hello *facts);

/* In the child of a call, last of all: enters both and tries them. 0, or -errno of what failed; -ENOTRECOVERABLE: one
 * of them is on and does not hold. */
int confine_call(const struct confinement *c);

#endif
