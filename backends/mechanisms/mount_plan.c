/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Most of a sandbox's tree costs no mount at all: each first component ("/w") is
 * one prepared directory of the node, bound read-only, that already holds the
 * mount points of the grants and the inline files.
 */
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

void mount_plan_done(struct mount_plan *p)
{
    for (size_t i = 0; i < p->count; i++) {
        free(p->steps[i].source);
        free(p->steps[i].target);
    }
    free(p->steps);
    *p = (struct mount_plan){.steps = NULL};
}

void mount_plan_add(struct mount_plan *p, enum mount_kind kind, const char *source, const char *target, uint64_t size)
{
    p->steps = xrealloc(p->steps, (p->count + 1) * sizeof *p->steps);
    p->steps[p->count++] = (struct mount_step){
        .kind = kind, .source = source == NULL ? NULL : xstrdup(source), .target = xstrdup(target), .size = size};
}

/* ---- first components ---- */

static bool in_memory(const char *target)
{
    return path_is_beneath(target, "/tmp") || path_is_beneath(target, "/home");
}

static char *top_of(const char *target)
{
    return xmemdup0(target + 1, strcspn(target + 1, "/"));
}

static char **add_top(char **tops, const char *target)
{
    if (in_memory(target)) {
        return tops;
    }
    AUTO_FREE char *top = top_of(target);
    for (char **t = tops; *t != NULL; t++) {
        if (strcmp(*t, top) == 0) {
            return tops;
        }
    }
    return strv_append(tops, take(top));
}

static int text_order(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

char **mount_plan_tops(const struct sandbox_spec *s)
{
    char **tops = xcalloc(1, sizeof *tops);
    for (size_t i = 0; i < s->grant_count; i++) {
        tops = add_top(tops, s->grants[i].target);
    }
    for (size_t i = 0; i < s->file_count; i++) {
        tops = add_top(tops, s->files[i].path);
    }
    for (char **d = s->dirs; *d != NULL; d++) {
        tops = add_top(tops, *d);
    }
    qsort(tops, strv_len(tops), sizeof *tops, text_order);
    return tops;
}

char *mount_plan_shape(const struct sandbox_spec *s, char *const *sources)
{
    struct buf b;
    buf_init(&b, BUF_MAX_TEXT);
    for (size_t i = 0; i < s->grant_count; i++) {
        buf_fmt(&b, "g%d%d%s\n", (int)s->grants[i].kind, sources[i] != NULL, s->grants[i].target);
    }
    for (size_t i = 0; i < s->file_count; i++) {
        buf_fmt(&b, "f%s\n", s->files[i].path);
    }
    for (char **d = s->dirs; *d != NULL; d++) {
        buf_fmt(&b, "d%s\n", *d);
    }
    return buf_take(&b, NULL);
}

/* ---- mount points ---- */

struct lowering {
    const struct sandbox_spec *s;
    char *const *sources;
    const struct mount_place *place;
    struct mount_plan grants; /* ordered by depth at the end */
    struct orch_err *err;
};

/* The deepest granted directory strictly above `target`, or NULL. */
static const struct spec_grant *grant_above(const struct lowering *l, const char *target, const char **ret_source)
{
    const struct spec_grant *best = NULL;
    for (size_t i = 0; i < l->s->grant_count; i++) {
        const struct spec_grant *g = &l->s->grants[i];
        if (l->sources[i] != NULL && strcmp(g->target, target) != 0 && path_is_beneath(target, g->target) &&
            (best == NULL || strlen(g->target) > strlen(best->target))) {
            best = g;
            *ret_source = l->sources[i];
        }
    }
    return best;
}

/* Makes `path` beneath dirfd: directories, and a file or directory at its end; no link is followed. */
static int make_point(int dirfd, const char *path, enum spec_kind kind, struct orch_err *err)
{
    AUTO_FD int at = fcntl(dirfd, F_DUPFD_CLOEXEC, 3);
    while (at >= 0) {
        size_t n = strcspn(path, "/");
        AUTO_FREE char *name = xmemdup0(path, n);
        bool last = path[n] == '\0';
        if (last && kind == SPEC_FILE) {
            AUTO_FD int fd = openat(at, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0444);
            return fd >= 0 ? 0 : err_errno(err, ORCH_E_HOSTILE, "make the mount point %s", name);
        }
        if (mkdirat(at, name, 0755) < 0 && errno != EEXIST) {
            return err_errno(err, ORCH_E_IO, "make the mount point %s", name);
        }
        if (last) {
            return 0;
        }
        int next = fd_open_beneath(at, name, O_RDONLY | O_DIRECTORY, 0, err);
        if (next < 0) {
            return next;
        }
        fd_close(&at);
        at = next;
        path += n + 1;
    }
    return err_errno(err, ORCH_E_IO, "make a mount point");
}

static int check_point(int dirfd, const char *path, enum spec_kind kind, struct orch_err *err)
{
    AUTO_FD int fd = fd_open_beneath(dirfd, path, O_PATH, 0, err);
    if (fd < 0) {
        return fd;
    }
    struct stat st;
    if (fstat(fd, &st) < 0 || S_ISLNK(st.st_mode)) {
        return err_set(err, ORCH_E_HOSTILE, "\"%s\" is a link where a mount would be", path);
    }
    if (S_ISDIR(st.st_mode) != (kind == SPEC_DIR)) {
        return err_set(err, ORCH_E_CONFIG, "\"%s\" is of another kind than what would be mounted on it", path);
    }
    return 0;
}

/* A point inside another grant's source: must be there, without a link; only the sandbox's own directories get it made.
 */
static int point_in_grant(struct lowering *l, const struct spec_grant *above, const char *source, const char *target,
                          enum spec_kind kind)
{
    const char *rest = target + strlen(above->target) + 1;
    AUTO_FD int dirfd = fd_open(source, O_PATH | O_DIRECTORY, 0, l->err);
    if (dirfd < 0) {
        return err_wrap(l->err, "%s", above->target);
    }
    int code = check_point(dirfd, rest, kind, l->err);
    if (code != ORCH_E_NOT_FOUND) {
        return code < 0 ? err_wrap(l->err, "%s", target) : 0;
    }
    if (strncmp(above->source, "work:", 5) != 0) {
        err_clear(l->err);
        return err_set(l->err, ORCH_E_CONFIG, "%s: does not exist in what is granted at %s", target, above->target);
    }
    err_clear(l->err);
    AUTO_FD int real = fd_open(source, O_RDONLY | O_DIRECTORY, 0, l->err);
    return real < 0 ? real : make_point(real, rest, kind, l->err);
}

static int make_root_point(struct lowering *l, const char *target, enum spec_kind kind)
{
    if (l->place->prepared) {
        return 0;
    }
    AUTO_FREE char *inside = xasprintf("root%s", target);
    return make_point(l->place->dirfd, inside, kind, l->err);
}

/* Directories in memory down to a mount point there: the mechanism alone would close them to the sandbox's identity. */
static void memory_parents(struct lowering *l, const char *target, bool whole)
{
    const char *first = strchr(target + 1, '/');
    for (const char *p = first; p != NULL;) {
        p = strchr(p + 1, '/');
        if (p == NULL && !whole) {
            return;
        }
        AUTO_FREE char *dir = p == NULL ? xstrdup(target) : xmemdup0(target, (size_t)(p - target));
        bool there = false;
        for (size_t i = 0; i < l->grants.count; i++) {
            there = there || strcmp(l->grants.steps[i].target, dir) == 0;
        }
        if (!there) {
            mount_plan_add(&l->grants, MOUNT_DIR, NULL, dir, 0);
        }
    }
}

static int prepare_point(struct lowering *l, const char *target, enum spec_kind kind)
{
    const char *source = NULL;
    const struct spec_grant *above = grant_above(l, target, &source);
    if (above != NULL) {
        return point_in_grant(l, above, source, target, kind);
    }
    if (in_memory(target)) {
        memory_parents(l, target, kind == SPEC_DIR);
        return 0;
    }
    if (strchr(target + 1, '/') == NULL) {
        return 0; /* a first component is the skeleton's */
    }
    return make_root_point(l, target, kind);
}

/* ---- parts ---- */

static int write_file(int dirfd, const char *path, const struct spec_file *f, struct orch_err *err)
{
    if (fchmodat(dirfd, path, 0600, 0) < 0 && errno != ENOENT) { /* closed by its last use */
        return err_errno(err, ORCH_E_IO, "chmod %s", path);
    }
    AUTO_FD int fd = fd_open_beneath(dirfd, path, O_WRONLY | O_CREAT, 0600, err);
    if (fd < 0) {
        return fd;
    }
    TRY(fd_overwrite(fd, f->data, f->len, err));
    return fchmod(fd, f->mode & 0555) < 0 ? err_errno(err, ORCH_E_IO, "chmod %s", path) : 0;
}

static int lower_file(struct lowering *l, size_t i)
{
    const struct spec_file *f = &l->s->files[i];
    const char *source = NULL;
    bool own = grant_above(l, f->path, &source) == NULL && !in_memory(f->path) && strchr(f->path + 1, '/') != NULL;
    TRY(prepare_point(l, f->path, SPEC_FILE));
    AUTO_FREE char *relative = own ? xasprintf("root%s", f->path) : xasprintf("files/%zu", i);
    if (!own) {
        if (!l->place->prepared && mkdirat(l->place->dirfd, "files", 0755) < 0 && errno != EEXIST) {
            return err_errno(l->err, ORCH_E_IO, "make a directory");
        }
        AUTO_FREE char *full = path_join(l->place->dir, relative);
        mount_plan_add(&l->grants, MOUNT_RO_BIND, full, f->path, 0);
    }
    return write_file(l->place->dirfd, relative, f, l->err);
}

static int lower_grant(struct lowering *l, size_t i)
{
    const struct spec_grant *g = &l->s->grants[i];
    if (l->sources[i] == NULL) {
        return 0;
    }
    TRY(prepare_point(l, g->target, g->kind));
    mount_plan_add(&l->grants, g->mode == SPEC_RW ? MOUNT_BIND : MOUNT_RO_BIND, l->sources[i], g->target, 0);
    return 0;
}

/* Binds every directory between a writable grant and what is hidden in it onto itself: a mount point cannot be
 * renamed away from under its cover. */
static void pin_ancestors(struct lowering *l, const char *source, const char *target, const char *rest)
{
    for (const char *p = strchr(rest, '/'); p != NULL; p = strchr(p + 1, '/')) {
        AUTO_FREE char *part = xmemdup0(rest, (size_t)(p - rest));
        AUTO_FREE char *from = path_join(source, part);
        AUTO_FREE char *to = path_join(target, part);
        mount_plan_add(&l->grants, MOUNT_BIND, from, to, 0);
    }
}

static int lower_hide(struct lowering *l, const char *path)
{
    const char *source = NULL;
    const struct spec_grant *above = NULL;
    for (size_t i = 0; i < l->s->grant_count; i++) {
        if (strcmp(l->s->grants[i].target, path) == 0) {
            return err_set(l->err, ORCH_E_CONFIG, "hide: %s is granted as a whole", path);
        }
    }
    above = grant_above(l, path, &source);
    if (above == NULL) {
        return 0; /* not granted: it does not exist inside */
    }
    const char *rest = path + strlen(above->target) + 1;
    AUTO_FD int dirfd = fd_open(source, O_PATH | O_DIRECTORY, 0, l->err);
    if (dirfd < 0) {
        return dirfd;
    }
    AUTO_FD int fd = fd_open_beneath(dirfd, rest, O_PATH, 0, l->err);
    if (fd == ORCH_E_NOT_FOUND) {
        err_clear(l->err);
        return 0;
    }
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || S_ISLNK(st.st_mode)) {
        err_clear(l->err);
        return err_set(l->err, ORCH_E_HOSTILE, "hide: %s is or lies behind a link: what it leads to would stay visible",
                       path);
    }
    if (above->mode == SPEC_RW) {
        pin_ancestors(l, source, above->target, rest);
    }
    mount_plan_add(&l->grants, MOUNT_RO_BIND, S_ISDIR(st.st_mode) ? l->place->empty_dir : l->place->empty_file, path,
                   0);
    return 0;
}

static size_t depth_of(const char *path)
{
    size_t n = 0;
    for (; *path != '\0'; path++) {
        n += *path == '/';
    }
    return n;
}

/* Insertion sort: stable, and a few dozen steps at most. */
static void order_by_depth(struct mount_plan *p)
{
    for (size_t i = 1; i < p->count; i++) {
        struct mount_step step = p->steps[i];
        size_t k = i;
        for (; k > 0 && depth_of(p->steps[k - 1].target) > depth_of(step.target); k--) {
            p->steps[k] = p->steps[k - 1];
        }
        p->steps[k] = step;
    }
}

static uint64_t or_default(uint64_t n, uint64_t fallback)
{
    return n == 0 ? fallback : n;
}

/* Directories of the machine's /etc that programs in /usr rely on; as links they would be something else inside. */
static void lower_shared(struct mount_plan *p)
{
    static const char *const shared[] = {"/etc/alternatives", "/etc/ssl/certs"};
    for (size_t i = 0; i < ARRAY_LEN(shared); i++) {
        struct stat st;
        if (lstat(shared[i], &st) == 0 && S_ISDIR(st.st_mode)) {
            mount_plan_add(p, MOUNT_RO_BIND, shared[i], shared[i], 0);
        }
    }
}

static void lower_base(const struct lowering *l, struct mount_plan *p)
{
    const struct spec_limits *limits = &l->s->limits;
    uint64_t tmp = or_default(limits->tmp, SPEC_DEFAULT_TMP);
    mount_plan_add(p, MOUNT_RO_BIND, l->place->skeleton, "/", 0);
    if (l->s->system) {
        mount_plan_add(p, MOUNT_RO_BIND, "/usr", "/usr", 0);
        lower_shared(p);
    }
    mount_plan_add(p, MOUNT_PROC, NULL, "/proc", 0);
    mount_plan_add(p, MOUNT_RO_BIND, "/proc/sys", "/proc/sys", 0);
    mount_plan_add(p, MOUNT_DEV, NULL, "/dev", 0);
    mount_plan_add(p, MOUNT_TMPFS, NULL, "/dev/shm", tmp);
    mount_plan_add(p, MOUNT_REMOUNT_RO, NULL, "/dev", 0);
    mount_plan_add(p, MOUNT_TMPFS, NULL, "/tmp", tmp);
    mount_plan_add(p, MOUNT_TMPFS, NULL, "/home", or_default(limits->home, SPEC_DEFAULT_HOME));
}

/* Binds the prepared directory of each first component, unless a grant is mounted there as a whole. */
static int lower_tops(struct lowering *l)
{
    AUTO_STRV char **tops = mount_plan_tops(l->s);
    for (char **t = tops; *t != NULL; t++) {
        AUTO_FREE char *target = xasprintf("/%s", *t);
        AUTO_FREE char *source = xasprintf("%s/root/%s", l->place->dir, *t);
        bool whole = false;
        for (size_t i = 0; i < l->s->grant_count; i++) {
            whole = whole || (l->sources[i] != NULL && strcmp(l->s->grants[i].target, target) == 0);
        }
        for (size_t i = 0; i < l->s->file_count; i++) {
            whole = whole || strcmp(l->s->files[i].path, target) == 0;
        }
        if (!whole) {
            TRY(make_root_point(l, target, SPEC_DIR));
            mount_plan_add(&l->grants, MOUNT_RO_BIND, source, target, 0);
        }
    }
    return 0;
}

static int lower_all(struct lowering *l)
{
    if (!l->place->prepared && mkdirat(l->place->dirfd, "root", 0755) < 0 && errno != EEXIST) {
        return err_errno(l->err, ORCH_E_IO, "make a directory");
    }
    TRY(lower_tops(l));
    for (char **d = l->s->dirs; *d != NULL; d++) {
        TRY(prepare_point(l, *d, SPEC_DIR));
    }
    for (size_t i = 0; i < l->s->grant_count; i++) {
        TRY(lower_grant(l, i));
    }
    for (size_t i = 0; i < l->s->file_count; i++) {
        TRY(lower_file(l, i));
    }
    for (char **h = l->s->hide; *h != NULL; h++) {
        TRY(lower_hide(l, *h));
    }
    return 0;
}

int mount_plan_lower(const struct sandbox_spec *s, char *const *sources, const struct mount_place *place,
                     struct mount_plan *ret, struct orch_err *err)
{
    struct lowering l = {.s = s, .sources = sources, .place = place, .err = err};
    int code = lower_all(&l);
    if (code == 0) {
        struct mount_plan p = {.steps = NULL};
        lower_base(&l, &p);
        order_by_depth(&l.grants);
        for (size_t i = 0; i < l.grants.count; i++) {
            const struct mount_step *step = &l.grants.steps[i];
            mount_plan_add(&p, step->kind, step->source, step->target, step->size);
        }
        *ret = p;
    }
    mount_plan_done(&l.grants);
    return code;
}
