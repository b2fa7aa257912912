/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "config/config_read.h"
#include "config/units.h"

#include <stdio.h>
#include <string.h>

struct writer {
    const struct config_table *table;
    const char *base;
    const struct yaml_node *tree; /* the map of this table, or NULL */
    enum config_form form;
    config_keep_fn keep;
    const void *arg;
};

static enum config_keep keep_row(const struct writer *w, const struct config_row *row)
{
    if (w->form == CONFIG_FORM_MEANING && (row->flags & CONFIG_VOLATILE) != 0) {
        return CONFIG_LEAVE_OUT;
    }
    if ((row->flags & CONFIG_TEST_ONLY) != 0 && config_find(w->table, w->tree, row->key) == NULL) {
        return CONFIG_LEAVE_OUT;
    }
    return w->keep == NULL ? CONFIG_KEEP : w->keep(row->key, w->arg);
}

/* A path of the config itself, as it was written: the same on every machine. */
static char *as_written(const char *text)
{
    return text[0] == '~' || text[0] == '$' ? xstrdup(text) : path_normal(text);
}

/* Local ports change from start to start; the host and the path say which endpoint it is. */
static char *url_meaning(const char *url)
{
    static const char *const loopback[] = {"http://127.0.0.1:",  "http://localhost:",  "http://[::1]:",
                                           "https://127.0.0.1:", "https://localhost:", "https://[::1]:"};
    for (size_t i = 0; i < ARRAY_LEN(loopback); i++) {
        size_t len = strlen(loopback[i]);
        if (strncmp(url, loopback[i], len) == 0) {
            return xasprintf("%.*s%s", (int)len - 1, url, url + len + strspn(url + len, "0123456789"));
        }
    }
    return xstrdup(url);
}

static json_t *take_text(char *text)
{
    json_t *value = text == NULL ? json_null() : json_text(text, strlen(text));
    free(text);
    return value;
}

static json_t *text_value(const char *text)
{
    return text == NULL ? json_null() : json_text(text, strlen(text));
}

static json_t *written_list(const struct yaml_node *node, char *const *fallback, bool only_first)
{
    if (node == NULL || node->kind != YAML_LIST) {
        return json_from_strv(fallback);
    }
    json_t *array = json_array();
    for (size_t i = 0; i < node->count; i++) {
        const char *text = node->items[i]->text == NULL ? "" : node->items[i]->text;
        bool path = !only_first || (i == 0 && strchr(text, '/') != NULL);
        AUTO_FREE char *normal = path ? as_written(text) : xstrdup(text);
        /* "./solve" lies beside the config, "solve" on the search path: they stay apart. */
        bool beside = only_first && path && strchr(normal, '/') == NULL;
        json_add_take(array, take_text(beside ? xasprintf("./%s", normal) : take(normal)));
    }
    return array;
}

static json_t *number_value(double value)
{
    if (value < 0) {
        return json_null();
    }
    return value == (double)(int64_t)value ? json_integer((int64_t)value) : json_real(value);
}

static json_t *unit_value(enum config_type type, int64_t value)
{
    char text[UNITS_TEXT_MAX];
    if (value < 0) {
        return json_null();
    }
    return json_string(type == CONFIG_SIZE ? units_size_text(value, text) : units_duration_text(value, text));
}

static json_t *enum_value(const struct config_row *row, int value)
{
    return value < 0 ? json_null() : json_string(row->values[value]);
}

static json_t *int_value(int64_t value)
{
    return value < 0 ? json_null() : json_integer(value);
}

static json_t *path_value(const struct writer *w, const char *path, const struct yaml_node *node)
{
    bool written = w->form == CONFIG_FORM_MEANING && path != NULL && node != NULL && node->kind == YAML_SCALAR;
    return written ? take_text(as_written(node->text)) : text_value(path);
}

static json_t *array_value(const struct writer *w, const struct config_row *row, const void *field,
                           const struct yaml_node *node);

static json_t *field_value(const struct writer *w, const struct config_row *row)
{
    const void *field = w->base + row->offset;
    const struct yaml_node *node = w->tree == NULL ? NULL : config_find(w->table, w->tree, row->key);
    bool meaning = w->form == CONFIG_FORM_MEANING;
    switch (row->type) {
    case CONFIG_TEXT:
    case CONFIG_NAME:
    case CONFIG_VARIABLE:
        return text_value(*(char *const *)field);
    case CONFIG_URL:
        return meaning && *(char *const *)field != NULL ? take_text(url_meaning(*(char *const *)field))
                                                        : text_value(*(char *const *)field);
    case CONFIG_PATH:
        return path_value(w, *(char *const *)field, node);
    case CONFIG_ENUM:
        return enum_value(row, *(const int *)field);
    case CONFIG_FLAG:
        return json_boolean(*(const bool *)field);
    case CONFIG_INT:
        return int_value(*(const int64_t *)field);
    case CONFIG_NUMBER:
        return number_value(*(const double *)field);
    case CONFIG_DURATION:
    case CONFIG_SIZE:
        return unit_value(row->type, *(const int64_t *)field);
    case CONFIG_PATHS:
        return meaning ? written_list(node, *(char *const *const *)field, false)
                       : json_from_strv(*(char *const *const *)field);
    case CONFIG_COMMAND:
        return meaning ? written_list(node, *(char *const *const *)field, true)
                       : json_from_strv(*(char *const *const *)field);
    case CONFIG_TEXTS:
    case CONFIG_INNER_PATHS:
    case CONFIG_VARIABLES:
    case CONFIG_HOSTS:
    case CONFIG_ENUMS:
        return json_from_strv(*(char *const *const *)field);
    case CONFIG_JSON:
        return json_deep_copy(*(json_t *const *)field);
    case CONFIG_MAPS:
    case CONFIG_NAMED:
        return array_value(w, row, field, node);
    case CONFIG_TYPE_COUNT:
        break;
    }
    return json_null();
}

/* Puts a value under a dotted key, making the objects on the way. */
static void put(json_t *root, const char *key, json_t *value)
{
    json_t *at = root;
    for (const char *dot = strchr(key, '.'); dot != NULL; dot = strchr(key, '.')) {
        AUTO_FREE char *word = xmemdup0(key, (size_t)(dot - key));
        json_t *next = json_object_get(at, word);
        if (next == NULL) {
            next = json_object();
            json_set_take(at, word, next);
        }
        at = next;
        key = dot + 1;
    }
    json_set_take(at, key, value);
}

static json_t *table_value(const struct writer *w)
{
    json_t *root = json_object();
    for (size_t i = 0; i < w->table->row_count; i++) {
        const struct config_row *row = &w->table->rows[i];
        enum config_keep keep = keep_row(w, row);
        if (keep != CONFIG_LEAVE_OUT) {
            put(root, row->key, keep == CONFIG_KEEP ? field_value(w, row) : json_null());
        }
    }
    return root;
}

static json_t *array_value(const struct writer *w, const struct config_row *row, const void *field,
                           const struct yaml_node *node)
{
    struct config_array array;
    memcpy(&array, field, sizeof(array));
    bool named = row->type == CONFIG_NAMED;
    json_t *value = named ? json_object() : json_array();
    for (size_t i = 0; i < array.count; i++) {
        struct writer inner = *w;
        inner.table = row->element;
        inner.base = (const char *)array.items + i * row->element->size;
        inner.tree = node != NULL && i < node->count ? node->items[i] : NULL;
        inner.keep = NULL;
        json_t *item = table_value(&inner);
        if (named) {
            char *name;
            memcpy(&name, inner.base, sizeof(name));
            json_set_take(value, name, item);
        } else {
            json_add_take(value, item);
        }
    }
    return value;
}

json_t *config_to_json(const struct config_table *table, const void *base, const struct yaml_node *tree,
                       enum config_form form, config_keep_fn keep, const void *arg)
{
    struct writer w = {.table = table, .base = base, .tree = tree, .form = form, .keep = keep, .arg = arg};
    return table_value(&w);
}

/* --- YAML with origins --- */

#define COMMENT_COLUMN 48

static void add_flow(struct buf *b, const json_t *value)
{
    size_t n = 0;
    const char *key;
    json_t *item;
    switch (json_typeof(value)) {
    case JSON_STRING: {
        AUTO_FREE char *text = yaml_scalar_text(json_string_value(value));
        buf_str(b, text);
        return;
    }
    case JSON_ARRAY:
        buf_char(b, '[');
        for (n = 0; n < json_array_size(value); n++) {
            buf_str(b, n == 0 ? "" : ", ");
            add_flow(b, json_array_get(value, n));
        }
        buf_char(b, ']');
        return;
    case JSON_OBJECT:
        buf_char(b, '{');
        json_object_foreach((json_t *)(uintptr_t)value, key, item)
        {
            AUTO_FREE char *text = yaml_scalar_text(key);
            buf_fmt(b, "%s%s: ", n++ == 0 ? "" : ", ", text);
            add_flow(b, item);
        }
        buf_char(b, '}');
        return;
    case JSON_INTEGER:
        buf_fmt(b, "%lld", (long long)json_integer_value(value));
        return;
    case JSON_REAL:
        buf_fmt(b, "%.17g", json_real_value(value));
        return;
    case JSON_TRUE:
    case JSON_FALSE:
        buf_str(b, json_is_true(value) ? "true" : "false");
        return;
    case JSON_NULL:
        buf_str(b, "null");
        return;
    }
}

static char *origin(const struct yaml_node *node)
{
    if (node == NULL) {
        return xstrdup("default");
    }
    return node->line > 0 ? xasprintf("%s:%d", node->place, node->line) : xstrdup(node->place);
}

char *config_origin(const struct config_table *table, const struct yaml_node *tree, const char *key)
{
    return origin(config_find(table, tree, key));
}

static void add_entry(struct buf *b, size_t indent, const char *word, const json_t *value, const struct yaml_node *node)
{
    AUTO_BUF struct buf line;
    buf_init(&line, BUF_MAX_TEXT);
    buf_fmt(&line, "%*s%s: ", (int)indent, "", word);
    add_flow(&line, value);
    AUTO_FREE char *from = origin(node);
    int pad = line.len < COMMENT_COLUMN ? COMMENT_COLUMN - (int)line.len : 1;
    buf_fmt(b, "%s%*s# ", line.data, pad, "");
    buf_escaped(b, from, strlen(from), false);
    buf_char(b, '\n');
}

/* Writes the group words of `key` that the key before it did not have; returns the indentation. */
static size_t add_groups(struct buf *b, const char *before, const char *key)
{
    size_t indent = 0;
    bool same = true;
    for (const char *dot = strchr(key, '.'); dot != NULL; dot = strchr(dot + 1, '.')) {
        size_t len = (size_t)(dot - key) + 1;
        same = same && strncmp(before, key, len) == 0;
        if (!same) {
            const char *start = dot;
            while (start > key && start[-1] != '.') {
                start--;
            }
            buf_fmt(b, "%*s%.*s:\n", (int)indent, "", (int)(dot - start), start);
        }
        indent += 2;
    }
    return indent;
}

char *config_to_yaml(const struct config_table *table, const void *base, const struct yaml_node *tree,
                     config_keep_fn keep, const void *arg)
{
    struct writer w = {.table = table, .base = base, .tree = tree, .keep = keep, .arg = arg};
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_TEXT);
    const char *before = "";
    for (size_t i = 0; i < table->row_count; i++) {
        const struct config_row *row = &table->rows[i];
        enum config_keep verdict = keep_row(&w, row);
        if (verdict == CONFIG_LEAVE_OUT) {
            continue;
        }
        size_t indent = add_groups(&b, before, row->key);
        const char *word = strrchr(row->key, '.');
        AUTO_JSON json_t *value = verdict == CONFIG_KEEP ? field_value(&w, row) : json_null();
        add_entry(&b, indent, word == NULL ? row->key : word + 1, value, config_find(table, tree, row->key));
        before = row->key;
    }
    return buf_take(&b, NULL);
}
