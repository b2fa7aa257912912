/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handoff: copying a tree that an agent made to a place of the host's, after
 * every process of its sandbox is dead. By descriptor, beneath a root,
 * following no link. What passes: regular files and directories; symbolic
 * links only when asked for and when they stay inside the tree. What comes out:
 * mode 0644 or 0755, the caller as owner, no setuid, no extended attributes,
 * no sharing of inodes with the source.
 *
 * Names are bytes and are kept as they are; odd ones are counted and listed.
 * Everything is capped; over a cap the walk stops with ORCH_E_LIMIT and a
 * filled report. Blocking: call it on a worker thread.
 */
#ifndef ORCH_BACKENDS_HANDOFF_H
#define ORCH_BACKENDS_HANDOFF_H

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HANDOFF_PATH_MAX ((size_t)16384) /* hard maximum of a relative path in bytes */
#define HANDOFF_NOTES_MAX 64             /* listed paths; more are only counted */
#define HANDOFF_NOTE_PATH_MAX 512        /* bytes of a listed path that are kept */

struct handoff_limits {
    uint64_t bytes;      /* all files together: size, holes counted; 0: 1 GiB */
    uint64_t file_bytes; /* one file; 0: as bytes */
    uint64_t entries;    /* files, directories, links and dropped entries; 0: 100000 */
    unsigned depth;      /* levels below the root; 0: 64 */
    size_t path;         /* bytes of a relative path; 0: 4096 */
    bool keep_links;     /* pass relative links that stay inside the tree */
    bool skip_over_file; /* a file over file_bytes is dropped and reported instead of stopping the walk */
    /* Called for every kept file, in the order of the walk, after it was written: `fd` is the *copy* (or, in a
     * scan, the source), open for reading at offset 0, borrowed. A negative return stops with that code. May be NULL.
     */
    int (*observe)(const char *path, int fd, uint64_t size, bool executable, void *arg, struct orch_err *err);
    void *observe_arg;
};

enum handoff_reason {
    HANDOFF_LINK,       /* symbolic link, dropped */
    HANDOFF_LINK_OUT,   /* link that leaves the tree, dropped */
    HANDOFF_SPECIAL,    /* fifo, socket or device, dropped */
    HANDOFF_SETID,      /* setuid, setgid or sticky bit removed; the entry passed */
    HANDOFF_HARDLINK,   /* had several names; became a file of its own; passed */
    HANDOFF_ODD_NAME,   /* control character, invalid UTF-8 or leading dash; passed */
    HANDOFF_UNREADABLE, /* could not be opened or read even as its owner, dropped */
    HANDOFF_CHANGED,    /* changed type or vanished between listing and opening, dropped */
    HANDOFF_MOUNT,      /* another file system is mounted there, dropped */
    HANDOFF_BIG,        /* over file_bytes, dropped (skip_over_file) */
    HANDOFF_OVER_BYTES, /* a cap: the walk stopped here */
    HANDOFF_OVER_ENTRIES,
    HANDOFF_OVER_DEPTH,
    HANDOFF_OVER_PATH,
    HANDOFF_REASON_COUNT
};
const char *handoff_reason_name(enum handoff_reason reason); /* "link-out" */
bool handoff_reason_drops(enum handoff_reason reason);       /* whether such an entry does not pass */

struct handoff_note {
    enum handoff_reason reason;
    size_t path_len;
    char path[HANDOFF_NOTE_PATH_MAX]; /* NUL-terminated, cut when longer; bytes as they are: escape for display */
};

struct handoff_report {
    uint64_t files; /* passed */
    uint64_t dirs;
    uint64_t links;
    uint64_t bytes;                         /* sizes of passed files */
    uint64_t dropped;                       /* entries that did not pass */
    uint64_t reasons[HANDOFF_REASON_COUNT]; /* how often each */
    size_t note_count;
    struct handoff_note notes[HANDOFF_NOTES_MAX]; /* the first ones */
    bool stopped;                                 /* a cap or an error ended the walk early: the copy is not complete */
};

/*
 * Copies everything below `source_dirfd` into `dest_dirfd`, which must be an
 * empty directory of the caller's. ORCH_E_LIMIT over a cap, ORCH_E_NO_SPACE,
 * ORCH_E_IO for failures of the destination. *ret_report is always filled
 * (also on failure).
 */
MUST_USE int handoff_copy(int source_dirfd, int dest_dirfd, const struct handoff_limits *limits,
                          struct handoff_report *ret_report, struct orch_err *err);
/* The same walk and rules without a copy: what would pass? `observe` gets the source file. */
MUST_USE int handoff_scan(int source_dirfd, const struct handoff_limits *limits, struct handoff_report *ret_report,
                          struct orch_err *err);

/* Counts and notes as JSON (paths as text). New reference. */
json_t *handoff_report_json(const struct handoff_report *report);

#endif
