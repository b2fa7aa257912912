/* SPDX-License-Identifier: Apache-2.0 */
/* Reading: one statement a question, rows handed to a callback as they come, so memory does not grow with the run. */
#include "state/record_internal.h"

#include "base/buf.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

#define QUERY_VALUES_MAX 12

struct query {
    struct buf sql;
    struct value values[QUERY_VALUES_MAX];
    int count;
    bool where; /* a condition was added */
};

static void query_init(struct query *q, const char *select)
{
    *q = (struct query){.count = 0};
    buf_init(&q->sql, BUF_MAX_LINE);
    buf_str(&q->sql, select);
}

static void query_done(struct query *q)
{
    buf_done(&q->sql);
}
#define AUTO_QUERY __attribute__((cleanup(query_done)))

static void query_where(struct query *q, const char *condition)
{
    buf_fmt(&q->sql, " %s %s", q->where ? "AND" : "WHERE", condition);
    q->where = true;
}

static void query_int(struct query *q, const char *condition, int64_t value)
{
    query_where(q, condition);
    q->values[q->count++] = (struct value){.type = VALUE_INT, .i = value};
}

static void query_text(struct query *q, const char *condition, const char *value)
{
    query_where(q, condition);
    q->values[q->count++] = (struct value){.type = VALUE_TEXT, .len = strlen(value), .text = value};
}

/* One row; false stops. A callback may set *r to an error. */
typedef bool (*row_fn)(sqlite3_stmt *s, void *arg, int *r, struct orch_err *err);

static int run_locked(struct record *rec, const struct query *q, row_fn each, void *arg, struct orch_err *err)
{
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(rec->read, q->sql.data, -1, &s, NULL);
    int r = rc == SQLITE_OK ? 0 : record_sql_error(rec->read, rc, err, "read");

    for (int i = 0; r == 0 && i < q->count; i++) {
        const struct value *v = &q->values[i];
        (void)(v->type == VALUE_INT ? sqlite3_bind_int64(s, i + 1, v->i)
                                    : sqlite3_bind_text(s, i + 1, v->text, (int)v->len, SQLITE_STATIC));
    }
    while (r == 0) {
        rc = sqlite3_step(s);
        if (rc != SQLITE_ROW) {
            r = rc == SQLITE_DONE ? 0 : record_sql_error(rec->read, rc, err, "read");
            break;
        }
        if (!each(s, arg, &r, err)) {
            break;
        }
    }
    sqlite3_finalize(s);
    return r;
}

static int run(struct record *rec, const struct query *q, row_fn each, void *arg, struct orch_err *err)
{
    pthread_mutex_lock(&rec->read_lock);
    int r = run_locked(rec, q, each, arg, err);
    pthread_mutex_unlock(&rec->read_lock);
    return r;
}

static const char *column_text(sqlite3_stmt *s, int i)
{
    return (const char *)sqlite3_column_text(s, i);
}

static int64_t column_ref(sqlite3_stmt *s, int i, int64_t none)
{
    return sqlite3_column_type(s, i) == SQLITE_NULL ? none : sqlite3_column_int64(s, i);
}

/* A word of a table; what is not one shows as the first: CHECK constraints keep it from happening. */
static int column_word(sqlite3_stmt *s, int i, int (*parse)(const char *))
{
    int value = parse(column_text(s, i));
    return value < 0 ? 0 : value;
}

/* ---- Meta ---- */

static bool take_text(sqlite3_stmt *s, void *arg, int *r, struct orch_err *err)
{
    char **ret = arg;
    (void)r;
    (void)err;
    *ret = xstrdup(column_text(s, 0));
    return false;
}

int record_meta_get(struct record *rec, const char *key, char **ret, struct orch_err *err)
{
    AUTO_QUERY struct query q;
    char *value = NULL;

    query_init(&q, "SELECT value FROM meta");
    query_text(&q, "key=?", key);
    TRY(run(rec, &q, take_text, &value, err));
    if (!value) {
        return err_set(err, ORCH_E_NOT_FOUND, "record: no meta \"%s\"", key);
    }
    *ret = value;
    return 0;
}

int record_meta_text(struct record *rec, const char *key, char **ret, struct orch_err *err)
{
    int r = record_meta_get(rec, key, ret, err);
    if (r == ORCH_E_NOT_FOUND) {
        err_clear(err);
        *ret = xstrdup("");
        return 0;
    }
    return r;
}

struct meta_each {
    bool (*each)(void *arg, const char *key, const char *value);
    void *arg;
};

static bool meta_row(sqlite3_stmt *s, void *arg, int *r, struct orch_err *err)
{
    struct meta_each *m = arg;
    (void)r;
    (void)err;
    return m->each(m->arg, column_text(s, 0), column_text(s, 1));
}

int record_meta_each(struct record *rec, bool (*each)(void *arg, const char *key, const char *value), void *arg,
                     struct orch_err *err)
{
    AUTO_QUERY struct query q;
    query_init(&q, "SELECT key, value FROM meta WHERE substr(key, 1, 1) <> '_' ORDER BY key");
    return run(rec, &q, meta_row, &(struct meta_each){each, arg}, err);
}

/* ---- Trials ---- */

static void query_trials(struct query *q, const struct trial_filter *f)
{
    if (f->step >= 0) {
        query_int(q, "step=?", f->step);
    }
    if (f->split >= 0) {
        query_text(q, "split=?", split_text((enum split)f->split));
    }
    if (f->version != INT64_MIN) {
        query_int(q, "coalesce(version,-1)=?", f->version);
    }
    if (f->repeat >= 0) {
        query_int(q, "repeat=?", f->repeat);
    }
    if (f->phase >= 0) {
        query_text(q, "phase=?", phase_text((enum phase)f->phase));
    }
    if (f->kind >= 0) {
        query_text(q, "kind=?", result_kind_text((enum result_kind)f->kind));
    }
    if (f->task) {
        query_text(q, "task=?", f->task);
    }
    if (f->unsettled) {
        query_where(q, "phase<>'settled'");
    }
}

struct trial_each {
    bool (*each)(void *arg, const struct trial_row *row);
    void *arg;
    int64_t count;
};

#define TRIAL_COLUMNS                                                                                                  \
    "SELECT id,version,task,sample,repeat,step,split,incarnation,phase,kind,score,metrics,feedback,reason,"            \
    "reason_text,reason_value,reason_limit,elapsed_ns,grade,output_tree,trajectory,evidence,planned_ns,updated_ns"     \
    " FROM trials"

static bool trial_each_row(sqlite3_stmt *s, void *arg, int *r, struct orch_err *err)
{
    struct trial_each *t = arg;
    (void)r;
    (void)err;
    struct trial_row row = {
        .id = sqlite3_column_int64(s, 0),
        .key = {.version = column_ref(s, 1, VERSION_NONE),
                .task = column_text(s, 2),
                .sample = sqlite3_column_int64(s, 3),
                .repeat = sqlite3_column_int64(s, 4),
                .step = sqlite3_column_int64(s, 5),
                .split = (enum split)column_word(s, 6, split_parse)},
        .incarnation = sqlite3_column_int64(s, 7),
        .phase = (enum phase)column_word(s, 8, phase_parse),
        .result = {.kind = (enum result_kind)column_word(s, 9, result_kind_parse),
                   .has_score = sqlite3_column_type(s, 10) != SQLITE_NULL,
                   .score = sqlite3_column_double(s, 10),
                   .metrics = column_text(s, 11),
                   .feedback = column_text(s, 12),
                   .reason = column_text(s, 13),
                   .reason_text = column_text(s, 14),
                   .reason_value = sqlite3_column_double(s, 15),
                   .reason_limit = sqlite3_column_double(s, 16),
                   .elapsed_ns = sqlite3_column_int64(s, 17),
                   .grade = column_text(s, 18),
                   .output_tree = column_text(s, 19),
                   .trajectory = column_text(s, 20),
                   .evidence = column_text(s, 21)},
        .planned_ns = sqlite3_column_int64(s, 22),
        .updated_ns = sqlite3_column_int64(s, 23),
    };
    t->count++;
    return t->each(t->arg, &row);
}

int record_trials(struct record *rec, const struct trial_filter *filter,
                  bool (*each)(void *arg, const struct trial_row *row), void *arg, struct orch_err *err)
{
    AUTO_QUERY struct query q;
    query_init(&q, TRIAL_COLUMNS);
    query_trials(&q, filter);
    buf_str(&q.sql,
            filter->by_key ? " ORDER BY step, split, coalesce(version,-1), repeat, task, sample" : " ORDER BY id");
    return run(rec, &q, trial_each_row, &(struct trial_each){each, arg, 0}, err);
}

int record_trial(struct record *rec, int64_t trial, bool (*each)(void *arg, const struct trial_row *row), void *arg,
                 struct orch_err *err)
{
    AUTO_QUERY struct query q;
    struct trial_each t = {each, arg, 0};
    query_init(&q, TRIAL_COLUMNS);
    query_int(&q, "id=?", trial);
    TRY(run(rec, &q, trial_each_row, &t, err));
    return t.count ? 0 : err_set(err, ORCH_E_NOT_FOUND, "there is no trial %lld", (long long)trial);
}

/* ---- Calls and sandboxes ---- */

struct call_each {
    bool (*each)(void *arg, const struct call_row *row);
    void *arg;
};

static bool call_each_row(sqlite3_stmt *s, void *arg, int *r, struct orch_err *err)
{
    struct call_each *c = arg;
    (void)r;
    (void)err;
    struct call_row row = {
        .id = sqlite3_column_int64(s, 0),
        .plan = {.kind = (enum call_kind)column_word(s, 1, call_kind_parse),
                 .trial = column_ref(s, 2, 0),
                 .incarnation = sqlite3_column_int64(s, 3),
                 .step = column_ref(s, 4, -1),
                 .sandbox = column_ref(s, 5, 0),
                 .parent = column_ref(s, 6, 0),
                 .environment = column_text(s, 7),
                 .model = column_text(s, 8),
                 .spec = column_text(s, 9)},
        .phase = (enum phase)column_word(s, 10, phase_parse),
        .outside_name = column_text(s, 11),
        .result = {.exit = (enum exit_kind)column_word(s, 12, exit_kind_parse),
                   .code = sqlite3_column_int(s, 13),
                   .reason = column_text(s, 14),
                   .grade = column_text(s, 15),
                   .output_tree = column_text(s, 16),
                   .stdout_digest = column_text(s, 17),
                   .stderr_digest = column_text(s, 18),
                   .usage = {.wall_ns = sqlite3_column_int64(s, 19),
                             .cpu_ns = sqlite3_column_int64(s, 20),
                             .rss_bytes = sqlite3_column_int64(s, 21),
                             .requests = sqlite3_column_int64(s, 22),
                             .tokens_in = sqlite3_column_int64(s, 23),
                             .tokens_out = sqlite3_column_int64(s, 24),
                             .tokens_cached = sqlite3_column_int64(s, 25),
                             .usd = sqlite3_column_double(s, 26),
                             .usd_known = sqlite3_column_type(s, 26) != SQLITE_NULL},
                   .data = column_text(s, 27)},
        .planned_ns = sqlite3_column_int64(s, 28),
        .updated_ns = sqlite3_column_int64(s, 29),
    };
    return c->each(c->arg, &row);
}

int record_calls(struct record *rec, const struct call_filter *filter,
                 bool (*each)(void *arg, const struct call_row *row), void *arg, struct orch_err *err)
{
    AUTO_QUERY struct query q;
    query_init(&q,
               "SELECT id,kind,trial,incarnation,step,sandbox,parent,environment,model,spec,phase,outside_name,exit,"
               "code,reason,grade,output_tree,stdout,stderr,wall_ns,cpu_ns,rss_bytes,requests,tokens_in,tokens_out,"
               "tokens_cached,usd,data,planned_ns,updated_ns FROM calls");
    if (filter->trial) {
        query_int(&q, "trial=?", filter->trial);
    }
    if (filter->step >= 0) {
        query_int(&q, "step=?", filter->step);
    }
    if (filter->kind >= 0) {
        query_text(&q, "kind=?", call_kind_text((enum call_kind)filter->kind));
    }
    if (filter->unsettled) {
        query_where(&q, "phase<>'settled'");
    }
    buf_str(&q.sql, " ORDER BY id");
    return run(rec, &q, call_each_row, &(struct call_each){each, arg}, err);
}

struct sandbox_each {
    bool (*each)(void *arg, const struct sandbox_row *row);
    void *arg;
};

static bool sandbox_each_row(sqlite3_stmt *s, void *arg, int *r, struct orch_err *err)
{
    struct sandbox_each *e = arg;
    (void)r;
    (void)err;
    struct sandbox_row row = {
        .id = sqlite3_column_int64(s, 0),
        .phase = (enum sandbox_phase)column_word(s, 1, sandbox_phase_parse),
        .open = {.role = column_text(s, 2),
                 .environment = column_text(s, 3),
                 .mechanism = column_text(s, 4),
                 .name = column_text(s, 5),
                 .asked = column_text(s, 6)},
        .grade = column_text(s, 7),
        .enforced = column_text(s, 8),
        .checked = column_text(s, 9),
        .how = column_text(s, 10),
        .opened_ns = sqlite3_column_int64(s, 11),
        .updated_ns = sqlite3_column_int64(s, 12),
    };
    return e->each(e->arg, &row);
}

int record_sandboxes(struct record *rec, bool only_unclosed, bool (*each)(void *arg, const struct sandbox_row *row),
                     void *arg, struct orch_err *err)
{
    AUTO_QUERY struct query q;
    query_init(&q, "SELECT id,phase,role,environment,mechanism,name,asked,grade,enforced,checked,how,opened_ns,"
                   "updated_ns FROM sandboxes");
    if (only_unclosed) {
        query_where(&q, "phase<>'closed'");
    }
    buf_str(&q.sql, " ORDER BY id");
    return run(rec, &q, sandbox_each_row, &(struct sandbox_each){each, arg}, err);
}

/* ---- Steps, versions, events ---- */

struct step_each {
    bool (*each)(void *arg, const struct step_row *row);
    void *arg;
};

static bool step_each_row(sqlite3_stmt *s, void *arg, int *r, struct orch_err *err)
{
    struct step_each *e = arg;
    (void)r;
    (void)err;
    struct step_row row = {
        .number = sqlite3_column_int64(s, 0),
        .state = (enum step_state)column_word(s, 1, step_state_parse),
        .base_version = column_ref(s, 2, VERSION_NONE),
        .version = column_ref(s, 3, VERSION_NONE),
        .outcome = column_text(s, 4),
        .order = column_text(s, 5),
        .data = column_text(s, 6),
        .planned_ns = sqlite3_column_int64(s, 7),
        .updated_ns = sqlite3_column_int64(s, 8),
    };
    return e->each(e->arg, &row);
}

int record_steps(struct record *rec, bool (*each)(void *arg, const struct step_row *row), void *arg,
                 struct orch_err *err)
{
    AUTO_QUERY struct query q;
    query_init(&q, "SELECT number,state,base_version,version,outcome,task_order,data,planned_ns,updated_ns FROM steps"
                   " ORDER BY number");
    return run(rec, &q, step_each_row, &(struct step_each){each, arg}, err);
}

struct version_each {
    bool (*each)(void *arg, const struct version_add *row, int64_t added_ns);
    void *arg;
};

static bool version_each_row(sqlite3_stmt *s, void *arg, int *r, struct orch_err *err)
{
    struct version_each *e = arg;
    AUTO_JSON json_t *list = NULL;
    AUTO_FREE int64_t *parents = NULL;
    const char *text = column_text(s, 3);

    if (json_parse(text, strlen(text), RECORD_TEXT_MAX, &list, err) < 0 || !json_is_array(list)) {
        *r = err_set(err, ORCH_E_DAMAGED, "record: the parents of a version are not a list");
        return false;
    }
    size_t n = json_array_size(list);
    parents = xcalloc(n + 1, sizeof *parents);
    for (size_t i = 0; i < n; i++) {
        parents[i] = json_integer_value(json_array_get(list, i));
    }
    struct version_add row = {
        .number = sqlite3_column_int64(s, 0),
        .state = (enum version_state)column_word(s, 1, version_state_parse),
        .step = sqlite3_column_int64(s, 2),
        .parents = parents,
        .parent_count = n,
        .sha = column_text(s, 4),
        .tree = column_text(s, 5),
        .reason = column_text(s, 6),
        .data = column_text(s, 7),
    };
    return e->each(e->arg, &row, sqlite3_column_int64(s, 8));
}

int record_versions(struct record *rec, bool (*each)(void *arg, const struct version_add *row, int64_t added_ns),
                    void *arg, struct orch_err *err)
{
    AUTO_QUERY struct query q;
    query_init(&q, "SELECT number,state,step,parents,sha,tree,reason,data,added_ns FROM versions ORDER BY number");
    return run(rec, &q, version_each_row, &(struct version_each){each, arg}, err);
}

struct event_each {
    bool (*each)(void *arg, const struct event_row *row);
    void *arg;
};

static bool event_each_row(sqlite3_stmt *s, void *arg, int *r, struct orch_err *err)
{
    struct event_each *e = arg;
    (void)r;
    (void)err;
    struct event_row row = {
        .seq = sqlite3_column_int64(s, 0),
        .wall_ns = sqlite3_column_int64(s, 1),
        .kind = column_text(s, 2),
        .subject = column_text(s, 3),
        .data = column_text(s, 4),
        .hash = column_text(s, 5),
    };
    return e->each(e->arg, &row);
}

int record_events(struct record *rec, int64_t since, int64_t limit,
                  bool (*each)(void *arg, const struct event_row *row), void *arg, struct orch_err *err)
{
    AUTO_QUERY struct query q;
    query_init(&q, "SELECT seq,wall_ns,kind,subject,data,hash FROM events");
    query_int(&q, "seq>?", since);
    buf_str(&q.sql, " ORDER BY seq");
    if (limit > 0) {
        buf_fmt(&q.sql, " LIMIT %lld", (long long)limit);
    }
    return run(rec, &q, event_each_row, &(struct event_each){each, arg}, err);
}

/* ---- Counts ---- */

#define COUNT_COLUMNS                                                                                                  \
    "count(*), sum(kind='not-run'), sum(kind='scored'), sum(kind='agent-limit'), sum(kind='infrastructure-error'),"    \
    "sum(kind='judge-error'), count(score), avg(score), min(score), max(score), sum(score*score), sum(score)"

/* Columns from `i` on. The order above is that of RESULT_TABLE. */
static void read_counts(sqlite3_stmt *s, int i, struct trial_counts *c)
{
    *c = (struct trial_counts){.planned = sqlite3_column_int64(s, i)};
    for (int k = 0; k < RESULT_COUNT; k++) {
        c->kind[k] = sqlite3_column_int64(s, i + 1 + k);
    }
    i += 1 + RESULT_COUNT;
    c->scores = sqlite3_column_int64(s, i);
    if (c->scores > 0) {
        c->mean = sqlite3_column_double(s, i + 1);
        c->min = sqlite3_column_double(s, i + 2);
        c->max = sqlite3_column_double(s, i + 3);
    }
    if (c->scores > 1) {
        double n = (double)c->scores;
        double sum = sqlite3_column_double(s, i + 5);
        c->variance = fmax(0, (sqlite3_column_double(s, i + 4) - sum * sum / n) / (n - 1));
    }
}

struct counts_each {
    bool (*each)(void *arg, const struct counts_row *row);
    void *arg;
};

static bool counts_each_row(sqlite3_stmt *s, void *arg, int *r, struct orch_err *err)
{
    struct counts_each *e = arg;
    (void)r;
    (void)err;
    struct counts_row row = {
        .split = (enum split)column_word(s, 0, split_parse),
        .step = sqlite3_column_int64(s, 1),
        .version = sqlite3_column_int64(s, 2),
        .repeat = sqlite3_column_int64(s, 3),
    };
    read_counts(s, 4, &row.counts);
    return e->each(e->arg, &row);
}

int record_counts(struct record *rec, const struct trial_filter *filter,
                  bool (*each)(void *arg, const struct counts_row *row), void *arg, struct orch_err *err)
{
    AUTO_QUERY struct query q;
    query_init(&q, "SELECT split, step, coalesce(version,-1), repeat, " COUNT_COLUMNS " FROM trials");
    query_trials(&q, filter);
    buf_str(&q.sql, " GROUP BY 1,2,3,4 ORDER BY 1,2,3,4");
    return run(rec, &q, counts_each_row, &(struct counts_each){each, arg}, err);
}

static bool total_row(sqlite3_stmt *s, void *arg, int *r, struct orch_err *err)
{
    (void)r;
    (void)err;
    read_counts(s, 0, arg);
    return false;
}

int record_total(struct record *rec, const struct trial_filter *filter, struct trial_counts *ret, struct orch_err *err)
{
    AUTO_QUERY struct query q;
    query_init(&q, "SELECT " COUNT_COLUMNS " FROM trials");
    query_trials(&q, filter);
    return run(rec, &q, total_row, ret, err);
}

struct usage_sum {
    int64_t calls;
    struct call_usage usage;
};

static bool usage_row(sqlite3_stmt *s, void *arg, int *r, struct orch_err *err)
{
    struct usage_sum *u = arg;
    (void)r;
    (void)err;
    u->calls = sqlite3_column_int64(s, 0);
    u->usage = (struct call_usage){
        .wall_ns = sqlite3_column_int64(s, 1),
        .cpu_ns = sqlite3_column_int64(s, 2),
        .rss_bytes = sqlite3_column_int64(s, 3),
        .requests = sqlite3_column_int64(s, 4),
        .tokens_in = sqlite3_column_int64(s, 5),
        .tokens_out = sqlite3_column_int64(s, 6),
        .tokens_cached = sqlite3_column_int64(s, 7),
        .usd = sqlite3_column_double(s, 8),
        .usd_known = sqlite3_column_int64(s, 9) == 0,
    };
    return false;
}

/* Not those that were planned ahead and called off. */
#define STARTED "phase NOT IN ('planned', 'intent') AND NOT (phase = 'settled' AND exit = 'unknown')"

int record_usage(struct record *rec, int call_kind, int64_t *ret_calls, struct call_usage *ret, struct orch_err *err)
{
    AUTO_QUERY struct query q;
    struct usage_sum u = {0};
    query_init(&q, "SELECT count(*) FILTER (WHERE " STARTED "), total(max(wall_ns,0)), "
                   "total(max(cpu_ns,0)), max(rss_bytes), sum(requests),"
                   "sum(tokens_in), sum(tokens_out), sum(tokens_cached), total(usd),"
                   "count(*) FILTER (WHERE usd IS NULL AND requests > 0) FROM calls");
    if (call_kind >= 0) {
        query_text(&q, "kind=?", call_kind_text((enum call_kind)call_kind));
    }
    TRY(run(rec, &q, usage_row, &u, err));
    *ret_calls = u.calls;
    *ret = u.usage;
    return 0;
}

struct grade_each {
    bool (*each)(void *arg, const char *grade, int64_t calls);
    void *arg;
};

static bool grade_row(sqlite3_stmt *s, void *arg, int *r, struct orch_err *err)
{
    struct grade_each *e = arg;
    (void)r;
    (void)err;
    return e->each(e->arg, column_text(s, 0), sqlite3_column_int64(s, 1));
}

int record_grades(struct record *rec, bool (*each)(void *arg, const char *grade, int64_t calls), void *arg,
                  struct orch_err *err)
{
    AUTO_QUERY struct query q;
    query_init(&q, "SELECT grade, count(*) FROM calls WHERE grade IS NOT NULL GROUP BY grade ORDER BY grade");
    return run(rec, &q, grade_row, &(struct grade_each){each, arg}, err);
}

struct failed_each {
    bool (*each)(void *arg, const struct failed_calls *row);
    void *arg;
};

static bool failed_row(sqlite3_stmt *s, void *arg, int *r, struct orch_err *err)
{
    struct failed_each *e = arg;
    (void)r;
    (void)err;
    struct failed_calls row = {.kind = (enum call_kind)column_word(s, 0, call_kind_parse),
                               .calls = sqlite3_column_int64(s, 1),
                               .failed = sqlite3_column_int64(s, 2),
                               .first = sqlite3_column_int64(s, 3)};
    return e->each(e->arg, &row);
}

int record_failed_calls(struct record *rec, bool (*each)(void *arg, const struct failed_calls *row), void *arg,
                        struct orch_err *err)
{
    AUTO_QUERY struct query q;
    query_init(&q, "SELECT kind, count(*), sum(exit <> 'exited' OR code <> 0),"
                   "min(id) FILTER (WHERE exit <> 'exited' OR code <> 0)"
                   " FROM calls WHERE phase = 'settled' AND exit <> 'unknown'"
                   " GROUP BY kind HAVING sum(exit <> 'exited' OR code <> 0) > 0"
                   " ORDER BY kind");
    return run(rec, &q, failed_row, &(struct failed_each){each, arg}, err);
}

/* ---- Objects ---- */

struct object_row {
    bool found;
    int64_t size;
    char *data;
};

static bool object_row(sqlite3_stmt *s, void *arg, int *r, struct orch_err *err)
{
    struct object_row *o = arg;
    (void)r;
    (void)err;
    o->found = true;
    o->size = sqlite3_column_int64(s, 0);
    if (sqlite3_column_type(s, 1) != SQLITE_NULL) {
        const void *data = sqlite3_column_blob(s, 1);
        size_t len = (size_t)sqlite3_column_bytes(s, 1);
        o->data = xmemdup0(data ? data : "", len);
        o->size = (int64_t)len;
    }
    return false;
}

int record_object_get(struct record *rec, const char *digest, int64_t *ret_size, char **ret_data, struct orch_err *err)
{
    AUTO_QUERY struct query q;
    struct object_row o = {0};
    query_init(&q, "SELECT size, data FROM objects");
    query_text(&q, "digest=?", digest);
    TRY(run(rec, &q, object_row, &o, err));
    if (!o.found) {
        return err_set(err, ORCH_E_NOT_FOUND, "there is no object %s", digest);
    }
    *ret_size = o.size;
    *ret_data = o.data;
    return 0;
}
