/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/json.h"
#include "base/mem.h"
#include "roles/context.h"

#include <stdlib.h>
#include <string.h>

static const char *value_of(char *const *env, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; env[i] != NULL; i++) {
        if (strncmp(env[i], name, n) == 0 && env[i][n] == '=') {
            return env[i] + n + 1;
        }
    }
    return NULL;
}

Test(context, only_fixed_and_asked_variables_pass)
{
    cr_assert_eq(setenv("CTX_ALLOWED", "yes", 1), 0);
    cr_assert_eq(setenv("CTX_OTHER", "no", 1), 0);
    cr_assert_eq(setenv("HOME", "/somewhere", 1), 0);
    AUTO_SPEC struct sandbox_spec spec;
    spec_init(&spec, "x");
    char p0[] = "CTX_A*", p1[] = "HOME", p2[] = "ORCH_CONTEXT";
    char *patterns[] = {p0, p1, p2, NULL};
    context_apply(&spec, context_new("task"), patterns);
    cr_assert_str_eq(value_of(spec.env, "CTX_ALLOWED"), "yes");
    cr_assert_null(value_of(spec.env, "CTX_OTHER"));
    cr_assert_str_eq(value_of(spec.env, "HOME"), SPEC_HOME, "a fixed variable cannot be replaced");
    cr_assert_str_eq(value_of(spec.env, "ORCH_CONTEXT"), CONTEXT_FILE);
    cr_assert_str_eq(value_of(spec.env, "LC_ALL"), "C.UTF-8");
    AUTO_STRV char **host = context_host_env("/x/context.json", "/x/home", patterns);
    cr_assert_str_eq(value_of(host, "CTX_ALLOWED"), "yes");
    cr_assert_null(value_of(host, "CTX_OTHER"));
    cr_assert_str_eq(value_of(host, "HOME"), "/x/home");
    TEST_END();
}
