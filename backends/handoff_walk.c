/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/handoff_walk.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* One directory under way: its names and where it is. The descriptor is kept only for the innermost. */
struct level {
    char **names;
    size_t count;
    size_t next;
    size_t path_len; /* of the directory's own path */
    dev_t dev;
    ino_t ino;
};

struct walk {
    int rootfd;
    struct handoff_limits limits;
    const struct handoff_sink *sink;
    struct handoff_report *report;
    struct level *levels;
    size_t level_count, level_cap;
    int fd; /* of the innermost level; -1: must be opened again */
    char *path;
    size_t path_len;
    uint64_t entries;
};

enum { PASS = 0, DROPPED = 1 };

struct handoff_limits handoff_limits_full(const struct handoff_limits *limits)
{
    struct handoff_limits l = *limits;
    l.bytes = l.bytes != 0 ? l.bytes : (uint64_t)1 << 30;
    l.file_bytes = l.file_bytes != 0 ? l.file_bytes : l.bytes;
    l.entries = l.entries != 0 ? l.entries : 100000;
    l.depth = l.depth != 0 ? l.depth : 64;
    l.path = l.path != 0 ? l.path : 4096;
    l.path = l.path < HANDOFF_PATH_MAX ? l.path : HANDOFF_PATH_MAX;
    return l;
}

void handoff_note(struct handoff_report *report, enum handoff_reason reason, const char *path, size_t len)
{
    report->reasons[reason]++;
    if (report->note_count == HANDOFF_NOTES_MAX) {
        return;
    }
    struct handoff_note *note = &report->notes[report->note_count++];
    note->reason = reason;
    note->path_len = len < sizeof note->path ? len : sizeof note->path - 1;
    memcpy(note->path, path, note->path_len);
    note->path[note->path_len] = '\0';
}

int handoff_open_path(int rootfd, const char *path, int flags, struct orch_err *err)
{
    AUTO_FD int at = -1;
    const char *rest = path[0] != '\0' ? path : ".";
    for (;;) {
        size_t len = strlen(rest);
        if (len < PATH_MAX - 1) {
            return fd_open_beneath(at < 0 ? rootfd : at, rest, flags, 0, err);
        }
        /* The kernel takes PATH_MAX bytes at a time; components are at most 255, so there is a '/' to cut at. */
        len = PATH_MAX - 2;
        while (len > 0 && rest[len] != '/') {
            len--;
        }
        char piece[PATH_MAX];
        memcpy(piece, rest, len);
        piece[len] = '\0';
        int fd = fd_open_beneath(at < 0 ? rootfd : at, piece, O_PATH | O_DIRECTORY, 0, err);
        TRY(fd);
        fd_close(&at);
        at = fd;
        rest += len + 1;
    }
}

static void drop(struct walk *w, enum handoff_reason reason)
{
    w->report->dropped++;
    handoff_note(w->report, reason, w->path, w->path_len);
}

static int stop(struct walk *w, enum handoff_reason reason, struct orch_err *err)
{
    static const char *const what[HANDOFF_REASON_COUNT] = {
        [HANDOFF_OVER_BYTES] = "bytes",
        [HANDOFF_OVER_ENTRIES] = "entries",
        [HANDOFF_OVER_DEPTH] = "levels",
        [HANDOFF_OVER_PATH] = "bytes of a path",
    };
    const uint64_t value[HANDOFF_REASON_COUNT] = {
        [HANDOFF_OVER_BYTES] = w->limits.bytes < w->limits.file_bytes ? w->limits.bytes : w->limits.file_bytes,
        [HANDOFF_OVER_ENTRIES] = w->limits.entries,
        [HANDOFF_OVER_DEPTH] = w->limits.depth,
        [HANDOFF_OVER_PATH] = w->limits.path,
    };
    handoff_note(w->report, reason, w->path, w->path_len);
    return err_set(err, ORCH_E_LIMIT, "the tree has more than %llu %s", (unsigned long long)value[reason],
                   what[reason]);
}

/* RESOLVE_NO_XDEV also sees bind mounts of the same file system, which st_dev does not. */
static int open_entry(int dirfd, const char *name, int flags)
{
    struct open_how how = {
        .flags = (uint64_t)(unsigned)(flags | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
    };
    if ((flags & O_PATH) != 0) {
        how.flags &= (uint64_t)(O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    long fd;
    do {
        fd = syscall(SYS_openat2, dirfd, name, &how, sizeof how);
    } while (fd < 0 && (errno == EINTR || errno == EAGAIN));
    return (int)fd;
}

/* Opens and verifies that it still is what the listing said. Returns the descriptor or -1, with the reason noted. */
static int open_checked(struct walk *w, const char *name, mode_t type, struct stat *ret_st)
{
    int flags = type == S_IFDIR ? O_RDONLY | O_DIRECTORY : O_RDONLY;
    int fd = open_entry(w->fd, name, flags);
    if (fd < 0 && errno == EACCES) {
        fd_unlock_beneath(w->fd, name); /* an agent may have taken its own permissions away */
        fd = open_entry(w->fd, name, flags);
    }
    if (fd < 0) {
        drop(w, errno == EXDEV                                          ? HANDOFF_MOUNT
                : errno == ELOOP || errno == ENOENT || errno == ENOTDIR ? HANDOFF_CHANGED
                                                                        : HANDOFF_UNREADABLE);
        return -1;
    }
    if (fstat(fd, ret_st) < 0 || (ret_st->st_mode & S_IFMT) != type) {
        drop(w, HANDOFF_CHANGED);
        fd_close(&fd);
        return -1;
    }
    return fd;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void level_free(struct level *level)
{
    for (size_t i = 0; i < level->count; i++) {
        free(level->names[i]);
    }
    free(level->names);
}

/* Reads all names of the directory `fd`; entries count here, so a wide directory cannot take memory. */
static int read_names(struct walk *w, int fd, struct level *level, struct orch_err *err)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (dir == NULL) {
        fd_close(&copy);
        return err_errno(err, ORCH_E_IO, "list a directory");
    }
    size_t cap = 0;
    int r = 0;
    for (;;) {
        errno = 0;
        struct dirent *d = readdir(dir); /* NOLINT(concurrency-mt-unsafe): own stream */
        if (d == NULL) {
            r = errno == 0 ? 0 : err_errno(err, ORCH_E_IO, "list a directory");
            break;
        }
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0) {
            continue;
        }
        if (++w->entries > w->limits.entries) {
            r = stop(w, HANDOFF_OVER_ENTRIES, err);
            break;
        }
        if (level->count == cap) {
            cap = cap == 0 ? 16 : cap * 2;
            level->names = xrealloc(level->names, cap * sizeof *level->names);
        }
        level->names[level->count++] = xstrdup(d->d_name);
    }
    (void)closedir(dir);
    if (level->count > 1) {
        qsort(level->names, level->count, sizeof *level->names, compare_names);
    }
    return r;
}

/* Enters a directory: takes `fd` over. */
static int push(struct walk *w, int fd, const struct stat *st, struct orch_err *err)
{
    if (w->level_count == w->level_cap) {
        w->level_cap = w->level_cap == 0 ? 16 : w->level_cap * 2;
        w->levels = xrealloc(w->levels, w->level_cap * sizeof *w->levels);
    }
    struct level *level = &w->levels[w->level_count++];
    *level = (struct level){.path_len = w->path_len, .dev = st->st_dev, .ino = st->st_ino};
    fd_close(&w->fd);
    w->fd = fd;
    return read_names(w, fd, level, err);
}

/* The descriptor of the innermost level, opened again after a directory below it was done. */
static int reopen(struct walk *w, const struct level *level)
{
    if (w->fd >= 0) {
        return 0;
    }
    struct orch_err err = ERR_INIT;
    w->path[level->path_len] = '\0';
    AUTO_FD int fd = handoff_open_path(w->rootfd, w->path, O_RDONLY | O_DIRECTORY, &err);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_dev != level->dev || st.st_ino != level->ino) {
        return -1;
    }
    w->fd = fd;
    fd = -1;
    return 0;
}

static bool name_is_odd(const char *name, size_t len)
{
    if (name[0] == '-' || !utf8_valid(name, len)) {
        return true;
    }
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)name[i];
        if (c < 0x20 || c == 0x7f) {
            return true;
        }
    }
    return false;
}

/*
 * True if a link in a directory `depth` levels below the root stays inside. ".."
 * may stand only at the start: there it means the real parents that the walk came
 * through; after a name it could follow another link's target upwards.
 */
static bool link_stays_inside(const char *target, size_t depth)
{
    bool named = false;
    if (target[0] == '/' || target[0] == '\0') {
        return false;
    }
    for (const char *p = target; *p != '\0';) {
        size_t len = strcspn(p, "/");
        if (len == 2 && memcmp(p, "..", 2) == 0) {
            if (named || depth-- == 0) {
                return false;
            }
        } else if (len != 0 && !(len == 1 && p[0] == '.')) {
            named = true;
        }
        p += len;
        p += strspn(p, "/");
    }
    return true;
}

static int visit_link(struct walk *w, const char *name, struct orch_err *err)
{
    char target[PATH_MAX];
    if (!w->limits.keep_links) {
        drop(w, HANDOFF_LINK);
        return 0;
    }
    ssize_t n = readlinkat(w->fd, name, target, sizeof target - 1);
    if (n < 0) {
        drop(w, HANDOFF_CHANGED);
        return 0;
    }
    target[n] = '\0';
    if (!link_stays_inside(target, w->level_count - 1)) {
        drop(w, HANDOFF_LINK_OUT);
        return 0;
    }
    TRY(w->sink->link(w->sink->arg, w->path, target, err));
    w->report->links++;
    return 0;
}

static int visit_file(struct walk *w, const char *name, struct orch_err *err)
{
    struct stat st;
    AUTO_FD int fd = open_checked(w, name, S_IFREG, &st);
    if (fd < 0) {
        return 0;
    }
    uint64_t size = (uint64_t)st.st_size;
    if (size > w->limits.file_bytes && w->limits.skip_over_file) {
        drop(w, HANDOFF_BIG);
        return 0;
    }
    if (size > w->limits.file_bytes || size > w->limits.bytes - w->report->bytes) {
        return stop(w, HANDOFF_OVER_BYTES, err);
    }
    int r = w->sink->file(w->sink->arg, w->path, fd, size, (st.st_mode & 0111) != 0, err);
    TRY(r);
    if (r > 0) {
        drop(w, HANDOFF_CHANGED);
        return 0;
    }
    if ((st.st_mode & (S_ISUID | S_ISGID | S_ISVTX)) != 0) {
        handoff_note(w->report, HANDOFF_SETID, w->path, w->path_len);
    }
    if (st.st_nlink > 1) {
        handoff_note(w->report, HANDOFF_HARDLINK, w->path, w->path_len);
    }
    w->report->files++;
    w->report->bytes += size;
    return 0;
}

static int visit_dir(struct walk *w, const char *name, struct orch_err *err)
{
    if (w->level_count > w->limits.depth) {
        return stop(w, HANDOFF_OVER_DEPTH, err);
    }
    struct stat st;
    AUTO_FD int fd = open_checked(w, name, S_IFDIR, &st);
    if (fd < 0) {
        return 0;
    }
    if ((st.st_mode & (S_ISUID | S_ISVTX)) != 0) {
        handoff_note(w->report, HANDOFF_SETID, w->path, w->path_len);
    }
    TRY(w->sink->dir(w->sink->arg, w->path, err));
    w->report->dirs++;
    int owned = fd;
    fd = -1;
    return push(w, owned, &st, err);
}

static int visit(struct walk *w, const char *name, struct orch_err *err)
{
    size_t len = strlen(name);
    const struct level *level = &w->levels[w->level_count - 1];
    w->path_len = level->path_len;
    if (w->path_len + 1 + len > w->limits.path) {
        return stop(w, HANDOFF_OVER_PATH, err);
    }
    if (w->path_len > 0) {
        w->path[w->path_len++] = '/';
    }
    memcpy(w->path + w->path_len, name, len + 1);
    w->path_len += len;
    if (name_is_odd(name, len)) {
        handoff_note(w->report, HANDOFF_ODD_NAME, w->path, w->path_len);
    }
    struct stat st;
    if (fstatat(w->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        drop(w, errno == ENOENT ? HANDOFF_CHANGED : HANDOFF_UNREADABLE);
        return 0;
    }
    switch (st.st_mode & S_IFMT) {
    case S_IFREG:
        return visit_file(w, name, err);
    case S_IFDIR:
        return visit_dir(w, name, err);
    case S_IFLNK:
        return visit_link(w, name, err);
    default:
        drop(w, HANDOFF_SPECIAL);
        return 0;
    }
}

static int run(struct walk *w, struct orch_err *err)
{
    struct stat st;
    AUTO_FD int fd = handoff_open_path(w->rootfd, "", O_RDONLY | O_DIRECTORY, err);
    TRY(fd);
    if (fstat(fd, &st) < 0) {
        return err_errno(err, ORCH_E_IO, "stat the tree");
    }
    int owned = fd;
    fd = -1;
    TRY(push(w, owned, &st, err));
    while (w->level_count > 0) {
        struct level *level = &w->levels[w->level_count - 1];
        if (level->next == level->count) {
            level_free(level);
            w->level_count--;
            fd_close(&w->fd);
            continue;
        }
        if (reopen(w, level) < 0) {
            /* Moved while we were below it: what was not read yet is lost to us. */
            w->path_len = level->path_len;
            drop(w, HANDOFF_CHANGED);
            while (level->count > 0) {
                free(level->names[--level->count]);
            }
            level->next = 0;
            continue;
        }
        TRY(visit(w, level->names[level->next++], err));
    }
    return 0;
}

int handoff_walk(int rootfd, const struct handoff_limits *limits, const struct handoff_sink *sink,
                 struct handoff_report *report, struct orch_err *err)
{
    struct walk w = {
        .rootfd = rootfd,
        .limits = handoff_limits_full(limits),
        .sink = sink,
        .report = report,
        .fd = -1,
        .path = xmalloc(HANDOFF_PATH_MAX + 2),
    };
    w.path[0] = '\0';
    int r = run(&w, err);
    report->stopped = r < 0;
    while (w.level_count > 0) {
        level_free(&w.levels[--w.level_count]);
    }
    free(w.levels);
    free(w.path);
    fd_close(&w.fd);
    return r;
}
