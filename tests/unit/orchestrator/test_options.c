/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "orchestrator/options.h"
#include "orchestrator/verbs.h"
#include "test.h"

#include <string.h>

static int nothing(const struct verb_call *call)
{
    (void)call;
    return 0;
}

static const struct verb_option draw_options[] = {
    {"color", "NAME", "which"},
    {"fill", NULL, "filled"},
    {NULL, NULL, NULL},
};
static const struct verb draw = {.name = "draw",
                                 .summary = "Draws",
                                 .usage = "orch draw WHAT",
                                 .help = "Examples:\n  orch draw circle\n",
                                 .options = draw_options,
                                 .min_args = 1,
                                 .max_args = 2,
                                 .run = nothing};
static const struct verb exec = {.name = "box exec",
                                 .summary = "Runs",
                                 .usage = "orch box exec -- CMD",
                                 .help = "",
                                 .takes_rest = true,
                                 .run = nothing};
static const struct verb box_list = {
    .name = "box list", .summary = "Lists", .usage = "orch box list", .help = "", .run = nothing};
static const struct verb *const table[] = {&draw, &exec, &box_list, NULL};

struct parsed {
    int code;
    struct orch_err err;
    struct verb_line line;
};

/* The texts are literals; nothing writes into an argument vector. */
static struct parsed parse(const char *const *texts)
{
    char *const *argv = (char *const *)(uintptr_t)texts;
    struct parsed p = {0};
    int argc = 0;
    while (argv[argc] != NULL) {
        argc++;
    }
    p.code = verb_line_parse(table, argc, argv, &p.line, &p.err);
    return p;
}
#define PARSE(...) parse((const char *const[]){"orch", __VA_ARGS__, NULL})

static void expect_usage(struct parsed p, const char *part)
{
    cr_assert_eq(p.code, ORCH_E_USAGE, "expected a usage error with \"%s\"", part);
    cr_assert_not_null(strstr(p.err.message, part), "\"%s\" has no \"%s\"", p.err.message, part);
    verb_line_done(&p.line);
}

static const char *value_of(const struct parsed *p, const char *name)
{
    struct verb_call call = {.line = &p->line};
    return verb_option_value(&call, name);
}

Test(options, finds_verb_words_and_options_in_any_order)
{
    struct parsed p = PARSE("--json", "draw", "circle", "--color", "red", "--fill", "big");
    cr_assert_eq(p.code, 0, "%s", p.err.message);
    cr_assert_eq(p.line.verb, &draw);
    cr_assert(p.line.json);
    cr_assert_eq(p.line.arg_count, 2);
    cr_assert_str_eq(p.line.args[0], "circle");
    cr_assert_str_eq(p.line.args[1], "big");
    cr_assert_null(p.line.args[2]);
    cr_assert_str_eq(value_of(&p, "color"), "red");
    cr_assert_str_eq(value_of(&p, "fill"), "");
    cr_assert_null(value_of(&p, "project"));
    verb_line_done(&p.line);
    TEST_END();
}

Test(options, the_last_one_wins_and_equals_is_the_same)
{
    struct parsed p = PARSE("draw", "x", "--color=red", "--color", "blue", "--color=", "--project=/a=b");
    cr_assert_eq(p.code, 0, "%s", p.err.message);
    cr_assert_str_eq(value_of(&p, "color"), "");
    cr_assert_str_eq(value_of(&p, "project"), "/a=b");
    verb_line_done(&p.line);
    TEST_END();
}

Test(options, a_value_may_look_like_an_option)
{
    struct parsed p = PARSE("draw", "x", "--color", "--fill");
    cr_assert_eq(p.code, 0, "%s", p.err.message);
    cr_assert_str_eq(value_of(&p, "color"), "--fill");
    cr_assert_null(value_of(&p, "fill"));
    verb_line_done(&p.line);
    TEST_END();
}

Test(options, verbs_of_two_words_and_the_rest)
{
    struct parsed p = PARSE("box", "exec", "--quiet", "--", "--json", "-x");
    cr_assert_eq(p.code, 0, "%s", p.err.message);
    cr_assert_eq(p.line.verb, &exec);
    cr_assert(p.line.quiet);
    cr_assert(!p.line.json, "what is after -- is not ours");
    cr_assert(p.line.has_rest);
    cr_assert_str_eq(p.line.rest[0], "--json");
    cr_assert_str_eq(p.line.rest[1], "-x");
    cr_assert_null(p.line.rest[2]);
    verb_line_done(&p.line);
    TEST_END();
}

Test(options, without_a_rest_it_is_empty)
{
    struct parsed p = PARSE("box", "exec");
    cr_assert_eq(p.code, 0);
    cr_assert(!p.line.has_rest);
    cr_assert_null(p.line.rest[0]);
    verb_line_done(&p.line);
    TEST_END();
}

Test(options, unknown_names_tell_the_nearest)
{
    expect_usage(PARSE("darw", "x"), "did you mean `orch draw`");
    expect_usage(PARSE("box", "lits"), "did you mean `orch box list`");
    expect_usage(PARSE("box", "zzzzzz"), "known: exec, list");
    expect_usage(PARSE("box"), "say what: exec, list");
    expect_usage(PARSE("bix"), "did you mean `orch box`");
    expect_usage(PARSE("draw", "x", "--colour", "red"), "did you mean --color");
    expect_usage(PARSE("draw", "x", "--jsn"), "did you mean --json");
    expect_usage(PARSE("draw", "x", "--zzzzzzzz"), "unknown option --zzzzzzzz");
    expect_usage(PARSE("draw", "x", "-z"), "unknown option -z");
    expect_usage(PARSE("zzzzzzzz"), "unknown verb `zzzzzzzz`");
    TEST_END();
}

Test(options, values_are_demanded_and_refused)
{
    expect_usage(PARSE("draw", "x", "--fill=yes"), "--fill takes no value");
    expect_usage(PARSE("draw", "x", "--color"), "--color needs a value");
    expect_usage(PARSE("--color", "red", "draw", "x"), "unknown option --color");
    TEST_END();
}

Test(options, counts_words)
{
    expect_usage(PARSE("draw"), "needs more words");
    expect_usage(PARSE("draw", "a", "b", "c"), "unexpected `c`");
    expect_usage(PARSE("draw", "a", "--", "b"), "takes nothing after --");
    TEST_END();
}

Test(options, what_was_typed_is_escaped_in_errors)
{
    struct parsed p = PARSE("dr\x1b[31maw");
    cr_assert_eq(p.code, ORCH_E_USAGE);
    cr_assert_null(strchr(p.err.message, '\x1b'));
    verb_line_done(&p.line);
    p = PARSE("draw", "x", "--co\nlor\x1b]0;t\x07");
    cr_assert_eq(p.code, ORCH_E_USAGE);
    cr_assert_null(strchr(p.err.message, '\x1b'));
    cr_assert_null(strchr(p.err.message, '\n'));
    verb_line_done(&p.line);
    TEST_END();
}

Test(options, help_asks_for_no_words)
{
    struct parsed p = PARSE("draw", "--help");
    cr_assert_eq(p.code, 0);
    cr_assert(p.line.help);
    cr_assert_eq(p.line.verb, &draw);
    verb_line_done(&p.line);
    p = PARSE("box", "-h");
    cr_assert_eq(p.code, 0, "%s", p.err.message);
    cr_assert_str_eq(p.line.group, "box");
    cr_assert(p.line.help);
    verb_line_done(&p.line);
    p = PARSE("--version");
    cr_assert_eq(p.code, 0);
    cr_assert(p.line.version);
    verb_line_done(&p.line);
    TEST_END();
}

Test(options, json_is_known_even_when_the_line_is_wrong)
{
    struct parsed p = PARSE("zzzzzz", "--json");
    cr_assert_eq(p.code, ORCH_E_USAGE);
    cr_assert(p.line.json);
    verb_line_done(&p.line);
    TEST_END();
}

Test(options, whole_numbers_have_bounds)
{
    struct parsed p = PARSE("draw", "x", "--color", "12");
    struct verb_call call = {.line = &p.line};
    int64_t n = 7;
    cr_assert_eq(verb_option_int(&call, "project", 0, 9, &n, &p.err), 0);
    cr_assert_eq(n, 7, "an absent option changes nothing");
    cr_assert_eq(verb_option_int(&call, "color", 0, 12, &n, &p.err), 0);
    cr_assert_eq(n, 12);
    cr_assert_eq(verb_option_int(&call, "color", 0, 11, &n, &p.err), ORCH_E_USAGE);
    cr_assert_eq(n, 12);
    verb_line_done(&p.line);
    p = PARSE("draw", "x", "--color", "12x");
    call.line = &p.line;
    cr_assert_eq(verb_option_int(&call, "color", 0, 99, &n, &p.err), ORCH_E_USAGE);
    verb_line_done(&p.line);
    TEST_END();
}

Test(verbs, every_row_is_complete)
{
    for (size_t i = 0; verbs[i] != NULL; i++) {
        const struct verb *v = verbs[i];
        cr_assert_not_null(v->run, "%s", v->name);
        cr_assert_not_null(strstr(v->help, "Examples:\n  orch "), "%s has no example", v->name);
        AUTO_FREE char *start = xasprintf("orch %s", v->name);
        cr_assert_eq(strncmp(v->usage, start, strlen(start)), 0, "%s: usage %s", v->name, v->usage);
        cr_assert_lt(strlen(v->name), VERB_NAME_MAX);
        cr_assert(v->max_args >= v->min_args, "%s", v->name);
        cr_assert_eq(verb_find(verbs, v->name), v, "%s is there twice", v->name);
        for (const struct verb_option *o = v->options; o != NULL && o->name != NULL; o++) {
            for (const struct verb_option *c = verb_common_options; c->name != NULL; c++) {
                cr_assert_str_neq(o->name, c->name, "%s hides --%s", v->name, c->name);
            }
        }
        AUTO_FREE char *help = help_verb(v);
        cr_assert_not_null(strstr(help, v->usage));
    }
    TEST_END();
}
