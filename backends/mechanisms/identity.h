/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who the processes of a sandbox are. Started as root, each slot is a real uid N of the operator's range with a
 * user namespace of its own (0 → 0, N → N, and the owners of the directories that lead to what is granted: without
 * them even the namespace's root could not pass a closed home; no further namespaces below), reused after its
 * sandbox is proved empty. Started as a user there is one identity: the user's own.
 * Single-threaded.
 */
#ifndef ORCH_BACKENDS_MECHANISMS_IDENTITY_H
#define ORCH_BACKENDS_MECHANISMS_IDENTITY_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define IDENTITY_FIRST_DEFAULT 200000
#define IDENTITY_COUNT_DEFAULT 65000

struct identity {
    uid_t uid;      /* outside and inside */
    gid_t gid;      /* the same number for a slot */
    int userns;     /* borrowed; -1 without a named identity */
    uint32_t index; /* of the slot */
};

struct identity_pool;

/* As uid 0 the range must lie above 0 and be free of the ids of this machine's users: ORCH_E_CONFIG. */
MUST_USE int identity_pool_new(uint32_t first, uint32_t count, struct identity_pool **ret, struct orch_err *err);
/* Slots get no user namespace from now on, as where none can be made: their uid is the host's in everything. */
void identity_pool_plain(struct identity_pool *p);
void identity_pool_free(struct identity_pool *p);
bool identity_pool_named(const struct identity_pool *p); /* true: uids of a range */
/* Slots made so far. */
uint32_t identity_pool_slots(const struct identity_pool *p);

#define IDENTITY_OWNERS_MAX 32
/* The owners of `path` and of each directory above it are known in every slot taken from now on. ORCH_E_LIMIT when
 * there are more than IDENTITY_OWNERS_MAX in all. */
MUST_USE int identity_pool_pass(struct identity_pool *p, const char *path, struct orch_err *err);

/* A free slot, made if there is none. No two live nodes of this machine hold the same uid. */
MUST_USE int identity_acquire(struct identity_pool *p, struct identity *ret, struct orch_err *err);
/* Only after no process of it is left. */
void identity_release(struct identity_pool *p, const struct identity *id);

#endif
