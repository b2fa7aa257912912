/* SPDX-License-Identifier: Apache-2.0 */
/* Trees into the repository (fast-import) and out of it (ls-tree, cat-file), byte for byte. */
#include "state/versions_internal.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/utf8.h"
#include "state/durable.h"
#include "state/walk.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_CHUNK 65536
#define MESSAGE_MAX ((size_t)1 << 20)
#define TREE_LIST_MAX ((size_t)64 << 20)

/* ---- In ---- */

/* What HFS+ takes for nothing (the list of Git's own protection). */
static bool is_ignorable(uint32_t c)
{
    return (c >= 0x200c && c <= 0x200f) || (c >= 0x202a && c <= 0x202e) || (c >= 0x206a && c <= 0x206f) || c == 0xfeff;
}

/* True for ".git" in any spelling that some file system takes for it. */
static bool name_is_git(const char *name)
{
    char folded[16];
    size_t n = 0;
    size_t len = strlen(name);

    for (size_t i = 0; i < len && n < sizeof folded - 1;) {
        uint32_t code = 0;
        size_t step = utf8_decode(name + i, len - i, &code);
        if (step == 0 || !is_ignorable(code)) {
            folded[n++] = (char)tolower((unsigned char)name[i]);
            if (step > 1) {
                return false; /* an ordinary letter beyond ASCII */
            }
        }
        i += step ? step : 1;
    }
    folded[n] = '\0';
    char *colon = strchr(folded, ':'); /* an NTFS stream */
    if (colon) {
        *colon = '\0';
        n = strlen(folded);
    }
    while (n > 0 && (folded[n - 1] == '.' || folded[n - 1] == ' ')) {
        folded[--n] = '\0';
    }
    return strcmp(folded, ".git") == 0 || strcmp(folded, "git~1") == 0;
}

struct import {
    int fd; /* the stream for fast-import */
    const struct redactor *redactor;
    char *chunk; /* COPY_CHUNK + the redactor's reach */
};

static int refuse_secret(const struct import *im, const char *path, const void *data, size_t len, struct orch_err *err)
{
    const char *variable = redact_contains(im->redactor, data, len);
    if (!variable) {
        return 0;
    }
    AUTO_FREE char *shown = redact_text(im->redactor, path);
    return err_set(err, ORCH_E_HOSTILE, "%s contains the value of %s: a version may not hold a key", shown, variable);
}

/* Exactly `size` bytes; each window overlaps the one before it by the redactor's reach. */
static int import_bytes(struct import *im, const char *path, int fd, int64_t size, struct orch_err *err)
{
    size_t reach = redact_reach(im->redactor);
    size_t kept = 0;

    for (int64_t left = size; left > 0;) {
        size_t want = left < COPY_CHUNK ? (size_t)left : COPY_CHUNK;
        ssize_t n = read(fd, im->chunk + kept, want);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n < 0 ? err_errno(err, ORCH_E_IO, "read %s", path)
                         : err_set(err, ORCH_E_IO, "%s changed while it was read", path);
        }
        TRY(fd_write_all(im->fd, im->chunk + kept, (size_t)n, err));
        left -= n;
        size_t have = kept + (size_t)n;
        TRY(refuse_secret(im, path, im->chunk, have, err));
        kept = have < reach ? have : reach;
        memmove(im->chunk, im->chunk + have - kept, kept);
    }
    return fd_write_all(im->fd, "\n", 1, err);
}

static void quote_path(struct buf *out, const char *path)
{
    buf_char(out, '"');
    for (const char *p = path; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\') {
            buf_char(out, '\\');
            buf_char(out, *p);
        } else if (c < 0x20 || c == 0x7f) {
            buf_fmt(out, "\\%03o", c);
        } else {
            buf_char(out, *p);
        }
    }
    buf_char(out, '"');
}

static int import_entry(void *arg, const char *path, int fd, const struct stat *st, struct orch_err *err)
{
    struct import *im = arg;
    AUTO_BUF struct buf head;

    if (name_is_git(path_base(path))) {
        return err_set(err, ORCH_E_HOSTILE, "%s: a version may not hold a Git folder", path);
    }
    TRY(refuse_secret(im, path, path, strlen(path), err));
    if (S_ISDIR(st->st_mode)) {
        return 0;
    }
    buf_init(&head, BUF_MAX_LINE);
    buf_fmt(&head, "M %s inline ", st->st_mode & 0111 ? "100755" : "100644");
    quote_path(&head, path);
    buf_fmt(&head, "\ndata %lld\n", (long long)st->st_size);
    TRY(fd_write_all(im->fd, head.data, head.len, err));
    return import_bytes(im, path, fd, st->st_size, err);
}

static int import_head(const struct import *im, const struct version_commit *c, struct orch_err *err)
{
    AUTO_BUF struct buf head;
    const char *message = c->message ? c->message : "";
    long long seconds = (long long)(c->wall_ns / 1000000000);

    if (strlen(message) > MESSAGE_MAX) {
        return err_set(err, ORCH_E_LIMIT, "the message of a version is too long");
    }
    buf_init(&head, MESSAGE_MAX * 2);
    buf_fmt(&head, "feature done\ncommit refs/tags/%s\nmark :1\n", c->tag);
    buf_fmt(&head, "author orch <orch@localhost> %lld +0000\ncommitter orch <orch@localhost> %lld +0000\n", seconds,
            seconds);
    buf_fmt(&head, "data %zu\n%s\n", strlen(message), message);
    for (size_t i = 0; c->parents && c->parents[i]; i++) {
        if (!versions_sha_valid(c->parents[i])) {
            return err_set(err, ORCH_E_INTERNAL, "versions: a parent is no commit");
        }
        buf_fmt(&head, "%s %s\n", i == 0 ? "from" : "merge", c->parents[i]);
    }
    buf_str(&head, "deleteall\n"); /* the tree is this one, not a change of the parent's */
    return fd_write_all(im->fd, head.data, head.len, err);
}

static int import_run(const struct versions *v, int stream, char sha[VERSIONS_SHA_MAX], struct orch_err *err)
{
    AUTO_COMMAND_RESULT struct command_result result = {0};
    struct git_io io = {.input_fd = stream};

    if (lseek(stream, 0, SEEK_SET) < 0) {
        return err_errno(err, ORCH_E_IO, "rewind");
    }
    TRY(versions_git(v, (const char *const[]){"fast-import", "--quiet", "--force", "--done", "--date-format=raw", NULL},
                     &io, &result, err));
    TRY(command_check(&result, "git fast-import", err));
    size_t len = strcspn(result.out, "\n");
    char text[VERSIONS_SHA_MAX] = "";
    if (len < sizeof text) {
        memcpy(text, result.out, len);
    }
    if (!versions_sha_valid(text)) {
        return err_set(err, ORCH_E_IO, "git fast-import named no commit");
    }
    memcpy(sha, text, sizeof text);
    return 0;
}

/* git syncs files, not the directories that name them. */
static int sync_dirs(const struct versions *v, struct orch_err *err)
{
    static const char *const dirs[] = {"objects", "objects/pack", "refs/heads", "refs/tags", "."};
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        AUTO_FREE char *path = path_join(v->dir, dirs[i]);
        AUTO_FD int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0) {
            TRY(durable_sync_dir(fd, err));
        }
    }
    return 0;
}

int versions_commit(const struct versions *v, const struct version_commit *c, struct version_id *ret,
                    struct orch_err *err)
{
    const struct walk_caps caps = {VERSIONS_BYTES_MAX, VERSIONS_FILE_MAX, VERSIONS_FILES_MAX, VERSIONS_DEPTH_MAX};
    AUTO_FD int stream = versions_scratch(v, err);
    AUTO_FREE char *chunk = xmalloc(COPY_CHUNK + redact_reach(c->redactor));
    struct import im = {.fd = stream, .redactor = c->redactor, .chunk = chunk};
    char sha[VERSIONS_SHA_MAX];

    if (stream < 0) {
        return stream;
    }
    if (!c->tag || !*c->tag || strspn(c->tag, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(c->tag)) {
        return err_set(err, ORCH_E_INTERNAL, "versions: a tag is not valid");
    }
    TRY(import_head(&im, c, err));
    TRY(walk_tree(c->dirfd, &caps, import_entry, &im, err));
    TRY(fd_write_all(stream, "get-mark :1\ndone\n", 17, err));
    TRY(fault_point(FAULT_VERSIONS_IMPORT_BEFORE, err));
    TRY(import_run(v, stream, sha, err));
    TRY(fault_point(FAULT_VERSIONS_IMPORT_AFTER, err));
    TRY(sync_dirs(v, err));
    return versions_resolve(v, sha, ret, err);
}

/* ---- Out ---- */

struct tree_entry {
    const char *path; /* within the listing */
    const char *sha;
    bool executable;
};

struct tree_list {
    char *text; /* owned; cut into pieces */
    struct tree_entry *items;
    size_t count;
};

static void tree_list_done(struct tree_list *l)
{
    free(l->text);
    free(l->items);
}
#define AUTO_TREE_LIST __attribute__((cleanup(tree_list_done)))

/* "100644 blob <sha>\t<path>" */
static int parse_entry(char *line, struct tree_entry *ret, struct orch_err *err)
{
    char *tab = strchr(line, '\t');
    bool plain = strncmp(line, "100644 blob ", 12) == 0;
    bool executable = strncmp(line, "100755 blob ", 12) == 0;

    if (!tab || (!plain && !executable)) {
        return err_set(err, ORCH_E_HOSTILE, "the version holds something other than files: %.200s", line);
    }
    *tab = '\0';
    *ret = (struct tree_entry){.path = tab + 1, .sha = line + 12, .executable = executable};
    if (!versions_sha_valid(ret->sha) || !walk_path_valid(ret->path)) {
        return err_set(err, ORCH_E_HOSTILE, "the version holds a path that leads out of it");
    }
    return 0;
}

static int list_tree(const struct versions *v, const char *sha, struct tree_list *ret, struct orch_err *err)
{
    AUTO_COMMAND_RESULT struct command_result result = {0};
    struct git_io io = {.output_max = TREE_LIST_MAX};

    TRY(versions_git(v, (const char *const[]){"ls-tree", "-r", "-z", "--full-tree", sha, NULL}, &io, &result, err));
    TRY(command_check(&result, "git ls-tree", err));
    if (result.out_cut) {
        return err_set(err, ORCH_E_LIMIT, "the version has too many files");
    }
    size_t cap = 0;
    ret->text = take(result.out);
    for (char *p = ret->text; p < ret->text + result.out_len;) {
        size_t len = strlen(p);
        if (ret->count == cap) {
            cap = cap ? cap * 2 : 64;
            ret->items = xrealloc(ret->items, cap * sizeof *ret->items);
        }
        TRY(parse_entry(p, &ret->items[ret->count], err));
        ret->count++;
        p += len + 1;
    }
    return 0;
}

/* A line of cat-file's answer: "<sha> blob <size>". */
static int read_header(FILE *in, const char *sha, int64_t *ret_size, struct orch_err *err)
{
    char line[160];
    AUTO_FREE char *want = xasprintf("%s blob ", sha);
    char *end = NULL;
    bool good = fgets(line, sizeof line, in) && strncmp(line, want, strlen(want)) == 0;
    long long size = good ? strtoll(line + strlen(want), &end, 10) : -1;

    if (size < 0 || *end != '\n') {
        return err_set(err, ORCH_E_DAMAGED, "the versions are damaged: object %s is missing", sha);
    }
    *ret_size = size;
    return 0;
}

static int write_blob(FILE *in, int64_t size, int fd, struct orch_err *err)
{
    AUTO_FREE char *chunk = xmalloc(COPY_CHUNK);

    while (size > 0) {
        size_t n = fread(chunk, 1, size < COPY_CHUNK ? (size_t)size : COPY_CHUNK, in);
        if (n == 0) {
            return err_set(err, ORCH_E_IO, "git cat-file ended early");
        }
        TRY(fd_write_all(fd, chunk, n, err));
        size -= (int64_t)n;
    }
    return fgetc(in) == '\n' ? 0 : err_set(err, ORCH_E_IO, "git cat-file ended early");
}

static int write_files(const struct tree_list *list, FILE *in, int dirfd, struct orch_err *err)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct tree_entry *e = &list->items[i];
        int64_t size = 0;
        TRY(read_header(in, e->sha, &size, err));
        AUTO_FD int fd = walk_create_file(dirfd, e->path, e->executable ? 0755 : 0644, err);
        if (fd < 0) {
            return fd;
        }
        TRY(write_blob(in, size, fd, err));
    }
    return 0;
}

static void close_file(FILE **f)
{
    if (*f) {
        fclose(*f);
    }
}

int versions_checkout(const struct versions *v, const char *sha, int dirfd, struct orch_err *err)
{
    AUTO_TREE_LIST struct tree_list list = {0};
    AUTO_COMMAND_RESULT struct command_result result = {0};
    AUTO_BUF struct buf names;
    AUTO_FD int out = versions_scratch(v, err);

    buf_init(&names, TREE_LIST_MAX);
    if (out < 0) {
        return out;
    }
    if (!versions_sha_valid(sha)) {
        return err_set(err, ORCH_E_NOT_FOUND, "\"%s\" is no commit", sha);
    }
    TRY(list_tree(v, sha, &list, err));
    if (list.count == 0) {
        return 0;
    }
    for (size_t i = 0; i < list.count; i++) {
        buf_fmt(&names, "%s\n", list.items[i].sha);
    }
    struct git_io io = {.input = names.data, .input_len = names.len, .output_fd = out};
    TRY(versions_git(v, (const char *const[]){"cat-file", "--batch", NULL}, &io, &result, err));
    TRY(command_check(&result, "git cat-file", err));
    if (lseek(out, 0, SEEK_SET) < 0) {
        return err_errno(err, ORCH_E_IO, "rewind");
    }
    AUTO(close_file) FILE *in = fdopen(out, "r");
    if (!in) {
        return err_errno(err, ORCH_E_IO, "read git's answer");
    }
    out = -1; /* closed with the stream */
    return write_files(&list, in, dirfd, err);
}
