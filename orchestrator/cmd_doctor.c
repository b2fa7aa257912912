/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `orch doctor`: what of this machine keeps orch from working, and what to do about it. The steps of confinement are
 * tried one by one; the first that fails is the one to mend.
 */
#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "config/confinement.h"
#include "orchestrator/doctor.h"
#include "orchestrator/verbs.h"

#include <inttypes.h>
#include <string.h>

static const char *const status_words[DOCTOR_STATUS_COUNT] = {"ok", "warning", "error", "skipped"};

/* ---- looking ---- */

static void load_config(struct doctor *d)
{
    AUTO_CONFINEMENT_REQUEST struct confinement_request request = {0};
    AUTO_FREE char *system = NULL;
    AUTO_FREE char *user = NULL;
    operator_directories(&system, &user);
    if (operator_load(system, user, &d->config, &d->findings, &d->config_err) < 0) {
        return;
    }
    int mechanism = CONFIG_MECHANISM_AUTO;
    int code = confinement_request_read(d->call->environ, &request, &d->request_err);
    code = code < 0
               ? code
               : confinement_choose(d->config, &request, CONFIG_MECHANISM_AUTO, "", false, &mechanism, &d->request_err);
    d->mechanism = code < 0 ? -1 : mechanism;
}

static void look(struct doctor *d)
{
    struct orch_err ignored = ERR_INIT; /* its checks say that there is none */
    load_config(d);
    d->has_layout = layout_find(NULL, verb_option_value(d->call, "project"), NULL, &d->layout, &ignored) == 0;
    if (d->config == NULL) {
        return;
    }
    int64_t began = clock_mono_ns(&d->call->clock);
    attempt_make(d->call, d->config, d->mechanism < 0 ? d->config->confinement.mechanism : d->mechanism, &d->attempt);
    d->attempt_ns = clock_mono_ns(&d->call->clock) - began;
    walk_all(d->call, d->config, &d->attempt, &d->walk);
    d->tried = true;
}

static void doctor_done(struct doctor *d)
{
    operator_free(d->config);
    config_findings_done(&d->findings);
    attempt_done(&d->attempt);
    walk_done(&d->walk);
    layout_done(&d->layout);
}

/* ---- telling ---- */

static void print_part(const struct verb_call *call, const char *label, const char *text)
{
    if (text != NULL) {
        AUTO_BUF struct buf b;
        buf_init(&b, BUF_MAX_LINE);
        buf_escaped(&b, text, strlen(text), false);
        verb_print(call, "         %-19s %s%s\n", "", label, b.data);
    }
}

static void print_finding(const struct verb_call *call, const struct doctor_check *c, const struct doctor_finding *f)
{
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_LINE);
    buf_escaped(&b, f->summary, strlen(f->summary), false);
    verb_print(call, "%-8s %-19s %s\n", status_words[f->status], c->id, b.data);
    if (f->status != DOCTOR_OK) {
        print_part(call, "", f->details);
        print_part(call, "remedy: ", f->status == DOCTOR_SKIPPED ? NULL : f->remedy);
    }
}

static json_t *finding_json(const struct doctor_check *c, const struct doctor_finding *f)
{
    json_t *o = json_object();
    json_set_str(o, "id", c->id);
    json_set_str(o, "category", c->category);
    json_set_str(o, "status", status_words[f->status]);
    json_set_str(o, "summary", f->summary);
    json_set_str(o, "details", f->details);
    json_set_str(o, "remedy", f->remedy);
    json_set_num(o, "duration_ms", (double)f->ns / (double)NS_PER_MS);
    return o;
}

/* The step to mend first; null when every one that is needed works. */
static json_t *first_json(const struct doctor *d)
{
    if (!d->tried || d->walk.first < 0) {
        return json_null();
    }
    const struct walk_step *s = &d->walk.steps[d->walk.first];
    const char *name = s->sys != 0 ? strerrorname_np(s->sys) : NULL;
    json_t *o = json_object();
    json_set_str(o, "step", diagnosis_step_names[d->walk.first]);
    json_set_int(o, "errno", s->sys);
    json_set_str(o, "errno_name", name);
    json_set_str(o, "what", s->what);
    json_set_str(o, "id", s->diagnosis.id);
    json_set_str(o, "cause", s->diagnosis.cause);
    json_set_str(o, "remedy", s->diagnosis.remedy);
    return o;
}

static void print_first(const struct doctor *d)
{
    if (d->tried && d->walk.first >= 0) {
        const struct walk_step *s = &d->walk.steps[d->walk.first];
        const char *name = s->sys != 0 ? strerrorname_np(s->sys) : NULL;
        verb_print(d->call, "\nFirst failing step: %s (%s): %s\n  remedy: %s\n", diagnosis_step_names[d->walk.first],
                   name != NULL ? name : s->what, s->diagnosis.cause, s->diagnosis.remedy);
    }
}

static void finish(const struct doctor *d, json_t *list, const size_t *counts)
{
    if (!d->call->json) {
        print_first(d);
        verb_print(d->call, "\n%zu ok, %zu warnings, %zu errors, %zu skipped\n", counts[DOCTOR_OK],
                   counts[DOCTOR_WARNING], counts[DOCTOR_ERROR], counts[DOCTOR_SKIPPED]);
        return;
    }
    json_t *document = verb_json();
    json_t *numbers = json_object();
    for (int i = 0; i < DOCTOR_STATUS_COUNT; i++) {
        json_set_int(numbers, status_words[i], (int64_t)counts[i]);
    }
    json_set_flag(document, "ok", counts[DOCTOR_ERROR] == 0);
    json_set_take(document, "counts", numbers);
    json_set_take(document, "first_failure", first_json(d));
    json_set_take(document, "machine", d->tried ? machine_json(&d->walk.machine) : json_null());
    json_set_take(document, "checks", json_incref(list));
    verb_print_json(d->call, document);
}

static int run(const struct verb_call *call)
{
    struct doctor d = {.call = call, .mechanism = -1};
    AUTO_JSON json_t *list = json_array();
    size_t counts[DOCTOR_STATUS_COUNT] = {0};
    look(&d);
    for (const struct doctor_check *c = doctor_checks; c->id != NULL; c++) {
        struct doctor_finding f = {.ns = -1};
        int64_t began = clock_mono_ns(&call->clock);
        c->run(&d, c->step, &f);
        f.ns = f.ns < 0 ? clock_mono_ns(&call->clock) - began : f.ns;
        counts[f.status]++;
        if (call->json) {
            json_add_take(list, finding_json(c, &f));
        } else {
            print_finding(call, c, &f);
        }
        free(f.summary);
        free(f.details);
        free(f.remedy);
    }
    finish(&d, list, counts);
    doctor_done(&d);
    return counts[DOCTOR_ERROR] > 0 ? 1 : 0;
}

const struct verb cmd_doctor = {
    .name = "doctor",
    .summary = "Finds what of this machine keeps orch from working, and the remedy",
    .usage = "orch doctor [--project DIR]",
    .help = "Tries the steps of confinement one by one, each in a process of its own, and names the first that fails\n"
            "with its cause and remedy; then looks at git, the state's disk, the clock, limits and keys. Exit 0: no\n"
            "error (warnings are counted); 1: an error. `orch check FILE` looks at one config.\n"
            "\n"
            "Examples:\n"
            "  orch doctor\n"
            "  orch doctor --json\n"
            "  orch doctor --project my-project\n",
    .run = run,
};
