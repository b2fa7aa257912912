/* SPDX-License-Identifier: Apache-2.0 */
/* One line a row: what differs between two exports shows in a plain diff. */
#include "state/export.h"

#include "base/fd.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

#define EXPORT_VERSION 1
#define EXPORT_FLUSH 65536

struct exporter {
    int fd;
    bool normalized;
    bool first; /* of the list being written */
    struct buf out;
    struct orch_err *err;
    int code;
};

/* Facts of a run that are the same wherever and however often it was interrupted. */
static const char *const stable_meta[] = {"name", "kind", "seed", "state", "outcome"};

static bool flush(struct exporter *e, bool all)
{
    if (e->code == 0 && (all || e->out.len >= EXPORT_FLUSH)) {
        e->code = fd_write_all(e->fd, e->out.data, e->out.len, e->err);
        buf_reset(&e->out);
    }
    return e->code == 0;
}

/* Consumes the row. */
static bool add_row(struct exporter *e, json_t *row)
{
    AUTO_FREE char *text = json_canonical(row);
    json_decref(row);
    buf_str(&e->out, e->first ? "\n" : ",\n");
    buf_str(&e->out, text);
    e->first = false;
    if (e->out.overflow) {
        e->code = err_set(e->err, ORCH_E_LIMIT, "a row of the export is too long");
    }
    return flush(e, false);
}

static void begin_list(struct exporter *e, const char *name)
{
    buf_fmt(&e->out, ",\n\"%s\":[", name);
    e->first = true;
}

static void end_list(struct exporter *e)
{
    buf_str(&e->out, e->first ? "]" : "\n]");
}

static void set_text(json_t *row, const char *key, const char *text)
{
    if (text) {
        json_set_text(row, key, text, strlen(text));
    } else {
        json_set_str(row, key, NULL);
    }
}

/* Text that holds JSON: as JSON if it is, else as a string. */
static void set_json(json_t *row, const char *key, const char *text)
{
    struct orch_err ignored = ERR_INIT;
    json_t *value = NULL;
    if (text && json_parse(text, strlen(text), RECORD_TEXT_MAX, &value, &ignored) == 0) {
        json_set_take(row, key, value);
    } else {
        set_text(row, key, text);
    }
}

static bool export_meta(void *arg, const char *key, const char *value)
{
    struct exporter *e = arg;
    bool stable = false;
    for (size_t i = 0; i < ARRAY_LEN(stable_meta); i++) {
        stable = stable || strcmp(stable_meta[i], key) == 0;
    }
    if (e->normalized && !stable) {
        return true;
    }
    json_t *row = json_object();
    json_set_str(row, "key", key);
    set_text(row, "value", value);
    return add_row(e, row);
}

static bool export_version(void *arg, const struct version_add *v, int64_t added_ns)
{
    struct exporter *e = arg;
    if (e->normalized && v->state == VERSION_SNAPSHOT) {
        return true; /* an evolver call that was repeated repeats its rollouts */
    }
    json_t *row = json_object();
    json_t *parents = json_array();
    for (size_t i = 0; i < v->parent_count; i++) {
        json_add_take(parents, json_integer(v->parents[i]));
    }
    json_set_int(row, "number", v->number);
    json_set_str(row, "state", version_state_text(v->state));
    json_set_int(row, "step", v->step);
    json_set_take(row, "parents", parents);
    set_text(row, "tree", v->tree);
    set_text(row, "reason", v->reason);
    if (!e->normalized) {
        set_text(row, "sha", v->sha);
        set_json(row, "data", v->data);
        json_set_int(row, "added_ns", added_ns);
    }
    return add_row(e, row);
}

static bool export_step(void *arg, const struct step_row *s)
{
    struct exporter *e = arg;
    json_t *row = json_object();
    json_set_int(row, "number", s->number);
    json_set_str(row, "state", step_state_text(s->state));
    json_set_int(row, "base_version", s->base_version);
    json_set_int(row, "version", s->version);
    set_text(row, "outcome", s->outcome);
    set_json(row, "order", s->order);
    if (!e->normalized) {
        set_json(row, "data", s->data);
        json_set_int(row, "planned_ns", s->planned_ns);
        json_set_int(row, "updated_ns", s->updated_ns);
    }
    return add_row(e, row);
}

static void export_trial_facts(json_t *row, const struct trial_row *t)
{
    json_set_int(row, "id", t->id);
    json_set_int(row, "incarnation", t->incarnation);
    json_set_str(row, "phase", phase_text(t->phase));
    set_text(row, "reason_text", t->result.reason_text);
    json_set_num(row, "reason_value", t->result.reason_value);
    json_set_int(row, "elapsed_ns", t->result.elapsed_ns);
    set_text(row, "grade", t->result.grade);
    set_text(row, "trajectory", t->result.trajectory);
    set_json(row, "evidence", t->result.evidence);
    json_set_int(row, "planned_ns", t->planned_ns);
    json_set_int(row, "updated_ns", t->updated_ns);
}

static bool export_trial(void *arg, const struct trial_row *t)
{
    struct exporter *e = arg;
    if (e->normalized && t->key.split == SPLIT_ROLLOUT) {
        return true;
    }
    json_t *row = json_object();
    json_set_int(row, "step", t->key.step);
    json_set_str(row, "split", split_text(t->key.split));
    json_set_int(row, "version", t->key.version);
    json_set_int(row, "repeat", t->key.repeat);
    set_text(row, "task", t->key.task);
    json_set_int(row, "sample", t->key.sample);
    json_set_str(row, "kind", result_kind_text(t->result.kind));
    json_set_take(row, "score", t->result.has_score ? json_real(t->result.score) : json_null());
    set_json(row, "metrics", t->result.metrics);
    set_text(row, "feedback", t->result.feedback);
    set_text(row, "reason", t->result.reason);
    json_set_num(row, "reason_limit", t->result.reason_limit);
    set_text(row, "output_tree", t->result.output_tree);
    if (!e->normalized) {
        export_trial_facts(row, t);
    }
    return add_row(e, row);
}

static bool export_call(void *arg, const struct call_row *c)
{
    struct exporter *e = arg;
    const struct call_usage *u = &c->result.usage;
    json_t *row = json_object();
    json_set_int(row, "id", c->id);
    json_set_str(row, "kind", call_kind_text(c->plan.kind));
    json_set_int(row, "trial", c->plan.trial);
    json_set_int(row, "incarnation", c->plan.incarnation);
    json_set_int(row, "step", c->plan.step);
    json_set_int(row, "sandbox", c->plan.sandbox);
    json_set_int(row, "parent", c->plan.parent);
    set_text(row, "environment", c->plan.environment);
    set_text(row, "model", c->plan.model);
    json_set_str(row, "phase", phase_text(c->phase));
    json_set_str(row, "exit", exit_kind_text(c->result.exit));
    json_set_int(row, "code", c->result.code);
    set_text(row, "reason", c->result.reason);
    set_text(row, "grade", c->result.grade);
    set_text(row, "output_tree", c->result.output_tree);
    set_text(row, "stdout", c->result.stdout_digest);
    set_text(row, "stderr", c->result.stderr_digest);
    json_set_int(row, "wall_ns", u->wall_ns);
    json_set_int(row, "cpu_ns", u->cpu_ns);
    json_set_int(row, "rss_bytes", u->rss_bytes);
    json_set_int(row, "requests", u->requests);
    json_set_int(row, "tokens_in", u->tokens_in);
    json_set_int(row, "tokens_out", u->tokens_out);
    json_set_int(row, "tokens_cached", u->tokens_cached);
    json_set_take(row, "usd", u->usd_known ? json_real(u->usd) : json_null());
    json_set_int(row, "planned_ns", c->planned_ns);
    json_set_int(row, "updated_ns", c->updated_ns);
    return add_row(e, row);
}

static bool export_event(void *arg, const struct event_row *v)
{
    struct exporter *e = arg;
    json_t *row = json_object();
    json_set_int(row, "seq", v->seq);
    json_set_int(row, "wall_ns", v->wall_ns);
    set_text(row, "kind", v->kind);
    set_text(row, "subject", v->subject);
    set_json(row, "data", v->data);
    json_set_str(row, "hash", v->hash);
    return add_row(e, row);
}

static int export_lists(struct exporter *e, struct record *rec, const struct export_options *o, struct orch_err *err)
{
    struct trial_filter by_key = TRIAL_FILTER_ANY;
    struct call_filter any = CALL_FILTER_ANY;

    by_key.by_key = true;
    begin_list(e, "meta");
    TRY(record_meta_each(rec, export_meta, e, err));
    end_list(e);
    begin_list(e, "versions");
    TRY(record_versions(rec, export_version, e, err));
    end_list(e);
    begin_list(e, "steps");
    TRY(record_steps(rec, export_step, e, err));
    end_list(e);
    begin_list(e, "trials");
    TRY(record_trials(rec, &by_key, export_trial, e, err));
    end_list(e);
    if (o->calls && !o->normalized) {
        begin_list(e, "calls");
        TRY(record_calls(rec, &any, export_call, e, err));
        end_list(e);
    }
    if (o->events && !o->normalized) {
        begin_list(e, "events");
        TRY(record_events(rec, 0, 0, export_event, e, err));
        end_list(e);
    }
    return e->code;
}

int export_json(struct record *rec, const struct export_options *options, int fd, struct orch_err *err)
{
    struct exporter e = {.fd = fd, .normalized = options->normalized, .err = err};

    buf_init(&e.out, RECORD_TEXT_MAX * 8);
    buf_fmt(&e.out, "{\"export\":%d,\"normalized\":%s", EXPORT_VERSION, options->normalized ? "true" : "false");
    int r = export_lists(&e, rec, options, err);
    if (r == 0 && e.code == 0) {
        buf_str(&e.out, "\n}\n");
        (void)flush(&e, true);
    }
    buf_done(&e.out);
    return r < 0 ? r : e.code;
}
