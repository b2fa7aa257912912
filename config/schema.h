/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One table, a row a key. The table yields the parser, the defaults, the checks
 * of single values, the JSON Schema, `explain`, the reference page and the
 * nearest-key suggestions. The same engine reads the run config and the
 * operator config.
 */
#ifndef ORCH_CONFIG_SCHEMA_H
#define ORCH_CONFIG_SCHEMA_H

#include "config/findings.h"
#include "config/yaml.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* type, C type of the field it fills, words for people */
#define CONFIG_TYPE_TABLE(X)                                                                                           \
    X(TEXT, "text")                                    /* char *, NULL = null */                                       \
    X(NAME, "name")                                    /* char *: [a-z0-9][a-z0-9._-]{0,62} */                         \
    X(VARIABLE, "variable name")                       /* char *: the NAME of an environment variable */               \
    X(URL, "URL")                                      /* char *: http:// or https:// */                               \
    X(PATH, "path")                                    /* char *, absolute after loading */                            \
    X(ENUM, "one of")                                  /* int, index into values; -1 = null */                         \
    X(FLAG, "true or false")                           /* bool */                                                      \
    X(INT, "whole number")                             /* int64_t, -1 = null */                                        \
    X(NUMBER, "number")                                /* double, -1 = null */                                         \
    X(DURATION, "duration")                            /* int64_t ns, -1 = null */                                     \
    X(SIZE, "size")                                    /* int64_t bytes, -1 = null */                                  \
    X(TEXTS, "list of texts")                          /* char **, never NULL */                                       \
    X(PATHS, "list of paths")                          /* char **, absolute after loading */                           \
    X(INNER_PATHS, "list of relative paths")           /* char **, plain relative */                                   \
    X(VARIABLES, "list of variable names or patterns") /* char ** */                                                   \
    X(HOSTS, "list of hosts")                          /* char ** */                                                   \
    X(ENUMS, "list of")                                /* char **, each one of values */                               \
    X(COMMAND, "command as a list")                    /* char ** argv; [] = none */                                   \
    X(JSON, "map")                                     /* json_t *, free-form object, never NULL */                    \
    X(MAPS, "list of maps")                            /* struct config_array of elements */                           \
    X(NAMED, "map of names") /* struct config_array of elements, the first member is char *name */

enum config_type {
#define X(name, words) CONFIG_##name,
    CONFIG_TYPE_TABLE(X)
#undef X
        CONFIG_TYPE_COUNT
};

enum config_row_flags {
    CONFIG_NULLABLE = 1,   /* null is a value */
    CONFIG_REQUIRED = 2,   /* no default: must be given */
    CONFIG_VOLATILE = 4,   /* changes how, not what: not in the fingerprint */
    CONFIG_STRENGTHEN = 8, /* may only strengthen what the operator requires */
    CONFIG_SHORTHAND = 16, /* a scalar in place of the group sets this key: `environment: host` */
    CONFIG_TEST_ONLY = 32, /* for the test environment; left out of the reference page */
    CONFIG_INSIDE = 64,    /* COMMAND: a relative program is looked for in the candidate, not beside the config */
};

/* Elements of a MAPS or NAMED key: `items` points to `count` structs of the row's element size. */
struct config_array {
    void *items;
    size_t count;
};

struct config_row {
    const char *key; /* dotted, from the root of its table */
    enum config_type type;
    unsigned flags;
    size_t offset;             /* of the field */
    const char *fallback;      /* the default, as YAML; NULL: none (REQUIRED, or empty) */
    double min, max;           /* inclusive; of numbers, sizes in bytes, durations in seconds; both 0: no bound */
    const char *const *values; /* ENUM, ENUMS: NULL-terminated */
    const char *environments;  /* where it has an effect; NULL: everywhere */
    const char *doc;           /* sentences */
    const char *example;       /* a value, as YAML; NULL: the default */
    const struct config_table *element; /* MAPS, NAMED */
};

struct config_retired {
    const char *key;       /* as it was; "key.*" matches everything beneath */
    const char *value;     /* only this value is retired; NULL: the key itself */
    const char *successor; /* what to write now */
};

struct config_table {
    const char *title; /* "run config" */
    const struct config_row *rows;
    size_t row_count;
    size_t size;               /* of the struct that is filled */
    enum config_type key_type; /* element of a NAMED key: NAME or VARIABLE, what its names look like */
    const struct config_retired *retired;
    size_t retired_count;
};

/* Rows of the run config and of the operator config. */
const struct config_table *config_run_table(void);
const struct config_table *config_operator_table(void);

/* The row of a dotted key; names in NAMED maps and list places are skipped: "models.fast.price.input",
 * "task.tools.timeout". NULL when there is none. */
const struct config_row *config_row_find(const struct config_table *table, const char *key);
/* The nearest known key or group (dotted), or NULL: a neighbour first, then the same word elsewhere. Owned by the
 * caller. */
char *config_nearest(const struct config_table *table, const char *key);

/* True if `key` is a group: some row's key starts with "key.". */
bool config_is_group(const struct config_table *table, const char *key);
/* The row that a scalar in place of the group sets, or NULL. */
const struct config_row *config_shorthand(const struct config_table *table, const char *group);
/* The next words under a group ("" for the root), each once, in table order. Owned by the caller. */
char **config_children(const struct config_table *table, const char *group);
/* What a row accepts, in words: "a duration such as 10m, 1m30s or 0.5s, or null". Owned by the caller. */
char *config_row_expected(const struct config_row *row);
/* Type in one or two words, for tables. */
const char *config_type_words(enum config_type type);

/* JSON Schema (draft 2020-12) of the table. New reference. */
json_t *schema_json(const struct config_table *table);
/* The reference page. Owned by the caller. */
char *schema_markdown(const struct config_table *table);
/* The text of `orch config explain KEY`: one key, or every key of a group. ORCH_E_NOT_FOUND names the nearest. */
MUST_USE int schema_explain(const struct config_table *table, const char *key, char **ret_text, struct orch_err *err);

#endif
