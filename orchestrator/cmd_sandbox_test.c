/* SPDX-License-Identifier: Apache-2.0 */
/* `orch sandbox test`: every act of probe_table.h, inside a sandbox and outside of it. */
#include "orchestrator/sandbox_fixture.h"

#include "backends/environment.h"
#include "backends/guest/probe_table.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "config/operator.h"
#include "orchestrator/guests.h"
#include "orchestrator/verb.h"
#include "orchestrator/verbs.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#define OUTPUT_MAX ((size_t)64 << 10)
#define NOT_TRIED (-1)
enum { STATUS_FAIL = 1, STATUS_INCONCLUSIVE = 8 };

enum outcome { PASS, FAIL, SKIPPED, INCONCLUSIVE, NOT_PROMISED, OUTCOME_COUNT };

static const char *const outcome_names[OUTCOME_COUNT] = {"pass", "FAIL", "skipped", "inconclusive", "not promised"};
static const char *const group_names[PROBE_GROUP_COUNT] = {"files",  "processes", "inherited",
                                                           "kernel", "network",   "resources"};

static const struct probe {
    const char *name;
    enum probe_group group;
    enum probe_kind kind;
    int expected, other; /* errno of the denial, either */
    int needs;
    const char *what;
} probes[] = {
#define X(name, group, kind, expected, other, needs, what) {#name, group, kind, expected, other, needs, what},
    PROBE_TABLE(X)
#undef X
};

struct test {
    const struct verb_call *call;
    uv_loop_t loop;
    struct sandbox_fixture fixture;
    struct operator_config *operator_config;
    char *probe; /* orch-probe */
    char *work;
    struct environment *env;
    struct sandbox *sb;
    char *mechanism;
    bool in_place;
    bool started, ended, closed;
    struct orch_err err;
    struct call_result result;
    int inside[PROBE_COUNT], outside[PROBE_COUNT]; /* errno, 0, or NOT_TRIED */
    enum outcome outcome[PROBE_COUNT];
    size_t counts[OUTCOME_COUNT];
};

/* ---- the two runs ---- */

static void read_results(const char *text, int *ret)
{
    for (size_t i = 0; i < PROBE_COUNT; i++) {
        ret[i] = NOT_TRIED;
    }
    while (*text != '\0') {
        size_t n = strcspn(text, " \n");
        for (size_t i = 0; i < PROBE_COUNT && text[n] == ' '; i++) {
            if (strlen(probes[i].name) == n && strncmp(probes[i].name, text, n) == 0) {
                ret[i] = (int)strtol(text + n, NULL, 10);
            }
        }
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
}

/* Not through the command runner, which passes nothing on: the control needs what a careless caller leaves. */
static int run_outside(struct test *t, struct orch_err *err)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0) {
        return err_errno(err, ORCH_E_IO, "pipe");
    }
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)dup2(fds[1], STDOUT_FILENO);
        (void)execl(t->probe, "orch-probe", "outside", t->fixture.file, (char *)NULL);
        _exit(127);
    }
    fd_close(&fds[1]);
    AUTO_FREE char *text = NULL;
    size_t len = 0;
    int code = pid < 0 ? err_errno(err, ORCH_E_IO, "fork") : fd_read_all(fds[0], OUTPUT_MAX, &text, &len, err);
    fd_close(&fds[0]);
    if (pid > 0) {
        (void)waitpid(pid, NULL, 0);
    }
    TRY(code);
    read_results(text, t->outside);
    return 0;
}

static void await(struct test *t, const bool *done)
{
    while (!*done) {
        (void)uv_run(&t->loop, UV_RUN_ONCE);
    }
}

static void on_started(struct environment *env, const struct environment_result *r, void *arg)
{
    struct test *t = arg;
    (void)env;
    t->err = r->err;
    t->started = true;
}

static void on_opened(struct sandbox *sb, const struct sandbox_opened *o, void *arg)
{
    struct test *t = arg;
    (void)sb;
    if (o->err.code < 0) {
        t->err = o->err;
    } else {
        t->mechanism = xasprintf("%s %s", o->mechanism, o->version);
    }
}

static void on_ended(struct call *call, struct call_result *r, void *arg)
{
    struct test *t = arg;
    (void)call;
    if (r->err.code < 0 && t->err.code == 0) {
        t->err = r->err;
    }
    call_result_take(&t->result, r);
    t->ended = true;
}

static void on_closed(void *arg)
{
    ((struct test *)arg)->closed = true;
}

static int start_environment(struct test *t, struct orch_err *err)
{
    AUTO_FREE char *node = NULL;
    AUTO_FREE char *init = NULL;
    TRY(guest_find(t->call->program, "orch-node", &node, err));
    TRY(guest_find(t->call->program, "orch-init", &init, err));
    t->work = path_join(t->fixture.dir, "secret/node");
    TRY(fd_mkdirs(t->work, 0711, err));
    struct environment_settings settings = {
        .loop = &t->loop,
        .node_program = node,
        .init_program = init,
        .work_dir = t->work,
        .mechanism = verb_option_value(t->call, "mechanism"),
        .off = verb_option_value(t->call, "without"),
        .owner = "self-test",
        .uid_first = (uint32_t)t->operator_config->uid_range.first,
        .uid_count = (uint32_t)t->operator_config->uid_range.count,
    };
    TRY(environment_new("host", &settings, &t->env, err));
    TRY(environment_start(t->env, on_started, t, err));
    await(t, &t->started);
    if (t->err.code < 0) {
        *err = t->err;
    }
    return t->err.code;
}

static int run_inside(struct test *t, struct orch_err *err)
{
    TRY(start_environment(t, err));
    AUTO_FREE char *copy = NULL;
    if (t->fixture.in_place) {
        TRY(sandbox_fixture_program(&t->fixture, t->probe, &copy, err));
    }
    AUTO_SPEC struct sandbox_spec spec;
    sandbox_fixture_spec(&t->fixture, t->probe, &spec);
    char word[] = "inside";
    char *argv[] = {copy != NULL ? copy : t->probe, word, t->fixture.file, NULL};
    struct sandbox_options options = {.name = spec.name};
    struct call_spec call = {.name = "probe", .argv = argv, .timeout_ns = INT64_C(120) * NS_PER_S};
    TRY(sandbox_open(t->env, &spec, &options, on_opened, t, &t->sb, err));
    TRY(sandbox_call(t->sb, &call, on_ended, t, NULL, err));
    await(t, &t->ended);
    if (t->err.code < 0) {
        *err = t->err;
        return err->code;
    }
    if (t->result.end != CALL_EXITED || t->result.code != 0) {
        return err_set(err, ORCH_E_FAILED, "the probe %s %d: %.300s", call_end_name(t->result.end), t->result.code,
                       t->result.errout.head);
    }
    read_results(t->result.out.head, t->inside);
    return 0;
}

/* ---- verdicts ---- */

/* The act as the mechanism answers it. */
static struct probe probe_of(const struct test *t, size_t i)
{
    static const struct {
        enum probe_id id;
        int expected, other;
    } in_place[] = {
#define X(name, expected, other) {PROBE_##name, expected, other},
        PROBE_IN_PLACE(X)
#undef X
    };
    struct probe p = probes[i];
    for (size_t k = 0; k < ARRAY_LEN(in_place) && t->in_place; k++) {
        if ((size_t)in_place[k].id == i) {
            p.kind = in_place[k].expected == 0 ? OPEN : p.kind;
            p.expected = in_place[k].expected;
            p.other = in_place[k].other;
        }
    }
    return p;
}

static bool is_denial(const struct probe *p, int code)
{
    return code == p->expected || code == p->other;
}

static enum outcome judge(const struct probe *p, int inside, int outside)
{
    if (inside == NOT_TRIED || outside == NOT_TRIED) {
        return INCONCLUSIVE;
    }
    switch (p->kind) {
    case ALLOWED:
        return inside == 0 ? PASS : FAIL;
    case OPEN:
        return NOT_PROMISED;
    case DENIED:
    case PROBE_KIND_COUNT:
        break;
    }
    if (inside == 0) {
        return FAIL;
    }
    if (!is_denial(p, inside)) {
        /* it failed, and not for the reason that it should; or the machine does not have what it is about */
        return inside == outside && p->needs != 0 ? SKIPPED : INCONCLUSIVE;
    }
    if (is_denial(p, outside)) {
        return p->needs != 0 ? SKIPPED : INCONCLUSIVE; /* refused to everybody here: that shows nothing */
    }
    return PASS;
}

static const char *errno_text(int code, char *number, size_t size)
{
    const char *name = code == 0 ? "done" : code < 0 ? "not tried" : strerrorname_np(code);
    if (name != NULL) {
        return name;
    }
    (void)snprintf(number, size, "%d", code);
    return number;
}

static void judge_all(struct test *t)
{
    for (size_t i = 0; i < PROBE_COUNT; i++) {
        const struct probe p = probe_of(t, i);
        t->outcome[i] = judge(&p, t->inside[i], t->outside[i]);
        t->counts[t->outcome[i]]++;
    }
}

static int status(const struct test *t)
{
    return t->counts[FAIL] > 0 ? STATUS_FAIL : t->counts[INCONCLUSIVE] > 0 ? STATUS_INCONCLUSIVE : 0;
}

/* ---- report ---- */

static void print_table(const struct test *t)
{
    bool all = !t->call->quiet;
    for (int group = 0; group < PROBE_GROUP_COUNT; group++) {
        bool headed = false;
        for (size_t i = 0; i < PROBE_COUNT; i++) {
            char a[16];
            char b[16];
            if ((int)probes[i].group != group || (!all && t->outcome[i] == PASS)) {
                continue;
            }
            if (!headed) {
                verb_print(t->call, "%s\n", group_names[group]);
                headed = true;
            }
            verb_print(t->call, "  %-12s %-22s %s (inside %s, outside %s)\n", outcome_names[t->outcome[i]],
                       probes[i].name, probes[i].what, errno_text(t->inside[i], a, sizeof a),
                       errno_text(t->outside[i], b, sizeof b));
        }
    }
    verb_print(t->call, "%zu checks under %s: %zu pass, %zu FAIL, %zu skipped, %zu inconclusive, %zu not promised\n",
               (size_t)PROBE_COUNT, t->mechanism, t->counts[PASS], t->counts[FAIL], t->counts[SKIPPED],
               t->counts[INCONCLUSIVE], t->counts[NOT_PROMISED]);
    const char *off = verb_option_value(t->call, "without");
    if (off != NULL) {
        verb_print(t->call, "%s was left out on purpose\n", off);
    } else {
        verb_print(t->call, "%s\n", status(t) == 0 ? "containment verified" : "containment NOT verified");
    }
}

static void print_json(const struct test *t)
{
    json_t *document = verb_json();
    json_t *list = json_array();
    for (size_t i = 0; i < PROBE_COUNT; i++) {
        char number[16];
        json_t *o = json_object();
        json_set_str(o, "id", probes[i].name);
        json_set_str(o, "group", group_names[probes[i].group]);
        json_set_str(o, "status", outcome_names[t->outcome[i]]);
        json_set_str(o, "summary", probes[i].what);
        json_set_str(o, "inside", errno_text(t->inside[i], number, sizeof number));
        json_set_str(o, "outside", errno_text(t->outside[i], number, sizeof number));
        json_add_take(list, o);
    }
    json_t *counts = json_object();
    for (int i = 0; i < OUTCOME_COUNT; i++) {
        json_set_int(counts, outcome_names[i], (int64_t)t->counts[i]);
    }
    json_set_str(document, "mechanism", t->mechanism);
    json_set_str(document, "without", verb_option_value(t->call, "without"));
    json_set_flag(document, "verified", status(t) == 0 && verb_option_value(t->call, "without") == NULL);
    json_set_take(document, "counts", counts);
    json_set_take(document, "checks", list);
    verb_print_json(t->call, document);
}

/* ---- the verb ---- */

static int test_all(struct test *t, struct config_findings *findings, struct orch_err *err)
{
    AUTO_FREE char *system = NULL;
    AUTO_FREE char *user = NULL;
    operator_directories(&system, &user);
    TRY(operator_load(system, user, &t->operator_config, findings, err));
    TRY(guest_find(t->call->program, "orch-probe", &t->probe, err));
    const char *mechanism = verb_option_value(t->call, "mechanism");
    t->in_place = mechanism != NULL && strcmp(mechanism, config_mechanism_names[CONFIG_MECHANISM_LANDLOCK]) == 0;
    TRY(sandbox_fixture_make(t->in_place, &t->fixture, err));
    TRY(run_outside(t, err));
    return run_inside(t, err);
}

static int run(const struct verb_call *call)
{
    struct test t = {
        .call = call, .err = ERR_INIT, .fixture = {.sockets = {-1, -1, -1, -1}, .shared = -1, .descriptor = -1}};
    AUTO_FINDINGS struct config_findings findings = {0};
    struct orch_err err = ERR_INIT;
    (void)uv_loop_init(&t.loop);
    int code = test_all(&t, &findings, &err);
    if (t.env != NULL) {
        environment_close(t.env, on_closed, &t);
        await(&t, &t.closed);
    }
    (void)uv_loop_close(&t.loop);
    sandbox_fixture_done(&t.fixture);
    int result = 0;
    if (code < 0) {
        result = verb_fail_findings(call, &findings, &err);
    } else {
        judge_all(&t);
        if (call->json) {
            print_json(&t);
        } else {
            print_table(&t);
        }
        result = status(&t);
    }
    call_result_done(&t.result);
    operator_release(&t.operator_config);
    free(t.mechanism);
    free(t.probe);
    free(t.work);
    return result;
}

static const struct verb_option options[] = {
    {"mechanism", "NAME", "namespaces, bubblewrap or landlock (default: auto)"},
    {"without", "LAYER", "leave out seccomp, landlock, network or limits: the checks that need it must fail"},
    {NULL, NULL, NULL},
};

const struct verb cmd_sandbox_test = {
    .name = "sandbox test",
    .summary = "Tries to get out of a sandbox, act by act",
    .usage = "orch sandbox test [--mechanism NAME] [--without LAYER]",
    .help =
        "Each act is tried outside first: a denial counts only where the same act succeeds there, and only with the\n"
        "error it should give. pass; FAIL: a way out; skipped: this machine refuses it to everybody; inconclusive:\n"
        "it failed for another reason; not promised: known to be open, and said so in docs/sandbox.md.\n"
        "Nothing is sent to another machine.\n"
        "\n"
        "Exit status: 0 all pass, 1 something FAILs, 3 no confinement here, 8 inconclusive.\n"
        "\n"
        "Examples:\n"
        "  orch sandbox test\n"
        "  orch sandbox test --quiet\n"
        "  orch sandbox test --without seccomp\n",
    .options = options,
    .run = run,
};
