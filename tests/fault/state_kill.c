/* SPDX-License-Identifier: Apache-2.0 */
/* kill -9 and failing disks at every fault point a run passes: what was acknowledged is there, and the resumed run
 * exports the same bytes as an unbroken one. */
#include "test.h"

#include "base/mem.h"
#include "base/path.h"
#include "base/process.h"
#include "state/durable.h"
#include "state/export.h"
#include "state/layout.h"
#include "state/record.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void run_victim(const struct test_dir *dir, const char *faults, struct command_result *ret)
{
    struct orch_err err = ERR_INIT;
    AUTO_FREE char *program = test_built("tests/unit/state/state_victim");
    AUTO_FREE char *acks = path_join(dir->path, "acks");
    AUTO_FREE char *plan = xstrdup(faults);
    char *const argv[] = {program, (char[]){"run"}, dir->path, acks, faults ? plan : NULL, NULL};
    char *const envp[] = {(char[]){"PATH=/usr/bin:/bin"}, NULL};
    const struct command c = {
        .program = program, .argv = argv, .envp = envp, .output_max = 4096, .timeout_ns = INT64_C(60000000000)};
    cr_assert_eq(command_run(&c, ret, &err), 0, "%s", err.message);
}

static struct record *open_run(const struct test_dir *dir)
{
    struct orch_err err = ERR_INIT;
    AUTO_LAYOUT struct layout l = {0};
    AUTO_FREE char *id = NULL;
    struct record *rec = NULL;
    struct clock clock = clock_system();
    cr_assert_eq(layout_find(NULL, dir->path, NULL, &l, &err), 0, "%s", err.message);
    int r = layout_run_newest(&l, "victim", NULL, false, &id, &err);
    if (r == ORCH_E_NOT_FOUND) {
        return NULL; /* killed before there was a record */
    }
    cr_assert_eq(r, 0, "%s", err.message);
    AUTO_FREE char *run = layout_run_dir(&l, id);
    cr_assert_eq(record_open(run, RECORD_READ, &clock, &rec, &err), 0, "%s", err.message);
    return rec;
}

static bool is_settled(void *arg, const struct trial_row *row)
{
    *(bool *)arg = row->phase == PHASE_SETTLED && row->result.kind == RESULT_SCORED;
    return true;
}

/* Every line of acks is a settled trial; the whole record is sound. */
static int check_acks(const struct test_dir *dir, const char *faults)
{
    struct orch_err err = ERR_INIT;
    AUTO_RECORD struct record *rec = open_run(dir);
    AUTO_FREE char *acks = test_read(dir, "acks");
    int count = 0;
    for (char *p = acks; p && *p; p = strchr(p, '\n') + 1) {
        bool settled = false;
        cr_assert_not_null(rec, "%s", faults);
        cr_assert_eq(record_trial(rec, strtoll(p, NULL, 10), is_settled, &settled, &err), 0, "%s", err.message);
        cr_assert(settled, "%s: trial %.4s was acknowledged and is not there", faults, p);
        count++;
    }
    if (rec) {
        cr_assert_eq(record_check(rec, &err), 0, "%s: %s", faults, err.message);
    }
    return count;
}

static char *export_run(const struct test_dir *dir)
{
    struct orch_err err = ERR_INIT;
    AUTO_RECORD struct record *rec = open_run(dir);
    const struct export_options options = {.normalized = true};
    AUTO_FREE char *path = path_join(dir->path, "export.json");
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    cr_assert_eq(export_json(rec, &options, fd, &err), 0, "%s", err.message);
    close(fd);
    return test_read(dir, "export.json");
}

static char *unbroken(void)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    AUTO_COMMAND_RESULT struct command_result result = {0};
    run_victim(&dir, NULL, &result);
    cr_assert_eq(result.code, 0, "%s", result.err);
    cr_assert_eq(check_acks(&dir, "none"), 12);
    return export_run(&dir);
}

/* Breaks a run as `faults` says, resumes it, compares. False: the run ended before the fault came. */
static bool break_and_resume(const char *want, const char *faults, bool killed)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    AUTO_COMMAND_RESULT struct command_result broken = {0};
    AUTO_COMMAND_RESULT struct command_result resumed = {0};

    run_victim(&dir, faults, &broken);
    bool reached = killed ? broken.end == END_SIGNALLED && broken.code == SIGKILL : broken.code != 0;
    cr_assert(reached || (broken.end == END_EXITED && broken.code == 0), "%s: %s", faults, broken.err);
    (void)check_acks(&dir, faults);
    run_victim(&dir, NULL, &resumed);
    cr_assert(resumed.end == END_EXITED && resumed.code == 0, "%s: %s", faults, resumed.err);
    cr_assert_leq(check_acks(&dir, faults), 12, "%s", faults); /* one committed at the kill may never be told of */
    AUTO_FREE char *got = export_run(&dir);
    cr_assert_str_eq(got, want, "%s", faults);
    return reached;
}

/* The points that this small run passes. */
static const enum fault_name passed[] = {
    FAULT_DURABLE_WRITE_OPEN,     FAULT_DURABLE_WRITE_DATA,    FAULT_DURABLE_WRITE_SYNC,
    FAULT_DURABLE_WRITE_RENAME,   FAULT_DURABLE_WRITE_DIRSYNC, FAULT_DURABLE_MKDIR,
    FAULT_RECORD_CREATE,          FAULT_RECORD_BEGIN,          FAULT_RECORD_OP,
    FAULT_RECORD_COMMIT_BEFORE,   FAULT_RECORD_COMMIT_AFTER,   FAULT_OBJECTS_KEEP,
    FAULT_VERSIONS_IMPORT_BEFORE, FAULT_VERSIONS_IMPORT_AFTER,
};

static void break_at(const char *action, bool killed)
{
    static const int nths[] = {1, 2, 5, 11};
    AUTO_FREE char *want = unbroken();
    for (size_t i = 0; i < ARRAY_LEN(passed); i++) {
        for (size_t n = 0; n < ARRAY_LEN(nths); n++) {
            AUTO_FREE char *faults = xasprintf("%s:%d:%s", fault_text(passed[i]), nths[n], action);
            bool reached = break_and_resume(want, faults, killed);
            cr_assert(reached || n > 0, "%s was never reached", faults);
            if (!reached) {
                break;
            }
        }
    }
}

Test(kill, a_killed_run_goes_on_as_if_nothing_had_been, .timeout = 400)
{
    break_at("kill", true);
    TEST_END();
}

Test(kill, a_full_disk_loses_nothing, .timeout = 400)
{
    break_at("enospc", false);
    TEST_END();
}
