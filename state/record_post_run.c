/* SPDX-License-Identifier: Apache-2.0 */
/* Posting what belongs to the run: meta, events, steps, versions, objects. */
#include "state/record_draft.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

/* ---- Meta and events ---- */

int record_meta_set(struct record *rec, const char *key, const char *value, const struct record_then *then,
                    struct orch_err *err)
{
    struct draft d = {.kind = OP_META_SET};

    CHECK_TEXTS(err, key, value);
    if (key[0] == '_' || strlen(key) > EVENT_KIND_MAX) {
        return err_set(err, ORCH_E_INTERNAL, "record: meta key \"%s\" is reserved or too long", key);
    }
    draft_text(&d, key);
    draft_text(&d, value ? value : "");
    TRY(record_post_begin(rec, err));
    record_post_add(rec, &d, then);
    return record_post_end(rec);
}

static bool event_word_valid(const char *text, size_t max)
{
    for (const char *p = text; *p; p++) {
        if ((unsigned char)*p < 0x20) {
            return false;
        }
    }
    return text[0] && strlen(text) < max;
}

int record_event(struct record *rec, const char *kind, const char *subject, const char *data_json,
                 const struct record_then *then, struct orch_err *err)
{
    struct draft d = {.kind = OP_EVENT, .event = kind, .data = data_json};

    CHECK_TEXTS(err, data_json);
    if (!event_word_valid(kind, EVENT_KIND_MAX) || !event_word_valid(subject, SUBJECT_MAX)) {
        return err_set(err, ORCH_E_INTERNAL, "record: an event's kind or subject is not valid");
    }
    snprintf(d.subject, sizeof d.subject, "%s", subject);
    TRY(record_post_begin(rec, err));
    record_post_add(rec, &d, then);
    return record_post_end(rec);
}

/* ---- Steps and versions ---- */

static bool version_known(struct record *rec, int64_t version)
{
    return version == VERSION_NONE || slots_at(&rec->versions, version_slot(version));
}

int record_step_plan(struct record *rec, int64_t step, int64_t base_version, const char *order_json,
                     const struct record_then *then, struct orch_err *err)
{
    CHECK_TEXTS(err, order_json);
    TRY(record_post_begin(rec, err));
    if (step < 0 || step >= ID_MAX || slots_at(&rec->steps, step + 1) || !version_known(rec, base_version)) {
        return record_post_refuse(rec, err, "step", step, "is there already, or its version is not");
    }
    struct draft d = record_draft(rec, OP_STEP_PLAN, "step.planned", "step", step);
    draft_int(&d, step);
    draft_ref(&d, base_version, VERSION_NONE);
    draft_text(&d, order_json);
    slots_put(&rec->steps, step + 1, (struct slot){.phase = STEP_PLANNED});
    record_post_add(rec, &d, then);
    return record_post_end(rec);
}

int record_step_state(struct record *rec, int64_t step, enum step_state state, const char *data_json,
                      const struct record_then *then, struct orch_err *err)
{
    char event[EVENT_KIND_MAX];

    CHECK_TEXTS(err, data_json);
    TRY(record_post_begin(rec, err));
    struct slot *slot = slots_at(&rec->steps, step + 1);
    if (!slot || (unsigned)state >= STEP_SETTLED || state < slot->phase) {
        return record_post_refuse(rec, err, "step", step, "an illegal change of state");
    }
    snprintf(event, sizeof event, "step.%s", step_state_text(state));
    struct draft d = record_draft(rec, OP_STEP_STATE, event, "step", step);
    draft_int(&d, step);
    draft_text(&d, step_state_text(state));
    draft_text(&d, data_json);
    slot->phase = (uint8_t)state;
    record_post_add(rec, &d, then);
    return record_post_end(rec);
}

int record_step_settle(struct record *rec, int64_t step, const char *outcome, int64_t version, const char *data_json,
                       const struct record_then *then, struct orch_err *err)
{
    CHECK_TEXTS(err, outcome, data_json);
    AUTO_JSON json_t *data = json_object();
    json_set_str(data, "outcome", outcome);
    json_set_int(data, "version", version);
    AUTO_FREE char *text = json_canonical(data);
    TRY(record_post_begin(rec, err));
    struct slot *slot = slots_at(&rec->steps, step + 1);
    if (!slot || slot->phase == STEP_SETTLED || !version_known(rec, version)) {
        return record_post_refuse(rec, err, "step", step, "cannot be settled");
    }
    struct draft d = record_draft(rec, OP_STEP_SETTLE, "step.settled", "step", step);
    d.data = text;
    draft_int(&d, step);
    draft_text(&d, outcome);
    draft_ref(&d, version, VERSION_NONE);
    draft_text(&d, data_json);
    slot->phase = STEP_SETTLED;
    record_post_add(rec, &d, then);
    return record_post_end(rec);
}

static char *parents_json(const struct version_add *v)
{
    AUTO_JSON json_t *parents = json_array();
    for (size_t i = 0; i < v->parent_count; i++) {
        json_add_take(parents, json_integer(v->parents[i]));
    }
    return json_canonical(parents);
}

static char *version_json(const struct version_add *v, const char *parents)
{
    AUTO_JSON json_t *data = json_object();
    struct orch_err ignored = ERR_INIT;
    json_t *list = NULL;
    json_set_str(data, "state", version_state_text(v->state));
    json_set_str(data, "tree", v->tree);
    json_set_int(data, "step", v->step);
    if (json_parse(parents, strlen(parents), RECORD_TEXT_MAX, &list, &ignored) == 0) {
        json_set_take(data, "parents", list);
    }
    return json_canonical(data);
}

int record_version_add(struct record *rec, const struct version_add *v, const struct record_then *then,
                       struct orch_err *err)
{
    CHECK_TEXTS(err, v->sha, v->tree, v->reason, v->data);
    AUTO_FREE char *parents = parents_json(v);
    AUTO_FREE char *text = version_json(v, parents);
    TRY(record_post_begin(rec, err));
    bool known = true;
    for (size_t i = 0; i < v->parent_count; i++) {
        known = known && version_known(rec, v->parents[i]);
    }
    if (v->number == VERSION_NONE || v->number > ID_MAX || v->number < -ID_MAX || (unsigned)v->state >= VERSION_COUNT ||
        slots_at(&rec->versions, version_slot(v->number)) || !known) {
        return record_post_refuse(rec, err, "version", v->number, "is there already, or a parent is not");
    }
    struct draft d = record_draft(rec, OP_VERSION_ADD, "version.added", "version", v->number);
    d.data = text;
    draft_int(&d, v->number);
    draft_text(&d, version_state_text(v->state));
    draft_int(&d, v->step);
    draft_text(&d, parents);
    draft_text(&d, v->sha);
    draft_text(&d, v->tree);
    draft_text(&d, v->reason);
    draft_text(&d, v->data);
    slots_put(&rec->versions, version_slot(v->number), (struct slot){.phase = (uint8_t)v->state});
    record_post_add(rec, &d, then);
    return record_post_end(rec);
}

int record_version_state(struct record *rec, int64_t number, enum version_state state, const char *reason,
                         const struct record_then *then, struct orch_err *err)
{
    CHECK_TEXTS(err, reason);
    AUTO_JSON json_t *data = json_object();
    json_set_str(data, "state", version_state_text(state));
    AUTO_FREE char *text = json_canonical(data);
    TRY(record_post_begin(rec, err));
    struct slot *slot = number == VERSION_NONE ? NULL : slots_at(&rec->versions, version_slot(number));
    if (!slot || (unsigned)state >= VERSION_COUNT) {
        return record_post_refuse(rec, err, "version", number, "there is none of that number");
    }
    struct draft d = record_draft(rec, OP_VERSION_STATE, "version.state", "version", number);
    d.data = text;
    draft_int(&d, number);
    draft_text(&d, version_state_text(state));
    draft_text(&d, reason);
    slot->phase = (uint8_t)state;
    record_post_add(rec, &d, then);
    return record_post_end(rec);
}

int record_object_add(struct record *rec, const char *digest, int64_t size, const void *data, size_t len,
                      const struct record_then *then, struct orch_err *err)
{
    struct draft d = {.kind = OP_OBJECT_ADD};

    if (!digest_is_valid(digest) || len > RECORD_TEXT_MAX) {
        return err_set(err, ORCH_E_INTERNAL, "record: an object is not valid");
    }
    draft_text(&d, digest);
    draft_int(&d, size);
    if (data) {
        d.values[d.count++] = (struct value){.type = VALUE_BLOB, .len = len, .text = data};
    } else {
        draft_null(&d);
    }
    TRY(record_post_begin(rec, err));
    record_post_add(rec, &d, then);
    return record_post_end(rec);
}
