/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/mem.h"
#include "base/path.h"
#include "base/process.h"
#include "state/export.h"
#include "state/record.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct record *make(const struct test_dir *dir)
{
    struct orch_err err = ERR_INIT;
    struct record *rec = NULL;
    struct clock clock = clock_system();
    cr_assert_eq(record_open(dir->path, RECORD_CREATE, &clock, &rec, &err), 0, "%s", err.message);
    cr_assert_eq(record_start_writer(rec, NULL, NULL, &err), 0, "%s", err.message);
    return rec;
}

static struct record *reopen(const struct test_dir *dir, enum record_mode mode)
{
    struct orch_err err = ERR_INIT;
    struct record *rec = NULL;
    struct clock clock = clock_system();
    cr_assert_eq(record_open(dir->path, mode, &clock, &rec, &err), 0, "%s", err.message);
    return rec;
}

static void must(int r, const struct orch_err *err)
{
    cr_assert_eq(r, 0, "%s", err->message);
}

/* Version 0, step 0 and n trials of it; their first id. */
static int64_t plan(struct record *rec, int n)
{
    struct orch_err err = ERR_INIT;
    const struct version_add version = {.number = 0, .sha = "c0", .tree = "t0"};
    struct trial_key *keys = xcalloc((size_t)n, sizeof *keys);
    int64_t first = 0;

    must(record_version_add(rec, &version, NULL, &err), &err);
    must(record_step_plan(rec, 0, 0, "[\"t\"]", NULL, &err), &err);
    for (int i = 0; i < n; i++) {
        keys[i] = (struct trial_key){.task = "t", .sample = i, .split = SPLIT_TRAIN};
    }
    must(record_trial_plan(rec, keys, (size_t)n, &first, NULL, &err), &err);
    free(keys);
    return first;
}

static void advance(struct record *rec, int64_t id)
{
    struct orch_err err = ERR_INIT;
    for (int p = PHASE_INTENT; p <= PHASE_COLLECTED; p++) {
        must(record_trial_phase(rec, id, (enum phase)p, NULL, &err), &err);
    }
}

static void settle(struct record *rec, int64_t id, double score)
{
    struct orch_err err = ERR_INIT;
    const struct trial_result result = {.kind = RESULT_SCORED,
                                        .has_score = true,
                                        .score = score,
                                        .metrics = "{\"m\":1}",
                                        .feedback = "good \xff bytes",
                                        .grade = "confined"};
    must(record_trial_settle(rec, id, &result, NULL, &err), &err);
}

static void close_record(struct record *rec)
{
    struct orch_err err = ERR_INIT;
    must(record_close(rec, &err), &err);
}

struct seen {
    struct trial_row row;
    int count;
};

static bool see(void *arg, const struct trial_row *row)
{
    struct seen *s = arg;
    s->row = *row;
    s->count++;
    return true;
}

Test(record, keeps_a_trial_through_its_phases)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    struct orch_err err = ERR_INIT;
    struct record *rec = make(&dir);
    int64_t id = plan(rec, 2);

    cr_assert_eq(id, 1);
    advance(rec, id);
    settle(rec, id, 0.1);
    must(record_flush(rec, &err), &err);
    close_record(rec);

    rec = reopen(&dir, RECORD_READ);
    struct seen seen = {.count = 0};
    must(record_trial(rec, 1, see, &seen, &err), &err);
    cr_assert_eq(seen.row.phase, PHASE_SETTLED);
    cr_assert_eq(seen.row.result.kind, RESULT_SCORED);
    cr_assert(seen.row.result.has_score);
    cr_assert_float_eq(seen.row.result.score, 0.1, 0);
    struct trial_filter filter = TRIAL_FILTER_ANY;
    filter.unsettled = true;
    seen.count = 0;
    must(record_trials(rec, &filter, see, &seen, &err), &err);
    cr_assert_eq(seen.count, 1);
    cr_assert_eq(seen.row.id, 2);
    cr_assert_eq(seen.row.result.kind, RESULT_NONE);
    cr_assert_eq(record_trial(rec, 3, see, &seen, &err), ORCH_E_NOT_FOUND);
    must(record_check(rec, &err), &err);
    close_record(rec);
    TEST_END();
}

Test(record, refuses_illegal_changes)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    struct orch_err err = ERR_INIT;
    struct record *rec = make(&dir);
    int64_t id = plan(rec, 1);
    struct trial_result result = {.kind = RESULT_SCORED, .has_score = true, .score = 1};
    int64_t call = 0;
    struct call_plan call_plan = {.kind = CALL_TASK, .trial = 99, .step = -1};

    cr_assert_eq(record_trial_phase(rec, id, PHASE_STARTED, NULL, &err), ORCH_E_INTERNAL);
    cr_assert_eq(record_trial_phase(rec, 7, PHASE_INTENT, NULL, &err), ORCH_E_INTERNAL);
    cr_assert_eq(record_trial_phase(rec, 0, PHASE_INTENT, NULL, &err), ORCH_E_INTERNAL);
    cr_assert_eq(record_trial_settle(rec, id, &result, NULL, &err), ORCH_E_INTERNAL, "not collected yet");
    result.kind = RESULT_INFRA;
    cr_assert_eq(record_trial_settle(rec, id, &result, NULL, &err), ORCH_E_INTERNAL, "no score here");
    result.has_score = false;
    must(record_trial_settle(rec, id, &result, NULL, &err), &err);
    cr_assert_eq(record_trial_settle(rec, id, &result, NULL, &err), ORCH_E_INTERNAL, "settled twice");
    cr_assert_eq(record_trial_retry(rec, id, "x", NULL, NULL, &err), ORCH_E_INTERNAL);
    must(record_trial_reopen(rec, id, "repaired", NULL, &err), &err);
    must(record_trial_phase(rec, id, PHASE_INTENT, NULL, &err), &err);
    cr_assert_eq(record_call_plan(rec, &call_plan, &call, NULL, &err), ORCH_E_INTERNAL);
    cr_assert_eq(record_step_plan(rec, 0, 0, NULL, NULL, &err), ORCH_E_INTERNAL, "twice");
    cr_assert_eq(record_step_plan(rec, 1, 5, NULL, NULL, &err), ORCH_E_INTERNAL, "an absent version");
    must(record_flush(rec, &err), &err);
    close_record(rec);
    TEST_END();
}

Test(record, a_retry_is_the_next_incarnation)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    struct orch_err err = ERR_INIT;
    struct record *rec = make(&dir);
    int64_t id = plan(rec, 1);
    struct seen seen = {.count = 0};

    must(record_trial_phase(rec, id, PHASE_INTENT, NULL, &err), &err);
    must(record_trial_retry(rec, id, "environment-lost", "{\"x\":1}", NULL, &err), &err);
    close_record(rec);
    rec = reopen(&dir, RECORD_WRITE);
    must(record_start_writer(rec, NULL, NULL, &err), &err);
    advance(rec, id);
    settle(rec, id, 1);
    must(record_flush(rec, &err), &err);
    must(record_trial(rec, id, see, &seen, &err), &err);
    cr_assert_eq(seen.row.incarnation, 2);
    cr_assert_eq(record_trial_reopen(rec, id, "no", NULL, &err), ORCH_E_INTERNAL, "a score stands");
    must(record_check(rec, &err), &err);
    close_record(rec);
    TEST_END();
}

struct calls {
    int64_t id;
    struct call_row row;
    int count;
};

static bool see_call(void *arg, const struct call_row *row)
{
    struct calls *c = arg;
    c->row = *row;
    c->count++;
    cr_assert_str_eq(row->outside_name, "box-1");
    cr_assert_str_eq(row->result.stdout_digest, "sha256:o");
    return true;
}

static bool see_sandbox(void *arg, const struct sandbox_row *row)
{
    cr_assert_eq(row->phase, SANDBOX_PHASE_CHECKED);
    cr_assert_str_eq(row->grade, "confined");
    ++*(int *)arg;
    return true;
}

static bool see_grade(void *arg, const char *grade, int64_t calls)
{
    cr_assert_str_eq(grade, "confined");
    *(int64_t *)arg = calls;
    return true;
}

Test(record, keeps_calls_and_sandboxes)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    struct orch_err err = ERR_INIT;
    struct record *rec = make(&dir);
    int64_t trial = plan(rec, 1);
    int64_t sandbox = 0;
    int64_t call = 0;
    const struct sandbox_open open = {.role = "task", .name = "box-1", .asked = "{}"};

    must(record_sandbox_open(rec, &open, &sandbox, RECORD_FSYNC(NULL, NULL), &err), &err);
    must(record_sandbox_checked(rec, sandbox, "confined", "{}", "{}", NULL, &err), &err);
    cr_assert_eq(record_sandbox_checked(rec, sandbox, "confined", "{}", "{}", NULL, &err), ORCH_E_INTERNAL);
    const struct call_plan p = {.kind = CALL_TASK, .trial = trial, .incarnation = 1, .step = -1, .sandbox = sandbox};
    must(record_call_plan(rec, &p, &call, NULL, &err), &err);
    must(record_call_phase(rec, call, PHASE_INTENT, "box-1", NULL, &err), &err);
    must(record_call_phase(rec, call, PHASE_STARTED, NULL, NULL, &err), &err);
    const struct record_call_result result = {.exit = EXIT_SIGNALLED,
                                              .code = 9,
                                              .grade = "confined",
                                              .stdout_digest = "sha256:o",
                                              .usage = {.wall_ns = 5, .cpu_ns = -1, .requests = 2, .tokens_in = 10}};
    must(record_call_settle(rec, call, &result, NULL, &err), &err);
    must(record_flush(rec, &err), &err);

    struct call_filter filter = CALL_FILTER_ANY;
    struct calls calls = {.count = 0};
    filter.trial = trial;
    must(record_calls(rec, &filter, see_call, &calls, &err), &err);
    cr_assert_eq(calls.count, 1);
    cr_assert_eq(calls.row.result.exit, EXIT_SIGNALLED);
    cr_assert_eq(calls.row.result.code, 9);
    cr_assert_eq(calls.row.plan.sandbox, sandbox);
    cr_assert_eq(calls.row.plan.step, -1);
    filter.unsettled = true;
    calls.count = 0;
    must(record_calls(rec, &filter, see_call, &calls, &err), &err);
    cr_assert_eq(calls.count, 0);

    struct call_usage usage;
    int64_t n = 0;
    must(record_usage(rec, -1, &n, &usage, &err), &err);
    cr_assert_eq(n, 1);
    cr_assert_eq(usage.wall_ns, 5);
    cr_assert_eq(usage.cpu_ns, 0);
    cr_assert_eq(usage.tokens_in, 10);
    cr_assert(!usage.usd_known, "requests without a price");
    int64_t graded = 0;
    must(record_grades(rec, see_grade, &graded, &err), &err);
    cr_assert_eq(graded, 1);
    int unclosed = 0;
    must(record_sandboxes(rec, true, see_sandbox, &unclosed, &err), &err);
    cr_assert_eq(unclosed, 1);
    must(record_sandbox_closed(rec, sandbox, "empty", NULL, &err), &err);
    must(record_flush(rec, &err), &err);
    unclosed = 0;
    must(record_sandboxes(rec, true, see_sandbox, &unclosed, &err), &err);
    cr_assert_eq(unclosed, 0);
    close_record(rec);
    TEST_END();
}

struct groups {
    struct counts_row rows[4];
    int count;
};

static bool see_group(void *arg, const struct counts_row *row)
{
    struct groups *g = arg;
    g->rows[g->count++] = *row;
    return true;
}

Test(record, counts_each_kind_apart)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    struct orch_err err = ERR_INIT;
    struct record *rec = make(&dir);
    int64_t id = plan(rec, 5);
    const struct trial_result infra = {.kind = RESULT_INFRA, .reason = "lost"};
    const struct trial_result limit = {.kind = RESULT_LIMIT, .has_score = true, .score = 0, .reason = "timeout"};
    struct trial_filter all = TRIAL_FILTER_ANY;
    struct groups groups = {.count = 0};

    advance(rec, id);
    settle(rec, id, 1);
    advance(rec, id + 1);
    settle(rec, id + 1, 0.5);
    must(record_trial_settle(rec, id + 2, &infra, NULL, &err), &err);
    must(record_trial_settle(rec, id + 3, &limit, NULL, &err), &err);
    must(record_flush(rec, &err), &err);
    must(record_counts(rec, &all, see_group, &groups, &err), &err);
    cr_assert_eq(groups.count, 1);
    const struct trial_counts *c = &groups.rows[0].counts;
    cr_assert_eq(c->planned, 5);
    cr_assert_eq(c->kind[RESULT_SCORED], 2);
    cr_assert_eq(c->kind[RESULT_LIMIT], 1);
    cr_assert_eq(c->kind[RESULT_INFRA], 1);
    cr_assert_eq(c->kind[RESULT_JUDGE], 0);
    cr_assert_eq(c->kind[RESULT_NONE], 1);
    cr_assert_eq(c->scores, 3);
    cr_assert_float_eq(c->mean, 0.5, 1e-12);
    cr_assert_float_eq(c->variance, 0.25, 1e-12);
    struct trial_counts total;
    all.split = SPLIT_TEST;
    must(record_total(rec, &all, &total, &err), &err);
    cr_assert_eq(total.planned, 0);
    cr_assert_eq(total.scores, 0);
    close_record(rec);
    TEST_END();
}

Test(record, no_candidate_is_a_version_of_its_own)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    struct orch_err err = ERR_INIT;
    struct record *rec = make(&dir);
    (void)plan(rec, 1);
    struct trial_key key = {.version = VERSION_NONE, .task = "t", .split = SPLIT_TRAIN};
    int64_t id = 0;
    struct seen seen = {.count = 0};
    const int64_t parent = 0;
    const struct version_add snapshot = {
        .number = -2, .state = VERSION_SNAPSHOT, .parents = &parent, .parent_count = 1};

    must(record_trial_plan(rec, &key, 1, &id, NULL, &err), &err);
    must(record_version_add(rec, &snapshot, NULL, &err), &err);
    key.version = -2;
    key.split = SPLIT_ROLLOUT;
    must(record_trial_plan(rec, &key, 1, &id, NULL, &err), &err);
    must(record_flush(rec, &err), &err);
    struct trial_filter filter = TRIAL_FILTER_ANY;
    filter.version = VERSION_NONE;
    must(record_trials(rec, &filter, see, &seen, &err), &err);
    cr_assert_eq(seen.count, 1);
    cr_assert_eq(seen.row.key.version, VERSION_NONE);
    close_record(rec);
    TEST_END();
}

Test(record, a_key_planned_twice_ends_the_writer_and_loses_nothing)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    struct orch_err err = ERR_INIT;
    struct record *rec = make(&dir);
    (void)plan(rec, 3);
    must(record_flush(rec, &err), &err);
    struct trial_key key = {.task = "t", .sample = 1, .split = SPLIT_TRAIN};
    int64_t id = 0;
    must(record_trial_plan(rec, &key, 1, &id, NULL, &err), &err);
    cr_assert_eq(record_flush(rec, &err), ORCH_E_INTERNAL);
    cr_assert_eq(record_meta_set(rec, "a", "b", NULL, &err), ORCH_E_INTERNAL);
    cr_assert_eq(record_close(rec, &err), ORCH_E_INTERNAL);
    err_clear(&err);
    rec = reopen(&dir, RECORD_READ);
    struct trial_counts total;
    struct trial_filter all = TRIAL_FILTER_ANY;
    must(record_total(rec, &all, &total, &err), &err);
    cr_assert_eq(total.planned, 3);
    must(record_check(rec, &err), &err);
    close_record(rec);
    TEST_END();
}

static void count_done(void *arg, int code)
{
    int *counts = arg;
    counts[code == 0 ? 0 : 1]++;
}

static void notified(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
}

Test(record, completions_come_in_drain_after_the_commit)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    struct orch_err err = ERR_INIT;
    struct record *rec = NULL;
    struct clock clock = clock_system();
    atomic_int notices = 0;
    int counts[2] = {0, 0};

    must(record_open(dir.path, RECORD_CREATE, &clock, &rec, &err), &err);
    cr_assert_eq(record_meta_set(rec, "a", "b", NULL, &err), ORCH_E_INTERNAL, "no writer yet");
    must(record_start_writer(rec, notified, &notices, &err), &err);
    for (int i = 0; i < 100; i++) {
        must(record_event(rec, "test.event", "run", "{}", RECORD_CRASH(count_done, counts), &err), &err);
    }
    must(record_flush(rec, &err), &err);
    cr_assert_eq(counts[0], 0, "not before drain");
    cr_assert_eq(record_drain(rec), 100);
    cr_assert_eq(counts[0], 100);
    cr_assert_eq(counts[1], 0);
    must(record_event(rec, "test.event", "run", NULL, RECORD_CRASH(count_done, counts), &err), &err);
    close_record(rec); /* calls what remains */
    cr_assert_eq(counts[0], 101);
    cr_assert(notices >= 1); /* the writer, which notifies, has ended */
    TEST_END();
}

struct poster {
    struct record *rec;
    int failures;
};

static void *post_many(void *arg)
{
    struct poster *p = arg;
    struct orch_err err = ERR_INIT;
    for (int i = 0; i < 12000; i++) { /* together more than the queue holds */
        p->failures += record_event(p->rec, "test.event", "run", "{\"n\":1}", NULL, &err) < 0;
    }
    return NULL;
}

Test(record, many_threads_may_post)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    struct orch_err err = ERR_INIT;
    struct record *rec = make(&dir);
    struct poster posters[3] = {{rec, 0}, {rec, 0}, {rec, 0}};
    pthread_t threads[3];
    int64_t seq = 0;
    char hash[65];

    for (int i = 0; i < 3; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, post_many, &posters[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        cr_assert_eq(posters[i].failures, 0);
    }
    must(record_flush(rec, &err), &err);
    must(record_head(rec, &seq, hash, &err), &err);
    cr_assert_eq(seq, 36000);
    must(record_check(rec, &err), &err);
    close_record(rec);
    TEST_END();
}

static bool see_event(void *arg, const struct event_row *row)
{
    int64_t *last = arg;
    cr_assert_eq(row->seq, *last + 1);
    *last = row->seq;
    return true;
}

Test(record, a_reader_follows_a_writer)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    struct orch_err err = ERR_INIT;
    struct record *rec = make(&dir);
    struct record *reader = reopen(&dir, RECORD_READ);
    int64_t last = 0;

    (void)plan(rec, 3);
    must(record_flush(rec, &err), &err);
    must(record_events(reader, 0, 2, see_event, &last, &err), &err);
    cr_assert_eq(last, 2);
    must(record_events(reader, last, 0, see_event, &last, &err), &err);
    cr_assert_eq(last, 5);
    cr_assert_eq(record_start_writer(reader, NULL, NULL, &err), ORCH_E_INTERNAL);
    close_record(reader);
    close_record(rec);
    TEST_END();
}

/* Runs SQL on the file behind the record's back. */
static void tamper(const struct test_dir *dir, const char *sql)
{
    AUTO_FREE char *path = path_join(dir->path, "record.db");
    sqlite3 *db = NULL;
    char *message = NULL;
    cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db, sql, NULL, NULL, &message), SQLITE_OK, "%s", message);
    sqlite3_close(db);
}

static void make_finished(const struct test_dir *dir)
{
    struct record *rec = make(dir);
    int64_t id = plan(rec, 2);
    advance(rec, id);
    settle(rec, id, 0.25);
    close_record(rec);
}

static int check_tampered(const struct test_dir *dir)
{
    struct orch_err err = ERR_INIT;
    struct record *rec = reopen(dir, RECORD_READ);
    int r = record_check(rec, &err);
    close_record(rec);
    return r;
}

Test(record, a_changed_event_score_or_tail_shows)
{
    static const char *const changes[] = {
        "UPDATE trials SET score=1.0 WHERE id=1",
        "UPDATE trials SET phase='settled', kind='agent-limit' WHERE id=2",
        "DROP TRIGGER events_no_update; UPDATE events SET data='{}' WHERE seq=3",
        "DROP TRIGGER events_no_delete; DELETE FROM events WHERE seq=4",
        "DROP TRIGGER events_no_delete; DELETE FROM events WHERE seq=(SELECT max(seq) FROM events)",
        "PRAGMA foreign_keys=OFF; UPDATE trials SET step=9 WHERE id=1",
    };
    for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
        AUTO_TEST_DIR struct test_dir dir = test_dir_new();
        make_finished(&dir);
        cr_assert_eq(check_tampered(&dir), 0);
        tamper(&dir, changes[i]);
        cr_assert_eq(check_tampered(&dir), ORCH_E_DAMAGED, "%s", changes[i]);
    }
    TEST_END();
}

Test(record, events_are_append_only)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    make_finished(&dir);
    AUTO_FREE char *path = path_join(dir.path, "record.db");
    sqlite3 *db = NULL;
    cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db, "UPDATE events SET data='x'", NULL, NULL, NULL), SQLITE_CONSTRAINT);
    cr_assert_eq(sqlite3_exec(db, "DELETE FROM events", NULL, NULL, NULL), SQLITE_CONSTRAINT);
    cr_assert_eq(sqlite3_exec(db, "UPDATE trials SET phase='flying'", NULL, NULL, NULL), SQLITE_CONSTRAINT);
    sqlite3_close(db);
    TEST_END();
}

static int try_open(const struct test_dir *dir, enum record_mode mode, struct orch_err *err)
{
    struct record *rec = NULL;
    struct clock clock = clock_system();
    int r = record_open(dir->path, mode, &clock, &rec, err);
    if (r == 0) {
        close_record(rec);
    }
    return r;
}

static void overwrite(const struct test_dir *dir, off_t at, const void *data, size_t len)
{
    AUTO_FREE char *path = path_join(dir->path, "record.db");
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    cr_assert_geq(fd, 0);
    cr_assert_eq(pwrite(fd, data, len, at), (ssize_t)len);
    close(fd);
}

Test(record, another_or_newer_or_cut_file_is_refused_untouched)
{
    static const struct {
        off_t at;
        unsigned char bytes[4];
        const char *says;
    } cases[] = {
        {0, {'N', 'O', 'T', 'A'}, "header is damaged"},
        {68, {1, 2, 3, 4}, "not a record of orch"},
        {60, {0, 0, 0, 99}, "newer orch"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        AUTO_TEST_DIR struct test_dir dir = test_dir_new();
        struct orch_err err = ERR_INIT;
        struct stat before;
        struct stat after;
        make_finished(&dir);
        overwrite(&dir, cases[i].at, cases[i].bytes, 4);
        AUTO_FREE char *path = path_join(dir.path, "record.db");
        stat(path, &before);
        cr_assert_eq(try_open(&dir, RECORD_WRITE, &err), ORCH_E_DAMAGED);
        cr_assert(strstr(err.message, cases[i].says), "%s", err.message);
        stat(path, &after);
        cr_assert_eq(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
        cr_assert_eq(before.st_size, after.st_size);
    }
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    struct orch_err err = ERR_INIT;
    make_finished(&dir);
    AUTO_FREE char *path = path_join(dir.path, "record.db");
    cr_assert_eq(truncate(path, 5000), 0);
    cr_assert_eq(try_open(&dir, RECORD_WRITE, &err), ORCH_E_DAMAGED);
    test_write(&dir, "record.db", "");
    cr_assert_eq(try_open(&dir, RECORD_READ, &err), ORCH_E_DAMAGED);
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(try_open(&dir, RECORD_WRITE, &err), ORCH_E_NOT_FOUND);
    TEST_END();
}

Test(record, a_damaged_page_is_found_after_an_unclean_end)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    struct orch_err err = ERR_INIT;
    char garbage[3000];

    make_finished(&dir);
    tamper(&dir, "UPDATE meta SET value='0' WHERE key='_clean'; PRAGMA wal_checkpoint(TRUNCATE)");
    cr_assert_eq(try_open(&dir, RECORD_READ, &err), 0, "unclean and whole: %s", err.message);
    memset(garbage, 0x5a, sizeof garbage);
    /* page 4 on: any table that is not meta */
    for (off_t page = 5; page < 12; page++) {
        overwrite(&dir, page * 4096 + 8, garbage, sizeof garbage);
    }
    cr_assert_eq(try_open(&dir, RECORD_WRITE, &err), ORCH_E_DAMAGED);
    cr_assert_eq(try_open(&dir, RECORD_READ, &err), ORCH_E_DAMAGED);
    TEST_END();
}

static void leave_hot_journal(const struct test_dir *dir)
{
    struct orch_err err = ERR_INIT;
    AUTO_COMMAND_RESULT struct command_result result = {0};
    AUTO_FREE char *program = test_built("tests/unit/state/state_victim");
    AUTO_FREE char *journal = path_join(dir->path, "record.db-journal");
    char *const argv[] = {program, (char[]){"hot"}, dir->path, NULL};
    char *const envp[] = {NULL};
    const struct command c = {.program = program, .argv = argv, .envp = envp, .output_max = 4096};
    must(command_run(&c, &result, &err), &err);
    cr_assert(result.end == END_SIGNALLED && result.code == SIGKILL, "%s", result.err);
    cr_assert_eq(access(journal, F_OK), 0, "the journal is there");
}

Test(record, a_hot_rollback_journal_is_played_back_by_reader_and_writer)
{
    static const enum record_mode modes[] = {RECORD_READ, RECORD_WRITE};
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        AUTO_TEST_DIR struct test_dir dir = test_dir_new();
        struct orch_err err = ERR_INIT;
        make_finished(&dir);
        leave_hot_journal(&dir);
        cr_assert_eq(try_open(&dir, modes[i], &err), 0, "%s", err.message);
        cr_assert_eq(check_tampered(&dir), 0);
    }
    TEST_END();
}

Test(record, creating_never_replaces)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    struct orch_err err = ERR_INIT;
    make_finished(&dir);
    cr_assert_eq(try_open(&dir, RECORD_CREATE, &err), ORCH_E_FAILED);
    cr_assert_eq(check_tampered(&dir), 0);
    TEST_END();
}

static char *export_text(const struct test_dir *dir, struct record *rec, bool normalized)
{
    struct orch_err err = ERR_INIT;
    const struct export_options options = {.normalized = normalized, .calls = true, .events = true};
    AUTO_FREE char *path = path_join(dir->path, "export.json");
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(export_json(rec, &options, fd, &err), &err);
    close(fd);
    return test_read(dir, "export.json");
}

Test(record, the_normalised_export_does_not_see_retries_or_order)
{
    AUTO_TEST_DIR struct test_dir one = test_dir_new();
    AUTO_TEST_DIR struct test_dir two = test_dir_new();
    struct orch_err err = ERR_INIT;
    struct record *a = make(&one);
    struct record *b = make(&two);
    int64_t id = plan(a, 2);

    advance(a, id);
    settle(a, id, 1.0 / 3);
    advance(a, id + 1);
    settle(a, id + 1, 1);
    (void)plan(b, 2);
    must(record_meta_set(b, "run_id", "another", NULL, &err), &err);
    must(record_trial_phase(b, id + 1, PHASE_INTENT, NULL, &err), &err);
    must(record_trial_retry(b, id + 1, "lost", NULL, NULL, &err), &err);
    advance(b, id + 1);
    settle(b, id + 1, 1);
    advance(b, id);
    settle(b, id, 1.0 / 3);
    must(record_flush(a, &err), &err);
    must(record_flush(b, &err), &err);
    AUTO_FREE char *x = export_text(&one, a, true);
    AUTO_FREE char *y = export_text(&two, b, true);
    cr_assert_str_eq(x, y);
    AUTO_JSON json_t *doc = NULL;
    must(json_parse(x, strlen(x), 1 << 20, &doc, &err), &err);
    cr_assert_eq(json_array_size(json_get(doc, "trials")), 2);
    AUTO_FREE char *full = export_text(&two, b, false);
    AUTO_JSON json_t *whole = NULL;
    must(json_parse(full, strlen(full), 1 << 20, &whole, &err), &err);
    cr_assert_gt(json_array_size(json_get(whole, "events")), 10);
    close_record(a);
    close_record(b);
    TEST_END();
}

Test(record, words_go_both_ways)
{
    for (int i = 0; i < RESULT_COUNT; i++) {
        cr_assert_eq(result_kind_parse(result_kind_text((enum result_kind)i)), i);
    }
    cr_assert_eq(phase_parse("flying"), -1);
    cr_assert_eq(phase_parse(NULL), -1);
    TEST_END();
}

Test(record, meta_keys_of_its_own_are_reserved)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    struct orch_err err = ERR_INIT;
    struct record *rec = make(&dir);
    AUTO_FREE char *value = NULL;

    cr_assert_eq(record_meta_set(rec, "_clean", "1", NULL, &err), ORCH_E_INTERNAL);
    must(record_meta_set(rec, "name", "x", NULL, &err), &err);
    must(record_meta_set(rec, "name", "y", NULL, &err), &err);
    must(record_flush(rec, &err), &err);
    must(record_meta_get(rec, "name", &value, &err), &err);
    cr_assert_str_eq(value, "y");
    free(value);
    value = NULL;
    cr_assert_eq(record_meta_get(rec, "absent", &value, &err), ORCH_E_NOT_FOUND);
    must(record_meta_text(rec, "absent", &value, &err), &err);
    cr_assert_str_eq(value, "");
    close_record(rec);
    TEST_END();
}
