/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Content-addressed bytes of a run, and keep(): the one sink for stored bytes.
 * keep bounds, redacts, digests and stores; equal contents are stored once.
 * Small ones (<= OBJECTS_INLINE_MAX) live in the record, larger ones in
 * objects/ab/cdef… through the durable layer. The digest is of the bytes as
 * stored, so after redaction.
 *
 * Any thread. What was just kept can be read back at once by the same `struct
 * objects` (an object in flight is waited for).
 */
#ifndef ORCH_STATE_OBJECTS_H
#define ORCH_STATE_OBJECTS_H

#include "base/digest.h"
#include "base/err.h"
#include "base/json.h"
#include "state/record.h"
#include "state/redact.h"

#include <stdint.h>
#include <sys/types.h>

#define OBJECTS_INLINE_MAX 16384
#define OBJECTS_TREE_MANIFEST_MAX ((size_t)64 << 20)

struct objects;

/* `dir`: runs/<id>/objects. `rec` and `redactor` (NULL: none) are borrowed. A record opened for reading gives a
 * reader: keep fails with ORCH_E_INTERNAL. */
MUST_USE int objects_open(const char *dir, struct record *rec, const struct redactor *redactor, struct objects **ret,
                          struct orch_err *err);
void objects_free(struct objects *o);
void objects_release(struct objects **o);
#define AUTO_OBJECTS __attribute__((cleanup(objects_release)))

/* What it redacts with; borrowed, may be NULL. */
const struct redactor *objects_redactor(const struct objects *o);

enum keep_over { KEEP_REFUSE, KEEP_CUT, KEEP_OVER_COUNT }; /* more than max: ORCH_E_LIMIT, or the first max bytes */

struct kept {
    char digest[DIGEST_TEXT_MAX];
    int64_t size;  /* as stored */
    bool cut;      /* the end is missing */
    bool redacted; /* something was replaced */
};

/* Keeps memory. */
MUST_USE int objects_keep(struct objects *o, const void *data, size_t len, int64_t max, enum keep_over over,
                          struct kept *ret, struct orch_err *err);
/* Keeps a file from its current offset to its end, streaming. */
MUST_USE int objects_keep_fd(struct objects *o, int fd, int64_t max, enum keep_over over, struct kept *ret,
                             struct orch_err *err);

/* Reads one back; the digest is verified (ORCH_E_DAMAGED), more than max is ORCH_E_LIMIT. Owned, NUL-terminated. */
MUST_USE int objects_read(struct objects *o, const char *digest, size_t max, char **ret, size_t *ret_len,
                          struct orch_err *err);
/* Writes one to fd, streaming, verified. */
MUST_USE int objects_write_fd(struct objects *o, const char *digest, int fd, struct orch_err *err);
MUST_USE int objects_has(struct objects *o, const char *digest, bool *ret, struct orch_err *err);

struct tree_caps {
    int64_t bytes; /* all files together */
    int64_t file;  /* one file */
    int64_t files; /* entries, directories too */
    int depth;
};
#define TREE_CAPS_DEFAULT                                                                                              \
    (struct tree_caps)                                                                                                 \
    {                                                                                                                  \
        .bytes = (int64_t)1 << 30, .file = (int64_t)256 << 20, .files = 100000, .depth = 64                            \
    }

/*
 * Keeps a directory read by descriptor: regular files and directories only, no link followed; a link or special file
 * is ORCH_E_HOSTILE, beyond a cap ORCH_E_LIMIT. The object is a manifest
 * {"version":1,"entries":{"a/b":{"digest":…,"mode":"0644","size":n},"d/":{"mode":"0755"}}} with redacted names; modes
 * are normalised to 0644, 0755. ret->size is the sum of the files. Equal trees have equal digests.
 */
MUST_USE int objects_keep_tree(struct objects *o, int dirfd, const struct tree_caps *caps, struct kept *ret,
                               struct orch_err *err);
/* Writes a kept tree into the (empty) directory dest_dirfd. */
MUST_USE int objects_write_tree(struct objects *o, const char *digest, int dest_dirfd, struct orch_err *err);
/* The manifest, for listing. New reference. */
MUST_USE int objects_tree(struct objects *o, const char *digest, json_t **ret, struct orch_err *err);

#endif
