/* SPDX-License-Identifier: Apache-2.0 */
#include "state/objects.h"

#include "base/fd.h"
#include "base/mem.h"
#include "state/durable.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEEP_CHUNK 65536

struct objects {
    int dirfd;
    struct record *rec;              /* borrowed */
    const struct redactor *redactor; /* borrowed */
};

int objects_open(const char *dir, struct record *rec, const struct redactor *redactor, struct objects **ret,
                 struct orch_err *err)
{
    int dirfd = fd_open(dir, O_RDONLY | O_DIRECTORY, 0, err);
    if (dirfd < 0) {
        return dirfd;
    }
    struct objects *o = xcalloc(1, sizeof *o);
    *o = (struct objects){dirfd, rec, redactor};
    *ret = o;
    return 0;
}

void objects_free(struct objects *o)
{
    if (o) {
        fd_close(&o->dirfd);
        free(o);
    }
}

void objects_release(struct objects **o)
{
    objects_free(*o);
    *o = NULL;
}

/* ---- Keeping ---- */

struct keep {
    struct objects *o;
    int64_t max;
    enum keep_over over;
    int64_t seen; /* bytes that came */
    struct kept kept;
    struct redact_stream redact;
    struct digest *digest;
    struct buf out;           /* what is decided and not yet written */
    struct durable_temp temp; /* once it is too large to be inline */
};

static void keep_init(struct keep *k, struct objects *o, int64_t max, enum keep_over over)
{
    *k = (struct keep){.o = o, .max = max, .over = over, .temp = {.fd = -1}, .digest = digest_new()};
    redact_stream_init(&k->redact, o->redactor);
    buf_init(&k->out, SIZE_MAX / 2);
}

static void keep_done(struct keep *k)
{
    redact_stream_done(&k->redact);
    digest_free(k->digest);
    buf_done(&k->out);
    durable_temp_drop(&k->temp);
}
#define AUTO_KEEP __attribute__((cleanup(keep_done)))

/* Moves what is decided to the file when it is too much to stay in memory. */
static int keep_spill(struct keep *k, struct orch_err *err)
{
    if (k->kept.size + (int64_t)k->out.len > k->max && k->over == KEEP_CUT) {
        k->out.len = (size_t)(k->max - k->kept.size);
        k->kept.cut = true;
    }
    if (k->temp.fd < 0 && k->out.len <= OBJECTS_INLINE_MAX) {
        return 0;
    }
    if (k->temp.fd < 0) {
        TRY(durable_temp_open(k->o->dirfd, 0600, &k->temp, err));
    }
    digest_add(k->digest, k->out.data, k->out.len);
    TRY(durable_temp_write(&k->temp, k->out.data, k->out.len, err));
    k->kept.size += (int64_t)k->out.len;
    buf_reset(&k->out);
    return 0;
}

/* How many bytes may still be of use: a cut object is decided by up to the redactor's reach beyond it. */
static int64_t keep_room(const struct keep *k)
{
    return k->max + (int64_t)redact_reach(k->o->redactor) - k->seen;
}

static int keep_add(struct keep *k, const char *data, size_t len, struct orch_err *err)
{
    k->seen += (int64_t)len;
    if (k->seen > k->max && k->over == KEEP_REFUSE) {
        return err_set(err, ORCH_E_LIMIT, "more than %lld bytes to keep", (long long)k->max);
    }
    redact_stream_add(&k->redact, data, len, &k->out);
    return keep_spill(k, err);
}

static void object_name(const char *digest, char dir[3], const char **file)
{
    const char *hex = digest + sizeof "sha256:" - 1;
    memcpy(dir, hex, 2);
    dir[2] = '\0';
    *file = hex + 2;
}

static int keep_file(struct keep *k, struct orch_err *err)
{
    char dir[3];
    const char *file;
    struct stat st;

    object_name(k->kept.digest, dir, &file);
    if (faccessat(k->o->dirfd, dir, F_OK, 0) < 0) {
        TRY(durable_mkdir(k->o->dirfd, dir, 0700, false, err));
    }
    AUTO_FD int dirfd = fd_open_beneath(k->o->dirfd, dir, O_RDONLY | O_DIRECTORY, 0, err);
    if (dirfd < 0) {
        return dirfd;
    }
    if (fstatat(dirfd, file, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) && st.st_size == k->kept.size) {
        durable_temp_drop(&k->temp);
    } else {
        TRY(durable_temp_commit(&k->temp, dirfd, file, err));
    }
    return record_object_add(k->o->rec, k->kept.digest, k->kept.size, NULL, 0, NULL, err);
}

static int keep_end(struct keep *k, struct kept *ret, struct orch_err *err)
{
    k->kept.cut = k->kept.cut || k->seen > k->max;
    if (!k->kept.cut) { /* of a cut one, what is undecided lies beyond the cut */
        redact_stream_end(&k->redact, &k->out);
    }
    TRY(keep_spill(k, err));
    TRY(fault_point(FAULT_OBJECTS_KEEP, err));
    k->kept.redacted = k->redact.replaced;
    if (k->temp.fd >= 0) {
        digest_text(k->digest, k->kept.digest);
        TRY(keep_file(k, err));
    } else {
        digest_of(k->out.data, k->out.len, k->kept.digest);
        k->kept.size = (int64_t)k->out.len;
        TRY(record_object_add(k->o->rec, k->kept.digest, k->kept.size, k->out.data, k->out.len, NULL, err));
    }
    *ret = k->kept;
    return 0;
}

int objects_keep(struct objects *o, const void *data, size_t len, int64_t max, enum keep_over over, struct kept *ret,
                 struct orch_err *err)
{
    AUTO_KEEP struct keep k;
    const char *p = data;

    keep_init(&k, o, max, over);
    while (len > 0 && keep_room(&k) > 0) {
        size_t n = len < KEEP_CHUNK ? len : KEEP_CHUNK;
        TRY(keep_add(&k, p, n, err));
        p += n;
        len -= n;
    }
    return keep_end(&k, ret, err);
}

int objects_keep_fd(struct objects *o, int fd, int64_t max, enum keep_over over, struct kept *ret, struct orch_err *err)
{
    AUTO_KEEP struct keep k;
    AUTO_FREE char *chunk = xmalloc(KEEP_CHUNK);

    keep_init(&k, o, max, over);
    while (keep_room(&k) > 0) {
        ssize_t n = read(fd, chunk, KEEP_CHUNK);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return err_errno(err, ORCH_E_IO, "read what is to be kept");
        }
        if (n == 0) {
            break;
        }
        TRY(keep_add(&k, chunk, (size_t)n, err));
    }
    return keep_end(&k, ret, err);
}

/* ---- Reading ---- */

/* The row; one that was just posted is waited for. *ret_data NULL: in a file. */
static int find_row(struct objects *o, const char *digest, int64_t *ret_size, char **ret_data, struct orch_err *err)
{
    if (!digest_is_valid(digest)) {
        return err_set(err, ORCH_E_NOT_FOUND, "\"%s\" is no digest", digest);
    }
    int r = record_object_get(o->rec, digest, ret_size, ret_data, err);
    if (r == ORCH_E_NOT_FOUND) {
        err_clear(err);
        TRY(record_flush(o->rec, err));
        r = record_object_get(o->rec, digest, ret_size, ret_data, err);
    }
    return r;
}

static int open_file(struct objects *o, const char *digest, struct orch_err *err)
{
    char dir[3];
    const char *file;

    object_name(digest, dir, &file);
    AUTO_FREE char *path = xasprintf("%s/%s", dir, file);
    int fd = fd_open_beneath(o->dirfd, path, O_RDONLY, 0, err);
    if (fd == ORCH_E_NOT_FOUND) {
        return err_set(err, ORCH_E_DAMAGED, "object %s is missing from the objects folder", digest);
    }
    return fd;
}

static int damaged(const char *digest, struct orch_err *err)
{
    return err_set(err, ORCH_E_DAMAGED, "object %s is damaged: its bytes have another digest", digest);
}

int objects_read(struct objects *o, const char *digest, size_t max, char **ret, size_t *ret_len, struct orch_err *err)
{
    AUTO_FREE char *data = NULL;
    int64_t size = 0;
    char found[DIGEST_TEXT_MAX];

    TRY(find_row(o, digest, &size, &data, err));
    size_t len = (size_t)size;
    if (size < 0 || len > max) {
        return err_set(err, ORCH_E_LIMIT, "object %s is larger than %zu bytes", digest, max);
    }
    if (!data) {
        AUTO_FD int fd = open_file(o, digest, err);
        if (fd < 0) {
            return fd;
        }
        TRY(fd_read_all(fd, max, &data, &len, err));
    }
    digest_of(data, len, found);
    if (strcmp(found, digest) != 0) {
        return damaged(digest, err);
    }
    *ret = take(data);
    if (ret_len) {
        *ret_len = len;
    }
    return 0;
}

static int copy_verified(int from, const char *digest, int to, struct orch_err *err)
{
    AUTO_DIGEST struct digest *d = digest_new();
    AUTO_FREE char *chunk = xmalloc(KEEP_CHUNK);
    char found[DIGEST_TEXT_MAX];

    for (;;) {
        ssize_t n = read(from, chunk, KEEP_CHUNK);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return err_errno(err, ORCH_E_IO, "read object %s", digest);
        }
        if (n == 0) {
            break;
        }
        digest_add(d, chunk, (size_t)n);
        TRY(fd_write_all(to, chunk, (size_t)n, err));
    }
    digest_text(d, found);
    return strcmp(found, digest) == 0 ? 0 : damaged(digest, err);
}

int objects_write_fd(struct objects *o, const char *digest, int fd, struct orch_err *err)
{
    AUTO_FREE char *data = NULL;
    int64_t size = 0;
    char found[DIGEST_TEXT_MAX];

    TRY(find_row(o, digest, &size, &data, err));
    if (data) {
        digest_of(data, (size_t)size, found);
        if (strcmp(found, digest) != 0) {
            return damaged(digest, err);
        }
        return fd_write_all(fd, data, (size_t)size, err);
    }
    AUTO_FD int from = open_file(o, digest, err);
    return from < 0 ? from : copy_verified(from, digest, fd, err);
}

int objects_has(struct objects *o, const char *digest, bool *ret, struct orch_err *err)
{
    AUTO_FREE char *data = NULL;
    int64_t size = 0;
    int r = find_row(o, digest, &size, &data, err);

    if (r < 0 && r != ORCH_E_NOT_FOUND) {
        return r;
    }
    err_clear(err);
    *ret = r == 0;
    return 0;
}

const struct redactor *objects_redactor(const struct objects *o)
{
    return o->redactor;
}
