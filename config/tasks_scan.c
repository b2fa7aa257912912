/* SPDX-License-Identifier: Apache-2.0 */
#include "config/tasks_scan.h"

#include "base/mem.h"

#include <jansson.h>
#include <string.h>

bool tasks_scan_valid(const char *text, size_t len, const char *place, int line, struct config_findings *findings)
{
    json_error_t error;
    /* Whole numbers beyond 64 bits are fine: only their text is used. */
    json_t *value = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL | JSON_DECODE_ANY, &error);
    if (value == NULL) {
        bool repeated = strncmp(error.text, "duplicate", 9) == 0;
        config_findings_add(findings, repeated ? "duplicate-key" : "not-json", place, line, error.column,
                            repeated ? "each key once" : "one JSON object a line", NULL,
                            repeated ? "keep one of the two" : "check quotes, commas and braces; NaN is not JSON",
                            "not JSON: %s", error.text);
        return false;
    }
    bool object = json_is_object(value);
    json_decref(value);
    if (!object) {
        config_findings_add(findings, "wrong-type", place, line, 1, "one JSON object a line", NULL,
                            "write {\"id\": \"…\", …}", "the row is not an object");
    }
    return object;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static size_t skip_space(const char *text, size_t len, size_t at)
{
    while (at < len && is_space(text[at])) {
        at++;
    }
    return at;
}

/* `at` is on the opening quote; returns the place behind the closing one. */
static size_t skip_string(const char *text, size_t len, size_t at)
{
    for (at++; at < len && text[at] != '"'; at++) {
        at += text[at] == '\\';
    }
    return at < len ? at + 1 : len;
}

static size_t skip_value(const char *text, size_t len, size_t at)
{
    size_t depth = 0;
    while (at < len) {
        char c = text[at];
        if (c == '"') {
            at = skip_string(text, len, at);
            if (depth == 0) {
                return at;
            }
            continue;
        }
        if (c == '{' || c == '[') {
            depth++;
        } else if (c == '}' || c == ']') {
            if (depth == 0) {
                return at;
            }
            depth--;
            if (depth == 0) {
                return at + 1;
            }
        } else if (depth == 0 && (c == ',' || is_space(c))) {
            return at;
        }
        at++;
    }
    return at;
}

bool tasks_scan_next(const char *text, size_t len, size_t *at, struct tasks_member *ret)
{
    size_t i = skip_space(text, len, *at);
    if (i < len && (text[i] == '{' || text[i] == ',')) {
        i = skip_space(text, len, i + 1);
    }
    if (i >= len || text[i] != '"') {
        return false;
    }
    ret->key = text + i;
    i = skip_string(text, len, i);
    ret->key_len = (size_t)(text + i - ret->key);
    i = skip_space(text, len, i);
    i = skip_space(text, len, i + 1); /* the colon */
    if (i >= len) {
        return false;
    }
    ret->value = text + i;
    i = skip_value(text, len, i);
    ret->value_len = (size_t)(text + i - ret->value);
    *at = i;
    return true;
}

char *tasks_scan_text(const char *value, size_t len)
{
    if (len < 2 || value[0] != '"') {
        return NULL;
    }
    if (memchr(value, '\\', len) == NULL) {
        return xmemdup0(value + 1, len - 2);
    }
    json_t *text = json_loadb(value, len, JSON_DECODE_ANY, NULL);
    char *copy = json_is_string(text) ? xstrdup(json_string_value(text)) : NULL;
    json_decref(text);
    return copy;
}

bool tasks_scan_key_is(const struct tasks_member *member, const char *key)
{
    AUTO_FREE char *text = tasks_scan_text(member->key, member->key_len);
    return text != NULL && strcmp(text, key) == 0;
}
