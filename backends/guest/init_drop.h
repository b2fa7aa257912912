/* SPDX-License-Identifier: Apache-2.0 */
/* What the init gives up. The one place where privileges end and where filters are put on. */
#ifndef ORCH_BACKENDS_GUEST_INIT_DROP_H
#define ORCH_BACKENDS_GUEST_INIT_DROP_H

#include "backends/guest/control.h"

/* The init itself, before anything else: becomes the sandbox's identity, without any capability, not
 * dumpable, with no-new-privileges. 0 or -errno. */
int drop_init(const struct control_spec *spec, struct control_hello *facts);

/* Clears every capability set of this process. 0 or -errno. */
int drop_capabilities(void);

/* The child of a call, after its descriptors and before exec: limits, signals, session. 0 or -errno. */
int drop_call(const struct control_call *call);

#endif
