/* SPDX-License-Identifier: Apache-2.0 */
/* A small blocking host for orch-node: one stream, replies and events kept until asked for. Failures abort the test. */
#ifndef ORCH_UNIT_BACKENDS_NODE_DRIVER_H
#define ORCH_UNIT_BACKENDS_NODE_DRIVER_H

#include "backends/node/protocol.h"
#include "backends/spec.h"
#include "test.h"

#include <sys/types.h>

#define DRIVER_CHANNELS 256

struct driver_channel {
    uint32_t id;
    struct buf data;
    bool ended, reset, hold; /* hold: no credit is granted */
    uint64_t may_send;
};

struct driver {
    struct test_dir dir;
    char *work; /* what the node was given */
    pid_t pid;
    int fd;
    bool as_user; /* the node runs as an ordinary user */
    int64_t lose;
    int64_t next_id;
    uint32_t next_channel;
    struct frame_decoder in;
    json_t *replies; /* id → reply */
    json_t *events;
    json_t *hello;
    struct driver_channel channels[DRIVER_CHANNELS];
    size_t channel_count;
    bool over; /* the node closed the stream */
};

/* Runs `check` with a node of each kind this machine allows: as root (uids of a range), as a user. */
void driver_each(void (*check)(struct driver *d));
void driver_each_losing(int64_t lose, void (*check)(struct driver *d));
void driver_start(struct driver *d, bool as_user, int64_t lose, const char *mechanism);
void driver_stop(struct driver *d); /* ends the stream, the node must exit 0 and leave nothing */

int64_t driver_send(struct driver *d, const char *op, json_t *members); /* consumes members; NULL: none */
json_t *driver_wait(struct driver *d, int64_t id);                      /* the reply; new reference */
json_t *driver_ask(struct driver *d, const char *op, json_t *members);
/* The code of an error reply, or "". */
const char *driver_code(const json_t *reply);

struct driver_channel *driver_channel(struct driver *d, uint32_t id); /* made if new */
uint32_t driver_new_channel(struct driver *d);
void driver_data(struct driver *d, uint32_t channel, const void *data, size_t len);
void driver_end(struct driver *d, uint32_t channel);
void driver_reset(struct driver *d, uint32_t channel);
void driver_credit(struct driver *d, uint32_t channel, uint32_t bytes);
/* Reads frames until `until` is true for d. */
void driver_until(struct driver *d, bool (*until)(struct driver *d, const void *arg), const void *arg);
void driver_wait_ended(struct driver *d, uint32_t channel); /* END or RESET came */

/* A spec with /usr, PATH, HOME, cwd /w and one writable directory /w/output. */
void driver_spec(struct sandbox_spec *s, const char *name);
json_t *driver_open(struct driver *d, const struct sandbox_spec *s); /* the reply */
void driver_open_ok(struct driver *d, const struct sandbox_spec *s);
void driver_remove(struct driver *d, const char *name);

struct outcome {
    json_t *result;
    char *out, *err;
    size_t out_len;
};
void outcome_done(struct outcome *o);
#define AUTO_OUTCOME __attribute__((cleanup(outcome_done)))

/* Sends a call; argv ends with NULL. */
struct call_ids {
    uint32_t in, out, err;
    const char *sandbox, *call;
};
struct call_ids driver_call_start(struct driver *d, const char *sandbox, const char *call, char *const *argv,
                                  int64_t wall_ms, bool with_input);
struct outcome driver_call_wait(struct driver *d, const struct call_ids *ids);
/* `sh -c script` in one go. */
struct outcome driver_sh(struct driver *d, const char *sandbox, const char *call, const char *script, int64_t wall_ms);
const char *outcome_end(const struct outcome *o);
int outcome_code(const struct outcome *o);
const char *outcome_limit(const struct outcome *o); /* "" without one */

#endif
