/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `orch check` proves the set-up before money is spent: a table of checks, each
 * with an id, a finding and a remedy. Without --probe nothing runs that could
 * cost money: the local probe opens the task's own sandbox and runs `true` in it.
 */
#include "orchestrator/engine.h"
#include "orchestrator/trials.h"
#include "orchestrator/verbs.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "orchestrator/finish.h"
#include "orchestrator/run_verb.h"
#include "roles/context.h"
#include "roles/role_call.h"
#include "roles/task_role.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define SPACE_LOW ((uint64_t)1 << 30)
#define CLOCK_EARLIEST (INT64_C(1700000000) * NS_PER_S) /* 2023-11: an unset clock is before it */

enum status { STATUS_OK, STATUS_WARN, STATUS_FAIL, STATUS_SKIPPED, STATUS_COUNT };
static const char *const status_words[] = {"ok", "warn", "FAIL", "skipped"};

struct finding {
    enum status status;
    char *summary; /* owned */
    char *remedy;  /* owned, may be NULL */
};

static void say(struct finding *f, enum status status, char *summary, const char *remedy)
{
    free(f->summary);
    free(f->remedy);
    *f = (struct finding){.status = status, .summary = summary, .remedy = remedy != NULL ? xstrdup(remedy) : NULL};
}

static void say_error(struct finding *f, const struct orch_err *err)
{
    const char *remedy = err_remedy(err->code);
    say(f, STATUS_FAIL, xstrdup(err->message), remedy[0] != '\0' ? remedy : NULL);
}

/* ------------------------------------------------------------------ checks without effects */

static void check_state(struct engine *e, struct finding *f)
{
    struct orch_err err = ERR_INIT;
    if (layout_make(&e->layout, &err) < 0) {
        say_error(f, &err);
        return;
    }
    struct statvfs st;
    if (statvfs(e->layout.state, &st) < 0) {
        say(f, STATUS_FAIL, xasprintf("%s: cannot be examined", e->layout.state), NULL);
        return;
    }
    uint64_t space = (uint64_t)st.f_bavail * st.f_frsize;
    char *text = xasprintf("%s is writable, %" PRIu64 " MiB free, %" PRIu64 " inodes", e->layout.state, space >> 20,
                           (uint64_t)st.f_favail);
    say(f, space < SPACE_LOW ? STATUS_WARN : STATUS_OK, text,
        space < SPACE_LOW ? "free some space, or set state_dir to a larger disk" : NULL);
}

static void check_program(struct engine *e, char *const *command, const char *key, struct finding *f)
{
    struct orch_err err = ERR_INIT;
    if (command[0] == NULL) {
        say(f, STATUS_FAIL, xasprintf("%s is empty", key), "name a program: command: [./program]");
        return;
    }
    AUTO_FREE char *path = NULL;
    AUTO_FREE char *named =
        strchr(command[0], '/') != NULL ? path_join(e->config->dir, command[0]) : xstrdup(command[0]);
    if (path_search(named, CONTEXT_PATH, &path, &err) < 0) {
        say(f, STATUS_FAIL, xasprintf("%s: %s", key, err.message), "check the path, and chmod +x the file");
        return;
    }
    char digest[DIGEST_TEXT_MAX];
    if (program_digest_now(command, e->config->dir, digest, &err) < 0) {
        say_error(f, &err);
        return;
    }
    say(f, STATUS_OK, xasprintf("%s is %s (%.19s…)", key, path, digest), NULL);
}

static void check_agent(struct engine *e, struct finding *f)
{
    if (e->config->task.agent == CONFIG_AGENT_NOP) {
        say(f, STATUS_OK, xstrdup("task.agent: nop runs nothing"), NULL);
        return;
    }
    check_program(e, e->config->task.command, "task.command", f);
}

static void check_judge(struct engine *e, struct finding *f)
{
    check_program(e, e->config->judge.command, "judge.command", f);
}

static void check_evolver(struct engine *e, struct finding *f)
{
    if (e->config->evolver.agent == CONFIG_AGENT_NOP) {
        say(f, STATUS_OK, xstrdup("evolver.agent: nop changes nothing, the loop only measures"), NULL);
        return;
    }
    if (e->config->evolver.command[0] == NULL) {
        say(f, STATUS_WARN, xstrdup("no evolver: `orch eval` works, `orch run` does not"), "set evolver.command");
        return;
    }
    check_program(e, e->config->evolver.command, "evolver.command", f);
}

static void check_template(struct engine *e, struct finding *f)
{
    struct orch_err err = ERR_INIT;
    struct template_verdict v = {0};
    if (template_check(&e->template, e->config->candidate.template_dir, e->root_dir, &v, &err) < 0) {
        say_error(f, &err);
        return;
    }
    size_t n = strv_len(v.violations) + v.more;
    if (n > 0) {
        say(f, STATUS_FAIL,
            xasprintf("candidate.start_from breaks %zu rules of %s, first: %s", n, e->template.id, v.violations[0]),
            "start_from may differ from the template in learnable files only");
    } else {
        say(f, STATUS_OK,
            xasprintf("%s, %zu learnable and %zu fixed patterns", e->template.id, strv_len(e->template.learnable),
                      strv_len(e->template.fixed)),
            NULL);
    }
    template_verdict_done(&v);
}

static void check_splits(struct engine *e, struct finding *f)
{
    size_t n[TASKS_SPLIT_COUNT];
    for (int s = 0; s < TASKS_SPLIT_COUNT; s++) {
        n[s] = tasks_split_count(e->tasks, (enum tasks_split)s);
    }
    char *text = xasprintf("%zu tasks; train %zu, val %zu, test %zu, none in two splits", tasks_count(e->tasks),
                           n[TASKS_TRAIN], n[TASKS_VAL], n[TASKS_TEST]);
    bool validates =
        e->config->trainer.gate == CONFIG_GATE_VALIDATION || e->config->trainer.select == CONFIG_SELECT_BEST;
    if (validates && n[TASKS_VAL] == 0) {
        say(f, STATUS_FAIL, text, "trainer.gate: validation and trainer.select: best need data.val");
    } else if (n[TASKS_TRAIN] == 0 || n[TASKS_TEST] == 0) {
        say(f, STATUS_WARN, text, "`orch run` needs data.train, `orch eval` data.test");
    } else {
        say(f, STATUS_OK, text, NULL);
    }
}

static void check_task_info(struct engine *e, struct finding *f)
{
    if (e->config->task_info == NULL) {
        say(f, STATUS_WARN, xstrdup("no task_info: the evolver is told nothing of the task"),
            "write a directory with README.md and name it in task_info");
        return;
    }
    AUTO_FREE char *readme = path_join(e->config->task_info, "README.md");
    bool there = access(readme, R_OK) == 0;
    say(f, there ? STATUS_OK : STATUS_FAIL, xasprintf("%s %s", readme, there ? "is there" : "is missing"),
        there ? NULL : "write it, or leave task_info out");
}

/* A limit that can never be reached inside another is a mistake (bugs.md C9, F2). */
static void check_limits(struct engine *e, struct finding *f)
{
    const struct run_config *c = e->config;
    int64_t wall = c->budget.wall_ns;
    const struct {
        const char *name;
        int64_t ns;
    } inner[] = {{"task.timeout", c->task.timeout_ns},
                 {"judge.timeout", c->judge.timeout_ns},
                 {"evolver.timeout", c->evolver.timeout_ns}};
    for (size_t i = 0; i < ARRAY_LEN(inner); i++) {
        if (wall >= 0 && inner[i].ns >= wall) {
            say(f, STATUS_FAIL, xasprintf("%s is not below budget.wall", inner[i].name),
                "raise budget.wall or lower the limit");
            return;
        }
        if (inner[i].ns <= 0) {
            say(f, STATUS_WARN, xasprintf("%s has no limit: a program that hangs stops the run", inner[i].name),
                "set a limit");
            return;
        }
    }
    const struct config_limits *l = &c->task.access.limits;
    if (l->file > 0 && l->disk > 0 && l->file > l->disk) {
        say(f, STATUS_FAIL, xstrdup("task.limits.file is above task.limits.disk"), "lower file or raise disk");
        return;
    }
    say(f, STATUS_OK, xstrdup("time limits nest"), NULL);
}

static const char *variable(const struct engine *e, const char *name)
{
    size_t n = strlen(name);
    for (char *const *v = e->call->environ; *v != NULL; v++) {
        if (strncmp(*v, name, n) == 0 && (*v)[n] == '=') {
            return *v + n + 1;
        }
    }
    return NULL;
}

static void check_keys(struct engine *e, struct finding *f)
{
    for (size_t i = 0; i < e->config->model_count; i++) {
        const struct config_model *m = &e->config->models[i];
        const char *value = m->key != NULL ? variable(e, m->key) : "x";
        if (value == NULL || value[0] == '\0') {
            say(f, STATUS_FAIL, xasprintf("models.%s: variable %s is not set", m->name, m->key),
                "export it in the shell that starts orch");
            return;
        }
    }
    say(f, STATUS_OK, xasprintf("%zu models, every key variable is set", e->config->model_count), NULL);
}

static void check_clock(struct engine *e, struct finding *f)
{
    char text[CLOCK_TEXT_MAX];
    int64_t now = clock_wall_ns(&e->clock);
    (void)clock_iso(now, text);
    say(f, now < CLOCK_EARLIEST ? STATUS_WARN : STATUS_OK, xasprintf("the clock says %s", text),
        now < CLOCK_EARLIEST ? "set the clock: names and reports carry it (limits do not depend on it)" : NULL);
}

static void check_git(struct engine *e, struct finding *f)
{
    (void)e;
    struct orch_err err = ERR_INIT;
    AUTO_FREE char *git = NULL;
    if (path_search("git", CONTEXT_PATH, &git, &err) < 0) {
        say(f, STATUS_FAIL, xstrdup(err.message), "install git");
        return;
    }
    say(f, STATUS_OK, xasprintf("git is %s", git), NULL);
}

/* ------------------------------------------------------------------ the local probe */

static void check_mechanism(struct engine *e, struct finding *f)
{
    struct orch_err err = ERR_INIT;
    if (engine_create_place(e, &err) < 0 || engine_start_environment(e, &err) < 0) {
        say_error(f, &err);
        return;
    }
    const struct environment_caps *caps = environment_caps(e->environment);
    say(f, STATUS_OK,
        xasprintf("environment %s, mechanism %s, limits by %s", caps->name, caps->mechanism, caps->limits), NULL);
}

struct probe_wait {
    bool done;
    struct finding *f;
};

static void probed(struct role_call_outcome *o, void *arg)
{
    struct probe_wait *w = arg;
    w->done = true;
    if (o->err.code < 0) {
        say_error(w->f, &o->err);
    } else if (o->call.end != CALL_EXITED || o->call.code != 0) {
        say(w->f, STATUS_FAIL,
            xasprintf("`true` in the task's sandbox %s %d", call_end_name(o->call.end), o->call.code),
            "the task's limits may be too small to start a program");
    } else {
        say(w->f, STATUS_OK,
            xasprintf("the task's sandbox opens and runs (%s, host uid %u, %s %s)", o->grade, o->uid, o->mechanism,
                      o->mechanism_version),
            NULL);
    }
}

static void check_sandbox(struct engine *e, struct finding *f)
{
    if (e->environment == NULL) {
        say(f, STATUS_SKIPPED, xstrdup("no environment to probe"), NULL);
        return;
    }
    struct orch_err err = ERR_INIT;
    struct task_sandbox setup = {.name = "probe", .config = e->config, .task_text = "{}", .task_len = 2};
    AUTO_SPEC struct sandbox_spec spec;
    task_role_spec(&setup, &spec);
    engine_grant_readable(e, &spec);
    char word[] = "true";
    char *argv[] = {word, NULL};
    struct call_spec call = {.name = "main", .argv = argv, .timeout_ns = INT64_C(20) * NS_PER_S};
    struct probe_wait w = {.f = f};
    struct role_call_plan plan = {.spec = &spec, .call = &call, .ended = probed, .arg = &w};
    if (role_call_start(e->environment, &plan, NULL, &err) < 0) {
        say_error(f, &err);
        return;
    }
    engine_await(e, &w.done);
}

/* ------------------------------------------------------------------ the table */

struct check {
    const char *id;
    void (*run)(struct engine *e, struct finding *f);
    bool probe; /* left out with --no-probe */
};

static const struct check checks[] = {
    {"state", check_state, false},       {"splits", check_splits, false}, {"task-info", check_task_info, false},
    {"template", check_template, false}, {"agent", check_agent, false},   {"judge", check_judge, false},
    {"evolver", check_evolver, false},   {"limits", check_limits, false}, {"keys", check_keys, false},
    {"clock", check_clock, false},       {"git", check_git, false},       {"mechanism", check_mechanism, true},
    {"sandbox", check_sandbox, true},
};

static void report(const struct verb_call *call, json_t *list, const char *id, const struct finding *f, int64_t ns)
{
    if (!call->json) {
        AUTO_BUF struct buf b;
        buf_init(&b, BUF_MAX_LINE);
        buf_escaped(&b, f->summary, strlen(f->summary), false);
        verb_print(call, "%-8s %-10s %s\n", status_words[f->status], id, b.data);
        if (f->remedy != NULL) {
            verb_print(call, "         %-10s remedy: %s\n", "", f->remedy);
        }
    }
    json_t *o = json_object();
    json_set_str(o, "id", id);
    json_set_str(o, "status", f->status == STATUS_FAIL ? "fail" : status_words[f->status]);
    json_set_str(o, "summary", f->summary);
    json_set_str(o, "remedy", f->remedy);
    json_set_num(o, "duration_ms", (double)ns / (double)NS_PER_MS);
    json_add_take(list, o);
}

static bool run_checks(struct engine *e, const struct verb_call *call, json_t *list)
{
    bool ok = true;
    for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
        struct finding f = {0};
        int64_t began = clock_mono_ns(&e->clock);
        if (checks[i].probe && verb_flag(call, "no-probe")) {
            say(&f, STATUS_SKIPPED, xstrdup("not probed (--no-probe)"), NULL);
        } else {
            checks[i].run(e, &f);
        }
        report(call, list, checks[i].id, &f, clock_mono_ns(&e->clock) - began);
        ok = ok && f.status != STATUS_FAIL;
        free(f.summary);
        free(f.remedy);
    }
    return ok;
}

/* --probe: one training task without an adapter, through the agent and the judge; its record is kept. */
static int live_probe(const struct verb_call *call, json_t *list, bool *ok, struct orch_err *err)
{
    struct engine e = {0};
    struct finding f = {0};
    int64_t began = clock_mono_ns(&call->clock);
    int code = engine_load(&e, call, call->args[0], call->args + 1, err);
    code = code < 0 ? code : engine_meaning(&e, "check", NULL, err);
    code = code < 0 ? code : engine_create(&e, "check", err);
    code = code < 0 ? code : engine_start(&e, false, err);
    code = code < 0 ? code : record_step_plan(e.record, 0, VERSION_NONE, "[]", NULL, err);
    if (code == 0 && tasks_split_count(e.tasks, TASKS_TRAIN) == 0) {
        code = err_set(err, ORCH_E_CONFIG, "data.train is empty: nothing to probe with");
    }
    struct trial_counts counts = {0};
    if (code == 0) {
        struct version_ref none = {.number = VERSION_NONE};
        size_t row = tasks_split_row(e.tasks, TASKS_TRAIN, 0);
        struct trial_set set = {.title = "probe",
                                .version = &none,
                                .split = SPLIT_TRAIN,
                                .repeats = 1,
                                .samples = 1,
                                .rows = &row,
                                .row_count = 1};
        code = trials_run(&e, &set, err);
        code = code < 0 ? code : trials_counts(&e, 0, SPLIT_TRAIN, VERSION_NONE, &counts, err);
    }
    if (code < 0) {
        say_error(&f, err);
    } else if (counts.kind[RESULT_SCORED] == 1) {
        say(&f, STATUS_OK,
            xasprintf("one task, no adapter: score %.4f (a score of 0 is not a failed check)", counts.mean), NULL);
    } else {
        say(&f, STATUS_FAIL,
            xstrdup(counts.kind[RESULT_LIMIT] == 1   ? "the agent was stopped by a limit"
                    : counts.kind[RESULT_JUDGE] == 1 ? "the judge failed"
                                                     : "the trial ended as an infrastructure error"),
            "`orch show` and `orch logs` on this check's run tell more");
    }
    report(call, list, "probe", &f, clock_mono_ns(&call->clock) - began);
    *ok = *ok && f.status == STATUS_OK;
    free(f.summary);
    free(f.remedy);
    if (e.record != NULL) {
        struct orch_err ignored = ERR_INIT; /* the finding is what counts */
        (void)!record_meta_set(e.record, "state", "finished", NULL, &ignored);
    }
    engine_close(&e);
    err_clear(err);
    return 0;
}

static int cmd_check_main(const struct verb_call *call)
{
    struct engine e = {0};
    struct orch_err err = ERR_INIT;
    AUTO_JSON json_t *list = json_array();
    if (engine_load(&e, call, call->args[0], call->args + 1, &err) < 0) {
        return run_verb_end(&e, call, err.code, 0, &err);
    }
    bool ok = run_checks(&e, call, list);
    engine_close(&e);
    if (ok && verb_flag(call, "probe")) {
        (void)live_probe(call, list, &ok, &err);
    }
    if (call->json) {
        json_t *o = json_object();
        json_set_int(o, "version", 1);
        json_set_flag(o, "ok", ok);
        json_set_take(o, "checks", json_incref(list));
        verb_print_json(call, o);
    }
    return ok ? 0 : 1;
}

static const struct verb_option check_options[] = {
    {"no-probe", NULL, "open no sandbox"},
    {"probe", NULL, "also run one training task through the agent and the judge; this can cost money"},
    {NULL, NULL, NULL},
};

const struct verb cmd_check = {
    .name = "check",
    .summary = "Prove the set-up of a config before money is spent",
    .usage = "orch check FILE [--no-probe|--probe] [key.path=value…]",
    .help = "Each check says ok, warn, FAIL or skipped, with a remedy. Exit 0: no check failed.\n"
            "\n"
            "Examples:\n"
            "  orch check run.yaml\n"
            "  orch check run.yaml --probe --json\n",
    .options = check_options,
    .min_args = 1,
    .max_args = SIZE_MAX,
    .run = cmd_check_main,
};
