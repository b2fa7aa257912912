/* SPDX-License-Identifier: Apache-2.0 */
/* What no config can grant: the state to nobody, answers, splits and judge to neither task nor evolver. */
#include "orchestrator/engine.h"

#include "base/mem.h"
#include "base/path.h"
#include "config/confinement.h"

#include <string.h>

/* The record and everything raw stay hidden from every sandbox, whoever asks and whoever runs: a path that holds the
 * state, or lies in it, is granted to nobody. */
static int check_state(const struct engine *e, const char *key, char *const *paths, struct orch_err *err)
{
    for (size_t i = 0; paths[i] != NULL; i++) {
        AUTO_FREE char *real = NULL;
        struct orch_err absent = ERR_INIT;
        if (path_real(paths[i], &real, &absent) < 0) {
            real = path_normal(paths[i]); /* the state may not be there yet */
        }
        if (path_is_beneath(e->layout.state, real) || path_is_beneath(real, e->layout.state)) {
            return err_set(err, ORCH_E_CONFIG, "%s: %s holds the project's state (%s); name its parts instead", key,
                           paths[i], e->layout.state);
        }
    }
    return 0;
}

/* Whether `grant`, a path that a task or an evolver gets, is `path`, holds it, or lies in it. */
static bool shows(const char *grant, const char *path)
{
    AUTO_FREE char *real_grant = NULL;
    AUTO_FREE char *real = NULL;
    struct orch_err absent = ERR_INIT;
    if (path == NULL || path_real(grant, &real_grant, &absent) < 0 || path_real(path, &real, &absent) < 0) {
        return false; /* what is not there is told where it is read */
    }
    return path_is_beneath(real, real_grant) || path_is_beneath(real_grant, real);
}

/* Answers, splits and the judge are for the host and the judge alone. */
static int check_secrets(const struct engine *e, const char *key, char *const *paths, struct orch_err *err)
{
    const struct run_config *c = e->config;
    AUTO_FREE char *judge = c->judge.command[0] != NULL && strchr(c->judge.command[0], '/') != NULL
                                ? path_join(c->dir, c->judge.command[0])
                                : NULL;
    const struct {
        const char *key, *path;
    } secrets[] = {{"data.tasks", c->data.tasks},
                   {"data.train", c->data.train},
                   {"data.val", c->data.val},
                   {"data.test", c->data.test},
                   {"judge.command", judge}};
    for (size_t i = 0; paths[i] != NULL; i++) {
        for (size_t k = 0; k < ARRAY_LEN(secrets); k++) {
            if (shows(paths[i], secrets[k].path)) {
                return err_set(err, ORCH_E_CONFIG,
                               "%s: %s would show %s (%s), which is the judge's alone; name its parts", key, paths[i],
                               secrets[k].key, secrets[k].path);
            }
        }
        for (size_t k = 0; c->judge.tests[k] != NULL; k++) {
            if (shows(paths[i], c->judge.tests[k])) {
                return err_set(err, ORCH_E_CONFIG, "%s: %s would show judge.tests (%s), which is the judge's alone",
                               key, paths[i], c->judge.tests[k]);
            }
        }
    }
    return 0;
}

int engine_check_grants(const struct engine *e, struct orch_err *err)
{
    const struct run_config *c = e->config;
    char *template[] = {c->candidate.template_dir, NULL};
    char *start[] = {c->candidate.start_from, NULL};
    char *info[] = {c->task_info, NULL};
    const struct {
        const char *key;
        char *const *paths;
        bool judges; /* may see what is the judge's */
    } seen[] = {{"candidate.template", template, false},
                {"candidate.start_from", start, false},
                {"task_info", info, false},
                {"readable, or " CONFINEMENT_ALLOW_VARIABLE, e->readable, false},
                {"task.paths.read", c->task.access.paths_read, false},
                {"task.paths.write", c->task.access.paths_write, false},
                {"evolver.paths.read", c->evolver.access.paths_read, false},
                {"evolver.paths.write", c->evolver.access.paths_write, false},
                {"evolver.access.environment", c->evolver.grants.environment, false},
                {"judge.paths.read", c->judge.access.paths_read, true},
                {"judge.tests", c->judge.tests, true}};
    for (size_t i = 0; i < ARRAY_LEN(seen); i++) {
        TRY(check_state(e, seen[i].key, seen[i].paths, err));
        if (!seen[i].judges) {
            TRY(check_secrets(e, seen[i].key, seen[i].paths, err));
        }
    }
    return 0;
}
