/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/trials.h"

#include "base/mem.h"
#include "orchestrator/batch.h"

#include <string.h>

struct gathered {
    struct engine *e;
    struct batch_item *items;
    size_t count;
    size_t cap;
    int64_t total;
    bool *begun; /* beside items: it had left `planned` when its runner died */
    bool unknown_task;
};

static void gathered_done(struct gathered *g)
{
    free(g->items);
    free(g->begun);
}

static bool gather(void *arg, const struct trial_row *row)
{
    struct gathered *g = arg;
    g->total++;
    if (row->phase == PHASE_SETTLED) {
        return true;
    }
    if (g->count == g->cap) {
        g->cap = g->cap > 0 ? g->cap * 2 : 64;
        g->items = xrealloc(g->items, g->cap * sizeof *g->items);
        g->begun = xrealloc(g->begun, g->cap * sizeof *g->begun);
    }
    struct batch_item *item = &g->items[g->count];
    *item = (struct batch_item){
        .trial = row->id, .version = row->key.version, .sample = row->key.sample, .incarnation = row->incarnation};
    g->unknown_task = g->unknown_task || !tasks_find(g->e->tasks, row->key.task, &item->row);
    g->begun[g->count++] = row->phase != PHASE_PLANNED;
    return true;
}

static int look(struct engine *e, const struct trial_set *set, struct gathered *g, struct orch_err *err)
{
    struct trial_filter filter = TRIAL_FILTER_ANY;
    filter.step = set->step;
    filter.split = set->split;
    filter.version = set->version->number;
    g->e = e;
    TRY(record_trials(e->record, &filter, gather, g, err));
    return g->unknown_task ? err_set(err, ORCH_E_DRIFT, "a planned task is no longer in the data") : 0;
}

static int plan(struct engine *e, const struct trial_set *set, struct orch_err *err)
{
    size_t n = set->row_count * (size_t)set->repeats * (size_t)set->samples;
    if (n == 0) {
        return 0;
    }
    AUTO_FREE struct trial_key *keys = xcalloc(n, sizeof *keys);
    size_t k = 0;
    for (int64_t repeat = 0; repeat < set->repeats; repeat++) {
        for (size_t i = 0; i < set->row_count; i++) {
            for (int64_t sample = 0; sample < set->samples; sample++) {
                keys[k++] = (struct trial_key){.version = set->version->number,
                                               .task = tasks_id(e->tasks, set->rows[i]),
                                               .sample = sample,
                                               .repeat = repeat,
                                               .step = set->step,
                                               .split = set->split};
            }
        }
    }
    int64_t first = 0;
    TRY(record_trial_plan(e->record, keys, n, &first, NULL, err));
    return engine_settle(e, err);
}

/* What a dead runner had begun is begun anew: its sandbox died with it. */
static int reset_begun(struct engine *e, struct gathered *g, struct orch_err *err)
{
    for (size_t i = 0; i < g->count; i++) {
        if (g->begun[i]) {
            TRY(record_trial_retry(e->record, g->items[i].trial, "runner-died", "{}", NULL, err));
            g->items[i].incarnation++;
        }
    }
    return 0;
}

static int run_gathered(struct engine *e, const struct trial_set *set, struct gathered *g, struct orch_err *err)
{
    if (g->count == 0) {
        return 0;
    }
    TRY(reset_begun(e, g, err));
    struct batch_plan p = {.title = set->title, .items = g->items, .count = g->count, .total = g->total};
    if (set->version->number != VERSION_NONE) {
        TRY(engine_version(e, set->version->number, set->version->sha, &p.adapter_source, NULL, err));
    }
    int code = batch_run(e, &p, err);
    struct orch_err flush_err = ERR_INIT;
    int flushed = engine_settle(e, &flush_err);
    if (code == 0 && flushed < 0) {
        *err = flush_err;
        return flushed;
    }
    return code;
}

int trials_run(struct engine *e, const struct trial_set *set, struct orch_err *err)
{
    struct gathered g = {0};
    int code = look(e, set, &g, err);
    if (code == 0 && g.total == 0) {
        code = plan(e, set, err);
        code = code < 0 ? code : look(e, set, &g, err);
    }
    code = code < 0 ? code : run_gathered(e, set, &g, err);
    gathered_done(&g);
    return code;
}

int trials_counts(struct engine *e, int64_t step, enum split split, int64_t version, struct trial_counts *ret,
                  struct orch_err *err)
{
    struct trial_filter filter = TRIAL_FILTER_ANY;
    filter.step = step;
    filter.split = split;
    filter.version = version;
    return record_total(e->record, &filter, ret, err);
}
