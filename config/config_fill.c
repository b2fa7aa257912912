/* SPDX-License-Identifier: Apache-2.0 */
/* Fields without a value, and with their defaults. */
#include "base/json.h"
#include "base/mem.h"
#include "config/config_field.h"
#include "config/config_read.h"

#include <string.h>

void config_field_null(const struct config_row *row, void *field)
{
    switch (row->type) {
    case CONFIG_TEXT:
    case CONFIG_NAME:
    case CONFIG_VARIABLE:
    case CONFIG_URL:
    case CONFIG_PATH:
        *(char **)field = NULL;
        return;
    case CONFIG_ENUM:
        *(int *)field = -1;
        return;
    case CONFIG_FLAG:
        *(bool *)field = false;
        return;
    case CONFIG_NUMBER:
        *(double *)field = -1;
        return;
    case CONFIG_INT:
    case CONFIG_DURATION:
    case CONFIG_SIZE:
        *(int64_t *)field = -1;
        return;
    case CONFIG_TEXTS:
    case CONFIG_PATHS:
    case CONFIG_INNER_PATHS:
    case CONFIG_VARIABLES:
    case CONFIG_HOSTS:
    case CONFIG_ENUMS:
    case CONFIG_COMMAND:
        *(char ***)field = xcalloc(1, sizeof(char *));
        return;
    case CONFIG_JSON:
        *(json_t **)field = json_object();
        return;
    case CONFIG_MAPS:
    case CONFIG_NAMED:
    case CONFIG_TYPE_COUNT:
        return;
    }
}

static void clear_array(const struct config_row *row, void *field)
{
    struct config_array array;
    memcpy(&array, field, sizeof(array));
    for (size_t i = 0; i < array.count; i++) {
        char *element = (char *)array.items + i * row->element->size;
        if (row->type == CONFIG_NAMED) {
            char *name;
            memcpy(&name, element, sizeof(name));
            free(name);
        }
        config_clear(row->element, element);
    }
    free(array.items);
    memset(field, 0, sizeof(array));
}

void config_field_clear(const struct config_row *row, void *field)
{
    switch (row->type) {
    case CONFIG_TEXT:
    case CONFIG_NAME:
    case CONFIG_VARIABLE:
    case CONFIG_URL:
    case CONFIG_PATH:
        free_pointer(field);
        return;
    case CONFIG_TEXTS:
    case CONFIG_PATHS:
    case CONFIG_INNER_PATHS:
    case CONFIG_VARIABLES:
    case CONFIG_HOSTS:
    case CONFIG_ENUMS:
    case CONFIG_COMMAND:
        strv_release(field);
        return;
    case CONFIG_JSON:
        json_release(field);
        return;
    case CONFIG_MAPS:
    case CONFIG_NAMED:
        clear_array(row, field);
        return;
    case CONFIG_ENUM:
    case CONFIG_FLAG:
    case CONFIG_INT:
    case CONFIG_NUMBER:
    case CONFIG_DURATION:
    case CONFIG_SIZE:
    case CONFIG_TYPE_COUNT:
        return;
    }
}

void config_clear(const struct config_table *table, void *base)
{
    for (size_t i = 0; i < table->row_count; i++) {
        config_field_clear(&table->rows[i], (char *)base + table->rows[i].offset);
    }
}

/* A row's own default is written by us: a fault in it is a bug that the first test meets. */
static void set_fallback(const struct config_row *row, void *field, const char *dir)
{
    AUTO_FINDINGS struct config_findings findings = {.count = 0};
    AUTO_YAML struct yaml_node *node = NULL;
    struct orch_err err = ERR_INIT;
    if (yaml_tree_parse("default", row->fallback, strlen(row->fallback), 0, &node, &findings, &err) < 0) {
        abort();
    }
    struct config_value_context c = {.row = row, .shown = row->key, .dir = dir, .findings = &findings};
    config_field_set(&c, field, node);
    if (findings.count > 0) {
        abort();
    }
}

void config_defaults(const struct config_table *table, void *base, const char *dir)
{
    for (size_t i = 0; i < table->row_count; i++) {
        const struct config_row *row = &table->rows[i];
        void *field = (char *)base + row->offset;
        config_field_null(row, field);
        if (row->fallback != NULL && strcmp(row->fallback, "null") != 0) {
            set_fallback(row, field, dir);
        }
    }
}
