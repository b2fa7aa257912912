/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call in one sandbox, from open to handoff: open, run, fetch what the role
 * hands on, take the sandbox away. Every role's call goes this way.
 */
#ifndef ORCH_ROLES_ROLE_CALL_H
#define ORCH_ROLES_ROLE_CALL_H

#include "backends/environment.h"
#include "backends/handoff.h"
#include "backends/spec.h"
#include "base/err.h"

/* One directory to fetch after the call, whatever its end. Owned by the caller, lives until the callback. */
struct role_fetch {
    const char *inside; /* absolute path inside */
    int dest_dirfd;     /* fresh directory of the host's; borrowed */
    struct handoff_limits limits;
    struct handoff_report report; /* filled */
    struct orch_err err;          /* filled; ORCH_E_LIMIT: a cap stopped the copy */
    bool done;                    /* it was tried */
};

struct role_call_outcome {
    struct orch_err err; /* infrastructure: open failed, node lost, end unknown; code 0 otherwise */
    char *mechanism;     /* owned, "" when the open failed */
    char *mechanism_version;
    char *grade;
    uint32_t uid;
    json_t *checks; /* owned, may be NULL */
    bool opened;
    struct call_result call;
};

struct role_call; /* one under way */
typedef void (*role_call_cb)(struct role_call_outcome *outcome, void *arg);

struct role_call_plan {
    const struct sandbox_spec *spec; /* copied, as is `call` */
    const struct call_spec *call;
    struct role_fetch *fetches; /* borrowed until `ended` */
    size_t fetch_count;
    void (*exited)(void *arg); /* optional: the program and all it started are dead; what it left is fetched next */
    role_call_cb ended;        /* once: everything is fetched, and the sandbox is being removed */
    void *arg;
};

/*
 * Starts it; loop thread, as are the callbacks. `exited` comes before `ended`, at most once, and not when the call
 * never ran. The outcome belongs to the library and is freed after `ended`. *ret may be used until `ended`.
 */
MUST_USE int role_call_start(struct environment *env, const struct role_call_plan *plan, struct role_call **ret,
                             struct orch_err *err);
/* Kills the call; the callback still comes. */
void role_call_cancel(struct role_call *rc);

#endif
