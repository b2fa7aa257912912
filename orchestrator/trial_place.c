/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/trial_place.h"

#include "base/fd.h"
#include "base/mem.h"
#include "roles/verdict.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Entries of a directory, "." and ".." apart; 2 stands for more. */
static int count_entries(int dirfd)
{
    int copy = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (dir == NULL) {
        fd_close(&copy);
        return 2;
    }
    int n = 0;
    const struct dirent *e;
    while (n < 2 && (e = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe): own stream */
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    }
    (void)closedir(dir);
    return n;
}

static void place_free(struct trial_place *p)
{
    fd_close(&p->collected);
    fd_close(&p->verdict);
    fd_close(&p->home);
    free(p->path);
    free(p);
}

static int open_part(const struct trial_place *p, const char *name, mode_t mode, int *ret, struct orch_err *err)
{
    AUTO_FREE char *path = xasprintf("%s/%s", p->path, name);
    TRY(fd_mkdirs(path, mode, err));
    *ret = fd_open(path, O_RDONLY | O_DIRECTORY, 0, err);
    return *ret < 0 ? *ret : 0;
}

static int place_new(struct engine *e, struct trial_place **ret, struct orch_err *err)
{
    AUTO_FREE char *name = xasprintf("place-%zu", e->places_made++);
    struct trial_place *p = xcalloc(1, sizeof *p);
    *p = (struct trial_place){.collected = -1, .verdict = -1, .home = -1};
    int code = engine_fresh_dir(e, name, &p->path, err);
    code = code < 0 ? code : open_part(p, "collected", 0755, &p->collected, err);
    code = code < 0 ? code : open_part(p, "verdict", 0700, &p->verdict, err);
    code = code < 0 ? code : open_part(p, "home", 0700, &p->home, err);
    if (code < 0) {
        place_free(p);
        return code;
    }
    *ret = p;
    return 0;
}

int place_take(struct engine *e, struct trial_place **ret, struct orch_err *err)
{
    if (e->place_count == 0) {
        return place_new(e, ret, err);
    }
    *ret = e->places[--e->place_count];
    return 0;
}

/* A plain verdict is emptied where it is: a file less to remove and make. Anything else goes. */
static int empty_verdict(int dirfd, struct orch_err *err)
{
    struct stat st;
    struct orch_err ignored = ERR_INIT;
    AUTO_FD int fd = fd_open_beneath(dirfd, VERDICT_FILE, O_WRONLY | O_NONBLOCK | O_NOCTTY, 0, &ignored);
    bool plain = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1;
    if (plain && count_entries(dirfd) == 1 && ftruncate(fd, 0) == 0) {
        return 0;
    }
    return fd_empty_dir(dirfd, err);
}

void place_give(struct engine *e, struct trial_place *p)
{
    if (p == NULL) {
        return;
    }
    struct orch_err err = ERR_INIT;
    if (fd_empty_dir(p->collected, &err) < 0 || empty_verdict(p->verdict, &err) < 0 ||
        fd_empty_dir(p->home, &err) < 0) {
        place_free(p); /* engine_close removes what is left of it */
        return;
    }
    e->places = xrealloc(e->places, (e->place_count + 1) * sizeof(struct trial_place *));
    e->places[e->place_count++] = p;
}

void places_free(struct engine *e)
{
    for (size_t i = 0; i < e->place_count; i++) {
        place_free(e->places[i]);
    }
    free(e->places);
    e->places = NULL;
    e->place_count = 0;
}
