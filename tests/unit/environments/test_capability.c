/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/capability.h"
#include "backends/environments/registry.h"
#include "test.h"

#include <string.h>

static bool check_row(const struct capability_row *row, void *arg)
{
    int *count = arg;
    bool enforced = row->cell.value == CAPABILITY_ENFORCED;
    (*count)++;
    cr_assert_not_null(row->cell.code, "%s %s is missing", row->environment, capability_name(row->property));
    cr_assert_eq(enforced, row->cell.code[0] == '\0', "%s %s", row->environment, capability_name(row->property));
    cr_assert_eq(enforced, row->cell.note[0] == '\0');
    enum capability found;
    struct orch_err err = ERR_INIT;
    cr_assert_eq(capability_find(capability_name(row->property), &found, &err), 0);
    cr_assert_eq(found, row->property);
    return true;
}

Test(capability, every_cell_says_why)
{
    int count = 0;
    capability_each(check_row, &count);
    cr_assert_eq(count % CAPABILITY_COUNT, 0);
    cr_assert_geq(count, 2 * CAPABILITY_COUNT);
}

/* Every environment that can be opened has its row, and no other claims anything. */
Test(capability, agrees_with_the_registry)
{
    for (const struct environment_row *row = environment_rows(); row->name != NULL; row++) {
        struct orch_err err = ERR_INIT;
        int r = capability_require(row->name, "auto", CAPABILITY_READ_ONLY, NULL, &err);
        cr_assert_eq(r, row->state == ROW_BUILT ? 0 : ORCH_E_UNAVAILABLE, "%s", row->name);
        struct capability_cell cell = capability_get(row->name, NULL, CAPABILITY_SHARES_PATHS);
        cr_assert_eq(cell.value == CAPABILITY_ENFORCED, row->shares_paths, "%s", row->name);
    }
}

Test(capability, refuses_with_a_code)
{
    struct orch_err err = ERR_INIT;
    cr_assert_eq(capability_require("host", NULL, CAPABILITY_GPU, NULL, &err), ORCH_E_UNAVAILABLE);
    cr_assert_not_null(strstr(err.message, "no-devices"));
    err_clear(&err);
    cr_assert_eq(capability_require("host", "seatbelt", CAPABILITY_MEMORY, NULL, &err), ORCH_E_UNAVAILABLE);
    cr_assert_not_null(strstr(err.message, "not-built"));
}

/* "auto" answers for the strongest: what only Landlock lacks is had. */
Test(capability, landlock_is_never_the_default)
{
    struct orch_err err = ERR_INIT;
    cr_assert_eq(capability_require("host", "auto", CAPABILITY_OWN_PATHS, NULL, &err), 0);
    cr_assert_eq(capability_require("host", "landlock", CAPABILITY_OWN_PATHS, NULL, &err), ORCH_E_UNAVAILABLE);
    cr_assert_not_null(strstr(err.message, "mechanism landlock, cannot give `own-paths` [host-paths]"));
    err_clear(&err);
    cr_assert_eq(capability_require("loopback-remote", "landlock", CAPABILITY_OUTPUT, NULL, &err), ORCH_E_UNAVAILABLE);
    cr_assert_not_null(strstr(err.message, "not-built"));
}

Test(registry, names_what_to_use)
{
    const struct environment_row *row = NULL;
    struct orch_err err = ERR_INIT;
    cr_assert_eq(environment_row_find("host", &row, &err), 0);
    cr_assert_eq(environment_row_find("docker", &row, &err), ORCH_E_UNAVAILABLE);
    cr_assert_not_null(strstr(err.message, "not built yet"));
    err_clear(&err);
    cr_assert_eq(environment_row_find("slurm-gpu", &row, &err), ORCH_E_CONFIG);
    cr_assert_not_null(strstr(err.message, "`slurm`"));
    err_clear(&err);
    cr_assert_eq(environment_row_find("nowhere", &row, &err), ORCH_E_CONFIG);
}
