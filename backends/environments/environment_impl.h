/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of an environment on a node share. One struct environment owns
 * one node (a process and its stream), the sandboxes opened on it and the
 * operations under way. Internal to backends/environments.
 */
#ifndef ORCH_BACKENDS_ENVIRONMENTS_ENVIRONMENT_IMPL_H
#define ORCH_BACKENDS_ENVIRONMENTS_ENVIRONMENT_IMPL_H

#include "backends/environment.h"

#include "backends/environments/capture.h"
#include "backends/environments/node_client.h"
#include "backends/environments/registry.h"
#include "base/json.h"
#include "base/map.h"

#define NODE_STDERR_MAX 4096

enum environment_state { ENV_NEW, ENV_STARTING, ENV_UP, ENV_DOWN, ENV_CLOSING };

struct tree_op;

struct environment {
    uv_loop_t *loop;
    enum environment_state state;
    const struct environment_row *row;
    struct environment_caps caps;
    json_t *report; /* the node's hello */

    /* settings, owned copies */
    char *node_program, *init_program, *work_dir, *mechanism, *off;
    bool pass_stdio, work_is_new;
    char **covered;
    uint32_t uid_first, uid_count;
    unsigned lose_every;
    int64_t reply_timeout_ns;

    /* the node */
    pid_t pid;
    int pidfd;
    int node_lock; /* of the node's directory on this machine */
    bool exited, exit_polling, stderr_open;
    int exit_status; /* waitid code and status, for messages */
    uv_poll_t exit_poll;
    uv_pipe_t stderr_pipe;
    char stderr_tail[NODE_STDERR_MAX + 1];
    size_t stderr_len;
    char stderr_chunk[1024];
    struct node_client *client;
    struct orch_err why; /* it is down */

    struct map *sandboxes; /* name → struct sandbox, owned */
    struct tree_op *trees; /* puts and gets under way */
    unsigned works;        /* of them, on worker threads */
    uv_timer_t defer;      /* pumps streams from the loop; kills a node that does not end */

    environment_cb start_cb;
    void *start_arg;
    void (*close_cb)(void *arg);
    void *close_arg;
    bool close_begun, client_closed, closing_handles;
    int handles; /* open uv handles of ours, while closing */
};

enum sandbox_state { SANDBOX_OPENING, SANDBOX_OPEN, SANDBOX_FAILED, SANDBOX_CLOSED };

struct sandbox {
    struct environment *env;
    char *name;
    json_t *spec; /* as sent; NULL for an adopted one */
    enum sandbox_state state;
    struct orch_err err; /* why it failed or closed */
    struct node_request *open_request;
    struct node_request *observe_request; /* for a late open */
    sandbox_open_cb open_cb;
    void *open_arg;
    sandbox_stream_cb on_stream;
    void *stream_arg;
    struct call *calls; /* not ended yet, newest first */
    struct stream *streams;
    unsigned busy; /* requests and tree operations that point here */
    bool removing, removed;
    struct orch_err remove_err;
    environment_cb remove_cb;
    void *remove_arg;
    void *data;
};

struct call {
    struct sandbox *sb;
    struct call *next, *prev;
    bool stdio;
    char *name;
    json_t *body; /* the request without id and channels; NULL: waits for somebody else's call */
    call_cb cb;
    void *arg;
    void (*on_output)(struct call *call, int stream, const char *data, size_t len, void *arg);
    struct node_request *request;
    bool observing;
    struct node_channel *in, *out, *errout;
    char *input;
    size_t input_len, input_sent;
    struct capture_state out_capture, err_capture;
    uint64_t output_limit, output;
    bool over_output, over_sent;
    json_t *held;            /* the result, until the open's late answer is known */
    struct orch_err refused; /* the node's answer, kept until the open's own error is known */
};

/* environment.c */
void environment_defer(struct environment *env); /* streams are pumped from the loop soon */
void environment_maybe_closed(struct environment *env);
/* ORCH_E_USAGE before start has succeeded, ORCH_E_INTERRUPTED while closing. */
MUST_USE int environment_usable(const struct environment *env, struct orch_err *err);
/* The same for what may follow the greeting without waiting for its answer. */
MUST_USE int environment_asked(const struct environment *env, struct orch_err *err);

/* env_sweep.c */
/* Marks a directory as in use while the descriptor is open; -1 when it cannot. */
int environment_lock_dir(const char *path);
/* Removes what no living process uses from a working directory; returns how many. Blocking. */
unsigned environment_sweep(const char *work_dir);
void environment_start_sweep(struct environment *env); /* the same on a worker thread */

/* node_process.c */
MUST_USE int node_process_start(struct environment *env, const struct node_launch *launch, int *ret_stream,
                                struct orch_err *err);
void node_process_kill(struct environment *env);
/* Closes the handles; env->handles counts them down through environment_maybe_closed(). */
void node_process_close(struct environment *env);

/* env_sandbox.c */
struct sandbox *sandbox_find(const struct environment *env, const char *name);
void sandbox_closed_event(struct environment *env, json_t *event);
/* Asks at once about an open whose answer is late. */
void sandbox_ask_open(struct sandbox *sb);
/* Ends everything of a sandbox with `err`. */
void sandbox_end_all(struct sandbox *sb, const struct orch_err *err);
void sandbox_free(struct sandbox *sb);
void sandbox_release(struct sandbox *sb); /* one `busy` less */

/* env_call.c */
void call_exited_event(struct environment *env, json_t *event);
void call_open_settled(struct sandbox *sb); /* the open succeeded: what waited for that is told */
void call_fail(struct call *call, const struct orch_err *err);

/* env_stream.c */
void stream_connect_event(struct environment *env, json_t *event);
void stream_pump_all(struct sandbox *sb);
void stream_end(struct stream *s, const struct orch_err *err);

/* env_tree.c */
void tree_end_all(struct environment *env, const struct orch_err *err);

#endif
