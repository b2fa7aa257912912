/* SPDX-License-Identifier: Apache-2.0 */
/* What dead predecessors left below .state/local: raw handoffs, staged programs, sockets. Their records are not
 * touched. */
#ifndef ORCH_ORCHESTRATOR_SWEEP_H
#define ORCH_ORCHESTRATOR_SWEEP_H

#include "state/layout.h"

/* Removes local/<run> and the control socket of every run that nobody holds, and places of checks whose process is
 * gone. A run that is held keeps everything: its lock is taken before its directory is made. Troubles are left for
 * the next start. */
void sweep_local(const struct layout *l);

#endif
