/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "orchestrator/row_json.h"
#include "orchestrator/show.h"
#include "orchestrator/table.h"

#include <inttypes.h>
#include <string.h>

/* ---- The list -------------------------------------------------------------- */

struct listing {
    struct table *table;
    json_t *json; /* NULL: a table */
};

static bool keep_row(void *arg, const struct trial_row *row)
{
    struct listing *l = arg;
    if (l->json != NULL) {
        json_add_take(l->json, row_json_trial(row, false));
        return true;
    }
    char took[CLOCK_TEXT_MAX];
    table_row(l->table);
    table_int(l->table, row->id);
    table_int(l->table, row->key.step);
    table_text(l->table, split_text(row->key.split));
    table_int(l->table, row->key.version);
    table_text(l->table, row->key.task);
    table_int(l->table, row->key.sample);
    table_int(l->table, row->key.repeat);
    table_text(l->table, row->phase == PHASE_SETTLED ? result_kind_text(row->result.kind) : phase_text(row->phase));
    table_score(l->table, row->result.has_score, row->result.score);
    table_text(l->table, row->phase == PHASE_SETTLED ? clock_duration(row->result.elapsed_ns, took) : NULL);
    table_text(l->table, row->result.grade);
    table_text(l->table, row->result.reason);
    return true;
}

/* A word from one of the record's tables, or an error that lists them. */
static int word_option(const struct verb_call *call, const char *name, int (*parse)(const char *text),
                       const char *known, int *ret, struct orch_err *err)
{
    const char *text = verb_option_value(call, name);
    if (text == NULL) {
        return 0;
    }
    int value = parse(text);
    if (value < 0) {
        return err_set(err, ORCH_E_USAGE, "--%s: one of %s is expected", name, known);
    }
    *ret = value;
    return 0;
}

int show_trials(const struct verb_call *call, struct run_view *v, struct orch_err *err)
{
    static const struct table_column columns[] = {
        {"TRIAL", TABLE_RIGHT}, {"STEP", TABLE_RIGHT},   {"SPLIT", TABLE_LEFT},   {"VERSION", TABLE_RIGHT},
        {"TASK", TABLE_CUT},    {"SAMPLE", TABLE_RIGHT}, {"REPEAT", TABLE_RIGHT}, {"RESULT", TABLE_LEFT},
        {"SCORE", TABLE_RIGHT}, {"TIME", TABLE_RIGHT},   {"GRADE", TABLE_LEFT},   {"REASON", TABLE_CUT},
        {NULL, TABLE_LEFT},
    };
    struct trial_filter filter = TRIAL_FILTER_ANY;
    filter.by_key = true;
    filter.task = verb_option_value(call, "task");
    TRY(verb_option_int(call, "step", 0, INT64_MAX, &filter.step, err));
    TRY(word_option(call, "split", split_parse, "train, val, test, rollout", &filter.split, err));
    TRY(word_option(call, "result", result_kind_parse,
                    "scored, agent-limit, infrastructure-error, judge-error, not-run", &filter.kind, err));
    AUTO_TABLE struct table *table = table_new(columns);
    AUTO_JSON json_t *array = call->json ? json_array() : NULL;
    struct listing l = {.table = table, .json = array};
    TRY(record_trials(v->record, &filter, keep_row, &l, err));
    if (!call->json) {
        if (table_rows(table) == 0) {
            verb_note(call, "no such trial in %s", v->id);
            return 0;
        }
        table_print(call, table);
        return 0;
    }
    json_t *document = verb_json();
    json_set_str(document, "run", v->id);
    json_set_take(document, "trials", take(array));
    verb_print_json(call, document);
    return 0;
}

/* ---- One trial ------------------------------------------------------------- */

#define SANDBOXES_MAX 256

struct one {
    const struct verb_call *call;
    json_t *trial, *calls, *sandboxes;
    struct table *table;
    int64_t sandbox_ids[SANDBOXES_MAX];
    size_t sandbox_count;
};

static void print_number(const struct verb_call *call, const char *label, int64_t n)
{
    verb_print(call, "%-12s %" PRId64 "\n", label, n);
}

/* Free text keeps its lines, indented; JSON is shown indented too. */
static void print_block(const struct verb_call *call, const char *label, const char *text)
{
    if (text == NULL || text[0] == '\0' || strcmp(text, "{}") == 0) {
        return;
    }
    AUTO_JSON json_t *value = row_json_value(text);
    AUTO_FREE char *pretty = json_is_object(value) || json_is_array(value) ? json_pretty(value) : xstrdup(text);
    verb_print(call, "\n%s\n", label);
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_TEXT);
    buf_escaped(&b, pretty, strlen(pretty), true);
    for (const char *line = b.data; *line != '\0';) {
        size_t len = strcspn(line, "\n");
        verb_print(call, "  %.*s\n", (int)len, line);
        line += len + (line[len] == '\n' ? 1 : 0);
    }
}

/* In the unit of the reason; a cap of the handoff only says that it was met. */
static void print_reached(const struct verb_call *call, const struct trial_result *r)
{
    static const char *const counts[] = {"processes", "entries", "depth", "path"};
    if (r->reason == NULL || r->reason_limit <= 0 || r->reason_value < 0) {
        return;
    }
    if (strcmp(r->reason, "timeout") == 0 || strcmp(r->reason, "cpu") == 0) {
        verb_print(call, "%-12s %.2f s of %.2f s\n", "reached", r->reason_value / 1e9, r->reason_limit / 1e9);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        if (strcmp(r->reason, counts[i]) == 0) {
            verb_print(call, "%-12s %.0f of %.0f\n", "reached", r->reason_value, r->reason_limit);
            return;
        }
    }
    verb_print(call, "%-12s %.1f MiB of %.1f MiB\n", "reached", r->reason_value / 1048576, r->reason_limit / 1048576);
}

static void print_trial(const struct verb_call *call, const struct trial_row *row)
{
    const struct trial_result *r = &row->result;
    char text[CLOCK_TEXT_MAX];
    print_number(call, "trial", row->id);
    show_fact(call, "task", row->key.task);
    print_number(call, "version", row->key.version);
    print_number(call, "step", row->key.step);
    show_fact(call, "split", split_text(row->key.split));
    print_number(call, "sample", row->key.sample);
    print_number(call, "repeat", row->key.repeat);
    print_number(call, "incarnation", row->incarnation);
    show_fact(call, "phase", phase_text(row->phase));
    show_fact(call, "result", result_kind_text(r->kind));
    if (r->has_score) {
        verb_print(call, "%-12s %.6g\n", "score", r->score);
    }
    show_fact(call, "reason", r->reason);
    show_fact(call, "why", r->reason_text);
    print_reached(call, r);
    show_fact(call, "grade", r->grade);
    if (row->phase == PHASE_SETTLED) {
        show_fact(call, "took", clock_duration(r->elapsed_ns, text));
    }
    show_fact(call, "planned", clock_iso(row->planned_ns, text));
    show_fact(call, "updated", clock_iso(row->updated_ns, text));
    show_fact(call, "output", r->output_tree);
    show_fact(call, "trajectory", r->trajectory);
    print_block(call, "Metrics", r->metrics);
    print_block(call, "Feedback", r->feedback);
    print_block(call, "Evidence", r->evidence);
}

static bool take_trial(void *arg, const struct trial_row *row)
{
    struct one *one = arg;
    if (one->call->json) {
        one->trial = row_json_trial(row, true);
    } else {
        print_trial(one->call, row);
    }
    return false;
}

static void exit_cell(struct table *t, const struct call_row *row)
{
    if (row->phase != PHASE_SETTLED) {
        table_text(t, phase_text(row->phase));
    } else if (row->result.exit == EXIT_EXITED || row->result.exit == EXIT_SIGNALLED) {
        table_cell(t, "%s %d", exit_kind_text(row->result.exit), row->result.code);
    } else {
        table_text(t, exit_kind_text(row->result.exit));
    }
}

static bool take_call(void *arg, const struct call_row *row)
{
    struct one *one = arg;
    if (row->plan.sandbox > 0 && one->sandbox_count < SANDBOXES_MAX) {
        one->sandbox_ids[one->sandbox_count++] = row->plan.sandbox;
    }
    if (one->call->json) {
        json_add_take(one->calls, row_json_call(row));
        return true;
    }
    struct table *t = one->table;
    char took[CLOCK_TEXT_MAX];
    table_row(t);
    table_int(t, row->id);
    table_text(t, call_kind_text(row->plan.kind));
    table_int(t, row->plan.incarnation);
    exit_cell(t, row);
    table_text(t, row->result.reason);
    table_text(t, row->result.usage.wall_ns >= 0 ? clock_duration(row->result.usage.wall_ns, took) : NULL);
    table_text(t, row->result.usage.cpu_ns >= 0 ? clock_duration(row->result.usage.cpu_ns, took) : NULL);
    if (row->result.usage.rss_bytes >= 0) {
        table_cell(t, "%.1f MiB", (double)row->result.usage.rss_bytes / 1048576);
    } else {
        table_text(t, NULL);
    }
    table_text(t, row->plan.environment);
    table_text(t, row->plan.model);
    table_text(t, row->result.grade);
    return true;
}

static bool take_sandbox(void *arg, const struct sandbox_row *row)
{
    struct one *one = arg;
    bool ours = false;
    for (size_t i = 0; i < one->sandbox_count; i++) {
        ours = ours || one->sandbox_ids[i] == row->id;
    }
    if (ours) {
        json_add_take(one->sandboxes, row_json_sandbox(row));
    }
    return true;
}

static int show_one(struct one *one, struct run_view *v, int64_t trial, struct orch_err *err)
{
    const struct verb_call *call = one->call;
    struct call_filter filter = CALL_FILTER_ANY;
    filter.trial = trial;
    TRY(record_trial(v->record, trial, take_trial, one, err));
    TRY(record_calls(v->record, &filter, take_call, one, err));
    if (call->json) {
        TRY(record_sandboxes(v->record, false, take_sandbox, one, err));
        json_t *document = verb_json();
        json_set_str(document, "run", v->id);
        json_set_take(document, "trial", take(one->trial));
        json_set_take(document, "calls", take(one->calls));
        json_set_take(document, "sandboxes", take(one->sandboxes));
        verb_print_json(call, document);
        return 0;
    }
    if (table_rows(one->table) > 0) {
        verb_print(call, "\nCalls\n");
        table_print(call, one->table);
        verb_print(call, "\n`orch logs %s %" PRId64 "` shows their output\n", v->id, trial);
    }
    return 0;
}

int show_trial(const struct verb_call *call, struct run_view *v, int64_t trial, struct orch_err *err)
{
    static const struct table_column columns[] = {
        {"CALL", TABLE_RIGHT}, {"KIND", TABLE_LEFT},  {"INCARNATION", TABLE_RIGHT}, {"END", TABLE_LEFT},
        {"REASON", TABLE_CUT}, {"TIME", TABLE_RIGHT}, {"CPU", TABLE_RIGHT},         {"MEMORY", TABLE_RIGHT},
        {"WHERE", TABLE_LEFT}, {"MODEL", TABLE_LEFT}, {"GRADE", TABLE_LEFT},        {NULL, TABLE_LEFT},
    };
    struct one one = {
        .call = call,
        .calls = json_array(),
        .sandboxes = json_array(),
        .table = table_new(columns),
    };
    int code = show_one(&one, v, trial, err);
    json_decref(one.trial);
    json_decref(one.calls);
    json_decref(one.sandboxes);
    table_free(one.table);
    return code;
}
