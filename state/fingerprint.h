/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fingerprint of a run: a versioned digest of everything that changes its
 * meaning. The document is made elsewhere; here it becomes "1:sha256:…", and two
 * documents become a list of differences for the drift message.
 */
#ifndef ORCH_STATE_FINGERPRINT_H
#define ORCH_STATE_FINGERPRINT_H

#include "base/digest.h"
#include "base/err.h"
#include "base/json.h"

#define FINGERPRINT_VERSION 1
#define FINGERPRINT_MAX (DIGEST_TEXT_MAX + 8)
#define FINGERPRINT_DIFF_MAX 200 /* differences listed; `more` counts the rest */

/* Of the canonical text, so key order does not matter. */
void fingerprint_of(const json_t *document, char out[FINGERPRINT_MAX]);

struct fingerprint_diff {
    struct fingerprint_change {
        char *path;   /* "task.timeout", "tasks[3].id" */
        char *before; /* JSON text, cut to a line; "(absent)" */
        char *after;
    } * items;
    size_t count;
    size_t more;
};
/* Both documents are borrowed. */
void fingerprint_compare(const json_t *before, const json_t *after, struct fingerprint_diff *ret);
void fingerprint_diff_done(struct fingerprint_diff *d);
#define AUTO_FINGERPRINT_DIFF __attribute__((cleanup(fingerprint_diff_done)))

#endif
