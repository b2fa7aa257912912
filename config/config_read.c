/* SPDX-License-Identifier: Apache-2.0 */
#include "config/config_read.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "config/config_field.h"
#include "config/units.h"

#include <stdio.h>
#include <string.h>

struct reader {
    const struct config_table *table; /* of the group being read */
    const struct config_table *root;
    const char *place;
    const char *dir;
    bool partial;
    struct config_findings *findings;
};

void config_source_free(struct config_source *source)
{
    if (source != NULL) {
        yaml_node_free(source->tree);
        strv_free(source->places);
        free(source);
    }
}

static char *join_key(const char *group, const char *key)
{
    return group[0] == '\0' ? xstrdup(key) : xasprintf("%s.%s", group, key);
}

/* --- unknown and retired keys --- */

static bool retired_matches(const struct config_retired *r, const char *key)
{
    size_t len = strlen(r->key);
    if (len > 2 && strcmp(r->key + len - 2, ".*") == 0) {
        return strncmp(r->key, key, len - 2) == 0 && (key[len - 2] == '\0' || key[len - 2] == '.');
    }
    return strcmp(r->key, key) == 0;
}

const struct config_retired *config_retired_find(const struct config_table *table, const char *key, const char *value)
{
    for (size_t i = 0; i < table->retired_count; i++) {
        const struct config_retired *r = &table->retired[i];
        bool same = value == NULL ? r->value == NULL : r->value != NULL && strcmp(r->value, value) == 0;
        if (same && retired_matches(r, key)) {
            return r;
        }
    }
    return NULL;
}

static char *children_text(const struct config_table *table, const char *group)
{
    AUTO_STRV char **list = config_children(table, group);
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_LINE);
    buf_str(&b, "one of ");
    if (strv_len(list) == 0) {
        buf_str(&b, "(none here)");
    }
    for (size_t i = 0; i < strv_len(list); i++) {
        buf_fmt(&b, "%s%s", i == 0 ? "" : ", ", list[i]);
    }
    return buf_take(&b, NULL);
}

/* A group that moved as a whole, or one whose keys went to different places. True if it was reported. */
static bool report_retired(struct reader *r, const struct yaml_node *map, size_t i, const char *group,
                           const char *shown)
{
    const struct yaml_node *value = map->items[i];
    bool reported = false;
    for (size_t k = 0; value->kind == YAML_MAP && k < value->count; k++) {
        AUTO_FREE char *inner = join_key(shown, value->keys[k]);
        if (config_retired_find(r->root, inner, NULL) != NULL) {
            reported = report_retired(r, value, k, group, inner) || reported;
        }
    }
    const struct config_retired *retired = config_retired_find(r->root, shown, NULL);
    if (reported || retired == NULL) {
        return reported;
    }
    AUTO_FREE char *expected = children_text(r->table, group);
    config_findings_add(r->findings, "retired-key", value->place, map->key_lines[i], map->key_columns[i], expected,
                        NULL, retired->successor, "key `%s` is retired", shown);
    return true;
}

static void unknown_key(struct reader *r, const struct yaml_node *map, size_t i, const char *group, const char *shown)
{
    const struct yaml_node *value = map->items[i];
    int line = map->key_lines[i];
    int column = map->key_columns[i];
    if (report_retired(r, map, i, group, shown)) {
        return;
    }
    AUTO_FREE char *key = join_key(group, map->keys[i]);
    AUTO_FREE char *expected = children_text(r->table, group);
    AUTO_FREE char *near = config_nearest(r->table, key);
    if (near != NULL && r->table != r->root) { /* the table of an element does not know where it stands */
        size_t above = strlen(shown) - strlen(key);
        char *whole = xasprintf("%.*s%s", (int)above, shown, near);
        free(near);
        near = whole;
    }
    AUTO_FREE char *remedy = near == NULL ? xstrdup("remove it; `orch config explain` lists every key")
                                          : xasprintf("write `%s`, or remove it", near);
    config_findings_add(r->findings, "unknown-key", value->place, line, column, expected, near, remedy,
                        "unknown key `%s`", shown);
}

/* --- values --- */

static void read_map(struct reader *r, void *base, const struct yaml_node *map, const char *group, const char *shown);

static void check_required(struct reader *r, const struct yaml_node *map, const char *place, const char *shown,
                           int line, int column)
{
    for (size_t i = 0; i < r->table->row_count && !r->partial; i++) {
        const struct config_row *row = &r->table->rows[i];
        if ((row->flags & CONFIG_REQUIRED) == 0) {
            continue;
        }
        const struct yaml_node *node = config_find(r->table, map, row->key);
        if (node != NULL && !yaml_node_is_null(node)) {
            continue;
        }
        if (r->table == r->root) {
            config_mark(map, row->key, &line, &column);
        }
        AUTO_FREE char *full = join_key(shown, row->key);
        AUTO_FREE char *expected = config_row_expected(row);
        AUTO_FREE char *remedy = row->example == NULL ? xasprintf("add `%s`", full)
                                                      : xasprintf("add it, for example `%s: %s`", full, row->example);
        config_findings_add(r->findings, "missing-key", place, line, column, expected, NULL, remedy,
                            "key `%s` is missing", full);
    }
}

static void read_element(struct reader *r, const struct config_row *row, void *element, const struct yaml_node *map,
                         const char *shown, int line, int column)
{
    struct reader inner = *r;
    inner.table = row->element;
    config_defaults(row->element, element, r->dir);
    read_map(&inner, element, map, "", shown);
    check_required(&inner, map, map->place, shown, line, column);
}

static bool element_is_map(struct reader *r, const struct yaml_node *node, const char *shown)
{
    if (node->kind == YAML_MAP) {
        return true;
    }
    AUTO_FREE char *found = config_found(node);
    config_findings_add(r->findings, "wrong-type", node->place, node->line, node->column, "a map of keys", NULL,
                        "write the keys of the element, indented", "`%s` is %s", shown, found);
    return false;
}

static void read_array(struct reader *r, const struct config_row *row, void *field, const struct yaml_node *node,
                       const char *shown)
{
    bool named = row->type == CONFIG_NAMED;
    if (yaml_node_is_null(node)) {
        return;
    }
    if (node->kind != (named ? YAML_MAP : YAML_LIST)) {
        AUTO_FREE char *found = config_found(node);
        AUTO_FREE char *expected = config_row_expected(row);
        config_findings_add(r->findings, "wrong-type", node->place, node->line, node->column, expected, NULL,
                            named ? "write `name: {…}` for each" : "write one `- …` for each", "`%s` is %s", shown,
                            found);
        return;
    }
    struct config_array array = {.count = node->count};
    array.items = node->count == 0 ? NULL : xcalloc(node->count, row->element->size);
    for (size_t i = 0; i < node->count; i++) {
        char *element = (char *)array.items + i * row->element->size;
        AUTO_FREE char *place = named ? join_key(shown, node->keys[i]) : xasprintf("%s[%zu]", shown, i);
        int line = named ? node->key_lines[i] : node->items[i]->line;
        int column = named ? node->key_columns[i] : node->items[i]->column;
        if (named) {
            bool good = row->element->key_type == CONFIG_VARIABLE ? units_is_variable(node->keys[i])
                                                                  : units_is_name(node->keys[i]);
            if (!good) {
                struct config_row name = {.type = row->element->key_type};
                AUTO_FREE char *expected = config_row_expected(&name);
                config_findings_add(r->findings, "bad-name", node->items[i]->place, line, column, expected, NULL,
                                    "choose another name", "`%s` is not a name that `%s` accepts", node->keys[i],
                                    shown);
            }
            char *name = xstrdup(node->keys[i]);
            memcpy(element, &name, sizeof(name));
        }
        if (element_is_map(r, node->items[i], place)) {
            read_element(r, row, element, node->items[i], place, line, column);
        } else {
            config_defaults(row->element, element, r->dir);
        }
    }
    memcpy(field, &array, sizeof(array));
}

static void read_row(struct reader *r, void *base, const struct config_row *row, const struct yaml_node *node,
                     const char *shown)
{
    void *field = (char *)base + row->offset;
    if (row->element != NULL) {
        read_array(r, row, field, node, shown);
        return;
    }
    struct config_value_context c = {
        .row = row, .table = r->root, .shown = shown, .dir = r->dir, .findings = r->findings};
    config_field_set(&c, field, node);
}

static void read_group(struct reader *r, void *base, const struct yaml_node *node, const char *group, const char *shown)
{
    if (node->kind == YAML_MAP) {
        read_map(r, base, node, group, shown);
        return;
    }
    const struct config_row *shorthand = config_shorthand(r->table, group);
    if (node->kind == YAML_SCALAR && shorthand != NULL) {
        read_row(r, base, shorthand, node, shown);
        return;
    }
    AUTO_FREE char *found = config_found(node);
    AUTO_FREE char *expected = children_text(r->table, group);
    AUTO_FREE char *what = xasprintf("a map with any of the keys %s", expected + strlen("one of "));
    config_findings_add(r->findings, "wrong-type", node->place, node->line, node->column, what, NULL,
                        "write its keys beneath it, indented, or remove it", "`%s` is %s", shown, found);
}

static void read_map(struct reader *r, void *base, const struct yaml_node *map, const char *group, const char *shown)
{
    for (size_t i = 0; i < map->count; i++) {
        AUTO_FREE char *key = join_key(group, map->keys[i]);
        AUTO_FREE char *full = join_key(shown, map->keys[i]);
        const struct config_row *row = NULL;
        for (size_t k = 0; k < r->table->row_count && row == NULL; k++) {
            row = strcmp(r->table->rows[k].key, key) == 0 ? &r->table->rows[k] : NULL;
        }
        if (row != NULL) {
            read_row(r, base, row, map->items[i], full);
        } else if (config_is_group(r->table, key) && strchr(map->keys[i], '.') == NULL) {
            read_group(r, base, map->items[i], key, full);
        } else {
            unknown_key(r, map, i, group, full);
        }
    }
}

void config_read(const struct config_table *table, void *base, const struct yaml_node *tree, const char *place,
                 const char *dir, bool partial, struct config_findings *findings)
{
    struct reader r = {
        .table = table, .root = table, .place = place, .dir = dir, .partial = partial, .findings = findings};
    config_defaults(table, base, dir);
    if (tree->kind != YAML_MAP) {
        AUTO_FREE char *found = config_found(tree);
        config_findings_add(findings, "wrong-type", tree->place, tree->line, tree->column, "a map of keys and values",
                            NULL, "start with `version: 1`", "the %s is %s", table->title, found);
        return;
    }
    read_map(&r, base, tree, "", "");
    check_required(&r, tree, place, "", 1, 1);
}

/* --- trees --- */

const struct yaml_node *config_find(const struct config_table *table, const struct yaml_node *tree, const char *key)
{
    const struct yaml_node *node = tree;
    const char *at = key;
    while (node != NULL) {
        if (node->kind == YAML_SCALAR) {
            AUTO_FREE char *group = xmemdup0(key, at > key ? (size_t)(at - key) - 1 : 0);
            const struct config_row *shorthand = config_shorthand(table, group);
            return shorthand != NULL && strcmp(shorthand->key, key) == 0 ? node : NULL;
        }
        const struct yaml_node *whole = yaml_node_get(node, at);
        if (whole != NULL || strchr(at, '.') == NULL) {
            return whole;
        }
        AUTO_FREE char *word = xmemdup0(at, strcspn(at, "."));
        node = yaml_node_get(node, word);
        at += strlen(word) + 1;
    }
    return NULL;
}

void config_mark(const struct yaml_node *tree, const char *key, int *ret_line, int *ret_column)
{
    *ret_line = 1;
    *ret_column = 1;
    const struct yaml_node *node = tree;
    for (const char *at = key; node != NULL && node->kind == YAML_MAP;) {
        size_t len = strcspn(at, ".");
        const struct yaml_node *next = NULL;
        for (size_t i = 0; i < node->count; i++) {
            if (strlen(node->keys[i]) == len && memcmp(node->keys[i], at, len) == 0) {
                next = node->items[i];
                *ret_line = node->key_lines[i];
                *ret_column = node->key_columns[i];
            }
        }
        if (next == NULL || at[len] == '\0') {
            return;
        }
        node = next;
        at += len + 1;
    }
}

void config_merge(struct yaml_node *into, struct yaml_node *from)
{
    for (size_t i = 0; i < from->count; i++) {
        struct yaml_node *old = yaml_node_get(into, from->keys[i]);
        struct yaml_node *value = yaml_node_copy(from->items[i]);
        if (old != NULL && old->kind == YAML_MAP && value->kind == YAML_MAP) {
            config_merge(old, value);
        } else {
            yaml_node_set(into, from->keys[i], from->key_lines[i], from->key_columns[i], value);
        }
    }
    yaml_node_free(from);
}
