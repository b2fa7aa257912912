/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a project keeps its state (DESIGN 3), as paths. The paths are the
 * host's own: no agent can write above or in them, so they are plain text.
 *
 *   .state/project.json .gitignore runs/<run-id>/ local/ (0700) agent-visible/<run-id>/
 *
 * Any thread; every char * returned is owned by the caller.
 */
#ifndef ORCH_STATE_LAYOUT_H
#define ORCH_STATE_LAYOUT_H

#include "base/clock.h"
#include "base/err.h"

#include <stdint.h>

#define LAYOUT_SCHEMA 1        /* of project.json; a newer one is refused */
#define LAYOUT_NAME_MAX 63     /* bytes of a run's name */
#define LAYOUT_RUN_ID_MAX 96   /* with the NUL */
#define LAYOUT_RUNS_MAX 100000 /* entries read of runs/ */

#define LAYOUT_PATH_MAX 400 /* bytes of the project's path, and of its state's */

struct layout {
    char *root;    /* project root, absolute, links resolved */
    char *state;   /* root/.state, or the configured state_dir */
    char *runs;    /* state/runs */
    char *local;   /* state/local */
    char *visible; /* state/agent-visible */
};

/*
 * Finds the root: `project_dir` if given, else the nearest ancestor of
 * `config_path` with .state/project.json, else the config's folder. `config_path`
 * may be NULL (then the working directory stands for its folder). `state_dir`
 * (NULL: root/.state) may be relative to the root. Makes nothing. ORCH_E_CONFIG
 * for a path that is too long, not UTF-8, or has a control character in it.
 */
MUST_USE int layout_find(const char *config_path, const char *project_dir, const char *state_dir, struct layout *ret,
                         struct orch_err *err);
/* Makes what is missing and checks the schema version; safe against others doing the same. */
MUST_USE int layout_make(const struct layout *l, struct orch_err *err);
void layout_done(struct layout *l); /* accepts a zeroed struct */
#define AUTO_LAYOUT __attribute__((cleanup(layout_done)))

/* [a-z0-9][a-z0-9._-]{0,62} */
bool layout_name_valid(const char *name);
/* A run id: a valid name, "-", UTC compact time, "-", six of [a-z2-7]. */
bool layout_run_id_valid(const char *id);

/* Makes runs/<id>/ by exclusive mkdir (0700) with objects/, steps/, sandbox/, and agent-visible/<id>/; durable. */
MUST_USE int layout_run_create(const struct layout *l, const char *name, const struct clock *clock, char **ret_id,
                               struct orch_err *err);
char *layout_run_dir(const struct layout *l, const char *id);
/* runs/<id>/<below>; RUN_* name the fixed parts. */
char *layout_run_path(const struct layout *l, const char *id, const char *below);
#define RUN_RECORD "record.db"
#define RUN_CONFIG "config.yaml"
#define RUN_VERSIONS "versions.git"
#define RUN_OBJECTS "objects"
#define RUN_STEPS "steps"
#define RUN_SANDBOX "sandbox"
#define RUN_SUMMARY "summary.json"
#define RUN_CARD "CARD.md"
#define RUN_LOCK "lock"
#define RUN_STARTING "starting" /* there until the first facts are committed: such a run never began */
/* runs/<id>/steps/0001 */
char *layout_step_dir(const struct layout *l, const char *id, int64_t step);
/* agent-visible/<id> and local/<id>: the second is made on demand by its user. */
char *layout_visible_dir(const struct layout *l, const char *id);
char *layout_local_dir(const struct layout *l, const char *id);

/* What of runs/ is a run; facts come from its record. */
struct run_entry {
    char id[LAYOUT_RUN_ID_MAX];
    char name[LAYOUT_NAME_MAX + 1];
    int64_t made_ns; /* when its directory was made; 0: the file system does not say */
    bool has_record; /* false: a crash before its first facts were committed; nothing to go on with */
};
/* Newest first; `name` NULL: all. Entries that are not run ids are skipped. */
MUST_USE int layout_runs(const struct layout *l, const char *name, struct run_entry **ret, size_t *ret_count,
                         struct orch_err *err);
/* Runs that never began are not seen. An id, a unique prefix or suffix of one, or "latest" (newest of all); a name
 * gives its newest run. */
MUST_USE int layout_run_select(const struct layout *l, const char *selector, char **ret_id, struct orch_err *err);
/*
 * The newest run of `name` with a record whose meta "kind" is `kind` (NULL: any). With `unfinished` only those whose
 * meta "state" is not "finished". ORCH_E_NOT_FOUND when there is none; a record that cannot be read is
 * ORCH_E_DAMAGED, never skipped.
 */
MUST_USE int layout_run_newest(const struct layout *l, const char *name, const char *kind, bool unfinished,
                               char **ret_id, struct orch_err *err);

#endif
