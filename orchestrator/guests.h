/* SPDX-License-Identifier: Apache-2.0 */
/* Where the guests (orch-node, orch-init) are: beside this program, as installed or as built. */
#ifndef ORCH_ORCHESTRATOR_GUESTS_H
#define ORCH_ORCHESTRATOR_GUESTS_H

#include "base/err.h"

/* NULL-terminated names of the guests. */
extern const char *const guest_names[];

/* `program`: absolute path of orch. *ret is an absolute path, owned by the caller; ORCH_E_UNAVAILABLE names the places
 * that were searched. */
MUST_USE int guest_find(const char *program, const char *name, char **ret, struct orch_err *err);

#endif
