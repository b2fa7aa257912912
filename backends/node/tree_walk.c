/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/node/tree_walk.h"

#include "base/fd.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WALK_PATH_MAX 4096
#define TREE_WALK_ALL UINT64_C(4000000)

struct walk {
    walk_visit visit;
    void *arg;
    uint64_t left;
    dev_t dev;
    char path[WALK_PATH_MAX];
};

static void close_dir(DIR **d)
{
    if (*d != NULL) {
        (void)closedir(*d);
        *d = NULL;
    }
}

static int walk_dir(struct walk *w, int dirfd, size_t path_len, int depth, struct orch_err *err);

static int walk_entry(struct walk *w, int dirfd, const char *name, size_t path_len, int depth, struct orch_err *err)
{
    struct stat st;
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return errno == ENOENT ? 0 : err_errno(err, ORCH_E_IO, "stat %s", w->path);
    }
    int n = snprintf(w->path + path_len, sizeof w->path - path_len, "%s%s", path_len == 0 ? "" : "/", name);
    if (n < 0 || (size_t)n >= sizeof w->path - path_len) {
        return err_set(err, ORCH_E_LIMIT, "a path of more than %d bytes", WALK_PATH_MAX - 1);
    }
    if (w->left-- == 0) {
        return err_set(err, ORCH_E_LIMIT, "too many entries");
    }
    TRY(w->visit(w->arg, dirfd, name, w->path, &st, err));
    if (!S_ISDIR(st.st_mode) || st.st_dev != w->dev) {
        return 0;
    }
    if (depth >= WALK_DEPTH_MAX) {
        return err_set(err, ORCH_E_LIMIT, "more than %d directories deep", WALK_DEPTH_MAX);
    }
    AUTO_FD int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        bool gone = errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == EACCES;
        return gone ? 0 : err_errno(err, ORCH_E_IO, "open %s", w->path);
    }
    return walk_dir(w, fd, path_len + (size_t)n, depth + 1, err);
}

static int walk_dir(struct walk *w, int dirfd, size_t path_len, int depth, struct orch_err *err)
{
    int copy = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    AUTO(close_dir) DIR *d = copy < 0 ? NULL : fdopendir(copy);
    if (d == NULL) {
        fd_close(&copy);
        return errno == EACCES ? 0 : err_errno(err, ORCH_E_IO, "list a directory");
    }
    struct dirent *e;
    while ((errno = 0, e = readdir(d)) != NULL) { /* NOLINT(concurrency-mt-unsafe): own DIR */
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
            TRY(walk_entry(w, dirfd, e->d_name, path_len, depth, err));
            w->path[path_len] = '\0';
        }
    }
    return errno == 0 ? 0 : err_errno(err, ORCH_E_IO, "list a directory");
}

int tree_walk(int dirfd, uint64_t max, walk_visit visit, void *arg, struct orch_err *err)
{
    struct stat st;
    if (fstat(dirfd, &st) < 0) {
        return err_errno(err, ORCH_E_IO, "stat a directory");
    }
    AUTO_FREE struct walk *w = xcalloc(1, sizeof *w);
    *w = (struct walk){.visit = visit, .arg = arg, .left = max, .dev = st.st_dev};
    return walk_dir(w, dirfd, 0, 0, err);
}

struct usage {
    uint64_t bytes;
    bool unlock;
};

static int add_usage(void *arg, int dirfd, const char *name, const char *path, const struct stat *st,
                     struct orch_err *err)
{
    (void)path, (void)err;
    struct usage *u = arg;
    u->bytes += (uint64_t)st->st_blocks * 512;
    if (u->unlock && S_ISDIR(st->st_mode) && (st->st_mode & 0700) != 0700) {
        fd_unlock_beneath(dirfd, name);
    }
    return 0;
}

int tree_usage(int dirfd, uint64_t max, bool unlock, uint64_t *ret_bytes, struct orch_err *err)
{
    struct usage u = {.unlock = unlock};
    TRY(tree_walk(dirfd, max, add_usage, &u, err));
    *ret_bytes = u.bytes;
    return 0;
}

struct chown_to {
    uid_t from, uid;
    gid_t gid;
};

static int chown_entry(void *arg, int dirfd, const char *name, const char *path, const struct stat *st,
                       struct orch_err *err)
{
    const struct chown_to *c = arg;
    if ((c->from != (uid_t)-1 && st->st_uid != c->from) || (st->st_uid == c->uid && st->st_gid == c->gid)) {
        return 0;
    }
    if (S_ISREG(st->st_mode) && st->st_nlink > 1) {
        /* its other name may be a file outside: giving it away would give that away */
        return err_set(err, ORCH_E_HOSTILE, "\"%s\" has %lu names", path, (unsigned long)st->st_nlink);
    }
    if (fchownat(dirfd, name, c->uid, c->gid, AT_SYMLINK_NOFOLLOW) < 0 && errno != ENOENT) {
        return err_errno(err, ORCH_E_IO, "chown %s", path);
    }
    return 0;
}

int tree_chown(int dirfd, uid_t from_uid, uid_t uid, gid_t gid, struct orch_err *err)
{
    struct chown_to to = {.from = from_uid, .uid = uid, .gid = gid};
    TRY(tree_walk(dirfd, TREE_WALK_ALL, chown_entry, &to, err));
    if (fchown(dirfd, uid, gid) < 0) {
        return err_errno(err, ORCH_E_IO, "chown a directory");
    }
    return 0;
}
