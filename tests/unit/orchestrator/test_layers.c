/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "base/mem.h"
#include "orchestrator/layers.h"
#include "test.h"

#include <string.h>

static json_t *parse(const char *text)
{
    struct orch_err err = ERR_INIT;
    json_t *value = NULL;
    cr_assert_eq(json_parse(text, strlen(text), 1 << 20, &value, &err), 0, "%s", err.message);
    return value;
}

static void is(const json_t *layers, const char *id, bool on, const char *part)
{
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)(uintptr_t)layers, i, row)
    {
        if (strcmp(json_get_str(row, "id", ""), id) == 0) {
            cr_assert_eq(json_get_flag(row, "on", !on), on, "%s", id);
            cr_assert_not_null(strstr(json_get_str(row, "reason", ""), part), "%s: %s", id,
                               json_get_str(row, "reason", ""));
            return;
        }
    }
    cr_assert_fail("there is no layer %s", id);
}

Test(layers, what_holds_is_on)
{
    AUTO_ATTEMPT struct attempt a = {.enforced = true};
    a.node = parse("{\"limits_why\": \"\"}");
    a.record = parse("{\"host_uid\": 200001, \"enforced\": {\"identity\": \"range\", \"capabilities\": 0,"
                     "\"no_new_privileges\": true, \"seccomp\": \"filter\", \"landlock_abi\": 7,"
                     "\"cgroup\": \"cgroup2\", \"keyring\": true}, \"checks\": ["
                     "{\"name\": \"no-user-namespaces\", \"ok\": true, \"detail\": \"refused\"},"
                     "{\"name\": \"outside-unreachable\", \"ok\": true, \"detail\": \"no route\"}]}");
    AUTO_JSON json_t *layers = layers_json(&a);
    is(layers, "user-namespace", true, "(refused)");
    is(layers, "network-namespace", true, "(no route)");
    is(layers, "pid-namespace", false, "was not checked");
    is(layers, "seccomp", true, "filter");
    is(layers, "landlock", true, "scopes of signals");
    is(layers, "cgroup", true, "version 2");
    is(layers, "identity-range", true, "200001");
    TEST_END();
}

Test(layers, what_is_weaker_says_why)
{
    AUTO_ATTEMPT struct attempt a = {.enforced = true};
    a.node = parse("{\"limits_why\": \"version 1, /x: Permission denied\"}");
    a.record = parse("{\"host_uid\": 1000, \"enforced\": {\"identity\": \"user\", \"capabilities\": 0,"
                     "\"no_new_privileges\": true, \"seccomp\": \"none\", \"landlock_abi\": 3,"
                     "\"cgroup\": \"none\", \"keyring\": false}, \"checks\": ["
                     "{\"name\": \"outside-unreachable\", \"ok\": false, \"detail\": \"reached\"}]}");
    AUTO_JSON json_t *layers = layers_json(&a);
    is(layers, "network-namespace", false, "(reached)");
    is(layers, "seccomp", false, "no filter");
    is(layers, "landlock", true, "scopes need ABI 6");
    is(layers, "cgroup", false, "/x: Permission denied");
    is(layers, "identity-range", false, "uid 1000");
    is(layers, "keyring", false, "no session keyring");
    TEST_END();
}

Test(layers, without_a_sandbox_all_are_off)
{
    struct attempt a = {.enforced = false};
    AUTO_JSON json_t *layers = layers_json(&a);
    is(layers, "seccomp", false, "no sandbox could be opened");
    is(layers, "mount-namespace", false, "no sandbox could be opened");
    TEST_END();
}
