/* SPDX-License-Identifier: Apache-2.0 */
#include "state/walk.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct walk {
    struct walk_caps left;
    walk_visit visit;
    void *arg;
    struct orch_err *err;
};

struct names {
    char **items;
    size_t count, cap;
};

static void names_done(struct names *n)
{
    for (size_t i = 0; i < n->count; i++) {
        free(n->items[i]);
    }
    free(n->items);
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Counted against the cap while reading: a directory of millions of names ends here. */
static int read_names(struct walk *w, int dirfd, struct names *ret)
{
    int copy = fcntl(dirfd, F_DUPFD_CLOEXEC, 3);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    int r = 0;

    if (!dir) {
        err_errno(w->err, ORCH_E_IO, "read a directory");
        fd_close(&copy);
        return w->err->code;
    }
    rewinddir(dir);
    for (;;) {
        errno = 0;
        const struct dirent *e = readdir(dir); /* NOLINT(concurrency-mt-unsafe): own DIR */
        if (!e) {
            r = errno ? err_errno(w->err, ORCH_E_IO, "read a directory") : 0;
            break;
        }
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) {
            continue;
        }
        if (--w->left.files < 0) {
            r = err_set(w->err, ORCH_E_LIMIT, "too many files");
            break;
        }
        if (ret->count == ret->cap) {
            ret->cap = ret->cap ? ret->cap * 2 : 32;
            ret->items = xrealloc(ret->items, ret->cap * sizeof *ret->items);
        }
        ret->items[ret->count++] = xstrdup(e->d_name);
    }
    closedir(dir);
    if (r == 0 && ret->count) {
        qsort(ret->items, ret->count, sizeof *ret->items, by_bytes);
    }
    return r;
}

static int walk_dir(struct walk *w, int dirfd, const char *path, int depth);

static int walk_file(struct walk *w, const char *path, int fd, const struct stat *st)
{
    if (st->st_size > w->left.file) {
        return err_set(w->err, ORCH_E_LIMIT, "%s is larger than %lld bytes", path, (long long)w->left.file);
    }
    if (st->st_size > w->left.bytes) {
        return err_set(w->err, ORCH_E_LIMIT, "the files are larger than allowed together");
    }
    w->left.bytes -= st->st_size;
    return w->visit(w->arg, path, fd, st, w->err);
}

/* An owner may have taken its own permission away; what is kept must not depend on that. */
static int open_unreadable(int dirfd, const char *name)
{
    char proc[64];
    struct stat st;
    AUTO_FD int fd = openat(dirfd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &st) < 0 || (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))) {
        return -1;
    }
    snprintf(proc, sizeof proc, "/proc/self/fd/%d", fd);
    if (chmod(proc, (st.st_mode & 0777) | (S_ISDIR(st.st_mode) ? 0700 : 0600)) < 0) {
        return -1;
    }
    return open(proc, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/* O_NONBLOCK: opening a pipe must not wait; the type is checked on what was opened, not before. */
static int open_entry(int dirfd, const char *name)
{
    int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return fd < 0 && errno == EACCES ? open_unreadable(dirfd, name) : fd;
}

static int walk_entry(struct walk *w, int dirfd, const char *prefix, const char *name, int depth)
{
    AUTO_FREE char *path = *prefix ? xasprintf("%s/%s", prefix, name) : xstrdup(name);
    struct stat st;

    if (strlen(path) >= WALK_PATH_MAX) {
        return err_set(w->err, ORCH_E_LIMIT, "a path is longer than %d bytes", WALK_PATH_MAX);
    }
    AUTO_FD int fd = open_entry(dirfd, name);
    if (fd < 0) {
        int code = errno == ELOOP || errno == ENXIO ? ORCH_E_HOSTILE : ORCH_E_IO;
        return err_errno(w->err, code, "%s is no regular file or directory", path);
    }
    if (fstat(fd, &st) < 0) {
        return err_errno(w->err, ORCH_E_IO, "stat %s", path);
    }
    if (S_ISREG(st.st_mode)) {
        return walk_file(w, path, fd, &st);
    }
    if (!S_ISDIR(st.st_mode)) {
        return err_set(w->err, ORCH_E_HOSTILE, "%s is no regular file or directory", path);
    }
    if (depth >= w->left.depth || depth >= WALK_DEPTH_MAX) {
        return err_set(w->err, ORCH_E_LIMIT, "directories are nested deeper than %d", w->left.depth);
    }
    TRY(w->visit(w->arg, path, fd, &st, w->err));
    return walk_dir(w, fd, path, depth + 1);
}

static int walk_dir(struct walk *w, int dirfd, const char *path, int depth)
{
    struct names names = {0};
    int r = read_names(w, dirfd, &names);

    for (size_t i = 0; r == 0 && i < names.count; i++) {
        r = walk_entry(w, dirfd, path, names.items[i], depth);
    }
    names_done(&names);
    return r;
}

int walk_tree(int dirfd, const struct walk_caps *caps, walk_visit visit, void *arg, struct orch_err *err)
{
    struct walk w = {*caps, visit, arg, err};
    return walk_dir(&w, dirfd, "", 0);
}

bool walk_path_valid(const char *path)
{
    for (const char *p = path;;) {
        size_t n = strcspn(p, "/");
        if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.')) {
            return false;
        }
        if (!p[n]) {
            return strlen(path) < WALK_PATH_MAX;
        }
        p += n + 1;
    }
}

int walk_create_dir(int dirfd, const char *path, struct orch_err *err)
{
    AUTO_FD int at = fd_open_beneath(dirfd, ".", O_RDONLY | O_DIRECTORY, 0, err);

    if (at < 0) {
        return at;
    }
    if (!walk_path_valid(path)) {
        return err_set(err, ORCH_E_HOSTILE, "\"%s\" is no path beneath a directory", path);
    }
    for (const char *p = path;;) {
        size_t n = strcspn(p, "/");
        AUTO_FREE char *name = xmemdup0(p, n);
        if (mkdirat(at, name, 0755) < 0 && errno != EEXIST) {
            return err_errno(err, ORCH_E_IO, "make %s", path);
        }
        int next = fd_open_beneath(at, name, O_RDONLY | O_DIRECTORY, 0, err);
        if (next < 0) {
            return next;
        }
        fd_close(&at);
        at = next;
        if (!p[n]) {
            return 0;
        }
        p += n + 1;
    }
}

int walk_create_file(int dirfd, const char *path, mode_t mode, struct orch_err *err)
{
    const char *slash = strrchr(path, '/');

    if (!walk_path_valid(path)) {
        return err_set(err, ORCH_E_HOSTILE, "\"%s\" is no path beneath a directory", path);
    }
    if (slash) {
        AUTO_FREE char *parent = xmemdup0(path, (size_t)(slash - path));
        TRY(walk_create_dir(dirfd, parent, err));
    }
    int fd = fd_open_beneath(dirfd, path, O_WRONLY | O_CREAT | O_EXCL, mode, err);
    if (fd >= 0 && fchmod(fd, mode) < 0) {
        err_errno(err, ORCH_E_IO, "chmod %s", path);
        fd_close(&fd);
        return err->code;
    }
    return fd;
}
