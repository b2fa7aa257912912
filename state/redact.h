/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces the values of secret variables by <VARIABLE> in what is stored, in
 * their plain, base64, URL-encoded and JSON-escaped forms.
 * A redactor is constant after it is made: any number of threads may use it.
 */
#ifndef ORCH_STATE_REDACT_H
#define ORCH_STATE_REDACT_H

#include "base/buf.h"
#include "base/err.h"

#define REDACT_VALUE_MIN 16 /* shorter values would hit ordinary text; PASSWORDs count from 8 */
#define REDACT_PASSWORD_MIN 8
#define REDACT_VALUE_MAX 16384 /* longer values are cut to this and matched by their beginning */

struct redactor;
/* From an environment ("NAME=value" vector): names that hold API_KEY, _KEY, TOKEN, SECRET, PASSWORD, PASSWD,
 * CREDENTIAL (any case). NULL environment gives an empty one. */
struct redactor *redact_new(char *const *env);
void redact_free(struct redactor *r); /* NULL is fine */
void redact_release(struct redactor **r);
#define AUTO_REDACTOR __attribute__((cleanup(redact_release)))
/* Adds one value by hand (before sharing the redactor); returns false if it is too short to be searched for. */
bool redact_add(struct redactor *r, const char *variable, const char *value);
bool redact_is_secret_name(const char *variable);

/* NULL redactors redact nothing, find nothing. */
/* The variable whose value occurs in data, or NULL; borrowed. */
const char *redact_contains(const struct redactor *r, const void *data, size_t len);
/* Appends the redacted bytes to out; returns whether anything was replaced. */
bool redact_bytes(const struct redactor *r, const void *data, size_t len, struct buf *out);
/* Owned copy of a text (a name, a message) redacted. */
char *redact_text(const struct redactor *r, const char *text);

/* Bytes of the longest form searched for, at least 1: a cut text may end inside a value unless so much more was seen.
 */
size_t redact_reach(const struct redactor *r);

/* A stream: what could be the beginning of a value is held back until it is decided. */
struct redact_stream {
    const struct redactor *redactor; /* borrowed */
    struct buf held;
    bool replaced; /* anything so far */
};
void redact_stream_init(struct redact_stream *s, const struct redactor *r);
void redact_stream_done(struct redact_stream *s);
/* Appends what is decided to out. */
void redact_stream_add(struct redact_stream *s, const void *data, size_t len, struct buf *out);
void redact_stream_end(struct redact_stream *s, struct buf *out);

#endif
