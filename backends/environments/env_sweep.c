/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a killed host process leaves in a working directory: the directories of
 * its node and of trees under way. Whoever uses one holds a lock on it
 * (flock(2)), which ends with the process; what is old and not locked is nobody's.
 */
#include "backends/environments/environment_impl.h"

#include "base/fd.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Between a directory's birth and its lock lie milliseconds. */
#define SWEEP_AGE_S 60
#define SWEEP_MAX 1024 /* entries removed in one go */

int environment_lock_dir(const char *path)
{
    struct orch_err ignored = ERR_INIT;
    int fd = fd_open(path, O_RDONLY | O_DIRECTORY, 0, &ignored);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0) {
        fd_close(&fd);
    }
    return fd;
}

static bool is_ours(const char *name)
{
    return strncmp(name, "node-", 5) == 0 || strncmp(name, "get-", 4) == 0;
}

/* An open, locked descriptor of a directory that nobody uses, or -1. */
static int take_stale(int workfd, const char *name)
{
    struct orch_err ignored = ERR_INIT;
    struct stat st;
    int fd = fd_open_beneath(workfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, &ignored);
    if (fd >= 0 && (fstat(fd, &st) < 0 || st.st_mtime > time(NULL) - SWEEP_AGE_S || flock(fd, LOCK_EX | LOCK_NB) < 0)) {
        fd_close(&fd);
    }
    return fd;
}

static char **list_ours(int workfd)
{
    char **names = xcalloc(1, sizeof *names);
    int copy = fcntl(workfd, F_DUPFD_CLOEXEC, 3);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    const struct dirent *d;
    if (dir == NULL) {
        fd_close(&copy);
        return names;
    }
    size_t count = 0;
    while (count < SWEEP_MAX && (d = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe): own stream */
        if (is_ours(d->d_name)) {
            names = strv_append(names, xstrdup(d->d_name));
            count++;
        }
    }
    (void)closedir(dir);
    return names;
}

unsigned environment_sweep(const char *work_dir)
{
    struct orch_err err = ERR_INIT;
    unsigned removed = 0;
    AUTO_FD int workfd = fd_open(work_dir, O_RDONLY | O_DIRECTORY, 0, &err);
    if (workfd < 0) {
        return 0;
    }
    AUTO_STRV char **names = list_ours(workfd);
    for (size_t i = 0; names[i] != NULL; i++) {
        AUTO_FD int fd = take_stale(workfd, names[i]);
        struct orch_err ignored = ERR_INIT;
        if (fd >= 0 && fd_remove_tree(workfd, names[i], &ignored) == 0) {
            removed++;
        }
    }
    return removed;
}

struct sweep {
    uv_work_t work;
    struct environment *env;
};

static void on_sweep(uv_work_t *work)
{
    const struct sweep *s = work->data;
    (void)environment_sweep(s->env->work_dir);
}

static void on_swept(uv_work_t *work, int status)
{
    struct sweep *s = work->data;
    struct environment *env = s->env;
    (void)status;
    free(s);
    env->works--;
    environment_maybe_closed(env);
}

void environment_start_sweep(struct environment *env)
{
    struct sweep *s = xcalloc(1, sizeof *s);
    s->env = env;
    s->work.data = s;
    env->works++;
    (void)uv_queue_work(env->loop, &s->work, on_sweep, on_swept);
}
