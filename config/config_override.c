/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "base/mem.h"
#include "config/config_read.h"

#include <string.h>

/* Overrides have no line: the finding names the override itself. */
static void unmark(struct yaml_node *node)
{
    node->line = 0;
    node->column = 0;
    for (size_t i = 0; i < node->count; i++) {
        if (node->kind == YAML_MAP) {
            node->key_lines[i] = 0;
            node->key_columns[i] = 0;
        }
        unmark(node->items[i]);
    }
}

static struct yaml_node *parse_value(const char *place, const char *text, struct config_findings *findings)
{
    if (text[strspn(text, " \t")] == '\0') {
        return yaml_node_scalar(place, 0, 0, "", true);
    }
    struct config_findings own = {.count = 0};
    struct orch_err err = ERR_INIT;
    struct yaml_node *node = NULL;
    if (yaml_tree_parse(place, text, strlen(text), 0, &node, &own, &err) < 0) {
        config_findings_add(findings, "bad-override", place, 0, 0, "key.path=value, the value as YAML", NULL,
                            "quote the whole argument for the shell, and the value for YAML", "%s",
                            own.count > 0 ? own.items[0].message : err.message);
        config_findings_done(&own);
        return NULL;
    }
    unmark(node);
    return node;
}

/* Splits "a.b.c" along the table: a name in a NAMED map may hold points. NULL-terminated words, owned. */
static char **split_key(const struct config_table *table, const char *key)
{
    char **words = NULL;
    const char *start = key; /* of what `table` still has to resolve */
    const char *at = key;
    while (*at != '\0') {
        size_t len = strcspn(at, ".");
        words = strv_append(words, xmemdup0(at, len));
        at += len + (at[len] == '.');
        AUTO_FREE char *so_far = xmemdup0(start, (size_t)(at - start) - (at[-1] == '.'));
        const struct config_row *row = table == NULL ? NULL : config_row_find(table, so_far);
        if (row == NULL || row->type != CONFIG_NAMED || strcmp(row->key, so_far) != 0 || *at == '\0') {
            continue;
        }
        const char *dot = strchr(at, '.');
        while (dot != NULL && config_row_find(row->element, dot + 1) == NULL &&
               !config_is_group(row->element, dot + 1)) {
            dot = strchr(dot + 1, '.');
        }
        size_t name = dot == NULL ? strlen(at) : (size_t)(dot - at);
        words = strv_append(words, xmemdup0(at, name));
        at += name + (at[name] == '.');
        start = at;
        table = row->element;
    }
    return words;
}

/* The map behind `word` in `map`, made when it is absent or null; a shorthand scalar becomes its map. */
static struct yaml_node *descend(const struct config_table *table, struct yaml_node *map, const char *word,
                                 const char *group, const char *place)
{
    struct yaml_node *next = yaml_node_get(map, word);
    if (next != NULL && next->kind == YAML_MAP) {
        return next;
    }
    if (next != NULL && next->kind == YAML_LIST) {
        return NULL;
    }
    struct yaml_node *fresh = yaml_node_map(place, 0, 0);
    if (next != NULL && !yaml_node_is_null(next)) {
        const struct config_row *shorthand = config_shorthand(table, group);
        if (shorthand == NULL) {
            yaml_node_free(fresh);
            return NULL;
        }
        fresh->line = next->line;
        fresh->column = next->column;
        fresh->place = next->place;
        yaml_node_set(fresh, strrchr(shorthand->key, '.') + 1, next->line, next->column, yaml_node_copy(next));
    }
    yaml_node_set(map, word, fresh->line, fresh->column, fresh);
    return fresh;
}

void config_override(const struct config_table *table, struct yaml_node *tree, const char *place, const char *override,
                     struct config_findings *findings)
{
    const char *equals = strchr(override, '=');
    if (equals == NULL || equals == override || override[0] == '.' || equals[-1] == '.' ||
        memmem(override, (size_t)(equals - override), "..", 2) != NULL || tree->kind != YAML_MAP) {
        config_findings_add(findings, "bad-override", place, 0, 0, "key.path=value", NULL,
                            "write it such as task.timeout=10m", "this is not an override");
        return;
    }
    AUTO_FREE char *key = xmemdup0(override, (size_t)(equals - override));
    AUTO_YAML struct yaml_node *value = parse_value(place, equals + 1, findings);
    if (value == NULL) {
        return;
    }
    AUTO_STRV char **words = split_key(table, key);
    size_t count = strv_len(words);
    struct yaml_node *map = tree;
    AUTO_FREE char *group = xstrdup("");
    for (size_t i = 0; i + 1 < count; i++) {
        char *longer = group[0] == '\0' ? xstrdup(words[i]) : xasprintf("%s.%s", group, words[i]);
        free(group);
        group = longer;
        map = descend(table, map, words[i], group, place);
        if (map == NULL) {
            config_findings_add(findings, "bad-override", place, 0, 0, "a key of a map", NULL,
                                "set the whole value instead", "`%s` is not a map in the file", group);
            return;
        }
    }
    const struct yaml_node *old = yaml_node_get(map, words[count - 1]);
    if (old != NULL && strcmp(old->place, place) == 0) {
        config_findings_add(findings, "duplicate-key", place, 0, 0, "each key once", NULL, "keep one of the two",
                            "the override is given twice");
        return;
    }
    yaml_node_set(map, words[count - 1], 0, 0, take(value));
}
