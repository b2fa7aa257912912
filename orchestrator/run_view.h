/* SPDX-License-Identifier: Apache-2.0 */
/* A run opened for looking at: its place, its record for reading, and whether somebody works on it. */
#ifndef ORCH_ORCHESTRATOR_RUN_VIEW_H
#define ORCH_ORCHESTRATOR_RUN_VIEW_H

#include "orchestrator/verb.h"
#include "state/layout.h"
#include "state/lock.h"
#include "state/record.h"

/* The option of every verb that looks, for its table: a config may have put the state elsewhere. */
#define RUN_VIEW_OPTION                                                                                                \
    {                                                                                                                  \
        "state-dir", "DIR", "where the state is, if the config sets state_dir (default: .state)"                       \
    }

struct run_view {
    struct layout layout;
    char *id;
    char *dir; /* runs/<id> */
    struct record *record;
    struct lock_owner owner;
    struct clock clock;
};

/* The project of --project DIR or of the working directory. *ret is the caller's (layout_done). */
MUST_USE int run_view_project(const struct verb_call *call, struct layout *ret, struct orch_err *err);
/* `selector` as layout_run_select takes it; NULL: "latest". *ret is the caller's (run_view_done). */
MUST_USE int run_view_open(const struct verb_call *call, const char *selector, struct run_view *ret,
                           struct orch_err *err);
/* By id in a project that was found. The layout is not touched: ret->layout stays empty. */
MUST_USE int run_view_open_id(const struct verb_call *call, const struct layout *layout, const char *id,
                              struct run_view *ret, struct orch_err *err);
void run_view_done(struct run_view *v); /* accepts a zeroed struct */
#define AUTO_RUN_VIEW __attribute__((cleanup(run_view_done)))

/* "running", "finished", "stopped", or "interrupted": the record says running, and nobody holds the run. Owned. */
MUST_USE int run_view_state(struct run_view *v, char **ret, struct orch_err *err);
/* A meta value or "". Owned. */
MUST_USE int run_view_meta(struct run_view *v, const char *key, char **ret, struct orch_err *err);

/* The trial a person names: its number, "trial:N", or a task's id when it has one trial only. */
MUST_USE int run_view_trial(struct run_view *v, const char *selector, int64_t *ret, struct orch_err *err);

#endif
