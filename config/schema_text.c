/* SPDX-License-Identifier: Apache-2.0 */
/* What is made from a table for people and for editors. */
#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "config/config_read.h"
#include "config/schema.h"

#include <string.h>

#define DURATION_PATTERN "^(0|([0-9]+(\\.[0-9]+)?(d|h|m|s|ms|us|ns))+|P.+)$"
#define SIZE_PATTERN "^(0|[0-9]+(\\.[0-9]+)?(B|[KMGT](i?B?)))$"
#define NAME_PATTERN "^[a-z0-9][a-z0-9._-]{0,62}$"
#define VARIABLE_PATTERN "^[A-Za-z_][A-Za-z0-9_]{0,127}$"

/* --- JSON Schema --- */

static json_t *typed(const char *type)
{
    json_t *o = json_object();
    json_set_str(o, "type", type);
    return o;
}

static json_t *pattern(const char *text)
{
    json_t *o = typed("string");
    json_set_str(o, "pattern", text);
    return o;
}

/* A unit is text; a bare 0 is a number to YAML. */
static json_t *unit(const char *text)
{
    json_t *o = json_object();
    json_t *any = json_array();
    json_t *zero = json_object();
    json_set_int(zero, "const", 0);
    json_add_take(any, pattern(text));
    json_add_take(any, zero);
    json_set_take(o, "anyOf", any);
    return o;
}

static json_t *words(const struct config_row *row)
{
    json_t *o = json_object();
    json_t *list = json_array();
    for (size_t i = 0; row->values[i] != NULL; i++) {
        json_add_str(list, row->values[i]);
    }
    json_set_take(o, "enum", list);
    return o;
}

static json_t *list_of(json_t *items)
{
    json_t *o = typed("array");
    json_set_take(o, "items", items);
    return o;
}

static json_t *number(const struct config_row *row, const char *type)
{
    json_t *o = typed(type);
    if (row->min != 0 || row->max != 0) {
        json_set_num(o, "minimum", row->min);
        json_set_num(o, "maximum", row->max);
    }
    return o;
}

static json_t *table_schema(const struct config_table *table);

static json_t *named_schema(const struct config_row *row)
{
    json_t *o = typed("object");
    json_t *names = json_object();
    json_set_str(names, "pattern", row->element->key_type == CONFIG_VARIABLE ? VARIABLE_PATTERN : NAME_PATTERN);
    json_set_take(o, "propertyNames", names);
    json_set_take(o, "additionalProperties", table_schema(row->element));
    return o;
}

static json_t *value_schema(const struct config_row *row)
{
    switch (row->type) {
    case CONFIG_NAME:
        return pattern(NAME_PATTERN);
    case CONFIG_VARIABLE:
        return pattern(VARIABLE_PATTERN);
    case CONFIG_URL:
        return pattern("^https?://[^/?#@]+[^?#]*$");
    case CONFIG_ENUM:
        return words(row);
    case CONFIG_FLAG:
        return typed("boolean");
    case CONFIG_INT:
        return number(row, "integer");
    case CONFIG_NUMBER:
        return number(row, "number");
    case CONFIG_DURATION:
        return unit(DURATION_PATTERN);
    case CONFIG_SIZE:
        return unit(SIZE_PATTERN);
    case CONFIG_ENUMS:
        return list_of(words(row));
    case CONFIG_TEXTS:
    case CONFIG_PATHS:
    case CONFIG_INNER_PATHS:
    case CONFIG_VARIABLES:
    case CONFIG_HOSTS:
    case CONFIG_COMMAND:
        return list_of(typed("string"));
    case CONFIG_JSON:
        return typed("object");
    case CONFIG_MAPS:
        return list_of(table_schema(row->element));
    case CONFIG_NAMED:
        return named_schema(row);
    case CONFIG_TEXT:
    case CONFIG_PATH:
    case CONFIG_TYPE_COUNT:
        break;
    }
    return typed("string");
}

static json_t *or_null(json_t *schema)
{
    json_t *o = json_object();
    json_t *any = json_array();
    json_add_take(any, schema);
    json_add_take(any, typed("null"));
    json_set_take(o, "anyOf", any);
    return o;
}

static json_t *row_default(const struct config_row *row)
{
    struct config_findings findings = {.count = 0};
    struct orch_err err = ERR_INIT;
    AUTO_YAML struct yaml_node *node = NULL;
    json_t *value = NULL;
    if (row->fallback != NULL &&
        yaml_tree_parse("default", row->fallback, strlen(row->fallback), 0, &node, &findings, &err) == 0) {
        value = config_json_node(node, row->key, &findings);
    }
    config_findings_done(&findings);
    return value;
}

static json_t *row_schema(const struct config_row *row)
{
    json_t *o = value_schema(row);
    if ((row->flags & CONFIG_NULLABLE) != 0) {
        o = or_null(o);
    }
    json_set_str(o, "description", row->doc);
    json_t *fallback = row_default(row);
    if (fallback != NULL) {
        json_set_take(o, "default", fallback);
    }
    return o;
}

static json_t *new_group(void)
{
    json_t *o = typed("object");
    json_set_take(o, "properties", json_object());
    json_set_flag(o, "additionalProperties", false);
    return o;
}

/* The schema of one group. With a shorthand it is the scalar's schema or the map's. */
static json_t *group_schema(const struct config_table *table, const char *group)
{
    json_t *o = new_group();
    json_t *required = json_array();
    AUTO_STRV char **children = config_children(table, group);
    for (size_t i = 0; i < strv_len(children); i++) {
        AUTO_FREE char *key = group[0] == '\0' ? xstrdup(children[i]) : xasprintf("%s.%s", group, children[i]);
        const struct config_row *row = NULL;
        for (size_t k = 0; k < table->row_count && row == NULL; k++) {
            row = strcmp(table->rows[k].key, key) == 0 ? &table->rows[k] : NULL;
        }
        json_set_take(json_get(o, "properties"), children[i], row != NULL ? row_schema(row) : group_schema(table, key));
        if (row != NULL && (row->flags & CONFIG_REQUIRED) != 0) {
            json_add_str(required, children[i]);
        }
    }
    if (json_array_size(required) > 0) {
        json_set_take(o, "required", required);
    } else {
        json_decref(required);
    }
    const struct config_row *shorthand = group[0] == '\0' ? NULL : config_shorthand(table, group);
    if (shorthand == NULL) {
        return o;
    }
    json_t *either = json_object();
    json_t *any = json_array();
    json_add_take(any, row_schema(shorthand));
    json_add_take(any, o);
    json_set_take(either, "anyOf", any);
    return either;
}

static json_t *table_schema(const struct config_table *table)
{
    return group_schema(table, "");
}

json_t *schema_json(const struct config_table *table)
{
    json_t *root = json_object();
    json_set_str(root, "$schema", "https://json-schema.org/draft/2020-12/schema");
    json_set_str(root, "title", table->title);
    AUTO_JSON json_t *body = table_schema(table);
    json_object_update(root, body);
    return root;
}

/* --- reference page --- */

static char *default_text(const struct config_row *row)
{
    if ((row->flags & CONFIG_REQUIRED) != 0) {
        return xstrdup("required");
    }
    if (row->fallback != NULL) {
        return xasprintf("`%s`", row->fallback);
    }
    return xstrdup(row->type == CONFIG_MAPS ? "`[]`" : "`{}`");
}

static void add_facts(struct buf *b, const struct config_row *row)
{
    if (row->environments != NULL) {
        buf_fmt(b, " Environment: %s.", row->environments);
    }
    if ((row->flags & CONFIG_STRENGTHEN) != 0) {
        buf_str(b, " May only strengthen what the operator requires.");
    }
    if ((row->flags & CONFIG_VOLATILE) != 0) {
        buf_str(b, " Not in the fingerprint.");
    }
    if (row->example != NULL) {
        buf_fmt(b, " Example: `%s`.", row->example);
    }
}

static void add_cell(struct buf *b, const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '|') {
            buf_char(b, '\\');
        }
        buf_char(b, *c);
    }
}

static void add_table_row(struct buf *b, const char *prefix, const struct config_row *row)
{
    AUTO_FREE char *expected = config_row_expected(row);
    AUTO_FREE char *fallback = default_text(row);
    AUTO_BUF struct buf cell;
    buf_init(&cell, BUF_MAX_TEXT);
    buf_str(&cell, row->doc);
    add_facts(&cell, row);
    buf_fmt(b, "| `%s%s` | ", prefix, row->key);
    add_cell(b, expected);
    buf_str(b, " | ");
    add_cell(b, fallback);
    buf_str(b, " | ");
    add_cell(b, cell.data);
    buf_str(b, " |\n");
    if (row->element == NULL) {
        return;
    }
    AUTO_FREE char *inner = xasprintf("%s%s%s", prefix, row->key, row->type == CONFIG_MAPS ? "[]." : ".<name>.");
    for (size_t i = 0; i < row->element->row_count; i++) {
        add_table_row(b, inner, &row->element->rows[i]);
    }
}

#define TABLE_HEAD "\n| key | value | default | meaning |\n| --- | --- | --- | --- |\n"

static const char page_head[] =
    "Relative paths start at the config file; `~` and `${VAR}` are expanded, and an unset variable is an error.\n"
    "Durations: `10m`, `1m30s`, `0.5s`, `500ms`, `PT1M30S`. Sizes: `256M`, `256MiB`, `1.5GiB` are powers of 1024,\n"
    "`256MB` of 1000. A number without a unit is refused, except 0. Text that YAML takes for a truth value (yes, no,\n"
    "on, off) is quoted. Keys marked *not in the fingerprint* may change while a run goes on; any other change starts\n"
    "another run.\n";

char *schema_markdown(const struct config_table *table)
{
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_TEXT);
    buf_fmt(&b, "# Reference: %s\n\nMade by `orch config reference%s` from the schema table; do not edit.\n\n%s",
            table->title, table == config_operator_table() ? " --operator" : "", page_head);
    buf_str(&b, "\n## Top-level keys\n" TABLE_HEAD);
    for (size_t i = 0; i < table->row_count; i++) {
        if (strchr(table->rows[i].key, '.') == NULL) {
            add_table_row(&b, "", &table->rows[i]);
        }
    }
    AUTO_STRV char **groups = config_children(table, "");
    for (size_t g = 0; g < strv_len(groups); g++) {
        if (!config_is_group(table, groups[g])) {
            continue;
        }
        buf_fmt(&b, "\n## %s\n" TABLE_HEAD, groups[g]);
        size_t len = strlen(groups[g]);
        for (size_t i = 0; i < table->row_count; i++) {
            const struct config_row *row = &table->rows[i];
            bool member = strncmp(row->key, groups[g], len) == 0 && row->key[len] == '.';
            if (member && (row->flags & CONFIG_TEST_ONLY) == 0) {
                add_table_row(&b, "", row);
            }
        }
    }
    if (table->retired_count > 0) {
        buf_str(&b, "\n## Retired keys and values\n\n| retired | now |\n| --- | --- |\n");
    }
    for (size_t i = 0; i < table->retired_count; i++) {
        const struct config_retired *r = &table->retired[i];
        buf_fmt(&b, "| `%s%s%s` | ", r->key, r->value == NULL ? "" : ": ", r->value == NULL ? "" : r->value);
        add_cell(&b, r->successor);
        buf_str(&b, " |\n");
    }
    return buf_take(&b, NULL);
}

/* --- explain --- */

static void explain_row(struct buf *b, const char *prefix, const struct config_row *row)
{
    AUTO_FREE char *expected = config_row_expected(row);
    AUTO_FREE char *fallback = default_text(row);
    buf_fmt(b, "%s%s\n  value:   %s\n  default: %s\n  %s\n", prefix, row->key, expected, fallback, row->doc);
    if (row->environments != NULL) {
        buf_fmt(b, "  environment: %s\n", row->environments);
    }
    if ((row->flags & CONFIG_STRENGTHEN) != 0) {
        buf_str(b, "  May only strengthen what the operator requires.\n");
    }
    buf_str(b, (row->flags & CONFIG_VOLATILE) != 0 ? "  Not in the fingerprint: it may change while a run goes on.\n"
                                                   : "  In the fingerprint: a change starts another run.\n");
    const char *word = strrchr(row->key, '.');
    if (row->example != NULL) {
        buf_fmt(b, "  example: %s: %s\n", word == NULL ? row->key : word + 1, row->example);
    }
    for (size_t i = 0; row->element != NULL && i < row->element->row_count; i++) {
        AUTO_FREE char *inner = xasprintf("%s%s%s", prefix, row->key, row->type == CONFIG_MAPS ? "[]." : ".<name>.");
        explain_row(b, inner, &row->element->rows[i]);
    }
}

int schema_explain(const struct config_table *table, const char *key, char **ret_text, struct orch_err *err)
{
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_TEXT);
    size_t len = strlen(key);
    for (size_t i = 0; i < table->row_count; i++) {
        const struct config_row *row = &table->rows[i];
        bool member =
            len == 0 || strcmp(row->key, key) == 0 || (strncmp(row->key, key, len) == 0 && row->key[len] == '.');
        if (member) {
            explain_row(&b, "", row);
        }
    }
    const struct config_row *row = b.len == 0 ? config_row_find(table, key) : NULL;
    if (row != NULL) {
        size_t above = strlen(key) > strlen(row->key) ? strlen(key) - strlen(row->key) : 0;
        AUTO_FREE char *prefix = row->type == CONFIG_JSON ? xstrdup("") : xmemdup0(key, above);
        explain_row(&b, prefix, row);
    }
    if (b.len == 0) {
        const struct config_retired *retired = config_retired_find(table, key, NULL);
        if (retired != NULL) {
            return err_set(err, ORCH_E_NOT_FOUND, "key `%s` is retired: %s", key, retired->successor);
        }
        AUTO_FREE char *near = config_nearest(table, key);
        return err_set(err, ORCH_E_NOT_FOUND, "there is no key `%s`%s%s%s", key,
                       near == NULL ? "" : "; the nearest is `", near == NULL ? "" : near, near == NULL ? "" : "`");
    }
    *ret_text = buf_take(&b, NULL);
    return 0;
}
