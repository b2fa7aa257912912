/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trees between the host and a node: put (pack here, unpack there) and get (the
 * other way, through the handoff sanitizer). Packing, unpacking and copying run
 * on worker threads; while one runs, nothing else touches what it uses.
 */
#include "backends/environments/environment_impl.h"

#include "backends/node/tree_stream.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/rng.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PUT_CHUNK ((size_t)256 << 10)

struct tree_op {
    struct environment *env;
    struct tree_op *next, *prev;
    struct sandbox *sb; /* of a get; NULL: a put */
    put_cb put_cb;
    get_cb get_cb;
    void *arg;

    struct node_request *request;
    struct node_channel *ch;
    uv_work_t work;
    bool working;
    void (*job)(struct tree_op *op);  /* worker thread */
    void (*then)(struct tree_op *op); /* loop */
    struct orch_err err;              /* the first one decides; the worker's while one runs */
    struct orch_err loop_err;         /* what came to the loop meanwhile */
    unsigned again;
    bool moved; /* bytes went since the last time-out */
    bool ended; /* the environment goes: finish when the worker is done */

    char *path; /* put: the host directory; get: the path the node was asked for, or the local path */
    char *rest; /* get: below `path` on this machine */
    int dirfd;  /* put: source; get: destination */
    struct tree_packer *packer;
    struct tree_counts counts;
    char digest[DIGEST_TEXT_MAX];
    bool packed, sent_all, copied;
    char *chunk;
    size_t chunk_len, chunk_at;

    struct tree_unpacker *unpacker;
    struct handoff_limits limits;
    struct handoff_report report;
    struct buf in; /* bytes that wait for the worker */
    size_t in_work;
    char *stage_name;
    int stagefd;
    bool got_end, unpacked, replied;
    uint64_t skipped;
};

static void put_step(struct tree_op *op);
static void get_step(struct tree_op *op);

static struct tree_op *tree_op_new(struct environment *env, struct sandbox *sb, void *arg)
{
    struct tree_op *op = xcalloc(1, sizeof *op);
    *op = (struct tree_op){.env = env, .sb = sb, .arg = arg, .dirfd = -1, .stagefd = -1, .next = env->trees};
    if (env->trees != NULL) {
        env->trees->prev = op;
    }
    env->trees = op;
    buf_init(&op->in, 2 * PROTOCOL_WINDOW);
    if (sb != NULL) {
        sb->busy++;
    }
    return op;
}

static void tree_op_free(struct tree_op *op)
{
    struct sandbox *sb = op->sb;
    if (op->prev != NULL) {
        op->prev->next = op->next;
    } else {
        op->env->trees = op->next;
    }
    if (op->next != NULL) {
        op->next->prev = op->prev;
    }
    node_request_forget(op->request);
    node_channel_free(op->ch);
    tree_packer_free(op->packer);
    tree_unpacker_free(op->unpacker);
    fd_close(&op->dirfd);
    fd_close(&op->stagefd);
    buf_done(&op->in);
    free(op->path);
    free(op->rest);
    free(op->chunk);
    free(op->stage_name);
    free(op);
    if (sb != NULL) {
        sandbox_release(sb);
    }
}

/* ---- workers ---- */

static void note_err(struct tree_op *op, const struct orch_err *err)
{
    struct orch_err *to = op->working ? &op->loop_err : &op->err;
    if (to->code == 0) {
        *to = *err;
    }
}

static void on_work(uv_work_t *work)
{
    struct tree_op *op = work->data;
    op->job(op);
}

static void on_worked(uv_work_t *work, int status)
{
    struct tree_op *op = work->data;
    struct environment *env = op->env;
    (void)status;
    op->working = false;
    env->works--;
    note_err(op, &op->loop_err);
    struct orch_err over = ERR_INIT;
    if (op->err.code < 0 && environment_usable(env, &over) < 0) {
        op->err = over; /* what it met is what the end took away */
    }
    op->then(op);
    environment_maybe_closed(env);
}

static void start_work(struct tree_op *op, void (*job)(struct tree_op *op), void (*then)(struct tree_op *op))
{
    op->working = true;
    op->job = job;
    op->then = then;
    op->work.data = op;
    op->env->works++;
    /* Fails only without a callback. */
    (void)uv_queue_work(op->env->loop, &op->work, on_work, on_worked);
}

/* ---- put ---- */

static void put_finish(struct tree_op *op)
{
    AUTO_FREE char *source = op->err.code < 0             ? xstrdup("")
                             : op->env->row->shares_paths ? xstrdup(op->path)
                                                          : xasprintf("tree:%s", op->digest);
    struct put_result result = {
        .err = op->err, .source = source, .digest = op->digest, .copied = op->copied, .skipped = op->counts.skipped};
    op->ended = true; /* the callback may close the environment */
    op->put_cb(op->env, &result, op->arg);
    tree_op_free(op);
}

static void put_stat_job(struct tree_op *op)
{
    op->dirfd = fd_open(op->path, O_PATH | O_DIRECTORY, 0, &op->err);
}

static void put_digest_job(struct tree_op *op)
{
    const struct tree_limits limits = {.links = true};
    op->dirfd = fd_open(op->path, O_RDONLY | O_DIRECTORY, 0, &op->err);
    int r = op->dirfd < 0 ? op->dirfd : tree_digest(op->dirfd, &limits, &op->counts, op->digest, &op->err);
    (void)r; /* op->err says it */
}

static void put_read_job(struct tree_op *op)
{
    const struct tree_limits limits = {.links = true};
    size_t n = 0;
    if (op->packer == NULL && tree_packer_new(op->dirfd, &limits, &op->packer, &op->err) < 0) {
        return;
    }
    if (op->chunk == NULL) {
        op->chunk = xmalloc(PUT_CHUNK);
    }
    if (tree_packer_read(op->packer, op->chunk, PUT_CHUNK, &n, &op->err) < 0) {
        return;
    }
    op->chunk_len = n;
    op->chunk_at = 0;
    op->packed = n == 0;
}

static void put_nothing(void *arg, const char *data, size_t len)
{
    (void)arg, (void)data, (void)len;
}

static void put_room(void *arg)
{
    struct tree_op *op = arg;
    op->moved = true;
    put_step(op);
}

static void put_other(void *arg)
{
    (void)arg; /* END and RESET: the reply says why */
}

static const struct node_channel_callbacks put_callbacks = {
    .data = put_nothing, .end = put_other, .reset = put_other, .room = put_room};

static void on_put_reply(void *arg, json_t *ok, const struct orch_err *err)
{
    struct tree_op *op = arg;
    op->request = NULL;
    op->replied = true;
    op->copied = ok != NULL && !json_get_flag(ok, "present", false);
    note_err(op, err);
    put_step(op);
}

static enum node_retry late_put(void *arg, json_t *request, unsigned times)
{
    struct tree_op *op = arg;
    (void)times;
    if (op->moved || op->working) {
        op->moved = false;
        return NODE_WAIT;
    }
    if (++op->again > NODE_ATTEMPTS) {
        return NODE_GIVE_UP;
    }
    /* From the start, on a channel of its own; what is there already is found by its digest. */
    tree_packer_free(take(op->packer));
    op->packed = op->sent_all = false;
    op->chunk_len = op->chunk_at = 0;
    node_channel_free(take(op->ch));
    op->ch = node_channel_new(op->env->client, 0, &put_callbacks, op);
    json_set_int(request, "channel", node_channel_id(op->ch));
    return NODE_AGAIN;
}

static void put_send(struct tree_op *op)
{
    op->ch = node_channel_new(op->env->client, 0, &put_callbacks, op);
    json_t *q = json_object();
    json_set_str(q, "op", "put");
    json_set_str(q, "digest", op->digest);
    json_set_int(q, "channel", node_channel_id(op->ch));
    op->request = node_request(op->env->client, q, late_put, on_put_reply, op);
}

static void put_step(struct tree_op *op)
{
    if (op->working) {
        return;
    }
    if (op->replied || op->ended || op->err.code < 0) {
        put_finish(op);
        return;
    }
    size_t room = node_channel_room(op->ch);
    size_t left = op->chunk_len - op->chunk_at;
    size_t n = left < room ? left : room;
    if (n > 0) {
        node_channel_send(op->ch, op->chunk + op->chunk_at, n);
        op->chunk_at += n;
    }
    if (op->packed && !op->sent_all) {
        op->sent_all = true;
        node_channel_end(op->ch);
    } else if (!op->packed && op->chunk_at == op->chunk_len && node_channel_room(op->ch) > 0) {
        start_work(op, put_read_job, put_step);
    }
}

static void put_digested(struct tree_op *op)
{
    if (op->err.code < 0 || op->ended) {
        put_finish(op);
        return;
    }
    put_send(op);
    put_step(op);
}

int environment_put(struct environment *env, const char *dir, put_cb cb, void *arg, struct orch_err *err)
{
    TRY(environment_usable(env, err));
    if (dir[0] != '/') {
        return err_set(err, ORCH_E_USAGE, "%s: not an absolute path", dir);
    }
    struct tree_op *op = tree_op_new(env, NULL, arg);
    op->put_cb = cb;
    op->path = path_normal(dir);
    if (env->row->shares_paths) {
        start_work(op, put_stat_job, put_finish);
    } else {
        start_work(op, put_digest_job, put_digested);
    }
    return 0;
}

/* ---- get ---- */

static void get_finish(struct tree_op *op)
{
    struct get_result result = {.err = op->err, .report = &op->report};
    op->ended = true; /* the callback may close the environment */
    op->get_cb(op->sb, &result, op->arg);
    tree_op_free(op);
}

static void unstage_job(struct tree_op *op)
{
    struct orch_err ignored = ERR_INIT;
    AUTO_FD int work = fd_open(op->env->work_dir, O_RDONLY | O_DIRECTORY, 0, &ignored);
    int r = work >= 0 && op->stage_name != NULL ? fd_remove_tree(work, op->stage_name, &ignored) : 0;
    (void)r; /* what stays goes with the working directory */
}

static void copy_from(struct tree_op *op, int sourcefd)
{
    int r = handoff_copy(sourcefd, op->dirfd, &op->limits, &op->report, &op->err);
    (void)r; /* op->err says it */
}

/* The tree is on this machine: `path` is the node's, `rest` goes beneath it. */
static void get_local_job(struct tree_op *op)
{
    AUTO_FD int root = fd_open(op->path, O_RDONLY | O_DIRECTORY, 0, &op->err);
    if (root < 0) {
        return;
    }
    if (op->rest[0] == '\0') {
        copy_from(op, root);
        return;
    }
    AUTO_FD int dir = fd_open_beneath(root, op->rest, O_RDONLY | O_DIRECTORY, 0, &op->err);
    if (dir >= 0) {
        copy_from(op, dir);
    }
}

static void stage_job(struct tree_op *op)
{
    char random[13];
    AUTO_FD int work = fd_open(op->env->work_dir, O_RDONLY | O_DIRECTORY, 0, &op->err);
    if (work < 0) {
        return;
    }
    random_name(random, 12);
    op->stage_name = xasprintf("get-%s", random);
    if (mkdirat(work, op->stage_name, 0700) < 0) {
        (void)err_errno(&op->err, ORCH_E_IO, "make a staging directory");
        return;
    }
    op->stagefd = fd_open_beneath(work, op->stage_name, O_RDONLY | O_DIRECTORY, 0, &op->err);
    if (op->stagefd >= 0) {
        (void)flock(op->stagefd, LOCK_EX | LOCK_NB); /* in use: environment_sweep() */
    }
}

static struct tree_limits stage_limits(const struct tree_op *op)
{
    /* The caps of the handoff apply to the copy; here they only bound the staging. */
    uint64_t bytes = op->limits.bytes != 0 ? op->limits.bytes : (uint64_t)1 << 30;
    uint64_t entries = op->limits.entries != 0 ? op->limits.entries : 100000;
    return (struct tree_limits){
        .links = true, .bytes = bytes, .entries = entries < TREE_ENTRIES_MAX ? entries : TREE_ENTRIES_MAX};
}

static void feed_job(struct tree_op *op)
{
    const struct tree_limits limits = stage_limits(op);
    if (op->unpacker == NULL && tree_unpacker_new(op->stagefd, &limits, &op->unpacker, &op->err) < 0) {
        return;
    }
    if (op->in_work > 0 && tree_unpacker_feed(op->unpacker, op->chunk, op->in_work, &op->err) < 0) {
        return;
    }
}

static void finish_stage_job(struct tree_op *op)
{
    feed_job(op);
    if (op->err.code == 0 && tree_unpacker_finish(op->unpacker, &op->counts, op->digest, &op->err) == 0) {
        copy_from(op, op->stagefd);
    }
}

static void get_data(void *arg, const char *data, size_t len)
{
    struct tree_op *op = arg;
    op->moved = true;
    buf_add(&op->in, data, len);
    get_step(op);
}

static void get_end(void *arg)
{
    struct tree_op *op = arg;
    op->got_end = true;
    op->moved = true;
    get_step(op);
}

static void get_reset(void *arg)
{
    (void)arg; /* the reply says why */
}

static const struct node_channel_callbacks get_callbacks = {.data = get_data, .end = get_end, .reset = get_reset};

static void on_get_reply(void *arg, json_t *ok, const struct orch_err *err)
{
    struct tree_op *op = arg;
    op->request = NULL;
    op->replied = true;
    op->skipped = (uint64_t)json_get_int(ok, "skipped", 0);
    note_err(op, err);
    if (ok != NULL && op->ch == NULL) {
        free(op->path);
        op->path = xstrdup(json_get_str(ok, "path", ""));
    }
    get_step(op);
}

static void get_channel(struct tree_op *op)
{
    op->ch = node_channel_new(op->env->client, 0, &get_callbacks, op);
    node_channel_end(op->ch);
}

static enum node_retry late_get(void *arg, json_t *request, unsigned times)
{
    struct tree_op *op = arg;
    (void)times;
    if (op->moved || op->working) {
        op->moved = false;
        return NODE_WAIT;
    }
    if (op->got_end && op->ch != NULL) {
        /* Everything came and only the answer is missing: the stream says itself that it is whole. */
        AUTO_JSON json_t *nothing = json_object();
        node_request_settle(op->request, nothing, NULL);
        return NODE_WAIT;
    }
    if (++op->again > NODE_ATTEMPTS) {
        return NODE_GIVE_UP;
    }
    if (op->unpacker != NULL || op->in.len > 0) {
        return NODE_WAIT; /* it has begun: it may only be slow */
    }
    if (op->ch != NULL) {
        node_channel_free(op->ch);
        get_channel(op);
        json_set_int(request, "channel", node_channel_id(op->ch));
    }
    return NODE_AGAIN;
}

static void get_done(struct tree_op *op)
{
    if (op->env->row->shares_paths) {
        get_finish(op);
        return;
    }
    /* What the node itself left out: links and special files, it does not say which. */
    op->report.dropped += op->skipped;
    op->report.reasons[HANDOFF_SPECIAL] += op->skipped;
    start_work(op, unstage_job, get_finish);
}

static void get_fed(struct tree_op *op)
{
    if (op->ch != NULL) {
        node_channel_consumed(op->ch, op->in_work);
    }
    get_step(op);
}

static void get_step(struct tree_op *op)
{
    if (op->working) {
        return;
    }
    if (op->err.code < 0 || op->ended) {
        op->skipped = 0;
        node_request_forget(take(op->request));
        node_channel_free(take(op->ch));
        get_done(op);
        return;
    }
    if (op->env->row->shares_paths) {
        if (op->replied) {
            start_work(op, get_local_job, get_done);
        }
        return;
    }
    if (op->in.len > 0 || (op->got_end && op->replied)) {
        bool last = op->got_end && op->replied;
        free(op->chunk);
        op->chunk = buf_take(&op->in, &op->in_work);
        start_work(op, last ? finish_stage_job : feed_job, last ? get_done : get_fed);
    }
}

static void get_send(struct tree_op *op)
{
    json_t *q = json_object();
    json_set_str(q, "op", "get");
    json_set_str(q, "sandbox", op->sb->name);
    json_set_str(q, "path", op->path);
    if (op->env->row->shares_paths) {
        json_set_str(q, "as", "path");
    } else {
        get_channel(op);
        json_set_int(q, "channel", node_channel_id(op->ch));
    }
    op->request = node_request(op->env->client, q, late_get, on_get_reply, op);
}

static void get_staged(struct tree_op *op)
{
    if (op->err.code == 0 && !op->ended) {
        get_send(op);
    }
    get_step(op);
}

/* The grant that holds `path`: the one with the longest target. Writable ones only: nothing else can have changed. */
static const json_t *grant_of(const json_t *spec, const char *path)
{
    const json_t *best = NULL;
    size_t best_len = 0;
    size_t i;
    json_t *grant;
    json_array_foreach(json_get(spec, "grants"), i, grant)
    {
        const char *target = json_get_str(grant, "target", "");
        if (path_is_beneath(path, target) && strlen(target) >= best_len) {
            best = grant;
            best_len = strlen(target);
        }
    }
    return best != NULL && strcmp(json_get_str(best, "mode", ""), "rw") == 0 ? best : NULL;
}

/* Fills op->path and op->rest; *ret_local when no question to the node is needed. */
static int resolve(struct tree_op *op, const char *path, bool *ret_local, struct orch_err *err)
{
    *ret_local = false;
    if (strncmp(path, "work:", 5) == 0) {
        op->path = xstrdup(path + 5);
        op->rest = xstrdup("");
        return 0;
    }
    AUTO_FREE char *normal = path_normal(path);
    const json_t *grant = normal[0] == '/' ? grant_of(op->sb->spec, normal) : NULL;
    if (grant == NULL) {
        return err_set(err, ORCH_E_NOT_FOUND, "%s is in no writable grant of the sandbox", path);
    }
    const char *target = json_get_str(grant, "target", "");
    const char *source = json_get_str(grant, "source", "");
    const char *rest = normal + strlen(target);
    rest += rest[0] == '/' ? 1 : 0;
    if (strncmp(source, "work:", 5) == 0 && op->env->row->shares_paths) {
        op->path = xstrdup(source + 5);
        op->rest = xstrdup(rest);
    } else if (strncmp(source, "work:", 5) == 0) {
        op->path = rest[0] != '\0' ? path_join(source + 5, rest) : xstrdup(source + 5);
        op->rest = xstrdup("");
    } else {
        op->path = xstrdup(source);
        op->rest = xstrdup(rest);
        *ret_local = true;
    }
    return 0;
}

int sandbox_get(struct sandbox *sb, const char *path, int dest_dirfd, const struct handoff_limits *limits, get_cb cb,
                void *arg, struct orch_err *err)
{
    TRY(environment_usable(sb->env, err));
    if (sb->calls != NULL) {
        return err_set(err, ORCH_E_USAGE, "a call runs in the sandbox `%s`: nothing can be read yet", sb->name);
    }
    if (sb->removing) {
        return err_set(err, ORCH_E_USAGE, "the sandbox `%s` is being removed", sb->name);
    }
    bool local = false;
    struct tree_op *op = tree_op_new(sb->env, sb, arg);
    op->get_cb = cb;
    op->limits = *limits;
    op->dirfd = fcntl(dest_dirfd, F_DUPFD_CLOEXEC, 3);
    int r = op->dirfd < 0 ? err_errno(err, ORCH_E_IO, "duplicate the destination") : 0;
    if (r == 0) {
        r = resolve(op, path, &local, err);
    }
    if (r < 0) {
        tree_op_free(op);
        return r;
    }
    if (local) {
        start_work(op, get_local_job, get_done);
    } else if (sb->env->row->shares_paths) {
        get_send(op);
    } else {
        start_work(op, stage_job, get_staged);
    }
    return 0;
}

void tree_end_all(struct environment *env, const struct orch_err *err)
{
    for (;;) {
        struct tree_op *op = env->trees;
        while (op != NULL && op->ended) { /* NOLINT(clang-analyzer-unix.Malloc): the freed one was unlinked */
            op = op->next;
        }
        if (op == NULL) {
            return;
        }
        op->ended = true;
        note_err(op, err);
        /* While a worker runs the op stays, but the client may go. */
        node_request_forget(take(op->request));
        node_channel_free(take(op->ch));
        if (!op->working) {
            if (op->sb != NULL) {
                get_step(op);
            } else {
                put_step(op);
            }
        }
    }
}
