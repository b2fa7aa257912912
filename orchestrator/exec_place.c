/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/exec_place.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PREFIX "orch-exec-"

enum {
    AGE_S = 60,      /* between the birth of one and its lock lie microseconds */
    LOOKED_AT = 512, /* entries of the directory: it may be a large /tmp */
    REMOVED = 8
};

int exec_place_make(const char *parent, struct exec_place *ret, struct orch_err *err)
{
    AUTO_FREE char *path = xasprintf("%s/" PREFIX "XXXXXX", parent);
    if (mkdtemp(path) == NULL) {
        return err_errno(err, ORCH_E_IO, "make %s", path);
    }
    int fd = fd_open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, err);
    if (fd < 0) {
        return fd;
    }
    (void)fchmod(fd, 0711);             /* under Landlock sandboxes have their directories below it */
    (void)flock(fd, LOCK_EX | LOCK_NB); /* where locks are refused nothing is swept either */
    *ret = (struct exec_place){.path = take(path), .lock = fd};
    return 0;
}

void exec_place_remove(struct exec_place *p)
{
    struct orch_err ignored = ERR_INIT;
    if (p->path == NULL) {
        return;
    }
    (void)!fd_remove_tree(AT_FDCWD, p->path, &ignored);
    fd_close(&p->lock);
    free(p->path);
    p->path = NULL;
}

static char **list(int parent)
{
    char **names = xcalloc(1, sizeof *names);
    int copy = fcntl(parent, F_DUPFD_CLOEXEC, 3);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    const struct dirent *d;
    if (dir == NULL) {
        fd_close(&copy);
        return names;
    }
    for (int i = 0; i < LOOKED_AT && (d = readdir(dir)) != NULL; i++) { /* NOLINT(concurrency-mt-unsafe): own stream */
        if (strncmp(d->d_name, PREFIX, strlen(PREFIX)) == 0) {
            names = strv_append(names, xstrdup(d->d_name));
        }
    }
    (void)closedir(dir);
    return names;
}

/* An open, locked descriptor of one that is nobody's, or -1. The directory may be everybody's (/tmp): only what is ours
 * counts, and in a sticky directory nobody else can put another thing under its name. */
static int take_dead(int parent, const char *name)
{
    struct orch_err ignored = ERR_INIT;
    struct stat st;
    int fd = fd_open_beneath(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, &ignored);
    if (fd >= 0 && (fstat(fd, &st) < 0 || st.st_uid != geteuid() || st.st_mtime > time(NULL) - AGE_S ||
                    flock(fd, LOCK_EX | LOCK_NB) < 0)) {
        fd_close(&fd);
    }
    return fd;
}

unsigned exec_place_sweep(const char *parent)
{
    struct orch_err ignored = ERR_INIT;
    unsigned removed = 0;
    AUTO_FD int fd = fd_open(parent, O_RDONLY | O_DIRECTORY, 0, &ignored);
    if (fd < 0) {
        return 0;
    }
    AUTO_STRV char **names = list(fd);
    for (size_t i = 0; names[i] != NULL && removed < REMOVED; i++) {
        AUTO_FD int dead = take_dead(fd, names[i]);
        if (dead >= 0 && fd_remove_tree(fd, names[i], &ignored) == 0) {
            removed++;
        }
    }
    return removed;
}
