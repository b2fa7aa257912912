/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one capability table: environment × mechanism × property. What a config
 * asks and the table says is refused does not start; what is weaker than asked
 * is allowed, recorded and printed. Facts only; loop or any thread.
 */
#ifndef ORCH_BACKENDS_CAPABILITY_H
#define ORCH_BACKENDS_CAPABILITY_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum capability {
    CAPABILITY_READ_ONLY,     /* read-only paths */
    CAPABILITY_HIDDEN,        /* hidden paths */
    CAPABILITY_OWN_PATHS,     /* things appear where the spec says, such as /w, not where the machine has them */
    CAPABILITY_PRIVATE_TMP,   /* a /tmp and a home of its own, sized */
    CAPABILITY_ABSENT,        /* what was not granted does not exist: no name, size or mode of it is seen or changed */
    CAPABILITY_OWN_PROCESSES, /* the machine's processes are not seen */
    CAPABILITY_MEMORY,        /* limits */
    CAPABILITY_PROCESSES,
    CAPABILITY_FILE,
    CAPABILITY_CPU,
    CAPABILITY_DISK,
    CAPABILITY_OUTPUT,
    CAPABILITY_TIMEOUT,
    CAPABILITY_NO_NETWORK,
    CAPABILITY_ALLOWLIST,
    CAPABILITY_PUBLIC,
    CAPABILITY_METER, /* streams: ports inside reach the host */
    CAPABILITY_SHARES_PATHS,
    CAPABILITY_JUDGE_HOST,
    CAPABILITY_JUDGE_SHARED,
    CAPABILITY_JUDGE_SEPARATE,
    CAPABILITY_ADOPT,
    CAPABILITY_GPU,
    CAPABILITY_COUNT
};

enum capability_value { CAPABILITY_REFUSED, CAPABILITY_DEGRADED, CAPABILITY_ENFORCED };

struct capability_cell {
    enum capability_value value;
    const char *code; /* stable id of why it is not simply enforced ("memory-per-process"); "" when enforced */
    const char *note; /* one sentence for people; "" when enforced */
};

const char *capability_name(enum capability property);          /* "read-only" */
const char *capability_value_name(enum capability_value value); /* "enforced" */
/* The property of that name; ORCH_E_NOT_FOUND. */
MUST_USE int capability_find(const char *name, enum capability *ret, struct orch_err *err);

/* The cell; an environment or mechanism that is not in the table refuses everything (code "not-built").
 * `mechanism` NULL or "auto": the environment's default. */
struct capability_cell capability_get(const char *environment, const char *mechanism, enum capability property);
/* 0 when the property is enforced or degraded; *ret (may be NULL) says which. ORCH_E_UNAVAILABLE with the code
 * otherwise. */
MUST_USE int capability_require(const char *environment, const char *mechanism, enum capability property,
                                struct capability_cell *ret, struct orch_err *err);

struct capability_row {
    const char *environment;
    const char *mechanism;
    enum capability property;
    struct capability_cell cell;
};
/* Every row of the table in order; returning false stops. */
void capability_each(bool (*each)(const struct capability_row *row, void *arg), void *arg);

#endif
