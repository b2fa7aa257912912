/* SPDX-License-Identifier: Apache-2.0 */
/* From a spec to a checked sandbox: identity, files, mechanism, handshake. */
#include "backends/mechanisms/filter.h"
#include "backends/node/node.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static void strv_n_free(char **list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(list[i]);
    }
    free(list);
}

/* The spec in the mechanism's words. */
struct lowered {
    struct mount_plan mounts;      /* empty in place */
    struct buf writable, readable; /* paths inside, each with its NUL; readable in place only */
};

static void lowered_done(struct lowered *l)
{
    mount_plan_done(&l->mounts);
    buf_done(&l->writable);
    buf_done(&l->readable);
}

static int lower_mounts(struct node_sandbox *sb, char *const *sources, struct lowered *ret, struct orch_err *err)
{
    struct node *n = sb->node;
    const char *skeleton = NULL;
    AUTO_FREE char *shape = mount_plan_shape(&sb->spec, sources);
    TRY(skeleton_for(n->skeletons, &sb->spec, sb->identity.uid, sb->identity.gid, &skeleton, err));
    TRY(files_place(n, shape, &sb->place, err));
    AUTO_FD int dirfd = fd_open(sb->place->dir, O_RDONLY | O_DIRECTORY, 0, err);
    if (dirfd < 0) {
        return dirfd;
    }
    struct mount_place place = {.dir = sb->place->dir,
                                .dirfd = dirfd,
                                .prepared = sb->place->prepared,
                                .skeleton = skeleton,
                                .empty_dir = skeletons_empty_dir(n->skeletons),
                                .empty_file = skeletons_empty_file(n->skeletons)};
    TRY(mount_plan_lower(&sb->spec, sources, &place, &ret->mounts, err));
    sb->place->prepared = true;
    for (size_t i = 0; i < sb->spec.grant_count; i++) {
        const struct spec_grant *g = &sb->spec.grants[i];
        if (g->mode == SPEC_RW) {
            buf_add(&ret->writable, g->target, strlen(g->target) + 1);
        }
    }
    return 0;
}

static int lower_in_place(struct node_sandbox *sb, char *const *sources, struct lowered *ret, struct orch_err *err)
{
    TRY(files_scratch(sb, err));
    landlock_paths(&sb->spec, sources, sb->scratch, &ret->readable, &ret->writable);
    return 0;
}

static int lower(struct node_sandbox *sb, struct lowered *ret, struct orch_err *err)
{
    char **sources = xcalloc(sb->spec.grant_count + 1, sizeof *sources);
    int code = files_prepare(sb, sources, err);
    if (code == 0) {
        code =
            sb->node->mechanism.in_place ? lower_in_place(sb, sources, ret, err) : lower_mounts(sb, sources, ret, err);
    }
    strv_n_free(sources, sb->spec.grant_count);
    return code;
}

static enum filter_kind filter_kind(const struct node_sandbox *sb, bool isolated)
{
    if (sb->node->mechanism.in_place) {
        return isolated ? FILTER_IN_PLACE_ISOLATED : FILTER_IN_PLACE;
    }
    return sb->unix_refused ? FILTER_NO_UNIX : FILTER_UNIX;
}

static int send_spec(struct node_sandbox *sb, const struct lowered *l, struct orch_err *err)
{
    bool isolated = sb->spec.network == SPEC_NO_NETWORK && !sb->node->off[NODE_NETWORK];
    struct filter_program filter = filter_program(filter_kind(sb, isolated));
    if (sb->node->off[NODE_SECCOMP]) {
        filter.len = 0;
    }
    struct control_spec spec = {
        .switch_identity = identity_pool_named(sb->node->identities),
        .uid = sb->identity.uid,
        .gid = sb->identity.gid,
        .isolated = isolated,
        .in_place = sb->node->mechanism.in_place,
        .no_landlock = sb->node->off[NODE_LANDLOCK],
        .port_count = (uint32_t)sb->spec.port_count,
        .filter_len = (uint32_t)filter.len,
        .writable_len = (uint32_t)l->writable.len,
        .readable_len = (uint32_t)l->readable.len,
    };
    if (sb->spec.port_count > 0) {
        memcpy(spec.ports, sb->spec.ports, sb->spec.port_count * sizeof *sb->spec.ports);
    }
    AUTO_BUF struct buf texts;
    buf_init(&texts, CONTROL_PAYLOAD_MAX / 2);
    buf_add(&texts, filter.bytes, filter.len);
    buf_add(&texts, l->writable.data, l->writable.len);
    buf_add(&texts, l->readable.data, l->readable.len);
    for (char **p = sb->spec.absent; *p != NULL; p++) {
        buf_add(&texts, *p, strlen(*p) + 1);
    }
    int code = control_send(sb->control, CONTROL_SPEC, &spec, sizeof spec, texts.data, texts.len, NULL, 0);
    if (code < 0) {
        errno = -code;
        return err_errno(err, ORCH_E_IO, "send the spec");
    }
    return 0;
}

static int start_mechanism(struct node_sandbox *sb, const struct lowered *l, struct orch_err *err)
{
    struct node *n = sb->node;
    int pair[2];
    int pipe_fds[2];
    int one = 1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        return err_errno(err, ORCH_E_IO, "socketpair");
    }
    sb->control = pair[0];
    AUTO_FD int theirs = pair[1];
    if (pipe2(pipe_fds, O_CLOEXEC) < 0) {
        return err_errno(err, ORCH_E_IO, "pipe");
    }
    sb->complaints = pipe_fds[0];
    AUTO_FD int complain = pipe_fds[1];
    /* set before anything is sent: the credentials come with hello */
    if (setsockopt(sb->control, SOL_SOCKET, SO_PASSCRED, &one, sizeof one) < 0 ||
        fcntl(sb->control, F_SETFL, O_NONBLOCK) < 0 || fcntl(sb->complaints, F_SETFL, O_NONBLOCK) < 0) {
        return err_errno(err, ORCH_E_IO, "control socket");
    }
    struct mechanism_options o = {.mounts = &l->mounts,
                                  .hostname = sb->spec.hostname,
                                  .share_network = sb->spec.network == SPEC_PUBLIC || n->off[NODE_NETWORK],
                                  .named_identity = sb->identity.userns >= 0,
                                  .control = theirs,
                                  .userns = sb->identity.userns,
                                  .complaints = complain};
    pid_t pid = mechanism_start(&n->mechanism, &o, &sb->pidfd, err);
    if (pid < 0) {
        return (int)pid;
    }
    sb->pid = pid;
    return send_spec(sb, l, err);
}

/* Before the identity is taken: its namespace must know who owns the way to what is granted. */
static int learn_owners(struct node_sandbox *sb, struct orch_err *err)
{
    struct identity_pool *pool = sb->node->identities;
    for (size_t i = 0; i < sb->spec.grant_count; i++) {
        AUTO_FREE char *real = NULL;
        if (sb->spec.grants[i].source[0] != '/' || !sb->node->shares_paths) {
            continue;
        }
        if (path_real(sb->spec.grants[i].source, &real, err) < 0) {
            err_clear(err); /* absent: the grant itself says so, or is left out */
            continue;
        }
        TRY(identity_pool_pass(pool, real, err));
    }
    return identity_pool_pass(pool, sb->node->work, err);
}

static int make_group(struct node_sandbox *sb, struct orch_err *err)
{
    const struct cgroup_limits l = {.memory = sb->spec.limits.memory, .processes = sb->spec.limits.processes};
    if ((l.memory == 0 && l.processes == 0) || sb->node->off[NODE_LIMITS] ||
        cgroup_tree_why(sb->node->groups)[0] != '\0') {
        return 0;
    }
    TRY(cgroup_take(sb->node->groups, sb->identity.index, &l, err));
    sb->has_group = cgroup_tree_why(sb->node->groups)[0] == '\0';
    sb->events = cgroup_read(sb->node->groups, sb->identity.index);
    return 0;
}

int sandbox_start(struct node_sandbox *sb, struct orch_err *err)
{
    if (sb->node->mechanism.in_place) {
        TRY(landlock_check(&sb->spec, err));
    }
    TRY(learn_owners(sb, err));
    TRY(identity_acquire(sb->node->identities, &sb->identity, err));
    sb->has_identity = true;
    TRY(make_group(sb, err));
    AUTO(lowered_done) struct lowered l = {.mounts = {.steps = NULL}};
    buf_init(&l.writable, CONTROL_PAYLOAD_MAX / 8);
    buf_init(&l.readable, CONTROL_PAYLOAD_MAX / 8);
    TRY(lower(sb, &l, err));
    TRY(start_mechanism(sb, &l, err));
    TRY(sandbox_watch(sb, &sb->pidfd_poll, sb->pidfd, sandbox_on_pidfd, err));
    return sandbox_watch(sb, &sb->control_poll, sb->control, sandbox_on_control, err);
}

/* ---- hello ---- */

static json_t *checks_json(const struct control_message *m, const struct control_hello *h)
{
    json_t *list = json_array();
    const char *p = m->data + sizeof *h;
    const char *end = m->data + m->len;
    for (uint32_t i = 0; i < h->checks && p < end; i++) {
        const char *name = p;
        p += strlen(p) + 1;
        const char *detail = p < end ? p : "";
        p += p < end ? strlen(p) + 1 : 0;
        json_t *o = json_object();
        json_set_text(o, "name", name, strlen(name));
        json_set_flag(o, "ok", i >= h->failed);
        json_set_text(o, "detail", detail, strlen(detail));
        json_add_take(list, o);
    }
    return list;
}

static json_t *enforced_json(const struct node_sandbox *sb, const struct control_hello *h)
{
    const struct spec_limits *l = &sb->spec.limits;
    json_t *o = json_object();
    json_set_str(o, "mechanism", sb->node->mechanism.name);
    json_set_str(o, "mechanism_version", sb->node->mechanism.version);
    json_set_str(o, "identity", identity_pool_named(sb->node->identities) ? "range" : "user");
    json_set_str(o, "network", sb->spec.network == SPEC_PUBLIC ? "public" : "no-network");
    json_set_flag(o, "user_namespaces", false);
    json_set_flag(o, "keyring", sb->node->has_keyring);
    json_set_int(o, "capabilities", (int64_t)h->capabilities);
    json_set_flag(o, "no_new_privileges", h->no_new_privileges != 0);
    json_set_str(o, "memory", l->memory == 0 ? "none" : sb->has_group ? "cgroup" : "rlimit");
    json_set_str(o, "processes", l->processes == 0 ? "none" : sb->has_group ? "cgroup" : "rlimit");
    json_set_str(o, "cpu", l->cpu_s == 0 ? "none" : "rlimit");
    json_set_str(o, "file", l->file == 0 ? "none" : "rlimit");
    json_set_str(o, "disk", l->disk == 0 ? "none" : "measured");
    json_set_str(o, "seccomp", h->filtered != 0 ? "filter" : "none");
    json_set_str(o, "unix_sockets",
                 sb->scratch != NULL ? "refused: the mechanism cannot tell which"
                 : sb->unix_refused  ? "refused: a grant holds a socket, or may"
                                     : "allowed");
    json_set_int(o, "landlock_abi", h->landlock_abi);
    json_set_take(o, "not_enforced", sb->scratch != NULL ? landlock_not_enforced() : json_array());
    json_set_str(o, "landlock",
                 sb->scratch != NULL    ? "reads, writes, TCP, scopes"
                 : h->landlock_abi >= 6 ? "writes, scopes"
                 : h->landlock_abi > 0  ? "writes"
                                        : "none");
    json_set_str(o, "cgroup", sb->has_group ? cgroup_tree_limits(sb->node->groups) : "none");
    return o;
}

static void on_connection(uv_poll_t *handle, int status, int events);

static int watch_listeners(struct node_sandbox *sb, struct control_message *m, struct orch_err *err)
{
    if (m->fd_count != sb->spec.port_count) {
        return err_set(err, ORCH_E_UNAVAILABLE, "%zu listeners came for %zu ports", m->fd_count, sb->spec.port_count);
    }
    sb->listeners = xcalloc(sb->spec.port_count + 1, sizeof *sb->listeners);
    for (size_t i = 0; i < m->fd_count; i++) {
        struct listener *l = &sb->listeners[i];
        *l = (struct listener){.fd = m->fds[i], .port = sb->spec.ports[i], .sandbox = sb};
        m->fds[i] = -1;
        sb->listener_count = i + 1;
        int code = uv_poll_init(&sb->node->loop, &l->poll, l->fd);
        if (code < 0) {
            fd_close(&l->fd);
            sb->listener_count = i;
            return err_set(err, ORCH_E_IO, "watch a listener: %s", uv_strerror(code));
        }
        sb->handles++;
        l->poll.data = l;
        (void)uv_poll_start(&l->poll, UV_READABLE, on_connection);
    }
    m->fd_count = 0;
    return 0;
}

static int read_hello(struct node_sandbox *sb, struct control_message *m, struct orch_err *err)
{
    struct control_hello h;
    if (m->type != CONTROL_HELLO || m->len < sizeof h || m->sender <= 0) {
        return err_set(err, ORCH_E_UNAVAILABLE, "the init did not say hello");
    }
    memcpy(&h, m->data, sizeof h);
    sb->init_pidfd = (int)syscall(SYS_pidfd_open, m->sender, 0);
    if (sb->init_pidfd < 0) {
        return err_errno(err, ORCH_E_UNAVAILABLE, "the init went away");
    }
    TRY(sandbox_watch(sb, &sb->init_poll, sb->init_pidfd, sandbox_on_init, err));
    if (sb->has_group) {
        TRY(cgroup_put(sb->node->groups, sb->identity.index, m->sender,
                       err)); /* nothing of the sandbox's has run yet */
    }
    AUTO_JSON json_t *checks = checks_json(m, &h);
    if (h.failed > 0) {
        const json_t *first = json_array_get(checks, 0);
        return err_set(err, ORCH_E_UNAVAILABLE, "check %s failed: %s", json_get_str(first, "name", "?"),
                       json_get_str(first, "detail", ""));
    }
    TRY(watch_listeners(sb, m, err));
    json_t *o = json_object();
    json_set_str(o, "state", "open");
    json_set_int(o, "uid", h.uid);
    json_set_int(o, "host_uid", sb->identity.uid);
    if (sb->node->shares_paths) {
        json_set_str(o, "work", sb->dir);
    } else {
        json_set_str(o, "work", NULL);
    }
    json_set_take(o, "checks", take(checks));
    json_set_take(o, "enforced", enforced_json(sb, &h));
    json_set_take(o, "left_out", json_from_strv(sb->left_out));
    json_set_take(o, "grants", sb->scanned != NULL ? json_incref(sb->scanned) : json_array());
    json_set_int(o, "open_ns", clock_mono_ns(&sb->node->clock) - sb->asked_ns);
    sb->opened = o;
    return 0;
}

void sandbox_hello(struct node_sandbox *sb, struct control_message *m)
{
    struct orch_err err = ERR_INIT;
    if (read_hello(sb, m, &err) < 0) {
        sandbox_close(sb, &err);
        return;
    }
    sandbox_opened(sb);
}

/* ---- connections from inside ---- */

static void stream_done(struct pump *p, void *arg)
{
    struct node_sandbox *sb = arg;
    for (size_t i = 0; i < sb->stream_count; i++) {
        if (sb->streams[i] == p) {
            sb->streams[i] = NULL;
        }
    }
    pump_free(p);
}

static void keep_stream(struct node_sandbox *sb, struct pump *p)
{
    size_t i = 0;
    while (i < sb->stream_count && sb->streams[i] != NULL) {
        i++;
    }
    if (i == sb->stream_count) {
        sb->streams = xrealloc(sb->streams, (sb->stream_count + 1) * sizeof(struct pump *));
        sb->stream_count++;
    }
    sb->streams[i] = p;
}

static void on_connection(uv_poll_t *handle, int status, int events)
{
    struct listener *l = handle->data;
    struct node_sandbox *sb = l->sandbox;
    (void)status, (void)events;
    int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        return;
    }
    struct orch_err err = ERR_INIT;
    struct pump *p = NULL;
    if (pump_new(sb->node, fd, true, true, &p, &err) < 0) {
        return;
    }
    if (pump_attach(p, 0, &err) < 0) {
        pump_free(p);
        return;
    }
    p->done = stream_done;
    p->arg = sb;
    keep_stream(sb, p);
    json_t *e = json_object();
    json_set_str(e, "event", "connect");
    json_set_str(e, "sandbox", sb->name);
    json_set_int(e, "port", l->port);
    json_set_int(e, "channel", p->channel->id);
    node_event(sb->node, e);
    pump_start(p);
}
