/* SPDX-License-Identifier: Apache-2.0 */
/* Paths as text. Nothing here touches the file system except path_real and path_search. */
#ifndef ORCH_BASE_PATH_H
#define ORCH_BASE_PATH_H

#include "base/err.h"

/* "a" + "b" → "a/b"; an absolute b wins; empty a gives b. Owned by the caller. */
char *path_join(const char *a, const char *b);
/* Resolves "." and "" components and ".." lexically; keeps a leading '/'. ".." above the top of a relative path stays.
 */
char *path_normal(const char *path);
/* True if `path` is `root` or below it; both normalised absolute paths. */
bool path_is_beneath(const char *path, const char *root);
/* A relative path that stays inside: not empty, no "..", ".", "//", leading or trailing '/'. Any other bytes. */
bool path_is_inner(const char *path);
/* The same without control characters, for what people write. */
bool path_is_plain_relative(const char *path);
/* Last component, borrowed from `path`. */
const char *path_base(const char *path);
/* Directory part, owned; "." when there is none. */
char *path_dir(const char *path);
/* realpath(3); absence is ORCH_E_NOT_FOUND. Owned by the caller. */
MUST_USE int path_real(const char *path, char **ret, struct orch_err *err);
/* Finds a program: a name with '/' is taken as it is, else searched in `search` (the form of $PATH;
 * relative and empty entries are skipped). Only regular executable files. Owned by the caller. */
MUST_USE int path_search(const char *program, const char *search, char **ret, struct orch_err *err);
/* Shell-like pattern over a relative path: '*' and '?' stop at '/', '**' as a whole component spans directories. */
bool path_glob(const char *pattern, const char *path);

#endif
