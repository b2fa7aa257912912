/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is wrong with a file, as data. A check collects several findings before
 * it gives up, each with its place, what was found, what was expected, the
 * nearest known name and what to do. Text in a finding is escaped for a
 * terminal already and never holds a secret's value.
 */
#ifndef ORCH_CONFIG_FINDINGS_H
#define ORCH_CONFIG_FINDINGS_H

#include "base/err.h"

#include <jansson.h>
#include <stddef.h>

#define CONFIG_FINDINGS_MAX 64 /* kept; further ones are only counted */

struct config_finding {
    char *id;       /* stable, for --json: "unknown-key", "duplicate-key", … */
    char *place;    /* file as given, or `override key=value`; owned */
    int line;       /* 1-based; 0: the whole file or override */
    int column;     /* 1-based, in characters; 0: none */
    char *message;  /* what was found */
    char *expected; /* NULL: nothing to say */
    char *nearest;  /* NULL: none is near */
    char *remedy;   /* NULL: none */
};

struct config_findings {
    struct config_finding items[CONFIG_FINDINGS_MAX];
    size_t count;   /* kept in items */
    size_t dropped; /* beyond CONFIG_FINDINGS_MAX */
};

/* All members NULL/0 is a valid empty set. */
void config_findings_done(struct config_findings *f);
#define AUTO_FINDINGS __attribute__((cleanup(config_findings_done)))

/* Adds one; texts are copied, NULLs are fine. Returns the kept finding or NULL when it was only counted. */
struct config_finding *config_findings_add(struct config_findings *f, const char *id, const char *place, int line,
                                           int column, const char *expected, const char *nearest, const char *remedy,
                                           const char *message_format, ...) __attribute__((format(printf, 9, 10)));

/* "file:3:5: message [id]\n  expected: …\n  nearest: …\n  remedy: …\n". Owned by the caller. */
char *config_finding_text(const struct config_finding *f);
/* The texts of all, in order, and a last line that counts the dropped ones. Owned by the caller. */
char *config_findings_text(const struct config_findings *f);
/* Array of {id, file, line, column, message, expected, nearest, remedy}. New reference. */
json_t *config_findings_json(const struct config_findings *f);
/* 0 when empty; else ORCH_E_CONFIG with the first finding's line and "(and N more)". */
MUST_USE int config_findings_result(const struct config_findings *f, struct orch_err *err);

#endif
