/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/handoff.h"

#include "backends/handoff_walk.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_CHUNK ((size_t)128 << 10)

/* The destination is ours and fresh; still every step goes by descriptor, so that nothing planted in it is followed. */
struct copy {
    int destfd;
    const struct handoff_limits *limits;
    char *parent; /* path of the directory `fd` is open on */
    int fd;
    char *chunk;
};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* Opens the copy's parent directory of `path` unless it is the one already open. */
static int copy_parent(struct copy *c, const char *path, struct orch_err *err)
{
    const char *base = base_name(path);
    size_t len = base == path ? 0 : (size_t)(base - path) - 1;
    if (c->fd >= 0 && strlen(c->parent) == len && memcmp(c->parent, path, len) == 0) {
        return c->fd;
    }
    AUTO_FREE char *parent = xmemdup0(path, len);
    int fd = handoff_open_path(c->destfd, parent, O_RDONLY | O_DIRECTORY, err);
    TRY(fd);
    fd_close(&c->fd);
    free(c->parent);
    c->parent = take(parent);
    c->fd = fd;
    return fd;
}

static int copy_dir(void *arg, const char *path, struct orch_err *err)
{
    struct copy *c = arg;
    int parent = copy_parent(c, path, err);
    TRY(parent);
    const char *name = base_name(path);
    if (mkdirat(parent, name, 0755) < 0) {
        return err_errno(err, ORCH_E_IO, "make a directory of the copy");
    }
    AUTO_FD int fd = fd_open_beneath(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, err);
    TRY(fd);
    /* umask, and a setgid parent, must not show. */
    if (fchmod(fd, 0755) < 0) {
        return err_errno(err, ORCH_E_IO, "set the mode of a directory");
    }
    return 0;
}

static int copy_link(void *arg, const char *path, const char *target, struct orch_err *err)
{
    struct copy *c = arg;
    int parent = copy_parent(c, path, err);
    TRY(parent);
    if (symlinkat(target, parent, base_name(path)) < 0) {
        return err_errno(err, ORCH_E_IO, "make a link of the copy");
    }
    return 0;
}

/* Copies [from, to); 1 if the source ended early. */
static int copy_range(struct copy *c, int in, int out, uint64_t from, uint64_t to, bool *use_kernel,
                      struct orch_err *err)
{
    while (from < to) {
        ssize_t n;
        off_t at_in = (off_t)from;
        off_t at_out = (off_t)from;
        if (*use_kernel) {
            n = copy_file_range(in, &at_in, out, &at_out, to - from, 0);
            if (n < 0 && (errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP ||
                          errno == EPERM || errno == EBADF)) {
                *use_kernel = false;
                continue;
            }
            if (n == 0) { /* some file systems say 0 for files they make up: ask read(2) */
                *use_kernel = false;
                continue;
            }
        } else {
            size_t want = to - from < COPY_CHUNK ? (size_t)(to - from) : COPY_CHUNK;
            n = pread(in, c->chunk, want, at_in);
            if (n == 0) {
                return 1;
            }
            if (n > 0) {
                n = pwrite(out, c->chunk, (size_t)n, at_out);
            }
        }
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return err_errno(err, ORCH_E_IO, "copy a file");
        }
        from += (uint64_t)n;
    }
    return 0;
}

/* Holes stay holes: what is not written costs no space and no time. */
static int copy_data(struct copy *c, int in, int out, uint64_t size, struct orch_err *err)
{
    bool use_kernel = true;
    uint64_t at = 0;
    if (ftruncate(out, (off_t)size) < 0) {
        return err_errno(err, ORCH_E_IO, "size a file");
    }
    while (at < size) {
        off_t data = lseek(in, (off_t)at, SEEK_DATA);
        if (data < 0 && errno == ENXIO) {
            return 0;
        }
        off_t hole = data < 0 ? (off_t)size : lseek(in, data, SEEK_HOLE);
        uint64_t from = data < 0 ? at : (uint64_t)data;
        uint64_t to = hole < 0 || (uint64_t)hole > size ? size : (uint64_t)hole;
        if (from >= size) {
            return 0;
        }
        int r = copy_range(c, in, out, from, to, &use_kernel, err);
        if (r != 0) {
            return r;
        }
        at = to;
    }
    return 0;
}

static int observe(const struct handoff_limits *limits, const char *path, int fd, uint64_t size, bool executable,
                   struct orch_err *err)
{
    if (limits->observe == NULL) {
        return 0;
    }
    if (lseek(fd, 0, SEEK_SET) < 0) {
        return err_errno(err, ORCH_E_IO, "rewind a file");
    }
    return limits->observe(path, fd, size, executable, limits->observe_arg, err);
}

static int copy_file(void *arg, const char *path, int in, uint64_t size, bool executable, struct orch_err *err)
{
    struct copy *c = arg;
    int parent = copy_parent(c, path, err);
    TRY(parent);
    const char *name = base_name(path);
    AUTO_FD int out = fd_open_beneath(parent, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, err);
    TRY(out);
    int r = 0;
    struct stat st;
    if (size > 0 && ioctl(out, FICLONE, in) < 0) {
        r = copy_data(c, in, out, size, err);
    }
    /* A clone may be of a file that has grown since it was measured. */
    if (r == 0 && (fstat(out, &st) < 0 || (uint64_t)st.st_size != size)) {
        r = 1;
    }
    if (r != 0) {
        (void)unlinkat(parent, name, 0);
        return r;
    }
    if (fchmod(out, executable ? 0755 : 0644) < 0) {
        return err_errno(err, ORCH_E_IO, "set the mode of a file");
    }
    return observe(c->limits, path, out, size, executable, err);
}

static int dest_is_empty(int fd, struct orch_err *err)
{
    struct handoff_report report = {0};
    struct handoff_limits one = {.entries = 1, .depth = 1};
    int r = handoff_scan(fd, &one, &report, err);
    if (r == ORCH_E_LIMIT || (r == 0 && report.files + report.dirs + report.dropped > 0)) {
        err_clear(err);
        return err_set(err, ORCH_E_USAGE, "the destination of a handoff is not empty");
    }
    return r;
}

int handoff_copy(int source_dirfd, int dest_dirfd, const struct handoff_limits *limits,
                 struct handoff_report *ret_report, struct orch_err *err)
{
    *ret_report = (struct handoff_report){0};
    TRY(dest_is_empty(dest_dirfd, err));
    struct copy c = {
        .destfd = dest_dirfd,
        .limits = limits,
        .fd = -1,
        .parent = xstrdup(""),
        .chunk = xmalloc(COPY_CHUNK),
    };
    const struct handoff_sink sink = {.dir = copy_dir, .link = copy_link, .file = copy_file, .arg = &c};
    int r = handoff_walk(source_dirfd, limits, &sink, ret_report, err);
    free(c.parent);
    free(c.chunk);
    fd_close(&c.fd);
    return r;
}

static int scan_dir(void *arg, const char *path, struct orch_err *err)
{
    (void)arg, (void)path, (void)err;
    return 0;
}

static int scan_link(void *arg, const char *path, const char *target, struct orch_err *err)
{
    (void)arg, (void)path, (void)target, (void)err;
    return 0;
}

static int scan_file(void *arg, const char *path, int fd, uint64_t size, bool executable, struct orch_err *err)
{
    return observe(arg, path, fd, size, executable, err);
}

int handoff_scan(int source_dirfd, const struct handoff_limits *limits, struct handoff_report *ret_report,
                 struct orch_err *err)
{
    *ret_report = (struct handoff_report){0};
    struct handoff_limits own = *limits;
    const struct handoff_sink sink = {.dir = scan_dir, .link = scan_link, .file = scan_file, .arg = &own};
    return handoff_walk(source_dirfd, limits, &sink, ret_report, err);
}

bool handoff_reason_drops(enum handoff_reason reason)
{
    return reason != HANDOFF_SETID && reason != HANDOFF_HARDLINK && reason != HANDOFF_ODD_NAME;
}

const char *handoff_reason_name(enum handoff_reason reason)
{
    static const char *const names[HANDOFF_REASON_COUNT] = {
        [HANDOFF_LINK] = "link",
        [HANDOFF_LINK_OUT] = "link-out",
        [HANDOFF_SPECIAL] = "special",
        [HANDOFF_SETID] = "setid",
        [HANDOFF_HARDLINK] = "hardlink",
        [HANDOFF_ODD_NAME] = "odd-name",
        [HANDOFF_UNREADABLE] = "unreadable",
        [HANDOFF_CHANGED] = "changed",
        [HANDOFF_MOUNT] = "mount",
        [HANDOFF_BIG] = "big",
        [HANDOFF_OVER_BYTES] = "over-bytes",
        [HANDOFF_OVER_ENTRIES] = "over-entries",
        [HANDOFF_OVER_DEPTH] = "over-depth",
        [HANDOFF_OVER_PATH] = "over-path",
    };
    return (unsigned)reason < HANDOFF_REASON_COUNT ? names[reason] : "?";
}

json_t *handoff_report_json(const struct handoff_report *report)
{
    json_t *o = json_object();
    json_set_int(o, "files", (int64_t)report->files);
    json_set_int(o, "dirs", (int64_t)report->dirs);
    json_set_int(o, "links", (int64_t)report->links);
    json_set_int(o, "bytes", (int64_t)report->bytes);
    json_set_int(o, "dropped", (int64_t)report->dropped);
    json_set_flag(o, "stopped", report->stopped);
    json_t *reasons = json_object();
    for (int i = 0; i < HANDOFF_REASON_COUNT; i++) {
        if (report->reasons[i] > 0) {
            json_set_int(reasons, handoff_reason_name((enum handoff_reason)i), (int64_t)report->reasons[i]);
        }
    }
    json_set_take(o, "reasons", reasons);
    json_t *notes = json_array();
    for (size_t i = 0; i < report->note_count; i++) {
        json_t *note = json_object();
        json_set_str(note, "reason", handoff_reason_name(report->notes[i].reason));
        json_set_text(note, "path", report->notes[i].path, report->notes[i].path_len);
        json_add_take(notes, note);
    }
    json_set_take(o, "notes", notes);
    return o;
}
