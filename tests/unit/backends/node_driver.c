/* SPDX-License-Identifier: Apache-2.0 */
#include "node_driver.h"

#include "base/fd.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAIT_MS 60000

static void copy_program(const char *from, const char *to)
{
    struct orch_err err = ERR_INIT;
    char *data = NULL;
    size_t len = 0;
    cr_assert_eq(fd_read_file(from, (size_t)64 << 20, &data, &len, &err), 0, "%s", err.message);
    int fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    cr_assert_geq(fd, 0, "open %s", to);
    cr_assert_eq(fd_write_all(fd, data, len, &err), 0, "%s", err.message);
    cr_assert_eq(fchmod(fd, 0755), 0);
    (void)close(fd);
    free(data);
}

static void run_node(const char *program, bool drop, int fd)
{
    (void)dup2(fd, 0);
    (void)dup2(fd, 1);
    char name[] = "orch-node";
    char *plain[] = {name, NULL};
    char setpriv[] = "setpriv";
    char uid[] = "--reuid=65534";
    char gid[] = "--regid=65534";
    char groups[] = "--clear-groups";
    char *path = xstrdup(program);
    char *dropped[] = {setpriv, uid, gid, groups, path, NULL};
    char *envp[] = {NULL};
    if (drop) {
        (void)execve("/usr/bin/setpriv", dropped, envp);
    } else {
        (void)execve(program, plain, envp);
    }
    _exit(99);
}

static void say_hello(struct driver *d, const char *mechanism)
{
    json_t *ids = json_object();
    json_set_int(ids, "first", 210000);
    json_set_int(ids, "count", 1000);
    json_t *m = json_object();
    json_set_int(m, "version", PROTOCOL_VERSION);
    json_set_flag(m, "shares_paths", true);
    json_set_str(m, "work", d->work);
    json_set_take(m, "ids", ids);
    json_set_str(m, "mechanism", mechanism);
    if (d->lose > 0) {
        json_t *faults = json_object();
        json_set_int(faults, "lose", d->lose);
        json_set_take(m, "faults", faults);
    }
    d->hello = driver_ask(d, "hello", m);
    cr_assert_not_null(json_get(d->hello, "ok"), "hello: %s", json_get_str(json_get(d->hello, "error"), "message", ""));
}

void driver_start(struct driver *d, bool as_user, int64_t lose, const char *mechanism)
{
    if (as_user && geteuid() == 0) {
        cr_assert_eq(setenv("TMPDIR", "/tmp", 1), 0); /* the runner's own may be closed to that user */
    }
    *d = (struct driver){.dir = test_dir_new(), .as_user = as_user, .lose = lose, .next_channel = 1};
    bool drop = as_user && geteuid() == 0;
    d->work = xasprintf("%s/work", d->dir.path);
    cr_assert_eq(chmod(d->dir.path, 0755), 0);
    cr_assert_eq(mkdir(d->work, 0700), 0);
    char *node = test_built("backends/orch-node");
    char *init = test_built("backends/orch-init");
    if (drop) { /* the build tree may be closed to that user */
        cr_assert_eq(chown(d->work, 65534, 65534), 0);
        char *to_node = xasprintf("%s/orch-node", d->dir.path);
        char *to_init = xasprintf("%s/orch-init", d->dir.path);
        copy_program(node, to_node);
        copy_program(init, to_init);
        free(node);
        node = to_node;
        free(to_init);
    }
    free(init);
    int pair[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    d->pid = fork();
    if (d->pid == 0) {
        run_node(node, drop, pair[1]);
    }
    (void)close(pair[1]);
    free(node);
    d->fd = pair[0];
    frame_decoder_init(&d->in);
    d->replies = json_object();
    d->events = json_array();
    say_hello(d, mechanism);
}

static void forget(struct driver *d)
{
    frame_decoder_done(&d->in);
    json_release(&d->replies);
    json_release(&d->events);
    json_release(&d->hello);
    for (size_t i = 0; i < d->channel_count; i++) {
        buf_done(&d->channels[i].data);
    }
    fd_close(&d->fd);
    free(d->work);
    test_dir_done(&d->dir);
}

static bool stream_over(struct driver *d, const void *arg)
{
    (void)arg;
    return d->over;
}

void driver_stop(struct driver *d)
{
    cr_assert_eq(shutdown(d->fd, SHUT_WR), 0);
    driver_until(d, stream_over, NULL);
    int status = 0;
    cr_assert_eq(waitpid(d->pid, &status, 0), d->pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "orch-node: status %#x", (unsigned)status);
    cr_assert_eq(rmdir(d->work), 0, "the node left something in %s", d->work);
    forget(d);
}

void driver_each_losing(int64_t lose, void (*check)(struct driver *d))
{
    struct driver *d = xcalloc(1, sizeof *d);
    static const char *const mechanisms[] = {"namespaces", "bubblewrap"};
    for (size_t i = 0; i < ARRAY_LEN(mechanisms); i++) {
        for (int user = geteuid() == 0 ? 0 : 1; user <= 1; user++) {
            driver_start(d, user == 1, lose, mechanisms[i]);
            check(d);
            driver_stop(d);
        }
    }
    free(d);
}

void driver_each(void (*check)(struct driver *d))
{
    driver_each_losing(0, check);
}

/* ---- frames ---- */

static void put(struct driver *d, struct buf *b)
{
    struct orch_err err = ERR_INIT;
    cr_assert_eq(fd_write_all(d->fd, b->data, b->len, &err), 0, "%s", err.message);
}

int64_t driver_send(struct driver *d, const char *op, json_t *members)
{
    struct orch_err err = ERR_INIT;
    json_t *m = request_new(++d->next_id, op);
    if (members != NULL) {
        (void)json_object_update(m, members);
        json_decref(members);
    }
    AUTO_BUF struct buf b;
    buf_init(&b, PROTOCOL_JSON_MAX + 64);
    cr_assert_eq(frame_put_json(&b, FRAME_REQUEST, m, &err), 0);
    put(d, &b);
    return d->next_id;
}

struct driver_channel *driver_channel(struct driver *d, uint32_t id)
{
    for (size_t i = 0; i < d->channel_count; i++) {
        if (d->channels[i].id == id) {
            return &d->channels[i];
        }
    }
    cr_assert_lt(d->channel_count, (size_t)DRIVER_CHANNELS);
    struct driver_channel *c = &d->channels[d->channel_count++];
    *c = (struct driver_channel){.id = id, .may_send = PROTOCOL_WINDOW};
    buf_init(&c->data, (size_t)256 << 20);
    return c;
}

uint32_t driver_new_channel(struct driver *d)
{
    uint32_t id = d->next_channel;
    d->next_channel += 2;
    (void)driver_channel(d, id);
    return id;
}

static void put_frame(struct driver *d, enum frame_type type, uint32_t channel, const void *data, size_t len)
{
    AUTO_BUF struct buf b;
    buf_init(&b, PROTOCOL_DATA_MAX + 64);
    frame_put(&b, type, channel, data, len);
    put(d, &b);
}

void driver_data(struct driver *d, uint32_t channel, const void *data, size_t len)
{
    put_frame(d, FRAME_DATA, channel, data, len);
    driver_channel(d, channel)->may_send -= len;
}

void driver_end(struct driver *d, uint32_t channel)
{
    put_frame(d, FRAME_END, channel, NULL, 0);
}

void driver_reset(struct driver *d, uint32_t channel)
{
    put_frame(d, FRAME_RESET, channel, NULL, 0);
}

void driver_credit(struct driver *d, uint32_t channel, uint32_t bytes)
{
    AUTO_BUF struct buf b;
    buf_init(&b, 64);
    frame_put_credit(&b, channel, bytes);
    put(d, &b);
}

static void deliver(struct driver *d, const struct frame *f)
{
    struct orch_err err = ERR_INIT;
    json_t *value = NULL;
    if (f->type == FRAME_REPLY || f->type == FRAME_EVENT) {
        cr_assert_eq(frame_json(f, &value, &err), 0, "%s", err.message);
    }
    struct driver_channel *c = f->channel != 0 ? driver_channel(d, f->channel) : NULL;
    if (f->type == FRAME_REPLY) {
        char key[32];
        (void)snprintf(key, sizeof key, "%lld", (long long)json_get_int(value, "id", 0));
        json_set_take(d->replies, key, value);
    } else if (f->type == FRAME_EVENT) {
        json_add_take(d->events, value);
    } else if (f->type == FRAME_DATA) {
        cr_assert_not(c->ended, "bytes after END");
        buf_add(&c->data, f->data, f->len);
        if (!c->hold) {
            driver_credit(d, c->id, (uint32_t)f->len);
        }
    } else if (f->type == FRAME_END) {
        c->ended = true;
    } else if (f->type == FRAME_RESET) {
        c->reset = true;
    } else if (f->type == FRAME_CREDIT) {
        c->may_send += frame_credit(f);
    }
}

static void read_some(struct driver *d)
{
    struct pollfd p = {.fd = d->fd, .events = POLLIN};
    cr_assert_eq(poll(&p, 1, WAIT_MS), 1, "the node says nothing");
    size_t room;
    char *to = frame_decoder_room(&d->in, 65536, &room);
    ssize_t n = read(d->fd, to, room);
    if (n <= 0) {
        d->over = true;
        return;
    }
    frame_decoder_filled(&d->in, (size_t)n);
    struct frame f;
    struct orch_err err = ERR_INIT;
    int got;
    while ((got = frame_decoder_next(&d->in, &f, &err)) == 1) {
        deliver(d, &f);
    }
    cr_assert_eq(got, 0, "%s", err.message);
}

void driver_until(struct driver *d, bool (*until)(struct driver *d, const void *arg), const void *arg)
{
    while (!until(d, arg)) {
        cr_assert_not(d->over, "the node ended the stream");
        read_some(d);
    }
}

static bool replied(struct driver *d, const void *arg)
{
    return json_get(d->replies, arg) != NULL;
}

json_t *driver_wait(struct driver *d, int64_t id)
{
    char key[32];
    (void)snprintf(key, sizeof key, "%lld", (long long)id);
    driver_until(d, replied, key);
    json_t *reply = json_incref(json_get(d->replies, key));
    (void)json_object_del(d->replies, key);
    return reply;
}

json_t *driver_ask(struct driver *d, const char *op, json_t *members)
{
    return driver_wait(d, driver_send(d, op, members));
}

const char *driver_code(const json_t *reply)
{
    return json_get_str(json_get(reply, "error"), "code", "");
}

static bool channel_over(struct driver *d, const void *arg)
{
    const struct driver_channel *c = driver_channel(d, *(const uint32_t *)arg);
    return c->ended || c->reset;
}

void driver_wait_ended(struct driver *d, uint32_t channel)
{
    driver_until(d, channel_over, &channel);
}

/* ---- sandboxes ---- */

void driver_spec(struct sandbox_spec *s, const char *name)
{
    spec_init(s, name);
    spec_set_env(s, "PATH", "/usr/bin:/bin");
    spec_set_env(s, "HOME", SPEC_HOME);
    spec_grant_work(s, "output", NULL, "/w/output", SPEC_RW);
    free(s->cwd);
    s->cwd = xstrdup("/w");
}

json_t *driver_open(struct driver *d, const struct sandbox_spec *s)
{
    json_t *m = json_object();
    json_set_str(m, "sandbox", s->name);
    json_set_take(m, "spec", spec_to_json(s));
    return driver_ask(d, "open", m);
}

void driver_open_ok(struct driver *d, const struct sandbox_spec *s)
{
    AUTO_JSON json_t *r = driver_open(d, s);
    cr_assert_not_null(json_get(r, "ok"), "open: %s", json_get_str(json_get(r, "error"), "message", ""));
}

void driver_remove(struct driver *d, const char *name)
{
    json_t *m = json_object();
    json_set_str(m, "sandbox", name);
    AUTO_JSON json_t *r = driver_ask(d, "remove", m);
    cr_assert(json_get_flag(json_get(r, "ok"), "gone", false), "remove: %s",
              json_get_str(json_get(r, "error"), "message", ""));
}

void outcome_done(struct outcome *o)
{
    json_release(&o->result);
    free(o->out);
    free(o->err);
}

struct call_ids driver_call_start(struct driver *d, const char *sandbox, const char *call, char *const *argv,
                                  int64_t wall_ms, bool with_input)
{
    struct call_ids ids = {.in = with_input ? driver_new_channel(d) : 0,
                           .out = driver_new_channel(d),
                           .err = driver_new_channel(d),
                           .sandbox = sandbox,
                           .call = call};
    json_t *m = json_object();
    json_set_str(m, "sandbox", sandbox);
    json_set_str(m, "call", call);
    json_set_take(m, "argv", json_from_strv(argv));
    json_set_int(m, "stdin", ids.in);
    json_set_int(m, "stdout", ids.out);
    json_set_int(m, "stderr", ids.err);
    json_set_int(m, "wall_ms", wall_ms);
    AUTO_JSON json_t *r = driver_ask(d, "call", m);
    cr_assert_not_null(json_get(r, "ok"), "call: %s", json_get_str(json_get(r, "error"), "message", ""));
    return ids;
}

static json_t *exited_event(const struct driver *d, const struct call_ids *ids)
{
    size_t i;
    json_t *e;
    json_array_foreach(d->events, i, e)
    {
        if (strcmp(json_get_str(e, "event", ""), "exited") == 0 &&
            strcmp(json_get_str(e, "sandbox", ""), ids->sandbox) == 0 &&
            strcmp(json_get_str(e, "call", ""), ids->call) == 0) {
            return e;
        }
    }
    return NULL;
}

static bool has_exited(struct driver *d, const void *arg)
{
    return exited_event(d, arg) != NULL;
}

struct outcome driver_call_wait(struct driver *d, const struct call_ids *ids)
{
    driver_until(d, has_exited, ids);
    struct outcome o = {.result = json_incref(json_get(exited_event(d, ids), "result"))};
    struct driver_channel *out = driver_channel(d, ids->out);
    struct driver_channel *errout = driver_channel(d, ids->err);
    cr_assert(out->ended && errout->ended, "END comes before `exited`");
    o.out_len = out->data.len;
    o.out = xmemdup0(out->data.data, out->data.len);
    o.err = xmemdup0(errout->data.data, errout->data.len);
    return o;
}

struct outcome driver_sh(struct driver *d, const char *sandbox, const char *call, const char *script, int64_t wall_ms)
{
    char sh[] = "sh";
    char c[] = "-c";
    AUTO_FREE char *text = xstrdup(script);
    char *argv[] = {sh, c, text, NULL};
    struct call_ids ids = driver_call_start(d, sandbox, call, argv, wall_ms, false);
    return driver_call_wait(d, &ids);
}

const char *outcome_end(const struct outcome *o)
{
    return json_get_str(o->result, "end", "");
}

int outcome_code(const struct outcome *o)
{
    return (int)json_get_int(o->result, "code", -1);
}

const char *outcome_limit(const struct outcome *o)
{
    return json_get_str(json_get(o->result, "limit"), "name", "");
}
