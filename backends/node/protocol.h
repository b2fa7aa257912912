/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol between the host and a node: frames over one reliable byte stream.
 * Pure functions and an incremental decoder; no input or output here.
 *
 * FRAME, all numbers little-endian:
 *   u32 length of the payload | u8 type | u8 flags = 0 | u16 reserved = 0 | u32 channel | payload
 *
 *   type         channel  payload
 *   REQUEST 1    0        JSON object, host → node
 *   REPLY   2    0        JSON object, node → host
 *   EVENT   3    0        JSON object, node → host
 *   DATA    4    id       1 … PROTOCOL_DATA_MAX bytes
 *   END     5    id       empty: this side sends no more DATA on it (half close)
 *   RESET   6    id       empty: both directions end at once; DATA under way is ignored
 *   CREDIT  7    id       u32 > 0: the receiver takes that many more bytes
 * Anything else, a wrong channel, or a payload over the maximum of its type is ORCH_E_PROTOCOL: the
 * stream is then broken and must be closed.
 *
 * CHANNELS carry bytes both ways. A channel exists from the request (or event) that names it until both
 * sides sent END or one sent RESET. The host names odd ids in its requests, never used before; the
 * node names even ids in `connect` events. Each side may send PROTOCOL_WINDOW bytes at first and more as
 * CREDIT arrives; DATA beyond it breaks the stream. A receiver grants what it has consumed, not sooner.
 * Frames on a channel that is gone are ignored (they were under way).
 *
 * REQUEST  {"id": n, "op": "…", …}     n > 0, new for every request. Unknown members are refused.
 * REPLY    {"id": n, "ok": {…}}  or  {"id": n, "error": {"code": "…", "message": "…"}}
 *          code is a name of base/err.h (err_name): "unavailable", "not-found", "config", "hostile", …
 * Replies come in any order. Every request is idempotent by the names in it: sent again (with a new id) it
 * gives the same answer. Sandbox and call names: spec_name_is_valid().
 *
 * hello     must be first, once.
 *           {"version": 1, "shares_paths": bool, "work": "/dir"|null, "init": "/path/orch-init"|null,
 *            "mechanism": "auto"|"namespaces"|"bubblewrap"|"landlock",
 *            "ids": {"first": 200000, "count": 65000}|null, "faults": {"lose": N, "off": ["seccomp", …]}|null}
 *           work: an existing directory in which the node makes its own (0700, removed at the end);
 *           null: TMPDIR or /tmp. init: null: `orch-init` beside the node's own program.
 *           stdio: calls may ask for the descriptors PROTOCOL_STDIO_FD+0..2, which the node was started with.
 *           ids: needed when the node runs as uid 0. shares_paths false: absolute paths in grants are
 *           refused and `get` never answers with one. lose: the node does not send every N-th reply
 *           (of any op but hello; events, DATA, END are never lost).
 *           off: layers left out (seccomp, landlock, network, limits), to show that the self-test sees it.
 *           ok: {"version": 1, "pid": p, "uid": u, "identity": "range"|"user", "work": "/dir/node-x"|null,
 *                "mechanism": {"name": "namespaces", "path": "…", "version": "6.1.0"},
 *                "kernel": "6.1.0", "cpus": n}
 *           `work` is null unless paths are shared. An absent or untrusted mechanism: error "unavailable".
 *
 * put       {"digest": "sha256:…", "channel": c}: the host sends a tree (tree_stream.h) and END.
 *           ok: {"present": bool}   true: it was there already; the node sends RESET at once.
 *           A tree whose digest is not the one named is removed: error "damaged".
 *
 * open      {"sandbox": s, "spec": {…}}   spec.h; s equals spec.name
 *           ok: {"state": "open", "uid": inside uid, "host_uid": real uid, "work": "/dir"|null,
 *                "checks": [{"name": "outside-unreachable", "ok": true, "detail": ""}, …],
 *                "enforced": {"mechanism": "bubblewrap", "network": "no-network", "user_namespaces": false,
 *                             "keyring": true, "capabilities": 0, "no_new_privileges": true,
 *                             "memory": "rlimit", "processes": "rlimit", …},
 *                "left_out": ["/optional/target"], "open_ns": n,
 *                "grants": [{"target", "entries", "sockets", "hard_links", "setid", "outward_links", "complete"}]}
 *           work: the sandbox's directory ("work:rel" is <work>/rel); null unless paths are shared.
 *           The answer comes after the checks from inside; a failed check is error "unavailable" with the
 *           check's name, and nothing is left. Same name and same spec: the same answer. Same name, another
 *           spec: error "config".
 *
 * call      {"sandbox": s, "call": c, "argv": [..], "env": {…}|absent, "cwd": "/w"|absent,
 *            "limits": {…}|absent,
 *            "stdin": channel|0, "stdout": channel|0, "stderr": channel|0, "wall_ms": n (0: none)}
 *           May be sent before the reply to `open`: it waits. One call at a time in a sandbox: a second one
 *           with another name waits for the first. cwd replaces the spec's; env is added to it (later wins);
 *           limits (members as in the spec; tmp, home and disk excepted) replace single values. 0: /dev/null.
 *           argv[0] is searched in PATH of env when it has no '/'. stdin: the host sends DATA, then END.
 *           stdout, stderr: the node sends DATA, then END (before `exited`; both may be one channel).
 *           ok: {"state": "waiting"|"running"|"ended"}. Same call name: no second start, the state of the
 *           first; channels of the repetition are RESET.
 *
 * signal    {"sandbox": s, "call": c, "signal": n}  to the main process's group; 9 kills every process of the
 *           call. ok: {"state": …}
 *
 * get       {"sandbox": s, "path": "rel", "channel": c}: a work directory as a tree stream, END, then
 *           ok: {"digest": "sha256:…", "bytes": n, "entries": n, "skipped": n}; skipped: links and special
 *           files, which never pass. Refused ("config") while a call runs. With "as": "path" in place of
 *           the channel and paths shared: ok: {"path": "/abs"} at once.
 *
 * observe   {"sandbox": s}   ok: {"state": "absent"|"opening"|"open"|"closed", "reason": "",
 *                                 "open": {the answer of `open`}|null, "calls": {name: {"state": …, "result": …}}}
 * list      {}               ok: {"sandboxes": [{"sandbox": s, "state": …}, …]}
 * remove    {"sandbox": s}   kills it, waits until nothing of it is left, removes its directory and
 *                            results. ok: {"gone": true}, also when it never was.
 * stats     {}               ok: {"descriptors": n, "sandboxes": n, "slots": n, "opened": n, "calls": n, "trees": n,
 *                                 "channels": n, "lost": n}
 *
 * EVENT     {"event": "…", …}
 * exited    {"sandbox": s, "call": c, "result": RESULT}
 * closed    {"sandbox": s, "reason": "…"}: the sandbox ended by itself; its calls are reported before
 * connect   {"sandbox": s, "port": p, "channel": c}: a program inside connected to the port; a bidirectional
 *           channel. RESET refuses it.
 *
 * RESULT    {"end": "exited"|"signalled"|"not-started"|"lost",
 *            "code": exit status | signal | errno of exec | 0,
 *            "program": 126|127 when not started (not executable, not found), else 0,
 *            "limit": null | {"name": "time"|"cpu"|"file"|"memory"|"disk", "value": n, "used": n},
 *            "killed": true when the node or a `signal` 9 ended it,
 *            "wall_ns": n, "user_us": n, "system_us": n, "maxrss_kb": n,
 *            "stdout": {"bytes": n, "cut": bool, "total": n}, "stderr": {…},   bytes: forwarded;
 *                       total: written by the program; cut: total > bytes (limits.output)
 *            "left": n processes that were still alive when the main one ended (killed),
 *            "disk": bytes in work directories at the end}
 *           "lost": the sandbox died with the call under way: the outcome is unknown.
 *           time: value and used in milliseconds; disk, file: bytes; cpu: seconds.
 *
 * When the stream ends the node kills every sandbox, removes its directory and exits 0.
 */
#ifndef ORCH_BACKENDS_NODE_PROTOCOL_H
#define ORCH_BACKENDS_NODE_PROTOCOL_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

#include <stdint.h>

#define PROTOCOL_STDIO_FD 10 /* a terminal or pipe of the host, for a call that is not captured */
#define PROTOCOL_VERSION 1
#define PROTOCOL_HEADER 12
#define PROTOCOL_JSON_MAX ((size_t)8 << 20)
#define PROTOCOL_DATA_MAX ((size_t)64 << 10)
#define PROTOCOL_WINDOW ((size_t)256 << 10)
#define PROTOCOL_CREDIT_MAX ((uint64_t)64 << 20) /* the most a channel may have granted */

enum frame_type {
    FRAME_REQUEST = 1,
    FRAME_REPLY,
    FRAME_EVENT,
    FRAME_DATA,
    FRAME_END,
    FRAME_RESET,
    FRAME_CREDIT,
    FRAME_TYPE_COUNT
};

struct frame {
    enum frame_type type;
    uint32_t channel;
    const char *data; /* borrowed from the decoder, until the next call on it */
    size_t len;
};

/* Appends a frame to `out`. The caller keeps the rules above (a bug is an abort, not an error). */
void frame_put(struct buf *out, enum frame_type type, uint32_t channel, const void *data, size_t len);
/* The header alone, into out[PROTOCOL_HEADER]; the payload follows by other means (no copy). */
void frame_header(unsigned char out[PROTOCOL_HEADER], enum frame_type type, uint32_t channel, size_t len);
/* A JSON frame (REQUEST, REPLY, EVENT); consumes `value`. ORCH_E_LIMIT (nothing appended) if it is too large. */
MUST_USE int frame_put_json(struct buf *out, enum frame_type type, json_t *value, struct orch_err *err);
void frame_put_credit(struct buf *out, uint32_t channel, uint32_t bytes);
/* The number in a CREDIT frame. */
uint32_t frame_credit(const struct frame *f);

/* The incremental decoder. Memory is bounded by the largest frame. */
struct frame_decoder {
    char *data; /* owned */
    size_t len, cap, start;
    bool broken;
};

void frame_decoder_init(struct frame_decoder *d);
void frame_decoder_done(struct frame_decoder *d);
/* Room for at least `want` bytes to read into; *ret_room is what there is. */
char *frame_decoder_room(struct frame_decoder *d, size_t want, size_t *ret_room);
/* `len` bytes were written into the room. */
void frame_decoder_filled(struct frame_decoder *d, size_t len);
/* Copies bytes in (room + filled). */
void frame_decoder_feed(struct frame_decoder *d, const void *data, size_t len);
/* 1: *ret is the next frame; 0: more bytes are needed; negative: ORCH_E_PROTOCOL, for ever after. */
MUST_USE int frame_decoder_next(struct frame_decoder *d, struct frame *ret, struct orch_err *err);
/* Parses a JSON frame into an object. New reference. */
MUST_USE int frame_json(const struct frame *f, json_t **ret, struct orch_err *err);

/* Builds {"id": id, "op": op}; add the members and send it. New reference. */
json_t *request_new(int64_t id, const char *op);
/* {"id": id, "ok": ok}; consumes ok. */
json_t *reply_ok(int64_t id, json_t *ok);
json_t *reply_error(int64_t id, const struct orch_err *e);
/* Reads a reply: *ret_ok is borrowed from `reply`; an error reply becomes its code and message. */
MUST_USE int reply_read(const json_t *reply, int64_t *ret_id, json_t **ret_ok, struct orch_err *err);
/* The code with that err_name(), or ORCH_E_INTERNAL. */
int protocol_code(const char *name);

#endif
