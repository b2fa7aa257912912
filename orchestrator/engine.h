/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine: everything a run owns while it works. One loop, one record, one
 * environment. Verbs and the trainer are plain sequential code that awaits what
 * the loop does; trials are asynchronous (trial.h). Loop thread only.
 */
#ifndef ORCH_ORCHESTRATOR_ENGINE_H
#define ORCH_ORCHESTRATOR_ENGINE_H

#include "backends/environment.h"
#include "config/operator.h"
#include "config/run_config.h"
#include "config/tasks.h"
#include "orchestrator/progress.h"
#include "orchestrator/verb.h"
#include "roles/program.h"
#include "roles/template.h"
#include "state/layout.h"
#include "state/lock.h"
#include "state/objects.h"
#include "state/record.h"
#include "state/versions.h"

#include <uv.h>

struct trial_place;

/* A program of a role and where an environment shows its staged files. */
struct role_program {
    struct program program;
    char *source; /* grant source; NULL: nothing staged */
};

struct engine {
    const struct verb_call *call;
    struct clock clock;
    struct run_config *config;
    struct operator_config *operator_config;
    int mechanism;   /* enum config_mechanism: what operator, environment variable and config together say */
    char **readable; /* further paths of this machine that every sandbox may read */
    struct tasks *tasks;
    struct template template;
    char **overrides; /* as given: a resumed run applies them again */
    char *root_dir;   /* absolute directory of the root version: template, or start_from */
    struct layout layout;
    json_t *meaning;                 /* fingerprint document */
    struct config_findings findings; /* of what was loaded: for verb_fail_findings */

    char *run_id; /* NULL before engine_create or engine_adopt */
    char *run_dir;
    char *init_program; /* orch-init, once the environment is started */
    char *local_dir;    /* .state/local/<run>: raw handoffs, staged programs, checked out versions */
    struct run_lock *lock;
    struct record *record;
    struct objects *objects;
    struct redactor *redactor;
    struct versions *versions;

    uv_loop_t loop;
    uv_async_t drain; /* the record's writer has completions */
    uv_signal_t on_int;
    uv_signal_t on_term;
    uv_signal_t on_hup;
    uv_timer_t tick;
    struct environment *environment;
    struct role_program agent, judge, evolver, check;
    char *tests_source;
    char *task_info_source;
    char *root_source;
    char **version_sources; /* by version number; NULL entries: not put yet */
    size_t version_source_count;

    struct trial_place **places; /* free ones (trial_place.h) */
    size_t place_count;
    size_t places_made;

    struct progress *progress;
    struct batch *batch;          /* the one that runs, for interrupts; borrowed */
    int interrupts;               /* signals and stop requests seen */
    struct control_loop *control; /* NULL: nobody can ask */
    bool loop_ready;
    int64_t events_seen; /* --json: printed up to this one */
    int64_t began_ns;
    int64_t active_before_ns; /* earlier starts of this run */
    int64_t calls; /* calls of all roles, over all starts; a trial is charged with all of its own when it begins */
    int64_t ticks;
    json_t *trouble; /* findings of this process for the summary: array of text */
};

/* Loads config, operator config, tasks, template; finds the project. What is wrong is in e->findings. Frees nothing
 * on failure: engine_close() is always called, after the findings were told. */
MUST_USE int engine_load(struct engine *e, const struct verb_call *call, const char *config_path,
                         char *const *overrides, struct orch_err *err);
/* A version holds regular files and directories: a tree with anything else, or with more than a version may have, is
 * refused before its first commit. `what` names it in the message ("a template"). Blocking. */
MUST_USE int engine_scan_tree(const char *dir, const char *what, struct orch_err *err);
/* Makes the fingerprint document: config, data, programs, template. Needs engine_load. */
MUST_USE int engine_meaning(struct engine *e, const char *kind, json_t *more, struct orch_err *err);
/* A new run of `kind` ("run", "eval"), or an existing one to go on with. Takes the lock, opens everything. */
MUST_USE int engine_create(struct engine *e, const char *kind, struct orch_err *err);
MUST_USE int engine_adopt(struct engine *e, const char *run_id, struct orch_err *err);
/* ORCH_E_CONFIG for a grant that would show the project's state to anybody, or tasks, splits or the judge to a task or
 * an evolver. Part of engine_load. */
MUST_USE int engine_check_grants(const struct engine *e, struct orch_err *err);
/* ORCH_E_DAMAGED when versions, objects or steps that the record counts on are gone. Part of engine_adopt. Blocking. */
MUST_USE int engine_whole(struct engine *e, struct orch_err *err);
/* A place under .state/local without a run or a record, for `orch check`; then only engine_start_environment. */
MUST_USE int engine_create_place(struct engine *e, struct orch_err *err);
MUST_USE int engine_start_environment(struct engine *e, struct orch_err *err);
/* Starts the environment and stages the programs, the evolver's only when it is asked for. */
MUST_USE int engine_start(struct engine *e, bool with_evolver, struct orch_err *err);
/* Ends everything: environment, record, lock. Safe after any failure, also of engine_load. */
void engine_close(struct engine *e);

/* Runs the loop until *done. */
void engine_await(struct engine *e, const bool *done);
/* Runs fn(arg) on a worker thread and awaits it. */
void engine_work(struct engine *e, void (*fn)(void *arg), void *arg);
/* What the first signal does: no new work, running calls are ended, everything is kept. */
void engine_stop(struct engine *e);
/* ORCH_E_INTERRUPTED once a signal was seen. */
MUST_USE int engine_check(const struct engine *e, struct orch_err *err);
/* Awaits that everything posted is committed. */
MUST_USE int engine_settle(struct engine *e, struct orch_err *err);
/* Grants what the operator config and ORCH_AGENT_SANDBOX_ALLOW let every sandbox read. */
void engine_grant_readable(const struct engine *e, struct sandbox_spec *spec);
/* A directory as a grant source; owned by the caller. */
MUST_USE int engine_put(struct engine *e, const char *dir, char **ret_source, struct orch_err *err);
/* The frozen tree of a version as a grant source (borrowed; checked out once). *ret_dir (may be NULL) is owned. */
MUST_USE int engine_version(struct engine *e, int64_t number, const char *sha, const char **ret_source, char **ret_dir,
                            struct orch_err *err);
/* local_dir/<name>, emptied if a dead predecessor left it; owned. */
MUST_USE int engine_fresh_dir(struct engine *e, const char *name, char **ret, struct orch_err *err);
/* Writes runs/<id>/sandbox/<role>-<n>.json. Any thread. */
void engine_sandbox_record(const struct engine *e, const char *role, int64_t n, const json_t *document);

#endif
