/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/sweep.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "state/control_socket.h"
#include "state/lock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static bool run_is_dead(const struct layout *l, const char *id)
{
    AUTO_FREE char *dir = layout_run_dir(l, id);
    struct lock_owner owner;
    struct orch_err err = ERR_INIT;
    return lock_look(dir, &owner, &err) == 0 && !owner.held;
}

/* "check-<pid>-<random>" */
static bool check_is_dead(const char *name)
{
    long pid = 0;
    return strncmp(name, "check-", 6) == 0 && (pid = strtol(name + 6, NULL, 10)) > 0 && kill((pid_t)pid, 0) < 0 &&
           errno == ESRCH;
}

static char **names_in(const char *path)
{
    char **names = NULL;
    DIR *dir = opendir(path);
    const struct dirent *e;
    while (dir != NULL && (e = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe): own stream */
        names = strv_append(names, xstrdup(e->d_name));
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return names;
}

/* local/run/<id>.sock */
static void sweep_sockets(const struct layout *l)
{
    AUTO_FREE char *dir = path_join(l->local, "run");
    AUTO_STRV char **names = names_in(dir);
    for (size_t i = 0; i < strv_len(names); i++) {
        size_t n = strlen(names[i]);
        AUTO_FREE char *id = n > 5 && strcmp(names[i] + n - 5, ".sock") == 0 ? xmemdup0(names[i], n - 5) : NULL;
        if (id != NULL && layout_run_id_valid(id) && run_is_dead(l, id)) {
            control_remove(l, id);
        }
    }
}

void sweep_local(const struct layout *l)
{
    AUTO_STRV char **names = names_in(l->local);
    struct orch_err err = ERR_INIT;
    AUTO_FD int fd = fd_open(l->local, O_RDONLY | O_DIRECTORY, 0, &err);
    for (size_t i = 0; fd >= 0 && i < strv_len(names); i++) {
        bool is_run = layout_run_id_valid(names[i]);
        if (is_run ? run_is_dead(l, names[i]) : check_is_dead(names[i])) {
            (void)!fd_remove_tree(fd, names[i], &err);
        }
    }
    sweep_sockets(l);
}
