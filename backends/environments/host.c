/* SPDX-License-Identifier: Apache-2.0 */
/* The `host` environment: a node on this machine that shares paths with the host process. */
#include "backends/environments/environment_impl.h"

#include "base/mem.h"

/* Nothing of the host's environment variables is for the node: keys live there. */
char **node_environment(void)
{
    const char *tmp = getenv("TMPDIR"); /* NOLINT(concurrency-mt-unsafe): nobody sets variables */
    char **envp = strv_append(NULL, xstrdup("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"));
    if (tmp != NULL && tmp[0] == '/') {
        envp = strv_append(envp, xasprintf("TMPDIR=%s", tmp));
    }
    return strv_append(envp, xstrdup("LC_ALL=C.UTF-8"));
}

int host_launch(const struct environment *env, struct node_launch *ret, struct orch_err *err)
{
    (void)err;
    ret->program = xstrdup(env->node_program);
    ret->argv = strv_append(NULL, xstrdup("orch-node"));
    ret->envp = node_environment();
    return 0;
}
