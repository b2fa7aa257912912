/* SPDX-License-Identifier: Apache-2.0 */
/* What is mounted in a sandbox, in order: the spec lowered, before any mechanism's own words. */
#ifndef ORCH_BACKENDS_MECHANISMS_MOUNT_PLAN_H
#define ORCH_BACKENDS_MECHANISMS_MOUNT_PLAN_H

#include "backends/spec.h"
#include "base/err.h"

enum mount_kind {
    MOUNT_RO_BIND, /* source on target, read-only */
    MOUNT_BIND,    /* the same, writable */
    MOUNT_PROC,
    MOUNT_DEV,
    MOUNT_TMPFS,      /* size bytes, mode 1777 */
    MOUNT_REMOUNT_RO, /* target as it is, read-only from here on */
    MOUNT_DIR,        /* a directory in memory, mode 0755 */
    MOUNT_KIND_COUNT
};

struct mount_step {
    enum mount_kind kind;
    char *source; /* owned; NULL without one */
    char *target; /* owned */
    uint64_t size;
};

struct mount_plan {
    struct mount_step *steps; /* owned */
    size_t count;
};

void mount_plan_done(struct mount_plan *p); /* accepts a zeroed struct */
#define AUTO_MOUNT_PLAN __attribute__((cleanup(mount_plan_done)))
void mount_plan_add(struct mount_plan *p, enum mount_kind kind, const char *source, const char *target, uint64_t size);

/* Where mount points and inline files of one sandbox lie. Sandboxes only ever see it read-only, so that a place can
 * serve the next one of the same shape, once the first is proved gone. */
struct mount_place {
    const char *dir;      /* absolute; "root/" (mount points, inline files) and "files/" are made below it */
    int dirfd;            /* of it */
    bool prepared;        /* its mount points are there: only inline files are written again */
    const char *skeleton; /* the prepared root to use */
    const char *empty_dir, *empty_file; /* what covers hidden paths; nobody can write them */
};

/*
 * Lowers a checked spec. sources[i] is the resolved absolute path of grants[i] on this machine, or NULL when it is
 * left out. Makes the mount points and inline files beneath place->dir. No component of any target is
 * a link; steps are ordered so that a deeper target comes later. ORCH_E_HOSTILE for a link where a mount
 * would have to be, ORCH_E_CONFIG for a place that does not exist and cannot be made.
 */
MUST_USE int mount_plan_lower(const struct sandbox_spec *s, char *const *sources, const struct mount_place *place,
                              struct mount_plan *ret, struct orch_err *err);

/* Everything that decides which mount points a place has: equal text, equal points. Owned by the caller. */
char *mount_plan_shape(const struct sandbox_spec *s, char *const *sources);

/* First components of all targets that the root must show, besides its own ("w", …): sorted, owned by the caller. */
char **mount_plan_tops(const struct sandbox_spec *s);

#endif
