/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One runner a run: a kernel lock (open file description lock) on
 * runs/<id>/lock. The file is never unlinked: a lock on an unlinked file guards
 * nothing. The kernel drops the lock with its holder, so a dead owner never
 * blocks; what the file says is only for messages.
 */
#ifndef ORCH_STATE_LOCK_H
#define ORCH_STATE_LOCK_H

#include "base/err.h"

#include <stdint.h>
#include <sys/types.h>

struct run_lock; /* held */

#define LOCK_HOST_MAX 256
struct lock_owner {
    bool held;     /* somebody holds it now */
    pid_t pid;     /* 0: unknown */
    int64_t start; /* start time of the process, clock ticks since boot */
    char host[LOCK_HOST_MAX];
    char boot_id[64];
    bool alive; /* same host and boot, and the process is there with the same start time */
};

/* ORCH_E_OWNED names pid and host of the owner. `run_dir` is runs/<id>. */
MUST_USE int lock_take(const char *run_dir, struct run_lock **ret, struct orch_err *err);
void lock_drop(struct run_lock *lock); /* NULL is fine */
void lock_release(struct run_lock **lock);
#define AUTO_LOCK __attribute__((cleanup(lock_release)))
/* Who holds it; never waits, takes nothing. Absence of the file: not held. */
MUST_USE int lock_look(const char *run_dir, struct lock_owner *ret, struct orch_err *err);

#endif
