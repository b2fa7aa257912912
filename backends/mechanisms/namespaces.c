/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/mechanisms/namespaces.h"

#include "backends/guest/launch.h"
#include "base/mem.h"
#include "base/process.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define PROBE_TIMEOUT_NS (INT64_C(10) * 1000000000)

_Static_assert((int)LAUNCH_FD_PLAN == (int)MECHANISM_FD_PLAN && (int)LAUNCH_FD_USERNS == (int)MECHANISM_FD_USERNS,
               "one numbering");

void namespaces_plan(const struct mechanism_options *o, struct buf *out)
{
    struct launch_plan plan = {.share_network = o->share_network,
                               .named_identity = o->named_identity,
                               .step_count = (uint32_t)o->mounts->count};
    (void)snprintf(plan.hostname, sizeof plan.hostname, "%s", o->hostname);
    buf_add(out, &plan, sizeof plan);
    for (size_t i = 0; i < o->mounts->count; i++) {
        const struct mount_step *m = &o->mounts->steps[i];
        const char *source = m->source != NULL ? m->source : "";
        struct launch_step step = {.kind = (uint32_t)m->kind,
                                   .source_len = (uint32_t)strlen(source),
                                   .target_len = (uint32_t)strlen(m->target),
                                   .size = m->size};
        buf_add(out, &step, sizeof step);
        buf_add(out, source, step.source_len + 1);
        buf_add(out, m->target, step.target_len + 1);
    }
}

static pid_t start(const struct mechanism *m, const struct mechanism_options *o, int *ret_pidfd, struct orch_err *err)
{
    AUTO(buf_done) struct buf plan;
    buf_init(&plan, LAUNCH_PLAN_MAX);
    namespaces_plan(o, &plan);
    char name[] = "orch-init";
    char word[] = LAUNCH_WORD;
    char *argv[] = {name, word, NULL};
    return mechanism_spawn(m, argv, &plan, o, ret_pidfd, err);
}

static int probe(const char *program, struct orch_err *err)
{
    char name[] = "orch-init";
    char word[] = LAUNCH_PROBE_WORD;
    char *argv[] = {name, word, NULL};
    char *envp[] = {NULL};
    struct command c = {
        .program = program, .argv = argv, .envp = envp, .cwd = "/", .output_max = 512, .timeout_ns = PROBE_TIMEOUT_NS};
    AUTO_COMMAND_RESULT struct command_result r = {.end = END_UNKNOWN};
    TRY(command_run(&c, &r, err));
    return command_check(&r, "orch-init probe", err);
}

int namespaces_find(const char *init_program, struct mechanism *ret, struct orch_err *err)
{
    struct utsname u;
    struct orch_err e = ERR_INIT;
    /* root meets no policy on user namespaces, and what a container forbids it is forbidden to bubblewrap too */
    if (geteuid() != 0 && probe(init_program, &e) < 0) {
        return err_set(err, ORCH_E_UNAVAILABLE, "namespaces cannot be used: %s", e.message);
    }
    *ret = (struct mechanism){.name = "namespaces", .program = xstrdup(init_program), .start = start};
    if (uname(&u) == 0) {
        (void)snprintf(ret->version, sizeof ret->version, "%s", u.release);
    }
    return 0;
}
