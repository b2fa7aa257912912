/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's end of the node protocol (backends/node/protocol.h) on a libuv
 * loop: one byte stream, a table of requests that wait for their replies, and
 * channels with credit. It knows frames and ids, nothing of sandboxes. Loop
 * thread only. Internal to backends/environments.
 */
#ifndef ORCH_BACKENDS_ENVIRONMENTS_NODE_CLIENT_H
#define ORCH_BACKENDS_ENVIRONMENTS_NODE_CLIENT_H

#include "backends/node/protocol.h"

#include <uv.h>

struct node_client;
struct node_channel;

struct node_client_callbacks {
    /* An event of the node; `event` is borrowed. */
    void (*event)(void *arg, const char *name, json_t *event);
    /* The stream ended or broke; called once, after every request got its error and every channel its reset. */
    void (*down)(void *arg, const struct orch_err *err);
};

/* Takes `fd` over, a connected stream socket. `c` must live until node_client_close() has called back. */
MUST_USE int node_client_new(uv_loop_t *loop, int fd, int64_t reply_timeout_ns,
                             const struct node_client_callbacks *callbacks, void *arg, struct node_client **ret,
                             struct orch_err *err);
/* Ends the stream (the node sees end of file); requests and channels still open get ORCH_E_INTERRUPTED. */
void node_client_close(struct node_client *c, void (*closed)(void *arg), void *arg);
bool node_client_is_down(const struct node_client *c);

/* What to do when a reply did not come in time; each wait is longer than the one before, within bounds. */
enum node_retry {
    NODE_GIVE_UP, /* ORCH_E_LOST */
    NODE_AGAIN,   /* send the same request again with a new id */
    NODE_WAIT,    /* wait another time-out */
};

/*
 * `ok` is the reply's `ok` member, borrowed, or NULL with `err` filled. Exactly
 * once, never from inside node_request().
 */
typedef void (*node_reply_cb)(void *arg, json_t *ok, const struct orch_err *err);
/* Asked when the reply is late, for the `times`-th time. `request` may be changed (new channel ids). */
typedef enum node_retry (*node_late_cb)(void *arg, json_t *request, unsigned times);

struct node_request;
/*
 * Sends {"id": …} + request (consumed). `late` NULL: sent again NODE_ATTEMPTS times, then given up; if the node said
 * nothing at all meanwhile, it is taken for gone. The handle is valid until the reply callback; a down stream is
 * reported through the callback too.
 */
struct node_request *node_request(struct node_client *c, json_t *request, node_late_cb late, node_reply_cb cb,
                                  void *arg);
/* Forgets the request: its callback is not called; a reply that comes is ignored. NULL is fine. */
void node_request_forget(struct node_request *r);
/* Settles a late request by other knowledge (observe): its callback gets this, from the loop. Either may be NULL. */
void node_request_settle(struct node_request *r, json_t *ok, const struct orch_err *err);

#define NODE_ATTEMPTS 8

/* ---- channels ---- */

struct node_channel_callbacks {
    /* Bytes came. Grant them with node_channel_consumed() when they are dealt with. */
    void (*data)(void *arg, const char *data, size_t len);
    void (*end)(void *arg); /* the other side sends no more */
    /* The channel is gone, by RESET or with the stream. Not called after node_channel_free(). */
    void (*reset)(void *arg);
    void (*room)(void *arg); /* more may be sent; may be NULL */
};

/* A channel of the host's own (odd id), or the one a `connect` event named (id > 0). */
struct node_channel *node_channel_new(struct node_client *c, uint32_t id, const struct node_channel_callbacks *cb,
                                      void *arg);
/* RESETs it unless both sides have ended, and frees it. NULL is fine. */
void node_channel_free(struct node_channel *ch);
uint32_t node_channel_id(const struct node_channel *ch);
void node_channel_consumed(struct node_channel *ch, size_t len);
/* Bytes that may be sent now. */
size_t node_channel_room(const struct node_channel *ch);
/* Sends len <= node_channel_room() bytes. */
void node_channel_send(struct node_channel *ch, const void *data, size_t len);
void node_channel_end(struct node_channel *ch);
/* RESETs a channel named by an event that nobody wants. */
void node_channel_refuse(struct node_client *c, uint32_t id);

#endif
