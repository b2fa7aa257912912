/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine behind both configs: a tree and a table fill a struct, and a
 * struct, its tree and its table become JSON or YAML again. Used within config/.
 */
#ifndef ORCH_CONFIG_CONFIG_READ_H
#define ORCH_CONFIG_CONFIG_READ_H

#include "config/findings.h"
#include "config/schema.h"
#include "config/yaml.h"

#include <stdbool.h>
#include <stddef.h>

/* Where values came from; kept by the configs. */
struct config_source {
    struct yaml_node *tree;
    char **places; /* owns the names that the nodes borrow */
};

void config_source_free(struct config_source *source);

/*
 * Fills `base` (zeroed, table->size bytes): the defaults, then the tree. Every
 * fault is a finding and leaves the default. With `partial`, absent REQUIRED
 * keys are fine (one file of several).
 */
void config_read(const struct config_table *table, void *base, const struct yaml_node *tree, const char *place,
                 const char *dir, bool partial, struct config_findings *findings);
/* Frees what the fields own; the struct itself is the caller's. */
void config_clear(const struct config_table *table, void *base);

/* Puts one "key.path=value" into the tree. `place` is "override key.path" and outlives the tree. */
void config_override(const struct config_table *table, struct yaml_node *tree, const char *place, const char *override,
                     struct config_findings *findings);
/* Maps are joined key by key, anything else is replaced. Consumes `from`. */
void config_merge(struct yaml_node *into, struct yaml_node *from);

/* The node of a dotted key, or NULL; a scalar that stands for its group counts as its shorthand key. */
const struct yaml_node *config_find(const struct config_table *table, const struct yaml_node *tree, const char *key);
/* Place of a dotted key, or of the nearest group above it that is in the tree. */
void config_mark(const struct yaml_node *tree, const char *key, int *ret_line, int *ret_column);

/* getenv(3) that may run beside threads; nothing here changes the environment. NULL when it is not set. */
const char *config_variable(const char *name);
/* Expands ~ and ${VAR} and joins to `dir`. NULL and *ret_why when it cannot. Owned by the caller. */
char *config_expand_path(const char *dir, const char *text, char **ret_why);

/* Text into *ret as JSON (YAML's core rules, strict); a static text that says what is wrong, or NULL. */
const char *config_json_scalar(const struct yaml_node *node, json_t **ret);
/* JSON of a free-form node; faults are findings and become null. New reference. */
json_t *config_json_node(const struct yaml_node *node, const char *shown, struct config_findings *findings);

enum config_form {
    CONFIG_FORM_EFFECTIVE, /* everything, paths absolute */
    CONFIG_FORM_MEANING,   /* without volatile rows, paths as written */
};

enum config_keep { CONFIG_KEEP, CONFIG_LEAVE_OUT, CONFIG_AS_NULL };
/* Decides about one row of the table; NULL keeps every row. */
typedef enum config_keep (*config_keep_fn)(const char *key, const void *arg);

json_t *config_to_json(const struct config_table *table, const void *base, const struct yaml_node *tree,
                       enum config_form form, config_keep_fn keep, const void *arg);
/* YAML, each value with its origin as a comment. Owned by the caller. */
char *config_to_yaml(const struct config_table *table, const void *base, const struct yaml_node *tree,
                     config_keep_fn keep, const void *arg);
/* "file:3", the override, or "default". Owned by the caller. */
char *config_origin(const struct config_table *table, const struct yaml_node *tree, const char *key);

/* Retired entry for a key (value NULL) or for a key's value; NULL when there is none. */
const struct config_retired *config_retired_find(const struct config_table *table, const char *key, const char *value);

#endif
