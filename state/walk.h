/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a tree that somebody else made: by descriptor, following no link,
 * bounded, in sorted order. Regular files and directories pass; a link, a device,
 * a socket or a pipe is ORCH_E_HOSTILE; beyond a cap is ORCH_E_LIMIT.
 */
#ifndef ORCH_STATE_WALK_H
#define ORCH_STATE_WALK_H

#include "base/err.h"

#include <stdint.h>
#include <sys/stat.h>

struct walk_caps {
    int64_t bytes; /* all files together */
    int64_t file;  /* one file */
    int64_t files; /* entries, directories too */
    int depth;     /* directories below the top */
};
#define WALK_DEPTH_MAX 128
#define WALK_PATH_MAX 4096

/* `path` is relative, bytes as they are; fd is open for reading at 0 (a file) or the directory. A negative return ends
 * the walk with that code. */
typedef int (*walk_visit)(void *arg, const char *path, int fd, const struct stat *st, struct orch_err *err);

MUST_USE int walk_tree(int dirfd, const struct walk_caps *caps, walk_visit visit, void *arg, struct orch_err *err);

/* True for a relative path whose components are none of "", ".", ".."; bytes are otherwise free. */
bool walk_path_valid(const char *path);
/* Creates the file `path` beneath dirfd (parents 0755 are made, nothing is replaced, no link is followed).
 * Returns a descriptor for writing. */
MUST_USE int walk_create_file(int dirfd, const char *path, mode_t mode, struct orch_err *err);
/* Makes the directory `path` and its parents beneath dirfd. */
MUST_USE int walk_create_dir(int dirfd, const char *path, struct orch_err *err);

#endif
