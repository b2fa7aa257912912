/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The `loopback-remote` environment, for tests: the same node in a mount
 * namespace of its own, where the host's project, state and working
 * directories are covered by empty file systems. It shares no path and no
 * descriptor with the host, and loses replies when told to.
 */
#include "backends/environments/environment_impl.h"

#include "base/mem.h"
#include "base/path.h"

#include <unistd.h>

static int cover(const struct environment *env, const char *path, struct node_launch *l, struct orch_err *err)
{
    AUTO_FREE char *real = NULL;
    struct orch_err absent = ERR_INIT;
    if (path_real(path, &real, &absent) < 0) {
        if (absent.code == ORCH_E_NOT_FOUND) {
            return 0;
        }
        *err = absent;
        return err->code;
    }
    if (path_is_beneath(env->node_program, real) || path_is_beneath(env->init_program, real)) {
        return err_set(err, ORCH_E_CONFIG, "%s cannot be covered: the node's programs are in it", real);
    }
    l->argv = strv_append(l->argv, xstrdup("--cover"));
    l->argv = strv_append(l->argv, take(real));
    return 0;
}

int loopback_remote_launch(const struct environment *env, struct node_launch *ret, struct orch_err *err)
{
    struct node_launch l = {0};
    if (geteuid() != 0) {
        return err_set(err, ORCH_E_UNAVAILABLE, "the environment loopback-remote needs root: it mounts");
    }
    AUTO_FREE char *dir = path_dir(env->node_program);
    l.program = path_join(dir, "orch-private-view");
    l.argv = strv_append(NULL, xstrdup("orch-private-view"));
    l.envp = node_environment();
    int r = env->work_dir != NULL ? cover(env, env->work_dir, &l, err) : 0;
    for (size_t i = 0; r == 0 && i < strv_len(env->covered); i++) {
        r = cover(env, env->covered[i], &l, err);
    }
    if (r < 0) {
        node_launch_done(&l);
        return r;
    }
    l.argv = strv_append(l.argv, xstrdup("--"));
    l.argv = strv_append(l.argv, xstrdup(env->node_program));
    l.argv = strv_append(l.argv, xstrdup("orch-node"));
    *ret = l;
    return 0;
}
