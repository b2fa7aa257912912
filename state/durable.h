/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one layer for durable file writes, with named fault points.
 *
 * A write is: temporary file beside the target, data, fsync, rename, fsync of
 * the directory. A reader sees the old file or the new one, never a mixture, and
 * after a return of 0 the new one survives a power cut.
 *
 * Fault points let tests kill the process or fail the call at an exact place.
 * The plan is installed at most once, by main before any thread starts, and is
 * never changed after: a constant of the process (its counters are atomic).
 * Without a plan a fault point is one load and a branch.
 */
#ifndef ORCH_STATE_DURABLE_H
#define ORCH_STATE_DURABLE_H

#include "base/err.h"

#include <stddef.h>
#include <sys/types.h>

/* identifier, name in a plan */
#define FAULT_TABLE(X)                                                                                                 \
    X(DURABLE_WRITE_OPEN, "durable.write.open")                                                                        \
    X(DURABLE_WRITE_DATA, "durable.write.data")                                                                        \
    X(DURABLE_WRITE_SYNC, "durable.write.sync")                                                                        \
    X(DURABLE_WRITE_RENAME, "durable.write.rename")                                                                    \
    X(DURABLE_WRITE_DIRSYNC, "durable.write.dirsync")                                                                  \
    X(DURABLE_MKDIR, "durable.mkdir")                                                                                  \
    X(RECORD_CREATE, "record.create")                                                                                  \
    X(RECORD_BEGIN, "record.begin")                                                                                    \
    X(RECORD_OP, "record.op")                                                                                          \
    X(RECORD_COMMIT_BEFORE, "record.commit.before")                                                                    \
    X(RECORD_COMMIT_AFTER, "record.commit.after")                                                                      \
    X(OBJECTS_KEEP, "objects.keep")                                                                                    \
    X(VERSIONS_IMPORT_BEFORE, "versions.import.before")                                                                \
    X(VERSIONS_IMPORT_AFTER, "versions.import.after")                                                                  \
    X(LOCK_TAKEN, "lock.taken")                                                                                        \
    X(TRIAL_INTENT, "trial.intent")                                                                                    \
    X(TRIAL_STARTED, "trial.started")                                                                                  \
    X(TRIAL_EXITED, "trial.exited")                                                                                    \
    X(TRIAL_COLLECTED, "trial.collected")                                                                              \
    X(TRIAL_SETTLED, "trial.settled")                                                                                  \
    X(CALL_INTENT, "call.intent")                                                                                      \
    X(CALL_STARTED, "call.started")                                                                                    \
    X(CALL_EXITED, "call.exited")                                                                                      \
    X(CALL_COLLECTED, "call.collected")                                                                                \
    X(CALL_SETTLED, "call.settled")                                                                                    \
    X(SANDBOX_OPEN, "sandbox.open")                                                                                    \
    X(SANDBOX_CLOSED, "sandbox.closed")                                                                                \
    X(STEP_PLANNED, "step.planned")                                                                                    \
    X(STEP_MATERIAL, "step.material")                                                                                  \
    X(STEP_EVOLVER, "step.evolver")                                                                                    \
    X(STEP_CHECKED, "step.checked")                                                                                    \
    X(STEP_VERSION, "step.version")                                                                                    \
    X(STEP_GATE, "step.gate")                                                                                          \
    X(STEP_SETTLED, "step.settled")                                                                                    \
    X(RUN_SUMMARY, "run.summary")                                                                                      \
    X(RUN_FINISHED, "run.finished")

enum fault_name {
#define X(id, name) FAULT_##id,
    FAULT_TABLE(X)
#undef X
        FAULT_COUNT
};

struct fault_plan;
/* "name:nth:action[,…]": nth counts from 1; action: kill (SIGKILL self), enospc, eio, short (a write in pieces).
 * Unknown names and actions are ORCH_E_USAGE. Owned by the caller; must outlive the process if installed. */
MUST_USE int fault_plan_parse(const char *text, struct fault_plan **ret, struct orch_err *err);
void fault_plan_free(struct fault_plan *plan);
/* Once, before threads; NULL uninstalls (tests). */
void fault_install(const struct fault_plan *plan);
/* 0, or the planned failure (ORCH_E_NO_SPACE, ORCH_E_IO); may not return at all. Any thread. */
MUST_USE int fault_point(enum fault_name point, struct orch_err *err);
const char *fault_text(enum fault_name point);

/* Replaces `name` (one component) beneath dirfd. */
MUST_USE int durable_write_file(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                                struct orch_err *err);
/* The same by a trusted path. */
MUST_USE int durable_write_path(const char *path, const void *data, size_t len, mode_t mode, struct orch_err *err);
/* mkdirat and fsync of dirfd. An existing directory is success unless `exclusive`: then ORCH_E_FAILED, errno EEXIST. */
MUST_USE int durable_mkdir(int dirfd, const char *name, mode_t mode, bool exclusive, struct orch_err *err);
MUST_USE int durable_sync_dir(int dirfd, struct orch_err *err);

/* In pieces, for what is too large for memory: open, write to ret_fd through durable_temp_write, commit or drop. */
struct durable_temp {
    int fd;    /* -1: none */
    int dirfd; /* borrowed */
    char name[64];
};
MUST_USE int durable_temp_open(int dirfd, mode_t mode, struct durable_temp *ret, struct orch_err *err);
MUST_USE int durable_temp_write(struct durable_temp *t, const void *data, size_t len, struct orch_err *err);
/* fsync, rename to `name` beneath to_dirfd, fsync of it. t is empty afterwards, whatever happened. */
MUST_USE int durable_temp_commit(struct durable_temp *t, int to_dirfd, const char *name, struct orch_err *err);
void durable_temp_drop(struct durable_temp *t);

#endif
