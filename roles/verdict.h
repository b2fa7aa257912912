/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A judge's verdict: {"score": x, "metrics": {name: number or {"value": x, "unit": "…", "better": "higher"|"lower"}},
 * "feedback": "…"}, or a bare number. Strict: finite numbers, known members,
 * at most VERDICT_MAX bytes. Anything else is a judge error, never a score.
 */
#ifndef ORCH_ROLES_VERDICT_H
#define ORCH_ROLES_VERDICT_H

#include "base/err.h"
#include "base/json.h"

#define VERDICT_MAX ((size_t)1 << 20)
#define VERDICT_SCORE_MAX 1e100 /* either side of 0: sums and squares of scores stay finite */
#define VERDICT_FILE "verdict.json"

struct verdict {
    double score;
    json_t *metrics; /* object; owned, may be NULL */
    char *feedback;  /* owned, "" if none */
};

MUST_USE int verdict_parse(const char *data, size_t len, struct verdict *ret, struct orch_err *err);
/* Reads VERDICT_FILE beneath dirfd, following no link. Absence, and an empty file, are ORCH_E_NOT_FOUND. */
MUST_USE int verdict_read(int dirfd, struct verdict *ret, struct orch_err *err);
void verdict_done(struct verdict *v);

#endif
