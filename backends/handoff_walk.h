/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk behind handoff_copy() and handoff_scan(): reads a hostile tree in a
 * fixed order (entries of a directory by name as bytes, a directory before what
 * is in it) and tells a sink about each entry that passes. No recursion; one
 * directory descriptor at a time, whatever the depth. Internal to backends/.
 */
#ifndef ORCH_BACKENDS_HANDOFF_WALK_H
#define ORCH_BACKENDS_HANDOFF_WALK_H

#include "backends/handoff.h"

struct handoff_sink {
    int (*dir)(void *arg, const char *path, struct orch_err *err);
    int (*link)(void *arg, const char *path, const char *target, struct orch_err *err);
    /* `fd` is the opened source, a regular file of `size` bytes. A positive return drops the entry (it changed). */
    int (*file)(void *arg, const char *path, int fd, uint64_t size, bool executable, struct orch_err *err);
    void *arg;
};

/* Limits with every 0 replaced by its default and `path` cut to HANDOFF_PATH_MAX. */
struct handoff_limits handoff_limits_full(const struct handoff_limits *limits);
void handoff_note(struct handoff_report *report, enum handoff_reason reason, const char *path, size_t len);
/* Opens a relative path of any length beneath `rootfd`, in pieces the kernel takes; "" is the root itself. */
MUST_USE int handoff_open_path(int rootfd, const char *path, int flags, struct orch_err *err);
MUST_USE int handoff_walk(int rootfd, const struct handoff_limits *limits, const struct handoff_sink *sink,
                          struct handoff_report *report, struct orch_err *err);

#endif
