/* SPDX-License-Identifier: Apache-2.0 */
/* Whether confinement can be had here: found out by opening one empty sandbox as a run would, and closing it. */
#ifndef ORCH_ORCHESTRATOR_ATTEMPT_H
#define ORCH_ORCHESTRATOR_ATTEMPT_H

#include "config/operator.h"
#include "orchestrator/verb.h"

struct attempt {
    bool enforced;       /* a sandbox was opened, and its checks from inside hold */
    struct orch_err err; /* why not */
    json_t *node;        /* what the node said about itself; NULL: it did not start. Owned, as `record` */
    json_t *record;      /* asked, enforced, checked; NULL: nothing was opened */
};

/* `mechanism`: enum config_mechanism. Blocks for some ten milliseconds; leaves nothing behind. */
void attempt_make(const struct verb_call *call, const struct operator_config *config, int mechanism,
                  struct attempt *ret);
void attempt_done(struct attempt *a); /* accepts a zeroed struct */
#define AUTO_ATTEMPT __attribute__((cleanup(attempt_done)))

#endif
