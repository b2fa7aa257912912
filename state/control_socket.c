/* SPDX-License-Identifier: Apache-2.0 */
#include "state/control_socket.h"

#include "base/clock.h"
#include "base/digest.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define SOCKET_DIR "run"
#define SOCKET_NAME_PLAIN 64 /* longer ids are hashed: the name must fit beside "/proc/self/fd/N/" in sun_path */
#define CONTROL_BACKLOG 16

static const char *const op_names[CONTROL_OP_COUNT] = {
#define X(id, name) [CONTROL_##id] = (name),
    CONTROL_OP_TABLE(X)
#undef X
};

static char *socket_name(const char *run_id)
{
    char digest[DIGEST_TEXT_MAX];

    if (strlen(run_id) <= SOCKET_NAME_PLAIN) {
        return xasprintf("%s.sock", run_id);
    }
    digest_of(run_id, strlen(run_id), digest);
    return xasprintf("%.32s.sock", digest + sizeof "sha256:" - 1);
}

char *control_path(const struct layout *l, const char *run_id)
{
    AUTO_FREE char *name = socket_name(run_id);
    return xasprintf("%s/" SOCKET_DIR "/%s", l->local, name);
}

/* The address of name beneath dirfd; the directory's descriptor stands for a path that does not fit. */
static void fill_address(const struct layout *l, int dirfd, const char *name, struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    AUTO_FREE char *path = xasprintf("%s/" SOCKET_DIR "/%s", l->local, name);
    if (strlen(path) < sizeof ret->sun_path) {
        memcpy(ret->sun_path, path, strlen(path) + 1);
    } else {
        snprintf(ret->sun_path, sizeof ret->sun_path, "/proc/self/fd/%d/%s", dirfd, name);
    }
}

static int open_socket_dir(const struct layout *l, bool make, struct orch_err *err)
{
    AUTO_FREE char *path = path_join(l->local, SOCKET_DIR);
    if (make && mkdir(path, 0700) < 0 && errno != EEXIST) {
        return err_errno(err, ORCH_E_IO, "make %s", path);
    }
    return fd_open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, err);
}

int control_listen(const struct layout *l, const char *run_id, struct orch_err *err)
{
    AUTO_FREE char *name = socket_name(run_id);
    AUTO_FD int dirfd = open_socket_dir(l, true, err);
    struct sockaddr_un address;

    if (dirfd < 0) {
        return dirfd;
    }
    if (fchmod(dirfd, 0700) < 0) {
        return err_errno(err, ORCH_E_IO, "chmod of the socket's directory");
    }
    AUTO_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return err_errno(err, ORCH_E_IO, "make the control socket");
    }
    if (unlinkat(dirfd, name, 0) < 0 && errno != ENOENT) {
        return err_errno(err, ORCH_E_IO, "remove an old control socket");
    }
    fill_address(l, dirfd, name, &address);
    if (bind(fd, (const struct sockaddr *)&address, sizeof address) < 0) {
        return err_errno(err, ORCH_E_IO, "bind the control socket");
    }
    /* Not by umask, which is the whole process's; until here the directory keeps others out. */
    if (fchmodat(dirfd, name, 0600, 0) < 0 || listen(fd, CONTROL_BACKLOG) < 0) {
        return err_errno(err, ORCH_E_IO, "open the control socket");
    }
    int listening = fd;
    fd = -1;
    return listening;
}

void control_remove(const struct layout *l, const char *run_id)
{
    struct orch_err ignored = ERR_INIT;
    AUTO_FREE char *name = socket_name(run_id);
    AUTO_FD int dirfd = open_socket_dir(l, false, &ignored);

    if (dirfd >= 0) {
        (void)unlinkat(dirfd, name, 0);
    }
}

int control_accept(int listen_fd, struct orch_err *err)
{
    AUTO_FD int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct ucred peer = {0};
    socklen_t len = sizeof peer;

    if (fd < 0) {
        bool none = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
        return err_errno(err, none ? ORCH_E_NOT_FOUND : ORCH_E_IO, "accept");
    }
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 || (peer.uid != geteuid() && peer.uid != 0)) {
        return err_set(err, ORCH_E_NOT_FOUND, "a client of another user was turned away");
    }
    int client = fd;
    fd = -1;
    return client;
}

int control_parse(const char *line, size_t len, struct control_request *ret, struct orch_err *err)
{
    AUTO_JSON json_t *doc = NULL;
    struct control_request request = {.op = CONTROL_OP_COUNT};

    TRY(json_parse(line, len, CONTROL_REQUEST_MAX, &doc, err));
    const char *op = json_get_str(doc, "op", "");
    for (int i = 0; i < CONTROL_OP_COUNT; i++) {
        if (strcmp(op, op_names[i]) == 0) {
            request.op = (enum control_op)i;
        }
    }
    request.since = json_get_int(doc, "since", 0);
    request.limit = json_get_int(doc, "limit", 0);
    if (request.op == CONTROL_OP_COUNT || request.since < 0 || request.limit < 0) {
        return err_set(err, ORCH_E_PROTOCOL, "the request is not known");
    }
    *ret = request;
    return 0;
}

void control_add_line(struct buf *out, const json_t *value)
{
    AUTO_FREE char *text = json_canonical(value); /* newlines within are escaped */
    buf_str(out, text);
    buf_char(out, '\n');
}

void control_add_error(struct buf *out, const struct orch_err *what)
{
    AUTO_JSON json_t *reply = json_object();
    json_t *error = json_object();

    json_set_str(error, "id", err_name(what->code));
    json_set_text(error, "message", what->message, strlen(what->message));
    json_set_flag(reply, "ok", false);
    json_set_take(reply, "error", error);
    control_add_line(out, reply);
}

/* ---- Client ---- */

static int wait_for(int fd, short events, int64_t deadline_ns, struct orch_err *err)
{
    struct clock clock = clock_system();
    for (;;) {
        int64_t left = deadline_ns - clock_mono_ns(&clock);
        if (left <= 0) {
            return err_set(err, ORCH_E_TIMEOUT, "the run did not answer in time");
        }
        struct pollfd p = {.fd = fd, .events = events};
        int n = poll(&p, 1, (int)(left / NS_PER_MS > 60000 ? 60000 : left / NS_PER_MS + 1));
        if (n > 0) {
            return 0;
        }
        if (n < 0 && errno != EINTR) {
            return err_errno(err, ORCH_E_IO, "wait for the run");
        }
    }
}

static int connect_to(const struct layout *l, const char *run_id, struct orch_err *err)
{
    AUTO_FREE char *name = socket_name(run_id);
    AUTO_FD int dirfd = open_socket_dir(l, false, err);
    struct sockaddr_un address;

    if (dirfd < 0) {
        return dirfd;
    }
    AUTO_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return err_errno(err, ORCH_E_IO, "make a socket");
    }
    fill_address(l, dirfd, name, &address);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) < 0) {
        bool nobody = errno == ENOENT || errno == ECONNREFUSED;
        return err_errno(err, nobody ? ORCH_E_NOT_FOUND : ORCH_E_IO, "reach run %s", run_id);
    }
    int connected = fd;
    fd = -1;
    return connected;
}

static int send_all(int fd, const char *data, size_t len, int64_t deadline_ns, struct orch_err *err)
{
    while (len > 0) {
        TRY(wait_for(fd, POLLOUT, deadline_ns, err));
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
            return err_errno(err, ORCH_E_IO, "ask the run");
        }
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        }
    }
    return 0;
}

static int receive_all(int fd, struct buf *out, int64_t deadline_ns, struct orch_err *err)
{
    AUTO_FREE char *chunk = xmalloc(65536);
    for (;;) {
        TRY(wait_for(fd, POLLIN, deadline_ns, err));
        ssize_t n = recv(fd, chunk, 65536, 0);
        if (n == 0) {
            return 0;
        }
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
            return err_errno(err, ORCH_E_IO, "hear the run");
        }
        if (n > 0) {
            buf_add(out, chunk, (size_t)n);
        }
        if (out->overflow) {
            return err_set(err, ORCH_E_LIMIT, "the run's answer is too long");
        }
    }
}

static int parse_lines(const struct buf *text, json_t **ret, struct orch_err *err)
{
    AUTO_JSON json_t *lines = json_array();
    const char *p = text->data;
    const char *end = text->data + text->len;

    while (p < end) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        json_t *value = NULL;
        if (!newline) {
            return err_set(err, ORCH_E_PROTOCOL, "the run's answer was cut");
        }
        TRY(json_parse(p, (size_t)(newline - p), CONTROL_LINE_MAX, &value, err));
        json_add_take(lines, value);
        p = newline + 1;
    }
    *ret = take(lines);
    return 0;
}

int control_ask(const struct layout *l, const char *run_id, const struct control_request *request, int64_t timeout_ns,
                json_t **ret_lines, struct orch_err *err)
{
    struct clock clock = clock_system();
    int64_t deadline = clock_mono_ns(&clock) + timeout_ns;
    AUTO_BUF struct buf line;
    AUTO_BUF struct buf reply;
    AUTO_JSON json_t *ask = json_object();

    buf_init(&line, CONTROL_REQUEST_MAX);
    buf_init(&reply, CONTROL_REPLY_MAX);
    json_set_str(ask, "op", op_names[request->op]);
    json_set_int(ask, "since", request->since);
    json_set_int(ask, "limit", request->limit);
    control_add_line(&line, ask);
    AUTO_FD int fd = connect_to(l, run_id, err);
    if (fd < 0) {
        return fd;
    }
    TRY(send_all(fd, line.data, line.len, deadline, err));
    TRY(receive_all(fd, &reply, deadline, err));
    return parse_lines(&reply, ret_lines, err);
}
