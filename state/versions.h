/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Versions in a bare Git repository (runs/<id>/versions.git), one commit each,
 * readable with plain git. Byte-exact: written by fast-import, read by
 * cat-file, so no attribute, filter or line-end rule applies. Only regular
 * files (with their executable bit) and directories pass; links, special files
 * and any component that Git takes for ".git" are ORCH_E_HOSTILE. Empty
 * directories are not kept: Git has none.
 *
 * The record says which version is accepted; refs are for people and are set
 * again on resume. All functions block (worker threads) and share nothing.
 */
#ifndef ORCH_STATE_VERSIONS_H
#define ORCH_STATE_VERSIONS_H

#include "base/buf.h"
#include "base/err.h"
#include "state/redact.h"

#include <stdint.h>

#define VERSIONS_SHA_MAX 65
#define VERSIONS_FILES_MAX 100000
#define VERSIONS_BYTES_MAX ((int64_t)1 << 30)
#define VERSIONS_FILE_MAX ((int64_t)256 << 20)
#define VERSIONS_DEPTH_MAX 64

struct versions; /* constant after opening */

/* `git`: absolute path, or NULL to search /usr/local/bin:/usr/bin:/bin (ORCH_E_UNAVAILABLE if absent).
 * `dir`: absolute. versions_create is fine with a repository that is already there or half made, and removes locks
 * that a killed git left: only the run's owner calls it. */
MUST_USE int versions_create(const char *git, const char *dir, struct versions **ret, struct orch_err *err);
MUST_USE int versions_open(const char *git, const char *dir, struct versions **ret, struct orch_err *err);
void versions_free(struct versions *v);
void versions_release(struct versions **v);
#define AUTO_VERSIONS __attribute__((cleanup(versions_release)))

struct version_id {
    char sha[VERSIONS_SHA_MAX];  /* of the commit */
    char tree[VERSIONS_SHA_MAX]; /* of the tree: equal trees have equal ids */
};
struct version_commit {
    int dirfd;            /* the tree */
    char *const *parents; /* commit shas, NULL-terminated; NULL: none */
    const char *message;
    const char *tag;                 /* refs/tags/<tag> keeps it ("v3"); replaced if it is there */
    int64_t wall_ns;                 /* author and committer time */
    const struct redactor *redactor; /* a file or name that holds a secret is ORCH_E_HOSTILE; may be NULL */
};
/* Durable when it returns. */
MUST_USE int versions_commit(const struct versions *v, const struct version_commit *c, struct version_id *ret,
                             struct orch_err *err);
/* Writes the tree of `sha` into the (empty) directory dirfd; files get 0644 or 0755. */
MUST_USE int versions_checkout(const struct versions *v, const char *sha, int dirfd, struct orch_err *err);
/* "v3", "3", "root", "best", "final", "main", a tag or a prefix (>= 4) of a commit sha. */
MUST_USE int versions_resolve(const struct versions *v, const char *selector, struct version_id *ret,
                              struct orch_err *err);
/* A tag ("root", "final", "best", "v4") or, for name "main", refs/heads/main. */
MUST_USE int versions_point(const struct versions *v, const char *name, const char *sha, struct orch_err *err);
/* Unified diff from a to b (selectors), at most out->max bytes (out->overflow tells); no colours, no external programs.
 */
MUST_USE int versions_diff(const struct versions *v, const char *a, const char *b, struct buf *out,
                           struct orch_err *err);
/* Parents, newest first: one line "sha parents… subject" each, for people. */
MUST_USE int versions_log(const struct versions *v, const char *selector, struct buf *out, struct orch_err *err);
/* Verifies connectivity and contents (git fsck); ORCH_E_DAMAGED. */
MUST_USE int versions_check(const struct versions *v, struct orch_err *err);

#endif
