/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/probe_walk.h"

#include "backends/guest/probe_step.h"
#include "backends/mechanisms/bwrap.h"
#include "backends/mechanisms/cgroup.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/process.h"
#include "orchestrator/guests.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define STEP_TIMEOUT_NS (INT64_C(10) * NS_PER_S)
#define OUTPUT_MAX 512
#define BWRAP_LEAST "0.8.0"   /* --disable-userns */
#define BWRAP_SETUID "0.11.2" /* the first setuid build without a known hole */

/* What a step cannot do without; -1: nothing. */
static const int needs[DIAGNOSIS_STEP_COUNT] = {
    [DIAGNOSIS_BUBBLEWRAP] = -1,
    [DIAGNOSIS_BUBBLEWRAP_VERSION] = DIAGNOSIS_BUBBLEWRAP,
    [DIAGNOSIS_USER_NAMESPACE] = -1,
    [DIAGNOSIS_UID_MAP] = DIAGNOSIS_USER_NAMESPACE,
    [DIAGNOSIS_MOUNT] = DIAGNOSIS_UID_MAP,
    [DIAGNOSIS_MOUNT_CALLS] = DIAGNOSIS_UID_MAP,
    [DIAGNOSIS_PROC] = DIAGNOSIS_UID_MAP,
    [DIAGNOSIS_NETWORK] = DIAGNOSIS_UID_MAP,
    [DIAGNOSIS_NO_USER_NAMESPACES] = DIAGNOSIS_UID_MAP,
    [DIAGNOSIS_SECCOMP] = -1,
    [DIAGNOSIS_LANDLOCK] = -1,
    [DIAGNOSIS_CGROUP] = -1,
    [DIAGNOSIS_IDENTITY] = -1,
};

struct walker {
    const struct verb_call *call;
    const struct operator_config *config;
    const struct attempt *attempt;
    struct walk *walk;
    char *init; /* NULL: not installed */
    struct mechanism bwrap;
};

/* Up to three numbers of "0.8.0"; what is not there is 0. How many there are. */
static int read_version(const char *text, long parts[3])
{
    int n = 0;
    parts[0] = parts[1] = parts[2] = 0;
    for (const char *at = text; n < 3; n++) {
        char *end = NULL;
        parts[n] = strtol(at, &end, 10);
        if (end == at) {
            return n;
        }
        if (*end != '.') {
            return n + 1;
        }
        at = end + 1;
    }
    return n;
}

bool walk_is_older(const char *version, const char *than)
{
    long a[3];
    long b[3];
    if (read_version(version, a) == 0 || read_version(than, b) == 0) {
        return false;
    }
    for (int i = 0; i < 3; i++) {
        if (a[i] != b[i]) {
            return a[i] < b[i];
        }
    }
    return false;
}

static void works(struct walk_step *s, char *what)
{
    *s = (struct walk_step){.state = WALK_WORKS, .what = what};
}

static void fails(struct walk_step *s, int sys, char *what)
{
    *s = (struct walk_step){.state = WALK_FAILS, .sys = sys, .what = what};
}

/* ---- the steps ---- */

static void bubblewrap(struct walker *w, struct walk_step *s)
{
    struct orch_err err = ERR_INIT;
    struct mechanism m = {.name = NULL};
    if (bwrap_find(NULL, &m, &err) < 0) {
        fails(s, strstr(err.message, strerrordesc_np(ENOENT)) != NULL ? ENOENT : err.sys, xstrdup(err.message));
        return;
    }
    w->bwrap = m;
    works(s, xasprintf("%s, root's alone", m.program));
}

static void bubblewrap_version(struct walker *w, struct walk_step *s)
{
    struct stat st;
    bool setuid = stat(w->bwrap.program, &st) == 0 && (st.st_mode & S_ISUID) != 0;
    char *what = xasprintf("version %s%s", w->bwrap.version, setuid ? ", setuid" : "");
    if (setuid && walk_is_older(w->bwrap.version, BWRAP_SETUID)) {
        fails(s, EPERM, what);
    } else if (walk_is_older(w->bwrap.version, BWRAP_LEAST)) {
        fails(s, 0, what);
    } else {
        works(s, what);
    }
}

/* "0 DETAIL" or "ERRNO WHAT": what orch-init says. */
static void read_answer(const char *out, struct walk_step *s)
{
    char *end = NULL;
    long sys = strtol(out, &end, 10);
    bool good = end != out && *end == ' ' && sys >= 0;
    size_t len = good ? strcspn(end + 1, "\n") : 0;
    AUTO_FREE char *text = xmemdup0(good ? end + 1 : "", len);
    if (!good) {
        fails(s, 0, xstrdup("orch-init gave no answer"));
    } else if (sys == 0) {
        works(s, take(text));
    } else {
        fails(s, (int)sys, take(text));
    }
}

static void by_init(struct walker *w, int step, struct walk_step *s)
{
    struct orch_err err = ERR_INIT;
    if (w->init == NULL) {
        *s = (struct walk_step){.state = WALK_NOT_TRIED, .what = xstrdup("orch-init is not installed")};
        return;
    }
    AUTO_FREE char *name = xstrdup(diagnosis_step_names[step]);
    char program[] = "orch-init";
    char word[] = PROBE_STEP_WORD;
    char *argv[] = {program, word, name, NULL};
    char *envp[] = {NULL};
    struct command c = {.program = w->init,
                        .argv = argv,
                        .envp = envp,
                        .cwd = "/",
                        .output_max = OUTPUT_MAX,
                        .timeout_ns = STEP_TIMEOUT_NS};
    AUTO_COMMAND_RESULT struct command_result r = {.end = END_UNKNOWN};
    if (command_run(&c, &r, &err) < 0) {
        fails(s, err.sys, xstrdup(err.message));
    } else if (r.end != END_EXITED) {
        fails(s, 0, xasprintf("the step %s", r.end == END_TIMEOUT ? "did not end in ten seconds" : "was killed"));
    } else {
        read_answer(r.out, s);
    }
}

/* A sandbox that was opened had a memory limit: that is the proof. Without one, what the tree says of itself. */
static void control_groups(struct walker *w, struct walk_step *s)
{
    const char *used = json_get_str(json_get(w->attempt->record, "enforced"), "cgroup", NULL);
    if (used != NULL && strcmp(used, "none") != 0) {
        works(s, xasprintf("version %c holds the limits of a whole sandbox", used[strlen(used) - 1]));
        return;
    }
    struct cgroup_tree *tree = cgroup_tree_new();
    const char *why = cgroup_tree_why(tree);
    if (why[0] != '\0' || used != NULL) {
        fails(s, 0, xstrdup(why[0] != '\0' ? why : "a sandbox was opened without a group"));
    } else {
        works(s, xasprintf("%s can be written", cgroup_tree_limits(tree)));
    }
    cgroup_tree_free(tree);
}

static void identity(struct walker *w, struct walk_step *s)
{
    const struct machine *m = &w->walk->machine;
    int64_t first = w->config->uid_range.first;
    int64_t last = first + w->config->uid_range.count - 1;
    if (m->uid != 0) {
        works(s, xasprintf("started as uid %u: every sandbox is that user", (unsigned)m->uid));
    } else if (m->mapped_ids != MACHINE_UNKNOWN && m->mapped_ids <= last) {
        fails(s, 0, xasprintf("uids %lld to %lld are not all mapped here", (long long)first, (long long)last));
    } else {
        works(s,
              xasprintf("started as root: each sandbox is a uid of %lld to %lld", (long long)first, (long long)last));
    }
}

/* ---- the walk ---- */

static void one_step(struct walker *w, int step)
{
    struct walk_step *s = &w->walk->steps[step];
    int before = needs[step];
    if (before >= 0 && w->walk->steps[before].state != WALK_WORKS) {
        *s = (struct walk_step){.state = WALK_NOT_TRIED, .what = xasprintf("needs %s", diagnosis_step_names[before])};
        return;
    }
    int64_t began = clock_mono_ns(&w->call->clock);
    switch ((enum diagnosis_step)step) {
    case DIAGNOSIS_BUBBLEWRAP:
        bubblewrap(w, s);
        break;
    case DIAGNOSIS_BUBBLEWRAP_VERSION:
        bubblewrap_version(w, s);
        break;
    case DIAGNOSIS_CGROUP:
        control_groups(w, s);
        break;
    case DIAGNOSIS_IDENTITY:
        identity(w, s);
        break;
    case DIAGNOSIS_USER_NAMESPACE:
    case DIAGNOSIS_UID_MAP:
    case DIAGNOSIS_MOUNT:
    case DIAGNOSIS_MOUNT_CALLS:
    case DIAGNOSIS_PROC:
    case DIAGNOSIS_NETWORK:
    case DIAGNOSIS_NO_USER_NAMESPACES:
    case DIAGNOSIS_SECCOMP:
    case DIAGNOSIS_LANDLOCK:
    case DIAGNOSIS_STEP_COUNT:
        by_init(w, step, s);
        break;
    }
    s->ns = clock_mono_ns(&w->call->clock) - began;
    if (s->state == WALK_FAILS) {
        s->diagnosis = diagnose((enum diagnosis_step)step, s->sys, &w->walk->machine);
    }
}

/* bubblewrap only stands in, and these two only add to the others. */
static bool may_be_missing(int step)
{
    return step <= DIAGNOSIS_BUBBLEWRAP_VERSION || step == DIAGNOSIS_LANDLOCK || step == DIAGNOSIS_CGROUP;
}

void walk_all(const struct verb_call *call, const struct operator_config *config, const struct attempt *attempt,
              struct walk *ret)
{
    struct walker w = {.call = call, .config = config, .attempt = attempt, .walk = ret};
    struct orch_err ignored = ERR_INIT; /* the check of the guests tells it */
    *ret = (struct walk){.first = -1};
    machine_read("", &ret->machine);
    (void)!guest_find(call->program, "orch-init", &w.init, &ignored);
    for (int step = 0; step < DIAGNOSIS_STEP_COUNT; step++) {
        one_step(&w, step);
        if (ret->first < 0 && ret->steps[step].state == WALK_FAILS && !may_be_missing(step)) {
            ret->first = step;
        }
    }
    free(w.init);
    mechanism_done(&w.bwrap);
}

void walk_done(struct walk *w)
{
    for (size_t i = 0; i < ARRAY_LEN(w->steps); i++) {
        free(w->steps[i].what);
        w->steps[i].what = NULL;
    }
}
