/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket of a running run on the engine's loop: status, events,
 * stop (state/control_socket.h). Clients are few, bounded and given little time.
 */
#ifndef ORCH_ORCHESTRATOR_CONTROL_LOOP_H
#define ORCH_ORCHESTRATOR_CONTROL_LOOP_H

#include "orchestrator/engine.h"

struct control_loop;

/* Listens. A socket that cannot be made is no reason not to run: the error is the caller's to show. */
MUST_USE int control_loop_start(struct engine *e, struct control_loop **ret, struct orch_err *err);
/* Closes the listener and all clients; the loop must run until *ret_done. NULL is done at once. */
void control_loop_close(struct control_loop *c, bool *ret_done);

#endif
