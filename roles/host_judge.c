/* SPDX-License-Identifier: Apache-2.0 */
#include "roles/host_judge.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/process.h"
#include "roles/context.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

struct place { /* paths of one judgement */
    char *task;
    char *context;
    char *verdict_dir;
    char *home;
    char *program;
};

static void place_done(struct place *p)
{
    free(p->task);
    free(p->context);
    free(p->verdict_dir);
    free(p->home);
    free(p->program);
}

static int write_over(const char *path, const char *data, size_t len, struct orch_err *err)
{
    AUTO_FD int fd = fd_open(path, O_WRONLY | O_CREAT | O_NOFOLLOW, 0600, err);
    TRY(fd);
    return fd_overwrite(fd, data, len, err);
}

static int prepare(const struct host_judge *j, struct place *p, struct orch_err *err)
{
    p->task = path_join(j->work, "task.json");
    p->context = path_join(j->work, "context.json");
    p->verdict_dir = path_join(j->work, "verdict");
    p->home = path_join(j->work, "home");
    TRY(path_search(j->program->host[0], CONTEXT_PATH, &p->program, err));
    TRY(write_over(p->task, j->task_text, j->task_len, err));
    AUTO_JSON json_t *c = context_new("judge");
    AUTO_FREE char *collected = path_join(j->work, "collected");
    AUTO_FREE char *verdict = path_join(p->verdict_dir, VERDICT_FILE);
    json_set_str(c, "task", p->task);
    json_set_str(c, "collected", collected);
    json_set_str(c, "verdict", verdict);
    json_set_take(c, "tests", json_from_strv(j->config->judge.tests));
    AUTO_FREE char *text = json_pretty(c);
    return write_over(p->context, text, strlen(text), err);
}

static int fail(struct host_judgement *r, const char *reason, const char *text)
{
    r->reason = reason;
    return err_set(&r->err, ORCH_E_FAILED, "%s", text);
}

/* The exit decides first: a judge that failed has no verdict, whatever it left. */
static int read_end(const struct command_result *result, struct host_judgement *r)
{
    static const char *const reasons[] = {[END_UNKNOWN] = "judge-lost",
                                          [END_EXITED] = "judge-exit",
                                          [END_SIGNALLED] = "judge-signal",
                                          [END_TIMEOUT] = "judge-timeout"};
    r->wall_ns = result->wall_ns;
    r->exit_code = result->code;
    r->reason = reasons[result->end];
    return command_check(result, "judge", &r->err);
}

static int read_verdict(const struct place *p, struct host_judgement *r)
{
    AUTO_FD int dir = fd_open(p->verdict_dir, O_RDONLY | O_DIRECTORY, 0, &r->err);
    r->reason = "judge-no-verdict";
    TRY(dir);
    int code = verdict_read(dir, &r->verdict, &r->err);
    if (code == ORCH_E_NOT_FOUND) {
        return fail(r, "judge-no-verdict", "the judge exited 0 but left no verdict");
    }
    r->reason = "judge-verdict";
    return code;
}

/* orch-init reap PARENT PROGRAM ARGV0 ARG… (backends/guest/reaper.h). Owned. */
static char **reaped(const struct host_judge *j, const struct place *p)
{
    char **argv = strv_append(NULL, xstrdup("orch-init"));
    argv = strv_append(argv, xstrdup("reap"));
    argv = strv_append(argv, xasprintf("%d", (int)getpid()));
    argv = strv_append(argv, xstrdup(p->program));
    for (char *const *a = j->program->host; *a != NULL; a++) {
        argv = strv_append(argv, xstrdup(*a));
    }
    return argv;
}

static int judge(const struct host_judge *j, const struct place *p, struct host_judgement *r)
{
    AUTO_STRV char **env = context_host_env(p->context, p->home, j->config->judge.access.env);
    AUTO_STRV char **argv = reaped(j, p);
    struct command c = {
        .program = j->reaper,
        .argv = argv,
        .asked_first = true,
        .envp = env,
        .cwd = j->config->dir,
        .output_max = HOST_JUDGE_OUTPUT_MAX,
        .timeout_ns = j->config->judge.timeout_ns > 0 ? j->config->judge.timeout_ns : 0,
    };
    AUTO_COMMAND_RESULT struct command_result result = {0};
    r->reason = "judge-start";
    TRY(command_run(&c, &result, &r->err));
    int code = read_end(&result, r);
    r->out = take(result.out);
    r->out_len = result.out_len;
    r->errout = take(result.err);
    r->errout_len = result.err_len;
    TRY(code);
    return read_verdict(p, r);
}

void host_judge_run(const struct host_judge *j, struct host_judgement *ret)
{
    *ret = (struct host_judgement){.reason = "judge-start", .err = ERR_INIT};
    struct place p = {0};
    int code = prepare(j, &p, &ret->err);
    if (code == 0) {
        code = judge(j, &p, ret);
    }
    ret->code = code;
    place_done(&p);
}

void host_judgement_done(struct host_judgement *j)
{
    verdict_done(&j->verdict);
    free(j->out);
    free(j->errout);
    *j = (struct host_judgement){0};
}
