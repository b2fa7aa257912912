/* SPDX-License-Identifier: Apache-2.0 */
/* Editing a config's text in place: only the bytes of one value change. */
#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/utf8.h"
#include "config/config_read.h"
#include "config/operator.h"
#include "config/schema.h"
#include "config/yaml.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY_DEPTH_MAX 8
#define VALUE_MAX 4096

struct edit {
    const char *text; /* without a BOM */
    size_t len;
    const char *newline; /* as the file has it */
};

/* Byte of a mark: marks count characters. */
static size_t offset_of(const struct edit *e, int line, int column)
{
    size_t at = 0;
    for (int n = 1; n < line && at < e->len; n++) {
        const char *end = memchr(e->text + at, '\n', e->len - at);
        at = end == NULL ? e->len : (size_t)(end - e->text) + 1;
    }
    for (int n = 1; n < column && at < e->len; n++) {
        uint32_t c;
        size_t step = utf8_decode(e->text + at, e->len - at, &c);
        at += step == 0 ? 1 : step;
    }
    return at;
}

/* Start of the line after the one that holds `at`; the end of the text when it is the last. */
static size_t next_line(const struct edit *e, size_t at)
{
    const char *end = at < e->len ? memchr(e->text + at, '\n', e->len - at) : NULL;
    return end == NULL ? e->len : (size_t)(end - e->text) + 1;
}

static void add_nested(struct buf *b, const struct edit *e, char *const *words, size_t count, int indent,
                       const char *value)
{
    for (size_t i = 0; i < count; i++) {
        buf_fmt(b, "%*s%s:", indent + 2 * (int)i, "", words[i]);
        if (i + 1 == count) {
            buf_fmt(b, " %s", value);
        }
        buf_str(b, e->newline);
    }
}

/* Inserts whole lines before `at`; gives the line above an end if it has none. */
static void insert_lines(struct buf *b, const struct edit *e, size_t at, char *const *words, size_t count, int indent,
                         const char *value)
{
    buf_add(b, e->text, at);
    if (at > 0 && e->text[at - 1] != '\n') {
        buf_str(b, e->newline);
    }
    add_nested(b, e, words, count, indent, value);
    buf_add(b, e->text + at, e->len - at);
}

static void add_flow_nested(struct buf *b, char *const *words, size_t count, const char *value)
{
    for (size_t i = 0; i < count; i++) {
        buf_fmt(b, "%s%s: ", i == 0 ? "" : "{", words[i]);
    }
    buf_str(b, value);
    for (size_t i = 1; i < count; i++) {
        buf_char(b, '}');
    }
}

static void replace_value(struct buf *b, const struct edit *e, const struct yaml_node *old, const char *value)
{
    size_t start = offset_of(e, old->line, old->column);
    size_t end = offset_of(e, old->end_line, old->end_column);
    if (old->kind != YAML_SCALAR && !old->flow) { /* a block: its value moves up to the key's line */
        while (start > 0 && strchr(" \r\n", e->text[start - 1]) != NULL) {
            start--;
        }
    }
    while (end > start && strchr("\r\n", e->text[end - 1]) != NULL) { /* a block text ends on the line after it */
        end--;
    }
    buf_add(b, e->text, start);
    if (start > 0 && e->text[start - 1] == ':') {
        buf_char(b, ' ');
    }
    buf_str(b, value);
    buf_add(b, e->text + end, e->len - end);
}

/* `map` holds the first of `words` no yet. */
static void insert_key(struct buf *b, const struct edit *e, const struct yaml_node *map, char *const *words,
                       size_t count, const char *value)
{
    if (map->flow) {
        size_t close = offset_of(e, map->end_line, map->end_column) - 1;
        size_t last = close;
        while (last > 0 && (e->text[last - 1] == ' ' || e->text[last - 1] == ',')) {
            last--;
        }
        buf_add(b, e->text, last);
        buf_str(b, map->count > 0 ? ", " : "");
        add_flow_nested(b, words, count, value);
        buf_add(b, e->text + close, e->len - close);
        return;
    }
    if (map->count == 0) { /* an empty text */
        insert_lines(b, e, e->len, words, count, 0, value);
        return;
    }
    const struct yaml_node *last = map->items[map->count - 1];
    size_t end = offset_of(e, last->end_line, last->end_column);
    bool at_line = end > 0 && e->text[end - 1] == '\n'; /* a block text ends where the next line begins */
    insert_lines(b, e, at_line ? end : next_line(e, end), words, count, map->key_columns[0] - 1, value);
}

/* A group that is there but empty ("confinement:"). */
static void fill_empty(struct buf *b, const struct edit *e, const struct yaml_node *parent, const char *word,
                       const struct yaml_node *empty, char *const *words, size_t count, const char *value)
{
    size_t i = 0;
    while (strcmp(parent->keys[i], word) != 0) {
        i++;
    }
    if (parent->flow) {
        size_t at = offset_of(e, empty->line, empty->column);
        size_t end = offset_of(e, empty->end_line, empty->end_column);
        buf_add(b, e->text, at);
        buf_str(b, " {");
        add_flow_nested(b, words, count, value);
        buf_char(b, '}');
        buf_add(b, e->text + end, e->len - end);
        return;
    }
    size_t start = offset_of(e, empty->line, empty->column);
    size_t end = offset_of(e, empty->end_line, empty->end_column);
    size_t line = next_line(e, offset_of(e, parent->key_lines[i], parent->key_columns[i]));
    if (end > start && start < line) { /* a written null goes away, with the space before it */
        while (start > 0 && e->text[start - 1] == ' ') {
            start--;
        }
    } else {
        end = start = line;
    }
    if (end > line) {
        end = line;
    }
    buf_add(b, e->text, start);
    buf_add(b, e->text + end, line - end);
    if (line > 0 && e->text[line - 1] != '\n') {
        buf_str(b, e->newline);
    }
    add_nested(b, e, words, count, parent->key_columns[i] - 1 + 2, value);
    buf_add(b, e->text + line, e->len - line);
}

static int edit_tree(struct buf *b, const struct edit *e, const struct yaml_node *root, char *const *words,
                     const char *value, struct orch_err *err)
{
    const struct yaml_node *map = root;
    size_t count = strv_len(words);
    for (size_t i = 0; i < count; i++) {
        const struct yaml_node *next = yaml_node_get(map, words[i]);
        if (next == NULL) {
            insert_key(b, e, map, words + i, count - i, value);
            return 0;
        }
        if (i + 1 == count) {
            replace_value(b, e, next, value);
            return 0;
        }
        if (yaml_node_is_null(next)) {
            fill_empty(b, e, map, words[i], next, words + i + 1, count - i - 1, value);
            return 0;
        }
        if (next->kind != YAML_MAP) {
            return err_set(err, ORCH_E_CONFIG, "`%s` is not a map in the file: correct it first", words[i]);
        }
        map = next;
    }
    return 0;
}

/* --- checks --- */

static bool same_tree(const struct yaml_node *a, const struct yaml_node *b)
{
    if (a == NULL || b == NULL || a->kind != b->kind || a->count != b->count) {
        return a == b;
    }
    if (a->kind == YAML_SCALAR) {
        return a->plain == b->plain && strcmp(a->text, b->text) == 0;
    }
    for (size_t i = 0; i < a->count; i++) {
        bool same_key = a->kind != YAML_MAP || strcmp(a->keys[i], b->keys[i]) == 0;
        if (!same_key || !same_tree(a->items[i], b->items[i])) {
            return false;
        }
    }
    return true;
}

static void set_in_tree(struct yaml_node *root, char *const *words, struct yaml_node *value)
{
    struct yaml_node *map = root;
    for (size_t i = 0; words[i + 1] != NULL; i++) {
        struct yaml_node *next = yaml_node_get(map, words[i]);
        if (next == NULL || next->kind != YAML_MAP) {
            next = yaml_node_map("edit", 0, 0);
            yaml_node_set(map, words[i], 0, 0, next);
        }
        map = next;
    }
    yaml_node_set(map, words[strv_len(words) - 1], 0, 0, value);
}

static int parse(const char *place, const char *text, size_t len, struct yaml_node **ret, struct orch_err *err)
{
    AUTO_FINDINGS struct config_findings findings = {.count = 0};
    return yaml_tree_parse(place, text, len, 0, ret, &findings, err);
}

/* NULL when it is no key. Owned by the caller. */
static char **split_words(const char *key)
{
    char **words = xcalloc(1, sizeof(*words));
    for (const char *at = key; *at != '\0';) {
        size_t len = strcspn(at, ".");
        words = strv_append(words, xmemdup0(at, len));
        at += len + (at[len] == '.');
    }
    bool good = strv_len(words) > 0 && strv_len(words) <= KEY_DEPTH_MAX &&
                key[strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")] == '\0';
    for (size_t i = 0; i < strv_len(words); i++) {
        good = good && words[i][0] != '\0';
    }
    if (!good) {
        strv_free(words);
        return NULL;
    }
    return words;
}

/* The new text must differ from the old one in this one key and nothing else. */
static int check_edit(const struct buf *b, size_t skip, const struct yaml_node *expected, struct orch_err *err)
{
    AUTO_YAML struct yaml_node *after = NULL;
    if (parse("edited text", b->data + skip, b->len - skip, &after, err) < 0) {
        return err_wrap(err, "the edit would break the file; change it by hand");
    }
    if (!same_tree(after, expected)) {
        return err_set(err, ORCH_E_INTERNAL, "the edit would change more than one key; change the file by hand");
    }
    return 0;
}

int operator_edit(const char *text, size_t len, const char *key, const char *value, char **ret_text,
                  struct orch_err *err)
{
    AUTO_STRV char **words = split_words(key);
    AUTO_YAML struct yaml_node *root = NULL;
    AUTO_YAML struct yaml_node *new_value = NULL;
    size_t skip = len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    struct edit e = {.text = text + skip, .len = len - skip, .newline = "\n"};
    const char *first = memchr(text, '\n', len);
    if (first != NULL && first > text && first[-1] == '\r') {
        e.newline = "\r\n";
    }
    if (words == NULL) {
        return err_set(err, ORCH_E_CONFIG, "`%s` is not a key", key);
    }
    TRY(parse("the file", e.text, e.len, &root, err));
    if (strlen(value) > VALUE_MAX || strpbrk(value, "\r\n") != NULL) {
        return err_set(err, ORCH_E_CONFIG, "`%s`: the value must be one line of at most %d bytes", key, VALUE_MAX);
    }
    TRY(parse("the value", value, strlen(value), &new_value, err));
    if (root->kind != YAML_MAP || (new_value->kind == YAML_MAP && !new_value->flow) ||
        (new_value->kind == YAML_LIST && !new_value->flow)) {
        return err_set(err, ORCH_E_CONFIG, "`%s`: %s", key,
                       root->kind != YAML_MAP ? "the file is not a map" : "write lists and maps in brackets");
    }
    AUTO_BUF struct buf b;
    buf_init(&b, YAML_BYTES_MAX);
    buf_add(&b, text, skip);
    TRY(edit_tree(&b, &e, root, words, value, err));
    if (b.overflow) {
        return err_set(err, ORCH_E_LIMIT, "the file would be larger than %zu bytes", YAML_BYTES_MAX);
    }
    set_in_tree(root, words, take(new_value));
    TRY(check_edit(&b, skip, root, err));
    *ret_text = buf_take(&b, NULL);
    return 0;
}

/* --- the file --- */

static int check_text(const char *file, const char *text, struct config_findings *findings, struct orch_err *err)
{
    AUTO_YAML struct yaml_node *tree = NULL;
    AUTO_FREE char *dir = path_dir(file);
    TRY(yaml_tree_parse(file, text, strlen(text), 0, &tree, findings, err));
    struct operator_config *alone = xcalloc(1, sizeof(*alone));
    config_read(config_operator_table(), alone, tree, file, dir, true, findings);
    operator_free(alone);
    return config_findings_result(findings, err);
}

/* Beside the file, then over it: a reader sees the old or the new text, never half of one. */
static int replace_file(const char *file, const char *text, mode_t mode, struct orch_err *err)
{
    AUTO_FREE char *dir = path_dir(file);
    AUTO_FREE char *temporary = xasprintf("%s/.orch-edit-XXXXXX", dir);
    AUTO_FD int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0) {
        return err_errno(err, ORCH_E_IO, "write beside %s", file);
    }
    int code = fd_write_all(fd, text, strlen(text), err);
    if (code == 0 && (fchmod(fd, mode) < 0 || fsync(fd) < 0 || rename(temporary, file) < 0)) {
        code = err_errno(err, ORCH_E_IO, "replace %s", file);
    }
    if (code < 0) {
        unlink(temporary);
        return err_wrap(err, "edit %s", file);
    }
    AUTO_FD int dirfd = fd_open(dir, O_RDONLY | O_DIRECTORY, 0, err);
    TRY(dirfd);
    return fsync(dirfd) < 0 ? err_errno(err, ORCH_E_IO, "sync %s", dir) : 0;
}

/* The file behind links; the name itself when it is not there, and then *ret_text is "". Both owned by the caller. */
static int read_old(const char *file, char **ret_real, char **ret_text, struct orch_err *err)
{
    AUTO_FREE char *real = NULL;
    size_t len = 0;
    int code = path_real(file, &real, err);
    if (code == ORCH_E_NOT_FOUND) {
        err_clear(err);
        *ret_real = xstrdup(file);
        *ret_text = xstrdup("");
        return 0;
    }
    TRY(code);
    TRY(fd_read_file(real, YAML_BYTES_MAX, ret_text, &len, err));
    *ret_real = take(real);
    return 0;
}

static int check_key(const char *key, struct orch_err *err)
{
    if (config_row_find(config_operator_table(), key) != NULL) {
        return 0;
    }
    AUTO_FREE char *near = config_nearest(config_operator_table(), key);
    return err_set(err, ORCH_E_NOT_FOUND, "the operator config has no key `%s`%s%s", key,
                   near == NULL ? "" : "; the nearest is ", near == NULL ? "" : near);
}

int operator_set_plan(const char *file, const struct operator_change *changes, size_t count, char **ret_old,
                      char **ret_new, struct config_findings *findings, struct orch_err *err)
{
    AUTO_FREE char *real = NULL;
    AUTO_FREE char *old = NULL;
    for (size_t i = 0; i < count; i++) {
        TRY(check_key(changes[i].key, err));
    }
    TRY(read_old(file, &real, &old, err));
    AUTO_FREE char *text = xstrdup(old);
    for (size_t i = 0; i < count; i++) {
        char *next = NULL;
        TRY(operator_edit(text, strlen(text), changes[i].key, changes[i].value, &next, err));
        if (next == NULL) {
            return err_set(err, ORCH_E_INTERNAL, "the edit of %s left no text", file);
        }
        free(text);
        text = next;
    }
    TRY(check_text(real, text, findings, err));
    *ret_old = take(old);
    *ret_new = take(text);
    return 0;
}

int operator_write(const char *file, const char *text, struct orch_err *err)
{
    AUTO_FREE char *real = NULL;
    AUTO_FREE char *old = NULL;
    struct stat st;
    TRY(read_old(file, &real, &old, err));
    mode_t mode = stat(real, &st) == 0 ? st.st_mode & 07777 : 0644;
    AUTO_FREE char *dir = path_dir(real);
    TRY(fd_mkdirs(dir, 0755, err));
    return replace_file(real, text, mode, err);
}

int operator_set(const char *file, const char *key, const char *value, struct config_findings *findings,
                 struct orch_err *err)
{
    AUTO_FREE char *old = NULL;
    AUTO_FREE char *text = NULL;
    const struct operator_change change = {key, value};
    TRY(operator_set_plan(file, &change, 1, &old, &text, findings, err));
    return operator_write(file, text, err);
}
