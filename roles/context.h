/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every program of a run is told: ORCH_CONTEXT, a JSON file that names
 * what it was given, and the fixed variables of DESIGN 6.
 */
#ifndef ORCH_ROLES_CONTEXT_H
#define ORCH_ROLES_CONTEXT_H

#include "backends/spec.h"
#include "base/json.h"

#define CONTEXT_VERSION 1
#define CONTEXT_FILE "/w/context.json" /* inside a sandbox */
#define CONTEXT_PATH "/usr/local/bin:/usr/bin:/bin"

/* {"version": 1, "role": role}; new reference. */
json_t *context_new(const char *role);

/*
 * Gives the sandbox its context file and fixed variables, and of the host's
 * environment those that match `patterns` ("NAME" or "PREFIX*"; NULL: none).
 * Names that the fixed set uses cannot be replaced. Consumes `context`.
 */
void context_apply(struct sandbox_spec *spec, json_t *context, char *const *patterns);

/* The environment of a program of the host's own (the host judge): fixed variables, ORCH_CONTEXT = path, HOME =
 * home. Owned by the caller (strv_free). */
char **context_host_env(const char *context_path, const char *home, char *const *patterns);

#endif
