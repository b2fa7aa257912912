/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the config may ask for and this version cannot do yet. It is refused
 * before anything is made: nothing is left out silently.
 */
#ifndef ORCH_ORCHESTRATOR_BUILT_H
#define ORCH_ORCHESTRATOR_BUILT_H

#include "config/run_config.h"

/* ORCH_E_UNAVAILABLE with the key and what to write instead; ORCH_E_CONFIG for a retired environment. */
MUST_USE int built_check(const struct run_config *c, struct orch_err *err);

#endif
