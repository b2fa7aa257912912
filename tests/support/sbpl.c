/* SPDX-License-Identifier: Apache-2.0 */
#include "sbpl.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RULES_MAX = 4096, OPERATIONS_MAX = 8, WORD_MAX = 1024 };

struct rule {
    bool allow;
    char operations[OPERATIONS_MAX][64];
    size_t operation_count;
    char filter[64]; /* "": matches every subject */
    char value[WORD_MAX];
    char *text;
};

struct sbpl {
    struct rule *rules;
    size_t count;
    size_t without;
};

struct reader {
    const char *at;
    char word[WORD_MAX];
    char *why;
};

static bool fail(struct reader *r, const char *what)
{
    (void)snprintf(r->why, 200, "%s at: %.60s", what, r->at);
    return false;
}

static void skip_space(struct reader *r)
{
    r->at += strspn(r->at, " \t\n");
}

static bool expect(struct reader *r, char c)
{
    skip_space(r);
    if (*r->at != c) {
        return fail(r, "a parenthesis is missing");
    }
    r->at++;
    return true;
}

static bool read_quoted(struct reader *r)
{
    size_t n = 0;
    for (r->at++; *r->at != '"'; r->at++) {
        if (*r->at == '\\') {
            r->at++;
        }
        if (*r->at == '\0' || n + 1 >= sizeof r->word) {
            return fail(r, "an unending text");
        }
        r->word[n++] = *r->at;
    }
    r->at++;
    r->word[n] = '\0';
    return true;
}

/* An atom or a text. */
static bool read_word(struct reader *r)
{
    skip_space(r);
    if (*r->at == '"') {
        return read_quoted(r);
    }
    size_t n = strcspn(r->at, " \t\n()\"");
    if (n == 0 || n >= sizeof r->word) {
        return fail(r, "a word is missing");
    }
    memcpy(r->word, r->at, n);
    r->word[n] = '\0';
    r->at += n;
    return true;
}

static bool read_filter(struct reader *r, struct rule *rule)
{
    static const char *const known[] = {"literal", "subpath", "global-name", "iokit-user-client-class",
                                        "remote",  "target"};
    r->at++; /* the parenthesis */
    if (!read_word(r)) {
        return false;
    }
    bool found = false;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        found = found || strcmp(known[i], r->word) == 0;
    }
    if (!found || rule->filter[0] != '\0') {
        return fail(r, "a filter that is not known, or a second one");
    }
    (void)snprintf(rule->filter, sizeof rule->filter, "%.60s", r->word);
    if (strcmp(rule->filter, "remote") == 0 && (!read_word(r) || strcmp(r->word, "ip") != 0)) {
        return fail(r, "remote ip is meant");
    }
    if (!read_word(r)) {
        return false;
    }
    (void)snprintf(rule->value, sizeof rule->value, "%s", r->word);
    return expect(r, ')');
}

static bool read_rule(struct reader *r, struct rule *rule)
{
    if (!read_word(r)) {
        return false;
    }
    rule->allow = strcmp(r->word, "allow") == 0;
    if (!rule->allow && strcmp(r->word, "deny") != 0) {
        return fail(r, "neither allow nor deny");
    }
    for (skip_space(r); *r->at != ')'; skip_space(r)) {
        if (*r->at == '(') {
            if (!read_filter(r, rule)) {
                return false;
            }
            continue;
        }
        if (!read_word(r)) {
            return false;
        }
        if (rule->filter[0] != '\0' || rule->operation_count == OPERATIONS_MAX || strlen(r->word) >= 64) {
            return fail(r, "operations come before the filter");
        }
        (void)snprintf(rule->operations[rule->operation_count++], 64, "%.63s", r->word);
    }
    r->at++;
    return rule->operation_count > 0 ? true : fail(r, "a rule without an operation");
}

static bool read_version(struct reader *r)
{
    return expect(r, '(') && read_word(r) && strcmp(r->word, "version") == 0 && read_word(r) &&
           strcmp(r->word, "1") == 0 && expect(r, ')');
}

struct sbpl *sbpl_parse(const char *text, char why[200])
{
    struct sbpl *p = calloc(1, sizeof *p);
    struct reader r = {.at = text, .why = why};
    p->rules = calloc(RULES_MAX, sizeof *p->rules);
    p->without = SIZE_MAX;
    bool good = read_version(&r) ? true : fail(&r, "no (version 1)");
    for (skip_space(&r); good && *r.at != '\0'; skip_space(&r)) {
        const char *begin = r.at;
        good = p->count < RULES_MAX && expect(&r, '(') && read_rule(&r, &p->rules[p->count]);
        if (good) {
            p->rules[p->count++].text = strndup(begin, (size_t)(r.at - begin));
        }
    }
    if (good) {
        return p;
    }
    sbpl_free(p);
    return NULL;
}

void sbpl_free(struct sbpl *p)
{
    for (size_t i = 0; i < p->count; i++) {
        free(p->rules[i].text);
    }
    free(p->rules);
    free(p);
}

size_t sbpl_rules(const struct sbpl *p)
{
    return p->count;
}

void sbpl_without(struct sbpl *p, size_t i)
{
    p->without = i;
}

const char *sbpl_text(const struct sbpl *p, size_t i)
{
    return p->rules[i].text;
}

static bool names(const struct rule *rule, const char *operation)
{
    for (size_t i = 0; i < rule->operation_count; i++) {
        const char *o = rule->operations[i];
        size_t n = strlen(o);
        bool family = n > 0 && o[n - 1] == '*' && strncmp(o, operation, n - 1) == 0;
        if (family || strcmp(o, operation) == 0 || strcmp(o, "default") == 0) {
            return true;
        }
    }
    return false;
}

static bool covers(const struct rule *rule, const char *subject)
{
    if (rule->filter[0] == '\0') {
        return true;
    }
    if (strcmp(rule->filter, "subpath") == 0) {
        size_t n = strlen(rule->value);
        return strncmp(subject, rule->value, n) == 0 && (subject[n] == '\0' || subject[n] == '/');
    }
    return strcmp(subject, rule->value) == 0;
}

bool sbpl_allows(const struct sbpl *p, const char *operation, const char *subject)
{
    bool allowed = false;
    for (size_t i = 0; i < p->count; i++) {
        if (i != p->without && names(&p->rules[i], operation) && covers(&p->rules[i], subject)) {
            allowed = p->rules[i].allow;
        }
    }
    return allowed;
}
