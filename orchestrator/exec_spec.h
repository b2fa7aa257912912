/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `orch sandbox exec SPEC` takes: the spec of backends/spec.h (it has "version"), or a short form with host paths:
 *
 *   {"readable": ["/data/corpus"], "writable": ["/data/out"], "hide": ["/data/corpus/.env"],
 *    "network": "isolated" | "no-network" | "public",      default isolated
 *    "env_allow": ["API_*"],       variables that pass besides a fixed set; left out, all of them pass
 *    "chdir": "/data/corpus",      default: the working directory if it is granted, else /
 *    "limits": {…}}                as in backends/spec.h
 *
 * Granted paths appear under their own names. Links in them are resolved once, here; the spec holds what they lead to,
 * and both names must be the same path inside, so a granted link is refused with what to write instead.
 */
#ifndef ORCH_ORCHESTRATOR_EXEC_SPEC_H
#define ORCH_ORCHESTRATOR_EXEC_SPEC_H

#include "backends/spec.h"

#define EXEC_ENV_PATTERNS_MAX 256

/* `text`: the JSON. `variables`: what may pass. `program`: as on the command line; where it lies outside /usr and is no
 * part of a grant, its installation is granted read-only. ORCH_E_CONFIG names the member. *ret is filled on success. */
MUST_USE int exec_spec_read(const char *text, size_t len, char *const *variables, const char *program,
                            struct sandbox_spec *ret, struct orch_err *err);

#endif
