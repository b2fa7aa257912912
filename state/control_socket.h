/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket of a running run, local/run/<id>.sock (0600 in a 0700
 * directory): one JSON line asks, JSON lines answer, then the server closes.
 *
 *   {"op":"status"}              → {"ok":true,…}
 *   {"op":"events","since":17}   → one line an event, then {"ok":true,"next":42}
 *   {"op":"stop"}                → {"ok":true}
 *   anything wrong               → {"ok":false,"error":{"id":…,"message":…}}
 *
 * No loop here: the server side hands out a listening descriptor and formats
 * and parses lines; the client side blocks with a timeout.
 */
#ifndef ORCH_STATE_CONTROL_SOCKET_H
#define ORCH_STATE_CONTROL_SOCKET_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "state/layout.h"

#define CONTROL_REQUEST_MAX 4096
#define CONTROL_LINE_MAX ((size_t)1 << 20)
#define CONTROL_REPLY_MAX ((size_t)64 << 20)

#define CONTROL_OP_TABLE(X)                                                                                            \
    X(STATUS, "status")                                                                                                \
    X(EVENTS, "events")                                                                                                \
    X(STOP, "stop")
enum control_op {
#define X(id, name) CONTROL_##id,
    CONTROL_OP_TABLE(X)
#undef X
        CONTROL_OP_COUNT
};

struct control_request {
    enum control_op op;
    int64_t since; /* events: those with seq > since */
    int64_t limit; /* events: at most so many, 0: the server's choice */
};

/* local/run/<id>.sock; owned by the caller. */
char *control_path(const struct layout *l, const char *run_id);
/* Listens (non-blocking, close-on-exec); a stale socket is replaced: hold the run's lock. A path too long for
 * sun_path is bound through the directory's descriptor. Returns the descriptor. */
MUST_USE int control_listen(const struct layout *l, const char *run_id, struct orch_err *err);
/* Removes the socket file; absence is success. */
void control_remove(const struct layout *l, const char *run_id);
/* Accepts one client (non-blocking); only the same uid or root, by SO_PEERCRED. Returns the descriptor;
 * ORCH_E_NOT_FOUND when none waits. */
MUST_USE int control_accept(int listen_fd, struct orch_err *err);
/* One request line, without its newline. */
MUST_USE int control_parse(const char *line, size_t len, struct control_request *ret, struct orch_err *err);
/* Appends one line. */
void control_add_line(struct buf *out, const json_t *value);
void control_add_error(struct buf *out, const struct orch_err *what);

/* Client: asks and collects the lines (array of values; new reference). ORCH_E_NOT_FOUND when nobody listens. */
MUST_USE int control_ask(const struct layout *l, const char *run_id, const struct control_request *request,
                         int64_t timeout_ns, json_t **ret_lines, struct orch_err *err);

#endif
