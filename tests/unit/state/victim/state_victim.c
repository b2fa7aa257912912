/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small run that can be killed anywhere and goes on: what the run loop does with the record, without programs.
 *
 *   state_victim run PROJECT ACKS [FAULTS]    one run of "victim", resumed if it is there; every acknowledged
 *                                             settling is appended to the file ACKS
 *   state_victim hold RUN_DIR                 takes the run's lock, prints a line, waits for the end of its input
 *   state_victim bench PROJECT TRIALS         phase operations a second, and memory
 *   state_victim hot RUN_DIR                  dies in the middle of a commit with a rollback journal
 *   state_victim threads                      posts, reads, keeps and drains at once (for ThreadSanitizer)
 */
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "state/durable.h"
#include "state/export.h"
#include "state/layout.h"
#include "state/lock.h"
#include "state/objects.h"
#include "state/record.h"
#include "state/versions.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRIALS 12

struct victim {
    struct layout layout;
    struct clock clock;
    char *id;
    struct record *rec;
    struct objects *objects;
    struct versions *versions;
    int acks;
    struct orch_err *err;
};

struct ack {
    struct victim *v;
    int64_t trial;
};

static void on_settled(void *arg, int code)
{
    struct ack *a = arg;
    char line[32];
    if (code == 0) {
        int n = snprintf(line, sizeof line, "%lld\n", (long long)a->trial);
        if (write(a->v->acks, line, (size_t)n) != n) {
            abort();
        }
    }
    free(a);
}

static bool count_step(void *arg, const struct step_row *row)
{
    *(int *)arg = (int)row->state + 1;
    return true;
}

static bool count_version(void *arg, const struct version_add *row, int64_t added_ns)
{
    (void)row;
    (void)added_ns;
    ++*(int *)arg;
    return true;
}

struct todo {
    int64_t ids[TRIALS];
    enum phase phases[TRIALS];
    int count;
    int all;
};

static bool find_todo(void *arg, const struct trial_row *row)
{
    struct todo *t = arg;
    t->all++;
    if (row->phase != PHASE_SETTLED) {
        t->ids[t->count] = row->id;
        t->phases[t->count++] = row->phase;
    }
    return true;
}

static int open_run(struct victim *v)
{
    TRY(layout_make(&v->layout, v->err));
    int r = layout_run_newest(&v->layout, "victim", NULL, false, &v->id, v->err);
    if (r == ORCH_E_NOT_FOUND) {
        err_clear(v->err);
        TRY(layout_run_create(&v->layout, "victim", &v->clock, &v->id, v->err));
        AUTO_FREE char *fresh = layout_run_dir(&v->layout, v->id);
        TRY(record_open(fresh, RECORD_CREATE, &v->clock, &v->rec, v->err));
    } else {
        TRY(r);
        AUTO_FREE char *dir = layout_run_dir(&v->layout, v->id);
        TRY(record_open(dir, RECORD_WRITE, &v->clock, &v->rec, v->err));
    }
    return record_start_writer(v->rec, NULL, NULL, v->err);
}

static int make_version(struct victim *v)
{
    AUTO_FREE char *dir = layout_run_path(&v->layout, v->id, RUN_VERSIONS);
    AUTO_FREE char *tree = layout_run_path(&v->layout, v->id, "tree");
    AUTO_FREE char *file = path_join(tree, "adapter.yaml");
    struct version_id id;

    TRY(fd_mkdirs(tree, 0755, v->err));
    TRY(durable_write_path(file, "version: 1\n", 11, 0644, v->err));
    TRY(versions_create(NULL, dir, &v->versions, v->err));
    AUTO_FD int fd = fd_open(tree, O_RDONLY | O_DIRECTORY, 0, v->err);
    TRY(fd);
    const struct version_commit commit = {.dirfd = fd, .message = "root", .tag = "v0"};
    TRY(versions_commit(v->versions, &commit, &id, v->err));
    TRY(versions_point(v->versions, "main", id.sha, v->err));
    const struct version_add add = {.number = 0, .sha = id.sha, .tree = id.tree};
    return record_version_add(v->rec, &add, RECORD_FSYNC(NULL, NULL), v->err);
}

static int prepare(struct victim *v)
{
    int versions = 0;
    int step = 0;
    struct todo todo = {.all = 0};
    struct trial_filter all = TRIAL_FILTER_ANY;

    TRY(record_versions(v->rec, count_version, &versions, v->err));
    if (versions == 0) {
        TRY(make_version(v));
    }
    TRY(record_steps(v->rec, count_step, &step, v->err));
    if (step == 0) {
        TRY(record_step_plan(v->rec, 0, 0, "[\"a\"]", NULL, v->err));
    }
    TRY(record_trials(v->rec, &all, find_todo, &todo, v->err));
    if (todo.all == 0) {
        struct trial_key keys[TRIALS];
        int64_t first;
        for (int i = 0; i < TRIALS; i++) {
            keys[i] = (struct trial_key){.version = 0, .task = "task", .sample = i, .split = SPLIT_TRAIN};
        }
        TRY(record_trial_plan(v->rec, keys, TRIALS, &first, NULL, v->err));
    } else if (todo.all != TRIALS) {
        return err_set(v->err, ORCH_E_DAMAGED, "%d trials were planned, not all or none", todo.all);
    }
    return record_flush(v->rec, v->err);
}

static int run_trial(struct victim *v, int64_t id, enum phase phase)
{
    static const enum phase phases[] = {PHASE_INTENT, PHASE_STARTED, PHASE_EXITED, PHASE_COLLECTED};
    static char output[40000]; /* beyond what is kept inline */
    struct kept kept;

    if (phase != PHASE_PLANNED) {
        TRY(record_trial_retry(v->rec, id, "interrupted", NULL, NULL, v->err));
    }
    for (size_t i = 0; i < ARRAY_LEN(phases); i++) {
        const struct record_then fsync = {.durability = phases[i] == PHASE_INTENT ? DURABLE_FSYNC : DURABLE_CRASH};
        TRY(record_trial_phase(v->rec, id, phases[i], &fsync, v->err));
        TRY(record_flush(v->rec, v->err));
    }
    size_t len = id % 2 ? sizeof output : 100;
    memset(output, (int)('a' + id), sizeof output);
    TRY(objects_keep(v->objects, output, len, 1 << 20, KEEP_REFUSE, &kept, v->err));
    struct ack *ack = xcalloc(1, sizeof *ack);
    *ack = (struct ack){v, id};
    const struct trial_result result = {.kind = RESULT_SCORED,
                                        .has_score = true,
                                        .score = 1.0 / (double)id,
                                        .output_tree = kept.digest,
                                        .grade = "confined"};
    if (record_trial_settle(v->rec, id, &result, RECORD_FSYNC(on_settled, ack), v->err) < 0) {
        free(ack);
        return v->err->code;
    }
    TRY(record_flush(v->rec, v->err));
    (void)record_drain(v->rec);
    return 0;
}

static int run(struct victim *v)
{
    struct todo todo = {.all = 0};
    struct trial_filter all = TRIAL_FILTER_ANY;
    int step = 0;

    TRY(open_run(v));
    AUTO_FREE char *objects = layout_run_path(&v->layout, v->id, RUN_OBJECTS);
    TRY(objects_open(objects, v->rec, NULL, &v->objects, v->err));
    TRY(prepare(v));
    TRY(record_trials(v->rec, &all, find_todo, &todo, v->err));
    for (int i = 0; i < todo.count; i++) {
        TRY(run_trial(v, todo.ids[i], todo.phases[i]));
    }
    TRY(record_steps(v->rec, count_step, &step, v->err));
    if (step != STEP_SETTLED + 1) {
        TRY(record_step_settle(v->rec, 0, "root", 0, NULL, RECORD_FSYNC(NULL, NULL), v->err));
    }
    TRY(record_meta_set(v->rec, "state", "finished", RECORD_FSYNC(NULL, NULL), v->err));
    return record_flush(v->rec, v->err);
}

static int verb_run(char **argv, struct orch_err *err)
{
    struct victim v = {.clock = clock_system(), .err = err};
    struct fault_plan *plan = NULL;

    if (argv[2]) {
        TRY(fault_plan_parse(argv[2], &plan, err));
        fault_install(plan);
    }
    v.acks = fd_open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0600, err);
    TRY(v.acks);
    int r = layout_find(NULL, argv[0], NULL, &v.layout, err);
    r = r < 0 ? r : run(&v);
    struct orch_err second = ERR_INIT;
    int closed = v.rec ? record_close(v.rec, &second) : 0;
    if (r == 0 && closed < 0) {
        *err = second;
        r = closed;
    }
    objects_free(v.objects);
    versions_free(v.versions);
    layout_done(&v.layout);
    free(v.id);
    fault_install(NULL);
    fault_plan_free(plan);
    fd_close(&v.acks);
    return r;
}

static int verb_hold(char **argv, struct orch_err *err)
{
    AUTO_LOCK struct run_lock *lock = NULL;
    char c;

    TRY(lock_take(argv[0], &lock, err));
    (void)!write(STDOUT_FILENO, "held\n", 5);
    while (read(STDIN_FILENO, &c, 1) > 0) {
    }
    return 0;
}

/* ---- Bench ---- */

static double seconds(const struct clock *clock)
{
    return (double)clock_mono_ns(clock) / 1e9;
}

static int bench_phases(struct victim *v, int64_t first, int64_t n)
{
    const struct trial_result result = {.kind = RESULT_SCORED, .has_score = true, .score = 0.5, .grade = "confined"};
    for (int p = PHASE_INTENT; p <= PHASE_COLLECTED; p++) {
        for (int64_t i = 0; i < n; i++) {
            TRY(record_trial_phase(v->rec, first + i, (enum phase)p, NULL, v->err));
        }
    }
    for (int64_t i = 0; i < n; i++) {
        TRY(record_trial_settle(v->rec, first + i, &result, NULL, v->err));
    }
    return record_flush(v->rec, v->err);
}

static int verb_bench(char **argv, struct orch_err *err)
{
    struct victim v = {.clock = clock_system(), .err = err};
    int64_t n = strtoll(argv[1], NULL, 10);
    int64_t first;
    struct rusage usage;

    TRY(layout_find(NULL, argv[0], NULL, &v.layout, err));
    TRY(open_run(&v));
    const struct version_add add = {.number = 0};
    TRY(record_version_add(v.rec, &add, NULL, err));
    TRY(record_step_plan(v.rec, 0, 0, NULL, NULL, err));
    struct trial_key *keys = xcalloc((size_t)n, sizeof *keys);
    for (int64_t i = 0; i < n; i++) {
        keys[i] = (struct trial_key){.task = "task", .sample = i};
    }
    TRY(record_trial_plan(v.rec, keys, (size_t)n, &first, NULL, err));
    TRY(record_flush(v.rec, err));
    free(keys);
    double start = seconds(&v.clock);
    TRY(bench_phases(&v, first, n));
    double took = seconds(&v.clock) - start;
    TRY(record_check(v.rec, err));
    TRY(record_close(v.rec, err));
    getrusage(RUSAGE_SELF, &usage);
    printf("%.0f operations/s over %lld trials, %ld MiB\n", (double)n * 5 / took, (long long)n, usage.ru_maxrss / 1024);
    layout_done(&v.layout);
    free(v.id);
    return 0;
}

/* ---- A hot journal ---- */

/* As on a network file system, where the record has no write-ahead log: pages are overwritten in place, the old ones
 * lie in the journal, and the writer is gone. */
static int verb_hot(char **argv, struct orch_err *err)
{
    static const char *const statements[] = {
        "PRAGMA journal_mode=DELETE",
        "PRAGMA cache_size=1", /* spills: the file itself is changed before the commit */
        "BEGIN IMMEDIATE",
        ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)"
         " INSERT INTO objects(digest, size, data) SELECT 'd' || i, 100, randomblob(100) FROM n"),
        "UPDATE trials SET task = hex(randomblob(500))",
    };
    AUTO_FREE char *path = path_join(argv[0], RUN_RECORD);
    sqlite3 *db = NULL;

    if (sqlite3_open(path, &db) != SQLITE_OK) {
        return err_set(err, ORCH_E_IO, "%s", path);
    }
    for (size_t i = 0; i < ARRAY_LEN(statements); i++) {
        char *message = NULL;
        if (sqlite3_exec(db, statements[i], NULL, NULL, &message) != SQLITE_OK) {
            return err_set(err, ORCH_E_IO, "%s", message);
        }
    }
    (void)kill(getpid(), SIGKILL);
    return 0;
}

/* ---- Threads ---- */

#define POSTERS 4
#define POSTS 5000

struct worker {
    struct victim *v;
    int number;
    int failures;
    atomic_int *running;
};

static void count_completion(void *arg, int code)
{
    *(int *)arg += code == 0;
}

static bool any_event(void *arg, const struct event_row *row)
{
    *(int64_t *)arg = row->seq;
    return true;
}

static void *post_events(void *arg)
{
    struct worker *w = arg;
    struct orch_err err = ERR_INIT;
    struct kept kept;
    for (int i = 0; i < POSTS; i++) {
        w->failures += record_event(w->v->rec, "test.event", "run", NULL, NULL, &err) < 0;
        if (i % 500 == 0) {
            w->failures += objects_keep(w->v->objects, &i, sizeof i, 100, KEEP_REFUSE, &kept, &err) < 0;
            char *back = NULL;
            w->failures += objects_read(w->v->objects, kept.digest, 100, &back, NULL, &err) < 0;
            free(back);
        }
    }
    atomic_fetch_sub(w->running, 1);
    return NULL;
}

static void notice(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
}

static int stress(struct victim *v, const char *dir)
{
    atomic_int notices = 0;
    atomic_int running = POSTERS;
    struct worker workers[POSTERS];
    pthread_t threads[POSTERS];
    int done = 0;
    int posted = 0;
    int64_t seq = 0;

    TRY(record_open(dir, RECORD_CREATE, &v->clock, &v->rec, v->err));
    TRY(record_start_writer(v->rec, notice, &notices, v->err));
    TRY(objects_open(dir, v->rec, NULL, &v->objects, v->err));
    for (int i = 0; i < POSTERS; i++) {
        workers[i] = (struct worker){v, i, 0, &running};
        if (pthread_create(&threads[i], NULL, post_events, &workers[i])) {
            return err_set(v->err, ORCH_E_FAILED, "no thread");
        }
    }
    while (atomic_load(&running) > 0) { /* the loop's part */
        TRY(record_event(v->rec, "test.event", "run", NULL, RECORD_CRASH(count_completion, &done), v->err));
        posted++;
        (void)record_drain(v->rec);
        TRY(record_events(v->rec, seq, 10, any_event, &seq, v->err));
    }
    for (int i = 0; i < POSTERS; i++) {
        pthread_join(threads[i], NULL);
        if (workers[i].failures) {
            return err_set(v->err, ORCH_E_FAILED, "%d failures", workers[i].failures);
        }
    }
    TRY(record_flush(v->rec, v->err));
    (void)record_drain(v->rec);
    if (done != posted) {
        return err_set(v->err, ORCH_E_FAILED, "%d of %d completions came", done, posted);
    }
    TRY(record_check(v->rec, v->err));
    TRY(record_events(v->rec, 0, 0, any_event, &seq, v->err));
    return seq == posted + POSTERS * POSTS ? 0 : err_set(v->err, ORCH_E_FAILED, "events are missing");
}

static int verb_threads(char **argv, struct orch_err *err)
{
    struct victim v = {.clock = clock_system(), .err = err};
    char dir[] = "/tmp/orch-threads-XXXXXX";

    (void)argv;
    if (!mkdtemp(dir)) {
        return err_errno(err, ORCH_E_IO, "make a folder");
    }
    int r = stress(&v, dir);
    struct orch_err second = ERR_INIT;
    objects_free(v.objects);
    if (record_close(v.rec, &second) < 0 && r == 0) {
        *err = second;
        r = second.code;
    }
    if (fd_remove_tree(AT_FDCWD, dir, &second) < 0 && r == 0) {
        *err = second;
        r = second.code;
    }
    return r;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(char **argv, struct orch_err *err);
        int min;
    } verbs[] = {{"run", verb_run, 4},
                 {"hold", verb_hold, 3},
                 {"bench", verb_bench, 4},
                 {"hot", verb_hot, 3},
                 {"threads", verb_threads, 2}};
    struct orch_err err = ERR_INIT;

    for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
        if (argc >= verbs[i].min && strcmp(argv[1], verbs[i].name) == 0) {
            int r = verbs[i].run(argv + 2, &err);
            if (r < 0) {
                fprintf(stderr, "%s: %s\n", err_name(r), err.message);
            }
            return err_exit_status(r);
        }
    }
    return 2;
}
