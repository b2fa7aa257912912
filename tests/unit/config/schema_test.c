/* SPDX-License-Identifier: Apache-2.0 */
#include "config/schema.h"

#include "base/fd.h"
#include "config_support.h"

#define PAGE_MAX_BYTES ((size_t)1 << 20)

static void page_is_current(const struct config_table *table, const char *page)
{
    struct orch_err err = ERR_INIT;
    AUTO_FREE char *path = test_source(page);
    AUTO_FREE char *have = NULL;
    AUTO_FREE char *want = schema_markdown(table);
    size_t len;
    cr_assert_eq(fd_read_file(path, PAGE_MAX_BYTES, &have, &len, &err), 0, "%s", err.message);
    cr_assert_str_eq(have, want, "%s is stale: write it anew with `orch config reference`", page);
}

Test(schema, reference_pages_are_current)
{
    page_is_current(config_run_table(), "docs/config-reference.md");
    page_is_current(config_operator_table(), "docs/operator-config-reference.md");
    TEST_END();
}

static void check_rows(const struct config_table *table)
{
    for (size_t i = 0; i < table->row_count; i++) {
        const struct config_row *row = &table->rows[i];
        size_t len = strlen(row->doc);
        cr_assert(len > 0 && row->doc[len - 1] == '.', "%s: the doc is no sentence", row->key);
        bool has_words = row->type == CONFIG_ENUM || row->type == CONFIG_ENUMS;
        cr_assert_eq(has_words, row->values != NULL, "%s: values", row->key);
        bool has_element = row->type == CONFIG_MAPS || row->type == CONFIG_NAMED;
        cr_assert_eq(has_element, row->element != NULL, "%s: element", row->key);
        bool list = row->type >= CONFIG_TEXTS;
        bool required = (row->flags & CONFIG_REQUIRED) != 0;
        cr_assert(row->fallback != NULL || required || list, "%s has no default", row->key);
        cr_assert(!required || row->example != NULL, "%s needs an example for its message", row->key);
        cr_assert(row->fallback == NULL || strcmp(row->fallback, "null") != 0 || (row->flags & CONFIG_NULLABLE) != 0,
                  "%s", row->key);
        for (size_t k = 0; k < i; k++) {
            cr_assert_str_neq(row->key, table->rows[k].key);
        }
        if (row->element != NULL) {
            check_rows(row->element);
        }
    }
    for (size_t i = 0; i < table->retired_count; i++) {
        const struct config_retired *r = &table->retired[i];
        if (r->value == NULL && strchr(r->key, '*') == NULL) {
            cr_assert(!config_is_group(table, r->key), "%s is retired and a group", r->key);
            const struct config_row *row = config_row_find(table, r->key);
            cr_assert_null(row, "%s is retired and a key", r->key);
        }
    }
}

Test(schema, rows_are_complete)
{
    check_rows(config_run_table());
    check_rows(config_operator_table());
    TEST_END();
}

static const json_t *property(const json_t *schema, const char *key)
{
    const json_t *at = schema;
    for (const char *word = key; at != NULL;) {
        AUTO_FREE char *name = xmemdup0(word, strcspn(word, "."));
        const json_t *any = json_get(at, "anyOf");
        if (json_get(at, "properties") == NULL && any != NULL) { /* a shorthand: the map is the second choice */
            at = json_array_get(any, 1);
        }
        at = json_get(json_get(at, "properties"), name);
        word += strlen(name);
        if (*word == '\0') {
            return at;
        }
        word++;
    }
    return NULL;
}

Test(schema, json_schema_has_every_row)
{
    AUTO_JSON json_t *schema = schema_json(config_run_table());
    cr_assert_str_eq(json_get_str(schema, "$schema", ""), "https://json-schema.org/draft/2020-12/schema");
    cr_assert(json_is_false(json_get(schema, "additionalProperties")));
    for (size_t i = 0; i < config_run_table()->row_count; i++) {
        const struct config_row *row = &config_run_table()->rows[i];
        const json_t *p = property(schema, row->key);
        if ((row->flags & CONFIG_TEST_ONLY) != 0) {
            cr_assert_null(p);
            continue;
        }
        cr_assert_not_null(p, "%s is not in the JSON Schema", row->key);
        cr_assert_str_eq(json_get_str(p, "description", ""), row->doc);
    }
    const json_t *environment = property(schema, "environment");
    cr_assert_not_null(json_get(json_array_get(json_get(environment, "anyOf"), 0), "enum"), "the shorthand");
    TEST_END();
}

Test(schema, explain)
{
    struct orch_err err = ERR_INIT;
    AUTO_FREE char *one = NULL;
    cr_assert_eq(schema_explain(config_run_table(), "task.timeout", &one, &err), 0);
    assert_has(one, "task.timeout\n");
    assert_has(one, "default: `5m`");
    assert_has(one, "In the fingerprint");
    AUTO_FREE char *group = NULL;
    cr_assert_eq(schema_explain(config_run_table(), "retry", &group, &err), 0);
    assert_has(group, "retry.backoff.factor\n");
    AUTO_FREE char *inner = NULL;
    cr_assert_eq(schema_explain(config_run_table(), "models.fast.key", &inner, &err), 0);
    assert_has(inner, "models.fast.key\n");
    AUTO_FREE char *all = NULL;
    cr_assert_eq(schema_explain(config_run_table(), "", &all, &err), 0);
    assert_has(all, "sandbox.hide\n");
    char *none = NULL;
    cr_assert_eq(schema_explain(config_run_table(), "task.tiemout", &none, &err), ORCH_E_NOT_FOUND);
    assert_has(err.message, "task.timeout");
    err_clear(&err);
    cr_assert_eq(schema_explain(config_run_table(), "judge.path", &none, &err), ORCH_E_NOT_FOUND);
    assert_has(err.message, "judge.command");
    cr_assert_null(none);
    TEST_END();
}

Test(schema, nearest)
{
    static const char *const table[][2] = {
        {"task.tiemout", "task.timeout"},  {"trianer", "trainer"},   {"tsak", "task"}, {"step_size", "data.step_size"},
        {"retry.backof", "retry.backoff"}, {"budget.dollars", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        AUTO_FREE char *near = config_nearest(config_run_table(), table[i][0]);
        if (table[i][1] == NULL) {
            cr_assert_null(near, "%s → %s", table[i][0], near);
        } else {
            cr_assert_not_null(near, "%s", table[i][0]);
            cr_assert_str_eq(near, table[i][1]);
        }
    }
    TEST_END();
}
