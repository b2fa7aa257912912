/* SPDX-License-Identifier: Apache-2.0 */
#include "config/yaml.h"

#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <stdint.h>
#include <string.h>
#include <yaml.h>

static struct yaml_node *node_new(enum yaml_kind kind, const char *place, int line, int column)
{
    struct yaml_node *n = xcalloc(1, sizeof(*n));
    n->kind = kind;
    n->place = place;
    n->line = line;
    n->column = column;
    return n;
}

void yaml_node_free(struct yaml_node *node)
{
    if (node == NULL) {
        return;
    }
    for (size_t i = 0; i < node->count; i++) {
        yaml_node_free(node->items[i]);
        if (node->keys != NULL) {
            free(node->keys[i]);
        }
    }
    free(node->text);
    free(node->keys);
    free(node->key_lines);
    free(node->key_columns);
    free(node->items);
    free(node);
}

void yaml_node_release(struct yaml_node **node)
{
    yaml_node_free(*node);
    *node = NULL;
}

struct yaml_node *yaml_node_map(const char *place, int line, int column)
{
    return node_new(YAML_MAP, place, line, column);
}

struct yaml_node *yaml_node_list(const char *place, int line, int column)
{
    return node_new(YAML_LIST, place, line, column);
}

struct yaml_node *yaml_node_scalar(const char *place, int line, int column, const char *text, bool plain)
{
    struct yaml_node *n = node_new(YAML_SCALAR, place, line, column);
    n->text = xstrdup(text);
    n->plain = plain;
    return n;
}

/* Room doubles whenever the count reaches a power of two, so that no capacity need be kept. */
static void *grow(void *old, size_t count, size_t size)
{
    return (count & (count - 1)) == 0 ? xrealloc(old, (count == 0 ? 1 : count * 2) * size) : old;
}

static void push(struct yaml_node *parent, char *key, int line, int column, struct yaml_node *value)
{
    size_t n = parent->count;
    parent->items = grow(parent->items, n, sizeof(void *));
    parent->items[n] = value;
    if (parent->kind == YAML_MAP) {
        parent->keys = grow(parent->keys, n, sizeof(*parent->keys));
        parent->key_lines = grow(parent->key_lines, n, sizeof(*parent->key_lines));
        parent->key_columns = grow(parent->key_columns, n, sizeof(*parent->key_columns));
        parent->keys[n] = key;
        parent->key_lines[n] = line;
        parent->key_columns[n] = column;
    }
    parent->count = n + 1;
}

void yaml_node_add(struct yaml_node *list, struct yaml_node *value)
{
    push(list, NULL, 0, 0, value);
}

static bool find_key(const struct yaml_node *map, const char *key, size_t *ret)
{
    for (size_t i = 0; map != NULL && map->kind == YAML_MAP && i < map->count; i++) {
        if (strcmp(map->keys[i], key) == 0) {
            *ret = i;
            return true;
        }
    }
    return false;
}

struct yaml_node *yaml_node_get(const struct yaml_node *map, const char *key)
{
    size_t i;
    return find_key(map, key, &i) ? map->items[i] : NULL;
}

void yaml_node_set(struct yaml_node *map, const char *key, int line, int column, struct yaml_node *value)
{
    size_t i;
    if (find_key(map, key, &i)) {
        yaml_node_free(map->items[i]);
        map->items[i] = value;
        map->key_lines[i] = line;
        map->key_columns[i] = column;
        return;
    }
    push(map, xstrdup(key), line, column, value);
}

struct yaml_node *yaml_node_copy(const struct yaml_node *node)
{
    struct yaml_node *copy = node_new(node->kind, node->place, node->line, node->column);
    copy->plain = node->plain;
    copy->text = node->text == NULL ? NULL : xstrdup(node->text);
    for (size_t i = 0; i < node->count; i++) {
        bool map = node->kind == YAML_MAP;
        push(copy, map ? xstrdup(node->keys[i]) : NULL, map ? node->key_lines[i] : 0, map ? node->key_columns[i] : 0,
             yaml_node_copy(node->items[i]));
    }
    return copy;
}

static bool is_null_text(const char *text)
{
    static const char *const words[] = {"", "~", "null", "Null", "NULL"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (strcmp(text, words[i]) == 0) {
            return true;
        }
    }
    return false;
}

bool yaml_node_is_null(const struct yaml_node *node)
{
    return node->kind == YAML_SCALAR && node->plain && is_null_text(node->text);
}

/* --- reading --- */

struct reading {
    const char *place;
    unsigned flags;
    yaml_parser_t parser;
    struct config_findings *findings;
    size_t nodes;
    struct map *anchors;   /* name → finished node, borrowed from the tree */
    bool stop;             /* the text cannot be read further */
    unsigned char *inside; /* a bit a line: it lies inside a scalar that began earlier */
    size_t lines;
};

#define STRUCTURE_REMEDY "look for a missing quote, bracket or comma, and for uneven indentation"

static int line_of(yaml_mark_t mark)
{
    return (int)mark.line + 1;
}

static int column_of(yaml_mark_t mark)
{
    return (int)mark.column + 1;
}

static void report(struct reading *r, yaml_mark_t mark, const char *id, const char *message, const char *expected,
                   const char *remedy)
{
    config_findings_add(r->findings, id, r->place, line_of(mark), column_of(mark), expected, NULL, remedy, "%s",
                        message);
}

static void report_parser(struct reading *r)
{
    yaml_parser_t *p = &r->parser;
    r->stop = true;
    const char *problem = p->problem == NULL ? "it cannot be read" : p->problem;
    if (p->error == YAML_READER_ERROR) {
        config_findings_add(r->findings, "not-yaml", r->place, line_of(p->mark), column_of(p->mark),
                            "printable characters", NULL, "remove the character", "not YAML: %s", problem);
        return;
    }
    AUTO_FREE char *context = p->context == NULL
                                  ? xstrdup("")
                                  : xasprintf(", %s that starts at line %d", p->context, line_of(p->context_mark));
    config_findings_add(r->findings, "not-yaml", r->place, line_of(p->problem_mark), column_of(p->problem_mark),
                        "a YAML map of keys and values", NULL, STRUCTURE_REMEDY, "not YAML: %s%s", problem, context);
}

static bool next_event(struct reading *r, yaml_event_t *event)
{
    if (r->stop) {
        return false;
    }
    if (!yaml_parser_parse(&r->parser, event)) {
        report_parser(r);
        return false;
    }
    return true;
}

static bool count_node(struct reading *r, yaml_mark_t mark, size_t count)
{
    r->nodes += count;
    if (r->nodes <= YAML_NODES_MAX) {
        return true;
    }
    if (!r->stop) {
        AUTO_FREE char *limit = xasprintf("at most %d values, aliases expanded", YAML_NODES_MAX);
        report(r, mark, "too-many-values", "too many values", limit, "split the file, or use fewer aliases");
    }
    r->stop = true;
    return false;
}

/* Anchors and tags change what a text means in a way that its reader does not see at the place. */
static void check_properties(struct reading *r, const yaml_event_t *event, const unsigned char *anchor,
                             const unsigned char *tag)
{
    if (anchor != NULL && (r->flags & YAML_ANCHORS) == 0) {
        config_findings_add(r->findings, "anchor", r->place, line_of(event->start_mark), column_of(event->start_mark),
                            "a value without an anchor", NULL, "write the value out wherever it is needed",
                            "anchor `&%s` is not accepted in a config", (const char *)anchor);
    }
    if (tag != NULL) {
        static const char core[] = "tag:yaml.org,2002:";
        bool short_form = strncmp((const char *)tag, core, sizeof(core) - 1) == 0;
        config_findings_add(r->findings, "tag", r->place, line_of(event->start_mark), column_of(event->start_mark),
                            "a value without a tag", NULL, "remove the tag; each key knows its own type",
                            "tag `%s%s` is not accepted", short_form ? "!!" : "",
                            (const char *)tag + (short_form ? sizeof(core) - 1 : 0));
    }
}

static void note_scalar_lines(struct reading *r, const yaml_event_t *event)
{
    for (size_t line = event->start_mark.line + 1; line <= event->end_mark.line && line < r->lines; line++) {
        if (line < event->end_mark.line || event->end_mark.column > 0) {
            r->inside[line / 8] |= (unsigned char)(1U << (line % 8));
        }
    }
}

static struct yaml_node *read_scalar(struct reading *r, const yaml_event_t *event)
{
    const char *value = (const char *)event->data.scalar.value;
    note_scalar_lines(r, event);
    if (strlen(value) != event->data.scalar.length) {
        report(r, event->start_mark, "nul-character", "a text with a NUL character", "text without \\0",
               "remove the escape \\0");
    }
    bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    struct yaml_node *n =
        yaml_node_scalar(r->place, line_of(event->start_mark), column_of(event->start_mark), value, plain);
    n->end_line = line_of(event->end_mark);
    n->end_column = column_of(event->end_mark);
    return n;
}

static size_t count_tree(const struct yaml_node *node)
{
    size_t count = 1;
    for (size_t i = 0; i < node->count; i++) {
        count += count_tree(node->items[i]);
    }
    return count;
}

static struct yaml_node *read_alias(struct reading *r, const yaml_event_t *event)
{
    const char *name = (const char *)event->data.alias.anchor;
    struct yaml_node *null =
        yaml_node_scalar(r->place, line_of(event->start_mark), column_of(event->start_mark), "", true);
    if ((r->flags & YAML_ANCHORS) == 0) {
        config_findings_add(r->findings, "alias", r->place, line_of(event->start_mark), column_of(event->start_mark),
                            "a value", NULL, "write the value out wherever it is needed",
                            "alias `*%s` is not accepted in a config", name);
        return null;
    }
    /* An anchor is known once its value is complete: a value cannot hold itself. */
    struct yaml_node *target = map_get(r->anchors, name);
    if (target == NULL) {
        config_findings_add(r->findings, "alias", r->place, line_of(event->start_mark), column_of(event->start_mark),
                            "the name of a finished anchor", NULL, "define the anchor before, outside of this value",
                            "alias `*%s` names no finished anchor", name);
        return null;
    }
    if (!count_node(r, event->start_mark, count_tree(target))) {
        return null;
    }
    yaml_node_free(null);
    return yaml_node_copy(target);
}

static struct yaml_node *read_value(struct reading *r, yaml_event_t *event, int depth);

static void keep_anchor(struct reading *r, const char *anchor, struct yaml_node *node)
{
    if (anchor != NULL && r->anchors != NULL) {
        map_set(r->anchors, anchor, node);
    }
}

/* What is in brackets ends with them; a block ends with its last value. */
static void end_collection(struct yaml_node *n, const yaml_event_t *event)
{
    if (n->flow) {
        n->end_line = line_of(event->end_mark);
        n->end_column = column_of(event->end_mark);
    } else if (n->count > 0) {
        n->end_line = n->items[n->count - 1]->end_line;
        n->end_column = n->items[n->count - 1]->end_column;
    }
}

static void read_list(struct reading *r, struct yaml_node *list, int depth)
{
    for (;;) {
        yaml_event_t event;
        if (!next_event(r, &event)) {
            return;
        }
        if (event.type == YAML_SEQUENCE_END_EVENT) {
            end_collection(list, &event);
            yaml_event_delete(&event);
            return;
        }
        push(list, NULL, 0, 0, read_value(r, &event, depth));
        yaml_event_delete(&event);
    }
}

static char *read_key(struct reading *r, yaml_event_t *event, int depth)
{
    struct yaml_node *key = read_value(r, event, depth);
    char *text = key->kind == YAML_SCALAR ? take(key->text) : NULL;
    if (text == NULL) {
        report(r, event->start_mark, "key-type", "a list or map as a key", "text as a key",
               "write the key as one word");
    }
    yaml_node_free(key);
    return text == NULL ? xstrdup("?") : text;
}

static void report_duplicate(struct reading *r, const char *key, yaml_mark_t mark, int first)
{
    config_findings_add(r->findings, "duplicate-key", r->place, line_of(mark), column_of(mark), "each key once", NULL,
                        "keep one of the two lines", "key `%s` is given twice: on line %d and on line %d", key, first,
                        line_of(mark));
}

static void read_map(struct reading *r, struct yaml_node *map, int depth)
{
    AUTO_MAP struct map *seen = map_new();
    for (;;) {
        yaml_event_t event;
        if (!next_event(r, &event)) {
            return;
        }
        if (event.type == YAML_MAPPING_END_EVENT) {
            end_collection(map, &event);
            yaml_event_delete(&event);
            return;
        }
        yaml_mark_t mark = event.start_mark;
        AUTO_FREE char *key = read_key(r, &event, depth);
        yaml_event_delete(&event);
        if (!next_event(r, &event)) {
            return;
        }
        struct yaml_node *value = read_value(r, &event, depth);
        yaml_event_delete(&event);
        void *first = map_get(seen, key);
        if (first != NULL) {
            report_duplicate(r, key, mark, (int)(intptr_t)first);
            yaml_node_free(value);
            continue;
        }
        map_set(seen, key, (void *)(intptr_t)line_of(mark));
        push(map, take(key), line_of(mark), column_of(mark), value);
    }
}

static struct yaml_node *read_collection(struct reading *r, yaml_event_t *event, int depth)
{
    bool map = event->type == YAML_MAPPING_START_EVENT;
    struct yaml_node *n =
        node_new(map ? YAML_MAP : YAML_LIST, r->place, line_of(event->start_mark), column_of(event->start_mark));
    n->flow = map ? event->data.mapping_start.style == YAML_FLOW_MAPPING_STYLE
                  : event->data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE;
    check_properties(r, event, map ? event->data.mapping_start.anchor : event->data.sequence_start.anchor,
                     map ? event->data.mapping_start.tag : event->data.sequence_start.tag);
    if (depth >= YAML_DEPTH_MAX) {
        AUTO_FREE char *limit = xasprintf("at most %d levels", YAML_DEPTH_MAX);
        report(r, event->start_mark, "too-deep", "lists and maps are nested too deeply", limit, "flatten the value");
        r->stop = true;
        return n;
    }
    if (map) {
        read_map(r, n, depth + 1);
        keep_anchor(r, (const char *)event->data.mapping_start.anchor, n);
    } else {
        read_list(r, n, depth + 1);
        keep_anchor(r, (const char *)event->data.sequence_start.anchor, n);
    }
    return n;
}

/* Never NULL: after trouble a null stands in, and the findings say so. */
static struct yaml_node *read_value(struct reading *r, yaml_event_t *event, int depth)
{
    if (event->type == YAML_ALIAS_EVENT) {
        return read_alias(r, event);
    }
    if (!count_node(r, event->start_mark, 1) ||
        (event->type != YAML_SCALAR_EVENT && event->type != YAML_SEQUENCE_START_EVENT &&
         event->type != YAML_MAPPING_START_EVENT)) {
        r->stop = true;
        return yaml_node_scalar(r->place, line_of(event->start_mark), column_of(event->start_mark), "", true);
    }
    if (event->type == YAML_SCALAR_EVENT) {
        check_properties(r, event, event->data.scalar.anchor, event->data.scalar.tag);
        struct yaml_node *n = read_scalar(r, event);
        keep_anchor(r, (const char *)event->data.scalar.anchor, n);
        return n;
    }
    return read_collection(r, event, depth);
}

static struct yaml_node *read_stream(struct reading *r)
{
    struct yaml_node *root = NULL;
    bool done = false;
    while (!done) {
        yaml_event_t event;
        if (!next_event(r, &event)) {
            break;
        }
        if (event.type == YAML_DOCUMENT_START_EVENT && root != NULL) {
            report(r, event.start_mark, "second-document", "a second document starts here", "one document",
                   "move it to a file of its own, or remove the `---`");
            r->stop = true;
        } else if (event.type == YAML_STREAM_END_EVENT) {
            done = true;
        } else if (event.type == YAML_SCALAR_EVENT || event.type == YAML_SEQUENCE_START_EVENT ||
                   event.type == YAML_MAPPING_START_EVENT || event.type == YAML_ALIAS_EVENT) {
            root = read_value(r, &event, 0);
        }
        yaml_event_delete(&event);
    }
    return root == NULL ? yaml_node_map(r->place, 1, 1) : root;
}

/* libyaml refuses most tabs that indent, with words that do not say so, and lets some pass inside brackets. */
static void check_tabs(struct reading *r, const char *data, size_t len)
{
    size_t line = 0;
    for (size_t at = 0; at < len; line++) {
        const char *end = memchr(data + at, '\n', len - at);
        size_t next = end == NULL ? len : (size_t)(end - data) + 1;
        size_t text = at + strspn(data + at, " \t");
        bool blank = text >= len || data[text] == '\n' || data[text] == '\r';
        const char *tab = memchr(data + at, '\t', text - at);
        bool interior = (r->inside[line / 8] & (1U << (line % 8))) != 0;
        if (!blank && !interior && tab != NULL) {
            int column = (int)(tab - (data + at)) + 1;
            config_findings_add(r->findings, "tab", r->place, (int)line + 1, column, "spaces", NULL,
                                "replace the tab with spaces", "a tab in the indentation");
            return;
        }
        at = next;
    }
}

/* A tab is the cause of what libyaml said about the same line: its own words are dropped. */
static void prefer_tab(struct config_findings *f, size_t before)
{
    if (f->count < before + 2 || strcmp(f->items[f->count - 1].id, "tab") != 0) {
        return;
    }
    struct config_finding *earlier = &f->items[f->count - 2];
    struct config_finding *tab = &f->items[f->count - 1];
    if (strcmp(earlier->id, "not-yaml") == 0 && earlier->line >= tab->line) {
        struct config_findings dropped = {.count = 1};
        dropped.items[0] = *earlier;
        *earlier = *tab;
        f->count--;
        config_findings_done(&dropped);
    }
}

static bool check_bytes(const char *place, const char *data, size_t len, struct config_findings *findings)
{
    if (len > YAML_BYTES_MAX) {
        AUTO_FREE char *limit = xasprintf("at most %zu bytes", YAML_BYTES_MAX);
        config_findings_add(findings, "too-large", place, 0, 0, limit, NULL, "move data out of the config into files",
                            "the file has %zu bytes", len);
        return false;
    }
    if (utf8_valid(data, len)) {
        return true;
    }
    int line = 1;
    int column = 1;
    for (size_t at = 0; at < len; column++) {
        uint32_t c;
        size_t n = utf8_decode(data + at, len - at, &c);
        if (n == 0) {
            break;
        }
        if (c == '\n') {
            line++;
            column = 0;
        }
        at += n;
    }
    config_findings_add(findings, "not-utf8", place, line, column, "UTF-8", NULL, "save the file as UTF-8",
                        "bytes that are not UTF-8");
    return false;
}

int yaml_tree_parse(const char *place, const char *data, size_t len, unsigned flags, struct yaml_node **ret_root,
                    struct config_findings *findings, struct orch_err *err)
{
    if (len >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0) {
        data += 3;
        len -= 3;
    }
    size_t before = findings->count + findings->dropped;
    if (!check_bytes(place, data, len, findings)) {
        return config_findings_result(findings, err);
    }
    struct reading r = {.place = place, .flags = flags, .findings = findings};
    for (size_t i = 0; i < len; i++) {
        r.lines += data[i] == '\n';
    }
    r.lines += 2;
    r.inside = xcalloc(r.lines / 8 + 1, 1);
    if ((flags & YAML_ANCHORS) != 0) {
        r.anchors = map_new();
    }
    if (!yaml_parser_initialize(&r.parser)) {
        abort(); /* only out of memory */
    }
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)data, len);
    AUTO_YAML struct yaml_node *root = read_stream(&r);
    yaml_parser_delete(&r.parser);
    check_tabs(&r, data, len);
    prefer_tab(findings, before);
    free(r.inside);
    map_free(r.anchors);
    if (findings->count + findings->dropped > before) {
        return config_findings_result(findings, err);
    }
    *ret_root = take(root);
    return 0;
}

/* --- writing one scalar --- */

static bool reads_back_plain(const char *text)
{
    static const char *const words[] = {"true", "false", "yes", "no", "on", "off", "y", "n"};
    bool digit = text[0] >= '0' && text[0] <= '9';
    /* "10m" and "1GiB" are text to every reader; 0x1f, 1e3, 0b1 are numbers to some. */
    bool unit = digit && strpbrk(text, "dhmsunKMGTi") != NULL && strpbrk(text, "eExXoOb_") == NULL;
    if (is_null_text(text) || text[0] == '-' || text[0] == '.' || (digit && !unit)) {
        return false;
    }
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (strcasecmp(text, words[i]) == 0) {
            return false;
        }
    }
    for (const char *c = text; *c != '\0'; c++) {
        bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9');
        if (!letter && strchr("_-./+", *c) == NULL) {
            return false;
        }
    }
    return true;
}

char *yaml_scalar_text(const char *text)
{
    if (reads_back_plain(text)) {
        return xstrdup(text);
    }
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_TEXT);
    buf_char(&b, '"');
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') {
            buf_char(&b, '\\');
            buf_char(&b, *c);
        } else if (*c == '\n') {
            buf_str(&b, "\\n");
        } else if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            buf_fmt(&b, "\\x%02X", (unsigned)(unsigned char)*c);
        } else {
            buf_char(&b, *c);
        }
    }
    buf_char(&b, '"');
    return buf_take(&b, NULL);
}
