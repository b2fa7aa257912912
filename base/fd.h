/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors: every one is close-on-exec from birth; work happens beneath a
 * directory descriptor and follows no link (openat2(2), RESOLVE_BENEATH |
 * RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS).
 */
#ifndef ORCH_BASE_FD_H
#define ORCH_BASE_FD_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define AUTO_FD __attribute__((cleanup(fd_close)))

/* Closes *fd unless it is negative, sets it to -1, keeps errno. close(2) is never retried. */
void fd_close(int *fd);

/* Opens `path` beneath `dirfd` without following any link. `flags` as open(2); O_CLOEXEC is added.
 * Returns the descriptor (>= 0) or a negative code; a link or an escape is ORCH_E_HOSTILE,
 * absence is ORCH_E_NOT_FOUND. */
MUST_USE int fd_open_beneath(int dirfd, const char *path, int flags, mode_t mode, struct orch_err *err);

/* Gives its owner, who must be the caller, the right to read a regular file or to use a directory: a program may have
 * taken it away. No link is followed. What cannot be done is left to the open that follows. */
void fd_unlock_beneath(int dirfd, const char *path);
/* Opens an operator's or user's own path, links followed, O_CLOEXEC added. */
MUST_USE int fd_open(const char *path, int flags, mode_t mode, struct orch_err *err);

/* Reads at most `max` bytes until end of file; more is ORCH_E_LIMIT. *ret_data is NUL-terminated, owned by the caller.
 */
MUST_USE int fd_read_all(int fd, size_t max, char **ret_data, size_t *ret_len, struct orch_err *err);
/* fd_read_all of a regular file named by a trusted path; a special file is refused without opening a reader on it. */
MUST_USE int fd_read_file(const char *path, size_t max, char **ret_data, size_t *ret_len, struct orch_err *err);
/* The same beneath a directory descriptor, no links. */
MUST_USE int fd_read_file_at(int dirfd, const char *path, size_t max, char **ret_data, size_t *ret_len,
                             struct orch_err *err);
/* Writes everything (short writes and EINTR handled). */
MUST_USE int fd_write_all(int fd, const void *data, size_t len, struct orch_err *err);

/* Replaces what a file opened at offset 0 holds. The new bytes go over the old ones and the rest is cut: emptying the
 * file first would make ext4 write it out on close (auto_da_alloc, ext4(5)) and free its blocks. Not atomic. */
MUST_USE int fd_overwrite(int fd, const void *data, size_t len, struct orch_err *err);

/* mkdir -p of a trusted path; existing directories are fine. */
MUST_USE int fd_mkdirs(const char *path, mode_t mode, struct orch_err *err);
/* Removes a tree beneath dirfd by descriptor: follows no link, stays on the device, restores permissions
 * it needs, any depth and width. Absence is success. */
MUST_USE int fd_remove_tree(int dirfd, const char *name, struct orch_err *err);
/* Removes everything in the directory `fd`, by the same rules; the directory itself stays. */
MUST_USE int fd_empty_dir(int fd, struct orch_err *err);
/* A sealed, close-on-exec memfd holding `data`, offset 0. */
MUST_USE int fd_memfd(const char *name, const void *data, size_t len, struct orch_err *err);

#endif
