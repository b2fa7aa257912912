/* SPDX-License-Identifier: Apache-2.0 */
/* The writer thread: takes everything queued, commits it as one transaction, hands back the completions. */
#include "state/record_internal.h"

#include "state/durable.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct {
    const char *name;
    int rows;
} op_facts[OP_COUNT] = {
#define X(id, rows, sql) [OP_##id] = {#id, rows},
    OP_TABLE(X)
#undef X
};

void op_list_push(struct op_list *list, struct op *op)
{
    op->next = NULL;
    if (list->last) {
        list->last->next = op;
    } else {
        list->first = op;
    }
    list->last = op;
    list->count++;
    list->bytes += op->size;
}

void op_list_free(struct op_list *list)
{
    for (struct op *op = list->first; op;) {
        struct op *next = op->next;
        free(op);
        op = next;
    }
    *list = (struct op_list){0};
}

static int bind_value(sqlite3_stmt *s, int index, const struct value *v)
{
    switch (v->type) {
    case VALUE_NULL:
        return sqlite3_bind_null(s, index);
    case VALUE_INT:
        return sqlite3_bind_int64(s, index, v->i);
    case VALUE_REAL:
        return sqlite3_bind_double(s, index, v->r);
    case VALUE_TEXT:
        return sqlite3_bind_text(s, index, v->text, (int)v->len, SQLITE_STATIC);
    case VALUE_BLOB:
        return sqlite3_bind_blob(s, index, v->text, (int)v->len, SQLITE_STATIC);
    }
    return SQLITE_MISUSE;
}

static int run_statement(struct record *rec, sqlite3_stmt *s, const struct value *values, int count, const char *what,
                         struct orch_err *err)
{
    int rc = SQLITE_OK;

    for (int i = 0; rc == SQLITE_OK && i < count; i++) {
        rc = bind_value(s, i + 1, &values[i]);
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(s);
    }
    int r = rc == SQLITE_DONE ? 0 : record_sql_error(rec->write, rc, err, what);
    (void)sqlite3_reset(s);
    return r;
}

static struct value text_value(const char *text)
{
    return (struct value){.type = VALUE_TEXT, .len = strlen(text), .text = text};
}

static int add_event(struct record *rec, const struct op *op, struct orch_err *err)
{
    char hash[RECORD_HASH_MAX];
    int64_t seq = rec->event_seq + 1;

    record_event_hash(rec->hasher, rec->event_hash, seq, op->wall_ns, op->event, op->subject, op->data, hash);
    const struct value values[] = {
        {.type = VALUE_INT, .i = seq}, {.type = VALUE_INT, .i = op->wall_ns},
        text_value(op->event),         text_value(op->subject),
        text_value(op->data),          text_value(hash),
    };
    TRY(run_statement(rec, rec->insert_event, values, 6, "event", err));
    rec->event_seq = seq;
    memcpy(rec->event_hash, hash, sizeof hash);
    return 0;
}

static int apply(struct record *rec, const struct op *op, struct orch_err *err)
{
    TRY(fault_point(FAULT_RECORD_OP, err));
    if (rec->statements[op->kind]) {
        TRY(run_statement(rec, rec->statements[op->kind], op->values, op->count, op_facts[op->kind].name, err));
        if (op_facts[op->kind].rows >= 0 && sqlite3_changes(rec->write) != op_facts[op->kind].rows) {
            return err_set(err, ORCH_E_INTERNAL, "record: %s of %s changed %d rows", op_facts[op->kind].name,
                           op->subject ? op->subject : "?", sqlite3_changes(rec->write));
        }
    }
    return op->event ? add_event(rec, op, err) : 0;
}

static int put_head(struct record *rec, struct orch_err *err)
{
    char head[RECORD_HASH_MAX + 32];

    snprintf(head, sizeof head, "%lld:%s", (long long)rec->event_seq, rec->event_hash);
    const struct value values[] = {text_value(META_HEAD), text_value(head)};
    return run_statement(rec, rec->statements[OP_META_SET], values, 2, "head", err);
}

/* synchronous cannot change inside a transaction. NORMAL in WAL mode skips the sync of a commit, and a later FULL
 * commit syncs everything before it; with a rollback journal FULL stays. */
static int set_sync(struct record *rec, bool full, struct orch_err *err)
{
    full = full || rec->rollback_journal;
    if (full != rec->full_sync) {
        TRY(record_exec(rec->write, full ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL", err));
        rec->full_sync = full;
    }
    return 0;
}

static int commit_batch(struct record *rec, const struct op_list *batch, struct orch_err *err)
{
    bool full = false;

    for (const struct op *op = batch->first; op; op = op->next) {
        full = full || op->durability == DURABLE_FSYNC;
    }
    TRY(set_sync(rec, full, err));
    TRY(fault_point(FAULT_RECORD_BEGIN, err));
    TRY(record_exec(rec->write, "BEGIN IMMEDIATE", err));
    for (const struct op *op = batch->first; op; op = op->next) {
        TRY(apply(rec, op, err));
    }
    TRY(put_head(rec, err));
    TRY(fault_point(FAULT_RECORD_COMMIT_BEFORE, err));
    TRY(record_exec(rec->write, "COMMIT", err));
    return fault_point(FAULT_RECORD_COMMIT_AFTER, err);
}

/* Hands the batch back; its operations without a completion end here. */
static void finish_batch(struct record *rec, struct op_list *batch, const struct orch_err *failed)
{
    struct op_list waiting = {0};
    size_t count = batch->count;

    for (struct op *op = batch->first; op;) {
        struct op *next = op->next;
        op->code = failed->code;
        if (op->done) {
            op_list_push(&waiting, op);
        } else {
            free(op);
        }
        op = next;
    }
    pthread_mutex_lock(&rec->lock);
    if (failed->code < 0 && rec->poison.code == 0) {
        rec->poison = *failed;
    }
    if (waiting.first) {
        if (rec->finished.last) {
            rec->finished.last->next = waiting.first;
        } else {
            rec->finished.first = waiting.first;
        }
        rec->finished.last = waiting.last;
        rec->finished.count += waiting.count;
    }
    rec->settled += count;
    void (*notify)(void *) = waiting.first ? rec->notify : NULL;
    pthread_cond_broadcast(&rec->idle);
    pthread_cond_broadcast(&rec->space);
    pthread_mutex_unlock(&rec->lock);
    if (notify) {
        notify(rec->notify_arg);
    }
}

void record_hurry(struct record *rec)
{
    rec->urgent = true;
    pthread_cond_signal(&rec->work);
}

/* A commit costs the same for one operation as for fifty: the first waits a moment for others, unless somebody waits
 * for it to be safe. What kill -9 then takes is what it may take anyway: operations nobody was told are committed. */
static struct op_list gather(struct record *rec)
{
    pthread_mutex_lock(&rec->lock);
    while (!rec->queue.first && !rec->stop) {
        pthread_cond_wait(&rec->work, &rec->lock);
    }
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += RECORD_GATHER_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    int waited = 0;
    while (waited == 0 && !rec->urgent && !rec->stop) {
        waited = pthread_cond_timedwait(&rec->work, &rec->lock, &until);
    }
    struct op_list batch = rec->queue;
    rec->queue = (struct op_list){0};
    rec->urgent = false;
    pthread_cond_broadcast(&rec->space);
    pthread_mutex_unlock(&rec->lock);
    return batch;
}

void *record_writer_main(void *arg)
{
    struct record *rec = arg;
    struct orch_err failed = ERR_INIT; /* the first failure ends all writing */

    for (;;) {
        struct op_list batch = gather(rec);
        if (!batch.first) {
            return NULL;
        }
        if (failed.code == 0 && commit_batch(rec, &batch, &failed) < 0) {
            if (!sqlite3_get_autocommit(rec->write)) {
                (void)sqlite3_exec(rec->write, "ROLLBACK", NULL, NULL, NULL);
            }
        }
        finish_batch(rec, &batch, &failed);
    }
}
