/* SPDX-License-Identifier: Apache-2.0 */
/* Making operations and queueing them under one lock. */
#include "state/record_draft.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

void draft_int(struct draft *d, int64_t value)
{
    d->values[d->count++] = (struct value){.type = VALUE_INT, .i = value};
}

void draft_real(struct draft *d, double value)
{
    d->values[d->count++] = (struct value){.type = VALUE_REAL, .r = value};
}

void draft_null(struct draft *d)
{
    d->values[d->count++] = (struct value){.type = VALUE_NULL};
}

void draft_text(struct draft *d, const char *text)
{
    if (text) {
        d->values[d->count++] = (struct value){.type = VALUE_TEXT, .len = strlen(text), .text = text};
    } else {
        draft_null(d);
    }
}

void draft_ref(struct draft *d, int64_t value, int64_t none)
{
    if (value == none) {
        draft_null(d);
    } else {
        draft_int(d, value);
    }
}

struct draft record_draft(struct record *rec, enum op_kind kind, const char *event, const char *noun, int64_t id)
{
    struct draft d = {.kind = kind, .event = event};
    if (noun) {
        snprintf(d.subject, sizeof d.subject, "%s:%lld", noun, (long long)id);
    }
    draft_int(&d, clock_wall_ns(&rec->clock)); /* ?1 of every statement of a subject with a number */
    return d;
}

/* ---- The queue ---- */

/* Locks; waits for space; a poisoned writer's error comes back. */
int record_post_begin(struct record *rec, struct orch_err *err)
{
    pthread_mutex_lock(&rec->lock);
    int r = 0;
    if (!rec->started || rec->stop) {
        r = err_set(err, ORCH_E_INTERNAL, "record: no writer is running");
    }
    while (r == 0 && rec->poison.code == 0 &&
           (rec->queue.count >= RECORD_QUEUE_OPS || rec->queue.bytes >= RECORD_QUEUE_BYTES)) {
        record_hurry(rec);
        pthread_cond_wait(&rec->space, &rec->lock);
    }
    if (r == 0 && rec->poison.code < 0) {
        *err = rec->poison;
        r = rec->poison.code;
    }
    if (r < 0) {
        pthread_mutex_unlock(&rec->lock);
    }
    return r;
}

int record_post_refuse(struct record *rec, struct orch_err *err, const char *what, int64_t id, const char *why)
{
    pthread_mutex_unlock(&rec->lock);
    return err_set(err, ORCH_E_INTERNAL, "record: %s %lld: %s", what, (long long)id, why);
}

static const char *copy_text(char **to, const char *text, size_t len)
{
    char *start = *to;
    memcpy(start, text, len);
    start[len] = '\0';
    *to += len + 1;
    return start;
}

void record_post_add(struct record *rec, const struct draft *d, const struct record_then *then)
{
    const char *data = d->data ? d->data : "{}";
    size_t event_len = d->event ? strlen(d->event) : 0;
    size_t subject_len = strlen(d->subject);
    size_t data_len = strlen(data);
    size_t size = sizeof(struct op) + (size_t)d->count * sizeof(struct value) + event_len + subject_len + data_len + 3;
    for (int i = 0; i < d->count; i++) {
        size += d->values[i].type >= VALUE_TEXT ? d->values[i].len + 1 : 0;
    }

    struct op *op = xmalloc(size);
    *op = (struct op){.kind = d->kind, .size = size, .count = d->count};
    char *to = (char *)(op->values + d->count);
    op->wall_ns = clock_wall_ns(&rec->clock);
    if (then) {
        op->durability = then->durability;
        op->done = then->done;
        op->arg = then->arg;
    }
    if (d->event) {
        op->event = copy_text(&to, d->event, event_len);
        op->subject = copy_text(&to, d->subject, subject_len);
        op->data = copy_text(&to, data, data_len);
    }
    for (int i = 0; i < d->count; i++) {
        op->values[i] = d->values[i];
        if (d->values[i].type >= VALUE_TEXT) {
            op->values[i].text = copy_text(&to, d->values[i].text, d->values[i].len);
        }
    }
    if (!rec->queue.first) {
        pthread_cond_signal(&rec->work);
    }
    op_list_push(&rec->queue, op);
    rec->posted++;
    if (op->durability == DURABLE_FSYNC) {
        record_hurry(rec);
    }
}

int record_post_end(struct record *rec)
{
    pthread_mutex_unlock(&rec->lock);
    return 0;
}

/* None of the texts is longer than RECORD_TEXT_MAX. */
int record_check_texts(struct orch_err *err, const char *const *texts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (texts[i] && strlen(texts[i]) > RECORD_TEXT_MAX) {
            return err_set(err, ORCH_E_LIMIT, "record: a text of more than %zu bytes", RECORD_TEXT_MAX);
        }
    }
    return 0;
}
