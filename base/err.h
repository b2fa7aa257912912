/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors are values. A function that can fail returns 0 or a negative code
 * from `enum orch_code` and fills a caller-owned `struct orch_err`; nothing is
 * allocated, nobody prints and nobody exits below orchestrator/.
 *
 *   set      err_set(err, ORCH_E_CONFIG, "…")       first report, returns the code
 *   errno    err_errno(err, ORCH_E_IO, "open %s", p) the same, adds strerror(errno)
 *   wrap     err_wrap(err, "start trial %s", id)     prefixes "start trial 7: "
 *   forward  TRY(f(…, err))                          returns the code on failure
 *
 * `err` may never be NULL. Outputs of a failed function are untouched.
 */
#ifndef ORCH_BASE_ERR_H
#define ORCH_BASE_ERR_H

#include <stdbool.h>
#include <stddef.h>

/* What a caller may do about an error. Callers branch on this, never on text. */
enum err_class {
    ERR_PERMANENT, /* the same call will fail again */
    ERR_RETRY,     /* infrastructure: may pass later */
    ERR_BUG,       /* a rule of ours was broken */
    ERR_UNKNOWN,   /* the effect may or may not have happened: reconcile first */
    ERR_CLASS_COUNT
};

/* name, exit status of `orch` (DESIGN 10), class, remedy shown beside the message ("" for none) */
#define ORCH_ERR_TABLE(X)                                                                                              \
    X(OK, 0, ERR_PERMANENT, "")                                                                                        \
    X(FAILED, 1, ERR_PERMANENT, "")                                                                                    \
    X(USAGE, 2, ERR_PERMANENT, "see `orch help`")                                                                      \
    X(CONFIG, 2, ERR_PERMANENT, "")                                                                                    \
    X(NOT_FOUND, 2, ERR_PERMANENT, "")                                                                                 \
    X(DRIFT, 2, ERR_PERMANENT, "`--new` starts another run; undo the change to go on with this one")                   \
    X(UNAVAILABLE, 3, ERR_PERMANENT, "see `orch doctor`")                                                              \
    X(OWNED, 4, ERR_PERMANENT, "wait for the owner to end, or stop it")                                                \
    X(BUDGET, 5, ERR_PERMANENT, "raise the budget and run again: what was done is kept")                               \
    X(DAMAGED, 6, ERR_PERMANENT, "the record was not touched; restore it from a copy or start with --new")             \
    X(DISABLED, 7, ERR_PERMANENT, "the operator's config decides this")                                                \
    X(INCONCLUSIVE, 8, ERR_PERMANENT, "")                                                                              \
    X(INTERRUPTED, 130, ERR_PERMANENT, "run the same command to go on")                                                \
    X(IO, 1, ERR_RETRY, "")                                                                                            \
    X(NO_SPACE, 1, ERR_RETRY, "free some space and run again: what was done is kept")                                  \
    X(TIMEOUT, 1, ERR_RETRY, "")                                                                                       \
    X(LIMIT, 1, ERR_PERMANENT, "")                                                                                     \
    X(HOSTILE, 1, ERR_PERMANENT, "")                                                                                   \
    X(PROTOCOL, 1, ERR_RETRY, "")                                                                                      \
    X(LOST, 1, ERR_UNKNOWN, "run the same command to go on: what was done is kept")                                    \
    X(INTERNAL, 1, ERR_BUG, "this is a bug in orch: please report it with the whole message")

/* Codes are negative so that `< 0` tests for failure. */
enum orch_code_index {
#define X(name, exit, class, remedy) ORCH_X_##name,
    ORCH_ERR_TABLE(X)
#undef X
        ORCH_X_COUNT
};
enum orch_code {
#define X(name, exit, class, remedy) ORCH_E_##name = -(int)ORCH_X_##name,
    ORCH_ERR_TABLE(X)
#undef X
};

#define ERR_MESSAGE_MAX 1024

struct orch_err {
    int code;         /* enum orch_code; 0: no error yet */
    int sys;          /* errno, or 0 */
    const char *file; /* place in our source that reported first */
    int line;
    bool truncated; /* the message was cut */
    char message[ERR_MESSAGE_MAX];
};

#define ERR_INIT                                                                                                       \
    {                                                                                                                  \
        .code = 0                                                                                                      \
    }

#define err_set(err, code, ...) err_set_at((err), (code), 0, __FILE__, __LINE__, __VA_ARGS__)
/* Appends ": " and the text of the current errno. ENOSPC, EDQUOT become ORCH_E_NO_SPACE. */
#define err_errno(err, code, ...) err_errno_at((err), (code), __FILE__, __LINE__, __VA_ARGS__)

int err_set_at(struct orch_err *err, int code, int sys, const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 6, 7)));
int err_errno_at(struct orch_err *err, int code, const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* Prefixes "text: " to the message; keeps code, errno and place; returns the code. */
int err_wrap(struct orch_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Forgets an error that was dealt with. */
void err_clear(struct orch_err *err);

#ifdef __clang_analyzer__ /* which does not see into err.c that the code of an error is negative */
#undef err_set
#undef err_errno
#define err_set(err, code, ...) ((void)err_set_at((err), (code), 0, __FILE__, __LINE__, __VA_ARGS__), -1)
#define err_errno(err, code, ...) ((void)err_errno_at((err), (code), __FILE__, __LINE__, __VA_ARGS__), -1)
#define err_wrap(err, ...) ((void)(err_wrap)((err), __VA_ARGS__), -1)
#endif

/* Facts of a code; any int is accepted (an unknown one counts as INTERNAL). */
const char *err_name(int code); /* "config", "no-space", … stable, used in --json */
int err_exit_status(int code);
enum err_class err_class_of(int code);
const char *err_remedy(int code);

#define MUST_USE __attribute__((warn_unused_result))

#define TRY(expr)                                                                                                      \
    do {                                                                                                               \
        int try_code_ = (expr);                                                                                        \
        if (try_code_ < 0) {                                                                                           \
            return try_code_;                                                                                          \
        }                                                                                                              \
    } while (0)

#endif
