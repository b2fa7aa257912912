/* SPDX-License-Identifier: Apache-2.0 */
/* One value: a node into a field of a struct, by the row's type. Used within config/. */
#ifndef ORCH_CONFIG_CONFIG_FIELD_H
#define ORCH_CONFIG_CONFIG_FIELD_H

#include "config/findings.h"
#include "config/schema.h"
#include "config/yaml.h"

struct config_value_context {
    const struct config_row *row;
    const struct config_table *table; /* for retired values; NULL: none */
    const char *shown;                /* full key for messages */
    const char *dir;
    struct config_findings *findings;
};

/* Sets the field; on a fault adds a finding and leaves the field as it was. */
void config_field_set(const struct config_value_context *c, void *field, const struct yaml_node *node);
/* Frees what one field owns and zeroes it. */
void config_field_clear(const struct config_row *row, void *field);
/* Writes null into a cleared field. */
void config_field_null(const struct config_row *row, void *field);
/* Null values, then the defaults, into a zeroed struct (the name of a NAMED element is kept). */
void config_defaults(const struct config_table *table, void *base, const char *dir);
/* "`text`", "null", "a list" or "a map", for messages. Owned by the caller. */
char *config_found(const struct yaml_node *node);
/* One of the words, whatever its case. */
bool config_is_word(const char *text, const char *const *words, size_t count);
/* Unquoted and taken for true or false by some YAML readers. */
bool config_reads_as_flag(const struct yaml_node *node);

#endif
