/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YAML as a tree of nodes with marks. Nothing is converted: a scalar keeps its
 * bytes and whether it was quoted; the schema decides what it means.
 *
 * Strict (flags 0), for configs: UTF-8 only, a BOM and CRLF are accepted;
 * refused, each with a finding: duplicate keys (both lines named), anchors,
 * aliases, tags, tabs in indentation, a second document, keys that are not
 * plain text, a text over YAML_BYTES_MAX, nesting over YAML_DEPTH_MAX, more
 * than YAML_NODES_MAX nodes.
 */
#ifndef ORCH_CONFIG_YAML_H
#define ORCH_CONFIG_YAML_H

#include "config/findings.h"

#include <stdbool.h>
#include <stddef.h>

#define YAML_BYTES_MAX ((size_t)1 << 20)
#define YAML_DEPTH_MAX 32
#define YAML_NODES_MAX 100000 /* after aliases are expanded */

enum yaml_flags {
    YAML_ANCHORS = 1, /* anchors and aliases are accepted and expanded (never into themselves), at most
                       * YAML_NODES_MAX nodes in all; for files of other systems, not for configs */
};

enum yaml_kind { YAML_SCALAR, YAML_LIST, YAML_MAP, YAML_KIND_COUNT };

struct yaml_node {
    enum yaml_kind kind;
    const char *place; /* borrowed from the caller of yaml_tree_parse: the file's name, or the override */
    int line;          /* 1-based; 0 for an override */
    int column;        /* 1-based, in characters */
    int end_line;      /* just behind the value; 0 for what was not read from a text */
    int end_column;
    bool flow;      /* list or map: written in brackets */
    bool plain;     /* scalar: written without quotes or block style */
    char *text;     /* scalar: NUL-terminated, without inner NUL */
    char **keys;    /* map: text of each key */
    int *key_lines; /* map: where each key is */
    int *key_columns;
    struct yaml_node **items; /* list and map: the values */
    size_t count;
};

/*
 * Parses `data`. Returns ORCH_E_CONFIG and at least one finding when it is not
 * acceptable. An empty text or only comments gives an empty map. `place` is
 * named in findings and borrowed by the nodes. *ret_root is owned by the caller.
 */
MUST_USE int yaml_tree_parse(const char *place, const char *data, size_t len, unsigned flags,
                             struct yaml_node **ret_root, struct config_findings *findings, struct orch_err *err);

void yaml_node_free(struct yaml_node *node); /* NULL is fine */
void yaml_node_release(struct yaml_node **node);
#define AUTO_YAML __attribute__((cleanup(yaml_node_release)))

/* Building and changing trees (overrides, merges). Nodes put in are consumed. */
struct yaml_node *yaml_node_map(const char *place, int line, int column);
struct yaml_node *yaml_node_list(const char *place, int line, int column);
struct yaml_node *yaml_node_scalar(const char *place, int line, int column, const char *text, bool plain);
void yaml_node_set(struct yaml_node *map, const char *key, int line, int column, struct yaml_node *value);
void yaml_node_add(struct yaml_node *list, struct yaml_node *value);
struct yaml_node *yaml_node_get(const struct yaml_node *map, const char *key); /* borrowed; NULL when absent */
struct yaml_node *yaml_node_copy(const struct yaml_node *node);

/* A plain null, ~ or nothing. */
bool yaml_node_is_null(const struct yaml_node *node);

/* Text as one YAML scalar: plain when that reads back as the same text, else double-quoted. Owned by the caller. */
char *yaml_scalar_text(const char *text);

#endif
