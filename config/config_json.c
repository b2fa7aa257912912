/* SPDX-License-Identifier: Apache-2.0 */
/* Free-form values: YAML's core rules, and a refusal wherever two readers would differ. */
#include "base/json.h"
#include "base/mem.h"
#include "config/config_field.h"
#include "config/config_read.h"
#include "config/units.h"

#include <string.h>

bool config_is_word(const char *text, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcasecmp(text, words[i]) == 0) {
            return true;
        }
    }
    return false;
}

bool config_reads_as_flag(const struct yaml_node *node)
{
    static const char *const words[] = {"true", "false", "yes", "no", "on", "off", "y", "n"};
    return node->kind == YAML_SCALAR && node->plain && config_is_word(node->text, words, ARRAY_LEN(words));
}

const char *config_json_scalar(const struct yaml_node *node, json_t **ret)
{
    if (!node->plain) {
        *ret = json_text(node->text, strlen(node->text));
        return NULL;
    }
    if (yaml_node_is_null(node)) {
        *ret = json_null();
        return NULL;
    }
    if (strcmp(node->text, "true") == 0 || strcmp(node->text, "false") == 0) {
        *ret = json_boolean(node->text[0] == 't');
        return NULL;
    }
    if (config_reads_as_flag(node)) {
        return "without quotes this is a truth value to some and text to others";
    }
    const char *start = node->text + (node->text[0] == '-' || node->text[0] == '+');
    static const char *const not_finite[] = {".inf", ".nan", "inf", "nan", "infinity"};
    if (config_is_word(start, not_finite, ARRAY_LEN(not_finite))) {
        return "not a finite number";
    }
    if (!(start[0] >= '0' && start[0] <= '9') && !(start[0] == '.' && start[1] >= '0' && start[1] <= '9')) {
        *ret = json_text(node->text, strlen(node->text));
        return NULL;
    }
    int64_t whole;
    double number;
    if (units_int(node->text, &whole) == NULL) {
        *ret = json_integer(whole);
        return NULL;
    }
    bool digits_only = start[strspn(start, "0123456789")] == '\0';
    if (!digits_only && units_number(node->text, &number) == NULL) {
        *ret = json_real(number);
        return NULL;
    }
    /* Digits, points, signs and one letter: some reader takes it for a number (octal, 1_000, 0x10). */
    if (start[strspn(start, "0123456789abcdefABCDEFxXoO_.:+-")] == '\0' && strpbrk(start, ".-:") == NULL) {
        return "some readers take this for a number, others for text";
    }
    *ret = json_text(node->text, strlen(node->text));
    return NULL;
}

json_t *config_json_node(const struct yaml_node *node, const char *shown, struct config_findings *findings)
{
    if (node->kind == YAML_SCALAR) {
        json_t *value = NULL;
        const char *fault = config_json_scalar(node, &value);
        if (fault == NULL) {
            return value;
        }
        AUTO_FREE char *found = config_found(node);
        AUTO_FREE char *remedy = xasprintf("quote it: \"%s\"", node->text);
        config_findings_add(findings, "unquoted", node->place, node->line, node->column, "a value that reads one way",
                            NULL, remedy, "`%s` is %s: %s", shown, found, fault);
        return json_null();
    }
    json_t *value = node->kind == YAML_LIST ? json_array() : json_object();
    for (size_t i = 0; i < node->count; i++) {
        AUTO_FREE char *inner =
            node->kind == YAML_LIST ? xasprintf("%s[%zu]", shown, i) : xasprintf("%s.%s", shown, node->keys[i]);
        json_t *item = config_json_node(node->items[i], inner, findings);
        if (node->kind == YAML_LIST) {
            json_add_take(value, item);
        } else {
            json_set_take(value, node->keys[i], item);
        }
    }
    return value;
}
