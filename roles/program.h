/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command of the config, made ready for a place where it runs. Words that
 * name something of the project ("./solve", "../lib", relative to the config)
 * are copied once a run into a staging directory, which every sandbox of the
 * role shows read-only as PROGRAM_DIR; a change of the original during the run
 * changes nothing. Other words (a program on PATH, options) stay as they are.
 */
#ifndef ORCH_ROLES_PROGRAM_H
#define ORCH_ROLES_PROGRAM_H

#include "base/digest.h"
#include "base/err.h"

#define PROGRAM_DIR "/w/program"
#define PROGRAM_BYTES_MAX ((uint64_t)256 << 20)

struct program {
    char **inside;                /* argv in a sandbox; owned */
    char **host;                  /* argv for the host's own judge: the copies by absolute path; owned */
    char *stage;                  /* absolute staging directory with the copies; owned; NULL when nothing was staged */
    char digest[DIGEST_TEXT_MAX]; /* of the words and all staged contents: part of the fingerprint */
};

/*
 * Prepares `command` (NULL-terminated, not empty). `config_dir` is absolute;
 * `stage` is the absolute path of a directory to make (its parent exists).
 * ORCH_E_CONFIG, naming the word, when argv[0] names a file that is absent or
 * not executable. Blocking.
 */
MUST_USE int program_prepare(char *const *command, const char *config_dir, const char *stage, struct program *ret,
                             struct orch_err *err);
/* ORCH_E_CONFIG as above, before anything is made; an empty command is fine. */
MUST_USE int program_check(char *const *command, const char *config_dir, struct orch_err *err);
/* Digest of the originals now: differs from program.digest when somebody changed them. Blocking. */
MUST_USE int program_digest_now(char *const *command, const char *config_dir, char out[DIGEST_TEXT_MAX],
                                struct orch_err *err);
void program_done(struct program *p); /* accepts a zeroed struct */

/* Digest of a directory's names, modes and contents (sorted, links as text): for trees that are part of the
 * fingerprint (template, task-info, tests). A file counts as itself. Blocking. */
MUST_USE int contents_digest(const char *path, char out[DIGEST_TEXT_MAX], struct orch_err *err);

#endif
