/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/options.h"

#include "base/buf.h"
#include "base/mem.h"
#include "config/units.h"
#include "orchestrator/verbs.h"

#include <stdio.h>
#include <string.h>

#define NEAREST_DISTANCE 2

struct parser {
    const struct verb *const *table;
    int argc;
    char *const *argv;
    int at;
    struct verb_line *line;
};

/* What a user typed is shown escaped: it may hold anything. */
static char *shown(const char *text)
{
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_LINE);
    size_t len = strlen(text);
    buf_escaped(&b, text, len < 200 ? len : 200, false);
    return buf_take(&b, NULL);
}

const struct verb *verb_find(const struct verb *const *table, const char *name)
{
    for (size_t i = 0; table[i] != NULL; i++) {
        if (strcmp(table[i]->name, name) == 0) {
            return table[i];
        }
    }
    return NULL;
}

bool verb_is_group(const struct verb *const *table, const char *word)
{
    size_t len = strlen(word);
    for (size_t i = 0; table[i] != NULL; i++) {
        if (strncmp(table[i]->name, word, len) == 0 && table[i]->name[len] == ' ') {
            return true;
        }
    }
    return false;
}

const char *verb_nearest(const struct verb *const *table, const char *word, char out[VERB_NAME_MAX])
{
    int best = NEAREST_DISTANCE + 1;
    for (size_t i = 0; table[i] != NULL; i++) {
        char name[VERB_NAME_MAX];
        (void)snprintf(name, sizeof name, "%s", table[i]->name);
        if (strchr(word, ' ') == NULL) {
            name[strcspn(name, " ")] = '\0';
        }
        int d = units_distance(word, name, NEAREST_DISTANCE);
        /* A beginning is near too: "ver" for "version". */
        if (d > NEAREST_DISTANCE && strlen(word) >= 2 && strncmp(name, word, strlen(word)) == 0) {
            d = NEAREST_DISTANCE;
        }
        if (d < best) {
            best = d;
            (void)snprintf(out, VERB_NAME_MAX, "%s", name);
        }
    }
    return best <= NEAREST_DISTANCE ? out : NULL;
}

static const struct verb_option *find_option(const struct verb_option *list, const char *name, size_t len)
{
    for (; list != NULL && list->name != NULL; list++) {
        if (strlen(list->name) == len && memcmp(list->name, name, len) == 0) {
            return list;
        }
    }
    return NULL;
}

static void nearest_option(const struct verb_option *list, const char *name, int *best, const char **ret)
{
    for (; list != NULL && list->name != NULL; list++) {
        int d = units_distance(name, list->name, NEAREST_DISTANCE);
        if (d < *best) {
            *best = d;
            *ret = list->name;
        }
    }
}

static int unknown_option(const struct parser *p, const char *word, size_t len, struct orch_err *err)
{
    const struct verb *verb = p->line->verb;
    AUTO_FREE char *cut = xmemdup0(word, len);
    AUTO_FREE char *text = shown(cut);
    const char *near = NULL;
    int best = NEAREST_DISTANCE + 1;
    const char *name = cut + strspn(cut, "-");
    nearest_option(verb != NULL ? verb->options : NULL, name, &best, &near);
    nearest_option(verb_common_options, name, &best, &near);
    const char *of = verb != NULL ? verb->name : "";
    if (near != NULL) {
        return err_set(err, ORCH_E_USAGE, "%s%sunknown option %s; did you mean --%s?", of, of[0] != '\0' ? ": " : "",
                       text, near);
    }
    return err_set(err, ORCH_E_USAGE, "%s%sunknown option %s", of, of[0] != '\0' ? ": " : "", text);
}

static void keep_option(struct verb_line *line, const char *name, const char *value)
{
    line->options = xrealloc(line->options, (line->option_count + 1) * sizeof *line->options);
    line->options[line->option_count++] = (struct option_given){.name = name, .value = value};
    line->help = line->help || strcmp(name, "help") == 0;
    line->version = line->version || strcmp(name, "version") == 0;
    line->quiet = line->quiet || strcmp(name, "quiet") == 0;
}

/* An option at p->at; takes its value too. */
static int take_option(struct parser *p, struct orch_err *err)
{
    const char *word = p->argv[p->at];
    if (strcmp(word, "-h") == 0) {
        word = "--help";
    }
    if (strncmp(word, "--", 2) != 0) {
        return unknown_option(p, word, strlen(word), err);
    }
    size_t len = strcspn(word + 2, "=");
    const char *value = word[2 + len] == '=' ? word + 3 + len : NULL;
    const struct verb_option *option = find_option(verb_common_options, word + 2, len);
    if (option == NULL && p->line->verb != NULL) {
        option = find_option(p->line->verb->options, word + 2, len);
    }
    if (option == NULL) {
        return unknown_option(p, word, 2 + len, err);
    }
    if (option->value == NULL && value != NULL) {
        return err_set(err, ORCH_E_USAGE, "option --%s takes no value", option->name);
    }
    if (option->value != NULL && value == NULL) {
        if (p->at + 1 >= p->argc) {
            return err_set(err, ORCH_E_USAGE, "option --%s needs a value: --%s %s", option->name, option->name,
                           option->value);
        }
        value = p->argv[++p->at];
    }
    keep_option(p->line, option->name, value != NULL ? value : "");
    return 0;
}

static int unknown_verb(const struct parser *p, const char *word, struct orch_err *err)
{
    AUTO_FREE char *text = shown(word);
    char near[VERB_NAME_MAX];
    if (verb_nearest(p->table, word, near) != NULL) {
        return err_set(err, ORCH_E_USAGE, "unknown verb `%s`; did you mean `orch %s`?", text, near);
    }
    return err_set(err, ORCH_E_USAGE, "unknown verb `%s`", text);
}

static int incomplete_group(const struct parser *p, const char *word, const char *second, struct orch_err *err)
{
    AUTO_BUF struct buf known;
    buf_init(&known, BUF_MAX_LINE);
    size_t len = strlen(word);
    for (size_t i = 0; p->table[i] != NULL; i++) {
        if (strncmp(p->table[i]->name, word, len) == 0 && p->table[i]->name[len] == ' ') {
            buf_fmt(&known, "%s%s", known.len > 0 ? ", " : "", p->table[i]->name + len + 1);
        }
    }
    if (second == NULL) {
        return err_set(err, ORCH_E_USAGE, "%s: say what: %s", word, known.data);
    }
    AUTO_FREE char *text = shown(second);
    AUTO_FREE char *both = xasprintf("%s %.40s", word, second);
    char near[VERB_NAME_MAX];
    if (verb_nearest(p->table, both, near) != NULL) {
        return err_set(err, ORCH_E_USAGE, "%s: unknown `%s`; did you mean `orch %s`?", word, text, near);
    }
    return err_set(err, ORCH_E_USAGE, "%s: unknown `%s`; known: %s", word, text, known.data);
}

/* The verb at p->at: one word or two. */
static int take_verb(struct parser *p, struct orch_err *err)
{
    const char *word = p->argv[p->at];
    if (verb_is_group(p->table, word)) {
        const char *second = p->at + 1 < p->argc ? p->argv[p->at + 1] : NULL;
        if (second != NULL && (strcmp(second, "--help") == 0 || strcmp(second, "-h") == 0)) {
            p->line->group = word;
            return 0;
        }
        if (second == NULL || second[0] == '-') {
            return incomplete_group(p, word, NULL, err);
        }
        AUTO_FREE char *both = xasprintf("%s %s", word, second);
        p->line->verb = verb_find(p->table, both);
        if (p->line->verb == NULL) {
            return incomplete_group(p, word, second, err);
        }
        p->at++;
        return 0;
    }
    p->line->verb = verb_find(p->table, word);
    return p->line->verb != NULL ? 0 : unknown_verb(p, word, err);
}

static int check_words(const struct verb_line *line, struct orch_err *err)
{
    const struct verb *verb = line->verb;
    if (line->has_rest && !verb->takes_rest) {
        return err_set(err, ORCH_E_USAGE, "%s takes nothing after --; usage: %s", verb->name, verb->usage);
    }
    if (line->arg_count < verb->min_args) {
        return err_set(err, ORCH_E_USAGE, "%s needs more words; usage: %s", verb->name, verb->usage);
    }
    if (line->arg_count > verb->max_args) {
        AUTO_FREE char *text = shown(line->args[verb->max_args]);
        return err_set(err, ORCH_E_USAGE, "%s: unexpected `%s`; usage: %s", verb->name, text, verb->usage);
    }
    return 0;
}

/* Looked for at once, so that errors of the command line itself are printed as asked. */
static bool wants_json(int argc, char *const *argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            return true;
        }
    }
    return false;
}

static int take_word(struct parser *p, struct orch_err *err)
{
    struct verb_line *line = p->line;
    const char *word = p->argv[p->at];
    if (strcmp(word, "--") == 0 && line->verb != NULL) {
        line->rest = p->argv + p->at + 1;
        line->has_rest = true;
        p->at = p->argc;
        return 0;
    }
    if (word[0] == '-' && word[1] != '\0') {
        return take_option(p, err);
    }
    if (line->verb == NULL && line->group == NULL) {
        return take_verb(p, err);
    }
    line->args[line->arg_count++] = p->argv[p->at];
    return 0;
}

int verb_line_parse(const struct verb *const *table, int argc, char *const *argv, struct verb_line *ret,
                    struct orch_err *err)
{
    *ret = (struct verb_line){.json = wants_json(argc, argv)};
    if (argc > OPTIONS_WORDS_MAX) {
        return err_set(err, ORCH_E_USAGE, "more than %d words", OPTIONS_WORDS_MAX);
    }
    ret->args = xcalloc((size_t)argc + 1, sizeof *ret->args);
    ret->rest = argv + argc; /* its NULL: an empty vector */
    struct parser p = {.table = table, .argc = argc, .argv = argv, .at = 1, .line = ret};
    for (; p.at < argc; p.at++) {
        TRY(take_word(&p, err));
    }
    if (ret->help || ret->version || ret->verb == NULL) {
        return 0;
    }
    return check_words(ret, err);
}

void verb_line_done(struct verb_line *line)
{
    free(line->args);
    free(line->options);
    *line = (struct verb_line){0};
}
