/* SPDX-License-Identifier: Apache-2.0 */
/* How an operation is made and queued; for the posting functions only. */
#ifndef ORCH_STATE_RECORD_DRAFT_H
#define ORCH_STATE_RECORD_DRAFT_H

#include "state/record_internal.h"

#define SUBJECT_MAX 256
#define EVENT_KIND_MAX 64
#define ID_MAX (INT32_MAX / 4)

/* An operation being made; texts are borrowed until post_add copies them. */
struct draft {
    enum op_kind kind;
    const char *event;
    char subject[SUBJECT_MAX];
    const char *data; /* NULL: {} */
    int count;
    struct value values[OP_VALUES_MAX];
};

void draft_int(struct draft *d, int64_t value);
void draft_real(struct draft *d, double value);
void draft_null(struct draft *d);
void draft_text(struct draft *d, const char *text); /* NULL: null */
/* A number that stands for "none" is stored as null. */
void draft_ref(struct draft *d, int64_t value, int64_t none);
/* subject "noun:id" (noun NULL: none yet), first value the time: ?1 of every statement of a subject with a number. */
struct draft record_draft(struct record *rec, enum op_kind kind, const char *event, const char *noun, int64_t id);

/* Locks and waits for space; between it and record_post_end nothing else can be queued. */
int record_post_begin(struct record *rec, struct orch_err *err);
void record_post_add(struct record *rec, const struct draft *d, const struct record_then *then);
int record_post_end(struct record *rec); /* unlocks; 0 */
/* Unlocks; ORCH_E_INTERNAL. */
int record_post_refuse(struct record *rec, struct orch_err *err, const char *what, int64_t id, const char *why);

int record_check_texts(struct orch_err *err, const char *const *texts, size_t n);
#define CHECK_TEXTS(err, ...)                                                                                          \
    TRY(record_check_texts((err), (const char *const[]){__VA_ARGS__}, ARRAY_LEN(((const char *const[]){__VA_ARGS__}))))

#endif
