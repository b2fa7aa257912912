/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who decides how confinement is had: the operator config, then the two variables of the caller's environment, then
 * the run config.
 *
 *   ORCH_AGENT_SANDBOX        auto: as if not set; bwrap, namespaces, landlock: that mechanism;
 *                             0, false, off, no: no confinement, where the operator config says `required: false`
 *   ORCH_AGENT_SANDBOX_ALLOW  PATH:PATH…: further paths of this machine that every sandbox on it may read
 *
 * A variable that is set but empty is not set. Neither is in a run's fingerprint: the record of each sandbox says what
 * it was given. Any thread.
 */
#ifndef ORCH_CONFIG_CONFINEMENT_H
#define ORCH_CONFIG_CONFINEMENT_H

#include "config/operator.h"

#define CONFINEMENT_VARIABLE "ORCH_AGENT_SANDBOX"
#define CONFINEMENT_ALLOW_VARIABLE "ORCH_AGENT_SANDBOX_ALLOW"

struct confinement_request {
    int mechanism;   /* enum config_mechanism; AUTO: nothing was asked for */
    bool off;        /* run without confinement */
    char word[16];   /* as it was written; "" when nothing was */
    char **readable; /* owned, never NULL after a successful read; each passed confinement_readable_check */
};

/* Reads both variables from `environ` (NAME=value…, NULL-terminated). ORCH_E_CONFIG lists what may be written;
 * *ret is filled on success only. */
MUST_USE int confinement_request_read(char *const *environ, struct confinement_request *ret, struct orch_err *err);
void confinement_request_done(struct confinement_request *r); /* accepts a zeroed struct */
#define AUTO_CONFINEMENT_REQUEST __attribute__((cleanup(confinement_request_done)))

/*
 * The mechanism that must be taken, enum config_mechanism. `asked` is what the run config or an option names (AUTO:
 * nothing), `asked_by` says who in messages. With `asked_wins` it goes before the variable (an option), else after it
 * (a config). What the operator requires goes before both: another one is ORCH_E_CONFIG. ORCH_E_UNAVAILABLE: `off`
 * where confinement is required, or where it is not, as running without it is not built.
 */
MUST_USE int confinement_choose(const struct operator_config *config, const struct confinement_request *request,
                                int asked, const char *asked_by, bool asked_wins, int *ret, struct orch_err *err);

/*
 * May this path be granted to every sandbox for reading? It must be absolute, exist, lead through no link, and be
 * neither a whole home, a place of the system's, a place that everybody shares, nor (part of) a credential store.
 * ORCH_E_CONFIG says which. *ret is the path without "." and doubled slashes, owned by the caller.
 */
MUST_USE int confinement_readable_check(const char *path, char **ret, struct orch_err *err);

#endif
