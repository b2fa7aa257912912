/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/trial.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/rng.h"
#include "orchestrator/trial_place.h"
#include "orchestrator/trial_record.h"
#include "roles/host_judge.h"
#include "roles/role_call.h"
#include "roles/task_role.h"
#include "state/durable.h"
#include "state/redact.h"

#include <fcntl.h>
#include <string.h>

struct trial {
    struct engine *e;
    const struct batch_item *item;
    const char *adapter_source;
    struct trial_hooks hooks;
    size_t slot;
    int64_t began_ns;

    struct trial_place *place; /* NULL before the call */
    struct call_note call;     /* of the call that runs or ran last */
    struct call_note task;     /* the task call, while the judge runs */
    struct role_call *running;
    struct role_fetch fetch;
    struct role_fetch verdict_fetch;
    bool ready; /* between the committed intent and the call: nothing of it is under way */
    bool cancelled;
    bool told_called;
    bool limited; /* the agent was stopped by a limit: its output is judged all the same */

    uv_work_t work_item;
    char *row_text; /* the whole row, for the judge */
    size_t row_len;
    struct kept output;
    struct handoff_report report;
    struct host_judgement judgement;
    struct orch_err keep_err;
    char *collected_source; /* separate judge */
};

static void judge(struct trial *t);

/* ------------------------------------------------------------------ ends */

static void trial_free(struct trial *t)
{
    place_give(t->e, t->place);
    call_note_done(&t->call);
    call_note_done(&t->task);
    host_judgement_done(&t->judgement);
    free(t->row_text);
    free(t->collected_source);
    free(t);
}

static void end(struct trial *t, const struct trial_outcome *outcome)
{
    t->hooks.ended(t, outcome, t->hooks.arg);
    trial_free(t);
}

static void broken(struct trial *t, const struct orch_err *err)
{
    struct trial_outcome o = {.end = TRIAL_BROKEN, .err = *err};
    end(t, &o);
}

static void settle(struct trial *t, struct trial_result *r, const struct orch_err *why)
{
    r->elapsed_ns = clock_mono_ns(&t->e->clock) - t->began_ns;
    r->grade = t->task.grade != NULL ? t->task.grade : t->call.grade;
    r->output_tree = t->output.digest[0] != '\0' ? t->output.digest : NULL;
    AUTO_FREE char *feedback = r->feedback != NULL ? redact_text(t->e->redactor, r->feedback) : NULL;
    r->feedback = feedback;
    struct orch_err err = ERR_INIT;
    if (record_trial_settle(t->e->record, t->item->trial, r, NULL, &err) < 0 ||
        fault_point(FAULT_TRIAL_SETTLED, &err) < 0) {
        broken(t, &err);
        return;
    }
    struct trial_outcome o = {.end = TRIAL_SETTLED, .kind = r->kind, .has_score = r->has_score, .score = r->score};
    if (why != NULL) {
        o.err = *why;
    }
    end(t, &o);
}

static void again(struct trial *t, enum trial_end how, const char *reason, const struct orch_err *why)
{
    struct orch_err err = ERR_INIT;
    AUTO_JSON json_t *data = json_object();
    json_set_str(data, "message", why->message);
    AUTO_FREE char *text = json_canonical(data);
    AUTO_FREE char *clean = redact_text(t->e->redactor, text);
    if (record_trial_retry(t->e->record, t->item->trial, reason, clean, NULL, &err) < 0) {
        broken(t, &err);
        return;
    }
    struct trial_outcome o = {.end = how, .err = *why};
    end(t, &o);
}

/* An infrastructure error: once more, or the end of it. Never a score. */
static void infrastructure(struct trial *t, const char *reason, const struct orch_err *why)
{
    if (t->cancelled) {
        again(t, TRIAL_CANCELLED, "cancelled", why);
        return;
    }
    if (why->code == ORCH_E_NO_SPACE || !environment_alive(t->e->environment)) {
        /* not this trial's trouble, and no attempt of it: the run stops and goes on with it later */
        struct orch_err err = ERR_INIT;
        (void)!record_trial_retry(t->e->record, t->item->trial, reason, "{}", NULL, &err);
        broken(t, why);
        return;
    }
    enum err_class class = err_class_of(why->code);
    bool worth = class == ERR_RETRY || class == ERR_UNKNOWN;
    if (worth && t->item->incarnation <= t->e->config->retry.max) {
        again(t, TRIAL_AGAIN, reason, why);
        return;
    }
    struct trial_result r = {.kind = RESULT_INFRA, .reason = reason, .reason_text = why->message};
    settle(t, &r, why);
}

static void judge_error(struct trial *t, const char *reason, const char *text)
{
    struct trial_result r = {.kind = RESULT_JUDGE, .reason = reason, .reason_text = text};
    settle(t, &r, NULL);
}

static void judged(struct trial *t, const struct verdict *v)
{
    AUTO_FREE char *metrics = v->metrics != NULL ? json_canonical(v->metrics) : NULL;
    const struct call_note *task = &t->task;
    struct trial_result r = {
        .kind = t->limited ? RESULT_LIMIT : RESULT_SCORED,
        .has_score = true,
        .score = v->score,
        .metrics = metrics,
        .feedback = v->feedback,
        .reason = t->limited ? task->limit : NULL,
        .reason_limit = t->limited ? (double)task->limit_value : 0,
        .reason_value = t->limited ? (double)task->limit_reached : 0,
    };
    settle(t, &r, NULL);
}

/* ------------------------------------------------------------------ start */

static void on_intent(void *arg, int code)
{
    struct trial *t = arg;
    if (code < 0) {
        struct orch_err err = ERR_INIT;
        err_set(&err, code, "the record could not be written");
        broken(t, &err);
        return;
    }
    struct orch_err fault = ERR_INIT;
    if (fault_point(FAULT_TRIAL_INTENT, &fault) < 0) {
        broken(t, &fault);
        return;
    }
    if (t->cancelled) {
        struct orch_err err = ERR_INIT;
        err_set(&err, ORCH_E_INTERRUPTED, "stopped before it started");
        again(t, TRIAL_CANCELLED, "cancelled", &err);
        return;
    }
    t->ready = true;
    t->hooks.ready(t, t->hooks.arg);
}

static bool runs_nothing(const struct trial *t)
{
    return t->e->config->task.agent == CONFIG_AGENT_NOP;
}

static int post_intent(struct trial *t, struct orch_err *err)
{
    struct engine *e = t->e;
    if (!runs_nothing(t)) {
        TRY(call_note_plan(e, &t->call, CALL_TASK, t->item->trial, t->item->incarnation, -1, err));
    }
    return record_trial_phase(e->record, t->item->trial, PHASE_INTENT, RECORD_CRASH(on_intent, t), err);
}

/* A failure inside trial_new() is told from the loop, as every end is. */
static void told_later(uv_work_t *work, int status)
{
    (void)status;
    struct trial *t = work->data;
    broken(t, &t->keep_err);
}

static void nothing(uv_work_t *work)
{
    (void)work;
}

struct trial *trial_new(struct engine *e, const struct batch_item *item, const char *adapter_source,
                        const struct trial_hooks *hooks)
{
    struct trial *t = xcalloc(1, sizeof *t);
    *t = (struct trial){
        .e = e,
        .item = item,
        .adapter_source = adapter_source,
        .hooks = *hooks,
        .began_ns = clock_mono_ns(&e->clock),
    };
    t->work_item.data = t;
    if (post_intent(t, &t->keep_err) < 0) {
        (void)uv_queue_work(&e->loop, &t->work_item, nothing, told_later);
    }
    return t;
}

const struct batch_item *trial_item(const struct trial *t)
{
    return t->item;
}

void trial_set_slot(struct trial *t, size_t slot)
{
    t->slot = slot;
}

size_t trial_slot(const struct trial *t)
{
    return t->slot;
}

/* ------------------------------------------------------------------ the task call */

/* The same trial gets the same seed in every incarnation and on every machine. */
static int64_t trial_seed(const struct trial *t)
{
    AUTO_FREE char *label = xasprintf("trial %lld %lld %s", (long long)t->item->version, (long long)t->item->sample,
                                      tasks_id(t->e->tasks, t->item->row));
    struct rng r = rng_seeded((uint64_t)t->e->config->seed, label);
    return (int64_t)(rng_next(&r) >> 12);
}

static void task_exited(void *arg);
static void task_ended(struct role_call_outcome *o, void *arg);

static int start_call(struct trial *t, struct orch_err *err)
{
    struct engine *e = t->e;
    AUTO_FREE char *text = NULL;
    size_t len = 0;
    TRY(tasks_public_row(e->tasks, t->item->row, &text, &len, err));
    struct task_sandbox setup = {
        .name = t->call.name,
        .config = e->config,
        .program = &e->agent.program,
        .program_source = e->agent.source,
        .adapter_source = t->adapter_source,
        .task_text = text,
        .task_len = len,
        .seed = trial_seed(t),
        .sample = t->item->sample,
    };
    AUTO_SPEC struct sandbox_spec spec;
    task_role_spec(&setup, &spec);
    engine_grant_readable(e, &spec);
    struct call_spec call = task_role_call(&setup);
    int64_t disk = e->config->task.access.limits.disk;
    t->fetch = (struct role_fetch){
        .inside = ROLE_OUTPUT, .dest_dirfd = t->place->collected, .limits = {.bytes = disk > 0 ? (uint64_t)disk : 0}};
    call_note_asked(&t->call, &spec);
    struct role_call_plan plan = {.spec = &spec,
                                  .call = &call,
                                  .fetches = &t->fetch,
                                  .fetch_count = 1,
                                  .exited = task_exited,
                                  .ended = task_ended,
                                  .arg = t};
    TRY(role_call_start(e->environment, &plan, &t->running, err));
    TRY(call_note_started(e, &t->call, err));
    TRY(record_trial_phase(e->record, t->item->trial, PHASE_STARTED, NULL, err));
    return fault_point(FAULT_TRIAL_STARTED, err);
}

/* Work that starts no call still goes through the loop, so that `called` is never called from trial_call(). */
static void nop_called(uv_work_t *work, int status)
{
    (void)status;
    struct trial *t = work->data;
    t->hooks.called(t, t->hooks.arg);
    struct orch_err err = ERR_INIT;
    if (record_trial_phase(t->e->record, t->item->trial, PHASE_STARTED, NULL, &err) < 0 ||
        record_trial_phase(t->e->record, t->item->trial, PHASE_EXITED, NULL, &err) < 0) {
        broken(t, &err);
        return;
    }
    judge(t);
}

static void start_failed(uv_work_t *work, int status)
{
    (void)status;
    struct trial *t = work->data;
    infrastructure(t, "start", &t->keep_err);
}

void trial_call(struct trial *t)
{
    t->ready = false;
    int code = place_take(t->e, &t->place, &t->keep_err);
    if (code == 0 && runs_nothing(t)) {
        (void)uv_queue_work(&t->e->loop, &t->work_item, nothing, nop_called);
        return;
    }
    if (code == 0) {
        code = start_call(t, &t->keep_err);
    }
    if (code < 0 && t->running == NULL) {
        (void)uv_queue_work(&t->e->loop, &t->work_item, nothing, start_failed);
    }
}

static void cancelled_ready(uv_work_t *work, int status)
{
    (void)status;
    struct trial *t = work->data;
    struct orch_err err = ERR_INIT;
    struct orch_err ignored = ERR_INIT;
    (void)!call_note_settle(t->e, &t->call, NULL, &ignored);
    (void)err_set(&err, ORCH_E_INTERRUPTED, "stopped before it started");
    again(t, TRIAL_CANCELLED, "cancelled", &err);
}

void trial_cancel(struct trial *t)
{
    t->cancelled = true;
    if (t->ready) { /* nobody will call it any more */
        t->ready = false;
        (void)uv_queue_work(&t->e->loop, &t->work_item, nothing, cancelled_ready);
    }
    if (t->running != NULL) {
        role_call_cancel(t->running);
    }
}

/* Which cap of the handoff stopped it: each is a limit of its own. */
static void note_handoff_cap(struct trial *t)
{
    static const struct {
        enum handoff_reason reason;
        const char *limit;
    } caps[] = {{HANDOFF_OVER_DEPTH, "depth"}, {HANDOFF_OVER_ENTRIES, "entries"}, {HANDOFF_OVER_PATH, "path"}};
    const struct handoff_report *r = &t->fetch.report;
    for (size_t i = 0; i < ARRAY_LEN(caps); i++) {
        if (r->reasons[caps[i].reason] > 0) {
            call_note_limit(&t->call, caps[i].limit, 0, -1);
            return;
        }
    }
    call_note_limit(&t->call, "disk", t->e->config->task.access.limits.disk, (int64_t)r->bytes);
}

/* The slot of the agent is free; what it left is somebody else's work. */
static void tell_called(struct trial *t)
{
    if (!t->told_called) {
        t->told_called = true;
        t->hooks.called(t, t->hooks.arg);
    }
}

static void task_exited(void *arg)
{
    tell_called(arg);
}

static void task_ended(struct role_call_outcome *o, void *arg)
{
    struct trial *t = arg;
    t->running = NULL;
    struct orch_err err = ERR_INIT;
    if (call_note_ended(t->e, &t->call, o, &err) < 0) {
        broken(t, &err);
        return;
    }
    tell_called(t);
    if (o->err.code < 0 || t->cancelled) {
        if (o->err.code == 0) {
            err_set(&o->err, ORCH_E_INTERRUPTED, "stopped");
        }
        (void)!call_note_settle(t->e, &t->call, NULL, &err);
        infrastructure(t, o->opened ? "environment-lost" : "open", &o->err);
        return;
    }
    t->limited = o->call.end == CALL_LIMIT;
    if (t->fetch.err.code < 0 && t->fetch.err.code != ORCH_E_LIMIT) {
        (void)!call_note_settle(t->e, &t->call, NULL, &err);
        infrastructure(t, "collect", &t->fetch.err);
        return;
    }
    call_note_left_out(&t->call, &t->fetch.report);
    if (t->fetch.err.code == ORCH_E_LIMIT && !t->limited) {
        t->limited = true;
        note_handoff_cap(t);
    }
    if (record_trial_phase(t->e->record, t->item->trial, PHASE_EXITED, NULL, &err) < 0 ||
        fault_point(FAULT_TRIAL_EXITED, &err) < 0) {
        broken(t, &err);
        return;
    }
    judge(t);
}

/* ------------------------------------------------------------------ collection and judge */

static int keep_output(struct trial *t, struct orch_err *err)
{
    TRY(call_note_keep(t->e, &t->call, err));
    AUTO_FD int fd = fd_open_beneath(t->place->collected, ".", O_RDONLY | O_DIRECTORY, 0, err);
    TRY(fd);
    struct tree_caps caps = TREE_CAPS_DEFAULT;
    return objects_keep_tree(t->e->objects, fd, &caps, &t->output, err);
}

/* Worker thread: everything that blocks. */
static void collect_and_judge(uv_work_t *work)
{
    struct trial *t = work->data;
    struct orch_err err = ERR_INIT;
    if (keep_output(t, &err) < 0 || tasks_read_row(t->e->tasks, t->item->row, &t->row_text, &t->row_len, &err) < 0) {
        t->keep_err = err;
        return;
    }
    if (t->e->config->judge.mode == CONFIG_JUDGE_HOST) {
        struct host_judge j = {
            .config = t->e->config,
            .program = &t->e->judge.program,
            .work = t->place->path,
            .task_text = t->row_text,
            .task_len = t->row_len,
            .reaper = t->e->init_program,
        };
        host_judge_run(&j, &t->judgement);
    }
}

static void judge_separately(struct trial *t);

static void collected(uv_work_t *work, int status)
{
    (void)status;
    struct trial *t = work->data;
    struct orch_err err = ERR_INIT;
    if (t->keep_err.code == ORCH_E_LIMIT) { /* more than is kept: the agent's doing, and nothing can be judged */
        (void)!call_note_settle(t->e, &t->call, NULL, &err);
        struct trial_result r = {.kind = RESULT_LIMIT, .reason = "output-size", .reason_text = t->keep_err.message};
        settle(t, &r, NULL);
        return;
    }
    if (t->keep_err.code < 0) {
        (void)!call_note_settle(t->e, &t->call, NULL, &err);
        infrastructure(t, "collect", &t->keep_err);
        return;
    }
    int code = call_note_settle(t->e, &t->call, t->output.digest, &err);
    if (code == 0) {
        code = record_trial_phase(t->e->record, t->item->trial, PHASE_COLLECTED, NULL, &err);
    }
    if (code == 0) {
        code = fault_point(FAULT_TRIAL_COLLECTED, &err);
    }
    if (code < 0) {
        broken(t, &err);
        return;
    }
    t->task = t->call;
    t->call = (struct call_note){0};
    if (t->e->config->judge.mode == CONFIG_JUDGE_SEPARATE) {
        judge_separately(t);
        return;
    }
    if (host_judge_note(t->e, t->item, &t->judgement, &err) < 0) {
        broken(t, &err);
    } else if (t->judgement.code < 0) {
        judge_error(t, t->judgement.reason, t->judgement.err.message);
    } else {
        judged(t, &t->judgement.verdict);
    }
}

static void judge(struct trial *t)
{
    (void)uv_queue_work(&t->e->loop, &t->work_item, collect_and_judge, collected);
}

/* ------------------------------------------------------------------ the separate judge */

static void separate_ended(struct role_call_outcome *o, void *arg)
{
    struct trial *t = arg;
    t->running = NULL;
    struct orch_err err = ERR_INIT;
    if (call_note_ended(t->e, &t->call, o, &err) < 0 || call_note_settle(t->e, &t->call, NULL, &err) < 0) {
        broken(t, &err);
        return;
    }
    if (o->err.code < 0 || t->cancelled) {
        infrastructure(t, "judge-open", &o->err);
        return;
    }
    if (o->call.end == CALL_LIMIT) {
        AUTO_FREE char *text = xasprintf("the judge was stopped by its limit \"%s\"", o->call.limit);
        judge_error(t, "judge-limit", text);
        return;
    }
    if (o->call.end != CALL_EXITED || o->call.code != 0) {
        AUTO_FREE char *text = xasprintf("the judge %s %d", call_end_name(o->call.end), o->call.code);
        judge_error(t, "judge-exit", text);
        return;
    }
    struct verdict v = {0};
    int code = verdict_read(t->place->verdict, &v, &err);
    if (code < 0) {
        judge_error(t, code == ORCH_E_NOT_FOUND ? "judge-no-verdict" : "judge-verdict", err.message);
    } else {
        judged(t, &v);
    }
    verdict_done(&v);
}

static int start_judge(struct trial *t, struct orch_err *err)
{
    struct engine *e = t->e;
    TRY(call_note_plan(e, &t->call, CALL_JUDGE, t->item->trial, t->item->incarnation, -1, err));
    struct judge_sandbox setup = {
        .name = t->call.name,
        .config = e->config,
        .program = &e->judge.program,
        .program_source = e->judge.source,
        .tests_source = e->tests_source,
        .collected_source = t->collected_source,
        .task_text = t->row_text,
        .task_len = t->row_len,
    };
    AUTO_SPEC struct sandbox_spec spec;
    judge_role_spec(&setup, &spec);
    engine_grant_readable(e, &spec);
    struct call_spec call = judge_role_call(&setup);
    t->verdict_fetch = (struct role_fetch){.inside = ROLE_VERDICT, .dest_dirfd = t->place->verdict};
    t->verdict_fetch.limits = (struct handoff_limits){.bytes = VERDICT_MAX * 4, .entries = 64, .depth = 4};
    call_note_asked(&t->call, &spec);
    struct role_call_plan plan = {.spec = &spec,
                                  .call = &call,
                                  .fetches = &t->verdict_fetch,
                                  .fetch_count = 1,
                                  .ended = separate_ended,
                                  .arg = t};
    TRY(role_call_start(e->environment, &plan, &t->running, err));
    return call_note_started(e, &t->call, err);
}

static void collected_put(struct environment *env, const struct put_result *r, void *arg)
{
    (void)env;
    struct trial *t = arg;
    struct orch_err err = r->err;
    if (err.code == 0) {
        t->collected_source = xstrdup(r->source);
        (void)!start_judge(t, &err);
    }
    if (err.code < 0 && t->running == NULL) {
        infrastructure(t, "judge-open", &err);
    }
}

static void judge_separately(struct trial *t)
{
    struct orch_err err = ERR_INIT;
    AUTO_FREE char *dir = path_join(t->place->path, "collected");
    if (collect_only(t->e->config->judge.collect, t->place->collected, &err) < 0 ||
        environment_put(t->e->environment, dir, collected_put, t, &err) < 0) {
        infrastructure(t, "judge-open", &err);
    }
}
