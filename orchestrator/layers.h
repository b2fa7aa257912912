/* SPDX-License-Identifier: Apache-2.0 */
/* The layers of confinement, one by one, as an opened sandbox really had them. */
#ifndef ORCH_ORCHESTRATOR_LAYERS_H
#define ORCH_ORCHESTRATOR_LAYERS_H

#include "orchestrator/attempt.h"

/* [{id, on, reason}]: `reason` says what holds, or why it is off. New reference. Pure. */
json_t *layers_json(const struct attempt *a);

#endif
