/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members of one JSON object as places in its text, so that values can be left
 * out or handed over without being read and written again (whole numbers of any
 * size stay as they are). Used within config/.
 */
#ifndef ORCH_CONFIG_TASKS_SCAN_H
#define ORCH_CONFIG_TASKS_SCAN_H

#include "config/findings.h"

#include <stdbool.h>
#include <stddef.h>

/* Checks that the text is one JSON object: strict, no repeated keys, finite numbers. A fault is a finding. */
bool tasks_scan_valid(const char *text, size_t len, const char *place, int line, struct config_findings *findings);

struct tasks_member {
    const char *key; /* with its quotes */
    size_t key_len;
    const char *value;
    size_t value_len;
};

/* Next member of an object that tasks_scan_valid accepted; *at starts at 0. False at the end. */
bool tasks_scan_next(const char *text, size_t len, size_t *at, struct tasks_member *ret);
/* Is the key this text, whatever escapes it is written with? */
bool tasks_scan_key_is(const struct tasks_member *member, const char *key);
/* A string value without quotes and escapes; NULL if it is no string or holds NUL. Owned by the caller. */
char *tasks_scan_text(const char *value, size_t len);

#endif
