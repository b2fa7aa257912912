/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox has on disk: <work>/s/<name>/ holds its work directories, <work>/places/<n>/ its mount points. Making
 * and removing directories was the dearest part of a short sandbox, hence places are used again. */
#include "backends/node/node.h"

#include "backends/node/tree_stream.h"
#include "backends/node/tree_walk.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_CHUNK ((size_t)256 << 10)

int files_place(struct node *n, const char *shape, struct place **ret, struct orch_err *err)
{
    for (struct place *p = n->places; p != NULL; p = p->next) {
        if (!p->busy && p->prepared && strcmp(p->shape, shape) == 0) {
            p->busy = true;
            *ret = p;
            return 0;
        }
    }
    AUTO_FREE char *relative = xasprintf("places/%u", n->place_count++);
    if (mkdirat(n->workfd, relative, 0755) < 0) {
        return err_errno(err, ORCH_E_IO, "make %s", relative);
    }
    struct place *p = xcalloc(1, sizeof *p);
    *p = (struct place){.shape = xstrdup(shape), .dir = path_join(n->work, relative), .busy = true, .next = n->places};
    n->places = p;
    *ret = p;
    return 0;
}

void files_free_places(struct node *n)
{
    while (n->places != NULL) {
        struct place *p = n->places;
        n->places = p->next;
        free(p->shape);
        free(p->dir);
        free(p);
    }
}

/* Copies a tree through the same rules as one that came over the stream. */
static int copy_tree(const char *from, int to, struct orch_err *err)
{
    struct tree_limits limits = {.links = true};
    struct tree_packer *p = NULL;
    struct tree_unpacker *u = NULL;
    AUTO_FD int dir = fd_open(from, O_RDONLY | O_DIRECTORY, 0, err);
    if (dir < 0) {
        return dir;
    }
    TRY(tree_packer_new(dir, &limits, &p, err));
    AUTO_FREE char *chunk = xmalloc(COPY_CHUNK);
    int code = tree_unpacker_new(to, &limits, &u, err);
    size_t n = 1;
    while (code == 0 && n > 0) {
        code = tree_packer_read(p, chunk, COPY_CHUNK, &n, err);
        if (code == 0) {
            code = tree_unpacker_feed(u, chunk, n, err);
        }
    }
    tree_packer_free(p);
    tree_unpacker_free(u);
    return code;
}

/* An absolute path or a tree, as a path on this machine. Borrowed from the spec or the node. */
static int resolve_outside(struct node_sandbox *sb, const char *source, const char **ret, struct orch_err *err)
{
    if (strncmp(source, "tree:", 5) == 0) {
        *ret = tree_path(sb->node, source + 5);
        return *ret != NULL ? 0 : err_set(err, ORCH_E_NOT_FOUND, "%s was not put here", source);
    }
    if (!sb->node->shares_paths) {
        return err_set(err, ORCH_E_CONFIG, "%s: this node shares no paths with the host", source);
    }
    *ret = source;
    return 0;
}

static int give(int fd, const struct node_sandbox *sb, struct orch_err *err)
{
    bool named = identity_pool_named(sb->node->identities);
    return named ? tree_chown(fd, (uid_t)-1, sb->identity.uid, sb->identity.gid, err) : 0;
}

static int prepare_work(struct node_sandbox *sb, const struct spec_grant *g, char **ret, struct orch_err *err)
{
    AUTO_FREE char *path = path_join(sb->dir, g->source + 5);
    TRY(fd_mkdirs(path, 0755, err));
    AUTO_FD int fd = fd_open(path, O_RDONLY | O_DIRECTORY, 0, err);
    if (fd < 0) {
        return fd;
    }
    if (g->from != NULL) {
        const char *from = NULL;
        TRY(resolve_outside(sb, g->from, &from, err));
        if (copy_tree(from, fd, err) < 0) {
            return err_wrap(err, "copy %s", g->from);
        }
    }
    TRY(give(fd, sb, err));
    spare_note(sb, g->source + 5, fd);
    *ret = take(path);
    return 0;
}

/* Lends a host directory or file: the sandbox's identity owns it until the end. */
static int lend(struct node_sandbox *sb, const char *path, struct orch_err *err)
{
    if (!identity_pool_named(sb->node->identities)) {
        return 0;
    }
    AUTO_FD int fd = fd_open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW, 0, err);
    struct stat st;
    if (fd < 0) {
        return fd;
    }
    if (fstat(fd, &st) < 0) {
        return err_errno(err, ORCH_E_IO, "stat %s", path);
    }
    sb->given = xrealloc(sb->given, (sb->given_count + 1) * sizeof *sb->given);
    sb->given[sb->given_count++] = (struct given){.path = xstrdup(path), .uid = st.st_uid, .gid = st.st_gid};
    if (S_ISDIR(st.st_mode)) {
        return give(fd, sb, err);
    }
    if (st.st_nlink > 1) {
        return err_set(err, ORCH_E_HOSTILE, "%s has several names", path);
    }
    return fchown(fd, sb->identity.uid, sb->identity.gid) < 0 ? err_errno(err, ORCH_E_IO, "chown %s", path) : 0;
}

static void note_scan(struct node_sandbox *sb, const struct spec_grant *g, const struct grant_facts *f)
{
    json_t *o = json_object();
    json_set_str(o, "target", g->target);
    json_set_int(o, "entries", (int64_t)f->entries);
    json_set_int(o, "sockets", (int64_t)f->sockets);
    json_set_int(o, "hard_links", (int64_t)f->hard_links);
    json_set_int(o, "setid", (int64_t)f->setid);
    json_set_int(o, "outward_links", (int64_t)f->outward);
    json_set_flag(o, "complete", f->complete);
    if (sb->scanned == NULL) {
        sb->scanned = json_array();
    }
    json_add_take(sb->scanned, o);
    sb->unix_refused = sb->unix_refused || f->sockets > 0 || !f->complete;
}

static int prepare_outside(struct node_sandbox *sb, const struct spec_grant *g, char **ret, struct orch_err *err)
{
    const char *source = NULL;
    TRY(resolve_outside(sb, g->source, &source, err));
    AUTO_FREE char *real = NULL;
    TRY(path_real(source, &real, err));
    struct stat st;
    if (stat(real, &st) < 0) {
        return err_errno(err, ORCH_E_NOT_FOUND, "%s", real);
    }
    bool fits = g->kind == SPEC_DIR ? S_ISDIR(st.st_mode) : S_ISREG(st.st_mode);
    if (!fits) {
        return err_set(err, ORCH_E_CONFIG, "%s is not a %s", source,
                       g->kind == SPEC_DIR ? "directory" : "regular file");
    }
    if (strncmp(g->source, "tree:", 5) != 0) {
        note_scan(sb, g, grant_scan(sb->node->scans, real));
    }
    if (g->mode == SPEC_RW) {
        TRY(lend(sb, real, err));
    }
    *ret = take(real);
    return 0;
}

static int prepare_grant(struct node_sandbox *sb, const struct spec_grant *g, char **ret, struct orch_err *err)
{
    int code = strncmp(g->source, "work:", 5) == 0 ? prepare_work(sb, g, ret, err) : prepare_outside(sb, g, ret, err);
    if (code == ORCH_E_NOT_FOUND && !g->required) {
        err_clear(err);
        sb->left_out = strv_append(sb->left_out, xstrdup(g->target));
        return 0;
    }
    return code < 0 ? err_wrap(err, "grant %s", g->target) : 0;
}

int files_prepare(struct node_sandbox *sb, char **sources, struct orch_err *err)
{
    if (!spare_take(sb) && mkdir(sb->dir, 0755) < 0) {
        return err_errno(err, ORCH_E_IO, "make %s", sb->dir);
    }
    for (size_t i = 0; i < sb->spec.grant_count; i++) {
        TRY(prepare_grant(sb, &sb->spec.grants[i], &sources[i], err));
    }
    return 0;
}

int files_scratch(struct node_sandbox *sb, struct orch_err *err)
{
    static const char *const parts[] = {"", "tmp", "home"};
    sb->scratch = path_join(sb->dir, "scratch");
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        AUTO_FREE char *path = i == 0 ? xstrdup(sb->scratch) : path_join(sb->scratch, parts[i]);
        if (mkdir(path, 0700) < 0) {
            return err_errno(err, ORCH_E_IO, "make %s", path);
        }
    }
    AUTO_FD int fd = fd_open(sb->scratch, O_RDONLY | O_DIRECTORY, 0, err);
    return fd < 0 ? fd : give(fd, sb, err);
}

static int take_back(const struct node_sandbox *sb, const struct given *g, struct orch_err *err)
{
    AUTO_FD int fd = fd_open(g->path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW, 0, err);
    struct stat st;
    if (fd < 0) {
        return fd;
    }
    if (fstat(fd, &st) < 0) {
        return err_errno(err, ORCH_E_IO, "stat %s", g->path);
    }
    if (S_ISDIR(st.st_mode)) {
        return tree_chown(fd, sb->identity.uid, g->uid, g->gid, err);
    }
    return fchown(fd, g->uid, g->gid) < 0 ? err_errno(err, ORCH_E_IO, "chown %s", g->path) : 0;
}

int files_end(struct node_sandbox *sb, bool all, struct orch_err *err)
{
    int code = 0;
    for (size_t i = 0; i < sb->given_count; i++) {
        struct orch_err e = ERR_INIT;
        int one = take_back(sb, &sb->given[i], &e);
        if (one < 0 && code == 0 && one != ORCH_E_NOT_FOUND) {
            *err = e;
            code = one;
        }
        free(sb->given[i].path);
    }
    free(sb->given);
    sb->given = NULL;
    sb->given_count = 0;
    if (all && sb->dir != NULL && !spare_keep(sb)) {
        AUTO_FREE char *relative = xasprintf("s/%s", sb->name);
        struct orch_err e = ERR_INIT;
        int one = fd_remove_tree(sb->node->workfd, relative, &e);
        if (one < 0 && code == 0) {
            *err = e;
            code = one;
        }
    }
    return code;
}

int files_open_work(const struct node_sandbox *sb, const char *relative, struct orch_err *err)
{
    if (!path_is_plain_relative(relative)) {
        return err_set(err, ORCH_E_CONFIG, "\"%.200s\" is not a path below the work directory", relative);
    }
    AUTO_FREE char *path = xasprintf("s/%s/%s", sb->name, relative);
    return fd_open_beneath(sb->node->workfd, path, O_RDONLY | O_DIRECTORY, 0, err);
}

uint64_t files_usage(const struct node_sandbox *sb, bool dead)
{
    AUTO_FREE char *path = xasprintf("s/%s", sb->name);
    struct orch_err err = ERR_INIT;
    AUTO_FD int fd = fd_open_beneath(sb->node->workfd, path, O_RDONLY | O_DIRECTORY, 0, &err);
    uint64_t bytes = 0;
    if (fd >= 0 && tree_usage(fd, NODE_DISK_ENTRIES, dead, &bytes, &err) < 0) {
        return UINT64_MAX; /* more entries than anybody may need: over every limit */
    }
    return bytes;
}
