/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory one `sandbox exec` works in: orch-exec-XXXXXX in memory or below TMPDIR. Its maker holds a lock on it
 * (flock(2)), which ends with the process however it ends; what is not locked is what a killed one left.
 */
#ifndef ORCH_ORCHESTRATOR_EXEC_PLACE_H
#define ORCH_ORCHESTRATOR_EXEC_PLACE_H

#include "base/err.h"

struct exec_place {
    char *path; /* absolute, 0711; NULL: not made */
    int lock;   /* -1: none */
};

/* Makes one in the directory `parent` and locks it. */
MUST_USE int exec_place_make(const char *parent, struct exec_place *ret, struct orch_err *err);
/* Removes it with all it holds, then lets the lock go; accepts one that was not made. */
void exec_place_remove(struct exec_place *p);
/* Removes those in `parent` that are this user's, older than a minute and held by nobody, a few at a time. Troubles are
 * left for the next one. Returns how many went. */
unsigned exec_place_sweep(const char *parent);

#endif
