/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/trainer.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/rng.h"
#include "orchestrator/budget.h"
#include "orchestrator/evolve.h"
#include "orchestrator/row_json.h"
#include "state/durable.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

struct step_facts { /* of one step, from the record */
    bool exists;
    enum step_state state;
    int64_t base_version;
    int64_t version;
    char outcome[16];
    json_t *data;
};

struct trainer {
    struct engine *e;
    struct version_ref *versions; /* by number */
    size_t version_count;
    struct version_ref current;
    char *root_dir; /* checked out */
    const char *root_source;
    int64_t state_step; /* newest step with kept state */
    bool validates;     /* gate or select needs validation scores */
    double best_val;
    int64_t since_best; /* settled steps without a better validation score */
};

/* ------------------------------------------------------------------ reading the record */

static bool keep_version(void *arg, const struct version_add *row, int64_t added_ns)
{
    (void)added_ns;
    struct trainer *t = arg;
    if (row->number < 0) {
        return true;
    }
    size_t n = (size_t)row->number + 1;
    if (n > t->version_count) {
        t->versions = xrealloc(t->versions, n * sizeof *t->versions);
        memset(t->versions + t->version_count, 0, (n - t->version_count) * sizeof *t->versions);
        t->version_count = n;
    }
    struct version_ref *v = &t->versions[row->number];
    v->number = row->number;
    v->step = row->step;
    (void)snprintf(v->sha, sizeof v->sha, "%s", row->sha);
    (void)snprintf(v->tree, sizeof v->tree, "%s", row->tree);
    return true;
}

struct step_wanted {
    int64_t number;
    struct step_facts *facts;
};

static bool keep_step(void *arg, const struct step_row *row)
{
    struct step_wanted *w = arg;
    if (row->number != w->number) {
        return true;
    }
    struct step_facts *f = w->facts;
    f->exists = true;
    f->state = row->state;
    f->base_version = row->base_version;
    f->version = row->version;
    (void)snprintf(f->outcome, sizeof f->outcome, "%s", row->outcome != NULL ? row->outcome : "");
    f->data = row->data != NULL ? json_loads(row->data, 0, NULL) : NULL;
    return false;
}

static void facts_done(struct step_facts *f)
{
    json_decref(f->data);
}
#define AUTO_FACTS __attribute__((cleanup(facts_done)))

static int read_step(struct trainer *t, int64_t number, struct step_facts *ret, struct orch_err *err)
{
    struct step_wanted w = {.number = number, .facts = ret};
    TRY(engine_settle(t->e, err));
    TRY(record_steps(t->e->record, keep_step, &w, err));
    if (ret->data == NULL) {
        ret->data = json_object();
    }
    return 0;
}

static int set_state(struct trainer *t, int64_t step, enum step_state state, const json_t *data, struct orch_err *err)
{
    AUTO_FREE char *text = json_canonical(data);
    TRY(record_step_state(t->e->record, step, state, text, RECORD_FSYNC(NULL, NULL), err));
    return engine_settle(t->e, err);
}

/* ------------------------------------------------------------------ versions */

struct commit_job {
    struct trainer *t;
    const char *dir;
    const struct version_ref *parent; /* NULL: the root */
    const char *message;
    int64_t number;
    struct version_id id;
    int code;
    struct orch_err err;
};

static int commit(struct commit_job *j)
{
    struct engine *e = j->t->e;
    AUTO_FD int fd = fd_open(j->dir, O_RDONLY | O_DIRECTORY, 0, &j->err);
    TRY(fd);
    char tag[32];
    (void)snprintf(tag, sizeof tag, "v%lld", (long long)j->number);
    char parent_sha[VERSIONS_SHA_MAX] = "";
    if (j->parent != NULL) {
        memcpy(parent_sha, j->parent->sha, sizeof parent_sha);
    }
    char *parents[] = {parent_sha, NULL};
    struct version_commit c = {
        .dirfd = fd,
        .parents = j->parent != NULL ? parents : NULL,
        .message = j->message,
        .tag = tag,
        .wall_ns = clock_wall_ns(&e->clock),
        .redactor = e->redactor,
    };
    TRY(versions_commit(e->versions, &c, &j->id, &j->err));
    return j->parent == NULL ? versions_point(e->versions, "root", j->id.sha, &j->err) : 0;
}

static void commit_run(void *arg)
{
    struct commit_job *j = arg;
    j->code = commit(j);
}

/* A directory becomes a version: commit first, then the record's word; repeated after a crash it gives the same. */
static int add_version(struct trainer *t, struct commit_job *j, enum version_state state, int64_t step,
                       struct orch_err *err)
{
    j->t = t;
    j->number = (int64_t)t->version_count;
    j->err = (struct orch_err)ERR_INIT;
    engine_work(t->e, commit_run, j);
    if (j->code < 0) {
        *err = j->err;
        return j->code;
    }
    int64_t parent = j->parent != NULL ? j->parent->number : 0;
    struct version_add add = {
        .number = j->number,
        .state = state,
        .step = step,
        .parents = &parent,
        .parent_count = j->parent != NULL ? 1 : 0,
        .sha = j->id.sha,
        .tree = j->id.tree,
    };
    TRY(record_version_add(t->e->record, &add, RECORD_FSYNC(NULL, NULL), err));
    (void)keep_version(t, &add, 0);
    return fault_point(FAULT_STEP_VERSION, err);
}

struct point_job {
    struct engine *e;
    const char *name;
    const char *sha;
    int code;
    struct orch_err err;
};

static void point_run(void *arg)
{
    struct point_job *j = arg;
    j->code = versions_point(j->e->versions, j->name, j->sha, &j->err);
}

static int point(struct trainer *t, const char *name, const char *sha, struct orch_err *err)
{
    struct point_job j = {.e = t->e, .name = name, .sha = sha, .err = ERR_INIT};
    engine_work(t->e, point_run, &j);
    if (j.code < 0) {
        *err = j.err;
    }
    return j.code;
}

/* ------------------------------------------------------------------ tasks of a step */

static size_t train_count(const struct engine *e)
{
    return tasks_split_count(e->tasks, TASKS_TRAIN);
}

static int64_t steps_per_epoch(const struct engine *e)
{
    int64_t size = e->config->data.step_size;
    return ((int64_t)train_count(e) + size - 1) / size;
}

int64_t trainer_steps(const struct engine *e)
{
    int64_t all = steps_per_epoch(e) * e->config->trainer.epochs;
    return e->config->trainer.steps >= 0 && e->config->trainer.steps < all ? e->config->trainer.steps : all;
}

/* The order of an epoch depends on the seed and the epoch alone: a resumed run sees the same. Owned. */
static size_t *epoch_rows(const struct engine *e, int64_t epoch)
{
    size_t n = train_count(e);
    size_t *rows = xcalloc(n, sizeof *rows);
    for (size_t i = 0; i < n; i++) {
        rows[i] = tasks_split_row(e->tasks, TASKS_TRAIN, i);
    }
    if (e->config->data.shuffle) {
        AUTO_FREE char *label = xasprintf("epoch %lld", (long long)epoch);
        struct rng r = rng_seeded((uint64_t)e->config->seed, label);
        rng_shuffle(&r, rows, n);
    }
    return rows;
}

static size_t *split_rows(const struct engine *e, enum tasks_split split, size_t *ret_count)
{
    *ret_count = tasks_split_count(e->tasks, split);
    size_t *rows = xcalloc(*ret_count, sizeof *rows);
    for (size_t i = 0; i < *ret_count; i++) {
        rows[i] = tasks_split_row(e->tasks, split, i);
    }
    return rows;
}

/* The rows of step `step` (from 1), as a part of *ret_all, which is owned by the caller. */
static void step_rows(const struct engine *e, int64_t step, size_t **ret_all, size_t **ret_first, size_t *ret_count)
{
    int64_t epoch = (step - 1) / steps_per_epoch(e);
    size_t size = (size_t)e->config->data.step_size;
    size_t first = (size_t)((step - 1) % steps_per_epoch(e)) * size;
    size_t left = train_count(e) - first;
    *ret_all = epoch_rows(e, epoch);
    *ret_first = *ret_all + first;
    *ret_count = left < size ? left : size;
}

static int run_training_trials(struct trainer *t, int64_t step, struct orch_err *err)
{
    AUTO_FREE size_t *all = NULL;
    size_t *rows = NULL;
    size_t count = 0;
    step_rows(t->e, step, &all, &rows, &count);
    AUTO_FREE char *title = xasprintf("step %lld/%lld, version %lld", (long long)step, (long long)trainer_steps(t->e),
                                      (long long)t->current.number);
    struct trial_set set = {
        .title = title,
        .version = &t->current,
        .split = SPLIT_TRAIN,
        .step = step,
        .repeats = 1,
        .samples = t->e->config->task.samples,
        .rows = rows,
        .row_count = count,
    };
    return trials_run(t->e, &set, err);
}

static int validate(struct trainer *t, const struct version_ref *v, int64_t step, double *ret_mean,
                    struct orch_err *err)
{
    size_t count = 0;
    AUTO_FREE size_t *rows = split_rows(t->e, TASKS_VAL, &count);
    AUTO_FREE char *title = xasprintf("validation of version %lld", (long long)v->number);
    struct trial_set set = {.title = title,
                            .version = v,
                            .split = SPLIT_VAL,
                            .step = step,
                            .repeats = 1,
                            .samples = t->e->config->task.samples,
                            .rows = rows,
                            .row_count = count};
    TRY(trials_run(t->e, &set, err));
    struct trial_counts counts;
    TRY(trials_counts(t->e, step, SPLIT_VAL, v->number, &counts, err));
    *ret_mean = counts.mean;
    return 0;
}

/* ------------------------------------------------------------------ step 0 */

static int root_step(struct trainer *t, struct orch_err *err)
{
    AUTO_FACTS struct step_facts f = {0};
    TRY(read_step(t, 0, &f, err));
    if (!f.exists) {
        TRY(record_step_plan(t->e->record, 0, VERSION_NONE, "[]", RECORD_FSYNC(NULL, NULL), err));
    }
    if (t->version_count == 0) {
        struct commit_job j = {.dir = t->e->root_dir, .message = "version 0: the root"};
        TRY(add_version(t, &j, VERSION_ACCEPTED, 0, err));
        TRY(engine_settle(t->e, err));
    }
    t->current = t->versions[0];
    TRY(engine_version(t->e, 0, t->current.sha, &t->root_source, &t->root_dir, err));
    double mean = 0;
    if (t->validates) {
        TRY(validate(t, &t->current, 0, &mean, err));
        t->best_val = mean;
        json_set_num(f.data, "val_score", mean);
    }
    if (f.exists && f.state == STEP_SETTLED) {
        return 0;
    }
    AUTO_FREE char *data = json_canonical(f.data);
    TRY(record_step_settle(t->e->record, 0, "root", 0, data, RECORD_FSYNC(NULL, NULL), err));
    return engine_settle(t->e, err);
}

/* ------------------------------------------------------------------ one step */

static int plan_step(struct trainer *t, int64_t step, struct orch_err *err)
{
    AUTO_FREE size_t *all = NULL;
    size_t *rows = NULL;
    size_t count = 0;
    step_rows(t->e, step, &all, &rows, &count);
    AUTO_JSON json_t *order = json_array();
    for (size_t i = 0; i < count; i++) {
        json_add_str(order, tasks_id(t->e->tasks, rows[i]));
    }
    AUTO_FREE char *text = json_canonical(order);
    TRY(record_step_plan(t->e->record, step, t->current.number, text, RECORD_FSYNC(NULL, NULL), err));
    return fault_point(FAULT_STEP_PLANNED, err);
}

static int step_trials(struct trainer *t, int64_t step, json_t *data, struct orch_err *err)
{
    TRY(set_state(t, step, STEP_TRIALS, data, err));
    TRY(run_training_trials(t, step, err));
    struct trial_counts counts;
    TRY(trials_counts(t->e, step, SPLIT_TRAIN, t->current.number, &counts, err));
    json_set_take(data, "mean_score", counts.scores > 0 ? json_real(counts.mean) : json_null());
    return set_state(t, step, STEP_EVOLVER, data, err);
}

static int step_evolver(struct trainer *t, const struct evolve_step *s, json_t *data, struct orch_err *err)
{
    if (t->e->config->evolver.agent == CONFIG_AGENT_NOP) {
        json_set_str(data, "evolver", "none");
    } else {
        TRY(budget_check(t->e, 1, err));
        struct evolve_result r;
        TRY(evolve_call(t->e, s, &r, err));
        json_set_str(data, "evolver", r.ok ? "ok" : "failed");
        json_set_str(data, "reason", r.reason);
        if (r.left_out != NULL) {
            json_set_str(data, "left_out", r.left_out);
        }
        free(r.reason);
        free(r.left_out);
    }
    TRY(set_state(t, s->step, STEP_CHECK, data, err));
    return fault_point(FAULT_STEP_EVOLVER, err);
}

/* The version that this step made before it was stopped, or NULL. */
static const struct version_ref *made_before(const struct trainer *t, int64_t step)
{
    for (size_t i = 1; i < t->version_count; i++) {
        if (t->versions[i].step == step) {
            return &t->versions[i];
        }
    }
    return NULL;
}

/* *ret_reason (owned) when the candidate cannot be a version: a link, or a key in it. It is refused, not rewritten. */
static int make_version(struct trainer *t, const struct evolve_step *s, const char *candidate, int64_t *ret_number,
                        char **ret_reason, struct orch_err *err)
{
    const struct version_ref *before = made_before(t, s->step);
    if (before != NULL) {
        *ret_number = before->number;
        return 0;
    }
    AUTO_FREE char *message = xasprintf("version %zu: step %lld", t->version_count, (long long)s->step);
    struct commit_job j = {.dir = candidate, .parent = s->base, .message = message};
    int code = add_version(t, &j, VERSION_ACCEPTED, s->step, err);
    if (code == ORCH_E_HOSTILE) {
        *ret_reason = xstrdup(err->message);
        err_clear(err);
        return 0;
    }
    *ret_number = j.number;
    return code;
}

struct same_job {
    const char *a;
    const char *b;
    bool same;
    int code;
    struct orch_err err;
};

static void same_run(void *arg)
{
    struct same_job *j = arg;
    j->code = template_same_files(j->a, j->b, &j->same, &j->err);
}

static int is_unchanged(struct trainer *t, const struct evolve_step *s, const char *candidate, bool *ret,
                        struct orch_err *err)
{
    AUTO_FREE char *base = NULL;
    TRY(engine_version(t->e, s->base->number, s->base->sha, NULL, &base, err));
    struct same_job j = {.a = base, .b = candidate, .err = ERR_INIT};
    engine_work(t->e, same_run, &j);
    if (j.code < 0) {
        *err = j.err;
        return j.code;
    }
    *ret = j.same;
    return 0;
}

/* After the check: "accepted" with a new version, "rejected", "unchanged" or "failed". */
static int step_check(struct trainer *t, const struct evolve_step *s, json_t *data, struct orch_err *err)
{
    const char *evolver = json_get_str(data, "evolver", "");
    if (strcmp(evolver, "ok") != 0) {
        json_set_str(data, "outcome", strcmp(evolver, "none") == 0 ? "unchanged" : "failed");
        return set_state(t, s->step, STEP_GATE, data, err);
    }
    AUTO_FREE char *reason = NULL;
    TRY(evolve_check(t->e, s, t->root_dir, &reason, err));
    AUTO_FREE char *candidate = evolve_path(t->e, s->step, "candidate");
    bool same = false;
    int64_t number = VERSION_NONE;
    if (reason == NULL) {
        TRY(is_unchanged(t, s, candidate, &same, err));
    }
    if (reason == NULL && !same) {
        TRY(make_version(t, s, candidate, &number, &reason, err));
    }
    json_set_str(data, "outcome", reason != NULL ? "rejected" : same ? "unchanged" : "accepted");
    json_set_str(data, "reason", reason);
    json_set_int(data, "candidate", number);
    TRY(set_state(t, s->step, STEP_GATE, data, err));
    return fault_point(FAULT_STEP_CHECKED, err);
}

/* Only for a changed candidate: its validation score decides with gate, and is kept for select: best. */
static int step_gate(struct trainer *t, int64_t step, json_t *data, struct orch_err *err)
{
    if (!t->validates || strcmp(json_get_str(data, "outcome", ""), "accepted") != 0) {
        return 0;
    }
    int64_t number = json_get_int(data, "candidate", 0);
    double mean = 0;
    TRY(validate(t, &t->versions[number], step, &mean, err));
    json_set_num(data, "val_score", mean);
    if (t->e->config->trainer.gate == CONFIG_GATE_VALIDATION && mean <= t->best_val) {
        AUTO_FREE char *reason =
            xasprintf("validation score %.4f is not above %.4f, the best so far", mean, t->best_val);
        json_set_str(data, "outcome", "rejected");
        json_set_str(data, "reason", reason);
        TRY(record_version_state(t->e->record, number, VERSION_REJECTED, reason, NULL, err));
    }
    return fault_point(FAULT_STEP_GATE, err);
}

static void remember(struct trainer *t, int64_t step, const json_t *data)
{
    if (strcmp(json_get_str(data, "evolver", ""), "ok") == 0) {
        t->state_step = step;
    }
    const json_t *val = json_get(data, "val_score");
    bool better = json_is_number(val) && json_number_value(val) > t->best_val;
    t->best_val = better ? json_number_value(val) : t->best_val;
    t->since_best = better ? 0 : t->since_best + 1;
}

static int settle_step(struct trainer *t, int64_t step, json_t *data, struct orch_err *err)
{
    const char *outcome = json_get_str(data, "outcome", "failed");
    if (strcmp(outcome, "accepted") == 0) {
        t->current = t->versions[json_get_int(data, "candidate", 0)];
        TRY(point(t, "main", t->current.sha, err));
    }
    AUTO_FREE char *text = json_canonical(data);
    TRY(record_step_settle(t->e->record, step, outcome, t->current.number, text, RECORD_FSYNC(NULL, NULL), err));
    TRY(engine_settle(t->e, err));
    const char *reason = row_json_step_reason(data);
    progress_line(t->e->progress, "step %lld: %s, version %lld%s%s", (long long)step, outcome,
                  (long long)t->current.number, reason != NULL ? ": " : "", reason != NULL ? reason : "");
    remember(t, step, data);
    return fault_point(FAULT_STEP_SETTLED, err);
}

static int run_step(struct trainer *t, int64_t step, struct orch_err *err)
{
    AUTO_FACTS struct step_facts f = {0};
    TRY(read_step(t, step, &f, err));
    if (f.exists && f.state == STEP_SETTLED) {
        t->current = t->versions[f.version];
        remember(t, step, f.data);
        return 0;
    }
    TRY(budget_check(t->e, 1, err));
    if (!f.exists) {
        TRY(plan_step(t, step, err));
        f.state = STEP_PLANNED;
    }
    struct version_ref base = t->current;
    struct evolve_step s = {.step = step, .base = &base, .root_source = t->root_source, .state_step = t->state_step};
    switch (f.state) {
    case STEP_PLANNED:
    case STEP_TRIALS:
        TRY(step_trials(t, step, f.data, err));
        __attribute__((fallthrough));
    case STEP_EVOLVER:
        TRY(step_evolver(t, &s, f.data, err));
        __attribute__((fallthrough));
    case STEP_CHECK:
        TRY(step_check(t, &s, f.data, err));
        __attribute__((fallthrough));
    case STEP_GATE:
        TRY(step_gate(t, step, f.data, err));
        break;
    case STEP_SETTLED:
    case STEP_COUNT:
        break;
    }
    return settle_step(t, step, f.data, err);
}

/* ------------------------------------------------------------------ the run */

struct best {
    int64_t version;
    double score;
    bool found;
};

static bool better_version(void *arg, const struct counts_row *row)
{
    struct best *b = arg;
    if (row->counts.scores > 0 && (!b->found || row->counts.mean > b->score)) {
        *b = (struct best){.version = row->version, .score = row->counts.mean, .found = true};
    }
    return true;
}

static int select_final(struct trainer *t, struct version_ref *ret, struct orch_err *err)
{
    *ret = t->current;
    if (t->e->config->trainer.select == CONFIG_SELECT_BEST) {
        struct trial_filter filter = TRIAL_FILTER_ANY;
        filter.split = SPLIT_VAL;
        struct best b = {0};
        TRY(record_counts(t->e->record, &filter, better_version, &b, err));
        if (b.found) {
            *ret = t->versions[b.version];
            TRY(point(t, "best", ret->sha, err));
        }
    }
    return point(t, "final", ret->sha, err);
}

static int train(struct trainer *t, struct trainer_end *ret, struct orch_err *err)
{
    TRY(record_versions(t->e->record, keep_version, t, err));
    TRY(root_step(t, err));
    int64_t patience = t->e->config->trainer.patience;
    *ret = (struct trainer_end){.stop_reason = "steps"};
    for (int64_t step = 1; step <= trainer_steps(t->e); step++) {
        TRY(engine_check(t->e, err));
        int code = run_step(t, step, err);
        if (code == ORCH_E_BUDGET) { /* the step goes on with a larger one */
            err_clear(err);
            ret->stop_reason = "budget";
            break;
        }
        TRY(code);
        ret->steps = step;
        if (t->validates && patience > 0 && t->since_best >= patience) {
            ret->stop_reason = "patience";
            break;
        }
    }
    return select_final(t, &ret->final, err);
}

int trainer_run(struct engine *e, struct trainer_end *ret, struct orch_err *err)
{
    const struct run_config *c = e->config;
    struct trainer t = {
        .e = e, .validates = c->trainer.gate == CONFIG_GATE_VALIDATION || c->trainer.select == CONFIG_SELECT_BEST};
    int code = train(&t, ret, err);
    free(t.versions);
    free(t.root_dir);
    return code;
}
