/* SPDX-License-Identifier: Apache-2.0 */
/* orch-init as its own launcher, seen from the node. */
#ifndef ORCH_BACKENDS_MECHANISMS_NAMESPACES_H
#define ORCH_BACKENDS_MECHANISMS_NAMESPACES_H

#include "backends/mechanisms/mechanism.h"
#include "base/buf.h"

/* Whether it works on this machine for this user: found out by doing it. ORCH_E_UNAVAILABLE with the step that failed.
 */
MUST_USE int namespaces_find(const char *init_program, struct mechanism *ret, struct orch_err *err);

/* The plan as the launcher reads it (guest/launch.h). */
void namespaces_plan(const struct mechanism_options *o, struct buf *out);

#endif
