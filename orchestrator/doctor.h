/* SPDX-License-Identifier: Apache-2.0 */
/* `orch doctor`: what its checks are given and what they find. */
#ifndef ORCH_ORCHESTRATOR_DOCTOR_H
#define ORCH_ORCHESTRATOR_DOCTOR_H

#include "config/operator.h"
#include "orchestrator/attempt.h"
#include "orchestrator/probe_walk.h"
#include "state/layout.h"

enum doctor_status { DOCTOR_OK, DOCTOR_WARNING, DOCTOR_ERROR, DOCTOR_SKIPPED, DOCTOR_STATUS_COUNT };

struct doctor_finding {
    enum doctor_status status;
    char *summary; /* one line; all owned, NULL: nothing to say */
    char *details;
    char *remedy;
    int64_t ns; /* filled by the verb, unless the check did before */
};

/* What is looked at once and used by several checks. */
struct doctor {
    const struct verb_call *call;
    struct operator_config *config; /* NULL: it cannot be loaded */
    struct config_findings findings;
    struct orch_err config_err;
    int mechanism;               /* enum config_mechanism, with the variables; -1: they are refused */
    struct orch_err request_err; /* why */
    bool tried;                  /* `attempt` and `walk` are filled */
    struct attempt attempt;
    struct walk walk;
    int64_t attempt_ns;
    struct layout layout;
    bool has_layout;
};

struct doctor_check {
    const char *id;
    const char *category;
    void (*run)(const struct doctor *d, int step, struct doctor_finding *f);
    int step; /* enum diagnosis_step of a step of the walk; else 0 */
};
/* Ends with id NULL. */
extern const struct doctor_check doctor_checks[];

/* Fills a finding; `summary` is consumed, `details` too (may be NULL), `remedy` is copied (may be NULL). */
void doctor_say(struct doctor_finding *f, enum doctor_status status, char *summary, char *details, const char *remedy);
void doctor_say_error(struct doctor_finding *f, const struct orch_err *err);

/* doctor_host.c: what has nothing to do with confinement. */
void doctor_guests(const struct doctor *d, int step, struct doctor_finding *f);
void doctor_git(const struct doctor *d, int step, struct doctor_finding *f);
void doctor_space(const struct doctor *d, int step, struct doctor_finding *f);
void doctor_file_system(const struct doctor *d, int step, struct doctor_finding *f);
void doctor_clock(const struct doctor *d, int step, struct doctor_finding *f);
void doctor_descriptors(const struct doctor *d, int step, struct doctor_finding *f);
void doctor_keys(const struct doctor *d, int step, struct doctor_finding *f);

/* What a file system of this magic number (statfs(2)) means for the state: its name, and the remedy where it is no good
 * place (NULL: it is one). A number that is not in the table: "", NULL. */
const char *doctor_file_system_name(int64_t magic, const char **ret_remedy);

#endif
