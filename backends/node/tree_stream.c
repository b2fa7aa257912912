/* SPDX-License-Identifier: Apache-2.0 */
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

#define MAGIC "orchtree1\n"
#define MAGIC_LEN 10
#define ENTRY_HEADER 11
#define SCAN_CHUNK ((size_t)64 << 10)

/* Order of the stream: by component, so that a directory is followed by all it holds. */
static int path_order(const char *a, const char *b)
{
    while (*a != '\0' && *a == *b) {
        a++;
        b++;
    }
    /* the end of a path comes first, then what is below it, then any other byte of a longer name */
    int x = *a == '\0' ? 0 : *a == '/' ? 1 : 2 + (unsigned char)*a;
    int y = *b == '\0' ? 0 : *b == '/' ? 1 : 2 + (unsigned char)*b;
    return (x > y) - (x < y);
}

/* A relative target that lexically stays inside the tree, for a link at `path`. */
static bool link_stays_inside(const char *path, const char *target)
{
    if (target[0] == '\0' || target[0] == '/') {
        return false;
    }
    AUTO_FREE char *dir = path_dir(path);
    AUTO_FREE char *joined = path_join(strcmp(dir, ".") == 0 ? "" : dir, target);
    AUTO_FREE char *normal = path_normal(joined);
    return strcmp(normal, "..") != 0 && strncmp(normal, "../", 3) != 0;
}

static void encode_header(unsigned char out[ENTRY_HEADER], char type, size_t path_len, uint64_t size)
{
    out[0] = (unsigned char)type;
    out[1] = (unsigned char)path_len;
    out[2] = (unsigned char)(path_len >> 8);
    for (int i = 0; i < 8; i++) {
        out[3 + i] = (unsigned char)(size >> (8 * i));
    }
}

static uint64_t or_default(uint64_t n, uint64_t fallback)
{
    return n == 0 ? fallback : n;
}

/* ---- packing ---- */

struct pack_entry {
    char *path; /* owned */
    char type;
};

struct tree_packer {
    int root;
    struct tree_limits limits;
    struct tree_counts counts;
    struct digest *digest;
    struct pack_entry *entries;
    size_t count, cap;
    size_t next;            /* entry to announce */
    int file;               /* being sent, or -1 */
    uint64_t left;          /* of it */
    unsigned char *pending; /* header, path and link target, not handed out yet */
    size_t pending_len, pending_at;
    bool ended;
};

static int scan_entry(void *arg, int dirfd, const char *name, const char *path, const struct stat *st,
                      struct orch_err *err)
{
    (void)dirfd, (void)name, (void)err;
    struct tree_packer *p = arg;
    char type = S_ISDIR(st->st_mode)                      ? 'd'
                : S_ISREG(st->st_mode)                    ? ((st->st_mode & 0111) != 0 ? 'x' : 'f')
                : S_ISLNK(st->st_mode) && p->limits.links ? 'l'
                                                          : '\0';
    if (type == '\0' || !path_is_inner(path)) {
        p->counts.skipped++;
        return 0;
    }
    if (p->count == p->cap) {
        p->cap = p->cap == 0 ? 64 : 2 * p->cap;
        p->entries = xrealloc(p->entries, p->cap * sizeof *p->entries);
    }
    p->entries[p->count++] = (struct pack_entry){.path = xstrdup(path), .type = type};
    return 0;
}

static int entry_order(const void *a, const void *b)
{
    const struct pack_entry *x = a;
    const struct pack_entry *y = b;
    return path_order(x->path, y->path);
}

static void set_pending(struct tree_packer *p, const void *data, size_t len)
{
    p->pending = xrealloc(p->pending, p->pending_len + len + 1);
    if (len > 0) {
        memcpy(p->pending + p->pending_len, data, len);
    }
    p->pending_len += len;
}

static void announce(struct tree_packer *p, char type, const char *path, uint64_t size)
{
    unsigned char header[ENTRY_HEADER];
    size_t len = strlen(path);
    encode_header(header, type, len, size);
    set_pending(p, header, sizeof header);
    set_pending(p, path, len);
}

int tree_packer_new(int dirfd, const struct tree_limits *limits, struct tree_packer **ret, struct orch_err *err)
{
    int root = fcntl(dirfd, F_DUPFD_CLOEXEC, 3);
    if (root < 0) {
        return err_errno(err, ORCH_E_IO, "open the tree");
    }
    struct tree_packer *p = xcalloc(1, sizeof *p);
    *p = (struct tree_packer){.root = root, .file = -1, .digest = digest_new()};
    p->limits = limits == NULL ? (struct tree_limits){.bytes = 0} : *limits;
    p->limits.bytes = or_default(p->limits.bytes, TREE_BYTES_MAX);
    p->limits.entries = or_default(p->limits.entries, TREE_ENTRIES_MAX);
    int code = tree_walk(root, p->limits.entries, scan_entry, p, err);
    if (code < 0) {
        tree_packer_free(p);
        return code;
    }
    if (p->count > 0) {
        qsort(p->entries, p->count, sizeof *p->entries, entry_order);
    }
    set_pending(p, MAGIC, MAGIC_LEN);
    *ret = p;
    return 0;
}

void tree_packer_free(struct tree_packer *p)
{
    if (p == NULL) {
        return;
    }
    for (size_t i = 0; i < p->count; i++) {
        free(p->entries[i].path);
    }
    free(p->entries);
    free(p->pending);
    fd_close(&p->file);
    fd_close(&p->root);
    digest_free(p->digest);
    free(p);
}

static int announce_link(struct tree_packer *p, const char *path, struct orch_err *err)
{
    AUTO_FREE char *dir = path_dir(path);
    AUTO_FD int parent = fd_open_beneath(p->root, dir, O_RDONLY | O_DIRECTORY, 0, err);
    if (parent < 0) {
        return parent;
    }
    char target[TREE_PATH_MAX + 1];
    ssize_t n = readlinkat(parent, path_base(path), target, sizeof target - 1);
    if (n < 0) {
        return err_errno(err, ORCH_E_IO, "read link %s", path);
    }
    target[n] = '\0';
    if ((size_t)n >= sizeof target - 1 || !link_stays_inside(path, target)) {
        p->counts.skipped++;
        return 0;
    }
    announce(p, 'l', path, (uint64_t)n);
    set_pending(p, target, (size_t)n);
    p->counts.entries++;
    return 0;
}

static int announce_file(struct tree_packer *p, const struct pack_entry *e, struct orch_err *err)
{
    int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY;
    AUTO_FD int fd = fd_open_beneath(p->root, e->path, flags, 0, err);
    if (fd < 0 && err->sys == EACCES) {
        err_clear(err);
        fd_unlock_beneath(p->root, e->path);
        fd = fd_open_beneath(p->root, e->path, flags, 0, err);
    }
    if (fd < 0) {
        if (err->sys != EACCES) {
            return fd;
        }
        err_clear(err); /* another's, or without a right that we could give: it cannot pass */
        p->counts.skipped++;
        return 0;
    }
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        return err_set(err, ORCH_E_DAMAGED, "\"%s\" changed while it was read", e->path);
    }
    if ((uint64_t)st.st_size > p->limits.bytes - p->counts.bytes) {
        return err_set(err, ORCH_E_LIMIT, "a tree of more than %llu bytes", (unsigned long long)p->limits.bytes);
    }
    announce(p, e->type, e->path, (uint64_t)st.st_size);
    p->counts.entries++;
    p->counts.bytes += (uint64_t)st.st_size;
    p->left = (uint64_t)st.st_size;
    p->file = fd;
    fd = -1;
    return 0;
}

static int announce_next(struct tree_packer *p, struct orch_err *err)
{
    p->pending_len = p->pending_at = 0;
    if (p->next == p->count) {
        announce(p, 'e', "", p->counts.entries);
        p->ended = true;
        return 0;
    }
    const struct pack_entry *e = &p->entries[p->next++];
    if (e->type == 'l') {
        return announce_link(p, e->path, err);
    }
    if (e->type != 'd') {
        return announce_file(p, e, err);
    }
    announce(p, 'd', e->path, 0);
    p->counts.entries++;
    return 0;
}

static int pack_file_bytes(struct tree_packer *p, char *out, size_t cap, size_t *ret_len, struct orch_err *err)
{
    ssize_t n = read(p->file, out, cap < p->left ? cap : (size_t)p->left);
    if (n < 0 && errno == EINTR) {
        n = read(p->file, out, cap < p->left ? cap : (size_t)p->left);
    }
    if (n <= 0) {
        return n < 0 ? err_errno(err, ORCH_E_IO, "read a file of the tree")
                     : err_set(err, ORCH_E_DAMAGED, "a file shrank while it was read");
    }
    p->left -= (uint64_t)n;
    *ret_len = (size_t)n;
    return 0;
}

int tree_packer_read(struct tree_packer *p, void *out, size_t cap, size_t *ret_len, struct orch_err *err)
{
    size_t done = 0;
    while (done < cap) {
        if (p->pending_at < p->pending_len) {
            size_t n = p->pending_len - p->pending_at;
            n = n < cap - done ? n : cap - done;
            memcpy((char *)out + done, p->pending + p->pending_at, n);
            p->pending_at += n;
            done += n;
        } else if (p->file >= 0 && p->left > 0) {
            size_t n = 0;
            TRY(pack_file_bytes(p, (char *)out + done, cap - done, &n, err));
            done += n;
        } else if (p->ended) {
            break;
        } else {
            fd_close(&p->file);
            TRY(announce_next(p, err));
        }
    }
    digest_add(p->digest, out, done);
    *ret_len = done;
    return 0;
}

void tree_packer_result(struct tree_packer *p, struct tree_counts *ret, char digest[DIGEST_TEXT_MAX])
{
    *ret = p->counts;
    digest_text(p->digest, digest);
}

int tree_digest(int dirfd, const struct tree_limits *limits, struct tree_counts *ret, char digest[DIGEST_TEXT_MAX],
                struct orch_err *err)
{
    struct tree_packer *p = NULL;
    TRY(tree_packer_new(dirfd, limits, &p, err));
    AUTO_FREE char *chunk = xmalloc(SCAN_CHUNK);
    size_t n = 1;
    int code = 0;
    while (code == 0 && n > 0) {
        code = tree_packer_read(p, chunk, SCAN_CHUNK, &n, err);
    }
    if (code == 0) {
        tree_packer_result(p, ret, digest);
    }
    tree_packer_free(p);
    return code;
}

/* ---- unpacking ---- */

enum unpack_state { UNPACK_MAGIC, UNPACK_HEADER, UNPACK_PATH, UNPACK_FILE, UNPACK_LINK, UNPACK_END };

struct tree_unpacker {
    int root;
    struct tree_limits limits;
    struct tree_counts counts;
    struct digest *digest;
    enum unpack_state state;
    char head[ENTRY_HEADER];
    char path[TREE_PATH_MAX + 1];
    char target[TREE_PATH_MAX + 1];
    char last[TREE_PATH_MAX + 1]; /* path of the entry before: the order is strict */
    size_t have, want;            /* of the field being collected */
    char type;
    uint64_t size, left;
    int file;
};

int tree_unpacker_new(int dirfd, const struct tree_limits *limits, struct tree_unpacker **ret, struct orch_err *err)
{
    int root = fcntl(dirfd, F_DUPFD_CLOEXEC, 3);
    if (root < 0) {
        return err_errno(err, ORCH_E_IO, "open the tree");
    }
    struct tree_unpacker *u = xcalloc(1, sizeof *u);
    u->root = root;
    u->file = -1;
    u->digest = digest_new();
    u->limits = limits == NULL ? (struct tree_limits){.bytes = 0} : *limits;
    u->limits.bytes = or_default(u->limits.bytes, TREE_BYTES_MAX);
    u->limits.entries = or_default(u->limits.entries, TREE_ENTRIES_MAX);
    u->want = MAGIC_LEN;
    *ret = u;
    return 0;
}

void tree_unpacker_free(struct tree_unpacker *u)
{
    if (u != NULL) {
        fd_close(&u->file);
        fd_close(&u->root);
        digest_free(u->digest);
        free(u);
    }
}

static int hostile(const char *what, struct orch_err *err)
{
    return err_set(err, ORCH_E_HOSTILE, "tree stream: %s", what);
}

static void expect(struct tree_unpacker *u, enum unpack_state state, size_t want)
{
    u->state = state;
    u->have = 0;
    u->want = want;
}

/* Opens the parent of u->path; it was made by an entry before, or it is not there. */
static int open_parent(struct tree_unpacker *u, struct orch_err *err)
{
    AUTO_FREE char *dir = path_dir(u->path);
    return fd_open_beneath(u->root, dir, O_RDONLY | O_DIRECTORY, 0, err);
}

static int make_entry(struct tree_unpacker *u, struct orch_err *err)
{
    AUTO_FD int parent = open_parent(u, err);
    if (parent < 0) {
        return parent == ORCH_E_NOT_FOUND ? (err_clear(err), hostile("an entry without its directory", err)) : parent;
    }
    const char *name = path_base(u->path);
    if (u->type == 'd') {
        if (mkdirat(parent, name, 0755) < 0 || fchmodat(parent, name, 0755, 0) < 0) {
            return err_errno(err, ORCH_E_IO, "make directory %s", u->path);
        }
        expect(u, UNPACK_HEADER, ENTRY_HEADER);
        return 0;
    }
    if (u->type == 'l') {
        if (!link_stays_inside(u->path, u->target)) {
            return hostile("a link that leaves the tree", err);
        }
        if (symlinkat(u->target, parent, name) < 0) {
            return err_errno(err, ORCH_E_IO, "make link %s", u->path);
        }
        expect(u, UNPACK_HEADER, ENTRY_HEADER);
        return 0;
    }
    u->file = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (u->file < 0 || fchmod(u->file, u->type == 'x' ? 0755 : 0644) < 0) {
        return err_errno(err, ORCH_E_IO, "make file %s", u->path);
    }
    u->left = u->size;
    u->state = UNPACK_FILE;
    return 0;
}

static bool components_fit(const char *path)
{
    unsigned depth = 0;
    while (*path != '\0') {
        size_t n = strcspn(path, "/");
        if (n > 255 || ++depth > TREE_DEPTH_MAX) {
            return false;
        }
        path += n + (path[n] == '/');
    }
    return true;
}

static int path_complete(struct tree_unpacker *u, struct orch_err *err)
{
    u->path[u->want] = '\0';
    if (strlen(u->path) != u->want || !path_is_inner(u->path) || !components_fit(u->path)) {
        return hostile("a path that is not plain", err);
    }
    if (u->last[0] != '\0' && path_order(u->last, u->path) >= 0) {
        return hostile("entries out of order", err);
    }
    memcpy(u->last, u->path, u->want + 1);
    u->counts.entries++;
    if (u->type == 'l') {
        expect(u, UNPACK_LINK, (size_t)u->size);
        return 0;
    }
    return make_entry(u, err);
}

static int header_complete(struct tree_unpacker *u, struct orch_err *err)
{
    u->type = u->head[0];
    size_t path_len = (unsigned char)u->head[1] | (size_t)(unsigned char)u->head[2] << 8;
    u->size = 0;
    for (int i = 7; i >= 0; i--) {
        u->size = u->size << 8 | (unsigned char)u->head[3 + i];
    }
    if (u->type == 'e') {
        if (path_len != 0 || u->size != u->counts.entries) {
            return hostile("a wrong number of entries", err);
        }
        u->state = UNPACK_END;
        return 0;
    }
    bool link = u->type == 'l' && u->limits.links;
    bool known = link || u->type == 'd' || u->type == 'f' || u->type == 'x';
    if (!known || path_len == 0 || path_len > TREE_PATH_MAX || (u->type == 'd' && u->size != 0) ||
        (link && (u->size == 0 || u->size > TREE_PATH_MAX))) {
        return hostile("a bad entry", err);
    }
    if (u->counts.entries >= u->limits.entries || (!link && u->size > u->limits.bytes - u->counts.bytes)) {
        return err_set(err, ORCH_E_LIMIT, "the tree is too large");
    }
    u->counts.bytes += link ? 0 : u->size;
    expect(u, UNPACK_PATH, path_len);
    return 0;
}

/* The field that was being collected is complete. */
static int field_complete(struct tree_unpacker *u, struct orch_err *err)
{
    switch (u->state) {
    case UNPACK_MAGIC:
        if (memcmp(u->head, MAGIC, MAGIC_LEN) != 0) {
            return hostile("not a tree", err);
        }
        expect(u, UNPACK_HEADER, ENTRY_HEADER);
        return 0;
    case UNPACK_HEADER:
        return header_complete(u, err);
    case UNPACK_PATH:
        return path_complete(u, err);
    case UNPACK_LINK:
        u->target[u->want] = '\0';
        if (strlen(u->target) != u->want) {
            return hostile("a link target with a NUL", err);
        }
        return make_entry(u, err);
    case UNPACK_FILE:
    case UNPACK_END:
    default:
        return err_set(err, ORCH_E_INTERNAL, "tree stream: no field");
    }
}

static char *field(struct tree_unpacker *u)
{
    return u->state == UNPACK_PATH ? u->path : u->state == UNPACK_LINK ? u->target : u->head;
}

static int file_bytes(struct tree_unpacker *u, const char *data, size_t len, size_t *ret_used, struct orch_err *err)
{
    size_t n = len < u->left ? len : (size_t)u->left;
    TRY(fd_write_all(u->file, data, n, err));
    u->left -= n;
    *ret_used = n;
    return 0;
}

int tree_unpacker_feed(struct tree_unpacker *u, const void *data, size_t len, struct orch_err *err)
{
    const char *p = data;
    digest_add(u->digest, data, len);
    while (len > 0 || (u->state == UNPACK_FILE && u->left == 0)) {
        size_t n = 0;
        if (u->state == UNPACK_END) {
            return hostile("bytes after the end", err);
        }
        if (u->state == UNPACK_FILE) {
            TRY(file_bytes(u, p, len, &n, err));
            if (u->left == 0) {
                fd_close(&u->file);
                expect(u, UNPACK_HEADER, ENTRY_HEADER);
            }
        } else {
            n = u->want - u->have < len ? u->want - u->have : len;
            memcpy(field(u) + u->have, p, n);
            u->have += n;
            if (u->have == u->want) {
                TRY(field_complete(u, err));
            }
        }
        p += n;
        len -= n;
    }
    return 0;
}

int tree_unpacker_finish(struct tree_unpacker *u, struct tree_counts *ret, char digest[DIGEST_TEXT_MAX],
                         struct orch_err *err)
{
    if (u->state != UNPACK_END) {
        return err_set(err, ORCH_E_DAMAGED, "the tree is not complete");
    }
    *ret = u->counts;
    digest_text(u->digest, digest);
    return 0;
}
