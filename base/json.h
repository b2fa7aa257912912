/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jansson, used strictly: duplicate keys, invalid UTF-8, NUL, NaN and trailing
 * bytes are errors; depth and size are bounded. Getters never fail: they return
 * the fallback when the member is absent or of another type; use json_require_*
 * where absence is an error.
 */
#ifndef ORCH_BASE_JSON_H
#define ORCH_BASE_JSON_H

#include "base/err.h"

#include <jansson.h>
#include <stdint.h>

#define AUTO_JSON __attribute__((cleanup(json_release)))
void json_release(json_t **value);

/* Parses exactly one value of at most `max` bytes. New reference. Errors name line and column. */
MUST_USE int json_parse(const char *data, size_t len, size_t max, json_t **ret, struct orch_err *err);
MUST_USE int json_parse_file(const char *path, size_t max, json_t **ret, struct orch_err *err);

/* Canonical text: sorted keys, no spaces, numbers with 17 digits. Owned by the caller. */
char *json_canonical(const json_t *value);
/* Indented text with a final newline, keys in insertion order. Owned by the caller. */
char *json_pretty(const json_t *value);

const char *json_get_str(const json_t *object, const char *key, const char *fallback); /* borrowed */
int64_t json_get_int(const json_t *object, const char *key, int64_t fallback);
double json_get_num(const json_t *object, const char *key, double fallback); /* integers too */
bool json_get_flag(const json_t *object, const char *key, bool fallback);
/* The member, or NULL; borrowed. */
json_t *json_get(const json_t *object, const char *key);

/* Setters that own the memory question: abort when out of memory. A NULL text stores null;
 * text that is not UTF-8 is stored with each bad byte as U+FFFD. */
void json_set_str(json_t *object, const char *key, const char *text);
void json_set_text(json_t *object, const char *key, const char *data, size_t len);
void json_set_int(json_t *object, const char *key, int64_t value);
void json_set_num(json_t *object, const char *key, double value);
void json_set_flag(json_t *object, const char *key, bool value);
void json_set_take(json_t *object, const char *key, json_t *value); /* consumes value */
void json_add_str(json_t *array, const char *text);
void json_add_take(json_t *array, json_t *value); /* consumes value */
/* A JSON string of any bytes, as json_set_text. New reference. */
json_t *json_text(const char *data, size_t len);

/* Bytes as they are, for what a program must get unchanged: a string, or {"hex": "61ff"} when they are not UTF-8.
 * json_bytes_get: owned text, or NULL when `value` is neither or holds a NUL. */
json_t *json_bytes(const char *text);
char *json_bytes_get(const json_t *value);
json_t *json_from_byte_strv(char *const *strv);

/* Array of strings → NULL-terminated vector owned by the caller (strv_free); absent gives an empty vector. */
char **json_get_strv(const json_t *object, const char *key);
json_t *json_from_strv(char *const *strv);
void strv_free(char **strv);
void strv_release(char ***strv);
#define AUTO_STRV __attribute__((cleanup(strv_release)))
size_t strv_len(char *const *strv); /* NULL counts as empty */
char **strv_copy(char *const *strv);
/* Appends (consumes item); strv may be NULL. Returns the new vector. */
char **strv_append(char **strv, char *item);

#endif
