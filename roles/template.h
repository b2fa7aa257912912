/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A template: what may be learned in an adapter and what is fixed. adapter.yaml:
 *
 *   template: text-rules@1.0          id@version
 *   learnable: [rules.txt, "*.md"]   globs: may be changed, added, removed
 *   fixed: [ADAPTER.md]               globs: byte-identical, even where learnable matches
 *   on_violation: refuse              refuse (the candidate) | drop (the edit)
 *   check: {command: [./check-rules], timeout: 10s}   program beside adapter.yaml; gets the candidate last
 *
 * Everything not learnable is fixed; adapter.yaml always is.
 */
#ifndef ORCH_ROLES_TEMPLATE_H
#define ORCH_ROLES_TEMPLATE_H

#include "base/err.h"
#include "config/findings.h"

#define TEMPLATE_FILE "adapter.yaml"
#define TEMPLATE_FILE_MAX ((size_t)256 << 10)
#define TEMPLATE_FILES_MAX 20000
#define TEMPLATE_BYTES_MAX ((uint64_t)256 << 20)
#define TEMPLATE_VIOLATIONS_MAX 50 /* named; more are counted */

struct template
{
    char *id;         /* "text-rules@1.0" */
    char **learnable; /* globs; vectors are never NULL */
    char **fixed;
    bool drop; /* on_violation: drop */
    char **check_command;
    int64_t check_timeout_ns;
};

/* Reads dir/adapter.yaml. On findings returns ORCH_E_CONFIG with the list. */
MUST_USE int template_load(const char *dir, struct template *ret, struct config_findings *findings,
                           struct orch_err *err);
void template_done(struct template *t); /* accepts a zeroed struct */

/* Whether both trees hold the same files: paths, contents, executable or not. A directory without a file counts for
 * nothing, as in a version. Blocking. */
MUST_USE int template_same_files(const char *a, const char *b, bool *ret, struct orch_err *err);

struct template_verdict {
    char **violations; /* one text each, escaped; owned; empty: the candidate obeys the rules */
    size_t more;       /* violations beyond TEMPLATE_VIOLATIONS_MAX */
    size_t changed;    /* learnable files that differ from the root, were added or removed */
};

/*
 * Compares a candidate with the root version by the rules; changes nothing.
 * Both directories hold only what the handoff let pass. Blocking.
 */
MUST_USE int template_check(const struct template *t, const char *root_dir, const char *candidate_dir,
                            struct template_verdict *ret, struct orch_err *err);
/* The same, for a copy that is ours: with on_violation drop, violating files of the candidate are put back as in the
 * root (the violations are still listed). */
MUST_USE int template_settle(const struct template *t, const char *root_dir, const char *candidate_dir,
                             struct template_verdict *ret, struct orch_err *err);
void template_verdict_done(struct template_verdict *v);

#endif
