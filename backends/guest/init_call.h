/* SPDX-License-Identifier: Apache-2.0 */
/* One call inside the sandbox. */
#ifndef ORCH_BACKENDS_GUEST_INIT_CALL_H
#define ORCH_BACKENDS_GUEST_INIT_CALL_H

#include "backends/guest/control.h"
#include "backends/guest/init_confine.h"

#include <stdint.h>

struct running_call {
    pid_t pid; /* 0: none */
    int64_t started_ns;
    uint32_t killed;
    uint32_t left; /* others that were reaped since it was killed */
};

/* Starts what a CALL message asks, confined; takes its descriptors. 0, or -errno of a message that makes no sense or of
 * a confinement that cannot be had: the sandbox then ends. When exec fails *ret_exit says so, and no call runs. */
int call_start(struct control_message *m, const struct confinement *c, struct running_call *ret,
               struct control_exit *ret_exit);
/* After the main process ended with this status: kills and reaps everything else, fills the report. */
void call_end(struct running_call *c, int status, struct control_exit *ret_exit);
/* Kills everything but this process and reaps it; the number that was alive. */
uint32_t kill_all(void);

#endif
