/* SPDX-License-Identifier: Apache-2.0 */
/* What every sandbox of this machine may read besides its own grants. */
#ifndef ORCH_ORCHESTRATOR_READABLE_H
#define ORCH_ORCHESTRATOR_READABLE_H

#include "backends/spec.h"
#include "config/confinement.h"

/* The operator's `readable`, then what ORCH_AGENT_SANDBOX_ALLOW adds; each once. Owned by the caller. */
char **readable_paths(const struct operator_config *config, const struct confinement_request *request);
/* Grants them read-only under their own names, unless the spec grants that name already. One that is gone is left out,
 * and the sandbox's record says so. */
void readable_grant(struct sandbox_spec *spec, char *const *paths);

#endif
