/* SPDX-License-Identifier: Apache-2.0 */
/* Opening, closing and waiting; the words. Posting is in record_post.c, the thread in record_writer.c. */
#include "state/record_internal.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "state/lock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WORD(id, text) text,
#define X(type, prefix, table)                                                                                         \
    static const char *const type##_words[] = {table(WORD)};                                                           \
    _Static_assert(ARRAY_LEN(type##_words) == prefix##_COUNT, "a word each");                                          \
    const char *type##_text(enum type value)                                                                           \
    {                                                                                                                  \
        return (unsigned)value < prefix##_COUNT ? type##_words[value] : "?";                                           \
    }                                                                                                                  \
    int type##_parse(const char *text)                                                                                 \
    {                                                                                                                  \
        for (int i = 0; text && i < prefix##_COUNT; i++) {                                                             \
            if (strcmp(type##_words[i], text) == 0) {                                                                  \
                return i;                                                                                              \
            }                                                                                                          \
        }                                                                                                              \
        return -1;                                                                                                     \
    }
RECORD_ENUMS(X)
#undef X
#undef WORD

/* ---- Slots ---- */

struct slot *slots_at(struct slots *s, int64_t id)
{
    if (id < 1 || (size_t)id > s->count || s->items[id - 1].phase == SLOT_ABSENT) {
        return NULL;
    }
    return &s->items[id - 1];
}

struct slot *slots_put(struct slots *s, int64_t id, struct slot slot)
{
    while ((size_t)id > s->cap) {
        s->cap = s->cap ? s->cap * 2 : 256;
        s->items = xrealloc(s->items, s->cap * sizeof *s->items);
    }
    while (s->count < (size_t)id) {
        s->items[s->count++] = (struct slot){.phase = SLOT_ABSENT};
    }
    s->items[id - 1] = slot;
    return &s->items[id - 1];
}

int64_t version_slot(int64_t number)
{
    return number >= 0 ? number * 2 + 1 : -number * 2;
}

/* ---- Opening ---- */

typedef int (*word_parse)(const char *text);

/* sql yields id, word, kind word or NULL, incarnation. */
static int load_slots(sqlite3 *db, const char *sql, word_parse parse, bool versions, struct slots *ret,
                      struct orch_err *err)
{
    sqlite3_stmt *s = NULL;
    TRY(record_prepare(db, sql, &s, err));
    int rc;
    int r = 0;
    while (r == 0 && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        int64_t id = sqlite3_column_int64(s, 0);
        int phase = parse((const char *)sqlite3_column_text(s, 1));
        int kind = result_kind_parse((const char *)sqlite3_column_text(s, 2));
        if (phase < 0 || id > INT32_MAX / 4 || id < -(INT32_MAX / 4) || (id < 1 && !versions)) {
            r = err_set(err, ORCH_E_DAMAGED, "record: number %lld has no valid state", (long long)id);
            break;
        }
        struct slot slot = {(uint8_t)phase, (uint8_t)(kind < 0 ? 0 : kind), (uint16_t)sqlite3_column_int(s, 3)};
        slots_put(ret, versions ? version_slot(id) : id, slot);
    }
    if (r == 0 && rc != SQLITE_DONE) {
        r = record_sql_error(db, rc, err, "load");
    }
    sqlite3_finalize(s);
    return r;
}

static int load_state(struct record *rec, struct orch_err *err)
{
    sqlite3 *db = rec->write;
    TRY(load_slots(db, "SELECT id, phase, kind, incarnation FROM trials ORDER BY id", phase_parse, false, &rec->trials,
                   err));
    TRY(load_slots(db, "SELECT id, phase, NULL, incarnation FROM calls ORDER BY id", phase_parse, false, &rec->calls,
                   err));
    TRY(load_slots(db, "SELECT id, phase, NULL, 0 FROM sandboxes ORDER BY id", sandbox_phase_parse, false,
                   &rec->sandboxes, err));
    TRY(load_slots(db, "SELECT number + 1, state, NULL, 0 FROM steps ORDER BY number", step_state_parse, false,
                   &rec->steps, err));
    TRY(load_slots(db, "SELECT number, state, NULL, 0 FROM versions", version_state_parse, true, &rec->versions, err));
    return record_head(rec, &rec->event_seq, rec->event_hash, err);
}

static int quick_check(sqlite3 *db, struct orch_err *err)
{
    sqlite3_stmt *s = NULL;
    TRY(record_prepare(db, "PRAGMA quick_check(1)", &s, err));
    int rc = sqlite3_step(s);
    int r = 0;
    if (rc != SQLITE_ROW) {
        r = record_sql_error(db, rc, err, "quick_check");
    } else if (strcmp((const char *)sqlite3_column_text(s, 0), "ok") != 0) {
        r = err_set(err, ORCH_E_DAMAGED, "the record is damaged: %s", (const char *)sqlite3_column_text(s, 0));
    }
    sqlite3_finalize(s);
    return r;
}

/* After an unclean end, unless the writer is alive: its half-written state is its own. */
static int check_if_unclean(struct record *rec, const char *run_dir, struct orch_err *err)
{
    AUTO_FREE char *clean = NULL;
    struct lock_owner owner = {0};

    int r = record_meta_get(rec, META_CLEAN, &clean, err);
    if (r == ORCH_E_NOT_FOUND) {
        return err_set(err, ORCH_E_DAMAGED, "the record is damaged: its state row is absent");
    }
    if (r < 0 || strcmp(clean, "1") == 0) {
        return r;
    }
    if (rec->mode == RECORD_READ) {
        struct orch_err ignored = ERR_INIT;
        if (lock_look(run_dir, &owner, &ignored) == 0 && owner.held) {
            return 0;
        }
    }
    return quick_check(rec->read, err);
}

static int prepare_writer(struct record *rec, struct orch_err *err)
{
    static const char *const sql[OP_COUNT] = {
#define X(id, rows, text) [OP_##id] = (text),
        OP_TABLE(X)
#undef X
    };

    TRY(record_exec(rec->write, rec->rollback_journal ? "PRAGMA journal_mode=DELETE" : "PRAGMA journal_mode=WAL", err));
    TRY(record_exec(rec->write, "PRAGMA synchronous=FULL", err));
    rec->full_sync = true;
    for (size_t i = 0; i < OP_COUNT; i++) {
        if (sql[i]) {
            TRY(record_prepare(rec->write, sql[i], &rec->statements[i], err));
        }
    }
    TRY(record_prepare(rec->write, "INSERT INTO events(seq,wall_ns,kind,subject,data,hash) VALUES(?,?,?,?,?,?)",
                       &rec->insert_event, err));
    rec->hasher = digest_new();
    TRY(load_state(rec, err));
    return record_exec(rec->write, "UPDATE meta SET value='0' WHERE key='" META_CLEAN "'", err);
}

static int open_connections(struct record *rec, const char *run_dir, struct orch_err *err)
{
    TRY(record_file_check(rec->path, err));
    rec->rollback_journal = record_on_network(run_dir);
    int r = record_connect(rec->path, false, &rec->read, err);
    if (r == 0) {
        r = check_if_unclean(rec, run_dir, err);
    }
    TRY(r);
    if (rec->mode == RECORD_READ) {
        return 0;
    }
    TRY(record_connect(rec->path, true, &rec->write, err));
    return prepare_writer(rec, err);
}

static void record_destroy(struct record *rec)
{
    for (size_t i = 0; i < OP_COUNT; i++) {
        sqlite3_finalize(rec->statements[i]);
    }
    sqlite3_finalize(rec->insert_event);
    sqlite3_close(rec->read);
    sqlite3_close(rec->write);
    digest_free(rec->hasher);
    op_list_free(&rec->queue);
    op_list_free(&rec->finished);
    free(rec->trials.items);
    free(rec->calls.items);
    free(rec->sandboxes.items);
    free(rec->steps.items);
    free(rec->versions.items);
    pthread_mutex_destroy(&rec->read_lock);
    pthread_mutex_destroy(&rec->lock);
    pthread_cond_destroy(&rec->work);
    pthread_cond_destroy(&rec->space);
    pthread_cond_destroy(&rec->idle);
    free(rec->path);
    free(rec);
}

int record_open(const char *run_dir, enum record_mode mode, const struct clock *clock, struct record **ret,
                struct orch_err *err)
{
    if (mode == RECORD_CREATE) {
        TRY(record_file_create(run_dir, err));
    }
    struct record *rec = xcalloc(1, sizeof *rec);
    rec->clock = *clock;
    rec->mode = mode;
    rec->path = path_join(run_dir, RECORD_FILE);
    pthread_mutex_init(&rec->read_lock, NULL);
    pthread_mutex_init(&rec->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&rec->work, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_cond_init(&rec->space, NULL);
    pthread_cond_init(&rec->idle, NULL);
    if (open_connections(rec, run_dir, err) < 0) {
        record_destroy(rec);
        return err->code;
    }
    *ret = rec;
    return 0;
}

int record_start_writer(struct record *rec, void (*notify)(void *arg), void *arg, struct orch_err *err)
{
    if (rec->mode == RECORD_READ || rec->started) {
        return err_set(err, ORCH_E_INTERNAL, "record: a writer cannot be started here");
    }
    rec->notify = notify;
    rec->notify_arg = arg;
    int e = pthread_create(&rec->thread, NULL, record_writer_main, rec);
    if (e != 0) {
        errno = e;
        return err_errno(err, ORCH_E_IO, "start the record's writer");
    }
    rec->started = true;
    return 0;
}

/* ---- Waiting ---- */

size_t record_drain(struct record *rec)
{
    pthread_mutex_lock(&rec->lock);
    struct op_list list = rec->finished;
    rec->finished = (struct op_list){0};
    pthread_mutex_unlock(&rec->lock);

    size_t count = 0;
    for (struct op *op = list.first; op; count++) {
        struct op *next = op->next;
        op->done(op->arg, op->code);
        free(op);
        op = next;
    }
    return count;
}

int record_flush(struct record *rec, struct orch_err *err)
{
    pthread_mutex_lock(&rec->lock);
    uint64_t goal = rec->posted;
    record_hurry(rec);
    while (rec->started && rec->settled < goal) {
        pthread_cond_wait(&rec->idle, &rec->lock);
    }
    if (rec->poison.code < 0) {
        *err = rec->poison;
    }
    int r = rec->poison.code;
    pthread_mutex_unlock(&rec->lock);
    return r;
}

static int close_cleanly(struct record *rec, struct orch_err *err)
{
    TRY(record_exec(rec->write, "PRAGMA synchronous=FULL", err));
    TRY(record_exec(rec->write, "UPDATE meta SET value='1' WHERE key='" META_CLEAN "'", err));
    if (!rec->rollback_journal) {
        /* A reader may hold it up; then the log stays and the next opening reads it: not an error. */
        (void)sqlite3_wal_checkpoint_v2(rec->write, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    }
    return 0;
}

int record_close(struct record *rec, struct orch_err *err)
{
    int r = 0;

    if (!rec) {
        return 0;
    }
    if (rec->started) {
        pthread_mutex_lock(&rec->lock);
        rec->stop = true;
        pthread_cond_broadcast(&rec->work);
        pthread_mutex_unlock(&rec->lock);
        pthread_join(rec->thread, NULL);
        rec->started = false;
        while (record_drain(rec) > 0) {
        }
        if (rec->poison.code < 0) {
            *err = rec->poison;
            r = rec->poison.code;
        }
    }
    sqlite3_close(rec->read);
    rec->read = NULL;
    if (r == 0 && rec->write) {
        sqlite3_busy_timeout(rec->write, 200); /* for the checkpoint: others may read on */
        r = close_cleanly(rec, err);
    }
    record_destroy(rec);
    return r;
}

void record_release(struct record **rec)
{
    struct orch_err ignored = ERR_INIT;
    (void)record_close(*rec, &ignored);
    *rec = NULL;
}
