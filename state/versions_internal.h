/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by versions*.c only. */
#ifndef ORCH_STATE_VERSIONS_INTERNAL_H
#define ORCH_STATE_VERSIONS_INTERNAL_H

#include "base/process.h"
#include "state/versions.h"

struct versions {
    char *git;
    char *dir;
};

#define VERSIONS_TIMEOUT_NS (INT64_C(600) * 1000000000)
#define VERSIONS_OUTPUT_MAX ((size_t)32 << 20)

/* What one git command is given besides its arguments. */
struct git_io {
    int input_fd;      /* 0: none */
    const void *input; /* or this */
    size_t input_len;
    int output_fd;     /* 0: kept in the result */
    size_t output_max; /* 0: VERSIONS_OUTPUT_MAX */
};
/* Runs git with a clean environment, no hooks, no prompts; `args` is NULL-terminated. */
int versions_git(const struct versions *v, const char *const *args, const struct git_io *io, struct command_result *ret,
                 struct orch_err *err);
/* An unlinked file for a stream between us and git. */
int versions_scratch(const struct versions *v, struct orch_err *err);
bool versions_sha_valid(const char *text);

#endif
