/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/finish.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "orchestrator/budget.h"
#include "orchestrator/row_json.h"
#include "orchestrator/table.h"
#include "state/durable.h"
#include "state/redact.h"

#include <stdio.h>
#include <string.h>

#define STATUS_FAILURES 1
#define STATUS_BUDGET 5

/* ------------------------------------------------------------------ summary.json */

static bool add_step(void *arg, const struct step_row *row)
{
    json_add_take(arg, row_json_step(row));
    return true;
}

static bool add_version(void *arg, const struct version_add *row, int64_t added_ns)
{
    json_add_take(arg, row_json_version(row, added_ns));
    return true;
}

static bool add_grade(void *arg, const char *grade, int64_t calls)
{
    json_set_int(arg, grade != NULL ? grade : "unknown", calls);
    return true;
}

static int split_counts(struct engine *e, enum split split, struct trial_counts *ret, struct orch_err *err)
{
    struct trial_filter filter = TRIAL_FILTER_ANY;
    filter.split = split;
    return record_total(e->record, &filter, ret, err);
}

static bool add_failed(void *arg, const struct failed_calls *row)
{
    json_t *o = json_object();
    json_set_int(o, "failed", row->failed);
    json_set_int(o, "calls", row->calls);
    json_set_int(o, "first", row->first);
    json_set_take(arg, call_kind_text(row->kind), o);
    return true;
}

static int add_results(struct engine *e, json_t *s, struct orch_err *err)
{
    json_t *results = json_object();
    json_set_take(s, "results", results);
    for (int split = 0; split < SPLIT_COUNT; split++) {
        struct trial_counts counts;
        TRY(split_counts(e, (enum split)split, &counts, err));
        if (counts.planned > 0) {
            json_set_take(results, split_text((enum split)split), row_json_counts(&counts));
        }
    }
    return 0;
}

static int make_summary(struct engine *e, const struct finish *f, json_t **ret, struct orch_err *err)
{
    AUTO_JSON json_t *s = json_object();
    char when[CLOCK_TEXT_MAX];
    json_set_int(s, "version", 1);
    json_set_str(s, "run", e->run_id);
    json_set_str(s, "name", e->config->name);
    json_set_str(s, "kind", f->kind);
    json_set_str(s, "stop_reason", f->stop_reason);
    json_set_str(s, "finished", clock_iso(clock_wall_ns(&e->clock), when));
    json_set_str(s, "environment", config_environment_names[e->config->task.environment.kind]);
    if (f->final != NULL) {
        json_t *final = json_object();
        json_set_int(final, "version", f->final->number);
        json_set_str(final, "commit", f->final->sha);
        json_set_take(s, "final", final);
    }
    if (f->adapter != NULL) {
        json_set_str(s, "adapter", f->adapter);
        json_set_str(s, "source_run", f->source_run);
    }
    TRY(add_results(e, s, err));
    json_t *grades = json_object();
    json_set_take(s, "grades", grades);
    TRY(record_grades(e->record, add_grade, grades, err));
    json_t *failed = json_object();
    json_set_take(s, "failed_calls", failed);
    TRY(record_failed_calls(e->record, add_failed, failed, err));
    json_t *steps = json_array();
    json_set_take(s, "steps", steps);
    TRY(record_steps(e->record, add_step, steps, err));
    json_t *versions = json_array();
    json_set_take(s, "versions", versions);
    TRY(record_versions(e->record, add_version, versions, err));
    int64_t calls = 0;
    struct call_usage usage;
    TRY(record_usage(e->record, -1, &calls, &usage, err));
    json_set_take(s, "usage", row_json_usage(calls, &usage));
    *ret = take(s);
    return 0;
}

/* ------------------------------------------------------------------ for people */

static void counts_line(struct buf *b, const char *split, const json_t *c)
{
    buf_fmt(b,
            "%s: planned %lld, scored %lld, limited %lld, infrastructure errors %lld, judge errors %lld, not run %lld",
            split, (long long)json_get_int(c, "planned", 0), (long long)json_get_int(c, "scored", 0),
            (long long)json_get_int(c, "limited", 0), (long long)json_get_int(c, "infrastructure", 0),
            (long long)json_get_int(c, "judge_errors", 0), (long long)json_get_int(c, "not_run", 0));
    if (json_is_number(json_get(c, "mean"))) {
        buf_fmt(b, "; mean %.4f over %lld trials with a score", json_get_num(c, "mean", 0),
                (long long)json_get_int(c, "scores", 0));
    }
    buf_char(b, '\n');
}

static void result_lines(struct buf *b, const json_t *summary)
{
    const char *split;
    json_t *counts;
    json_object_foreach(json_get(summary, "results"), split, counts)
    {
        counts_line(b, split, counts);
    }
    buf_str(b, "grades:");
    const char *grade;
    json_t *n;
    json_object_foreach(json_get(summary, "grades"), grade, n)
    {
        buf_fmt(b, " %s %lld", grade, (long long)json_integer_value(n));
    }
    buf_char(b, '\n');
}

/* A program that fails is no failure of the run, but a score over such calls says little: nobody may miss it. */
static void failed_lines(struct buf *b, const json_t *summary)
{
    const char *kind;
    json_t *c;
    json_object_foreach(json_get(summary, "failed_calls"), kind, c)
    {
        buf_fmt(b, "failed calls: %s %lld of %lld did not exit with 0; look at one: orch logs %s --call %lld\n", kind,
                (long long)json_get_int(c, "failed", 0), (long long)json_get_int(c, "calls", 0),
                json_get_str(summary, "run", ""), (long long)json_get_int(c, "first", 0));
    }
}

static void fill_table(struct table *t, const json_t *summary)
{
    size_t i;
    const json_t *row;
    json_array_foreach(json_get(summary, "steps"), i, row)
    {
        const json_t *data = json_get(row, "data");
        bool known = json_is_number(json_get(data, "mean_score"));
        table_row(t);
        table_int(t, json_get_int(row, "number", 0));
        table_score(t, known, json_get_num(data, "mean_score", 0));
        table_text(t, json_get_str(row, "outcome", ""));
        table_int(t, json_get_int(row, "new_version", 0));
        table_text(t, row_json_step_reason(data));
    }
}

static char *steps_table(const json_t *summary)
{
    static const struct table_column columns[] = {{"STEP", TABLE_RIGHT},   {"TRAIN SCORE", TABLE_RIGHT},
                                                  {"OUTCOME", TABLE_LEFT}, {"VERSION AFTER", TABLE_RIGHT},
                                                  {"REASON", TABLE_CUT},   {NULL, TABLE_LEFT}};
    AUTO_TABLE struct table *t = table_new(columns);
    fill_table(t, summary);
    return table_render(t, 0);
}

static void print_result(const struct engine *e, const struct finish *f, json_t *summary)
{
    if (e->call->json) {
        json_t *line = json_object();
        json_set_int(line, "version", 1);
        json_set_take(line, "summary", json_incref(summary));
        AUTO_FREE char *text = json_dumps(line, JSON_COMPACT);
        puts(text);
        json_decref(line);
        return;
    }
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_TEXT);
    if (strcmp(f->kind, "run") == 0) {
        AUTO_FREE char *table = steps_table(summary);
        buf_str(&b, table);
    }
    result_lines(&b, summary);
    failed_lines(&b, summary);
    if (f->final != NULL) {
        buf_fmt(&b, "final: version %lld (%.12s), stopped by %s\n", (long long)f->final->number, f->final->sha,
                f->stop_reason);
    }
    buf_fmt(&b, "run %s\n", e->run_id);
    verb_print(e->call, "%s", b.data);
}

static char *card_text(const struct engine *e, const struct finish *f, const json_t *summary)
{
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_TEXT);
    buf_fmt(&b, "# %s\n\nRun `%s`, finished %s, stopped by %s.\n\n", e->config->name, e->run_id,
            json_get_str(summary, "finished", ""), f->stop_reason);
    if (f->final != NULL) {
        buf_fmt(&b, "Final version: %lld, commit `%s`.\n\n", (long long)f->final->number, f->final->sha);
    }
    if (f->adapter != NULL) {
        buf_fmt(&b, "Adapter `%s` of run `%s` on the test split.\n\n", f->adapter, f->source_run);
    }
    buf_str(&b, "## Results\n\n```\n");
    result_lines(&b, summary);
    failed_lines(&b, summary);
    buf_str(&b, "```\n");
    if (strcmp(f->kind, "run") == 0) {
        AUTO_FREE char *table = steps_table(summary);
        buf_fmt(&b, "\n## Steps\n\nA step's score belongs to the version before its update.\n\n```\n%s```\n", table);
    }
    return buf_take(&b, NULL);
}

static int write_file(const struct engine *e, const char *name, const char *text, struct orch_err *err)
{
    AUTO_FREE char *path = path_join(e->run_dir, name);
    AUTO_FREE char *clean = redact_text(e->redactor, text);
    return durable_write_path(path, clean, strlen(clean), 0644, err);
}

static int exit_status(const struct engine *e, const struct finish *f, const json_t *summary)
{
    int64_t planned = 0;
    int64_t failed = 0;
    const char *split;
    json_t *c;
    json_object_foreach(json_get(summary, "results"), split, c)
    {
        planned += json_get_int(c, "planned", 0);
        failed += json_get_int(c, "infrastructure", 0) + json_get_int(c, "judge_errors", 0);
    }
    if (strcmp(f->stop_reason, "budget") == 0) {
        return STATUS_BUDGET;
    }
    const json_t *evolver = json_get(json_get(summary, "failed_calls"), "evolver");
    if (evolver != NULL && json_get_int(evolver, "failed", 0) == json_get_int(evolver, "calls", 0)) {
        return STATUS_FAILURES; /* nothing can have been learned */
    }
    return planned > 0 && (double)failed / (double)planned > e->config->retry.stop_share ? STATUS_FAILURES : 0;
}

int finish_run(struct engine *e, const struct finish *f, int *ret_status, struct orch_err *err)
{
    TRY(budget_keep(e, err));
    TRY(engine_settle(e, err));
    AUTO_JSON json_t *summary = NULL;
    TRY(make_summary(e, f, &summary, err));
    AUTO_FREE char *text = json_pretty(summary);
    TRY(write_file(e, RUN_SUMMARY, text, err));
    AUTO_FREE char *card = card_text(e, f, summary);
    TRY(write_file(e, RUN_CARD, card, err));
    TRY(fault_point(FAULT_RUN_SUMMARY, err));
    *ret_status = exit_status(e, f, summary);
    bool by_budget = strcmp(f->stop_reason, "budget") == 0;
    TRY(record_meta_set(e->record, "outcome", f->stop_reason, RECORD_FSYNC(NULL, NULL), err));
    TRY(record_meta_set(e->record, "state", by_budget ? "stopped" : "finished", RECORD_FSYNC(NULL, NULL), err));
    TRY(engine_settle(e, err));
    TRY(fault_point(FAULT_RUN_FINISHED, err));
    progress_free(e->progress);
    e->progress = NULL;
    print_result(e, f, summary);
    return 0;
}

void finish_stopped(struct engine *e, const struct orch_err *why)
{
    if (e->record == NULL || !e->loop_ready) {
        return;
    }
    struct orch_err ignored = ERR_INIT; /* the reason that is told is `why` */
    (void)!budget_keep(e, &ignored);
    (void)!record_meta_set(e->record, "outcome", err_name(why->code), NULL, &ignored);
    (void)!record_meta_set(e->record, "state", "stopped", RECORD_FSYNC(NULL, NULL), &ignored);
    (void)!engine_settle(e, &ignored);
}
