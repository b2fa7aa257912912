/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One trial: intent, the task call, collection, the judge, the settlement. The
 * record is told before each step. A trial reports to its batch twice: when its
 * call's slot is free (`called`), and when it is over (`ended`).
 */
#ifndef ORCH_ORCHESTRATOR_TRIAL_H
#define ORCH_ORCHESTRATOR_TRIAL_H

#include "orchestrator/batch.h"

enum trial_end {
    TRIAL_SETTLED,   /* `kind`, `score` say how */
    TRIAL_AGAIN,     /* infrastructure: planned again, wants another incarnation */
    TRIAL_CANCELLED, /* stopped: planned again */
    TRIAL_BROKEN,    /* the record failed: the run cannot go on */
    TRIAL_END_COUNT
};

struct trial_outcome {
    enum trial_end end;
    enum result_kind kind;
    bool has_score;
    double score;
    struct orch_err err; /* why AGAIN or BROKEN, or an infrastructure error that was settled */
};

struct trial;

struct trial_hooks {
    void (*ready)(struct trial *t, void *arg);  /* the intent is committed: trial_call() may be used */
    void (*called)(struct trial *t, void *arg); /* the task call is over; the judge comes */
    void (*ended)(struct trial *t, const struct trial_outcome *outcome, void *arg); /* freed afterwards */
    void *arg;
};

/* Posts the intent. `item` and `adapter_source` are borrowed until `ended`. Never fails: troubles end in `ended`. */
struct trial *trial_new(struct engine *e, const struct batch_item *item, const char *adapter_source,
                        const struct trial_hooks *hooks);
/* Starts the task call. */
void trial_call(struct trial *t);
/* Ends the call if it runs; the trial ends as TRIAL_CANCELLED. */
void trial_cancel(struct trial *t);
const struct batch_item *trial_item(const struct trial *t);
/* Room for the batch: its place in its lists. */
void trial_set_slot(struct trial *t, size_t slot);
size_t trial_slot(const struct trial *t);

#endif
