/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Child processes. process_spawn() is the one place that forks; command_run()
 * is the *command runner* of the vocabulary: it runs a trusted command and
 * returns a bounded result. It isolates nothing and is never given agent or
 * candidate code.
 */
#ifndef ORCH_BASE_PROCESS_H
#define ORCH_BASE_PROCESS_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

struct spawn_fd {
    int child;  /* descriptor number in the child */
    int parent; /* descriptor here; stays open here */
};

struct spawn {
    const char *program; /* absolute path, executed as it is */
    char *const *argv;
    char *const *envp;
    const char *cwd;     /* NULL: unchanged */
    bool private_mounts; /* a mount namespace of its own, into which nothing propagates (needs CAP_SYS_ADMIN) */
    bool same_session;   /* stay in the caller's: for a child that makes one of its own, which is not cheap */
    const struct spawn_fd *fds;
    size_t fd_count; /* everything else is closed; 0–2 not listed become /dev/null */
};

/*
 * Starts a child in a session of its own (unless same_session), with default
 * signals and no blocked ones, umask 022, and SIGKILL on the death of the calling *thread*
 * (prctl(2), PR_SET_PDEATHSIG): call it only from threads that live as long as
 * the process. Returns the pid; *ret_pidfd (pidfd_open(2)) is owned by the
 * caller. A failing exec is reported here, not as an exit status:
 * ORCH_E_NOT_FOUND when absent, ORCH_E_IO otherwise.
 */
MUST_USE pid_t process_spawn(const struct spawn *s, int *ret_pidfd, struct orch_err *err);

/* How a process ended. Unknown is a value of its own, never 0. */
enum end_kind { END_UNKNOWN, END_EXITED, END_SIGNALLED, END_TIMEOUT, END_COUNT };

struct command {
    const char *program; /* absolute */
    char *const *argv;
    char *const *envp;
    const char *cwd;
    const void *input; /* standard input; NULL: /dev/null */
    size_t input_len;
    int input_fd;       /* used instead of `input` when > 0 */
    size_t output_max;  /* kept bytes of each of stdout and stderr; the rest is read and dropped */
    int output_fd;      /* stdout goes here unkept when > 0 */
    int64_t timeout_ns; /* 0: none */
    bool asked_first; /* at the time limit SIGTERM, and SIGKILL only COMMAND_PATIENCE_NS later: it ends its own tree */
};
#define COMMAND_PATIENCE_NS (INT64_C(40) * 1000000000)

struct command_result {
    enum end_kind end;
    int code;  /* exit status, or the signal */
    char *out; /* owned, NUL-terminated */
    size_t out_len;
    bool out_cut;
    char *err; /* stderr, owned */
    size_t err_len;
    bool err_cut;
    int64_t wall_ns;
    struct rusage usage;
};

/* Blocking: call it on a worker thread. The child's whole process group is killed at the end. */
MUST_USE int command_run(const struct command *c, struct command_result *ret, struct orch_err *err);
/* 0 if it exited 0; else an error quoting the end of stderr. */
MUST_USE int command_check(const struct command_result *r, const char *what, struct orch_err *err);
void command_result_done(struct command_result *r);
#define AUTO_COMMAND_RESULT __attribute__((cleanup(command_result_done)))

#endif
