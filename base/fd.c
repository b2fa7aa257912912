/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"

#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

void fd_close(int *fd)
{
    if (*fd >= 0) {
        int saved = errno;
        (void)close(*fd);
        errno = saved;
    }
    *fd = -1;
}

int fd_open_beneath(int dirfd, const char *path, int flags, mode_t mode, struct orch_err *err)
{
    struct open_how how = {
        .flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
        .mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? mode : 0,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    long fd;
    do {
        fd = syscall(SYS_openat2, dirfd, path, &how, sizeof how);
    } while (fd < 0 && (errno == EINTR || errno == EAGAIN));
    if (fd >= 0) {
        return (int)fd;
    }
    int code = errno == ELOOP || errno == EXDEV ? ORCH_E_HOSTILE : errno == ENOENT ? ORCH_E_NOT_FOUND : ORCH_E_IO;
    return err_errno(err, code, "open %s", path);
}

void fd_unlock_beneath(int dirfd, const char *path)
{
    struct orch_err ignored = ERR_INIT;
    AUTO_FD int fd = fd_open_beneath(dirfd, path, O_PATH, 0, &ignored);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != geteuid() || !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))) {
        return;
    }
    char self[40];
    (void)snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    (void)!chmod(self, (st.st_mode & 0777) | (S_ISDIR(st.st_mode) ? 0700 : 0400));
}

int fd_open(const char *path, int flags, mode_t mode, struct orch_err *err)
{
    int fd;
    do {
        fd = open(path, flags | O_CLOEXEC, mode);
    } while (fd < 0 && errno == EINTR);
    if (fd >= 0) {
        return fd;
    }
    return err_errno(err, errno == ENOENT ? ORCH_E_NOT_FOUND : ORCH_E_IO, "open %s", path);
}

int fd_read_all(int fd, size_t max, char **ret_data, size_t *ret_len, struct orch_err *err)
{
    size_t cap = 4096 < max ? 4096 : max;
    size_t len = 0;
    AUTO_FREE char *data = xmalloc(cap + 1);
    for (;;) {
        if (len == cap) {
            if (cap == max) {
                char extra;
                ssize_t more = read(fd, &extra, 1);
                if (more == 0) {
                    break;
                }
                return more < 0 ? err_errno(err, ORCH_E_IO, "read")
                                : err_set(err, ORCH_E_LIMIT, "larger than the limit of %zu bytes", max);
            }
            cap = cap > max / 2 ? max : cap * 2;
            data = xrealloc(data, cap + 1);
        }
        ssize_t n = read(fd, data + len, cap - len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return err_errno(err, ORCH_E_IO, "read");
        }
        if (n == 0) {
            break;
        }
        len += (size_t)n;
    }
    data[len] = '\0';
    *ret_data = take(data);
    if (ret_len != NULL) {
        *ret_len = len;
    }
    return 0;
}

static int read_regular(int fd, const char *path, size_t max, char **ret_data, size_t *ret_len, struct orch_err *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0) {
        return err_errno(err, ORCH_E_IO, "stat %s", path);
    }
    if (!S_ISREG(st.st_mode)) {
        return err_set(err, ORCH_E_HOSTILE, "%s: not a regular file", path);
    }
    int r = fd_read_all(fd, max, ret_data, ret_len, err);
    return r < 0 ? err_wrap(err, "%s", path) : 0;
}

/* O_NONBLOCK: a pipe planted under the name must not hang us; fstat then refuses it. */
int fd_read_file(const char *path, size_t max, char **ret_data, size_t *ret_len, struct orch_err *err)
{
    AUTO_FD int fd = fd_open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, err);
    TRY(fd);
    return read_regular(fd, path, max, ret_data, ret_len, err);
}

int fd_read_file_at(int dirfd, const char *path, size_t max, char **ret_data, size_t *ret_len, struct orch_err *err)
{
    AUTO_FD int fd = fd_open_beneath(dirfd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, err);
    TRY(fd);
    return read_regular(fd, path, max, ret_data, ret_len, err);
}

int fd_write_all(int fd, const void *data, size_t len, struct orch_err *err)
{
    const char *p = data;
    while (len > 0) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return err_errno(err, ORCH_E_IO, "write");
        }
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

int fd_overwrite(int fd, const void *data, size_t len, struct orch_err *err)
{
    TRY(fd_write_all(fd, data, len, err));
    return ftruncate(fd, (off_t)len) < 0 ? err_errno(err, ORCH_E_IO, "cut a file") : 0;
}

int fd_mkdirs(const char *path, mode_t mode, struct orch_err *err)
{
    if (mkdir(path, mode) == 0) {
        return 0; /* the common case: only the last one was missing */
    }
    AUTO_FREE char *copy = xstrdup(path);
    for (char *p = copy + (copy[0] == '/' ? 1 : 0);; p++) {
        if (*p != '/' && *p != '\0') {
            continue;
        }
        char kept = *p;
        *p = '\0';
        if (copy[0] != '\0' && mkdir(copy, mode) < 0 && errno != EEXIST) {
            return err_errno(err, ORCH_E_IO, "make directory %s", copy);
        }
        *p = kept;
        if (kept == '\0') {
            break;
        }
    }
    struct stat st;
    if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode)) {
        errno = ENOTDIR;
        return err_errno(err, ORCH_E_IO, "make directory %s", path);
    }
    return 0;
}

/*
 * The walk keeps one descriptor however deep the tree is: it goes down with
 * openat and up with "..", which is safe because no process of the sandbox is
 * alive and the device is compared on the way up.
 */
struct remover {
    int fd; /* current directory */
    dev_t device;
    size_t depth; /* below the tree's root */
};

static int open_dir(int dirfd, const char *name)
{
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == EACCES && fchmodat(dirfd, name, 0700, 0) == 0) {
        fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    return fd;
}

/* Removes what can be unlinked; returns the name of a subdirectory to go into (owned), or NULL when empty. */
static char *remove_entries(struct remover *r, struct orch_err *err)
{
    int copy = openat(r->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (dir == NULL) {
        fd_close(&copy);
        err_errno(err, ORCH_E_IO, "read a directory to remove");
        return NULL;
    }
    char *down = NULL;
    const struct dirent *e;
    while (down == NULL && (e = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe): own stream */
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) {
            continue;
        }
        if (unlinkat(r->fd, e->d_name, 0) == 0 || errno == ENOENT) {
            continue;
        }
        if (errno == EACCES && fchmod(r->fd, 0700) == 0 && unlinkat(r->fd, e->d_name, 0) == 0) {
            continue;
        }
        if (errno != EISDIR && errno != EPERM) {
            err_errno(err, ORCH_E_IO, "remove a file");
            break;
        }
        if (unlinkat(r->fd, e->d_name, AT_REMOVEDIR) == 0) {
            continue;
        }
        down = xstrdup(e->d_name);
    }
    closedir(dir);
    return down;
}

static int enter(struct remover *r, const char *name, struct orch_err *err)
{
    int fd = open_dir(r->fd, name);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        fd_close(&fd);
        return err_errno(err, ORCH_E_IO, "enter a directory to remove");
    }
    if (st.st_dev != r->device) {
        fd_close(&fd);
        return err_set(err, ORCH_E_HOSTILE, "a mount point inside a tree to remove");
    }
    fd_close(&r->fd);
    r->fd = fd;
    r->depth++;
    return 0;
}

static int leave(struct remover *r, struct orch_err *err)
{
    int fd = openat(r->fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return err_errno(err, ORCH_E_IO, "leave a directory to remove");
    }
    fd_close(&r->fd);
    r->fd = fd;
    r->depth--;
    return 0;
}

static int empty_tree(struct remover *r, struct orch_err *err)
{
    for (;;) {
        err_clear(err);
        AUTO_FREE char *down = remove_entries(r, err);
        if (err->code < 0) {
            return err->code;
        }
        if (down != NULL) {
            TRY(enter(r, down, err));
        } else if (r->depth == 0) {
            return 0;
        } else {
            TRY(leave(r, err));
        }
    }
}

int fd_empty_dir(int fd, struct orch_err *err)
{
    struct stat st;
    struct remover r = {.fd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (r.fd < 0 || fstat(r.fd, &st) < 0) {
        fd_close(&r.fd);
        return err_errno(err, ORCH_E_IO, "empty a directory");
    }
    r.device = st.st_dev;
    int code = empty_tree(&r, err);
    fd_close(&r.fd);
    return code;
}

int fd_remove_tree(int dirfd, const char *name, struct orch_err *err)
{
    if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT) {
        return 0;
    }
    struct stat st;
    struct remover r = {.fd = open_dir(dirfd, name)};
    if (r.fd < 0 || fstat(r.fd, &st) < 0) {
        fd_close(&r.fd);
        return err_errno(err, ORCH_E_IO, "remove %s", name);
    }
    r.device = st.st_dev;
    int code = empty_tree(&r, err);
    fd_close(&r.fd);
    if (code < 0) {
        return err_wrap(err, "remove %s", name);
    }
    if (unlinkat(dirfd, name, AT_REMOVEDIR) < 0 && errno != ENOENT) {
        return err_errno(err, ORCH_E_IO, "remove %s", name);
    }
    return 0;
}

int fd_memfd(const char *name, const void *data, size_t len, struct orch_err *err)
{
    AUTO_FD int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return err_errno(err, ORCH_E_IO, "memfd_create");
    }
    TRY(fd_write_all(fd, data, len, err));
    if (lseek(fd, 0, SEEK_SET) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0) {
        return err_errno(err, ORCH_E_IO, "seal a memfd");
    }
    int out = fd;
    fd = -1;
    return out;
}
