/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "orchestrator/row_json.h"
#include "orchestrator/show.h"
#include "orchestrator/table.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define SUMMARY_MAX ((size_t)64 << 20)

char *show_counts_text(const struct trial_counts *c)
{
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_LINE);
    const struct {
        const char *word;
        int64_t n;
    } parts[] = {
        {"planned", c->planned},
        {"scored", c->kind[RESULT_SCORED]},
        {"limited", c->kind[RESULT_LIMIT]},
        {"infrastructure", c->kind[RESULT_INFRA]},
        {"judge errors", c->kind[RESULT_JUDGE]},
        {"not run", c->kind[RESULT_NONE]},
    };
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        buf_fmt(&b, "%s%s %" PRId64, i > 0 ? ", " : "", parts[i].word, parts[i].n);
    }
    if (c->scores > 0) {
        buf_fmt(&b, "; mean %.4f over %" PRId64 " %s", c->mean, c->scores, c->scores == 1 ? "score" : "scores");
    } else {
        buf_str(&b, "; no score");
    }
    return buf_take(&b, NULL);
}

void show_fact(const struct verb_call *call, const char *label, const char *text)
{
    if (text == NULL || text[0] == '\0') {
        return;
    }
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_TEXT);
    buf_escaped(&b, text, strlen(text), false);
    verb_print(call, "%-12s %s\n", label, b.data);
}

/* ---- What the record says, gathered once for both forms -------------------- */

struct overview {
    struct run_view *v;
    struct counts_row *groups; /* owned */
    size_t group_count;
    struct table *steps, *evals, *versions, *usage;
    json_t *json_steps, *json_evals, *json_versions, *json_usage, *json_grades;
    struct buf grades;
};

static void overview_done(struct overview *o)
{
    free(o->groups);
    table_free(o->steps);
    table_free(o->evals);
    table_free(o->versions);
    table_free(o->usage);
    json_decref(o->json_steps);
    json_decref(o->json_evals);
    json_decref(o->json_versions);
    json_decref(o->json_usage);
    json_decref(o->json_grades);
    buf_done(&o->grades);
}

static void overview_init(struct overview *o, struct run_view *v)
{
    static const struct table_column steps[] = {
        {"STEP", TABLE_RIGHT},    {"BASE", TABLE_RIGHT},    {"TASKS", TABLE_RIGHT}, {"MEAN", TABLE_RIGHT},
        {"SCORED", TABLE_RIGHT},  {"LIMITED", TABLE_RIGHT}, {"INFRA", TABLE_RIGHT}, {"JUDGE", TABLE_RIGHT},
        {"NOT RUN", TABLE_RIGHT}, {"STATE", TABLE_LEFT},    {"NEW", TABLE_RIGHT},   {"REASON", TABLE_CUT},
        {NULL, TABLE_LEFT},
    };
    static const struct table_column evals[] = {
        {"SPLIT", TABLE_LEFT},    {"VERSION", TABLE_RIGHT}, {"STEP", TABLE_RIGHT},   {"REPEAT", TABLE_RIGHT},
        {"PLANNED", TABLE_RIGHT}, {"MEAN", TABLE_RIGHT},    {"STDERR", TABLE_RIGHT}, {"SCORED", TABLE_RIGHT},
        {"LIMITED", TABLE_RIGHT}, {"INFRA", TABLE_RIGHT},   {"JUDGE", TABLE_RIGHT},  {"NOT RUN", TABLE_RIGHT},
        {NULL, TABLE_LEFT},
    };
    static const struct table_column versions[] = {
        {"VERSION", TABLE_RIGHT}, {"STATE", TABLE_LEFT}, {"STEP", TABLE_RIGHT}, {"PARENTS", TABLE_LEFT},
        {"COMMIT", TABLE_LEFT},   {"REASON", TABLE_CUT}, {NULL, TABLE_LEFT},
    };
    static const struct table_column usage[] = {
        {"CALLS OF", TABLE_LEFT},   {"CALLS", TABLE_RIGHT},      {"TIME", TABLE_RIGHT}, {"REQUESTS", TABLE_RIGHT},
        {"TOKENS IN", TABLE_RIGHT}, {"TOKENS OUT", TABLE_RIGHT}, {"USD", TABLE_RIGHT},  {NULL, TABLE_LEFT},
    };
    *o = (struct overview){
        .v = v,
        .steps = table_new(steps),
        .evals = table_new(evals),
        .versions = table_new(versions),
        .usage = table_new(usage),
        .json_steps = json_array(),
        .json_evals = json_array(),
        .json_versions = json_array(),
        .json_usage = json_array(),
        .json_grades = json_object(),
    };
    buf_init(&o->grades, BUF_MAX_LINE);
}

static bool keep_group(void *arg, const struct counts_row *row)
{
    struct overview *o = arg;
    o->groups = xrealloc(o->groups, (o->group_count + 1) * sizeof *o->groups);
    o->groups[o->group_count++] = *row;
    return true;
}

/* A step's training trials together, whatever versions they were of. */
static struct trial_counts step_counts(const struct overview *o, int64_t step)
{
    struct trial_counts sum = {0};
    double total = 0;
    for (size_t i = 0; i < o->group_count; i++) {
        const struct counts_row *g = &o->groups[i];
        if (g->step != step || g->split != SPLIT_TRAIN) {
            continue;
        }
        sum.planned += g->counts.planned;
        sum.scores += g->counts.scores;
        total += g->counts.mean * (double)g->counts.scores;
        for (size_t k = 0; k < RESULT_COUNT; k++) {
            sum.kind[k] += g->counts.kind[k];
        }
    }
    sum.mean = sum.scores > 0 ? total / (double)sum.scores : 0;
    return sum;
}

static void kinds_cells(struct table *t, const struct trial_counts *c)
{
    static const enum result_kind shown[] = {RESULT_SCORED, RESULT_LIMIT, RESULT_INFRA, RESULT_JUDGE, RESULT_NONE};
    for (size_t i = 0; i < ARRAY_LEN(shown); i++) {
        table_int(t, c->kind[shown[i]]);
    }
}

static void version_cell(struct table *t, int64_t version)
{
    if (version == VERSION_NONE) {
        table_text(t, "none");
    } else {
        table_int(t, version);
    }
}

static bool keep_step(void *arg, const struct step_row *row)
{
    struct overview *o = arg;
    struct trial_counts c = step_counts(o, row->number);
    table_row(o->steps);
    table_int(o->steps, row->number);
    version_cell(o->steps, row->base_version);
    table_int(o->steps, (int64_t)row_json_length(row->order));
    table_score(o->steps, c.scores > 0, c.mean);
    kinds_cells(o->steps, &c);
    table_text(o->steps, row->outcome != NULL ? row->outcome : step_state_text(row->state));
    if (row->outcome != NULL) {
        version_cell(o->steps, row->version);
    } else {
        table_text(o->steps, NULL);
    }
    AUTO_JSON json_t *data = row_json_value(row->data);
    table_text(o->steps, row_json_step_reason(data));
    json_t *step = row_json_step(row);
    json_set_take(step, "counts", row_json_counts(&c));
    json_add_take(o->json_steps, step);
    return true;
}

static void add_eval(struct overview *o, const struct counts_row *g)
{
    const struct trial_counts *c = &g->counts;
    table_row(o->evals);
    table_text(o->evals, split_text(g->split));
    version_cell(o->evals, g->version);
    table_int(o->evals, g->step);
    table_int(o->evals, g->repeat);
    table_int(o->evals, c->planned);
    table_score(o->evals, c->scores > 0, c->mean);
    table_score(o->evals, c->scores > 1, c->scores > 1 ? sqrt(c->variance / (double)c->scores) : 0);
    kinds_cells(o->evals, c);
    json_t *eval = json_object();
    json_set_str(eval, "split", split_text(g->split));
    json_set_int(eval, "version", g->version);
    json_set_int(eval, "step", g->step);
    json_set_int(eval, "repeat", g->repeat);
    json_set_take(eval, "counts", row_json_counts(c));
    json_add_take(o->json_evals, eval);
}

static bool keep_version(void *arg, const struct version_add *row, int64_t added_ns)
{
    struct overview *o = arg;
    AUTO_BUF struct buf parents;
    buf_init(&parents, BUF_MAX_LINE);
    for (size_t i = 0; i < row->parent_count; i++) {
        buf_fmt(&parents, "%s%" PRId64, i > 0 ? " " : "", row->parents[i]);
    }
    table_row(o->versions);
    table_int(o->versions, row->number);
    table_text(o->versions, version_state_text(row->state));
    table_int(o->versions, row->step);
    table_text(o->versions, parents.data);
    table_cell(o->versions, "%.12s", row->sha != NULL ? row->sha : "");
    table_text(o->versions, row->reason);
    json_add_take(o->json_versions, row_json_version(row, added_ns));
    return true;
}

static bool keep_grade(void *arg, const char *grade, int64_t calls)
{
    struct overview *o = arg;
    const char *name = grade != NULL && grade[0] != '\0' ? grade : "not started";
    buf_fmt(&o->grades, "%s%" PRId64 " %s", o->grades.len > 0 ? ", " : "", calls, name);
    json_set_int(o->json_grades, name, calls);
    return true;
}

static int add_usage(struct overview *o, int kind, const char *name, struct orch_err *err)
{
    int64_t calls = 0;
    struct call_usage u = {0};
    TRY(record_usage(o->v->record, kind, &calls, &u, err));
    if (calls == 0) {
        return 0;
    }
    char took[CLOCK_TEXT_MAX];
    table_row(o->usage);
    table_text(o->usage, name);
    table_int(o->usage, calls);
    table_text(o->usage, u.wall_ns >= 0 ? clock_duration(u.wall_ns, took) : NULL);
    table_int(o->usage, u.requests);
    table_int(o->usage, u.tokens_in);
    table_int(o->usage, u.tokens_out);
    if (u.usd_known) {
        table_cell(o->usage, "%.4f", u.usd);
    } else {
        table_text(o->usage, "unknown");
    }
    json_t *usage = row_json_usage(calls, &u);
    json_set_str(usage, "kind", name);
    json_add_take(o->json_usage, usage);
    return 0;
}

static int gather(struct overview *o, struct orch_err *err)
{
    struct record *rec = o->v->record;
    struct trial_filter all = TRIAL_FILTER_ANY;
    TRY(record_counts(rec, &all, keep_group, o, err));
    TRY(record_steps(rec, keep_step, o, err));
    for (size_t i = 0; i < o->group_count; i++) {
        if (o->groups[i].split != SPLIT_TRAIN) {
            add_eval(o, &o->groups[i]);
        }
    }
    TRY(record_versions(rec, keep_version, o, err));
    for (int kind = 0; kind < CALL_COUNT; kind++) {
        TRY(add_usage(o, kind, call_kind_text((enum call_kind)kind), err));
    }
    TRY(add_usage(o, -1, "all", err));
    return record_grades(rec, keep_grade, o, err);
}

/* ---- Facts of the run ------------------------------------------------------ */

/* Meta keys that are shown, in order. The documents behind the fingerprint are long and for programs. */
static const struct {
    const char *key, *label;
} facts[] = {
    {"name", "name"},         {"kind", "kind"},
    {"outcome", "outcome"},   {"source_run", "source"},
    {"created", "created"},   {"environment", "environment"},
    {"seed", "seed"},         {"fingerprint", "fingerprint"},
    {"adapter", "adapter"},   {"config_file", "config"},
    {"orch_version", "orch"},
};

/* What the run ended with, as its summary says; nothing before there is one. *ret_final is NULL or a new reference. */
static void read_final(const struct run_view *v, json_t **ret_final)
{
    struct orch_err err = ERR_INIT; /* a summary that is absent or unreadable is told by `orch check`, not here */
    AUTO_JSON json_t *summary = NULL;
    AUTO_FREE char *path = layout_run_path(&v->layout, v->id, RUN_SUMMARY);
    if (json_parse_file(path, SUMMARY_MAX, &summary, &err) == 0 && json_is_object(json_get(summary, "final"))) {
        *ret_final = json_incref(json_get(summary, "final"));
    }
}

static char *liveness(const struct run_view *v, const char *state)
{
    if (!v->owner.held) {
        return xstrdup(strcmp(state, "interrupted") == 0 ? "interrupted (its owner is gone; `orch resume` goes on)"
                                                         : state);
    }
    if (v->owner.pid == 0) {
        return xstrdup("running");
    }
    return xasprintf("running (process %" PRIdMAX " on %s)", (intmax_t)v->owner.pid, v->owner.host);
}

static int facts_json(struct run_view *v, const char *state, json_t **ret, struct orch_err *err)
{
    AUTO_JSON json_t *run = json_object();
    json_set_str(run, "id", v->id);
    json_set_str(run, "directory", v->dir);
    json_set_str(run, "state", state);
    for (size_t i = 0; i < ARRAY_LEN(facts); i++) {
        AUTO_FREE char *value = NULL;
        TRY(run_view_meta(v, facts[i].key, &value, err));
        json_set_str(run, facts[i].key, value[0] != '\0' ? value : NULL);
    }
    json_t *final = NULL;
    read_final(v, &final);
    json_set_take(run, "final", final != NULL ? final : json_null());
    if (v->owner.held) {
        json_t *owner = json_object();
        json_set_int(owner, "pid", v->owner.pid);
        json_set_str(owner, "host", v->owner.host);
        json_set_flag(owner, "alive", v->owner.alive);
        json_set_take(run, "owner", owner);
    }
    *ret = take(run);
    return 0;
}

static int print_facts(const struct verb_call *call, struct run_view *v, const char *state, struct orch_err *err)
{
    show_fact(call, "run", v->id);
    AUTO_FREE char *live = liveness(v, state);
    show_fact(call, "state", live);
    for (size_t i = 0; i < ARRAY_LEN(facts); i++) {
        AUTO_FREE char *value = NULL;
        TRY(run_view_meta(v, facts[i].key, &value, err));
        show_fact(call, facts[i].label, value);
    }
    AUTO_JSON json_t *final = NULL;
    read_final(v, &final);
    if (final != NULL) {
        AUTO_FREE char *text = xasprintf("version %" PRId64 " (%.12s)", json_get_int(final, "version", 0),
                                         json_get_str(final, "commit", ""));
        show_fact(call, "final", text);
    }
    show_fact(call, "directory", v->dir);
    return 0;
}

static void print_table(const struct verb_call *call, const char *title, struct table *t)
{
    if (table_rows(t) > 0) {
        verb_print(call, "\n%s\n", title);
        table_print(call, t);
    }
}

/* Totals by split: a mean over training and held-out scores together would say nothing. */
static int splits(const struct verb_call *call, struct run_view *v, json_t *into, struct orch_err *err)
{
    for (int split = 0; split < SPLIT_COUNT; split++) {
        struct trial_filter filter = TRIAL_FILTER_ANY;
        struct trial_counts counts;
        filter.split = split;
        TRY(record_total(v->record, &filter, &counts, err));
        if (counts.planned == 0) {
            continue;
        }
        const char *name = split_text((enum split)split);
        json_set_take(into, name, row_json_counts(&counts));
        if (!call->json) {
            AUTO_FREE char *text = show_counts_text(&counts);
            show_fact(call, name, text);
        }
    }
    return 0;
}

static int print_run(const struct verb_call *call, struct overview *o, const char *state,
                     const struct trial_counts *total, struct orch_err *err)
{
    AUTO_JSON json_t *unused = json_object();
    TRY(print_facts(call, o->v, state, err));
    verb_print(call, "\n");
    if (total->planned == 0) {
        AUTO_FREE char *text = show_counts_text(total);
        show_fact(call, "trials", text);
    }
    TRY(splits(call, o->v, unused, err));
    show_fact(call, "grades", o->grades.len > 0 ? o->grades.data : "no call yet");
    print_table(call, "Steps", o->steps);
    print_table(call, "Evaluations", o->evals);
    print_table(call, "Versions", o->versions);
    print_table(call, "Usage", o->usage);
    return 0;
}

static int print_json(const struct verb_call *call, struct overview *o, const char *state,
                      const struct trial_counts *total, struct orch_err *err)
{
    AUTO_JSON json_t *document = verb_json();
    json_t *run = NULL;
    TRY(facts_json(o->v, state, &run, err));
    json_set_take(document, "run", run);
    json_t *counts = row_json_counts(total);
    json_set_take(counts, "mean", json_null()); /* over all splits together there is none */
    json_set_take(document, "counts", counts);
    json_t *by_split = json_object();
    json_set_take(document, "splits", by_split);
    TRY(splits(call, o->v, by_split, err));
    json_set_take(document, "grades", json_incref(o->json_grades));
    json_set_take(document, "steps", json_incref(o->json_steps));
    json_set_take(document, "evaluations", json_incref(o->json_evals));
    json_set_take(document, "versions", json_incref(o->json_versions));
    json_set_take(document, "usage", json_incref(o->json_usage));
    verb_print_json(call, take(document));
    return 0;
}

static int show_overview(const struct verb_call *call, struct overview *o, struct orch_err *err)
{
    AUTO_FREE char *state = NULL;
    struct trial_counts total;
    struct trial_filter all = TRIAL_FILTER_ANY;
    TRY(run_view_state(o->v, &state, err));
    TRY(gather(o, err));
    TRY(record_total(o->v->record, &all, &total, err));
    return call->json ? print_json(call, o, state, &total, err) : print_run(call, o, state, &total, err);
}

int show_run(const struct verb_call *call, struct run_view *v, struct orch_err *err)
{
    struct overview o;
    overview_init(&o, v);
    int code = show_overview(call, &o, err);
    overview_done(&o);
    return code;
}
