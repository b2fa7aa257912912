/* SPDX-License-Identifier: Apache-2.0 */
/* Work directories that a sandbox left exactly as it got them, kept for the next one. Making and removing directories
 * is dear: ext4 passes over inodes that were freed in the last five seconds, and frees blocks at once where it is
 * mounted with `discard`. Nothing may travel this way from one sandbox to another, hence "exactly": empty, no
 * attribute, and neither changed nor modified since it was given (a process cannot set the change time, inode(7)). */
#include "backends/node/node.h"

#include "base/fd.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define SPARES_MAX 64

struct work_dir {
    char *name; /* below the sandbox's directory */
    struct timespec changed, modified;
    mode_t mode;
};

struct spare {
    char *path; /* below the node's directory */
    char *shape;
    struct spare *next;
};

/* The work directories a spec asks for; NULL if one of them comes with content. */
static char *shape_of(const struct sandbox_spec *s)
{
    struct buf b;
    buf_init(&b, BUF_MAX_LINE);
    bool empty = true;
    for (size_t i = 0; i < s->grant_count; i++) {
        const struct spec_grant *g = &s->grants[i];
        if (strncmp(g->source, "work:", 5) == 0) {
            empty = empty && g->from == NULL;
            buf_fmt(&b, "%s\n", g->source + 5);
        }
    }
    AUTO_FREE char *shape = buf_take(&b, NULL);
    return empty ? take(shape) : NULL;
}

bool spare_take(struct node_sandbox *sb)
{
    struct node *n = sb->node;
    AUTO_FREE char *shape = shape_of(&sb->spec);
    for (struct spare **at = &n->spares; shape != NULL && *at != NULL; at = &(*at)->next) {
        struct spare *s = *at;
        if (strcmp(s->shape, shape) != 0) {
            continue;
        }
        bool taken = renameat(n->workfd, s->path, AT_FDCWD, sb->dir) == 0;
        *at = s->next;
        n->spare_count--;
        free(s->path);
        free(s->shape);
        free(s);
        return taken;
    }
    return false;
}

void spare_note(struct node_sandbox *sb, const char *name, int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0) {
        return; /* one too few are noted: it is not kept */
    }
    sb->works = xrealloc(sb->works, (sb->work_count + 1) * sizeof *sb->works);
    sb->works[sb->work_count++] =
        (struct work_dir){.name = xstrdup(name), .changed = st.st_ctim, .modified = st.st_mtim, .mode = st.st_mode};
}

static bool same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static bool untouched(int dirfd, const struct work_dir *w)
{
    struct stat st;
    struct orch_err ignored = ERR_INIT;
    AUTO_FD int fd = fd_open_beneath(dirfd, w->name, O_RDONLY | O_DIRECTORY, 0, &ignored);
    return fd >= 0 && fstat(fd, &st) == 0 && same_time(st.st_ctim, w->changed) && same_time(st.st_mtim, w->modified) &&
           st.st_mode == w->mode && flistxattr(fd, NULL, 0) == 0;
}

bool spare_keep(struct node_sandbox *sb)
{
    struct node *n = sb->node;
    AUTO_FREE char *shape = shape_of(&sb->spec);
    size_t wanted = 0;
    for (const char *p = shape != NULL ? shape : ""; *p != '\0'; p++) {
        wanted += *p == '\n';
    }
    if (shape == NULL || wanted == 0 || wanted != sb->work_count || n->spare_count >= SPARES_MAX) {
        return false;
    }
    struct orch_err ignored = ERR_INIT;
    AUTO_FD int dir = fd_open(sb->dir, O_RDONLY | O_DIRECTORY, 0, &ignored);
    for (size_t i = 0; i < sb->work_count; i++) {
        if (dir < 0 || !untouched(dir, &sb->works[i])) {
            return false;
        }
    }
    AUTO_FREE char *path = xasprintf("spare/%llu", (unsigned long long)n->spares_made++);
    if (renameat(AT_FDCWD, sb->dir, n->workfd, path) < 0) {
        return false;
    }
    struct spare *s = xcalloc(1, sizeof *s);
    *s = (struct spare){.path = take(path), .shape = take(shape), .next = n->spares};
    n->spares = s;
    n->spare_count++;
    return true;
}

void spare_forget(struct node_sandbox *sb)
{
    for (size_t i = 0; i < sb->work_count; i++) {
        free(sb->works[i].name);
    }
    free(sb->works);
    sb->works = NULL;
    sb->work_count = 0;
}

void spares_free(struct node *n)
{
    while (n->spares != NULL) {
        struct spare *s = n->spares;
        n->spares = s->next;
        free(s->path);
        free(s->shape);
        free(s);
    }
}
