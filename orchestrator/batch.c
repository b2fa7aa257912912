/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/batch.h"

#include "base/mem.h"
#include "base/rng.h"
#include "orchestrator/budget.h"
#include "orchestrator/trial.h"

#include <string.h>

enum stage { STAGE_NEW, STAGE_READY, STAGE_CALL, STAGE_JUDGE, STAGE_COUNT };

struct waiting { /* an item that waits for its back-off */
    uv_timer_t timer;
    struct batch *batch;
    struct waiting *next;
    size_t item;
};

struct batch {
    struct engine *e;
    const struct batch_plan *plan;
    struct trial **live; /* one slot each */
    enum stage *stage;
    size_t slots;
    size_t in[STAGE_COUNT];
    size_t next;   /* first item never started */
    size_t *again; /* items to start again, a stack */
    size_t again_count;
    struct waiting *backing_off;
    size_t settled;
    size_t infra;
    bool stopping;
    bool stopped_by_share;
    bool stopped_by_budget;
    bool done;
    struct orch_err err;
};

static void pump(struct batch *b);

/* ------------------------------------------------------------------ hooks */

static void move_to(struct batch *b, const struct trial *t, enum stage to)
{
    size_t slot = trial_slot(t);
    b->in[b->stage[slot]]--;
    b->stage[slot] = to;
    b->in[to]++;
}

static void on_ready(struct trial *t, void *arg)
{
    struct batch *b = arg;
    move_to(b, t, STAGE_READY);
    pump(b);
}

static void on_called(struct trial *t, void *arg)
{
    struct batch *b = arg;
    move_to(b, t, STAGE_JUDGE);
    pump(b);
}

static void timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void end_wait(struct waiting *w)
{
    struct waiting **link = &w->batch->backing_off;
    while (*link != w) {
        link = &(*link)->next;
    }
    *link = w->next;
    uv_close((uv_handle_t *)&w->timer, timer_closed);
}

static void backed_off(uv_timer_t *timer)
{
    struct waiting *w = timer->data;
    struct batch *b = w->batch;
    b->again[b->again_count++] = w->item;
    end_wait(w);
    pump(b);
}

/* min · factor^n, at most max, the upper half random so that retries do not march in step. */
static uint64_t backoff_ms(const struct engine *e, int64_t incarnation)
{
    const struct run_config *c = e->config;
    double ns = (double)c->retry.backoff_min_ns;
    for (int64_t i = 1; i < incarnation && ns < (double)c->retry.backoff_max_ns; i++) {
        ns *= c->retry.backoff_factor;
    }
    ns = ns > (double)c->retry.backoff_max_ns ? (double)c->retry.backoff_max_ns : ns;
    uint64_t ms = (uint64_t)(ns / (double)NS_PER_MS);
    uint64_t half = ms / 2;
    uint64_t jitter = 0;
    random_bytes(&jitter, sizeof jitter);
    return half + (half > 0 ? jitter % half : 0);
}

static void run_again(struct batch *b, struct batch_item *item, const struct orch_err *why)
{
    struct engine *e = b->e;
    uint64_t ms = backoff_ms(e, item->incarnation);
    item->incarnation++;
    progress_line(e->progress, "trial %lld (%s): %s; attempt %lld in %.1f s", (long long)item->trial,
                  tasks_id(e->tasks, item->row), why->message, (long long)item->incarnation, (double)ms / 1000);
    struct waiting *w = xcalloc(1, sizeof *w);
    *w = (struct waiting){.batch = b, .next = b->backing_off, .item = (size_t)(item - b->plan->items)};
    w->timer.data = w;
    (void)uv_timer_init(&e->loop, &w->timer);
    (void)uv_timer_start(&w->timer, backed_off, ms, 0);
    b->backing_off = w;
}

static void count_settled(struct batch *b, const struct trial_outcome *o)
{
    b->settled++;
    progress_trial(b->e->progress, result_kind_text(o->kind), o->has_score, o->score);
    if (o->kind != RESULT_INFRA) {
        return;
    }
    b->infra++;
    double share = (double)b->infra / (double)b->plan->count;
    if (share > b->e->config->retry.stop_share && !b->stopping) {
        b->stopped_by_share = true;
        b->err = o->err;
        batch_stop(b);
    }
}

static void on_ended(struct trial *t, const struct trial_outcome *o, void *arg)
{
    struct batch *b = arg;
    size_t slot = trial_slot(t);
    size_t index = (size_t)(trial_item(t) - b->plan->items);
    b->in[b->stage[slot]]--;
    b->live[slot] = NULL;
    switch (o->end) {
    case TRIAL_SETTLED:
        count_settled(b, o);
        break;
    case TRIAL_AGAIN:
        if (!b->stopping) {
            run_again(b, &b->plan->items[index], &o->err);
        }
        break;
    case TRIAL_BROKEN:
        b->err = o->err;
        batch_stop(b);
        break;
    case TRIAL_CANCELLED:
    case TRIAL_END_COUNT:
        break;
    }
    pump(b);
}

/* ------------------------------------------------------------------ scheduling */

static size_t live_count(const struct batch *b)
{
    return b->in[STAGE_NEW] + b->in[STAGE_READY] + b->in[STAGE_CALL] + b->in[STAGE_JUDGE];
}

static bool next_item(struct batch *b, size_t *ret)
{
    if (b->again_count > 0) {
        *ret = b->again[--b->again_count];
        return true;
    }
    if (b->next < b->plan->count) {
        *ret = b->next++;
        return true;
    }
    return false;
}

/* Intents are committed ahead, so that a free slot finds a trial that may start at once. */
static void prepare_ahead(struct batch *b)
{
    size_t ahead = 4 * (size_t)b->e->config->task.concurrency;
    size_t item;
    while (!b->stopping && live_count(b) < b->slots && b->in[STAGE_NEW] + b->in[STAGE_READY] < ahead &&
           next_item(b, &item)) {
        size_t slot = 0;
        while (b->live[slot] != NULL) {
            slot++;
        }
        struct trial_hooks hooks = {.ready = on_ready, .called = on_called, .ended = on_ended, .arg = b};
        b->stage[slot] = STAGE_NEW;
        b->in[STAGE_NEW]++;
        b->live[slot] = trial_new(b->e, &b->plan->items[item], b->plan->adapter_source, &hooks);
        trial_set_slot(b->live[slot], slot);
    }
}

/* No more trials: those that run are finished, those that wait go back. */
static void stop_at_budget(struct batch *b)
{
    b->stopping = true;
    b->stopped_by_budget = true;
    while (b->backing_off != NULL) {
        end_wait(b->backing_off);
    }
    for (size_t slot = 0; slot < b->slots; slot++) {
        if (b->live[slot] != NULL && b->stage[slot] != STAGE_CALL && b->stage[slot] != STAGE_JUDGE) {
            trial_cancel(b->live[slot]);
        }
    }
}

/* The task's call and the judge's. */
static int64_t calls_of_trial(const struct batch *b)
{
    return b->e->config->task.agent == CONFIG_AGENT_NOP ? 1 : 2;
}

static void start_calls(struct batch *b)
{
    size_t most = (size_t)b->e->config->task.concurrency;
    for (size_t slot = 0; slot < b->slots && b->in[STAGE_CALL] < most && b->in[STAGE_JUDGE] < 2 * most; slot++) {
        if (b->live[slot] != NULL && b->stage[slot] == STAGE_READY) {
            if (budget_over(b->e, calls_of_trial(b))) {
                stop_at_budget(b);
                return;
            }
            b->e->calls += calls_of_trial(b);
            move_to(b, b->live[slot], STAGE_CALL);
            trial_call(b->live[slot]);
        }
    }
}

static void pump(struct batch *b)
{
    if (!b->stopping) {
        start_calls(b);
        prepare_ahead(b);
    }
    bool drained = live_count(b) == 0 && b->backing_off == NULL;
    b->done = drained && (b->stopping || (b->next == b->plan->count && b->again_count == 0));
}

void batch_stop(struct batch *b)
{
    b->stopping = true;
    while (b->backing_off != NULL) {
        end_wait(b->backing_off);
    }
    for (size_t slot = 0; slot < b->slots; slot++) {
        if (b->live[slot] != NULL) {
            trial_cancel(b->live[slot]);
        }
    }
    b->done = b->done || live_count(b) == 0;
}

static int judge_end(struct batch *b, struct orch_err *err)
{
    if (b->stopped_by_share) {
        *err = b->err;
        return err_wrap(err, "%zu of %zu trials ended as infrastructure errors (retry.stop_share), the last", b->infra,
                        b->plan->count);
    }
    if (b->err.code < 0) {
        *err = b->err;
        return err->code;
    }
    if (b->stopped_by_budget) {
        return err_set(err, ORCH_E_BUDGET, "the budget is used up");
    }
    return engine_check(b->e, err);
}

int batch_run(struct engine *e, const struct batch_plan *plan, struct orch_err *err)
{
    size_t concurrency = (size_t)e->config->task.concurrency;
    struct batch b = {.e = e, .plan = plan, .slots = concurrency * 8, .err = ERR_INIT};
    b.live = xcalloc(b.slots, sizeof(struct trial *));
    b.stage = xcalloc(b.slots, sizeof *b.stage);
    b.again = xcalloc(plan->count + 1, sizeof *b.again);
    progress_begin(e->progress, plan->title, plan->total, plan->total - (int64_t)plan->count);
    e->batch = &b;
    b.stopping = e->interrupts > 0;
    pump(&b);
    engine_await(e, &b.done);
    e->batch = NULL;
    progress_end(e->progress);
    free(b.live);
    free(b.stage);
    free(b.again);
    return judge_end(&b, err);
}
