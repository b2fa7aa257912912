/* SPDX-License-Identifier: Apache-2.0 */
/* Walking a tree by descriptor, following no link and leaving no file system. Blocking. */
#ifndef ORCH_BACKENDS_NODE_TREE_WALK_H
#define ORCH_BACKENDS_NODE_TREE_WALK_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#define WALK_DEPTH_MAX 64

/* Called for every entry below the root, a directory before its content. `dirfd` is the directory that holds
 * `name`; `path` is relative to the root. A negative return stops the walk with that code. */
typedef int (*walk_visit)(void *arg, int dirfd, const char *name, const char *path, const struct stat *st,
                          struct orch_err *err);

/* At most `max` entries, WALK_DEPTH_MAX levels and 4095 bytes of path, else ORCH_E_LIMIT. What vanishes
 * under way is left out. */
MUST_USE int tree_walk(int dirfd, uint64_t max, walk_visit visit, void *arg, struct orch_err *err);

/* Bytes in use below dirfd (blocks, hard links counted once each name), bounded by `max` entries. With `unlock`,
 * directories whose owner took the right to use them away are opened again: nothing hides below one. */
MUST_USE int tree_usage(int dirfd, uint64_t max, bool unlock, uint64_t *ret_bytes, struct orch_err *err);

/* Gives everything below dirfd, and dirfd itself, to uid:gid; links themselves, never their targets. Only what
 * belongs to `from_uid` when that is not (uid_t)-1. */
MUST_USE int tree_chown(int dirfd, uid_t from_uid, uid_t uid, gid_t gid, struct orch_err *err);

#endif
