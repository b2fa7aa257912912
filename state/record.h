/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record: the durable account of a run, one SQLite file.
 *
 * Writing. One thread of the record writes; the loop posts operations. A call
 * copies what it is given, checks the state machine at once, and returns; the
 * thread commits whatever has gathered as one transaction, in order. Each
 * operation also appends its event. A completion (`then`) is called in
 * record_drain(), after the commit that holds the operation.
 *
 *     record_trial_phase(rec, id, PHASE_INTENT, RECORD_FSYNC(on_intent, trial), err)
 *
 * A committed operation survives kill -9; one posted with DURABLE_FSYNC survives
 * a power cut. When SQLite fails (disk full, I/O), the transaction is rolled
 * back, and it and all later operations complete with that error: nothing that
 * was committed is lost, and the run can be resumed from the file.
 *
 * Numbers (trial, call, sandbox) are given at once, before the commit: one
 * process owns the run (state/lock.h), so they cannot clash.
 *
 * Posting functions may be called from any thread; record_drain from one.
 * A posting function blocks while the queue is full (back-pressure); the writer
 * never waits for record_drain.
 *
 * Reading. Read functions see what is committed (record_flush first to see what
 * was just posted); they block, from any thread. Texts handed to a callback live
 * for that call only. Callbacks may not call read functions on the same record.
 */
#ifndef ORCH_STATE_RECORD_H
#define ORCH_STATE_RECORD_H

#include "base/clock.h"
#include "base/digest.h"
#include "base/err.h"
#include "base/json.h"

#include <stdint.h>

#define RECORD_SCHEMA 1
#define RECORD_QUEUE_OPS 16384 /* posted and not yet taken by the writer */
#define RECORD_QUEUE_BYTES ((size_t)64 << 20)
#define RECORD_TEXT_MAX ((size_t)16 << 20) /* one value; more is ORCH_E_LIMIT */

/* ---- Words ---------------------------------------------------------------- */

/* identifier, text kept in the record */
#define PHASE_TABLE(X)                                                                                                 \
    X(PLANNED, "planned")                                                                                              \
    X(INTENT, "intent")                                                                                                \
    X(STARTED, "started")                                                                                              \
    X(EXITED, "exited")                                                                                                \
    X(COLLECTED, "collected")                                                                                          \
    X(SETTLED, "settled")
#define SANDBOX_PHASE_TABLE(X)                                                                                         \
    X(OPEN, "open")                                                                                                    \
    X(CHECKED, "checked")                                                                                              \
    X(CLOSED, "closed")
/* Four exclusive kinds of result; NONE is "not run": unknown is not failed, not zero. */
#define RESULT_TABLE(X)                                                                                                \
    X(NONE, "not-run")                                                                                                 \
    X(SCORED, "scored")                                                                                                \
    X(LIMIT, "agent-limit")                                                                                            \
    X(INFRA, "infrastructure-error")                                                                                   \
    X(JUDGE, "judge-error")
/* ROLLOUT trials are the evolver's own; no mean counts them as train. */
#define SPLIT_TABLE(X)                                                                                                 \
    X(TRAIN, "train")                                                                                                  \
    X(VAL, "val")                                                                                                      \
    X(TEST, "test")                                                                                                    \
    X(ROLLOUT, "rollout")
#define CALL_KIND_TABLE(X)                                                                                             \
    X(TASK, "task")                                                                                                    \
    X(JUDGE, "judge")                                                                                                  \
    X(EVOLVER, "evolver")                                                                                              \
    X(BUILD, "build")                                                                                                  \
    X(CHECK, "check")                                                                                                  \
    X(MEASURE, "measure")                                                                                              \
    X(TOOL, "tool")                                                                                                    \
    X(ROLLOUT, "rollout")                                                                                              \
    X(PROBE, "probe")
#define VERSION_STATE_TABLE(X)                                                                                         \
    X(ACCEPTED, "accepted")                                                                                            \
    X(REJECTED, "rejected")                                                                                            \
    X(SNAPSHOT, "snapshot")
#define STEP_STATE_TABLE(X)                                                                                            \
    X(PLANNED, "planned")                                                                                              \
    X(TRIALS, "trials")                                                                                                \
    X(EVOLVER, "evolver")                                                                                              \
    X(CHECK, "check")                                                                                                  \
    X(GATE, "gate")                                                                                                    \
    X(SETTLED, "settled")
#define EXIT_TABLE(X)                                                                                                  \
    X(UNKNOWN, "unknown")                                                                                              \
    X(EXITED, "exited")                                                                                                \
    X(SIGNALLED, "signal")                                                                                             \
    X(LIMIT, "limit")                                                                                                  \
    X(LOST, "lost")

#define RECORD_ENUMS(X)                                                                                                \
    X(phase, PHASE, PHASE_TABLE)                                                                                       \
    X(sandbox_phase, SANDBOX_PHASE, SANDBOX_PHASE_TABLE)                                                               \
    X(result_kind, RESULT, RESULT_TABLE)                                                                               \
    X(split, SPLIT, SPLIT_TABLE)                                                                                       \
    X(call_kind, CALL, CALL_KIND_TABLE)                                                                                \
    X(version_state, VERSION, VERSION_STATE_TABLE)                                                                     \
    X(step_state, STEP, STEP_STATE_TABLE)                                                                              \
    X(exit_kind, EXIT, EXIT_TABLE)

#define X(id, text) PHASE_##id,
enum phase { PHASE_TABLE(X) PHASE_COUNT };
#undef X
#define X(id, text) SANDBOX_PHASE_##id,
enum sandbox_phase { SANDBOX_PHASE_TABLE(X) SANDBOX_PHASE_COUNT };
#undef X
#define X(id, text) RESULT_##id,
enum result_kind { RESULT_TABLE(X) RESULT_COUNT };
#undef X
#define X(id, text) SPLIT_##id,
enum split { SPLIT_TABLE(X) SPLIT_COUNT };
#undef X
#define X(id, text) CALL_##id,
enum call_kind { CALL_KIND_TABLE(X) CALL_COUNT };
#undef X
#define X(id, text) VERSION_##id,
enum version_state { VERSION_STATE_TABLE(X) VERSION_COUNT };
#undef X
#define X(id, text) STEP_##id,
enum step_state { STEP_STATE_TABLE(X) STEP_COUNT };
#undef X
#define X(id, text) EXIT_##id,
enum exit_kind { EXIT_TABLE(X) EXIT_COUNT };
#undef X

/* "planned", …; and back: -1 for an unknown text. phase_text, phase_parse, sandbox_phase_text, result_kind_text, … */
#define X(type, prefix, table)                                                                                         \
    const char *type##_text(enum type value);                                                                          \
    int type##_parse(const char *text);
RECORD_ENUMS(X)
#undef X

#define VERSION_NONE                                                                                                   \
    (-1) /* the no-adapter baseline; accepted versions are 0, 1, …; snapshots of rollouts -2, -3, …                \
          */

/* ---- Opening -------------------------------------------------------------- */

struct record;

enum record_mode { RECORD_CREATE, RECORD_WRITE, RECORD_READ, RECORD_MODE_COUNT };

/*
 * Opens record.db in `run_dir`. CREATE makes it (an existing one is an error), WRITE goes on with it (hold the run's
 * lock), READ only reads and may run beside a writer. A newer schema, another kind of file, or a damaged one (checked
 * with quick_check when the last writer did not close it) is ORCH_E_DAMAGED and the file is not touched.
 * On a network file system the rollback journal is used.
 */
MUST_USE int record_open(const char *run_dir, enum record_mode mode, const struct clock *clock, struct record **ret,
                         struct orch_err *err);
/* Starts the writer thread. `notify` (may be NULL) is called on that thread when record_drain has something to do:
 * wire it to uv_async_send. */
MUST_USE int record_start_writer(struct record *rec, void (*notify)(void *arg), void *arg, struct orch_err *err);
/* Calls the completions of what was committed; returns how many. From one thread, never from inside a completion. */
size_t record_drain(struct record *rec);
/* Blocks until all that was posted is committed (or failed: that error). Completions still wait for record_drain. */
MUST_USE int record_flush(struct record *rec, struct orch_err *err);
/* Flushes, stops the writer, calls the remaining completions, checkpoints, frees. The error of a poisoned writer is
 * returned; rec is freed in any case. */
int record_close(struct record *rec, struct orch_err *err);
void record_release(struct record **rec); /* cleanup form, drops the error */
#define AUTO_RECORD __attribute__((cleanup(record_release)))

/* ---- Posting -------------------------------------------------------------- */

enum durability { DURABLE_CRASH, DURABLE_FSYNC };

/* Copied. NULL stands for {DURABLE_CRASH, no completion}. `code` is 0 or the error that ended the writer. */
struct record_then {
    enum durability durability;
    void (*done)(void *arg, int code);
    void *arg;
};
#define RECORD_THEN(durability_, done_, arg_) (&(const struct record_then){(durability_), (done_), (arg_)})
#define RECORD_FSYNC(done_, arg_) RECORD_THEN(DURABLE_FSYNC, (done_), (arg_))
#define RECORD_CRASH(done_, arg_) RECORD_THEN(DURABLE_CRASH, (done_), (arg_))

/*
 * All posting functions return 0 (posted), ORCH_E_INTERNAL (an illegal transition or an unknown id: nothing was
 * posted), ORCH_E_LIMIT (a text too long), or the error that ended the writer.
 * JSON arguments are text (an object), NULL for none; they are stored as they are, so redact first.
 */

/* Key-value facts of the run. Well known: run_id, name, kind ("run", "eval", "check"), state ("running", "stopped",
 * "finished"), outcome, fingerprint, fingerprint_document, source_run, created (ISO), seed, environment, orch_version.
 */
MUST_USE int record_meta_set(struct record *rec, const char *key, const char *value, const struct record_then *then,
                             struct orch_err *err);
/* An event of its own. kind: "noun.verb" ([a-z0-9.-]); subject: "trial:17", "step:2", "run", … */
MUST_USE int record_event(struct record *rec, const char *kind, const char *subject, const char *data_json,
                          const struct record_then *then, struct orch_err *err);

struct trial_key {
    int64_t version; /* VERSION_NONE, a version or a snapshot */
    const char *task;
    int64_t sample;
    int64_t repeat;
    int64_t step;
    enum split split;
};
/* Plans n trials, all or none. *ret_first_id: they get consecutive ids in the order given. A key that is there already
 * ends the writer: on resume list the step's trials first. Their step and version must have been added. */
MUST_USE int record_trial_plan(struct record *rec, const struct trial_key *keys, size_t n, int64_t *ret_first_id,
                               const struct record_then *then, struct orch_err *err);
/* planned → intent → started → exited → collected; settle with record_trial_settle. */
MUST_USE int record_trial_phase(struct record *rec, int64_t trial, enum phase phase, const struct record_then *then,
                                struct orch_err *err);
/* A new incarnation of an unsettled trial: back to planned; why and what is kept as an event. */
MUST_USE int record_trial_retry(struct record *rec, int64_t trial, const char *reason, const char *data_json,
                                const struct record_then *then, struct orch_err *err);
/* A settled trial with an infrastructure or judge error (or none) is planned again (`orch resume` after repair). */
MUST_USE int record_trial_reopen(struct record *rec, int64_t trial, const char *reason, const struct record_then *then,
                                 struct orch_err *err);

struct trial_result {
    enum result_kind kind;
    bool has_score;      /* required for SCORED; allowed for LIMIT; refused for the others */
    double score;        /* finite */
    const char *metrics; /* JSON object */
    const char *feedback;
    const char *reason;      /* stable id: "timeout", "memory", "output", "judge-exit", "environment-lost", … */
    const char *reason_text; /* for people */
    double reason_value;     /* what was reached, in the unit of the reason */
    double reason_limit;     /* what was allowed; 0: does not apply */
    int64_t elapsed_ns;      /* of the trial */
    const char *grade;       /* "confined", "confined,public-network", … */
    const char *output_tree; /* digest of the kept output */
    const char *trajectory;  /* digest, or NULL */
    const char *evidence;    /* JSON: anything else that material is made from */
};
/* From any unsettled phase (a trial can fail before it starts; SCORED only from collected). */
MUST_USE int record_trial_settle(struct record *rec, int64_t trial, const struct trial_result *result,
                                 const struct record_then *then, struct orch_err *err);

struct call_plan {
    enum call_kind kind;
    int64_t trial;       /* 0: none */
    int64_t incarnation; /* of the trial */
    int64_t step;        /* -1: none */
    int64_t sandbox;     /* 0: none yet */
    int64_t parent;      /* the call that asked for it (rollout, tool), 0: none */
    const char *environment;
    const char *model;
    const char *spec; /* JSON of what was asked, redacted */
};
MUST_USE int record_call_plan(struct record *rec, const struct call_plan *plan, int64_t *ret_id,
                              const struct record_then *then, struct orch_err *err);
/* `outside_name`: the outside object, named in the intent (NULL: none or unchanged). */
MUST_USE int record_call_phase(struct record *rec, int64_t call, enum phase phase, const char *outside_name,
                               const struct record_then *then, struct orch_err *err);
struct call_usage {
    int64_t wall_ns, cpu_ns, rss_bytes; /* -1: unknown */
    int64_t requests, tokens_in, tokens_out, tokens_cached;
    double usd;
    bool usd_known;
};
struct record_call_result {
    enum exit_kind exit;
    int code;           /* status or signal */
    const char *reason; /* which limit fired, why lost; NULL */
    const char *grade;
    const char *output_tree;
    const char *stdout_digest;
    const char *stderr_digest;
    struct call_usage usage;
    const char *data; /* JSON: anything else */
};
MUST_USE int record_call_settle(struct record *rec, int64_t call, const struct record_call_result *result,
                                const struct record_then *then, struct orch_err *err);

struct sandbox_open {
    const char *role; /* task, judge, evolver, … */
    const char *environment;
    const char *mechanism;
    const char *name;  /* of the outside object, unique in the run */
    const char *asked; /* JSON spec, redacted */
};
/* → open: the intent, before anything is made. */
MUST_USE int record_sandbox_open(struct record *rec, const struct sandbox_open *open, int64_t *ret_id,
                                 const struct record_then *then, struct orch_err *err);
MUST_USE int record_sandbox_checked(struct record *rec, int64_t sandbox, const char *grade, const char *enforced_json,
                                    const char *checked_json, const struct record_then *then, struct orch_err *err);
/* From open or checked; proved empty. */
MUST_USE int record_sandbox_closed(struct record *rec, int64_t sandbox, const char *how, const struct record_then *then,
                                   struct orch_err *err);

/* Adds a step (state planned); order_json: its tasks in order. */
MUST_USE int record_step_plan(struct record *rec, int64_t step, int64_t base_version, const char *order_json,
                              const struct record_then *then, struct orch_err *err);
/* Forward only; staying is allowed. data_json (NULL: unchanged) is the learner's and trainer's state of the step. */
MUST_USE int record_step_state(struct record *rec, int64_t step, enum step_state state, const char *data_json,
                               const struct record_then *then, struct orch_err *err);
/* outcome: "accepted", "rejected", "unchanged", "failed", "root"; version: the current one after the step. */
MUST_USE int record_step_settle(struct record *rec, int64_t step, const char *outcome, int64_t version,
                                const char *data_json, const struct record_then *then, struct orch_err *err);

struct version_add {
    int64_t number;
    enum version_state state;
    int64_t step;           /* that made it */
    const int64_t *parents; /* numbers */
    size_t parent_count;
    const char *sha;    /* commit */
    const char *tree;   /* git tree */
    const char *reason; /* why rejected; NULL */
    const char *data;   /* JSON */
};
MUST_USE int record_version_add(struct record *rec, const struct version_add *version, const struct record_then *then,
                                struct orch_err *err);
/* A gate's later word. */
MUST_USE int record_version_state(struct record *rec, int64_t number, enum version_state state, const char *reason,
                                  const struct record_then *then, struct orch_err *err);

/* An object's row; used by state/objects.c. data NULL: it lives in a file. */
MUST_USE int record_object_add(struct record *rec, const char *digest, int64_t size, const void *data, size_t len,
                               const struct record_then *then, struct orch_err *err);

/* ---- Reading -------------------------------------------------------------- */

/* ORCH_E_NOT_FOUND when absent; owned by the caller. */
MUST_USE int record_meta_get(struct record *rec, const char *key, char **ret, struct orch_err *err);
/* The same, "" when absent: for reports. Owned. */
MUST_USE int record_meta_text(struct record *rec, const char *key, char **ret, struct orch_err *err);
MUST_USE int record_meta_each(struct record *rec, bool (*each)(void *arg, const char *key, const char *value),
                              void *arg, struct orch_err *err);

/* Each callback returns false to stop. Absent texts are NULL. */

struct trial_row {
    int64_t id;
    struct trial_key key;
    int64_t incarnation; /* from 1 */
    enum phase phase;
    struct trial_result result;     /* kind RESULT_NONE until settled */
    int64_t planned_ns, updated_ns; /* wall */
};
/* Fields at their "any" value do not restrict; start from TRIAL_FILTER_ANY. */
struct trial_filter {
    int64_t step;     /* -1: any */
    int split;        /* -1: any */
    int phase;        /* -1: any */
    int kind;         /* -1: any */
    int64_t version;  /* INT64_MIN: any */
    int64_t repeat;   /* -1: any */
    const char *task; /* NULL: any */
    bool unsettled;   /* only those not settled */
    bool by_key;      /* order by (step, split, version, repeat, task, sample) instead of id */
};
#define TRIAL_FILTER_ANY                                                                                               \
    ((struct trial_filter){.step = -1, .split = -1, .phase = -1, .kind = -1, .version = INT64_MIN, .repeat = -1})
MUST_USE int record_trials(struct record *rec, const struct trial_filter *filter,
                           bool (*each)(void *arg, const struct trial_row *row), void *arg, struct orch_err *err);
/* One trial through the same callback; ORCH_E_NOT_FOUND. */
MUST_USE int record_trial(struct record *rec, int64_t trial, bool (*each)(void *arg, const struct trial_row *row),
                          void *arg, struct orch_err *err);

struct call_row {
    int64_t id;
    struct call_plan plan;
    enum phase phase;
    const char *outside_name;
    struct record_call_result result;
    int64_t planned_ns, updated_ns;
};
struct call_filter {
    int64_t trial; /* 0: any */
    int64_t step;  /* -1: any */
    int kind;      /* -1: any */
    bool unsettled;
};
#define CALL_FILTER_ANY ((struct call_filter){.step = -1, .kind = -1})
MUST_USE int record_calls(struct record *rec, const struct call_filter *filter,
                          bool (*each)(void *arg, const struct call_row *row), void *arg, struct orch_err *err);

struct sandbox_row {
    int64_t id;
    enum sandbox_phase phase;
    struct sandbox_open open;
    const char *grade, *enforced, *checked, *how;
    int64_t opened_ns, updated_ns;
};
MUST_USE int record_sandboxes(struct record *rec, bool only_unclosed,
                              bool (*each)(void *arg, const struct sandbox_row *row), void *arg, struct orch_err *err);

struct step_row {
    int64_t number;
    enum step_state state;
    int64_t base_version;
    int64_t version;     /* VERSION_NONE until settled */
    const char *outcome; /* NULL until settled */
    const char *order, *data;
    int64_t planned_ns, updated_ns;
};
MUST_USE int record_steps(struct record *rec, bool (*each)(void *arg, const struct step_row *row), void *arg,
                          struct orch_err *err);

/* By number; parents live for the call. */
MUST_USE int record_versions(struct record *rec,
                             bool (*each)(void *arg, const struct version_add *row, int64_t added_ns), void *arg,
                             struct orch_err *err);

struct event_row {
    int64_t seq;
    int64_t wall_ns;
    const char *kind, *subject, *data; /* data: JSON object, "{}" at least */
    const char *hash;                  /* 64 hex digits */
};
/* Those with seq > since, in order; at most limit (0: all). */
MUST_USE int record_events(struct record *rec, int64_t since, int64_t limit,
                           bool (*each)(void *arg, const struct event_row *row), void *arg, struct orch_err *err);

/* Counts and means of one (version, split, step, repeat). */
struct trial_counts {
    int64_t planned;                 /* all trials */
    int64_t kind[RESULT_COUNT];      /* by result; NONE counts the not run */
    int64_t scores;                  /* trials with a score: what the mean is over */
    double mean, min, max, variance; /* of the scores; 0 when scores is 0. variance: sample variance (n - 1) */
};
struct counts_row {
    int64_t version, step, repeat;
    enum split split;
    struct trial_counts counts;
};
/* Groups in the order (split, step, version, repeat); filter restricts. */
MUST_USE int record_counts(struct record *rec, const struct trial_filter *filter,
                           bool (*each)(void *arg, const struct counts_row *row), void *arg, struct orch_err *err);
/* The same over everything that matches. */
MUST_USE int record_total(struct record *rec, const struct trial_filter *filter, struct trial_counts *ret,
                          struct orch_err *err);
/* Started calls, and the sum of usage, by call kind (kind -1: all); usd_known only if every call with requests is
 * priced. */
MUST_USE int record_usage(struct record *rec, int call_kind, int64_t *ret_calls, struct call_usage *ret,
                          struct orch_err *err);
struct failed_calls { /* settled calls of one kind of which some did not exit with 0 */
    enum call_kind kind;
    int64_t calls, failed;
    int64_t first; /* the first that failed */
};
/* Kinds without a failed call are left out. */
MUST_USE int record_failed_calls(struct record *rec, bool (*each)(void *arg, const struct failed_calls *row), void *arg,
                                 struct orch_err *err);
/* Number of sandboxes and calls by grade. */
MUST_USE int record_grades(struct record *rec, bool (*each)(void *arg, const char *grade, int64_t calls), void *arg,
                           struct orch_err *err);

/* Object bytes: ORCH_E_NOT_FOUND when there is no row; *ret_data NULL when it lives in a file. Owned. */
MUST_USE int record_object_get(struct record *rec, const char *digest, int64_t *ret_size, char **ret_data,
                               struct orch_err *err);

/* integrity_check, foreign keys, the hash chain, and that settled trials agree with their last event.
 * ORCH_E_DAMAGED says what is wrong first. */
MUST_USE int record_check(struct record *rec, struct orch_err *err);
/* Highest event number and its hash (64 hex digits; 0 and "" when there is none). */
MUST_USE int record_head(struct record *rec, int64_t *ret_seq, char ret_hash[65], struct orch_err *err);

#endif
