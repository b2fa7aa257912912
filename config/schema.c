/* SPDX-License-Identifier: Apache-2.0 */
#include "config/schema.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "config/units.h"

#include <stdio.h>
#include <string.h>

#define KEY_MAX 512

const char *config_type_words(enum config_type type)
{
    static const char *const words[] = {
#define X(name, text) [CONFIG_##name] = (text),
        CONFIG_TYPE_TABLE(X)
#undef X
    };
    return words[type];
}

/* "key" is beneath "group" ("" is above everything); returns what follows, or NULL. */
static const char *beneath(const char *key, const char *group)
{
    size_t len = strlen(group);
    if (len == 0) {
        return key;
    }
    return strncmp(key, group, len) == 0 && key[len] == '.' ? key + len + 1 : NULL;
}

bool config_is_group(const struct config_table *table, const char *key)
{
    for (size_t i = 0; i < table->row_count; i++) {
        if (beneath(table->rows[i].key, key) != NULL) {
            return true;
        }
    }
    return false;
}

const struct config_row *config_shorthand(const struct config_table *table, const char *group)
{
    for (size_t i = 0; i < table->row_count; i++) {
        const char *rest = beneath(table->rows[i].key, group);
        if (rest != NULL && strchr(rest, '.') == NULL && (table->rows[i].flags & CONFIG_SHORTHAND) != 0) {
            return &table->rows[i];
        }
    }
    return NULL;
}

char **config_children(const struct config_table *table, const char *group)
{
    char **list = NULL;
    for (size_t i = 0; i < table->row_count; i++) {
        const char *rest = beneath(table->rows[i].key, group);
        if (rest == NULL || (table->rows[i].flags & CONFIG_TEST_ONLY) != 0) {
            continue;
        }
        AUTO_FREE char *word = xmemdup0(rest, strcspn(rest, "."));
        bool known = false;
        for (size_t k = 0; list != NULL && list[k] != NULL; k++) {
            known = known || strcmp(list[k], word) == 0;
        }
        if (!known) {
            list = strv_append(list, take(word));
        }
    }
    return list;
}

static const struct config_row *find_in_element(const struct config_row *row, const char *rest);

/* `index_free` is the key without "[3]" places. */
static const struct config_row *find_row(const struct config_table *table, const char *key)
{
    for (size_t i = 0; i < table->row_count; i++) {
        const struct config_row *row = &table->rows[i];
        if (strcmp(row->key, key) == 0) {
            return row;
        }
        const char *rest = beneath(key, row->key);
        if (rest != NULL && row->element != NULL) {
            return find_in_element(row, rest);
        }
        if (rest != NULL && row->type == CONFIG_JSON) {
            return row;
        }
    }
    return NULL;
}

static const struct config_row *find_in_element(const struct config_row *row, const char *rest)
{
    const struct config_row *found = NULL;
    if (row->type == CONFIG_MAPS) {
        return find_row(row->element, rest);
    }
    /* A name may hold points: the first split that leaves a known key wins. */
    for (const char *dot = strchr(rest, '.'); dot != NULL && found == NULL; dot = strchr(dot + 1, '.')) {
        found = find_row(row->element, dot + 1);
    }
    return found == NULL && strchr(rest, '.') == NULL ? row : found;
}

const struct config_row *config_row_find(const struct config_table *table, const char *key)
{
    char plain[KEY_MAX];
    size_t n = 0;
    for (const char *c = key; *c != '\0' && n + 1 < sizeof(plain); c++) {
        if (*c == '[') {
            c += strcspn(c, "]");
            if (*c == '\0') {
                break;
            }
            continue;
        }
        plain[n++] = *c;
    }
    plain[n] = '\0';
    return find_row(table, plain);
}

static int tolerance(const char *word)
{
    size_t len = strlen(word);
    return len <= 3 ? 1 : len <= 7 ? 2 : 3;
}

static const char *last_word(const char *key)
{
    const char *dot = strrchr(key, '.');
    return dot == NULL ? key : dot + 1;
}

/* Length of the part of `row_key` that has as many words as `key`. */
static size_t same_depth(const char *row_key, const char *key)
{
    size_t words = 1;
    for (const char *c = key; *c != '\0'; c++) {
        words += *c == '.';
    }
    size_t n = 0;
    while (row_key[n] != '\0' && (row_key[n] != '.' || --words > 0)) {
        n++;
    }
    return n;
}

static int score_sibling(const struct config_row *row, const char *key, size_t *ret_len)
{
    size_t n = same_depth(row->key, key);
    char text[KEY_MAX];
    snprintf(text, sizeof(text), "%.*s", (int)n, row->key);
    const char *word = last_word(key);
    const char *other = last_word(text);
    size_t prefix = (size_t)(word - key);
    *ret_len = n;
    if ((size_t)(other - text) != prefix || strncmp(text, key, prefix) != 0) {
        return KEY_MAX;
    }
    return units_distance(word, other, tolerance(word));
}

char *config_nearest(const struct config_table *table, const char *key)
{
    const char *word = last_word(key);
    int best_score = tolerance(word) + 1;
    const char *best = NULL;
    size_t best_len = 0;
    for (size_t i = 0; i < table->row_count; i++) {
        size_t len;
        int score = score_sibling(&table->rows[i], key, &len);
        if (score < best_score && (table->rows[i].flags & CONFIG_TEST_ONLY) == 0) {
            best_score = score;
            best = table->rows[i].key;
            best_len = len;
        }
    }
    for (size_t i = 0; best == NULL && i < table->row_count; i++) {
        best = strcmp(last_word(table->rows[i].key), word) == 0 ? table->rows[i].key : NULL;
        best_len = best == NULL ? 0 : strlen(best);
    }
    for (size_t i = 0; best == NULL && i < table->row_count; i++) {
        best = units_distance(key, table->rows[i].key, tolerance(key)) <= tolerance(key) ? table->rows[i].key : NULL;
        best_len = best == NULL ? 0 : strlen(best);
    }
    return best == NULL ? NULL : xmemdup0(best, best_len);
}

static void add_range(struct buf *b, const struct config_row *row)
{
    char low[UNITS_TEXT_MAX];
    char high[UNITS_TEXT_MAX];
    if (row->min == 0 && row->max == 0) {
        return;
    }
    if (row->type == CONFIG_DURATION) {
        units_duration_text((int64_t)(row->min * 1e9), low);
        units_duration_text((int64_t)(row->max * 1e9), high);
    } else if (row->type == CONFIG_SIZE) {
        units_size_text((int64_t)row->min, low);
        units_size_text((int64_t)row->max, high);
    } else {
        snprintf(low, sizeof(low), "%.17g", row->min);
        snprintf(high, sizeof(high), "%.17g", row->max);
    }
    if (row->min >= row->max) {
        buf_fmt(b, ", %s", low);
    } else {
        bool unit = row->type == CONFIG_DURATION || row->type == CONFIG_SIZE;
        buf_fmt(b, "%s from %s to %s", unit ? "," : "", low, high);
    }
}

char *config_row_expected(const struct config_row *row)
{
    static const char *const words[CONFIG_TYPE_COUNT] = {
        [CONFIG_TEXT] = "text",
        [CONFIG_NAME] = "a name: a-z or 0-9, then also . _ -, at most 63 characters",
        [CONFIG_VARIABLE] = "the name of an environment variable, such as OPENAI_API_KEY",
        [CONFIG_URL] = "a URL that starts with https:// or http://",
        [CONFIG_PATH] = "a path",
        [CONFIG_ENUM] = "one of ",
        [CONFIG_FLAG] = "true or false",
        [CONFIG_INT] = "a whole number",
        [CONFIG_NUMBER] = "a number",
        [CONFIG_DURATION] = "a duration such as 10m, 1m30s or 0.5s",
        [CONFIG_SIZE] = "a size such as 512MiB or 1.5GiB",
        [CONFIG_TEXTS] = "a list of texts, such as [a, b]",
        [CONFIG_PATHS] = "a list of paths, such as [a/, b.txt]",
        [CONFIG_INNER_PATHS] = "a list of relative paths without `..`, such as [src/, notes.txt]",
        [CONFIG_VARIABLES] = "a list of variable names or patterns, such as [LANG, \"APP_*\"]",
        [CONFIG_HOSTS] = "a list of hosts, such as [pypi.org, \"*.example.com:443\"]",
        [CONFIG_ENUMS] = "a list of ",
        [CONFIG_COMMAND] = "a command as a list, such as [./program, --option]",
        [CONFIG_JSON] = "a map",
        [CONFIG_MAPS] = "a list of maps",
        [CONFIG_NAMED] = "a map of names",
    };
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_LINE);
    buf_str(&b, words[row->type]);
    for (size_t i = 0; row->values != NULL && row->values[i] != NULL; i++) {
        buf_fmt(&b, "%s%s", i == 0 ? "" : ", ", row->values[i]);
    }
    add_range(&b, row);
    if ((row->flags & CONFIG_NULLABLE) != 0) {
        buf_str(&b, ", or null");
    }
    return buf_take(&b, NULL);
}
