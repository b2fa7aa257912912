/* SPDX-License-Identifier: Apache-2.0 */
/* The node as a child process: its stream is a socket pair on its standard input and output. */
#include "backends/environments/environment_impl.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void on_exit_ready(uv_poll_t *poll, int status, int events)
{
    struct environment *env = poll->data;
    siginfo_t info = {0};
    (void)status, (void)events;
    if (waitid(P_PIDFD, (id_t)env->pidfd, &info, WEXITED | WNOHANG) < 0 ? errno != ECHILD : info.si_pid == 0) {
        return;
    }
    env->exited = true;
    (void)uv_poll_stop(poll);
    environment_maybe_closed(env);
}

static void stderr_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    struct environment *env = handle->data;
    (void)suggested;
    *ret = uv_buf_init(env->stderr_chunk, sizeof env->stderr_chunk);
}

/* Only the end is kept: it is what an error message quotes. */
static void stderr_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *b)
{
    struct environment *env = stream->data;
    if (n < 0) {
        (void)uv_read_stop(stream);
        return;
    }
    size_t len = (size_t)n;
    if (env->stderr_len + len > NODE_STDERR_MAX) {
        size_t drop = env->stderr_len + len - NODE_STDERR_MAX;
        memmove(env->stderr_tail, env->stderr_tail + drop, env->stderr_len - drop);
        env->stderr_len -= drop;
    }
    memcpy(env->stderr_tail + env->stderr_len, b->base, len);
    env->stderr_len += len;
    env->stderr_tail[env->stderr_len] = '\0';
}

static int watch(struct environment *env, int *stderr_fd, struct orch_err *err)
{
    int r = uv_poll_init(env->loop, &env->exit_poll, env->pidfd);
    if (r < 0) {
        return err_set(err, ORCH_E_IO, "watch the node: %s", uv_strerror(r));
    }
    env->exit_poll.data = env;
    env->exit_polling = true;
    (void)uv_poll_start(&env->exit_poll, UV_READABLE, on_exit_ready);
    (void)uv_pipe_init(env->loop, &env->stderr_pipe, 0);
    env->stderr_pipe.data = env;
    env->stderr_open = true;
    r = uv_pipe_open(&env->stderr_pipe, *stderr_fd);
    if (r < 0) {
        return err_set(err, ORCH_E_IO, "read the node's messages: %s", uv_strerror(r));
    }
    *stderr_fd = -1;
    (void)uv_read_start((uv_stream_t *)&env->stderr_pipe, stderr_alloc, stderr_read);
    return 0;
}

int node_process_start(struct environment *env, const struct node_launch *launch, int *ret_stream, struct orch_err *err)
{
    int pair[2];
    int messages[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        return err_errno(err, ORCH_E_IO, "make the node's stream");
    }
    AUTO_FD int ours = pair[0];
    AUTO_FD int theirs = pair[1];
    if (pipe2(messages, O_CLOEXEC) < 0) {
        return err_errno(err, ORCH_E_IO, "make the node's messages");
    }
    AUTO_FD int ours_messages = messages[0];
    AUTO_FD int their_messages = messages[1];
    const struct spawn_fd fds[] = {{0, theirs},
                                   {1, theirs},
                                   {2, their_messages},
                                   {PROTOCOL_STDIO_FD, 0},
                                   {PROTOCOL_STDIO_FD + 1, 1},
                                   {PROTOCOL_STDIO_FD + 2, 2}};
    const struct spawn spawn = {
        .program = launch->program,
        .argv = launch->argv,
        .envp = launch->envp,
        .cwd = "/",
        .fds = fds,
        .fd_count = env->pass_stdio ? ARRAY_LEN(fds) : 3,
    };
    pid_t pid = process_spawn(&spawn, &env->pidfd, err);
    if (pid < 0) {
        (void)err_wrap(err, "start the node");
        err->code = ORCH_E_UNAVAILABLE;
        return err->code;
    }
    env->pid = pid;
    int r = watch(env, &ours_messages, err);
    if (r < 0 && !env->exit_polling) {
        /* Nobody would see it end. */
        siginfo_t info = {0};
        node_process_kill(env);
        (void)waitid(P_PIDFD, (id_t)env->pidfd, &info, WEXITED);
        env->exited = true;
    }
    TRY(r);
    *ret_stream = ours;
    ours = -1;
    return 0;
}

void node_process_kill(struct environment *env)
{
    if (env->pidfd >= 0 && !env->exited) {
        (void)syscall(SYS_pidfd_send_signal, env->pidfd, SIGKILL, NULL, 0);
    }
}

static void on_closed(uv_handle_t *handle)
{
    struct environment *env = handle->data;
    env->handles--;
    environment_maybe_closed(env);
}

void node_process_close(struct environment *env)
{
    if (env->exit_polling) {
        env->exit_polling = false;
        env->handles++;
        uv_close((uv_handle_t *)&env->exit_poll, on_closed);
    }
    if (env->stderr_open) {
        env->stderr_open = false;
        env->handles++;
        uv_close((uv_handle_t *)&env->stderr_pipe, on_closed);
    }
}
