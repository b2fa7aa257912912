/* SPDX-License-Identifier: Apache-2.0 */
/* The table of checks, and those of confinement. */
#include "base/json.h"
#include "base/mem.h"
#include "config/run_config.h"
#include "orchestrator/doctor.h"

#include <string.h>

#define SCOPES_ABI 6 /* landlock(7) */

void doctor_say(struct doctor_finding *f, enum doctor_status status, char *summary, char *details, const char *remedy)
{
    int64_t ns = f->ns;
    free(f->summary);
    free(f->details);
    free(f->remedy);
    *f = (struct doctor_finding){.status = status,
                                 .summary = summary,
                                 .details = details,
                                 .remedy = remedy != NULL ? xstrdup(remedy) : NULL,
                                 .ns = ns};
}

void doctor_say_error(struct doctor_finding *f, const struct orch_err *err)
{
    doctor_say(f, DOCTOR_ERROR, xstrdup(err->message), NULL, NULL);
}

static void check_config(const struct doctor *d, int step, struct doctor_finding *f)
{
    (void)step;
    if (d->config == NULL) {
        char *details = d->findings.count > 0 ? config_findings_text(&d->findings) : NULL;
        doctor_say(f, DOCTOR_ERROR, xstrdup(d->config_err.message), details, "correct the file that is named");
        return;
    }
    size_t n = strv_len(d->config->files);
    doctor_say(
        f, DOCTOR_OK,
        n == 0 ? xstrdup("no operator config: the defaults hold, confinement is required")
               : xasprintf("%zu files; confinement is %srequired", n, d->config->confinement.required ? "" : "not "),
        NULL, NULL);
}

static void check_request(const struct doctor *d, int step, struct doctor_finding *f)
{
    (void)step;
    if (d->config == NULL) {
        doctor_say(f, DOCTOR_SKIPPED, xstrdup("the operator config cannot be loaded"), NULL, NULL);
    } else if (d->mechanism < 0) {
        doctor_say_error(f, &d->request_err);
    } else {
        doctor_say(f, DOCTOR_OK, xasprintf("mechanism asked for: %s", config_mechanism_names[d->mechanism]), NULL,
                   NULL);
    }
}

/* ---- the steps ---- */

/* What is missing is an error only where no sandbox can be opened without it. */
static enum doctor_status severity(const struct doctor *d, int step)
{
    bool extra = step == DIAGNOSIS_LANDLOCK || step == DIAGNOSIS_CGROUP;
    return extra || d->attempt.enforced ? DOCTOR_WARNING : DOCTOR_ERROR;
}

static void step_works(int step, const struct walk_step *s, struct doctor_finding *f)
{
    if (step == DIAGNOSIS_LANDLOCK) {
        bool old = strtol(s->what, NULL, 10) < SCOPES_ABI;
        doctor_say(f, DOCTOR_OK, xasprintf("ABI %s%s", s->what, old ? ": writes only, scopes need 6" : ", with scopes"),
                   NULL, NULL);
        return;
    }
    bool says = strcmp(s->what, "0") != 0;
    doctor_say(f, DOCTOR_OK, xstrdup(says ? s->what : "works"), NULL, NULL);
}

static void check_step(const struct doctor *d, int step, struct doctor_finding *f)
{
    if (!d->tried) {
        doctor_say(f, DOCTOR_SKIPPED, xstrdup("the operator config cannot be loaded"), NULL, NULL);
        return;
    }
    const struct walk_step *s = &d->walk.steps[step];
    f->ns = s->ns;
    if (s->state == WALK_WORKS) {
        step_works(step, s, f);
        return;
    }
    if (s->state == WALK_NOT_TRIED) {
        doctor_say(f, DOCTOR_SKIPPED, xasprintf("not tried: %s", s->what), NULL, NULL);
        return;
    }
    const char *name = s->sys != 0 ? strerrorname_np(s->sys) : NULL;
    char *details = name != NULL
                        ? xasprintf("%s: %s (%s) [%s]", s->what, strerrordesc_np(s->sys), name, s->diagnosis.id)
                        : xasprintf("%s [%s]", s->what, s->diagnosis.id);
    bool stands_in = step == DIAGNOSIS_BUBBLEWRAP || step == DIAGNOSIS_BUBBLEWRAP_VERSION;
    bool not_needed = stands_in && d->attempt.enforced && d->mechanism != CONFIG_MECHANISM_BUBBLEWRAP;
    doctor_say(f, not_needed ? DOCTOR_SKIPPED : severity(d, step),
               not_needed ? xasprintf("%s; not needed: a sandbox opens without it", s->diagnosis.cause)
                          : xstrdup(s->diagnosis.cause),
               details, s->diagnosis.remedy);
}

/* What all the steps are for. */
static void check_sandbox(const struct doctor *d, int step, struct doctor_finding *f)
{
    (void)step;
    f->ns = d->attempt_ns;
    if (!d->tried) {
        doctor_say(f, DOCTOR_SKIPPED, xstrdup("the operator config cannot be loaded"), NULL, NULL);
    } else if (d->attempt.enforced) {
        const json_t *m = json_get(d->attempt.node, "mechanism");
        doctor_say(f, DOCTOR_OK,
                   xasprintf("a sandbox opens, and its checks from inside hold (%s %s)", json_get_str(m, "name", "?"),
                             json_get_str(m, "version", "")),
                   NULL, NULL);
    } else {
        int first = d->walk.first;
        doctor_say(f, DOCTOR_ERROR, xstrdup("no sandbox can be opened: nothing would be run"),
                   xstrdup(d->attempt.err.message),
                   first >= 0 ? d->walk.steps[first].diagnosis.remedy
                              : "the failing step is none of those above: report this with `orch doctor --json`");
    }
}

#define STEP(id, name) {name, "confinement", check_step, DIAGNOSIS_##id},

const struct doctor_check doctor_checks[] = {{"operator-config", "config", check_config, 0},
                                             {"variables", "config", check_request, 0},
                                             {"guests", "tools", doctor_guests, 0},
                                             {"git", "tools", doctor_git, 0},
                                             DIAGNOSIS_STEPS(STEP) /* in the order of the walk */
                                             {"sandbox", "confinement", check_sandbox, 0},
                                             {"space", "state", doctor_space, 0},
                                             {"file-system", "state", doctor_file_system, 0},
                                             {"clock", "machine", doctor_clock, 0},
                                             {"descriptors", "machine", doctor_descriptors, 0},
                                             {"keys", "keys", doctor_keys, 0},
                                             {NULL, NULL, NULL, 0}};
