/* SPDX-License-Identifier: Apache-2.0 */
/* Kept trees: a manifest of paths, modes and digests. */
#include "state/objects.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "state/walk.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TREE_VERSION 1

struct tree_keep {
    struct objects *o;
    json_t *entries;
    int64_t size;
    bool redacted;
    int64_t manifest; /* bytes so far, roughly */
    const struct tree_caps *caps;
};

/* A name as JSON text: UTF-8 passes, '\' is doubled, any other byte is \xNN. */
static char *escape_path(const char *path)
{
    struct buf out;
    size_t len = strlen(path);

    buf_init(&out, BUF_MAX_LINE);
    for (size_t i = 0; i < len;) {
        uint32_t code;
        size_t n = utf8_decode(path + i, len - i, &code);
        if (path[i] == '\\') {
            buf_str(&out, "\\\\");
        } else if (n == 0 || code < 0x20 || code == 0x7f) {
            buf_fmt(&out, "\\x%02x", (unsigned char)path[i]);
        } else {
            buf_add(&out, path + i, n);
        }
        i += n ? n : 1;
    }
    return buf_take(&out, NULL);
}

/* Undoes escape_path; NULL if the text is not one. */
static char *unescape_path(const char *text)
{
    AUTO_BUF struct buf out;

    buf_init(&out, BUF_MAX_LINE);
    for (const char *p = text; *p;) {
        if (*p != '\\') {
            buf_char(&out, *p++);
        } else if (p[1] == '\\') {
            buf_char(&out, '\\');
            p += 2;
        } else if (p[1] == 'x' && isxdigit((unsigned char)p[2]) && isxdigit((unsigned char)p[3])) {
            const char hex[] = {p[2], p[3], '\0'};
            char byte = (char)strtoul(hex, NULL, 16);
            if (!byte) {
                return NULL;
            }
            buf_char(&out, byte);
            p += 4;
        } else {
            return NULL;
        }
    }
    return buf_take(&out, NULL);
}

static int keep_entry(void *arg, const char *path, int fd, const struct stat *st, struct orch_err *err)
{
    struct tree_keep *t = arg;
    bool directory = S_ISDIR(st->st_mode);
    AUTO_FREE char *clean = redact_text(objects_redactor(t->o), path);
    AUTO_FREE char *escaped = escape_path(clean);
    AUTO_FREE char *key = xasprintf("%s%s", escaped, directory ? "/" : "");
    json_t *entry = json_object();

    t->manifest += (int64_t)strlen(key) + 160;
    if (t->manifest > (int64_t)OBJECTS_TREE_MANIFEST_MAX) {
        json_decref(entry);
        return err_set(err, ORCH_E_LIMIT, "the names of the tree are too long together");
    }
    t->redacted = t->redacted || strcmp(clean, path) != 0;
    json_set_str(entry, "mode", directory || (st->st_mode & 0111) ? "0755" : "0644");
    if (!directory) {
        struct kept kept;
        if (objects_keep_fd(t->o, fd, t->caps->file, KEEP_REFUSE, &kept, err) < 0) {
            json_decref(entry);
            return err_wrap(err, "%s", path);
        }
        json_set_str(entry, "digest", kept.digest);
        json_set_int(entry, "size", kept.size);
        t->size += kept.size;
        t->redacted = t->redacted || kept.redacted;
    }
    if (json_get(t->entries, key)) { /* two names that differ in a secret only */
        json_decref(entry);
        return err_set(err, ORCH_E_HOSTILE, "two files have the name %s once secrets are removed", key);
    }
    json_set_take(t->entries, key, entry);
    return 0;
}

int objects_keep_tree(struct objects *o, int dirfd, const struct tree_caps *caps, struct kept *ret,
                      struct orch_err *err)
{
    AUTO_JSON json_t *manifest = json_object();
    struct tree_keep t = {.o = o, .entries = json_object(), .caps = caps};
    const struct walk_caps limits = {caps->bytes, caps->file, caps->files, caps->depth};
    struct kept kept;

    json_set_int(manifest, "version", TREE_VERSION);
    json_set_take(manifest, "entries", t.entries);
    TRY(walk_tree(dirfd, &limits, keep_entry, &t, err));
    AUTO_FREE char *text = json_canonical(manifest);
    TRY(objects_keep(o, text, strlen(text), OBJECTS_TREE_MANIFEST_MAX, KEEP_REFUSE, &kept, err));
    kept.size = t.size;
    kept.redacted = kept.redacted || t.redacted;
    *ret = kept;
    return 0;
}

int objects_tree(struct objects *o, const char *digest, json_t **ret, struct orch_err *err)
{
    AUTO_FREE char *text = NULL;
    AUTO_JSON json_t *manifest = NULL;
    size_t len = 0;

    TRY(objects_read(o, digest, OBJECTS_TREE_MANIFEST_MAX, &text, &len, err));
    TRY(json_parse(text, len, OBJECTS_TREE_MANIFEST_MAX, &manifest, err));
    if (json_get_int(manifest, "version", 0) != TREE_VERSION || !json_is_object(json_get(manifest, "entries"))) {
        return err_set(err, ORCH_E_DAMAGED, "object %s is not a tree", digest);
    }
    *ret = take(manifest);
    return 0;
}

static int write_entry(struct objects *o, int dest, const char *key, const json_t *entry, struct orch_err *err)
{
    AUTO_FREE char *path = unescape_path(key);
    size_t len = path ? strlen(path) : 0;
    bool directory = len > 1 && path[len - 1] == '/';

    if (directory) {
        path[len - 1] = '\0';
    }
    if (!path || !walk_path_valid(path)) {
        return err_set(err, ORCH_E_DAMAGED, "a kept tree holds a path that leads out of it");
    }
    if (directory) {
        return walk_create_dir(dest, path, err);
    }
    const char *mode = json_get_str(entry, "mode", "0644");
    AUTO_FD int fd = walk_create_file(dest, path, strcmp(mode, "0755") == 0 ? 0755 : 0644, err);
    if (fd < 0) {
        return fd;
    }
    return objects_write_fd(o, json_get_str(entry, "digest", ""), fd, err);
}

int objects_write_tree(struct objects *o, const char *digest, int dest_dirfd, struct orch_err *err)
{
    AUTO_JSON json_t *manifest = NULL;
    const char *key;
    json_t *entry;

    TRY(objects_tree(o, digest, &manifest, err));
    json_object_foreach(json_object_get(manifest, "entries"), key, entry)
    {
        TRY(write_entry(o, dest_dirfd, key, entry, err));
    }
    return 0;
}
