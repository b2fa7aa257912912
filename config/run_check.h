/* SPDX-License-Identifier: Apache-2.0 */
/* What one key alone cannot say: rules between keys. Used within config/. */
#ifndef ORCH_CONFIG_RUN_CHECK_H
#define ORCH_CONFIG_RUN_CHECK_H

#include "config/findings.h"
#include "config/run_config.h"

/* Adds a finding for every rule that is broken. `place` is the name of the file. */
void run_check(const struct run_config *config, const char *place, struct config_findings *findings);

/* Adds a finding at a key of a loaded config, or at the nearest group above it. */
void run_check_report(const struct run_config *config, const char *place, struct config_findings *findings,
                      const char *key, const char *id, const char *expected, const char *remedy, const char *format,
                      ...) __attribute__((format(printf, 8, 9)));

#endif
