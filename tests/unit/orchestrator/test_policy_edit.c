/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "orchestrator/policy_edit.h"
#include "test.h"

#include <string.h>

/* As policy_edit_begin, with directories of the test's. */
static struct policy_edit begin(const struct test_dir *dir)
{
    struct orch_err err = ERR_INIT;
    struct policy_edit e = {.system_dir = path_join(dir->path, "etc"), .user_dir = path_join(dir->path, "user")};
    e.file = path_join(e.user_dir, POLICY_FILE);
    cr_assert_eq(operator_load(e.system_dir, e.user_dir, &e.now, &e.findings, &err), 0, "%s", err.message);
    return e;
}

Test(policy_edit, keeps_comments_and_is_idempotent)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    test_write(&dir, "user/confinement.yaml", "# mine\nreadable: [/opt/a] # tools\nconfinement: {required: false}\n");
    struct orch_err err = ERR_INIT;
    for (int round = 0; round < 2; round++) {
        AUTO_POLICY_EDIT struct policy_edit e = begin(&dir);
        policy_edit_set(&e, "confinement.required", json_true());
        policy_edit_set(&e, "readable", json_pack("[s, s]", "/opt/a", "/opt/with space"));
        cr_assert_eq(policy_edit_plan(&e, &err), 0, "%s", err.message);
        cr_assert_eq(e.diff[0] == '\0', round == 1, "%s", e.diff);
        cr_assert_eq(policy_edit_write(&e, &err), 0, "%s", err.message);
        AUTO_FREE char *text = test_read(&dir, "user/confinement.yaml");
        cr_assert_str_eq(text, "# mine\nreadable: [/opt/a, \"/opt/with space\"] # tools\n"
                               "confinement: {required: true}\n");
    }
    TEST_END();
}

Test(policy_edit, makes_the_file)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    struct orch_err err = ERR_INIT;
    AUTO_POLICY_EDIT struct policy_edit e = begin(&dir);
    policy_edit_set(&e, "confinement.required", json_false());
    cr_assert_eq(policy_edit_plan(&e, &err), 0, "%s", err.message);
    AUTO_FREE char *before = test_read(&dir, "user/confinement.yaml");
    cr_assert_null(before, "a plan writes nothing");
    cr_assert_not(e.then->confinement.required);
    cr_assert(e.now->confinement.required);
    cr_assert_eq(policy_edit_write(&e, &err), 0, "%s", err.message);
    AUTO_FREE char *text = test_read(&dir, "user/confinement.yaml");
    cr_assert_str_eq(text, "confinement:\n  required: false\n");
    TEST_END();
}

/* What the edit could not change is refused before it is written. */
Test(policy_edit, others_decide)
{
    static const struct {
        const char *file, *text;
        int code;
        const char *part;
    } table[] = {
        {"etc/a.yaml", "confinement: {required: true}\n", ORCH_E_DISABLED, "etc/a.yaml:1 decides"},
        {"etc/a.yaml", "confinement: {required: false}\n", 0, ""},
        {"etc/a.yaml", "allow: {runner_host: true}\n", 0, ""},
        {"user/z.yaml", "confinement: {required: true}\n", ORCH_E_CONFIG, "change it there"},
        {"user/a.yaml", "confinement: {required: true}\n", 0, ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        AUTO_TEST_DIR struct test_dir dir = test_dir_new();
        struct orch_err err = ERR_INIT;
        test_write(&dir, table[i].file, table[i].text);
        AUTO_POLICY_EDIT struct policy_edit e = begin(&dir);
        policy_edit_set(&e, "confinement.required", json_false());
        cr_assert_eq(policy_edit_plan(&e, &err), table[i].code, "row %zu: %s", i, err.message);
        cr_assert_not_null(strstr(err.message, table[i].part), "row %zu: %s", i, err.message);
    }
    TEST_END();
}

/* A result that no run could load is not written either. */
Test(policy_edit, the_whole_config_must_hold)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    struct orch_err err = ERR_INIT;
    test_write(&dir, "user/a.yaml", "confinement: {required: false, on_unavailable: warn}\n");
    AUTO_POLICY_EDIT struct policy_edit e = begin(&dir);
    policy_edit_set(&e, "confinement.required", json_true());
    cr_assert_eq(policy_edit_plan(&e, &err), ORCH_E_CONFIG);
    cr_assert_gt(e.findings.count, 0);
    TEST_END();
}
