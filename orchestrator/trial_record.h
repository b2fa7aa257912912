/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the record is told of a call and its sandbox, in one place for every
 * role: intent with the outside name, start, end, what was kept, settlement,
 * and the sandbox's own JSON file.
 */
#ifndef ORCH_ORCHESTRATOR_TRIAL_RECORD_H
#define ORCH_ORCHESTRATOR_TRIAL_RECORD_H

#include "orchestrator/batch.h"
#include "roles/host_judge.h"
#include "roles/role_call.h"

struct call_note {
    int64_t call;    /* id in the record; 0: none */
    int64_t sandbox; /* likewise */
    enum call_kind kind;
    char name[64];          /* of the sandbox at its environment: "task-17" */
    json_t *asked;          /* the spec, contents of files left out */
    char *grade;            /* what it really had; NULL before the checks */
    bool started;           /* its sandbox was asked for */
    bool reached;           /* the call came to an end that is known */
    struct call_result end; /* of backends/environment.h, moved out of the outcome */
    char limit[32];
    int64_t limit_value;
    int64_t limit_reached;
    char *left_out; /* JSON: entries of what it left that did not pass; NULL: none */
    struct kept out;
    struct kept errout;
};

/* planned and intent of the call, open of the sandbox. */
MUST_USE int call_note_plan(struct engine *e, struct call_note *n, enum call_kind kind, int64_t trial,
                            int64_t incarnation, int64_t step, struct orch_err *err);
/* Remembers the spec for the sandbox's record. */
void call_note_asked(struct call_note *n, const struct sandbox_spec *spec);
MUST_USE int call_note_started(struct engine *e, struct call_note *n, struct orch_err *err);
/* exited; checked and closed of the sandbox; writes the sandbox record. Moves the outcome's call result. */
MUST_USE int call_note_ended(struct engine *e, struct call_note *n, struct role_call_outcome *o, struct orch_err *err);
/* A limit that was seen outside the sandbox (a cap of the handoff). */
void call_note_limit(struct call_note *n, const char *limit, int64_t value, int64_t reached);
/* What the handoff of its output left out, for the record: links, special files, what nobody could read. */
void call_note_left_out(struct call_note *n, const struct handoff_report *report);
/* Keeps the captured output. Worker thread. */
MUST_USE int call_note_keep(struct engine *e, struct call_note *n, struct orch_err *err);
/* settled, from wherever it stands. `output_tree` may be NULL. */
MUST_USE int call_note_settle(struct engine *e, struct call_note *n, const char *output_tree, struct orch_err *err);
void call_note_done(struct call_note *n);

/* A host judge's call, whole: it runs in no sandbox. */
MUST_USE int host_judge_note(struct engine *e, const struct batch_item *item, const struct host_judgement *j,
                             struct orch_err *err);

/* Of a collected /w/output, keeps only what judge.collect names ("output/", "output/report.json"). */
MUST_USE int collect_only(char *const *collect, int collected_fd, struct orch_err *err);

#endif
