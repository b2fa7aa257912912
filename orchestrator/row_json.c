/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/row_json.h"

#include "base/clock.h"

#include <string.h>

json_t *row_json_value(const char *text)
{
    if (text == NULL) {
        return json_null();
    }
    struct orch_err err = ERR_INIT;
    json_t *value = NULL;
    if (json_parse(text, strlen(text), RECORD_TEXT_MAX, &value, &err) == 0) {
        return value;
    }
    return json_text(text, strlen(text));
}

size_t row_json_length(const char *text)
{
    AUTO_JSON json_t *value = row_json_value(text);
    return json_is_array(value) ? json_array_size(value) : 0;
}

static void set_time(json_t *object, const char *key, int64_t wall_ns)
{
    char text[CLOCK_TEXT_MAX];
    json_set_str(object, key, wall_ns > 0 ? clock_iso(wall_ns, text) : NULL);
}

/* -1 means unknown, which is null and not a number. */
static void set_known(json_t *object, const char *key, int64_t value)
{
    if (value < 0) {
        json_set_take(object, key, json_null());
    } else {
        json_set_int(object, key, value);
    }
}

json_t *row_json_trial(const struct trial_row *row, bool whole)
{
    const struct trial_result *r = &row->result;
    json_t *o = json_object();
    json_set_int(o, "id", row->id);
    json_set_str(o, "task", row->key.task);
    json_set_int(o, "version", row->key.version);
    json_set_int(o, "sample", row->key.sample);
    json_set_int(o, "repeat", row->key.repeat);
    json_set_int(o, "step", row->key.step);
    json_set_str(o, "split", split_text(row->key.split));
    json_set_int(o, "incarnation", row->incarnation);
    json_set_str(o, "phase", phase_text(row->phase));
    json_set_str(o, "result", result_kind_text(r->kind));
    json_set_take(o, "score", r->has_score ? json_real(r->score) : json_null());
    json_set_str(o, "reason", r->reason);
    json_set_str(o, "reason_text", r->reason_text);
    json_set_str(o, "grade", r->grade);
    json_set_int(o, "elapsed_ns", r->elapsed_ns);
    if (whole) {
        json_set_num(o, "reason_value", r->reason_value);
        json_set_num(o, "reason_limit", r->reason_limit);
        json_set_take(o, "metrics", row_json_value(r->metrics));
        json_set_str(o, "feedback", r->feedback);
        json_set_take(o, "evidence", row_json_value(r->evidence));
        json_set_str(o, "output_tree", r->output_tree);
        json_set_str(o, "trajectory", r->trajectory);
        set_time(o, "planned", row->planned_ns);
        set_time(o, "updated", row->updated_ns);
    }
    return o;
}

json_t *row_json_usage(int64_t calls, const struct call_usage *usage)
{
    json_t *o = json_object();
    json_set_int(o, "calls", calls);
    set_known(o, "wall_ns", usage->wall_ns);
    set_known(o, "cpu_ns", usage->cpu_ns);
    set_known(o, "rss_bytes", usage->rss_bytes);
    json_set_int(o, "requests", usage->requests);
    json_set_int(o, "tokens_in", usage->tokens_in);
    json_set_int(o, "tokens_out", usage->tokens_out);
    json_set_int(o, "tokens_cached", usage->tokens_cached);
    json_set_take(o, "usd", usage->usd_known ? json_real(usage->usd) : json_null());
    return o;
}

json_t *row_json_call(const struct call_row *row)
{
    const struct record_call_result *r = &row->result;
    json_t *o = json_object();
    json_set_int(o, "id", row->id);
    json_set_str(o, "kind", call_kind_text(row->plan.kind));
    json_set_int(o, "trial", row->plan.trial);
    json_set_int(o, "incarnation", row->plan.incarnation);
    json_set_int(o, "step", row->plan.step);
    json_set_int(o, "sandbox", row->plan.sandbox);
    json_set_int(o, "parent", row->plan.parent);
    json_set_str(o, "environment", row->plan.environment);
    json_set_str(o, "model", row->plan.model);
    json_set_str(o, "phase", phase_text(row->phase));
    json_set_str(o, "outside_name", row->outside_name);
    json_set_str(o, "exit", exit_kind_text(r->exit));
    json_set_int(o, "code", r->code);
    json_set_str(o, "reason", r->reason);
    json_set_str(o, "grade", r->grade);
    json_set_str(o, "output_tree", r->output_tree);
    json_set_str(o, "stdout", r->stdout_digest);
    json_set_str(o, "stderr", r->stderr_digest);
    json_set_take(o, "usage", row_json_usage(1, &r->usage));
    json_set_take(o, "data", row_json_value(r->data));
    set_time(o, "planned", row->planned_ns);
    set_time(o, "updated", row->updated_ns);
    return o;
}

const char *row_json_step_reason(const json_t *data)
{
    const char *left_out = json_get_str(data, "left_out", NULL);
    return json_get_str(data, "reason", left_out);
}

json_t *row_json_step(const struct step_row *row)
{
    json_t *o = json_object();
    json_set_int(o, "number", row->number);
    json_set_str(o, "state", step_state_text(row->state));
    json_set_int(o, "base_version", row->base_version);
    json_set_take(o, "new_version", row->outcome != NULL ? json_integer(row->version) : json_null());
    json_set_str(o, "outcome", row->outcome);
    json_set_int(o, "tasks", (int64_t)row_json_length(row->order));
    json_set_take(o, "data", row_json_value(row->data));
    set_time(o, "planned", row->planned_ns);
    set_time(o, "updated", row->updated_ns);
    return o;
}

json_t *row_json_version(const struct version_add *row, int64_t added_ns)
{
    json_t *o = json_object();
    json_set_int(o, "number", row->number);
    json_set_str(o, "state", version_state_text(row->state));
    json_set_int(o, "step", row->step);
    json_t *parents = json_array();
    for (size_t i = 0; i < row->parent_count; i++) {
        json_add_take(parents, json_integer(row->parents[i]));
    }
    json_set_take(o, "parents", parents);
    json_set_str(o, "commit", row->sha);
    json_set_str(o, "tree", row->tree);
    json_set_str(o, "reason", row->reason);
    set_time(o, "added", added_ns);
    return o;
}

json_t *row_json_event(const struct event_row *row)
{
    json_t *o = json_object();
    json_set_int(o, "seq", row->seq);
    set_time(o, "time", row->wall_ns);
    json_set_str(o, "kind", row->kind);
    json_set_str(o, "subject", row->subject);
    json_set_take(o, "data", row_json_value(row->data));
    return o;
}

json_t *row_json_sandbox(const struct sandbox_row *row)
{
    json_t *o = json_object();
    json_set_int(o, "id", row->id);
    json_set_str(o, "phase", sandbox_phase_text(row->phase));
    json_set_str(o, "role", row->open.role);
    json_set_str(o, "environment", row->open.environment);
    json_set_str(o, "mechanism", row->open.mechanism);
    json_set_str(o, "name", row->open.name);
    json_set_str(o, "grade", row->grade);
    json_set_take(o, "asked", row_json_value(row->open.asked));
    json_set_take(o, "enforced", row_json_value(row->enforced));
    json_set_take(o, "checked", row_json_value(row->checked));
    json_set_str(o, "how", row->how);
    set_time(o, "opened", row->opened_ns);
    set_time(o, "updated", row->updated_ns);
    return o;
}

json_t *row_json_counts(const struct trial_counts *counts)
{
    json_t *o = json_object();
    json_set_int(o, "planned", counts->planned);
    json_set_int(o, "scored", counts->kind[RESULT_SCORED]);
    json_set_int(o, "limited", counts->kind[RESULT_LIMIT]);
    json_set_int(o, "infrastructure", counts->kind[RESULT_INFRA]);
    json_set_int(o, "judge_errors", counts->kind[RESULT_JUDGE]);
    json_set_int(o, "not_run", counts->kind[RESULT_NONE]);
    json_set_int(o, "scores", counts->scores);
    bool any = counts->scores > 0;
    json_set_take(o, "mean", any ? json_real(counts->mean) : json_null());
    json_set_take(o, "min", any ? json_real(counts->min) : json_null());
    json_set_take(o, "max", any ? json_real(counts->max) : json_null());
    json_set_take(o, "variance", counts->scores > 1 ? json_real(counts->variance) : json_null());
    return o;
}
