/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The judge of mode `host`: the operator's own program, run by the command
 * runner on what was collected. It is trusted; what it reads is not. The
 * verdict's place is a directory that no sandbox ever sees.
 */
#ifndef ORCH_ROLES_HOST_JUDGE_H
#define ORCH_ROLES_HOST_JUDGE_H

#include "base/err.h"
#include "config/run_config.h"
#include "roles/program.h"
#include "roles/verdict.h"

#define HOST_JUDGE_OUTPUT_MAX ((size_t)256 << 10)

struct host_judge {
    const struct run_config *config;
    const struct program *program;
    const char *work; /* absolute; has collected/, and verdict/ and home/, both empty: no agent can have been there.
                       * task.json and context.json are written here, over those of an earlier trial. */
    const char *task_text;
    size_t task_len;
    const char *reaper; /* orch-init: the judge runs under it, and nothing it started outlives it */
};

struct host_judgement {
    int code;            /* 0: verdict is there; else a judge error, described by reason and text */
    const char *reason;  /* "judge-exit", "judge-signal", "judge-timeout", "judge-no-verdict", "judge-verdict", … */
    struct orch_err err; /* the text */
    struct verdict verdict;
    char *out; /* bounded standard output and error of the judge; owned */
    size_t out_len;
    char *errout;
    size_t errout_len;
    int64_t wall_ns;
    int exit_code;
};

/* Blocking (worker thread). Always fills *ret; free with host_judgement_done(). */
void host_judge_run(const struct host_judge *j, struct host_judgement *ret);
void host_judgement_done(struct host_judgement *j);

#endif
