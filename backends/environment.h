/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run environments: where sandboxes are opened. An asynchronous, path-free
 * interface over a libuv loop; the same calls work whether the sandbox is on
 * this machine (host) or elsewhere (loopback-remote, later slurm, …).
 *
 * Rules that hold for every function here:
 *   - Loop thread only. Nothing blocks; file work runs on uv worker threads.
 *   - A function that returns `int` and takes a callback either returns a
 *     negative code with `err` filled (bad arguments; the callback is never
 *     called), or 0, and then the callback is called exactly once, later, from
 *     the loop, never from inside the function that started it.
 *   - Results are passed as structs that begin with `struct orch_err err`;
 *     err.code is 0 on success. They and what they point to belong to the
 *     library and live until the callback returns, except what a callback
 *     takes out with the function named for it.
 *   - Arguments (specs, strings, JSON) are copied: they need to live only
 *     until the function returns. A descriptor argument is duplicated.
 *   - Everything is named by the caller before it is asked for, so every
 *     request can be sent again. A reply that does not come in time is followed
 *     by `observe`; when that does not settle it either, the operation ends
 *     with ORCH_E_LOST (class ERR_UNKNOWN): the effect may or may not have
 *     happened. Unknown is never reported as an exit status.
 *   - The program ignores SIGPIPE: a node may die while we write to it.
 *   - Closing an environment ends every operation still open with ORCH_E_LOST
 *     or ORCH_E_INTERRUPTED before the close callback.
 */
#ifndef ORCH_BACKENDS_ENVIRONMENT_H
#define ORCH_BACKENDS_ENVIRONMENT_H

#include "backends/handoff.h"
#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct sandbox_spec; /* backends/spec.h */

struct environment; /* one place where sandboxes are opened */
struct sandbox;     /* one opened (or opening) sandbox */
struct call;        /* one call that runs */
struct stream;      /* one connection from inside a sandbox */

#define ENVIRONMENT_NAME_MAX 128                   /* bytes of a sandbox or call name, [A-Za-z0-9._-] */
#define ENVIRONMENT_INPUT_MAX ((size_t)64 << 20)   /* standard input of one call */
#define ENVIRONMENT_CAPTURE_MAX ((size_t)64 << 20) /* largest capture limit of one output */

/* ---- environments ---- */

struct environment_settings {
    uv_loop_t *loop;          /* borrowed; outlives the environment */
    const char *node_program; /* absolute path of orch-node */
    const char *init_program; /* absolute path of orch-init; NULL: beside orch-node */
    const char *work_dir;     /* absolute, exists, 0700: the node's own files (skeleton roots, trees put there) */
    bool work_is_new;         /* work_dir was made for this environment: nothing in it is to be swept */
    const char *mechanism;    /* "auto" (NULL) or a name */
    const char *owner;        /* label of everything opened here: the run id; list() shows only these */
    uint32_t uid_first;       /* operator's range of host uids; count 0: the node's default */
    uint32_t uid_count;
    const char *const
        *covered;             /* loopback-remote: NULL-terminated host paths that do not exist there (project, state) */
    const char *off;          /* a layer to leave out, for the self-test only; NULL: none */
    bool pass_stdio;          /* calls may have this process's own standard descriptors (same machine only) */
    unsigned lose_every;      /* loopback-remote: every n-th reply is lost; 0: none */
    int64_t reply_timeout_ns; /* wait for one reply before observe; 0: 10 s */
    const json_t *extra;      /* the environment's own settings of the config; borrowed during the call; may be NULL */
};

/* What an opened environment can do; fixed once it is started. */
struct environment_caps {
    const char *name;      /* "host" */
    bool shares_paths;     /* a host path means the same there */
    bool shares_kernel;    /* same machine: descriptors can be passed */
    bool streams;          /* ports inside reach the host (meter) */
    bool adopt;            /* a sandbox can be found again by name after a lost reply */
    bool survives_host;    /* sandboxes go on when the host process dies (never true for nodes on a stream) */
    const char *mechanism; /* what "auto" chose: "namespaces" */
    const char *limits;    /* "cgroup2", "cgroup1", "rlimit" */
    const char *node_version;
    const json_t *report; /* everything the node said about itself; borrowed */
};

struct environment_result {
    struct orch_err err;
};
typedef void (*environment_cb)(struct environment *env, const struct environment_result *result, void *arg);

/*
 * Makes an environment of the registry ("host", "loopback-remote", …); nothing
 * runs yet. An unknown name is ORCH_E_CONFIG, one that is not built yet or was
 * retired is ORCH_E_UNAVAILABLE/ORCH_E_CONFIG naming what to use.
 */
MUST_USE int environment_new(const char *name, const struct environment_settings *settings, struct environment **ret,
                             struct orch_err *err);
/* Starts the node and learns its capabilities, which are there once the callback said success. Sandboxes may be opened
 * and called before that: the requests follow the greeting at once, and fail when it does. Everything else waits. */
MUST_USE int environment_start(struct environment *env, environment_cb cb, void *arg, struct orch_err *err);
/* Facts; the mechanism and what follows are NULL before start has succeeded. Borrowed. */
const struct environment_caps *environment_caps(const struct environment *env);
/* False once the node is gone: nothing can be opened any more, in this process. */
bool environment_alive(const struct environment *env);
/* Ends everything in it: kills what runs, removes what is open, stops the node; then calls back once and frees
 * env and all its sandboxes, calls and streams. No handle may be used after the callback. */
void environment_close(struct environment *env, void (*cb)(void *arg), void *arg);

/* ---- trees ---- */

struct put_result {
    struct orch_err err;
    const char *source; /* what a grant's `source` (or `from`) says to mean this tree; copy it to keep it */
    const char *digest; /* content address, "sha256:…"; "" where the environment shares paths */
    bool copied;        /* false: it was there already, or paths are shared */
    uint64_t skipped;   /* special files and links to the outside, left out */
};
typedef void (*put_cb)(struct environment *env, const struct put_result *result, void *arg);
/*
 * Makes the tree at host path `dir` usable in grants of this environment:
 * content addressed, read-only there; directories, regular files and links that
 * stay inside. Where
 * paths are shared nothing is copied. Same content twice is sent once.
 */
MUST_USE int environment_put(struct environment *env, const char *dir, put_cb cb, void *arg, struct orch_err *err);
/* ---- sandboxes ---- */

struct sandbox_opened {
    struct orch_err err;    /* a failed check is ORCH_E_UNAVAILABLE: nothing ran in it */
    const char *mechanism;  /* "namespaces", "bubblewrap", "landlock" */
    const char *version;    /* of the mechanism's program */
    const char *grade;      /* "confined", … */
    uint32_t uid;           /* host uid of its processes */
    const json_t *checks;   /* what was asked, enforced and checked from inside: the sandbox/<role>-<n>.json record */
    const json_t *degraded; /* array of property names that are weaker than asked; may be NULL */
};
typedef void (*sandbox_open_cb)(struct sandbox *sb, const struct sandbox_opened *result, void *arg);

/* A program inside connected to a declared port of the spec. Take it with stream_start() during the
 * callback, or it is closed. */
typedef void (*sandbox_stream_cb)(struct sandbox *sb, uint16_t port, struct stream *stream, void *arg);

struct sandbox_options {
    const char *name;            /* required; unique in the environment; the name in the record's intent */
    sandbox_stream_cb on_stream; /* may be NULL: connections are closed at once */
    void *stream_arg;
};

/*
 * Opens a sandbox: built, checked from inside, ready for calls. *ret is usable
 * at once for sandbox_call() (pipelined: the call starts when the checks
 * passed, or fails with the open's error) and stays valid until the callback
 * of sandbox_remove() or environment_close(). After a failed open nothing is
 * left there, but the handle still wants sandbox_remove().
 */
MUST_USE int sandbox_open(struct environment *env, const struct sandbox_spec *spec,
                          const struct sandbox_options *options, sandbox_open_cb cb, void *arg, struct sandbox **ret,
                          struct orch_err *err);
/* Finds a sandbox of an earlier request by name: opened as it was, its calls go on. ORCH_E_NOT_FOUND when gone. */
MUST_USE int sandbox_adopt(struct environment *env, const struct sandbox_options *options, sandbox_open_cb cb,
                           void *arg, struct sandbox **ret, struct orch_err *err);
/* Drops the handle and leaves the sandbox as it is, to be adopted by name. ORCH_E_USAGE while anything of it is
 * under way (an open, a call, a get, a stream). */
MUST_USE int sandbox_forget(struct sandbox *sb, struct orch_err *err);
const char *sandbox_name(const struct sandbox *sb);
struct environment *sandbox_environment(const struct sandbox *sb);
/* Room for the owner of the handle. */
void sandbox_set_data(struct sandbox *sb, void *data);
void *sandbox_data(const struct sandbox *sb);

/* Kills every process in it, takes it away and frees the handle after the callback; repeats until it is gone.
 * Fails with ORCH_E_LOST only when the node itself is gone or silent. */
MUST_USE int sandbox_remove(struct sandbox *sb, environment_cb cb, void *arg, struct orch_err *err);

struct sandbox_list {
    struct orch_err err;
    size_t count;
    const char *const *names; /* sandboxes of this owner that exist there */
};
typedef void (*sandbox_list_cb)(struct environment *env, const struct sandbox_list *result, void *arg);
MUST_USE int environment_list(struct environment *env, sandbox_list_cb cb, void *arg, struct orch_err *err);
/* Removes by name what has no handle here (what a crash left). Absence is success. */
MUST_USE int environment_remove_named(struct environment *env, const char *name, environment_cb cb, void *arg,
                                      struct orch_err *err);

/* ---- calls ---- */

enum call_end {
    CALL_UNKNOWN,   /* nobody can say (err.code is set) */
    CALL_EXITED,    /* code: exit status */
    CALL_SIGNALLED, /* code: signal */
    CALL_LIMIT,     /* stopped by a limit, `limit` says which; code: the signal it was stopped with */
    CALL_END_COUNT
};
const char *call_end_name(enum call_end end); /* "exited" */

/* The first and the last bytes of an output; what lies between was counted and dropped. */
struct capture {
    char *head; /* NUL-terminated, may contain NULs; never NULL in a result */
    size_t head_len;
    char *tail; /* "" while everything fits in the head */
    size_t tail_len;
    uint64_t total;   /* bytes written by the call */
    uint64_t dropped; /* total - head_len - tail_len */
    bool cut;         /* the spec's limit `output` was reached: nothing after it was kept, not even in the tail */
};

struct call_spec {
    const char *name;      /* required; unique in the sandbox; the name in the record's intent */
    char *const *argv;     /* argv[0] is looked up inside */
    char *const *env;      /* NULL: the spec's; else added to it, later wins ("NAME=value") */
    const char *cwd;       /* NULL: the spec's */
    const void *input;     /* standard input bytes; NULL: empty */
    size_t input_len;      /* <= ENVIRONMENT_INPUT_MAX */
    int64_t timeout_ns;    /* 0: none */
    uint64_t output_limit; /* bytes of stdout + stderr after which the call is stopped (limit "output"); 0: never, the
                              rest is only dropped */
    size_t capture_head;   /* kept bytes of the start of each of stdout and stderr; 0 with capture_tail 0: 64 KiB */
    size_t capture_tail;   /* kept bytes of the end; 0 with capture_head 0: 64 KiB */
    bool stdio;            /* this process's descriptors 0, 1 and 2 instead of input and captures; needs pass_stdio */
    const json_t *limits; /* members of the spec's `limits` replaced for this call (not disk, tmp, home); may be NULL */
    /* Live output as it arrives (1: stdout, 2: stderr); may be NULL. Everything up to the limit passes here. */
    void (*on_output)(struct call *call, int stream, const char *data, size_t len, void *arg);
};

struct call_result {
    struct orch_err err;
    enum call_end end;
    int code;
    bool signalled;        /* `code` is a signal's number */
    bool no_directory;     /* with not_started: the working directory could not be entered */
    int start_errno;       /* with not_started: why */
    bool not_started;      /* the program could not be started: CALL_EXITED with 126 or 127, as a shell says it */
    char limit[32];        /* "timeout", "memory", "output", "cpu", "processes", "disk", "file"; "" */
    int64_t limit_value;   /* its value in its own unit (ns, bytes, count) */
    int64_t wall_ns;       /* measured where it ran */
    int64_t cpu_ns;        /* user + system of the whole tree; -1: not known */
    int64_t max_rss;       /* bytes; -1: not known */
    uint32_t left_behind;  /* processes the call left, killed after it */
    struct capture out;    /* standard output */
    struct capture errout; /* standard error */
};
/* `result` may be changed: call_result_take() moves it out. */
typedef void (*call_cb)(struct call *call, struct call_result *result, void *arg);

/* Runs one program in the sandbox. One call at a time in a sandbox: a second one waits for the first.
 * When it has ended every process it left is dead. *ret (may be NULL) is valid until the callback returns. */
MUST_USE int sandbox_call(struct sandbox *sb, const struct call_spec *spec, call_cb cb, void *arg, struct call **ret,
                          struct orch_err *err);
/* Open and first call in one go; `open_cb` may be NULL (then an error of the open is the call's error). */
MUST_USE int sandbox_run(struct environment *env, const struct sandbox_spec *spec,
                         const struct sandbox_options *options, const struct call_spec *call, sandbox_open_cb open_cb,
                         call_cb cb, void *arg, struct sandbox **ret, struct orch_err *err);
struct sandbox *call_sandbox(const struct call *call);
const char *call_name(const struct call *call);
/* Sends a signal to the call's own process; fire and forget, the call's result tells. */
void call_signal(struct call *call, int signal);
/* Kills the call and everything it started. The result comes as usual (CALL_SIGNALLED, or how it ended before). */
void call_cancel(struct call *call);

/* Moves a result out; *from is left empty. Free with call_result_done(). */
void call_result_take(struct call_result *to, struct call_result *from);
void call_result_done(struct call_result *result); /* accepts a zeroed struct */
#define AUTO_CALL_RESULT __attribute__((cleanup(call_result_done)))

struct call_state {
    struct orch_err err; /* ORCH_E_NOT_FOUND: no such call was ever started there */
    bool running;
    int64_t wall_ns;
};
typedef void (*call_state_cb)(struct sandbox *sb, const struct call_state *result, void *arg);
/* Asks about a call by name, whoever started it. */
MUST_USE int sandbox_observe(struct sandbox *sb, const char *call_name, call_state_cb cb, void *arg,
                             struct orch_err *err);
/* Waits for the end of a call started by an earlier request (after adopt). Output that had already been
 * delivered to somebody else is not sent again: `total` counts it, captures hold what is left. */
MUST_USE int sandbox_wait_call(struct sandbox *sb, const char *call_name, call_cb cb, void *arg, struct call **ret,
                               struct orch_err *err);

/* ---- handoff ---- */

struct get_result {
    struct orch_err err;                 /* ORCH_E_LIMIT: a cap was reached, the report is filled */
    const struct handoff_report *report; /* never NULL */
};
typedef void (*get_cb)(struct sandbox *sb, const struct get_result *result, void *arg);
/*
 * Copies the directory `path` of the sandbox (absolute, as seen inside, at or
 * below a writable grant; or "work:rel" as the grant's source says) into the
 * fresh host directory `dest_dirfd`, through the handoff sanitizer. No
 * call may be running: ORCH_E_USAGE. A path that does not exist is
 * ORCH_E_NOT_FOUND. `limits->observe` runs on a worker thread.
 */
MUST_USE int sandbox_get(struct sandbox *sb, const char *path, int dest_dirfd, const struct handoff_limits *limits,
                         get_cb cb, void *arg, struct orch_err *err);

/* ---- streams ---- */

struct stream_callbacks {
    /* len > 0: data, valid during the call; len 0: the other side ended its writing */
    void (*read)(struct stream *s, const char *data, size_t len, void *arg);
    /* Called exactly once; the handle is gone afterwards. */
    void (*closed)(struct stream *s, const struct orch_err *err, void *arg);
};
/* Starts delivery; from the loop, never from inside this function. */
void stream_start(struct stream *s, const struct stream_callbacks *callbacks, void *arg);
/* Stops and goes on with delivery (back pressure reaches the program inside). */
void stream_pause(struct stream *s, bool paused);
/* Sends bytes (copied); `cb` (may be NULL) is called when the other side has room for more, code 0, or with an error.
 */
void stream_write(struct stream *s, const void *data, size_t len, void (*cb)(struct stream *s, int code, void *arg),
                  void *arg);
/* Bytes accepted by stream_write() that have not left yet. */
size_t stream_backlog(const struct stream *s);
void stream_shutdown(struct stream *s); /* no more writes; reading goes on */
void stream_close(struct stream *s);    /* both ways; `closed` follows */
struct sandbox *stream_sandbox(const struct stream *s);

#endif
