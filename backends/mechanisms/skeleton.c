/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/mechanisms/skeleton.h"

#include "backends/guest/control.h"
#include "backends/mechanisms/mount_plan.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_MAX ((size_t)8 << 20) /* one file of /etc */

struct root {
    char *shape; /* owned: what it was made for */
    char *path;  /* owned */
    uid_t *users;
    size_t user_count;
};

struct skeletons {
    char *dir;
    char *init_program;
    char *empty_dir, *empty_file;
    struct root *roots;
    size_t count;
};

/* ---- small file work below one root ---- */

static int put_text(int root, const char *path, const char *text, struct orch_err *err)
{
    AUTO_FD int fd = openat(root, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || fchmod(fd, 0644) < 0) {
        return err_errno(err, ORCH_E_IO, "make %s", path);
    }
    return fd_write_all(fd, text, strlen(text), err);
}

static int put_dir(int root, const char *path, struct orch_err *err)
{
    if (mkdirat(root, path, 0755) < 0 || fchmodat(root, path, 0755, 0) < 0) {
        return err_errno(err, ORCH_E_IO, "make %s", path);
    }
    return 0;
}

/* A file of the host, if it is there. */
static int put_copy(int root, const char *path, const char *from, mode_t mode, bool required, struct orch_err *err)
{
    AUTO_FREE char *data = NULL;
    size_t len = 0;
    int code = fd_read_file(from, COPY_MAX, &data, &len, err);
    if (code < 0) {
        if (required) {
            return code;
        }
        err_clear(err); /* programs inside do without it */
        return 0;
    }
    AUTO_FD int fd = openat(root, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return err_errno(err, ORCH_E_IO, "make %s", path);
    }
    TRY(fd_write_all(fd, data, len, err));
    return fchmod(fd, mode) < 0 ? err_errno(err, ORCH_E_IO, "chmod %s", path) : 0;
}

/* /bin, /lib and the others: links as on the host, or directories to be left empty. */
static int put_system_links(int root, struct orch_err *err)
{
    static const char *const names[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char host[16];
        char target[256];
        (void)snprintf(host, sizeof host, "/%s", names[i]);
        ssize_t n = readlink(host, target, sizeof target - 1);
        if (n <= 0) {
            continue;
        }
        target[n] = '\0';
        if (symlinkat(target, root, names[i]) < 0) {
            return err_errno(err, ORCH_E_IO, "make %s", host);
        }
    }
    return 0;
}

static int put_etc(int root, bool isolated, struct orch_err *err)
{
    /* the last two are mount points (mount_plan.c) */
    static const char *const dirs[] = {"etc", "etc/ssl", "etc/ssl/certs", "etc/alternatives"};
    static const struct {
        const char *path, *text;
    } files[] = {
        {"etc/passwd", "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n"},
        {"etc/group", "root:x:0:\nnogroup:x:65534:\n"},
        {"etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n"},
    };
    static const char *const copies[] = {"/etc/ld.so.cache", "/etc/services", "/etc/protocols", "/etc/localtime",
                                         "/etc/ssl/openssl.cnf"};
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        TRY(put_dir(root, dirs[i], err));
    }
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        TRY(put_text(root, files[i].path, files[i].text, err));
    }
    for (size_t i = 0; i < ARRAY_LEN(copies); i++) {
        TRY(put_copy(root, copies[i] + 1, copies[i], 0644, false, err));
    }
    if (!isolated) {
        TRY(put_copy(root, "etc/hosts", "/etc/hosts", 0644, false, err));
        return put_copy(root, "etc/resolv.conf", "/etc/resolv.conf", 0644, false, err);
    }
    TRY(put_text(root, "etc/hosts", "127.0.0.1 localhost\n", err));
    /* an address nobody answers for, refused at once without a route: resolvers that wait give up early */
    return put_text(root, "etc/resolv.conf", "nameserver 192.0.2.1\noptions timeout:1 attempts:1\n", err);
}

static int build_root(const struct skeletons *k, int root, const struct sandbox_spec *s, char *const *tops,
                      struct orch_err *err)
{
    static const char *const points[] = {"proc", "dev", "tmp", "home"};
    for (size_t i = 0; i < ARRAY_LEN(points); i++) {
        TRY(put_dir(root, points[i], err));
    }
    if (s->system) {
        TRY(put_dir(root, "usr", err));
        TRY(put_system_links(root, err));
    }
    for (char *const *t = tops; *t != NULL; t++) {
        bool file = false;
        for (size_t i = 0; i < s->grant_count; i++) {
            file = file || (s->grants[i].kind == SPEC_FILE && strcmp(s->grants[i].target + 1, *t) == 0);
        }
        for (size_t i = 0; i < s->file_count; i++) {
            file = file || strcmp(s->files[i].path + 1, *t) == 0;
        }
        TRY(file ? put_text(root, *t, "", err) : put_dir(root, *t, err));
    }
    TRY(put_etc(root, s->network == SPEC_NO_NETWORK, err));
    return k->init_program == NULL ? 0 : put_copy(root, &CONTROL_INIT_PATH[1], k->init_program, 0555, true, err);
}

/* ---- the set ---- */

int skeletons_new(const char *dir, const char *init_program, struct skeletons **ret, struct orch_err *err)
{
    AUTO_FD int fd = fd_open(dir, O_RDONLY | O_DIRECTORY, 0, err);
    if (fd < 0) {
        return fd;
    }
    if (mkdirat(fd, "empty", 0555) < 0) {
        return err_errno(err, ORCH_E_IO, "make %s/empty", dir);
    }
    AUTO_FD int file = openat(fd, "empty-file", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    if (file < 0) {
        return err_errno(err, ORCH_E_IO, "make %s/empty-file", dir);
    }
    struct skeletons *k = xcalloc(1, sizeof *k);
    *k = (struct skeletons){
        .dir = xstrdup(dir),
        .init_program = init_program != NULL ? xstrdup(init_program) : NULL,
        .empty_dir = path_join(dir, "empty"),
        .empty_file = path_join(dir, "empty-file"),
    };
    *ret = k;
    return 0;
}

void skeletons_free(struct skeletons *k)
{
    if (k == NULL) {
        return;
    }
    for (size_t i = 0; i < k->count; i++) {
        free(k->roots[i].shape);
        free(k->roots[i].path);
        free(k->roots[i].users);
    }
    free(k->roots);
    free(k->dir);
    free(k->init_program);
    free(k->empty_dir);
    free(k->empty_file);
    free(k);
}

static char *shape_of(const struct sandbox_spec *s, char *const *tops)
{
    struct buf b;
    buf_init(&b, BUF_MAX_LINE);
    buf_fmt(&b, "%d %d", (int)s->network, s->system ? 1 : 0);
    for (char *const *t = tops; *t != NULL; t++) {
        bool file = false;
        for (size_t i = 0; i < s->grant_count; i++) {
            file = file || (s->grants[i].kind == SPEC_FILE && strcmp(s->grants[i].target + 1, *t) == 0);
        }
        for (size_t i = 0; i < s->file_count; i++) {
            file = file || strcmp(s->files[i].path + 1, *t) == 0;
        }
        buf_fmt(&b, "/%s%s", file ? "f:" : "", *t);
    }
    return buf_take(&b, NULL);
}

static int add_root(struct skeletons *k, const struct sandbox_spec *s, char *const *tops, const char *shape,
                    struct orch_err *err)
{
    AUTO_FREE char *path = xasprintf("%s/%zu", k->dir, k->count);
    if (mkdir(path, 0755) < 0 || chmod(path, 0755) < 0) {
        return err_errno(err, ORCH_E_IO, "make %s", path);
    }
    AUTO_FD int root = fd_open(path, O_RDONLY | O_DIRECTORY, 0, err);
    if (root < 0) {
        return root;
    }
    int code = build_root(k, root, s, tops, err);
    if (code < 0) {
        struct orch_err ignored = ERR_INIT;
        (void)!fd_remove_tree(AT_FDCWD, path, &ignored);
        return err_wrap(err, "prepare a root");
    }
    k->roots = xrealloc(k->roots, (k->count + 1) * sizeof *k->roots);
    k->roots[k->count++] = (struct root){.shape = xstrdup(shape), .path = take(path)};
    return 0;
}

static int append(const char *root, const char *file, const char *line, struct orch_err *err)
{
    AUTO_FREE char *path = path_join(root, file);
    AUTO_FD int fd = fd_open(path, O_WRONLY | O_APPEND | O_NOFOLLOW, 0, err);
    return fd < 0 ? fd : fd_write_all(fd, line, strlen(line), err);
}

/* Programs ask who they are: every slot that uses a root has its line. */
static int know_user(struct root *r, uid_t uid, gid_t gid, struct orch_err *err)
{
    for (size_t i = 0; i < r->user_count; i++) {
        if (r->users[i] == uid) {
            return 0;
        }
    }
    AUTO_FREE char *user = xasprintf("agent:x:%u:%u:agent:" SPEC_HOME ":/bin/bash\n", uid, gid);
    AUTO_FREE char *group = xasprintf("agent:x:%u:\n", gid);
    if (uid != 0) {
        TRY(append(r->path, "etc/passwd", user, err));
        TRY(append(r->path, "etc/group", group, err));
    }
    r->users = xrealloc(r->users, (r->user_count + 1) * sizeof *r->users);
    r->users[r->user_count++] = uid;
    return 0;
}

int skeleton_for(struct skeletons *k, const struct sandbox_spec *s, uid_t uid, gid_t gid, const char **ret_path,
                 struct orch_err *err)
{
    AUTO_STRV char **tops = mount_plan_tops(s);
    AUTO_FREE char *shape = shape_of(s, tops);
    size_t i = 0;
    while (i < k->count && strcmp(k->roots[i].shape, shape) != 0) {
        i++;
    }
    if (i == k->count) {
        TRY(add_root(k, s, tops, shape, err));
    }
    TRY(know_user(&k->roots[i], uid, gid, err));
    *ret_path = k->roots[i].path;
    return 0;
}

const char *skeletons_empty_dir(const struct skeletons *k)
{
    return k->empty_dir;
}

const char *skeletons_empty_file(const struct skeletons *k)
{
    return k->empty_file;
}
