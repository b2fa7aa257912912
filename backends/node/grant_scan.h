/* SPDX-License-Identifier: Apache-2.0 */
/* What lies in a directory of the machine that is granted as it is: things a read-only bind does not make harmless. */
#ifndef ORCH_BACKENDS_NODE_GRANT_SCAN_H
#define ORCH_BACKENDS_NODE_GRANT_SCAN_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define GRANT_SCAN_ENTRIES UINT64_C(20000)
#define GRANT_SCAN_NS (INT64_C(100) * 1000000)

struct grant_facts {
    uint64_t entries;
    uint64_t sockets;    /* a program inside could connect: AF_UNIX is refused to the sandbox (E47) */
    uint64_t hard_links; /* files with other names, perhaps outside (E18): reported */
    uint64_t setid;      /* harmless inside (nosuid), reported */
    uint64_t outward;    /* links that lead out of it: dangling inside (E17), reported */
    bool complete;       /* false: more entries or time than the limits; what was not seen may be anything */
};

struct grant_scans;
struct grant_scans *grant_scans_new(void);
void grant_scans_free(struct grant_scans *s);

/* Facts of a directory (or file) at an absolute real path; remembered for as long as it is the same directory with the
 * same modification time, so that a run looks once at what its trials share. Blocks for at most GRANT_SCAN_NS or so.
 * Borrowed. */
const struct grant_facts *grant_scan(struct grant_scans *s, const char *real);

#endif
