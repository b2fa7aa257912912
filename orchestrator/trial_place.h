/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a trial works on the host: local/<run>/place-<n>/ with collected/,
 * verdict/ and home/. Places are emptied and used again: making and removing
 * directories for every trial costs more than the rest of it on ext4, which
 * searches for inodes that were not freed lately. No sandbox ever sees one.
 */
#ifndef ORCH_ORCHESTRATOR_TRIAL_PLACE_H
#define ORCH_ORCHESTRATOR_TRIAL_PLACE_H

#include "orchestrator/engine.h"

struct trial_place {
    char *path;    /* absolute */
    int collected; /* descriptors of the parts; empty directories when a place is taken */
    int verdict;
    int home;
};

/* Loop thread. *ret is the caller's until place_give. */
MUST_USE int place_take(struct engine *e, struct trial_place **ret, struct orch_err *err);
/* Empties it for the next; one that cannot be emptied is not used again. NULL is fine. */
void place_give(struct engine *e, struct trial_place *place);
void places_free(struct engine *e);

#endif
