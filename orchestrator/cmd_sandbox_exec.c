/* SPDX-License-Identifier: Apache-2.0 */
/* `orch sandbox exec`: one command in a sandbox made for it, with this program's own descriptors. */
#include "orchestrator/exec_spec.h"

#include "backends/environment.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "config/confinement.h"
#include "orchestrator/exec_place.h"
#include "orchestrator/guests.h"
#include "orchestrator/readable.h"
#include "orchestrator/verb.h"
#include "orchestrator/verbs.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

enum { EXIT_REFUSED = 125, EXIT_NOT_FOUND = 127, EXIT_SIGNAL_BASE = 128 };

static const int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};

struct session {
    const struct verb_call *call;
    uv_loop_t loop;
    uv_signal_t signals[ARRAY_LEN(forwarded)];
    struct operator_config *operator_config;
    int mechanism; /* enum config_mechanism */
    struct sandbox_spec spec;
    struct exec_place work;
    struct environment *env;
    struct sandbox *sb;
    struct call *running;
    bool opened, ended, closed;
    struct orch_err err; /* why nothing ran */
    struct call_result result;
};

/* ---- loop ---- */

static void await(struct session *s, const bool *done)
{
    while (!*done) {
        (void)uv_run(&s->loop, UV_RUN_ONCE);
    }
}

static void on_started(struct environment *env, const struct environment_result *r, void *arg)
{
    struct session *s = arg;
    (void)env;
    s->err = r->err;
}

/* One line a tier, whoever asked for the mechanism. */
static void say_not_enforced(const json_t *tiers)
{
    size_t i;
    json_t *tier;
    json_array_foreach(tiers, i, tier)
    {
        (void)fprintf(stderr, "orch: not enforced: %s [%s]: %s\n", json_get_str(tier, "property", ""),
                      json_get_str(tier, "code", ""), json_get_str(tier, "note", ""));
    }
}

static void on_opened(struct sandbox *sb, const struct sandbox_opened *o, void *arg)
{
    struct session *s = arg;
    (void)sb;
    if (o->err.code < 0) {
        s->err = s->err.code < 0 ? s->err : o->err;
        return;
    }
    s->opened = true;
    say_not_enforced(json_get(json_get(o->checks, "enforced"), "not_enforced"));
    const char *file = verb_option_value(s->call, "record");
    if (file != NULL) {
        AUTO_FREE char *text = json_pretty(o->checks);
        AUTO_FD int fd = fd_open(file, O_WRONLY | O_CREAT, 0600, &s->err);
        if (fd < 0 || fd_overwrite(fd, text, strlen(text), &s->err) < 0) {
            (void)fprintf(stderr, "orch: the record could not be written: %s\n", s->err.message);
            err_clear(&s->err);
        }
    }
}

static void on_ended(struct call *call, struct call_result *r, void *arg)
{
    struct session *s = arg;
    (void)call;
    s->running = NULL;
    if (r->err.code < 0 && s->err.code == 0) {
        s->err = r->err;
    }
    call_result_take(&s->result, r);
    s->ended = true;
}

static void on_closed(void *arg)
{
    ((struct session *)arg)->closed = true;
}

static void on_signal(uv_signal_t *handle, int signal)
{
    struct session *s = handle->data;
    /* SIGTSTP does nothing in a session without a terminal, which the command's is */
    bool stop = signal == SIGTSTP;
    if (s->running != NULL) {
        call_signal(s->running, stop ? SIGSTOP : signal);
    }
    if (stop) {
        (void)raise(SIGSTOP); /* until SIGCONT, which is passed on too */
    }
}

/* ---- parts ---- */

/* SPEC: a path, "-" for standard input, or the JSON itself. */
static int read_spec(struct session *s, struct orch_err *err)
{
    const char *word = s->call->args[0];
    AUTO_FREE char *text = NULL;
    size_t len = 0;
    const char *from = word;
    if (word[strspn(word, " \t\r\n")] == '{') {
        from = "SPEC";
        text = xstrdup(word);
        len = strlen(text);
    } else if (strcmp(word, "-") == 0) {
        from = "standard input";
        TRY(fd_read_all(STDIN_FILENO, SPEC_JSON_MAX, &text, &len, err));
    } else {
        TRY(fd_read_file(word, SPEC_JSON_MAX, &text, &len, err));
    }
    int code = exec_spec_read(text, len, s->call->environ, s->call->rest[0], &s->spec, err);
    return code < 0 ? err_wrap(err, "%s", from) : 0;
}

/* --mechanism, one of the names a config may hold; AUTO when it was not given. */
static int read_mechanism(const struct verb_call *call, int *ret, struct orch_err *err)
{
    const char *name = verb_option_value(call, "mechanism");
    *ret = CONFIG_MECHANISM_AUTO;
    for (int i = 0; name != NULL && config_mechanism_names[i] != NULL; i++) {
        if (strcmp(config_mechanism_names[i], name) == 0) {
            *ret = i;
            return 0;
        }
    }
    return name == NULL
               ? 0
               : err_set(err, ORCH_E_USAGE, "--mechanism %.60s: auto, namespaces, bubblewrap or landlock", name);
}

static int choose_confinement(struct session *s, struct orch_err *err)
{
    AUTO_CONFINEMENT_REQUEST struct confinement_request request = {0};
    int asked = CONFIG_MECHANISM_AUTO;
    TRY(read_mechanism(s->call, &asked, err));
    TRY(confinement_request_read(s->call->environ, &request, err));
    TRY(confinement_choose(s->operator_config, &request, asked, "--mechanism", true, &s->mechanism, err));
    AUTO_STRV char **readable = readable_paths(s->operator_config, &request);
    readable_grant(&s->spec, readable);
    return 0;
}

static int check_operator(struct session *s, struct config_findings *findings, struct orch_err *err)
{
    AUTO_FREE char *system = NULL;
    AUTO_FREE char *user = NULL;
    operator_directories(&system, &user);
    TRY(operator_load(system, user, &s->operator_config, findings, err));
    int network = s->spec.network == SPEC_PUBLIC ? CONFIG_NETWORK_PUBLIC : CONFIG_NETWORK_NO_NETWORK;
    if (!operator_network_permitted(s->operator_config, network)) {
        return err_set(err, ORCH_E_CONFIG, "network: the operator does not permit %s", config_network_names[network]);
    }
    return choose_confinement(s, err);
}

/* In memory where that can be: it is made and removed for one command. bubblewrap starts a program from there, which
 * /dev/shm may forbid; Landlock's scratch directories have no size. */
static const char *place_for_work(const struct session *s)
{
    bool memory = s->mechanism == CONFIG_MECHANISM_AUTO || s->mechanism == CONFIG_MECHANISM_NAMESPACES;
    if (access("/dev/shm", W_OK | X_OK) == 0 && memory) {
        return "/dev/shm";
    }
    const char *tmp = getenv("TMPDIR"); /* NOLINT(concurrency-mt-unsafe): before any thread */
    return tmp != NULL && tmp[0] == '/' ? tmp : "/tmp";
}

static int start_environment(struct session *s, struct orch_err *err)
{
    AUTO_FREE char *node = NULL;
    AUTO_FREE char *init = NULL;
    TRY(guest_find(s->call->program, "orch-node", &node, err));
    TRY(guest_find(s->call->program, "orch-init", &init, err));
    const char *parent = place_for_work(s);
    TRY(exec_place_make(parent, &s->work, err));
    struct environment_settings settings = {
        .loop = &s->loop,
        .node_program = node,
        .init_program = init,
        .work_dir = s->work.path,
        .work_is_new = true,
        .mechanism = config_mechanism_names[s->mechanism],
        .owner = "exec",
        .uid_first = (uint32_t)s->operator_config->uid_range.first,
        .uid_count = (uint32_t)s->operator_config->uid_range.count,
        .pass_stdio = true,
    };
    TRY(environment_new("host", &settings, &s->env, err));
    TRY(environment_start(s->env, on_started, s, err));
    (void)exec_place_sweep(parent); /* while the node starts */
    return 0;
}

static int run_call(struct session *s, struct orch_err *err)
{
    struct sandbox_options options = {.name = s->spec.name};
    struct call_spec call = {.name = "main", .argv = s->call->rest, .stdio = true};
    TRY(sandbox_open(s->env, &s->spec, &options, on_opened, s, &s->sb, err));
    TRY(sandbox_call(s->sb, &call, on_ended, s, &s->running, err));
    for (size_t i = 0; i < ARRAY_LEN(forwarded); i++) {
        (void)uv_signal_init(&s->loop, &s->signals[i]);
        s->signals[i].data = s;
        (void)uv_signal_start(&s->signals[i], on_signal, forwarded[i]);
    }
    await(s, &s->ended);
    for (size_t i = 0; i < ARRAY_LEN(forwarded); i++) {
        uv_close((uv_handle_t *)&s->signals[i], NULL);
    }
    if (s->err.code < 0) {
        *err = s->err;
    }
    return s->err.code;
}

static void end(struct session *s)
{
    if (s->env != NULL) {
        environment_close(s->env, on_closed, s);
        await(s, &s->closed);
    }
    (void)uv_run(&s->loop, UV_RUN_NOWAIT); /* what is closing */
    (void)uv_loop_close(&s->loop);
    exec_place_remove(&s->work);
    spec_done(&s->spec);
    call_result_done(&s->result);
    operator_release(&s->operator_config);
}

/* Everything of ours goes to standard error: standard output is the command's. */
static int refuse(const struct config_findings *findings, const struct orch_err *err)
{
    if (findings->count > 0) {
        AUTO_FREE char *text = config_findings_text(findings);
        (void)fputs(text, stderr);
    }
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_LINE);
    buf_escaped(&b, err->message, strlen(err->message), true);
    (void)fprintf(stderr, "orch: nothing was run: %s\n", b.data);
    return EXIT_REFUSED;
}

static int status_not_started(const struct session *s)
{
    const struct call_result *r = &s->result;
    const char *what = r->no_directory ? s->spec.cwd : s->call->rest[0];
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_LINE);
    buf_escaped(&b, what, strlen(what), true);
    if (r->no_directory) {
        (void)fprintf(stderr, "orch: nothing was run: chdir: %s: %s inside\n", b.data, strerrordesc_np(r->start_errno));
        return EXIT_REFUSED;
    }
    (void)fprintf(stderr, "orch: %s: %s\n", b.data, r->code == EXIT_NOT_FOUND ? "not found" : "cannot be executed");
    return r->code;
}

static int status_of(const struct session *s)
{
    const struct call_result *r = &s->result;
    switch (r->end) {
    case CALL_EXITED:
        return r->not_started ? status_not_started(s) : r->code;
    case CALL_SIGNALLED:
        return EXIT_SIGNAL_BASE + r->code;
    case CALL_LIMIT:
        (void)fprintf(stderr, r->signalled ? "orch: stopped by the limit \"%s\"\n" : "orch: it met the limit \"%s\"\n",
                      r->limit);
        return r->signalled ? EXIT_SIGNAL_BASE + r->code : r->code;
    case CALL_UNKNOWN:
    case CALL_END_COUNT:
        break;
    }
    return EXIT_REFUSED;
}

static int run(const struct verb_call *call)
{
    if (call->rest == NULL || call->rest[0] == NULL) {
        struct orch_err err = ERR_INIT;
        (void)err_set(&err, ORCH_E_USAGE, "name the command after --");
        (void)verb_fail(call, &err);
        return EXIT_REFUSED;
    }
    struct session s = {.call = call, .work = {.lock = -1}, .err = ERR_INIT};
    struct config_findings findings = {0};
    struct orch_err err = ERR_INIT;
    (void)uv_loop_init(&s.loop);
    int code = read_spec(&s, &err);
    code = code < 0 ? code : check_operator(&s, &findings, &err);
    code = code < 0 ? code : start_environment(&s, &err);
    code = code < 0 ? code : run_call(&s, &err);
    int status = code < 0 ? refuse(&findings, &err) : status_of(&s);
    end(&s);
    config_findings_done(&findings);
    return status;
}

static const struct verb_option options[] = {
    {"mechanism", "NAME", "namespaces, bubblewrap or landlock (default: auto, which never takes the last)"},
    {"record", "FILE", "write what was asked, enforced and checked, as JSON"},
    {NULL, NULL, NULL},
};

const struct verb cmd_sandbox_exec = {
    .name = "sandbox exec",
    .summary = "Runs one command in a sandbox",
    .usage = "orch sandbox exec SPEC -- COMMAND [ARGUMENT…]",
    .help =
        "SPEC is a file, - (standard input) or the JSON itself: a full spec (with \"version\"), or readable, "
        "writable,\n"
        "hide, network (isolated or public), env_allow, chdir and limits. What is not named does not exist inside.\n"
        "Standard input, output and error are the command's, its exit status is passed on; 125: nothing was run,\n"
        "126: not executable, 127: not found, 128+N: ended by signal N.\n"
        "ORCH_AGENT_SANDBOX=bwrap, namespaces or landlock picks the mechanism, ORCH_AGENT_SANDBOX_ALLOW=PATH:PATH "
        "adds\n"
        "readable paths.\n"
        "\n"
        "Examples:\n"
        "  orch sandbox exec '{}' -- sh -c 'ls /'\n"
        "  orch sandbox exec '{\"readable\": [\"/data/corpus\"], \"chdir\": \"/data/corpus\"}' -- wc -l names.txt\n"
        "  orch sandbox exec spec.json --record started.json -- ./job\n",
    .options = options,
    .min_args = 1,
    .max_args = 1,
    .takes_rest = true,
    .run = run,
};
