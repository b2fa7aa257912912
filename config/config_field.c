/* SPDX-License-Identifier: Apache-2.0 */
#include "config/config_field.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "config/config_read.h"
#include "config/units.h"

#include <string.h>

#define SHOWN_MAX 60
#define TEXT_VALUE_MAX 4096
#define LIST_MAX 4096

char *config_found(const struct yaml_node *node)
{
    if (yaml_node_is_null(node)) {
        return xstrdup("null");
    }
    if (node->kind != YAML_SCALAR) {
        return xstrdup(node->kind == YAML_LIST ? "a list" : "a map");
    }
    size_t len = strlen(node->text);
    return len <= SHOWN_MAX ? xasprintf("`%s`", node->text) : xasprintf("`%.*s…`", SHOWN_MAX, node->text);
}

static void wrong(const struct config_value_context *c, const struct yaml_node *node, const char *id, const char *why,
                  const char *nearest, const char *remedy)
{
    AUTO_FREE char *found = config_found(node);
    AUTO_FREE char *expected = config_row_expected(c->row);
    config_findings_add(c->findings, id, node->place, node->line, node->column, expected, nearest, remedy,
                        "`%s` is %s%s%s", c->shown, found, why == NULL ? "" : ": ", why == NULL ? "" : why);
}

/* The same without the value. */
static void hidden_wrong(const struct config_value_context *c, const struct yaml_node *node, const char *id,
                         const char *why, const char *remedy)
{
    AUTO_FREE char *expected = config_row_expected(c->row);
    config_findings_add(c->findings, id, node->place, node->line, node->column, expected, NULL, remedy,
                        "`%s` is %s (the value is not shown)", c->shown, why);
}

/* --- text --- */

static bool scalar_text(const struct config_value_context *c, const struct yaml_node *node)
{
    if (node->kind != YAML_SCALAR) {
        wrong(c, node, "wrong-type", NULL, NULL, "write one value");
        return false;
    }
    if (yaml_node_is_null(node)) {
        wrong(c, node, "wrong-type", NULL, NULL, "give it a value, or remove the key");
        return false;
    }
    if (config_reads_as_flag(node)) {
        AUTO_FREE char *remedy = xasprintf("quote it: \"%s\"", node->text);
        wrong(c, node, "unquoted", "without quotes this is a truth value to YAML", NULL, remedy);
        return false;
    }
    if (strlen(node->text) > TEXT_VALUE_MAX) {
        wrong(c, node, "too-long", "more than 4096 bytes", NULL, "shorten it, or keep it in a file");
        return false;
    }
    return true;
}

static char *retired_value(const struct config_value_context *c, const char *value)
{
    const struct config_retired *r = c->table == NULL ? NULL : config_retired_find(c->table, c->row->key, value);
    return r == NULL ? NULL : xstrdup(r->successor);
}

static int find_value(const struct config_row *row, const char *text)
{
    for (int i = 0; row->values[i] != NULL; i++) {
        if (strcmp(row->values[i], text) == 0) {
            return i;
        }
    }
    return -1;
}

static const char *near_value(const struct config_row *row, const char *text)
{
    const char *best = NULL;
    int best_score = 4;
    for (int i = 0; row->values[i] != NULL; i++) {
        int score = units_distance(text, row->values[i], 3);
        if (score < best_score && score < (int)strlen(row->values[i])) {
            best_score = score;
            best = row->values[i];
        }
    }
    return best;
}

/* Index of the word, or -1 after a finding. */
static int enum_value(const struct config_value_context *c, const struct yaml_node *node)
{
    if (node->kind != YAML_SCALAR || yaml_node_is_null(node)) {
        wrong(c, node, "wrong-type", NULL, NULL, "write one of the words");
        return -1;
    }
    int value = find_value(c->row, node->text);
    if (value >= 0) {
        return value;
    }
    AUTO_FREE char *successor = retired_value(c, node->text);
    if (successor != NULL) {
        wrong(c, node, "retired-value", "this value is retired", NULL, successor);
        return -1;
    }
    const char *near = near_value(c->row, node->text);
    AUTO_FREE char *remedy = near == NULL ? xstrdup("write one of the words") : xasprintf("write `%s`", near);
    wrong(c, node, "unknown-value", NULL, near, remedy);
    return -1;
}

/* A static text that says what is wrong with one text of this type, or NULL. */
static const char *text_fault(enum config_type type, const char *text, const char **ret_remedy)
{
    *ret_remedy = "choose another one";
    if (type == CONFIG_NAME && !units_is_name(text)) {
        *ret_remedy = "use small letters, digits, and . _ - only";
        return "not a name";
    }
    if (type == CONFIG_VARIABLES && !units_is_variable_pattern(text)) {
        *ret_remedy = "name the variables that are needed";
        return strspn(text, "*") == strlen(text) ? "this would pass every variable" : "not the name of a variable";
    }
    if (type == CONFIG_HOSTS && !units_is_host(text)) {
        *ret_remedy = "write the host name only, without https:// and path";
        return "not a host";
    }
    if (type == CONFIG_URL) {
        size_t head = strncmp(text, "https://", 8) == 0 ? 8 : strncmp(text, "http://", 7) == 0 ? 7 : 0;
        *ret_remedy = "write it in full, such as https://host/v1";
        if (head == 0 || text[head] == '\0' || text[head] == '/' || strpbrk(text, " \t\"<>\\^`{|}") != NULL) {
            return "not a URL";
        }
        if (memchr(text + head, '@', strcspn(text + head, "/?#")) != NULL) {
            *ret_remedy = "remove the part before @; a key belongs in a variable that `key` names";
            return "a URL with a user or password in it";
        }
        if (strpbrk(text, "?#") != NULL) {
            *ret_remedy = "remove what follows ? or #";
            return "a base URL has no query";
        }
    }
    for (const char *c = text; *c != '\0' && (type == CONFIG_TEXT || type == CONFIG_NAME); c++) {
        if ((unsigned char)*c < 0x20 && *c != '\n' && *c != '\t') {
            *ret_remedy = "remove it";
            return "a control character";
        }
    }
    return NULL;
}

static void set_text(const struct config_value_context *c, char **field, const struct yaml_node *node)
{
    const char *remedy;
    if (!scalar_text(c, node)) {
        return;
    }
    if (c->row->type == CONFIG_VARIABLE && !units_is_variable(node->text)) {
        /* What stands here by mistake may be the secret itself. */
        hidden_wrong(c, node, "not-a-variable", "not the name of a variable",
                     "put the secret into a variable and write the variable's name here");
        return;
    }
    const char *fault = text_fault(c->row->type, node->text, &remedy);
    if (fault != NULL && c->row->type == CONFIG_URL && strchr(node->text, '@') != NULL) {
        hidden_wrong(c, node, "bad-value", fault, remedy); /* there may be a password in it */
        return;
    }
    if (fault != NULL) {
        wrong(c, node, "bad-value", fault, NULL, remedy);
        return;
    }
    if (node->text[0] == '\0') {
        wrong(c, node, "bad-value", "it is empty", NULL, "give it a value, or remove the key");
        return;
    }
    free(*field);
    *field = xstrdup(node->text);
}

/* --- paths --- */

/* The remedy follows from what was wrong. */
static char *expanded(const struct config_value_context *c, const struct yaml_node *node)
{
    AUTO_FREE char *why = NULL;
    char *path = config_expand_path(c->dir, node->text, &why);
    if (path == NULL) {
        wrong(c, node, "bad-path", why, NULL,
              strstr(why, "variable") != NULL  ? "set the variable, or write the path out"
              : strstr(why, "control") != NULL ? "remove the character"
                                               : "write the path out");
    }
    return path;
}

static char *inner_path(const struct config_value_context *c, const struct yaml_node *node)
{
    AUTO_FREE char *text = xstrdup(node->text);
    size_t len = strlen(text);
    if (len > 1 && text[len - 1] == '/') {
        text[len - 1] = '\0';
    }
    const char *start = strncmp(text, "./", 2) == 0 ? text + 2 : text;
    if (!path_is_plain_relative(start)) {
        wrong(c, node, "bad-path", "not a plain relative path", NULL,
              "write it relative, without a leading / and without `..`");
        return NULL;
    }
    return xstrdup(start);
}

/* --- lists --- */

static char *list_item(const struct config_value_context *c, const struct yaml_node *node, size_t place)
{
    const char *remedy;
    enum config_type type = c->row->type;
    if (type == CONFIG_ENUMS) {
        return enum_value(c, node) < 0 ? NULL : xstrdup(node->text);
    }
    if (!scalar_text(c, node)) {
        return NULL;
    }
    if (type == CONFIG_PATHS) {
        return expanded(c, node);
    }
    if (type == CONFIG_INNER_PATHS) {
        return inner_path(c, node);
    }
    if (type == CONFIG_COMMAND && place == 0) {
        bool is_path = strchr(node->text, '/') != NULL || node->text[0] == '~' || node->text[0] == '$';
        if (node->text[0] == '\0') {
            wrong(c, node, "bad-value", "the program is empty", NULL, "name the program first");
            return NULL;
        }
        return is_path && (c->row->flags & CONFIG_INSIDE) == 0 ? expanded(c, node) : xstrdup(node->text);
    }
    const char *fault = text_fault(type, node->text, &remedy);
    if (fault != NULL && type == CONFIG_VARIABLES && strchr(node->text, '=') != NULL) {
        hidden_wrong(c, node, "bad-value", fault, "write the name only; the value comes from the environment");
        return NULL;
    }
    if (fault != NULL) {
        wrong(c, node, "bad-value", fault, NULL, remedy);
        return NULL;
    }
    return xstrdup(node->text);
}

static bool is_repeated(char *const *list, const char *item)
{
    for (size_t i = 0; i < strv_len(list); i++) {
        if (strcmp(list[i], item) == 0) {
            return true;
        }
    }
    return false;
}

/* "./solve --fast" was meant as [./solve, --fast]. */
static char *list_remedy(const struct config_value_context *c, const struct yaml_node *node)
{
    if (node->kind != YAML_SCALAR || yaml_node_is_null(node) || strlen(node->text) > SHOWN_MAX) {
        return xstrdup("write a list; [] is the empty one");
    }
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_LINE);
    buf_str(&b, "write a list: [");
    for (const char *t = node->text; *t != '\0'; t++) {
        buf_str(&b, *t == ' ' && c->row->type == CONFIG_COMMAND ? ", " : (char[]){*t, '\0'});
    }
    buf_char(&b, ']');
    return buf_take(&b, NULL);
}

static void set_list(const struct config_value_context *c, char ***field, const struct yaml_node *node)
{
    if (node->kind != YAML_LIST) {
        AUTO_FREE char *remedy = list_remedy(c, node);
        wrong(c, node, "wrong-type", "not a list", NULL, remedy);
        return;
    }
    if (node->count > LIST_MAX) {
        config_findings_add(c->findings, "too-long", node->place, node->line, node->column, "at most 4096 elements",
                            NULL, "keep long lists in a file", "`%s` has %zu elements", c->shown, node->count);
        return;
    }
    char **list = xcalloc(1, sizeof(*list));
    for (size_t i = 0; i < node->count; i++) {
        AUTO_FREE char *shown = xasprintf("%s[%zu]", c->shown, i);
        struct config_value_context item_context = *c;
        item_context.shown = shown;
        struct config_row row = *c->row;
        row.flags &= ~(unsigned)CONFIG_NULLABLE;
        item_context.row = &row;
        char *item = list_item(&item_context, node->items[i], i);
        if (item != NULL && c->row->type != CONFIG_COMMAND && is_repeated(list, item)) {
            config_findings_add(c->findings, "repeated-value", node->items[i]->place, node->items[i]->line,
                                node->items[i]->column, "each value once", NULL, "remove one of them",
                                "`%s` repeats `%s`", c->shown, node->items[i]->text);
            free(item);
            item = NULL;
        }
        if (item != NULL) {
            list = strv_append(list, item);
        }
    }
    strv_free(*field);
    *field = list;
}

/* --- numbers --- */

static bool in_range(const struct config_value_context *c, const struct yaml_node *node, double value)
{
    if ((c->row->min == 0 && c->row->max == 0) || (value >= c->row->min && value <= c->row->max)) {
        return true;
    }
    wrong(c, node, "out-of-range", value < c->row->min ? "too small" : "too large", NULL,
          c->row->min >= c->row->max ? "write the value that is expected" : "choose a value in the range");
    return false;
}

static bool plain_number(const struct config_value_context *c, const struct yaml_node *node)
{
    if (node->kind != YAML_SCALAR || yaml_node_is_null(node)) {
        wrong(c, node, "wrong-type", NULL, NULL, "write a number");
        return false;
    }
    if (!node->plain) {
        wrong(c, node, "wrong-type", "in quotes it is text", NULL, "remove the quotes");
        return false;
    }
    return true;
}

static void set_int(const struct config_value_context *c, int64_t *field, const struct yaml_node *node)
{
    int64_t value;
    if (!plain_number(c, node)) {
        return;
    }
    const char *fault = units_int(node->text, &value);
    if (fault != NULL) {
        wrong(c, node, "bad-number", fault, NULL, "write a plain decimal number, such as 8");
    } else if (in_range(c, node, (double)value)) {
        *field = value;
    }
}

static void set_number(const struct config_value_context *c, double *field, const struct yaml_node *node)
{
    double value;
    if (!plain_number(c, node)) {
        return;
    }
    const char *fault = units_number(node->text, &value);
    if (fault != NULL) {
        wrong(c, node, "bad-number", fault, NULL, "write a plain decimal number, such as 0.5");
    } else if (in_range(c, node, value)) {
        *field = value;
    }
}

static char *unit_remedy(const struct config_value_context *c, const char *text)
{
    int64_t bare;
    bool size = c->row->type == CONFIG_SIZE;
    if (strchr(text, ' ') != NULL) {
        return xstrdup(size ? "write it without a space, such as 40GB" : "write it without a space, such as 10m");
    }
    if (units_int(text, &bare) == NULL && bare >= 0) {
        return size ? xasprintf("write the unit: `%sMiB` or `%sGiB`", text, text)
                    : xasprintf("write the unit: `%ss` or `%sm`", text, text);
    }
    return xstrdup(size ? "write it such as 512MiB" : "write it such as 1m30s");
}

static void set_unit(const struct config_value_context *c, int64_t *field, const struct yaml_node *node)
{
    int64_t value;
    if (node->kind != YAML_SCALAR || yaml_node_is_null(node)) {
        wrong(c, node, "wrong-type", NULL, NULL, "write a number with its unit");
        return;
    }
    bool size = c->row->type == CONFIG_SIZE;
    const char *fault = size ? units_size(node->text, &value) : units_duration(node->text, &value);
    if (fault != NULL) {
        AUTO_FREE char *remedy = unit_remedy(c, node->text);
        wrong(c, node, "bad-unit", fault, NULL, remedy);
    } else if (in_range(c, node, size ? (double)value : (double)value / 1e9)) {
        *field = value;
    }
}

static void set_flag(const struct config_value_context *c, bool *field, const struct yaml_node *node)
{
    bool yes = node->kind == YAML_SCALAR && strcmp(node->text, "true") == 0;
    bool no = node->kind == YAML_SCALAR && strcmp(node->text, "false") == 0;
    if ((yes || no) && node->plain) {
        *field = yes;
    } else if (yes || no) {
        wrong(c, node, "wrong-type", "in quotes it is text", NULL, "remove the quotes");
    } else {
        static const char *const for_true[] = {"true", "yes", "on", "y", "1"};
        static const char *const for_false[] = {"false", "no", "off", "n", "0"};
        const char *remedy = "write true or false";
        if (node->kind == YAML_SCALAR && config_is_word(node->text, for_true, ARRAY_LEN(for_true))) {
            remedy = "write true";
        } else if (node->kind == YAML_SCALAR && config_is_word(node->text, for_false, ARRAY_LEN(for_false))) {
            remedy = "write false";
        }
        wrong(c, node, "wrong-type", NULL, NULL, remedy);
    }
}

/* --- any value --- */

static void set_json(const struct config_value_context *c, json_t **field, const struct yaml_node *node)
{
    if (node->kind != YAML_MAP && !yaml_node_is_null(node)) {
        wrong(c, node, "wrong-type", NULL, NULL, "write its keys beneath it, indented; {} is the empty map");
        return;
    }
    json_release(field);
    *field = node->kind == YAML_MAP ? config_json_node(node, c->shown, c->findings) : json_object();
}

static void set_path(const struct config_value_context *c, char **field, const struct yaml_node *node)
{
    if (!scalar_text(c, node)) {
        return;
    }
    char *path = expanded(c, node);
    if (path != NULL) {
        free(*field);
        *field = path;
    }
}

static void set_enum(const struct config_value_context *c, int *field, const struct yaml_node *node)
{
    int value = enum_value(c, node);
    if (value >= 0) {
        *field = value;
    }
}

void config_field_set(const struct config_value_context *c, void *field, const struct yaml_node *node)
{
    if (yaml_node_is_null(node) && (c->row->flags & CONFIG_NULLABLE) != 0) {
        config_field_clear(c->row, field);
        config_field_null(c->row, field);
        return;
    }
    switch (c->row->type) {
    case CONFIG_TEXT:
    case CONFIG_NAME:
    case CONFIG_VARIABLE:
    case CONFIG_URL:
        set_text(c, field, node);
        return;
    case CONFIG_PATH:
        set_path(c, field, node);
        return;
    case CONFIG_ENUM:
        set_enum(c, field, node);
        return;
    case CONFIG_FLAG:
        set_flag(c, field, node);
        return;
    case CONFIG_INT:
        set_int(c, field, node);
        return;
    case CONFIG_NUMBER:
        set_number(c, field, node);
        return;
    case CONFIG_DURATION:
    case CONFIG_SIZE:
        set_unit(c, field, node);
        return;
    case CONFIG_TEXTS:
    case CONFIG_PATHS:
    case CONFIG_INNER_PATHS:
    case CONFIG_VARIABLES:
    case CONFIG_HOSTS:
    case CONFIG_ENUMS:
    case CONFIG_COMMAND:
        set_list(c, field, node);
        return;
    case CONFIG_JSON:
        set_json(c, field, node);
        return;
    case CONFIG_MAPS:
    case CONFIG_NAMED:
    case CONFIG_TYPE_COUNT:
        return; /* read by the engine, element by element */
    }
}
