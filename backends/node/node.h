/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of orch-node: one loop, one thread (disk walks aside). Everything here
 * is called from the loop. Ownership: the node owns sandboxes and channels; a
 * sandbox owns its calls and listeners; a pump is owned by who made it.
 */
#ifndef ORCH_BACKENDS_NODE_NODE_H
#define ORCH_BACKENDS_NODE_NODE_H

#include "backends/guest/control.h"
#include "backends/mechanisms/cgroup.h"
#include "backends/mechanisms/identity.h"
#include "backends/mechanisms/landlock.h"
#include "backends/mechanisms/mechanism.h"
#include "backends/mechanisms/skeleton.h"
#include "backends/node/grant_scan.h"
#include "backends/node/protocol.h"
#include "backends/spec.h"
#include "base/clock.h"
#include "base/map.h"

#include <uv.h>

#define NODE_OUT_PAUSE ((size_t)4 << 20) /* queued bytes above which outputs are not read */
#define NODE_OUT_STOP ((size_t)32 << 20) /* … and requests are not read */
#define NODE_OUT_MAX ((size_t)1 << 30)
#define NODE_OPEN_NS (INT64_C(30) * 1000000000)
#define NODE_KILL_MS 2000 /* between asking the init and killing it */
#define NODE_DISK_MS 1000
#define NODE_DISK_ENTRIES 500000
#define NODE_CALLS_MAX 10000 /* remembered calls of one sandbox */

struct node;
struct node_sandbox;
struct node_call;

/* ---- channels (node_channel.c) ---- */

struct channel;
struct channel_ops {
    /* Bytes came; the owner grants them back with channel_consumed() when it has dealt with them. */
    void (*data)(void *owner, const char *data, size_t len);
    void (*end)(void *owner);    /* the host sends no more */
    void (*reset)(void *owner);  /* the channel is gone; forget it */
    void (*credit)(void *owner); /* more may be sent */
};
struct channel {
    struct node *node;
    uint32_t id;
    const struct channel_ops *ops;
    void *owner;
    uint64_t may_send;    /* bytes */
    uint64_t may_receive; /* bytes the host may still send */
    uint64_t consumed;    /* not granted back yet */
    bool sent_end, got_end;
    struct channel *next;
};

/* Opens a channel that the host named (odd, unused: else ORCH_E_PROTOCOL) or, id 0, one of ours. */
MUST_USE int channel_open(struct node *n, uint32_t id, const struct channel_ops *ops, void *owner, struct channel **ret,
                          struct orch_err *err);
void channel_send(struct channel *c, const void *data, size_t len); /* len <= may_send */
/* After END from both sides the channel is freed, `*c` may be gone. */
void channel_end(struct channel **c);
void channel_reset(struct channel **c); /* tells the host; the owner is not called back */
void channel_consumed(struct channel *c, size_t len);
/* Answers a frame of the host: bytes for a channel that is gone are dropped. */
MUST_USE int channel_frame(struct node *n, const struct frame *f, struct orch_err *err);
void channels_free(struct node *n);
size_t channels_count(const struct node *n);
/* Output was drained: all owners may send again. */
void channels_resume(struct node *n);

/* ---- pumps: a descriptor and a channel (node_pump.c) ---- */

struct pump {
    struct node *node;
    uv_poll_t poll;
    int fd;                  /* owned; -1 when closed */
    struct channel *channel; /* NULL: what is read is dropped, nothing is written */
    struct buf in;           /* from the channel, not written yet */
    size_t in_at;
    bool reads, writes; /* directions in use */
    bool input_ended;   /* close the writing side after `in` */
    uint64_t limit;     /* forwarded bytes at most; 0: no limit */
    uint64_t forwarded, total;
    void (*done)(struct pump *p, void *arg); /* both directions are over; the pump may be freed with pump_free */
    void *arg;
};
/* Takes fd (made non-blocking). Channel 0 on an input pump: closed at once. */
MUST_USE int pump_new(struct node *n, int fd, bool reads, bool writes, struct pump **ret, struct orch_err *err);
MUST_USE int pump_attach(struct pump *p, uint32_t channel, struct orch_err *err);
void pump_start(struct pump *p);
/* Closes everything (END or RESET to the host as fits) and frees after the loop let go. */
void pump_free(struct pump *p);

/* ---- calls (node_call.c) ---- */

enum call_state { NODE_CALL_WAITING, NODE_CALL_RUNNING, NODE_CALL_DRAINING, NODE_CALL_ENDED };

struct node_call {
    struct node_sandbox *sandbox;
    char *name;
    enum call_state state;
    char **argv;
    char **env; /* complete */
    char *cwd;
    struct spec_limits limits;
    int64_t wall_ns; /* 0: none */
    uint32_t channel_in, channel_out, channel_err;
    bool stdio;   /* the host's own descriptors instead of channels */
    int child[3]; /* the program's ends, until it starts */
    struct pump *in, *out, *errout;
    uint64_t out_bytes[2][2]; /* [stdout, stderr][forwarded, total], kept after the pumps are gone */
    int pumps_open;           /* of out, errout */
    struct control_exit exit;
    bool reported;     /* exit is filled */
    bool lost;         /* the sandbox went away */
    bool asked_kill;   /* by us or by a signal 9 */
    const char *limit; /* name, NULL: none */
    uint64_t limit_value, limit_used;
    int64_t started_ns;
    uint64_t disk;
    uint64_t serial; /* names it for work that comes back later */
    json_t *result;
    struct node_call *next;
};

json_t *call_json(const struct node_call *c); /* {"state", "result"} */
const char *call_state_name(enum call_state s);
/* The request `call`, checked; *ret is the answer. */
MUST_USE int call_request(struct node_sandbox *sb, const json_t *request, json_t **ret, struct orch_err *err);
MUST_USE int call_signal_request(struct node_sandbox *sb, const json_t *request, json_t **ret, struct orch_err *err);
/* Starts the next waiting one if none runs and the sandbox is open. */
void calls_advance(struct node_sandbox *sb);
void call_exit_reported(struct node_sandbox *sb, const struct control_exit *e);
/* The sandbox is gone: running calls are lost, waiting ones never start. */
void calls_lose(struct node_sandbox *sb);
void calls_free(struct node_sandbox *sb);

/* ---- sandboxes (node_sandbox.c, node_open.c) ---- */

enum sandbox_state { BOX_OPENING, BOX_OPEN, BOX_CLOSING, BOX_CLOSED };

struct waiter {
    int64_t id; /* of the request to answer */
    struct waiter *next;
};

struct place { /* a prepared directory of mount points, used by one sandbox at a time */
    char *shape;
    char *dir;
    bool busy, prepared;
    struct place *next;
};

struct given { /* a host directory lent to the sandbox's identity */
    char *path;
    uid_t uid;
    gid_t gid;
};

struct listener {
    uv_poll_t poll;
    int fd;
    uint16_t port;
    struct node_sandbox *sandbox;
};

struct node_sandbox {
    struct node *node;
    char *name;
    char *spec_text; /* canonical: is a repeated open the same? */
    struct sandbox_spec spec;
    enum sandbox_state state;
    char *dir;     /* absolute: its work directories */
    char *scratch; /* TMPDIR and HOME of a sandbox in place; NULL for others */
    struct place *place;
    struct identity identity;
    bool has_identity;
    struct given *given;
    size_t given_count;
    json_t *scanned;             /* what was found in each granted directory of the machine; NULL: none is granted */
    bool unix_refused;           /* a socket lies in one of them, or may */
    bool has_group;              /* limits hold for the tree */
    struct cgroup_events events; /* as of the end of the last call */
    struct work_dir *works;      /* node_spare.c: as they were given */
    size_t work_count;
    char **left_out;
    int control; /* -1 when closed */
    uv_poll_t control_poll;
    pid_t pid; /* of the mechanism; 0 when reaped */
    int pidfd;
    uv_poll_t pidfd_poll;
    int init_pidfd; /* -1 before hello */
    uv_poll_t init_poll;
    bool init_gone;
    int complaints;   /* stderr of the mechanism */
    uv_timer_t timer; /* opening, then the wall time and kill of the running call */
    uv_timer_t disk_timer;
    bool disk_busy;
    int handles; /* open uv handles */
    struct listener *listeners;
    size_t listener_count;
    struct pump **streams; /* NULL slots are free */
    size_t stream_count;
    struct waiter *open_waiters, *remove_waiters;
    json_t *opened;        /* the answer of open */
    struct orch_err error; /* why it closed */
    int64_t asked_ns;
    struct node_call *calls;
    struct node_call *running;
    size_t call_count;
    bool removing;
    struct node_sandbox *next;
};

struct node_sandbox *sandbox_find(struct node *n, const char *name);
const char *sandbox_state_name(const struct node_sandbox *sb);
/* The request `open`: answers by reply_* itself, at once or later. */
void sandbox_open_request(struct node *n, int64_t id, const json_t *request);
void sandbox_remove_request(struct node *n, int64_t id, const char *name);
json_t *sandbox_observe_json(struct node_sandbox *sb);
/* Begins the end: kills everything; `why` is kept. Safe to call again. */
void sandbox_close(struct node_sandbox *sb, const struct orch_err *why);
void sandboxes_close_all(struct node *n);
/* Something that the end of a sandbox waited for is over. */
void sandbox_advance_end(struct node_sandbox *sb);

/* node_open.c */
MUST_USE int sandbox_start(struct node_sandbox *sb, struct orch_err *err);
void sandbox_hello(struct node_sandbox *sb, struct control_message *m);
void sandbox_opened(struct node_sandbox *sb); /* node_sandbox.c: answers, goes on */
void sandbox_on_control(uv_poll_t *handle, int status, int events);
void sandbox_on_pidfd(uv_poll_t *handle, int status, int events);
void sandbox_on_init(uv_poll_t *handle, int status, int events);
/* uv_poll_init + start for reading, counted in sb->handles. */
MUST_USE int sandbox_watch(struct node_sandbox *sb, uv_poll_t *handle, int fd, uv_poll_cb cb, struct orch_err *err);
void sandbox_unwatch(struct node_sandbox *sb, uv_handle_t *handle);

/* ---- files (node_files.c) ---- */

/* A free place of that shape, made if there is none; given back when its sandbox is gone. Borrowed. */
MUST_USE int files_place(struct node *n, const char *shape, struct place **ret, struct orch_err *err);
void files_free_places(struct node *n);
/* Makes the sandbox's directory and resolves its grants: sources[i] owned, NULL when left out. */
MUST_USE int files_prepare(struct node_sandbox *sb, char **sources, struct orch_err *err);
/* Makes the scratch directory of a sandbox in place, the identity's and nobody else's. */
MUST_USE int files_scratch(struct node_sandbox *sb, struct orch_err *err);
/* Takes back what was lent, removes the directory when `all`. */
MUST_USE int files_end(struct node_sandbox *sb, bool all, struct orch_err *err);
/* Bytes in its work directories. `dead`: no process of it lives; what it locked is opened again (tree_usage). */
uint64_t files_usage(const struct node_sandbox *sb, bool dead);
MUST_USE int files_open_work(const struct node_sandbox *sb, const char *relative, struct orch_err *err);

/* ---- work directories used again (node_spare.c) ---- */

/* Puts work directories that nobody has touched where the sandbox's directory shall be. False: make new ones. */
bool spare_take(struct node_sandbox *sb);
/* Notes the state of a work directory (`fd`) at the moment in which the sandbox gets it. */
void spare_note(struct node_sandbox *sb, const char *name, int fd);
/* Keeps the sandbox's directory for another if it is as it was given. False: remove it. */
bool spare_keep(struct node_sandbox *sb);
void spare_forget(struct node_sandbox *sb);
void spares_free(struct node *n);

/* ---- trees (node_tree.c) ---- */

void tree_put_request(struct node *n, int64_t id, const json_t *request);
void tree_get_request(struct node *n, int64_t id, const json_t *request);
/* Absolute path of a tree that is there, or NULL. Borrowed. */
const char *tree_path(struct node *n, const char *digest);
void trees_free(struct node *n);

/* ---- the node (node_main.c, node_request.c) ---- */

enum node_layer { NODE_SECCOMP, NODE_LANDLOCK, NODE_NETWORK, NODE_LIMITS, NODE_LAYER_COUNT };

struct node {
    uv_loop_t loop;
    int in, out;
    uv_poll_t in_poll, out_poll;
    bool in_reading, out_writing;
    struct frame_decoder decoder;
    struct buf queue; /* to the host */
    size_t queue_at;
    uv_prepare_t prepare;
    bool ending;
    bool greeted;
    int exit_code;
    struct clock clock;
    bool shares_paths;
    bool has_keyring;           /* an empty session keyring of its own, closed to all */
    bool passes_stdio;          /* PROTOCOL_STDIO_FD and the next two are the host's */
    bool off[NODE_LAYER_COUNT]; /* left out for the self-test */
    int64_t lose;               /* every N-th reply; 0: none */
    int64_t replies, lost;
    char *work; /* the node's directory, absolute */
    int workfd;
    struct mechanism mechanism;
    struct identity_pool *identities;
    struct skeletons *skeletons;
    struct cgroup_tree *groups;
    struct grant_scans *scans;
    struct place *places;
    uint32_t place_count;
    struct spare *spares; /* node_spare.c */
    size_t spare_count;
    uint64_t spares_made;
    struct node_sandbox *sandboxes;
    struct channel *channels;
    uint32_t next_channel;
    uint32_t last_host_channel;
    struct map *trees; /* digest → path (owned) */
    void *transfers;   /* node_tree.c */
    uint64_t serial;
    int64_t opened, calls;
};

void node_reply(struct node *n, int64_t id, json_t *ok); /* consumes ok */
void node_reply_error(struct node *n, int64_t id, const struct orch_err *e);
void node_event(struct node *n, json_t *event); /* consumes it */
/* Queued bytes not written yet. */
size_t node_backlog(const struct node *n);
/* The stream is broken or over: closes everything, the loop then ends. */
void node_end(struct node *n, int exit_code);
/* Handles one REQUEST frame. */
MUST_USE int node_request(struct node *n, const struct frame *f, struct orch_err *err);
void node_release(struct node *n); /* what hello made */

#endif
