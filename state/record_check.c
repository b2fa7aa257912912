/* SPDX-License-Identifier: Apache-2.0 */
/* Is the record what was written? The file, the references, the chain of events, and results against their events. */
#include "state/record_internal.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct settled {
    bool known;
    bool has_score;
    uint8_t kind;
    double score;
};

struct check {
    struct record *rec;
    struct digest *hasher;
    char previous[RECORD_HASH_MAX];
    int64_t seq;
    struct settled *trials; /* of id - 1 */
    size_t count;
    struct orch_err *err;
};

static struct settled *check_trial(struct check *c, int64_t id)
{
    if (id < 1 || id > INT32_MAX / 4) {
        return NULL;
    }
    if ((size_t)id > c->count) {
        size_t count = (size_t)id + c->count / 2;
        c->trials = xrealloc(c->trials, count * sizeof *c->trials);
        memset(c->trials + c->count, 0, (count - c->count) * sizeof *c->trials);
        c->count = count;
    }
    return &c->trials[id - 1];
}

static void check_remember(struct check *c, const struct event_row *row)
{
    struct orch_err ignored = ERR_INIT;
    AUTO_JSON json_t *data = NULL;
    bool settled = strcmp(row->kind, "trial.settled") == 0;
    bool again = strcmp(row->kind, "trial.retry") == 0 || strcmp(row->kind, "trial.reopened") == 0;

    if ((!settled && !again) || strncmp(row->subject, "trial:", 6) != 0) {
        return;
    }
    struct settled *t = check_trial(c, strtoll(row->subject + 6, NULL, 10));
    if (t && again) {
        *t = (struct settled){0};
    } else if (t && json_parse(row->data, strlen(row->data), RECORD_TEXT_MAX, &data, &ignored) == 0) {
        int kind = result_kind_parse(json_get_str(data, "kind", ""));
        *t = (struct settled){.known = kind >= 0,
                              .has_score = json_get(data, "score") != NULL,
                              .kind = (uint8_t)kind,
                              .score = json_get_num(data, "score", 0)};
    }
}

static bool check_event(void *arg, const struct event_row *row)
{
    struct check *c = arg;
    char hash[RECORD_HASH_MAX];

    if (row->seq != c->seq + 1) {
        err_set(c->err, ORCH_E_DAMAGED, "the record is damaged: event %lld is missing", (long long)c->seq + 1);
        return false;
    }
    record_event_hash(c->hasher, c->previous, row->seq, row->wall_ns, row->kind, row->subject, row->data, hash);
    if (strcmp(hash, row->hash) != 0) {
        err_set(c->err, ORCH_E_DAMAGED, "the record was changed: event %lld does not fit the chain",
                (long long)row->seq);
        return false;
    }
    memcpy(c->previous, hash, sizeof hash);
    c->seq = row->seq;
    check_remember(c, row);
    return true;
}

static bool check_result(void *arg, const struct trial_row *row)
{
    struct check *c = arg;
    const struct settled *t = check_trial(c, row->id);
    bool settled = row->phase == PHASE_SETTLED;

    if (!t || t->known != settled ||
        (settled && (t->kind != row->result.kind || t->has_score != row->result.has_score ||
                     (t->has_score && (t->score < row->result.score || t->score > row->result.score))))) {
        err_set(c->err, ORCH_E_DAMAGED, "the record was changed: trial %lld differs from its events",
                (long long)row->id);
        return false;
    }
    return true;
}

static int check_pragma(struct record *rec, const char *sql, const char *good, struct orch_err *err)
{
    sqlite3_stmt *s = NULL;
    TRY(record_prepare(rec->read, sql, &s, err));
    int rc = sqlite3_step(s);
    int r = 0;
    if (rc == SQLITE_ROW && (!good || strcmp((const char *)sqlite3_column_text(s, 0), good) != 0)) {
        r = err_set(err, ORCH_E_DAMAGED, "the record is damaged: %s", (const char *)sqlite3_column_text(s, 0));
    } else if (rc != SQLITE_ROW && rc != SQLITE_DONE) {
        r = record_sql_error(rec->read, rc, err, "check");
    }
    sqlite3_finalize(s);
    return r;
}

static int check_contents(struct check *c, struct orch_err *err)
{
    char head[RECORD_HASH_MAX + 32];
    AUTO_FREE char *kept = NULL;
    struct trial_filter all = TRIAL_FILTER_ANY;

    TRY(record_meta_get(c->rec, META_HEAD, &kept, err));
    TRY(record_events(c->rec, 0, 0, check_event, c, err));
    TRY(c->err->code);
    snprintf(head, sizeof head, "%lld:%s", (long long)c->seq, c->previous);
    if (strcmp(head, kept) != 0) {
        return err_set(err, ORCH_E_DAMAGED, "the record was changed: its last events are not those it was closed with");
    }
    TRY(record_trials(c->rec, &all, check_result, c, err));
    return c->err->code;
}

int record_check(struct record *rec, struct orch_err *err)
{
    struct orch_err found = ERR_INIT;
    struct check c = {.rec = rec, .err = &found};

    pthread_mutex_lock(&rec->read_lock);
    int r = check_pragma(rec, "PRAGMA integrity_check(1)", "ok", err);
    r = r < 0 ? r : check_pragma(rec, "PRAGMA foreign_key_check", NULL, err);
    pthread_mutex_unlock(&rec->read_lock);
    TRY(r);
    /* One snapshot: a running writer may add events meanwhile. */
    TRY(record_exec(rec->read, "BEGIN", err));
    c.hasher = digest_new();
    r = check_contents(&c, err);
    (void)sqlite3_exec(rec->read, "COMMIT", NULL, NULL, NULL);
    digest_free(c.hasher);
    free(c.trials);
    if (r < 0 && found.code < 0) {
        *err = found;
    }
    return r;
}

static bool take_head(void *arg, const struct event_row *row)
{
    struct check *c = arg;
    c->seq = row->seq;
    snprintf(c->previous, sizeof c->previous, "%s", row->hash);
    return true;
}

int record_head(struct record *rec, int64_t *ret_seq, char ret_hash[65], struct orch_err *err)
{
    AUTO_FREE char *head = NULL;
    struct check c = {.rec = rec};

    TRY(record_meta_get(rec, META_HEAD, &head, err));
    TRY(record_events(rec, strtoll(head, NULL, 10) - 1, 0, take_head, &c, err));
    *ret_seq = c.seq;
    memcpy(ret_hash, c.previous, sizeof c.previous);
    return 0;
}
