/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of a whole sandbox by control groups, where this process may make them: version 1 (memory and pids as separate
 * trees) or version 2 (one tree, delegated). One group of the node's own holds one group a sandbox; the init is put in
 * by its host pid before anything of the sandbox runs. Where groups cannot be made there are only process limits, and
 * the record says so. Kernel: Documentation/admin-guide/cgroup-v1/memory.rst, pids.rst, cgroup-v2.rst. Single-threaded.
 */
#ifndef ORCH_BACKENDS_MECHANISMS_CGROUP_H
#define ORCH_BACKENDS_MECHANISMS_CGROUP_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cgroup_tree;

/* Never fails: a tree that can make no group says why. Removes what dead nodes left. */
struct cgroup_tree *cgroup_tree_new(void);
void cgroup_tree_free(struct cgroup_tree *t); /* removes the node's own group; NULL is fine */
/* "cgroup1", "cgroup2" or "rlimit". */
const char *cgroup_tree_limits(const struct cgroup_tree *t);
/* Why there are none; "" when there are. */
const char *cgroup_tree_why(const struct cgroup_tree *t);

struct cgroup_limits {
    uint64_t memory;    /* bytes of the whole tree, its files in memory included; 0: none */
    uint64_t processes; /* processes and threads, the init not counted; 0: none */
};

struct cgroup_events {
    uint64_t oom_kills;     /* processes the kernel killed for the memory limit */
    uint64_t refused_forks; /* times the process limit was hit */
};

/* The group of slot `index`, empty, with these limits. Nothing is made, and 0 returned, where the tree can make none.
 */
MUST_USE int cgroup_take(struct cgroup_tree *t, uint32_t index, const struct cgroup_limits *l, struct orch_err *err);
/* `pid` as seen here; before anything that shall be limited has been started by it. */
MUST_USE int cgroup_put(struct cgroup_tree *t, uint32_t index, pid_t pid, struct orch_err *err);
/* Counts since the group was made: compare with what it said after cgroup_take. */
struct cgroup_events cgroup_read(struct cgroup_tree *t, uint32_t index);

#endif
