/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tree as bytes: directories, regular files and (when asked for) relative links that stay inside. The same tree
 * always gives the same bytes (entries sorted, parents first, no owner, no time),
 * so the digest of the bytes is the digest of the tree.
 *
 *   "orchtree1\n"
 *   entry:  u8 'd' | 'f' | 'x' (executable file) | 'l' (link), u16 length of path, u64 size, path, bytes
 *   end:    u8 'e', u16 0, u64 number of entries
 * Numbers little-endian. Paths are plain relative (path_is_plain_relative), each
 * component at most 255 bytes, sorted strictly by component (as bytes, '/' lowest), and each
 * parent is a 'd' entry before. Size is 0 for 'd'; the bytes of 'l' are its target: relative, at most
 * TREE_PATH_MAX, lexically inside the tree. The root itself is not an entry.
 */
#ifndef ORCH_BACKENDS_NODE_TREE_STREAM_H
#define ORCH_BACKENDS_NODE_TREE_STREAM_H

#include "base/digest.h"
#include "base/err.h"

#include <stdint.h>

#define TREE_ENTRIES_MAX 200000
#define TREE_BYTES_MAX ((uint64_t)16 << 30)
#define TREE_PATH_MAX 4095
#define TREE_DEPTH_MAX 64

struct tree_limits {
    uint64_t bytes;   /* of all files together; 0: TREE_BYTES_MAX */
    uint64_t entries; /* 0: TREE_ENTRIES_MAX */
    bool links;       /* links that stay inside pass; else packing skips them and unpacking refuses them */
};

struct tree_counts {
    uint64_t bytes;
    uint64_t entries;
    uint64_t skipped; /* links, special files and files with other mount, left out when packing */
};

/* Packing: an iterator over a tree, by descriptor, following no link. */
struct tree_packer;
/* Scans beneath `dirfd` (borrowed; duplicated). Too much is ORCH_E_LIMIT. */
MUST_USE int tree_packer_new(int dirfd, const struct tree_limits *limits, struct tree_packer **ret,
                             struct orch_err *err);
void tree_packer_free(struct tree_packer *p);
/* Fills up to `cap` bytes; *ret_len 0 only at the end. A file that changes size under way is ORCH_E_DAMAGED. */
MUST_USE int tree_packer_read(struct tree_packer *p, void *out, size_t cap, size_t *ret_len, struct orch_err *err);
/* After the end. */
void tree_packer_result(struct tree_packer *p, struct tree_counts *ret, char digest[DIGEST_TEXT_MAX]);

/* Unpacking: the bytes are hostile. Files become 0644 or 0755, directories 0755. */
struct tree_unpacker;
/* `dirfd` (borrowed; duplicated) is an empty directory. */
MUST_USE int tree_unpacker_new(int dirfd, const struct tree_limits *limits, struct tree_unpacker **ret,
                               struct orch_err *err);
void tree_unpacker_free(struct tree_unpacker *u);
MUST_USE int tree_unpacker_feed(struct tree_unpacker *u, const void *data, size_t len, struct orch_err *err);
/* ORCH_E_DAMAGED if the end entry did not come; any byte after it is refused by feed. */
MUST_USE int tree_unpacker_finish(struct tree_unpacker *u, struct tree_counts *ret, char digest[DIGEST_TEXT_MAX],
                                  struct orch_err *err);

/* The digest and counts of a tree beneath dirfd without keeping the bytes (blocking). */
MUST_USE int tree_digest(int dirfd, const struct tree_limits *limits, struct tree_counts *ret,
                         char digest[DIGEST_TEXT_MAX], struct orch_err *err);

#endif
