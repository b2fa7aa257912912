/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/environments/registry.h"

#include "base/json.h"
#include "base/mem.h"

#include <string.h>

static const struct environment_row rows[] = {
    {.name = "host", .state = ROW_BUILT, .shares_paths = true, .launch = host_launch},
    {.name = "loopback-remote", .state = ROW_BUILT, .for_tests = true, .launch = loopback_remote_launch},
    {.name = "docker", .state = ROW_NOT_BUILT, .note = "containers of the local Docker Engine"},
    {.name = "slurm", .state = ROW_NOT_BUILT, .note = "jobs of a Slurm cluster"},
    {.name = "skypilot", .state = ROW_NOT_BUILT, .note = "clusters of SkyPilot"},
    {.name = "modal", .state = ROW_NOT_BUILT, .note = "sandboxes of Modal"},
    {.name = "local", .state = ROW_RETIRED, .note = "host"},
    {.name = "local-docker", .state = ROW_RETIRED, .note = "docker"},
    {.name = "slurm-gpu", .state = ROW_RETIRED, .note = "slurm"},
    {.name = NULL},
};

const struct environment_row *environment_rows(void)
{
    return rows;
}

int environment_row_find(const char *name, const struct environment_row **ret, struct orch_err *err)
{
    for (const struct environment_row *row = rows; row->name != NULL; row++) {
        if (strcmp(row->name, name) != 0) {
            continue;
        }
        if (row->state == ROW_RETIRED) {
            return err_set(err, ORCH_E_CONFIG, "the environment `%s` was retired: use `%s`", name, row->note);
        }
        if (row->state == ROW_NOT_BUILT) {
            return err_set(err, ORCH_E_UNAVAILABLE, "the environment `%s` (%s) is not built yet", name, row->note);
        }
        *ret = row;
        return 0;
    }
    return err_set(err, ORCH_E_CONFIG, "there is no environment `%s`", name);
}

void node_launch_done(struct node_launch *l)
{
    free_pointer(&l->program);
    strv_free(l->argv);
    strv_free(l->envp);
    l->argv = NULL;
    l->envp = NULL;
}
