/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Durations, sizes, names and numbers as text, strictly: a unit is required
 * (except for 0), nothing is rounded, overflow is an error. The same grammar
 * everywhere.
 *   duration  10m, 1m30s, 0.5s, 500ms, 1h, 2d, PT1M30S   (d h m s ms us ns, falling, each once)
 *   size      512B, 256K, 256KiB, 1.5GiB are powers of 1024 (K M G T, Ki…, KiB…); 256KB, 1GB powers of 1000
 */
#ifndef ORCH_CONFIG_UNITS_H
#define ORCH_CONFIG_UNITS_H

#include <stdbool.h>
#include <stdint.h>

/* Each returns NULL when it is good, else a static text that says what is wrong; *ret is untouched then. */
const char *units_duration(const char *text, int64_t *ret_ns);
const char *units_size(const char *text, int64_t *ret_bytes);
const char *units_int(const char *text, int64_t *ret);   /* decimal, no sign but '-', no leading zero */
const char *units_number(const char *text, double *ret); /* finite, JSON's grammar */

#define UNITS_TEXT_MAX 64
/* The shortest exact text in the same grammar, into out[UNITS_TEXT_MAX]; returns out. Negative: "null". */
char *units_duration_text(int64_t ns, char *out);
char *units_size_text(int64_t bytes, char *out);

/* [a-z0-9][a-z0-9._-]{0,62} */
bool units_is_name(const char *text);
/* [A-Za-z_][A-Za-z0-9_]{0,127} */
bool units_is_variable(const char *text);
/* A variable name that may hold '*': not only of '*'. */
bool units_is_variable_pattern(const char *text);
/* A host name or address, optionally "*." before it and ":port" behind. */
bool units_is_host(const char *text);

/* Edit distance (insert, delete, replace, swap of neighbours) for "nearest"; at most `cap` + 1. */
int units_distance(const char *a, const char *b, int cap);

#endif
