/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "orchestrator/row_json.h"
#include "orchestrator/run_view.h"
#include "orchestrator/table.h"
#include "orchestrator/verbs.h"

#include <inttypes.h>
#include <string.h>

#define LIMIT_DEFAULT 100

/* One run as the list shows it. `problem`: its record could not be read, and nothing else is known. */
struct summary {
    char *state, *kind, *outcome, *created, *problem;
    struct trial_counts counts;
    int64_t steps;
};

static void summary_done(struct summary *s)
{
    free(s->state);
    free(s->kind);
    free(s->outcome);
    free(s->created);
    free(s->problem);
}

static bool count_step(void *arg, const struct step_row *row)
{
    *(int64_t *)arg += row->outcome != NULL ? 1 : 0;
    return true;
}

static int read_record(struct run_view *v, struct summary *s, struct orch_err *err)
{
    TRY(run_view_state(v, &s->state, err));
    TRY(run_view_meta(v, "kind", &s->kind, err));
    TRY(run_view_meta(v, "outcome", &s->outcome, err));
    TRY(run_view_meta(v, "created", &s->created, err));
    TRY(record_steps(v->record, count_step, &s->steps, err));
    struct trial_filter all = TRIAL_FILTER_ANY;
    return record_total(v->record, &all, &s->counts, err);
}

static void summarize(const struct verb_call *call, const struct layout *layout, const struct run_entry *entry,
                      struct summary *s)
{
    struct orch_err err = ERR_INIT;
    if (!entry->has_record) {
        s->state = xstrdup("empty");
        return;
    }
    AUTO_RUN_VIEW struct run_view v = {0};
    int code = run_view_open_id(call, layout, entry->id, &v, &err);
    if (code >= 0) {
        code = read_record(&v, s, &err);
    }
    if (code < 0) {
        free(s->state);
        s->state = xstrdup(code == ORCH_E_DAMAGED ? "damaged" : "unreadable");
        s->problem = xstrdup(err.message);
    }
}

static json_t *summary_json(const struct run_entry *entry, const struct summary *s)
{
    json_t *o = json_object();
    json_set_str(o, "id", entry->id);
    json_set_str(o, "name", entry->name);
    json_set_str(o, "state", s->state);
    json_set_str(o, "kind", s->kind);
    json_set_str(o, "outcome", s->outcome);
    json_set_str(o, "created", s->created);
    json_set_int(o, "steps", s->steps);
    json_set_take(o, "trials", row_json_counts(&s->counts));
    json_set_str(o, "problem", s->problem);
    return o;
}

static void summary_row(struct table *t, const struct run_entry *entry, const struct summary *s)
{
    table_row(t);
    table_text(t, entry->id);
    table_text(t, s->kind);
    table_text(t, s->state);
    table_text(t, s->outcome);
    table_int(t, s->steps);
    table_cell(t, "%" PRId64 "/%" PRId64, s->counts.planned - s->counts.kind[RESULT_NONE], s->counts.planned);
    table_text(t, s->created);
}

struct listing {
    struct layout layout;
    struct run_entry *entries;
    size_t count;
    int64_t limit;
};

static int list(const struct verb_call *call, struct listing *l, struct orch_err *err)
{
    l->limit = LIMIT_DEFAULT;
    TRY(verb_option_int(call, "limit", 1, LAYOUT_RUNS_MAX, &l->limit, err));
    TRY(run_view_project(call, &l->layout, err));
    return layout_runs(&l->layout, verb_option_value(call, "name"), &l->entries, &l->count, err);
}

static void print(const struct verb_call *call, const struct listing *l)
{
    static const struct table_column columns[] = {
        {"RUN", TABLE_LEFT},    {"KIND", TABLE_LEFT},    {"STATE", TABLE_LEFT},   {"OUTCOME", TABLE_CUT},
        {"STEPS", TABLE_RIGHT}, {"TRIALS", TABLE_RIGHT}, {"CREATED", TABLE_LEFT}, {NULL, TABLE_LEFT},
    };
    AUTO_TABLE struct table *t = table_new(columns);
    json_t *array = json_array();
    size_t shown = l->count < (size_t)l->limit ? l->count : (size_t)l->limit;
    for (size_t i = 0; i < shown; i++) {
        struct summary s = {0};
        summarize(call, &l->layout, &l->entries[i], &s);
        if (s.problem != NULL) {
            AUTO_BUF struct buf text;
            buf_init(&text, BUF_MAX_LINE);
            buf_escaped(&text, s.problem, strlen(s.problem), false);
            verb_note(call, "orch: %s: %s", l->entries[i].id, text.data);
        }
        summary_row(t, &l->entries[i], &s);
        json_add_take(array, summary_json(&l->entries[i], &s));
        summary_done(&s);
    }
    if (call->json) {
        json_t *document = verb_json();
        json_set_str(document, "project", l->layout.root);
        json_set_take(document, "runs", array);
        json_set_int(document, "more", (int64_t)(l->count - shown));
        verb_print_json(call, document);
        return;
    }
    json_decref(array);
    if (l->count == 0) {
        verb_note(call, "no runs in %s", l->layout.root);
        return;
    }
    table_print(call, t);
    if (l->count > shown) {
        verb_note(call, "and %zu older; --limit shows more", l->count - shown);
    }
}

static int run(const struct verb_call *call)
{
    struct orch_err err = ERR_INIT;
    struct listing l = {0};
    int code = list(call, &l, &err);
    if (code >= 0) {
        print(call, &l);
    }
    free(l.entries);
    layout_done(&l.layout);
    return code < 0 ? verb_fail(call, &err) : 0;
}

static const struct verb_option options[] = {
    {"name", "NAME", "only runs of this name"},
    {"limit", "N", "the newest N (default 100)"},
    RUN_VIEW_OPTION,
    {NULL, NULL, NULL},
};

const struct verb cmd_runs = {
    .name = "runs",
    .summary = "Lists the runs of the project, newest first",
    .usage = "orch runs [--name NAME] [--limit N]",
    .help = "State: running (somebody holds it), finished, stopped, interrupted (the record says running, and its\n"
            "owner is gone: `orch resume RUN` goes on), empty (it never began), damaged.\n"
            "TRIALS: settled/planned.\n"
            "\n"
            "Examples:\n"
            "  orch runs\n"
            "  orch runs --name dates --limit 5\n"
            "  orch runs --project ../other --json\n",
    .options = options,
    .run = run,
};
