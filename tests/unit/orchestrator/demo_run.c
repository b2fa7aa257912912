/* SPDX-License-Identifier: Apache-2.0 */
#include "demo_run.h"

#include "base/fd.h"
#include "base/mem.h"
#include "orchestrator/options.h"
#include "orchestrator/verbs.h"
#include "state/objects.h"
#include "state/versions.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct orch_err err;

/* The demo is not what is tested: whatever fails here ends the test. */
static void good(int code)
{
    cr_assert_geq(code, 0, "%s", err.message);
}

void demo_make(struct demo *d)
{
    *d = (struct demo){.dir = test_dir_new(), .clock = clock_system()};
    good(layout_find(NULL, d->dir.path, NULL, &d->layout, &err));
    good(layout_make(&d->layout, &err));
    good(layout_run_create(&d->layout, "demo", &d->clock, &d->id, &err));
    d->run_dir = layout_run_dir(&d->layout, d->id);
    good(record_open(d->run_dir, RECORD_CREATE, &d->clock, &d->record, &err));
    good(record_start_writer(d->record, NULL, NULL, &err));
    good(record_meta_set(d->record, "run_id", d->id, NULL, &err));
    good(record_meta_set(d->record, "name", "demo", NULL, &err));
    good(record_meta_set(d->record, "kind", "run", NULL, &err));
    good(record_meta_set(d->record, "state", "running", NULL, &err));
    struct version_add root = {.number = 0, .state = VERSION_ACCEPTED, .sha = "1234567890", .tree = "abcdef"};
    struct trial_key keys[] = {
        {.task = "a", .sample = 0, .split = SPLIT_TRAIN},
        {.task = "a", .sample = 1, .split = SPLIT_TRAIN},
        {.task = "b", .sample = 0, .split = SPLIT_TRAIN},
    };
    int64_t first = 0;
    good(record_version_add(d->record, &root, NULL, &err));
    good(record_step_plan(d->record, 0, 0, "[\"a\",\"b\"]", NULL, &err));
    good(record_trial_plan(d->record, keys, ARRAY_LEN(keys), &first, NULL, &err));
    cr_assert_eq(first, 1);
    good(record_flush(d->record, &err));
}

static void advance_trial(struct demo *d, int64_t trial)
{
    for (int phase = PHASE_INTENT; phase <= PHASE_COLLECTED; phase++) {
        good(record_trial_phase(d->record, trial, (enum phase)phase, NULL, &err));
    }
}

static void add_call(struct demo *d, int64_t trial, const char *out, const char *errors)
{
    AUTO_FREE char *dir = layout_run_path(&d->layout, d->id, RUN_OBJECTS);
    AUTO_OBJECTS struct objects *objects = NULL;
    struct kept kept_out;
    struct kept kept_err;
    int64_t call = 0;
    good(objects_open(dir, d->record, NULL, &objects, &err));
    good(objects_keep(objects, out, strlen(out), 1 << 20, KEEP_CUT, &kept_out, &err));
    good(objects_keep(objects, errors, strlen(errors), 1 << 20, KEEP_CUT, &kept_err, &err));
    struct call_plan plan = {
        .kind = CALL_TASK, .trial = trial, .incarnation = 1, .step = 0, .environment = "host", .spec = "{}"};
    good(record_call_plan(d->record, &plan, &call, NULL, &err));
    for (int phase = PHASE_INTENT; phase <= PHASE_COLLECTED; phase++) {
        good(record_call_phase(d->record, call, (enum phase)phase, NULL, NULL, &err));
    }
    struct record_call_result result = {
        .exit = EXIT_EXITED,
        .code = 3,
        .grade = "confined",
        .stdout_digest = kept_out.digest,
        .stderr_digest = kept_err.digest,
        .usage = {.wall_ns = 1500 * NS_PER_MS, .cpu_ns = -1, .rss_bytes = 4 << 20},
    };
    good(record_call_settle(d->record, call, &result, NULL, &err));
}

static void add_versions(struct demo *d)
{
    AUTO_FREE char *dir = layout_run_path(&d->layout, d->id, RUN_VERSIONS);
    AUTO_VERSIONS struct versions *versions = NULL;
    AUTO_TEST_DIR struct test_dir tree = test_dir_new();
    struct version_id root;
    struct version_id next;
    good(versions_create(NULL, dir, &versions, &err));
    test_write(&tree, "rules.txt", "one\n");
    struct version_commit commit = {.dirfd = tree.fd, .message = "root", .tag = "v0", .wall_ns = NS_PER_S};
    good(versions_commit(versions, &commit, &root, &err));
    test_write(&tree, "rules.txt", "one\ntwo \x1b[31mred\n");
    char *parents[] = {root.sha, NULL};
    commit = (struct version_commit){
        .dirfd = tree.fd, .parents = parents, .message = "step 0", .tag = "v1", .wall_ns = 2 * NS_PER_S};
    good(versions_commit(versions, &commit, &next, &err));
    int64_t parent = 0;
    struct version_add add = {.number = 1,
                              .state = VERSION_ACCEPTED,
                              .step = 0,
                              .parents = &parent,
                              .parent_count = 1,
                              .sha = next.sha,
                              .tree = next.tree};
    good(record_version_add(d->record, &add, NULL, &err));
}

void demo_fill(struct demo *d)
{
    advance_trial(d, 1);
    add_call(d, 1, "hello \x1b]0;title\x07 \xff end\n", "warning: \x1b[2J\n");
    struct trial_result scored = {.kind = RESULT_SCORED,
                                  .has_score = true,
                                  .score = 0.5,
                                  .metrics = "{\"lines\":3}",
                                  .feedback = "half\nright \x1b[5m",
                                  .grade = "confined",
                                  .elapsed_ns = 2 * NS_PER_S};
    good(record_trial_settle(d->record, 1, &scored, NULL, &err));
    struct trial_result limited = {.kind = RESULT_LIMIT,
                                   .reason = "timeout",
                                   .reason_text = "took too long",
                                   .reason_value = 10.5e9,
                                   .reason_limit = 10e9,
                                   .grade = "confined"};
    good(record_trial_settle(d->record, 2, &limited, NULL, &err));
    add_versions(d);
    good(record_step_settle(d->record, 0, "accepted", 1, "{\"reason\":\"better\"}", NULL, &err));
    good(record_meta_set(d->record, "state", "finished", NULL, &err));
    good(record_close(take(d->record), &err));
}

void demo_done(struct demo *d)
{
    record_release(&d->record);
    free(d->id);
    free(d->run_dir);
    layout_done(&d->layout);
    test_dir_done(&d->dir);
}

/* Sends a stream of this process to a file for a while. */
static int redirect(FILE *stream, int *ret_saved)
{
    (void)fflush(stream);
    *ret_saved = fcntl(fileno(stream), F_DUPFD_CLOEXEC, 3);
    char path[] = "/tmp/orch-captured-XXXXXX";
    int file = mkstemp(path);
    cr_assert_geq(file, 0);
    cr_assert_eq(unlink(path), 0);
    cr_assert_geq(dup2(file, fileno(stream)), 0);
    return file;
}

static char *restore(FILE *stream, int file, int saved)
{
    char *text = NULL;
    size_t len = 0;
    (void)fflush(stream);
    cr_assert_geq(dup2(saved, fileno(stream)), 0);
    cr_assert_eq(lseek(file, 0, SEEK_SET), 0);
    good(fd_read_all(file, 1 << 24, &text, &len, &err));
    cr_assert_eq(close(file) | close(saved), 0);
    return text;
}

struct outcome demo_verb(const struct demo *d, const char *const *words)
{
    const char *argv[32] = {"orch", "--project", d->dir.path};
    int argc = 3;
    for (; words[argc - 3] != NULL; argc++) {
        cr_assert_lt(argc, 31);
        argv[argc] = words[argc - 3];
    }
    AUTO_VERB_LINE struct verb_line line = {0};
    good(verb_line_parse(verbs, argc, (char *const *)(uintptr_t)argv, &line, &err));
    struct verb_call call = {
        .verb = line.verb,
        .args = line.args,
        .arg_count = line.arg_count,
        .rest = line.rest,
        .environ = environ,
        .clock = d->clock,
        .program = "/nonexistent/orch",
        .json = line.json,
        .quiet = line.quiet,
        .line = &line,
    };
    struct outcome o = {0};
    int saved_out;
    int saved_err;
    int out = redirect(stdout, &saved_out);
    int errors = redirect(stderr, &saved_err);
    o.status = line.verb->run(&call);
    o.out = restore(stdout, out, saved_out);
    o.err = restore(stderr, errors, saved_err);
    return o;
}

void outcome_done(struct outcome *o)
{
    free(o->out);
    free(o->err);
}
