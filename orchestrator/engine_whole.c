/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a run that goes on still has what its record counts on: versions, objects, what the steps left. */
#include "orchestrator/engine.h"

#include "base/mem.h"
#include "base/path.h"

#include <string.h>
#include <unistd.h>

static int damaged(const struct engine *e, const char *what, struct orch_err *err)
{
    return err_set(err, ORCH_E_DAMAGED, "run %s: %s; bring it back from a copy, or start another run (--new)",
                   e->run_id, what);
}

struct newest {
    int64_t number;
    char sha[VERSIONS_SHA_MAX];
    int64_t settled_step;
};

static bool see_version(void *arg, const struct version_add *row, int64_t added_ns)
{
    (void)added_ns;
    struct newest *n = arg;
    n->number = row->number;
    (void)snprintf(n->sha, sizeof n->sha, "%s", row->sha);
    return true;
}

static bool see_step(void *arg, const struct step_row *row)
{
    struct newest *n = arg;
    n->settled_step = row->state == STEP_SETTLED && row->number > 0 ? row->number : n->settled_step;
    return true;
}

static int check_versions(const struct engine *e, const struct newest *n, struct orch_err *err)
{
    if (n->sha[0] == '\0') {
        return 0;
    }
    struct version_id id;
    struct orch_err why = ERR_INIT;
    if (versions_resolve(e->versions, n->sha, &id, &why) == 0) {
        return 0;
    }
    AUTO_FREE char *what = xasprintf(RUN_VERSIONS " does not hold version %lld (%.12s)", (long long)n->number, n->sha);
    return damaged(e, what, err);
}

static int check_directory(const struct engine *e, const char *path, const char *name, struct orch_err *err)
{
    if (access(path, F_OK) == 0) {
        return 0;
    }
    AUTO_FREE char *what = xasprintf("%s is missing", name);
    return damaged(e, what, err);
}

int engine_whole(struct engine *e, struct orch_err *err)
{
    struct newest n = {0};
    TRY(record_versions(e->record, see_version, &n, err));
    TRY(record_steps(e->record, see_step, &n, err));
    TRY(check_versions(e, &n, err));
    if (n.settled_step == 0) {
        return 0;
    }
    AUTO_FREE char *objects = path_join(e->run_dir, RUN_OBJECTS);
    AUTO_FREE char *step = layout_step_dir(&e->layout, e->run_id, n.settled_step);
    TRY(check_directory(e, objects, RUN_OBJECTS, err));
    return check_directory(e, step, path_base(step), err);
}
