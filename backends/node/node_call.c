/* SPDX-License-Identifier: Apache-2.0 */
/* Calls: waiting → running → draining (the program ended, its output is still read) → ended. */
#include "backends/node/node.h"

#include "base/fd.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const state_names[] = {"waiting", "running", "running", "ended"};

const char *call_state_name(enum call_state s)
{
    return state_names[s];
}

json_t *call_json(const struct node_call *c)
{
    json_t *o = json_object();
    json_set_str(o, "state", call_state_name(c->state));
    json_set_take(o, "result", c->result == NULL ? json_null() : json_incref(c->result));
    return o;
}

static struct node_call *find(struct node_sandbox *sb, const char *name)
{
    struct node_call *c = sb->calls;
    while (c != NULL && strcmp(c->name, name) != 0) {
        c = c->next;
    }
    return c;
}

/* ---- the result ---- */

/* What the sandbox's group counted during this call, if the call did not end well: a program may have coped. */
static void find_group_limit(struct node_call *c)
{
    struct node_sandbox *sb = c->sandbox;
    if (!sb->has_group || !c->reported || c->exit.exec_errno != 0) {
        return;
    }
    struct cgroup_events now = cgroup_read(sb->node->groups, sb->identity.index);
    bool well = WIFEXITED(c->exit.status) && WEXITSTATUS(c->exit.status) == 0;
    if (c->limit == NULL && !well && now.oom_kills > sb->events.oom_kills) {
        c->limit = "memory";
        c->limit_value = c->limit_used = sb->spec.limits.memory;
    } else if (c->limit == NULL && !well && now.refused_forks > sb->events.refused_forks) {
        c->limit = "processes";
        c->limit_value = c->limit_used = sb->spec.limits.processes;
    }
    sb->events = now;
}

static void find_limit(struct node_call *c)
{
    const struct control_exit *e = &c->exit;
    find_group_limit(c);
    if (c->limit != NULL || !c->reported || e->exec_errno != 0 || !WIFSIGNALED(e->status)) {
        return;
    }
    int sig = WTERMSIG(e->status);
    uint64_t cpu_us = e->user_us + e->system_us;
    if (c->limits.cpu_s > 0 && (sig == SIGXCPU || (sig == SIGKILL && cpu_us >= c->limits.cpu_s * 1000000))) {
        c->limit = "cpu";
        c->limit_value = c->limits.cpu_s;
        c->limit_used = cpu_us / 1000000;
    } else if (c->limits.file > 0 && sig == SIGXFSZ) {
        c->limit = "file";
        c->limit_value = c->limit_used = c->limits.file;
    }
}

static void check_disk_at_end(struct node_call *c)
{
    uint64_t limit = c->sandbox->spec.limits.disk;
    c->disk = files_usage(c->sandbox, true);
    if (limit > 0 && c->disk > limit && c->limit == NULL) {
        c->limit = "disk";
        c->limit_value = limit;
        c->limit_used = c->disk;
    }
}

static json_t *output_json(const uint64_t bytes[2])
{
    json_t *o = json_object();
    json_set_int(o, "bytes", (int64_t)bytes[0]);
    json_set_int(o, "total", (int64_t)bytes[1]);
    json_set_flag(o, "cut", bytes[1] > bytes[0]);
    return o;
}

static void set_end(const struct node_call *c, json_t *o)
{
    const struct control_exit *e = &c->exit;
    const char *end = "lost";
    int code = 0;
    int program = 0;
    if (c->reported && e->exec_errno != 0) {
        end = "not-started";
        code = e->exec_errno;
        program = code == ENOENT || code == ENOTDIR ? 127 : 126;
    } else if (c->reported && WIFSIGNALED(e->status)) {
        end = "signalled";
        code = WTERMSIG(e->status);
    } else if (c->reported) {
        end = "exited";
        code = WEXITSTATUS(e->status);
    } else if (c->limit != NULL) { /* the init did not answer and was killed for the limit */
        end = "signalled";
        code = SIGKILL;
    }
    json_set_str(o, "end", end);
    json_set_int(o, "code", code);
    json_set_int(o, "program", program);
    json_set_flag(o, "no_directory", program != 0 && e->exec_step == CONTROL_STEP_DIRECTORY);
}

static json_t *result_json(struct node_call *c)
{
    json_t *o = json_object();
    set_end(c, o);
    if (c->limit == NULL) {
        json_set_take(o, "limit", json_null());
    } else {
        json_t *l = json_object();
        json_set_str(l, "name", c->limit);
        json_set_int(l, "value", (int64_t)c->limit_value);
        json_set_int(l, "used", (int64_t)(c->limit_used & INT64_MAX));
        json_set_take(o, "limit", l);
    }
    int64_t wall = clock_mono_ns(&c->sandbox->node->clock) - c->started_ns;
    json_set_flag(o, "killed", c->asked_kill || c->exit.killed != 0);
    json_set_int(o, "wall_ns", c->reported ? (int64_t)c->exit.wall_ns : c->started_ns == 0 ? 0 : wall);
    json_set_int(o, "user_us", (int64_t)c->exit.user_us);
    json_set_int(o, "system_us", (int64_t)c->exit.system_us);
    json_set_int(o, "maxrss_kb", (int64_t)c->exit.maxrss_kb);
    json_set_take(o, "stdout", output_json(c->out_bytes[0]));
    json_set_take(o, "stderr", output_json(c->out_bytes[1]));
    json_set_int(o, "left", c->exit.left);
    json_set_int(o, "disk", (int64_t)(c->disk & INT64_MAX));
    return o;
}

static void end_call(struct node_call *c)
{
    struct node_sandbox *sb = c->sandbox;
    pump_free(c->in);
    c->in = NULL;
    c->state = NODE_CALL_ENDED;
    if (sb->running == c) {
        sb->running = NULL;
        if (sb->state == BOX_OPEN) {
            (void)uv_timer_stop(&sb->timer);
            (void)uv_timer_stop(&sb->disk_timer);
        }
    }
    find_limit(c);
    check_disk_at_end(c);
    c->result = result_json(c);
    json_t *e = json_object();
    json_set_str(e, "event", "exited");
    json_set_str(e, "sandbox", sb->name);
    json_set_str(e, "call", c->name);
    json_set_take(e, "result", json_incref(c->result));
    node_event(sb->node, e);
}

static void end_if_drained(struct node_call *c)
{
    if (c->state == NODE_CALL_DRAINING && c->pumps_open == 0) {
        end_call(c);
        calls_advance(c->sandbox);
    }
}

static void output_done(struct pump *p, void *arg)
{
    struct node_call *c = arg;
    int which = p == c->errout ? 1 : 0;
    c->out_bytes[which][0] = p->forwarded;
    c->out_bytes[which][1] = p->total;
    *(which == 1 ? &c->errout : &c->out) = NULL;
    c->pumps_open--;
    pump_free(p);
    end_if_drained(c);
}

static void input_done(struct pump *p, void *arg)
{
    struct node_call *c = arg;
    c->in = NULL;
    pump_free(p);
}

/* ---- starting ---- */

/* A pipe for one direction, or /dev/null without a channel. */
static int open_pipe(struct node_call *c, uint32_t channel, bool input, struct pump **ret, int *ret_child,
                     struct orch_err *err)
{
    if (channel == 0) {
        int fd = fd_open("/dev/null", O_RDWR, 0, err);
        if (fd < 0) {
            return fd;
        }
        *ret_child = fd;
        return 0;
    }
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0) {
        return err_errno(err, ORCH_E_IO, "pipe");
    }
    *ret_child = fds[input ? 0 : 1];
    struct pump *p = NULL;
    TRY(pump_new(c->sandbox->node, fds[input ? 1 : 0], !input, input, &p, err));
    int code = pump_attach(p, channel, err);
    if (code < 0) {
        pump_free(p);
        return code;
    }
    p->arg = c;
    p->done = input ? input_done : output_done;
    p->limit = input ? 0 : c->limits.output == 0 ? SPEC_DEFAULT_OUTPUT : c->limits.output;
    *ret = p;
    return 0;
}

/* Pipes are made when the request comes: input may follow it at once. */
static int open_stdio(struct node_call *c, struct orch_err *err)
{
    for (int i = 0; i < 3; i++) {
        c->child[i] = fcntl(PROTOCOL_STDIO_FD + i, F_DUPFD_CLOEXEC, 3);
        if (c->child[i] < 0) {
            return err_errno(err, ORCH_E_IO, "pass a standard descriptor on");
        }
    }
    return 0;
}

static int open_pipes(struct node_call *c, struct orch_err *err)
{
    if (c->stdio) {
        return open_stdio(c, err);
    }
    TRY(open_pipe(c, c->channel_in, true, &c->in, &c->child[0], err));
    TRY(open_pipe(c, c->channel_out, false, &c->out, &c->child[1], err));
    if (c->channel_err == c->channel_out && c->channel_out != 0) {
        c->child[2] = fcntl(c->child[1], F_DUPFD_CLOEXEC, 3);
        return c->child[2] >= 0 ? 0 : err_errno(err, ORCH_E_IO, "dup");
    }
    return open_pipe(c, c->channel_err, false, &c->errout, &c->child[2], err);
}

static void add_texts(struct buf *b, char *const *list)
{
    for (; *list != NULL; list++) {
        buf_add(b, *list, strlen(*list) + 1);
    }
}

static int send_call(struct node_call *c, struct orch_err *err)
{
    const struct spec_limits *all = &c->sandbox->spec.limits;
    /* what the group holds the whole tree to is not asked of each process besides: which limit was hit would be lost */
    bool group = c->sandbox->has_group;
    struct control_call head = {
        .memory = group && c->limits.memory >= all->memory ? 0 : c->limits.memory,
        .file = c->limits.file,
        .cpu_s = c->limits.cpu_s,
        .processes = group && c->limits.processes >= all->processes ? 0 : c->limits.processes,
        .nofile = c->limits.nofile == 0 ? SPEC_DEFAULT_NOFILE : c->limits.nofile,
        .argc = (uint32_t)strv_len(c->argv),
        .envc = (uint32_t)strv_len(c->env),
    };
    AUTO_BUF struct buf texts;
    buf_init(&texts, CONTROL_PAYLOAD_MAX - sizeof head);
    buf_add(&texts, c->cwd, strlen(c->cwd) + 1);
    add_texts(&texts, c->argv);
    add_texts(&texts, c->env);
    if (texts.overflow) {
        return err_set(err, ORCH_E_LIMIT, "arguments and environment are too large");
    }
    int code = control_send(c->sandbox->control, CONTROL_CALL, &head, sizeof head, texts.data, texts.len, c->child, 3);
    if (code < 0) {
        errno = -code;
        return err_errno(err, ORCH_E_IO, "send the call");
    }
    return 0;
}

/* ---- limits that the node enforces ---- */

static void send_signal(struct node_sandbox *sb, int signal)
{
    struct control_signal s = {.signal = signal};
    (void)control_send(sb->control, CONTROL_SIGNAL, &s, sizeof s, NULL, 0, NULL, 0);
}

static void on_kill_timeout(uv_timer_t *timer)
{
    struct orch_err why = ERR_INIT;
    (void)err_set(&why, ORCH_E_TIMEOUT, "the init did not end its call");
    sandbox_close(timer->data, &why);
}

/* Asks the init to kill the call; if no report comes the whole sandbox goes. */
static void kill_call(struct node_call *c)
{
    struct node_sandbox *sb = c->sandbox;
    c->asked_kill = true;
    send_signal(sb, SIGKILL);
    (void)uv_timer_start(&sb->timer, on_kill_timeout, NODE_KILL_MS, 0);
}

static void hit_limit(struct node_call *c, const char *name, uint64_t value, uint64_t used)
{
    if (c->limit == NULL && c->state == NODE_CALL_RUNNING) {
        c->limit = name;
        c->limit_value = value;
        c->limit_used = used;
        kill_call(c);
    }
}

static void on_wall_timeout(uv_timer_t *timer)
{
    struct node_sandbox *sb = timer->data;
    struct node_call *c = sb->running;
    if (c != NULL) {
        int64_t used = clock_mono_ns(&sb->node->clock) - c->started_ns;
        hit_limit(c, "time", (uint64_t)(c->wall_ns / NS_PER_MS), (uint64_t)(used / NS_PER_MS));
    }
}

struct disk_job {
    uv_work_t work;
    struct node_sandbox *sandbox; /* waits for us: disk_busy */
    uint64_t serial, bytes;
};

static void disk_walk(uv_work_t *work)
{
    struct disk_job *j = work->data;
    j->bytes = files_usage(j->sandbox, false); /* reads only its name and the node's directory */
}

static void disk_walked(uv_work_t *work, int status)
{
    struct disk_job *j = work->data;
    struct node_sandbox *sb = j->sandbox;
    (void)status;
    sb->disk_busy = false;
    if (sb->running != NULL && sb->running->serial == j->serial && j->bytes > sb->spec.limits.disk) {
        hit_limit(sb->running, "disk", sb->spec.limits.disk, j->bytes);
    }
    free(j);
    sandbox_advance_end(sb);
}

static void on_disk_timer(uv_timer_t *timer)
{
    struct node_sandbox *sb = timer->data;
    if (sb->disk_busy || sb->running == NULL || sb->state != BOX_OPEN) {
        return;
    }
    struct disk_job *j = xcalloc(1, sizeof *j);
    *j = (struct disk_job){.sandbox = sb, .serial = sb->running->serial};
    j->work.data = j;
    sb->disk_busy = uv_queue_work(&sb->node->loop, &j->work, disk_walk, disk_walked) == 0;
    if (!sb->disk_busy) {
        free(j);
    }
}

static void close_child_ends(struct node_call *c)
{
    for (int i = 0; i < 3; i++) {
        fd_close(&c->child[i]);
    }
}

static void start_call(struct node_call *c)
{
    struct node_sandbox *sb = c->sandbox;
    struct orch_err err = ERR_INIT;
    c->state = NODE_CALL_RUNNING;
    c->started_ns = clock_mono_ns(&sb->node->clock);
    sb->running = c;
    sb->node->calls++;
    int code = send_call(c, &err);
    close_child_ends(c);
    if (code < 0) {
        sandbox_close(sb, &err);
        return;
    }
    if (c->wall_ns > 0) {
        (void)uv_timer_start(&sb->timer, on_wall_timeout, (uint64_t)((c->wall_ns + NS_PER_MS - 1) / NS_PER_MS), 0);
    }
    if (sb->spec.limits.disk > 0) {
        (void)uv_timer_start(&sb->disk_timer, on_disk_timer, NODE_DISK_MS, NODE_DISK_MS);
    }
    struct pump *pumps[] = {c->in, c->out, c->errout};
    for (size_t i = 0; i < ARRAY_LEN(pumps); i++) {
        if (pumps[i] != NULL) {
            pump_start(pumps[i]);
        }
    }
}

void calls_advance(struct node_sandbox *sb)
{
    if (sb->state != BOX_OPEN || sb->running != NULL) {
        return;
    }
    struct node_call *next = sb->calls;
    while (next != NULL && next->state != NODE_CALL_WAITING) {
        next = next->next;
    }
    if (next != NULL) {
        start_call(next);
    }
}

void call_exit_reported(struct node_sandbox *sb, const struct control_exit *e)
{
    struct node_call *c = sb->running;
    if (c->state != NODE_CALL_RUNNING) {
        return;
    }
    c->exit = *e;
    c->reported = true;
    c->state = NODE_CALL_DRAINING;
    (void)uv_timer_stop(&sb->timer);
    (void)uv_timer_stop(&sb->disk_timer);
    end_if_drained(c);
}

static void drop_pump(struct node_call *c, struct pump **p, int which)
{
    if (*p != NULL) {
        c->out_bytes[which][0] = (*p)->forwarded;
        c->out_bytes[which][1] = (*p)->total;
        if ((*p)->channel != NULL) {
            channel_end(&(*p)->channel); /* what came is all there is; END, not RESET */
        }
        pump_free(*p);
        *p = NULL;
        c->pumps_open--;
    }
}

void calls_lose(struct node_sandbox *sb)
{
    for (struct node_call *c = sb->calls; c != NULL; c = c->next) {
        if (c->state == NODE_CALL_ENDED) {
            continue;
        }
        close_child_ends(c);
        drop_pump(c, &c->out, 0);
        drop_pump(c, &c->errout, 1);
        if (sb->node->ending || sb->removing) {
            pump_free(c->in);
            c->in = NULL;
            c->state = NODE_CALL_ENDED;
            sb->running = NULL;
        } else {
            end_call(c);
        }
    }
}

static void call_free(struct node_call *c)
{
    close_child_ends(c);
    pump_free(c->in);
    pump_free(c->out);
    pump_free(c->errout);
    strv_free(c->argv);
    strv_free(c->env);
    json_release(&c->result);
    free(c->cwd);
    free(c->name);
    free(c);
}

void calls_free(struct node_sandbox *sb)
{
    while (sb->calls != NULL) {
        struct node_call *c = sb->calls;
        sb->calls = c->next;
        call_free(c);
    }
}

/* ---- requests ---- */

/* The spec's variables and the call's over them. */
static int read_env(const struct node_sandbox *sb, const json_t *over, char ***ret, struct orch_err *err)
{
    struct sandbox_spec merged = {.env = strv_copy(sb->spec.env)};
    const char *name;
    json_t *value;
    int code = 0;
    json_object_foreach((json_t *)(uintptr_t)over, name, value)
    {
        AUTO_FREE char *text = json_bytes_get(value);
        if (text == NULL || name[0] == '\0' || strchr(name, '=') != NULL) {
            code = err_set(err, ORCH_E_CONFIG, "env: a bad variable");
            break;
        }
        spec_set_env(&merged, name, text);
    }
    if (code < 0) {
        strv_free(merged.env);
        return code;
    }
    if (sb->scratch != NULL) {
        landlock_variables(&merged, sb->scratch);
    }
    *ret = merged.env;
    return 0;
}

static int read_channel(const json_t *request, const char *key, uint32_t *ret, struct orch_err *err)
{
    int64_t n = json_get_int(request, key, 0);
    if (n < 0 || n > UINT32_MAX || (n != 0 && n % 2 == 0)) {
        return err_set(err, ORCH_E_PROTOCOL, "%s: not a channel of the host", key);
    }
    *ret = (uint32_t)n;
    return 0;
}

static int read_request(struct node_call *c, const json_t *request, struct orch_err *err)
{
    struct node_sandbox *sb = c->sandbox;
    const json_t *argv = json_get(request, "argv");
    for (size_t i = 0; i < json_array_size(argv); i++) {
        char *word = json_bytes_get(json_array_get(argv, i));
        if (word == NULL) {
            return err_set(err, ORCH_E_CONFIG, "argv: expected texts");
        }
        c->argv = strv_append(c->argv, word);
    }
    if (c->argv == NULL || c->argv[0] == NULL || c->argv[0][0] == '\0') {
        return err_set(err, ORCH_E_CONFIG, "argv: no program");
    }
    c->cwd = xstrdup(json_get_str(request, "cwd", sb->spec.cwd));
    c->limits = sb->spec.limits;
    if (sb->node->off[NODE_LIMITS]) {
        c->limits = (struct spec_limits){.tmp = c->limits.tmp, .home = c->limits.home};
    }
    json_t *limits = json_get(request, "limits");
    if (json_is_object(limits)) {
        TRY(spec_limits_read(limits, &c->limits, err));
    }
    int64_t wall_ms = json_get_int(request, "wall_ms", 0);
    if (wall_ms < 0 || wall_ms > INT64_MAX / NS_PER_MS) {
        return err_set(err, ORCH_E_CONFIG, "wall_ms: out of range");
    }
    c->wall_ns = wall_ms * NS_PER_MS;
    c->stdio = json_get_flag(request, "stdio", false);
    if (c->stdio && !sb->node->passes_stdio) {
        return err_set(err, ORCH_E_CONFIG, "stdio: this node was given none");
    }
    TRY(read_channel(request, "stdin", &c->channel_in, err));
    TRY(read_channel(request, "stdout", &c->channel_out, err));
    TRY(read_channel(request, "stderr", &c->channel_err, err));
    return read_env(sb, json_get(request, "env"), &c->env, err);
}

static int new_call(struct node_sandbox *sb, const char *name, const json_t *request, struct orch_err *err)
{
    if (sb->call_count >= NODE_CALLS_MAX) {
        return err_set(err, ORCH_E_LIMIT, "more than %d calls in one sandbox", NODE_CALLS_MAX);
    }
    struct node_call *c = xcalloc(1, sizeof *c);
    *c = (struct node_call){.sandbox = sb, .name = xstrdup(name), .serial = ++sb->node->serial, .child = {-1, -1, -1}};
    int code = read_request(c, request, err);
    if (code == 0) {
        code = open_pipes(c, err);
    }
    if (code < 0) {
        call_free(c);
        return code;
    }
    c->pumps_open = (c->out != NULL) + (c->errout != NULL);
    struct node_call **at = &sb->calls;
    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = c;
    sb->call_count++;
    return 0;
}

static void refuse_channels(struct node *n, const json_t *request)
{
    static const char *const keys[] = {"stdin", "stdout", "stderr"};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        int64_t id = json_get_int(request, keys[i], 0);
        if (id > 0 && id <= UINT32_MAX) {
            frame_put(&n->queue, FRAME_RESET, (uint32_t)id, NULL, 0);
        }
    }
}

int call_request(struct node_sandbox *sb, const json_t *request, json_t **ret, struct orch_err *err)
{
    const char *name = json_get_str(request, "call", "");
    if (!spec_name_is_valid(name)) {
        return err_set(err, ORCH_E_CONFIG, "call: \"%.200s\" is not a name", name);
    }
    struct node_call *c = find(sb, name);
    if (c != NULL) {
        refuse_channels(sb->node, request);
    } else if (sb->state != BOX_OPENING && sb->state != BOX_OPEN) {
        refuse_channels(sb->node, request);
        return err_set(err, ORCH_E_UNAVAILABLE, "sandbox %s is closed: %s", sb->name, sb->error.message);
    } else {
        int code = new_call(sb, name, request, err);
        if (code < 0) {
            refuse_channels(sb->node, request);
            return code;
        }
        calls_advance(sb);
        c = find(sb, name);
        if (c == NULL) {
            return err_set(err, ORCH_E_INTERNAL, "call %s is gone as soon as it was made", name);
        }
    }
    json_t *o = json_object();
    json_set_str(o, "state", call_state_name(c->state));
    *ret = o;
    return 0;
}

int call_signal_request(struct node_sandbox *sb, const json_t *request, json_t **ret, struct orch_err *err)
{
    int64_t signal = json_get_int(request, "signal", 0);
    struct node_call *c = find(sb, json_get_str(request, "call", ""));
    if (c == NULL) {
        return err_set(err, ORCH_E_NOT_FOUND, "no such call in sandbox %s", sb->name);
    }
    if (signal < 1 || signal >= NSIG) {
        return err_set(err, ORCH_E_CONFIG, "signal: out of range");
    }
    if (c->state == NODE_CALL_RUNNING && signal == SIGKILL) {
        kill_call(c);
    } else if (c->state == NODE_CALL_RUNNING) {
        send_signal(sb, (int)signal);
    } else if (c->state == NODE_CALL_WAITING && signal == SIGKILL) {
        /* it never starts: what it would have been given is taken back */
        close_child_ends(c);
        drop_pump(c, &c->out, 0);
        drop_pump(c, &c->errout, 1);
        c->asked_kill = c->reported = true;
        c->exit = (struct control_exit){.status = SIGKILL, .killed = 1};
        end_call(c);
    }
    json_t *o = json_object();
    json_set_str(o, "state", call_state_name(c->state));
    *ret = o;
    return 0;
}
