/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "config/units.h"
#include "orchestrator/run_view.h"
#include "orchestrator/verbs.h"
#include "state/versions.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DIFF_MAX ((size_t)64 << 20)

struct newest {
    int64_t number;
    int64_t parent;
    int64_t wanted; /* a version whose parent is looked for; INT64_MIN: none */
};

static bool keep_newest(void *arg, const struct version_add *row, int64_t added_ns)
{
    struct newest *n = arg;
    (void)added_ns;
    if (row->state == VERSION_ACCEPTED && row->number > n->number) {
        n->number = row->number;
    }
    if (row->number == n->wanted && row->parent_count > 0) {
        n->parent = row->parents[0];
    }
    return true;
}

/* "v3", "3" → 3; INT64_MIN for anything else. */
static int64_t number_of(const char *selector)
{
    int64_t n = 0;
    return units_int(selector[0] == 'v' ? selector + 1 : selector, &n) == NULL && n >= 0 ? n : INT64_MIN;
}

/* Which two versions: both named; one named: what it changed; none: from the root to the newest accepted one. */
static int choose(const struct verb_call *call, struct run_view *v, char **ret_from, char **ret_to,
                  struct orch_err *err)
{
    const char *a = call->arg_count > 1 ? call->args[1] : NULL;
    const char *b = call->arg_count > 2 ? call->args[2] : NULL;
    struct newest n = {.number = -1, .parent = -1, .wanted = a != NULL ? number_of(a) : INT64_MIN};
    TRY(record_versions(v->record, keep_newest, &n, err));
    if (b != NULL) {
        *ret_from = xstrdup(a);
        *ret_to = xstrdup(b);
        return 0;
    }
    if (a != NULL) {
        if (n.parent < 0) {
            return err_set(err, ORCH_E_USAGE, "version %.100s has no parent to compare with: name two versions", a);
        }
        *ret_from = xasprintf("v%" PRId64, n.parent);
        *ret_to = xstrdup(a);
        return 0;
    }
    if (n.number < 0) {
        return err_set(err, ORCH_E_NOT_FOUND, "run %s has no accepted version yet", v->id);
    }
    *ret_from = xstrdup("v0");
    *ret_to = xasprintf("v%" PRId64, n.number);
    return 0;
}

static const char *line_color(const char *line)
{
    static const struct {
        const char *start, *color;
    } colors[] = {
        {"diff ", "\x1b[1m"}, {"--- ", "\x1b[1m"}, {"+++ ", "\x1b[1m"},
        {"@@", "\x1b[36m"},   {"+", "\x1b[32m"},   {"-", "\x1b[31m"},
    };
    for (size_t i = 0; i < ARRAY_LEN(colors); i++) {
        if (strncmp(line, colors[i].start, strlen(colors[i].start)) == 0) {
            return colors[i].color;
        }
    }
    return NULL;
}

static void print_text(const struct verb_call *call, const struct buf *diff)
{
    AUTO_BUF struct buf line;
    buf_init(&line, DIFF_MAX * 8);
    for (size_t at = 0; at < diff->len;) {
        const char *start = diff->data + at;
        const char *end = memchr(start, '\n', diff->len - at);
        size_t len = end != NULL ? (size_t)(end - start) : diff->len - at;
        buf_reset(&line);
        buf_escaped(&line, start, len, true);
        const char *color = call->color ? line_color(line.data) : NULL;
        if (color != NULL) {
            verb_print(call, "%s%s\x1b[0m\n", color, line.data);
        } else {
            verb_print(call, "%s\n", line.data);
        }
        at += len + 1;
    }
}

/* An evaluation has no versions of its own to compare: what it evaluated is looked at instead. */
static int open_source(const struct verb_call *call, struct run_view *v, struct orch_err *err)
{
    AUTO_FREE char *source = NULL;
    TRY(run_view_open(call, call->arg_count > 0 ? call->args[0] : NULL, v, err));
    TRY(run_view_meta(v, "source_run", &source, err));
    if (source[0] == '\0') {
        return 0;
    }
    verb_note(call, "%s evaluates %s: showing that", v->id, source);
    run_view_done(v);
    return run_view_open(call, source, v, err);
}

static int diff(const struct verb_call *call, struct orch_err *err)
{
    bool raw = verb_flag(call, "raw");
    if (raw && call->output_terminal) {
        return err_set(err, ORCH_E_USAGE, "--raw writes bytes as they are: not to a terminal");
    }
    AUTO_RUN_VIEW struct run_view v = {0};
    AUTO_FREE char *from = NULL;
    AUTO_FREE char *to = NULL;
    AUTO_VERSIONS struct versions *versions = NULL;
    AUTO_BUF struct buf text;
    buf_init(&text, DIFF_MAX);
    TRY(open_source(call, &v, err));
    TRY(choose(call, &v, &from, &to, err));
    AUTO_FREE char *dir = layout_run_path(&v.layout, v.id, RUN_VERSIONS);
    TRY(versions_open(NULL, dir, &versions, err));
    TRY(versions_diff(versions, from, to, &text, err));
    if (call->json) {
        json_t *document = verb_json();
        json_set_str(document, "run", v.id);
        json_set_str(document, "from", from);
        json_set_str(document, "to", to);
        json_set_flag(document, "equal", text.len == 0);
        json_set_flag(document, "cut", text.overflow);
        json_set_text(document, "diff", text.data, text.len);
        verb_print_json(call, document);
        return 0;
    }
    if (raw) {
        (void)fwrite(text.data, 1, text.len, stdout);
    } else {
        print_text(call, &text);
    }
    if (text.len == 0) {
        verb_note(call, "%s and %s of %s are equal", from, to, v.id);
    }
    if (text.overflow) {
        verb_note(call, "orch: the rest was cut; `git -C %s diff` shows it", dir);
    }
    return 0;
}

static int run(const struct verb_call *call)
{
    struct orch_err err = ERR_INIT;
    return diff(call, &err) < 0 ? verb_fail(call, &err) : 0;
}

static const struct verb_option options[] = {
    {"raw", NULL, "bytes as they are (not to a terminal)"},
    RUN_VIEW_OPTION,
    {NULL, NULL, NULL},
};

const struct verb cmd_diff = {
    .name = "diff",
    .summary = "Shows what changed between two versions of a run",
    .usage = "orch diff [RUN [A [B]]] [--raw]",
    .help = "RUN: an id, a unique prefix, a name (its newest run) or latest (the default). A, B: 3, v3, root, best,\n"
            "final or a commit. One version: against its parent. None: from version 0 to the newest accepted one.\n"
            "\n"
            "Examples:\n"
            "  orch diff                   what the newest run learned\n"
            "  orch diff dates 3           what version 3 changed\n"
            "  orch diff dates root best\n"
            "  orch diff dates 0 5 --raw >learned.patch\n",
    .options = options,
    .max_args = 3,
    .run = run,
};
