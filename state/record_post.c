/* SPDX-License-Identifier: Apache-2.0 */
/* Posting trials, calls and sandboxes: each function checks the state machine, then queues under the same lock. */
#include "state/record_draft.h"

#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* What may follow what. A table over both enums: a new phase does not compile away unnoticed. */
static const bool work_moves[][PHASE_COUNT] = {
    [PHASE_PLANNED] = {[PHASE_INTENT] = true, [PHASE_SETTLED] = true},
    [PHASE_INTENT] = {[PHASE_STARTED] = true, [PHASE_SETTLED] = true, [PHASE_PLANNED] = true},
    [PHASE_STARTED] = {[PHASE_EXITED] = true, [PHASE_SETTLED] = true, [PHASE_PLANNED] = true},
    [PHASE_EXITED] = {[PHASE_COLLECTED] = true, [PHASE_SETTLED] = true, [PHASE_PLANNED] = true},
    [PHASE_COLLECTED] = {[PHASE_SETTLED] = true, [PHASE_PLANNED] = true},
    [PHASE_SETTLED] = {false},
};
_Static_assert(ARRAY_LEN(work_moves) == PHASE_COUNT, "a row for each phase");

static const bool sandbox_moves[][SANDBOX_PHASE_COUNT] = {
    [SANDBOX_PHASE_OPEN] = {[SANDBOX_PHASE_CHECKED] = true, [SANDBOX_PHASE_CLOSED] = true},
    [SANDBOX_PHASE_CHECKED] = {[SANDBOX_PHASE_CLOSED] = true},
    [SANDBOX_PHASE_CLOSED] = {false},
};
_Static_assert(ARRAY_LEN(sandbox_moves) == SANDBOX_PHASE_COUNT, "a row for each phase");

/* ---- Trials ---- */

static const char *check_trial_key(struct record *rec, const struct trial_key *key)
{
    if (!key->task || strlen(key->task) > RECORD_TEXT_MAX || (unsigned)key->split >= SPLIT_COUNT) {
        return "the key is not valid";
    }
    if (!slots_at(&rec->steps, key->step + 1)) {
        return "its step was not added";
    }
    if (key->version != VERSION_NONE && !slots_at(&rec->versions, version_slot(key->version))) {
        return "its version was not added";
    }
    return NULL;
}

static char *trial_key_json(const struct trial_key *key)
{
    AUTO_JSON json_t *data = json_object();
    json_set_text(data, "task", key->task, strlen(key->task));
    json_set_int(data, "version", key->version);
    json_set_int(data, "sample", key->sample);
    json_set_int(data, "repeat", key->repeat);
    json_set_int(data, "step", key->step);
    json_set_str(data, "split", split_text(key->split));
    return json_canonical(data);
}

static void post_trial_plan(struct record *rec, const struct trial_key *key, int64_t id, const struct record_then *then)
{
    AUTO_FREE char *data = trial_key_json(key);
    struct draft d = record_draft(rec, OP_TRIAL_PLAN, "trial.planned", "trial", id);
    d.data = data;
    draft_int(&d, id);
    draft_ref(&d, key->version, VERSION_NONE);
    draft_text(&d, key->task);
    draft_int(&d, key->sample);
    draft_int(&d, key->repeat);
    draft_int(&d, key->step);
    draft_text(&d, split_text(key->split));
    slots_put(&rec->trials, id, (struct slot){.phase = PHASE_PLANNED, .incarnation = 1});
    record_post_add(rec, &d, then);
}

int record_trial_plan(struct record *rec, const struct trial_key *keys, size_t n, int64_t *ret_first_id,
                      const struct record_then *then, struct orch_err *err)
{
    if (n == 0) {
        return err_set(err, ORCH_E_INTERNAL, "record: no trials to plan");
    }
    TRY(record_post_begin(rec, err));
    int64_t first = (int64_t)rec->trials.count + 1;
    if (n > (size_t)(ID_MAX - first)) {
        return record_post_refuse(rec, err, "trial", first, "too many trials");
    }
    for (size_t i = 0; i < n; i++) {
        const char *why = check_trial_key(rec, &keys[i]);
        if (why) {
            return record_post_refuse(rec, err, "trial", first + (int64_t)i, why);
        }
    }
    struct record_then quiet = {.durability = then ? then->durability : DURABLE_CRASH};
    for (size_t i = 0; i < n; i++) { /* one lock: the batch is taken whole, so all or none is committed */
        post_trial_plan(rec, &keys[i], first + (int64_t)i, i + 1 == n ? then : &quiet);
    }
    *ret_first_id = first;
    return record_post_end(rec);
}

static const char *const trial_events[PHASE_COUNT] = {
    [PHASE_INTENT] = "trial.intent",
    [PHASE_STARTED] = "trial.started",
    [PHASE_EXITED] = "trial.exited",
    [PHASE_COLLECTED] = "trial.collected",
};
static const char *const call_events[PHASE_COUNT] = {
    [PHASE_INTENT] = "call.intent",
    [PHASE_STARTED] = "call.started",
    [PHASE_EXITED] = "call.exited",
    [PHASE_COLLECTED] = "call.collected",
};

/* NULL if the move is allowed. Moves to planned and settled have functions of their own. */
static const char *check_move(const struct slot *slot, enum phase to, const char *const events[PHASE_COUNT])
{
    if (!slot) {
        return "there is none of that number";
    }
    if ((unsigned)to >= PHASE_COUNT || !work_moves[slot->phase][to] || !events[to]) {
        return "an illegal change of phase";
    }
    return NULL;
}

int record_trial_phase(struct record *rec, int64_t trial, enum phase phase, const struct record_then *then,
                       struct orch_err *err)
{
    char data[64];

    TRY(record_post_begin(rec, err));
    struct slot *slot = slots_at(&rec->trials, trial);
    const char *why = check_move(slot, phase, trial_events);
    if (why) {
        return record_post_refuse(rec, err, "trial", trial, why);
    }
    struct draft d = record_draft(rec, OP_TRIAL_PHASE, trial_events[phase], "trial", trial);
    snprintf(data, sizeof data, "{\"incarnation\":%d}", slot->incarnation);
    d.data = data;
    draft_int(&d, trial);
    draft_text(&d, phase_text(phase));
    slot->phase = (uint8_t)phase;
    record_post_add(rec, &d, then);
    return record_post_end(rec);
}

/* Back to planned as the next incarnation; the event keeps why. */
static int post_again(struct record *rec, int64_t trial, struct slot *slot, const char *event, const char *reason,
                      const char *data_json, const struct record_then *then)
{
    AUTO_JSON json_t *data = json_object();
    struct orch_err ignored = ERR_INIT;
    json_t *more = NULL;

    json_set_int(data, "incarnation", slot->incarnation);
    json_set_text(data, "reason", reason ? reason : "", reason ? strlen(reason) : 0);
    json_set_str(data, "from", phase_text((enum phase)slot->phase));
    if (data_json && json_parse(data_json, strlen(data_json), RECORD_TEXT_MAX, &more, &ignored) == 0) {
        json_set_take(data, "data", more);
    }
    AUTO_FREE char *text = json_canonical(data);
    struct draft d = record_draft(rec, OP_TRIAL_AGAIN, event, "trial", trial);
    d.data = text;
    slot->phase = PHASE_PLANNED;
    slot->kind = RESULT_NONE;
    slot->incarnation++;
    draft_int(&d, trial);
    draft_int(&d, slot->incarnation);
    record_post_add(rec, &d, then);
    return record_post_end(rec);
}

int record_trial_retry(struct record *rec, int64_t trial, const char *reason, const char *data_json,
                       const struct record_then *then, struct orch_err *err)
{
    CHECK_TEXTS(err, reason, data_json);
    TRY(record_post_begin(rec, err));
    struct slot *slot = slots_at(&rec->trials, trial);
    if (!slot || !work_moves[slot->phase][PHASE_PLANNED] || slot->incarnation == UINT16_MAX) {
        return record_post_refuse(rec, err, "trial", trial, "cannot be retried from its phase");
    }
    return post_again(rec, trial, slot, "trial.retry", reason, data_json, then);
}

int record_trial_reopen(struct record *rec, int64_t trial, const char *reason, const struct record_then *then,
                        struct orch_err *err)
{
    static const bool may[RESULT_COUNT] = {[RESULT_NONE] = true, [RESULT_INFRA] = true, [RESULT_JUDGE] = true};

    CHECK_TEXTS(err, reason);
    TRY(record_post_begin(rec, err));
    struct slot *slot = slots_at(&rec->trials, trial);
    if (!slot || slot->phase != PHASE_SETTLED || !may[slot->kind] || slot->incarnation == UINT16_MAX) {
        return record_post_refuse(rec, err, "trial", trial, "has a result that stands");
    }
    return post_again(rec, trial, slot, "trial.reopened", reason, NULL, then);
}

static const char *check_result(const struct slot *slot, const struct trial_result *r)
{
    if (!slot) {
        return "there is none of that number";
    }
    if (!work_moves[slot->phase][PHASE_SETTLED]) {
        return "it is settled already";
    }
    if ((unsigned)r->kind >= RESULT_COUNT || (r->kind == RESULT_SCORED && slot->phase != PHASE_COLLECTED)) {
        return "only what was collected can be scored";
    }
    bool may = r->kind == RESULT_SCORED || r->kind == RESULT_LIMIT;
    if ((r->has_score && (!may || !isfinite(r->score))) || (r->kind == RESULT_SCORED && !r->has_score)) {
        return "the score does not fit the kind of result";
    }
    return NULL;
}

static char *result_json(const struct slot *slot, const struct trial_result *r)
{
    AUTO_JSON json_t *data = json_object();
    json_set_int(data, "incarnation", slot->incarnation);
    json_set_str(data, "kind", result_kind_text(r->kind));
    if (r->has_score) {
        json_set_num(data, "score", r->score);
    }
    if (r->reason) {
        json_set_str(data, "reason", r->reason);
    }
    if (r->output_tree) {
        json_set_str(data, "output_tree", r->output_tree);
    }
    return json_canonical(data);
}

int record_trial_settle(struct record *rec, int64_t trial, const struct trial_result *r, const struct record_then *then,
                        struct orch_err *err)
{
    CHECK_TEXTS(err, r->metrics, r->feedback, r->reason, r->reason_text, r->grade, r->evidence, r->output_tree,
                r->trajectory);
    TRY(record_post_begin(rec, err));
    struct slot *slot = slots_at(&rec->trials, trial);
    const char *why = check_result(slot, r);
    if (why) {
        return record_post_refuse(rec, err, "trial", trial, why);
    }
    AUTO_FREE char *data = result_json(slot, r);
    struct draft d = record_draft(rec, OP_TRIAL_SETTLE, "trial.settled", "trial", trial);
    d.data = data;
    draft_int(&d, trial);
    draft_text(&d, result_kind_text(r->kind));
    if (r->has_score) {
        draft_real(&d, r->score);
    } else {
        draft_null(&d);
    }
    draft_text(&d, r->metrics);
    draft_text(&d, r->feedback);
    draft_text(&d, r->reason);
    draft_text(&d, r->reason_text);
    draft_real(&d, isfinite(r->reason_value) ? r->reason_value : 0);
    draft_real(&d, isfinite(r->reason_limit) ? r->reason_limit : 0);
    draft_int(&d, r->elapsed_ns);
    draft_text(&d, r->grade);
    draft_text(&d, r->output_tree);
    draft_text(&d, r->trajectory);
    draft_text(&d, r->evidence);
    slot->phase = PHASE_SETTLED;
    slot->kind = (uint8_t)r->kind;
    record_post_add(rec, &d, then);
    return record_post_end(rec);
}

/* ---- Calls ---- */

static const char *check_call_plan(struct record *rec, const struct call_plan *p)
{
    if ((unsigned)p->kind >= CALL_COUNT) {
        return "of no known kind";
    }
    if ((p->trial != 0 && !slots_at(&rec->trials, p->trial)) || (p->parent != 0 && !slots_at(&rec->calls, p->parent)) ||
        (p->sandbox != 0 && !slots_at(&rec->sandboxes, p->sandbox))) {
        return "its trial, parent or sandbox is not there";
    }
    return NULL;
}

int record_call_plan(struct record *rec, const struct call_plan *p, int64_t *ret_id, const struct record_then *then,
                     struct orch_err *err)
{
    char data[160];

    CHECK_TEXTS(err, p->environment, p->model, p->spec);
    TRY(record_post_begin(rec, err));
    int64_t id = (int64_t)rec->calls.count + 1;
    const char *why = check_call_plan(rec, p);
    if (why || id == ID_MAX) {
        return record_post_refuse(rec, err, "call", id, why ? why : "too many calls");
    }
    struct draft d = record_draft(rec, OP_CALL_PLAN, "call.planned", "call", id);
    snprintf(data, sizeof data, "{\"incarnation\":%lld,\"kind\":\"%s\",\"step\":%lld,\"trial\":%lld}",
             (long long)p->incarnation, call_kind_text(p->kind), (long long)p->step, (long long)p->trial);
    d.data = data;
    draft_int(&d, id);
    draft_text(&d, call_kind_text(p->kind));
    draft_ref(&d, p->trial, 0);
    draft_int(&d, p->incarnation);
    draft_ref(&d, p->step, -1);
    draft_ref(&d, p->sandbox, 0);
    draft_ref(&d, p->parent, 0);
    draft_text(&d, p->environment);
    draft_text(&d, p->model);
    draft_text(&d, p->spec);
    slots_put(&rec->calls, id, (struct slot){.phase = PHASE_PLANNED, .incarnation = 1});
    record_post_add(rec, &d, then);
    *ret_id = id;
    return record_post_end(rec);
}

int record_call_phase(struct record *rec, int64_t call, enum phase phase, const char *outside_name,
                      const struct record_then *then, struct orch_err *err)
{
    CHECK_TEXTS(err, outside_name);
    TRY(record_post_begin(rec, err));
    struct slot *slot = slots_at(&rec->calls, call);
    const char *why = check_move(slot, phase, call_events);
    if (why) {
        return record_post_refuse(rec, err, "call", call, why);
    }
    struct draft d = record_draft(rec, OP_CALL_PHASE, call_events[phase], "call", call);
    draft_int(&d, call);
    draft_text(&d, phase_text(phase));
    draft_text(&d, outside_name);
    slot->phase = (uint8_t)phase;
    record_post_add(rec, &d, then);
    return record_post_end(rec);
}

static void add_usage(struct draft *d, const struct call_usage *u)
{
    const int64_t numbers[] = {u->wall_ns,   u->cpu_ns,     u->rss_bytes,    u->requests,
                               u->tokens_in, u->tokens_out, u->tokens_cached};
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        draft_int(d, numbers[i]);
    }
    if (u->usd_known && isfinite(u->usd)) {
        draft_real(d, u->usd);
    } else {
        draft_null(d);
    }
}

int record_call_settle(struct record *rec, int64_t call, const struct record_call_result *r,
                       const struct record_then *then, struct orch_err *err)
{
    CHECK_TEXTS(err, r->reason, r->grade, r->output_tree, r->stdout_digest, r->stderr_digest, r->data);
    TRY(record_post_begin(rec, err));
    struct slot *slot = slots_at(&rec->calls, call);
    if (!slot || !work_moves[slot->phase][PHASE_SETTLED] || (unsigned)r->exit >= EXIT_COUNT) {
        return record_post_refuse(rec, err, "call", call, "cannot be settled");
    }
    AUTO_JSON json_t *data = json_object();
    json_set_str(data, "exit", exit_kind_text(r->exit));
    json_set_int(data, "code", r->code);
    if (r->reason) {
        json_set_text(data, "reason", r->reason, strlen(r->reason));
    }
    AUTO_FREE char *text = json_canonical(data);
    struct draft d = record_draft(rec, OP_CALL_SETTLE, "call.settled", "call", call);
    d.data = text;
    draft_int(&d, call);
    draft_text(&d, exit_kind_text(r->exit));
    draft_int(&d, r->code);
    draft_text(&d, r->reason);
    draft_text(&d, r->grade);
    draft_text(&d, r->output_tree);
    draft_text(&d, r->stdout_digest);
    draft_text(&d, r->stderr_digest);
    add_usage(&d, &r->usage);
    draft_text(&d, r->data);
    slot->phase = PHASE_SETTLED;
    record_post_add(rec, &d, then);
    return record_post_end(rec);
}

/* ---- Sandboxes ---- */

int record_sandbox_open(struct record *rec, const struct sandbox_open *open, int64_t *ret_id,
                        const struct record_then *then, struct orch_err *err)
{
    CHECK_TEXTS(err, open->role, open->environment, open->mechanism, open->name, open->asked);
    AUTO_JSON json_t *data = json_object();
    json_set_str(data, "role", open->role);
    json_set_str(data, "name", open->name);
    AUTO_FREE char *text = json_canonical(data);
    TRY(record_post_begin(rec, err));
    int64_t id = (int64_t)rec->sandboxes.count + 1;
    if (id == ID_MAX) {
        return record_post_refuse(rec, err, "sandbox", id, "too many sandboxes");
    }
    struct draft d = record_draft(rec, OP_SANDBOX_OPEN, "sandbox.open", "sandbox", id);
    d.data = text;
    draft_int(&d, id);
    draft_text(&d, open->role);
    draft_text(&d, open->environment);
    draft_text(&d, open->mechanism);
    draft_text(&d, open->name);
    draft_text(&d, open->asked);
    slots_put(&rec->sandboxes, id, (struct slot){.phase = SANDBOX_PHASE_OPEN});
    record_post_add(rec, &d, then);
    *ret_id = id;
    return record_post_end(rec);
}

/* The slot, locked, if it may move to `to`; else unlocked with an error. */
static int sandbox_begin(struct record *rec, int64_t sandbox, enum sandbox_phase to, struct orch_err *err)
{
    TRY(record_post_begin(rec, err));
    struct slot *slot = slots_at(&rec->sandboxes, sandbox);
    if (!slot || !sandbox_moves[slot->phase][to]) {
        return record_post_refuse(rec, err, "sandbox", sandbox, "an illegal change of phase");
    }
    slot->phase = (uint8_t)to;
    return 0;
}

int record_sandbox_checked(struct record *rec, int64_t sandbox, const char *grade, const char *enforced_json,
                           const char *checked_json, const struct record_then *then, struct orch_err *err)
{
    CHECK_TEXTS(err, grade, enforced_json, checked_json);
    AUTO_JSON json_t *data = json_object();
    json_set_str(data, "grade", grade);
    AUTO_FREE char *text = json_canonical(data);
    TRY(sandbox_begin(rec, sandbox, SANDBOX_PHASE_CHECKED, err));
    struct draft d = record_draft(rec, OP_SANDBOX_CHECKED, "sandbox.checked", "sandbox", sandbox);
    d.data = text;
    draft_int(&d, sandbox);
    draft_text(&d, grade);
    draft_text(&d, enforced_json);
    draft_text(&d, checked_json);
    record_post_add(rec, &d, then);
    return record_post_end(rec);
}

int record_sandbox_closed(struct record *rec, int64_t sandbox, const char *how, const struct record_then *then,
                          struct orch_err *err)
{
    CHECK_TEXTS(err, how);
    TRY(sandbox_begin(rec, sandbox, SANDBOX_PHASE_CLOSED, err));
    struct draft d = record_draft(rec, OP_SANDBOX_CLOSED, "sandbox.closed", "sandbox", sandbox);
    draft_int(&d, sandbox);
    draft_text(&d, how);
    record_post_add(rec, &d, then);
    return record_post_end(rec);
}
