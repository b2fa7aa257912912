/* SPDX-License-Identifier: Apache-2.0 */
/* The table of run environments by name: those that are built, those that are not yet, and retired names. */
#ifndef ORCH_BACKENDS_ENVIRONMENTS_REGISTRY_H
#define ORCH_BACKENDS_ENVIRONMENTS_REGISTRY_H

#include "base/err.h"

#include <stdbool.h>

struct environment;

/* How a node is started; strings and vectors are owned (node_launch_done). */
struct node_launch {
    char *program;
    char **argv;
    char **envp;
};
void node_launch_done(struct node_launch *l);

enum environment_row_state { ROW_BUILT, ROW_NOT_BUILT, ROW_RETIRED };

struct environment_row {
    const char *name;
    enum environment_row_state state;
    const char *note; /* not built: what it will be; retired: what to write instead */
    bool shares_paths;
    bool for_tests;
    /* Fills the launch for the settings of `env`. */
    int (*launch)(const struct environment *env, struct node_launch *ret, struct orch_err *err);
};

/* All rows; ends with a NULL name. */
const struct environment_row *environment_rows(void);
/* ORCH_E_CONFIG for an unknown or retired name (says what to use), ORCH_E_UNAVAILABLE for one not built yet. */
MUST_USE int environment_row_find(const char *name, const struct environment_row **ret, struct orch_err *err);

/* The variables a node starts with; owned (strv_free). */
char **node_environment(void);

/* host.c, loopback_remote.c */
int host_launch(const struct environment *env, struct node_launch *ret, struct orch_err *err);
int loopback_remote_launch(const struct environment *env, struct node_launch *ret, struct orch_err *err);

#endif
