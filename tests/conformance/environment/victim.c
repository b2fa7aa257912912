/* SPDX-License-Identifier: Apache-2.0 */
/*
 * environment_victim NODE WORK: a host process with one sandbox in which a call
 * sleeps. Prints the pid of the node and of the sandbox's process, then waits to
 * be killed.
 */
#include "backends/environment.h"
#include "backends/environments/environment_impl.h"
#include "backends/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct environment *env;

static void fail(const struct orch_err *err)
{
    (void)fprintf(stderr, "victim: %s\n", err->message);
    exit(1);
}

static void on_call(struct call *call, struct call_result *r, void *arg)
{
    (void)call;
    (void)arg;
    (void)fprintf(stderr, "victim: the call ended: %s %d %s %s\n", call_end_name(r->end), r->code, r->err.message,
                  r->errout.head);
    exit(1);
}

/* The sandbox's sleeping process, found among the machine's by a variable nobody else has. */
static long find_sleeper(void)
{
    FILE *p = popen("grep -alz '^VICTIM_MARK=" /* its own mark */ "yes$' /proc/[0-9]*/environ 2>/dev/null | "
                    "tr '\\0' '\\n' | sed 's|/proc/||; s|/environ||' | head -1",
                    "re");
    long pid = 0;
    if (p == NULL || fscanf(p, "%ld", &pid) != 1) {
        pid = 0;
    }
    if (p != NULL) {
        (void)pclose(p);
    }
    return pid;
}

static void on_output(struct call *call, int stream, const char *data, size_t len, void *arg)
{
    (void)call;
    (void)stream;
    (void)data;
    (void)len;
    (void)arg;
    (void)printf("%d %ld\n", (int)env->pid, find_sleeper());
    (void)fflush(stdout);
}

static void on_start(struct environment *e, const struct environment_result *r, void *arg)
{
    struct sandbox_spec spec;
    struct sandbox *sb = NULL;
    struct orch_err err = ERR_INIT;
    char sh[] = "sh";
    char flag[] = "-c";
    char script[] = "echo started; exec sleep 1000";
    char *argv[] = {sh, flag, script, NULL};
    (void)arg;
    if (r->err.code < 0) {
        fail(&r->err);
    }
    spec_init(&spec, "victim");
    spec_set_env(&spec, "PATH", "/usr/bin:/bin");
    spec_set_env(&spec, "VICTIM_MARK", "yes");
    const struct sandbox_options options = {.name = "victim"};
    const struct call_spec call = {.name = "call", .argv = argv, .on_output = on_output};
    if (sandbox_run(e, &spec, &options, &call, NULL, on_call, NULL, &sb, &err) < 0) {
        fail(&err);
    }
    spec_done(&spec);
}

int main(int argc, char **argv)
{
    struct orch_err err = ERR_INIT;
    if (argc != 3) {
        return 2;
    }
    const struct environment_settings settings = {
        .loop = uv_default_loop(), .node_program = argv[1], .work_dir = argv[2], .owner = "victim"};
    if (environment_new("host", &settings, &env, &err) < 0 || environment_start(env, on_start, NULL, &err) < 0) {
        fail(&err);
    }
    (void)uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    return 1;
}
