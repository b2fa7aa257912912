/* SPDX-License-Identifier: Apache-2.0 */
/* put and get: trees in and out, over one channel each. */
#include "backends/node/node.h"

#include "backends/node/tree_stream.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GET_CHUNK ((size_t)64 << 10)

/* One transfer under way; its channel's owner. */
struct transfer {
    struct node *node;
    int64_t id; /* of the request to answer */
    struct channel *channel;
    struct tree_unpacker *unpacker; /* put */
    char *name;                     /* put: relative directory being filled */
    char digest[DIGEST_TEXT_MAX];   /* put: the one announced */
    struct tree_packer *packer;     /* get */
    struct transfer *next;
};

static void transfer_free(struct transfer *t)
{
    struct transfer **at = (struct transfer **)&t->node->transfers;
    while (*at != t) {
        at = &(*at)->next;
    }
    *at = t->next;
    if (t->channel != NULL && t->channel->sent_end && t->channel->got_end) {
        channel_end(&t->channel);
    } else if (t->channel != NULL) {
        channel_reset(&t->channel);
    }
    if (t->name != NULL) {
        struct orch_err ignored = ERR_INIT;
        (void)!fd_remove_tree(t->node->workfd, t->name, &ignored); /* absent after a success */
    }
    tree_unpacker_free(t->unpacker);
    tree_packer_free(t->packer);
    free(t->name);
    free(t);
}

static struct transfer *transfer_new(struct node *n, int64_t id)
{
    struct transfer *t = xcalloc(1, sizeof *t);
    *t = (struct transfer){.node = n, .id = id, .next = n->transfers};
    n->transfers = t;
    return t;
}

static void fail(struct transfer *t, const struct orch_err *e)
{
    node_reply_error(t->node, t->id, e);
    transfer_free(t);
}

static void on_reset(void *owner)
{
    struct transfer *t = owner;
    struct orch_err e = ERR_INIT;
    (void)err_set(&e, ORCH_E_INTERRUPTED, "the host ended the transfer");
    t->channel = NULL;
    fail(t, &e);
}

static int read_channel(const json_t *request, uint32_t *ret, struct orch_err *err)
{
    int64_t id = json_get_int(request, "channel", 0);
    if (id <= 0 || id > UINT32_MAX || id % 2 == 0) {
        return err_set(err, ORCH_E_PROTOCOL, "channel: not one of the host");
    }
    *ret = (uint32_t)id;
    return 0;
}

/* ---- put ---- */

const char *tree_path(struct node *n, const char *digest)
{
    return map_get(n->trees, digest);
}

static bool free_path(const char *key, void *value, void *arg)
{
    (void)key, (void)arg;
    free(value);
    return true;
}

void trees_free(struct node *n)
{
    while (n->transfers != NULL) {
        transfer_free(n->transfers);
    }
    if (n->trees != NULL) {
        map_each(n->trees, free_path, NULL);
        map_free(n->trees);
        n->trees = NULL;
    }
}

static void put_data(void *owner, const char *data, size_t len)
{
    struct transfer *t = owner;
    struct orch_err e = ERR_INIT;
    if (tree_unpacker_feed(t->unpacker, data, len, &e) < 0) {
        fail(t, &e);
        return;
    }
    channel_consumed(t->channel, len);
}

static int put_finish(struct transfer *t, struct orch_err *err)
{
    struct node *n = t->node;
    struct tree_counts counts;
    char digest[DIGEST_TEXT_MAX];
    TRY(tree_unpacker_finish(t->unpacker, &counts, digest, err));
    if (strcmp(digest, t->digest) != 0) {
        return err_set(err, ORCH_E_DAMAGED, "the tree is %s, not %s", digest, t->digest);
    }
    if (map_has(n->trees, digest)) {
        return 0; /* another put of the same tree was faster */
    }
    AUTO_FREE char *final = xasprintf("trees/%s", digest + 7);
    if (renameat(n->workfd, t->name, n->workfd, final) < 0) {
        return err_errno(err, ORCH_E_IO, "keep a tree");
    }
    map_set(n->trees, digest, xasprintf("%s/%s", n->work, final));
    return 0;
}

static void reply_put(struct node *n, int64_t id, bool present)
{
    json_t *ok = json_object();
    json_set_flag(ok, "present", present);
    node_reply(n, id, ok);
}

static void put_end(void *owner)
{
    struct transfer *t = owner;
    struct orch_err e = ERR_INIT;
    if (put_finish(t, &e) < 0) {
        fail(t, &e);
        return;
    }
    reply_put(t->node, t->id, false);
    channel_end(&t->channel);
    transfer_free(t);
}

static void no_credit(void *owner)
{
    (void)owner;
}

static const struct channel_ops put_ops = {put_data, put_end, on_reset, no_credit};

static int put_start(struct transfer *t, uint32_t channel, struct orch_err *err)
{
    struct node *n = t->node;
    struct tree_limits limits = {.links = true};
    AUTO_FREE char *name = xasprintf("trees/new-%llu", (unsigned long long)++n->serial);
    if (mkdirat(n->workfd, name, 0755) < 0) {
        return err_errno(err, ORCH_E_IO, "make a tree");
    }
    t->name = take(name);
    AUTO_FD int dir = fd_open_beneath(n->workfd, t->name, O_RDONLY | O_DIRECTORY, 0, err);
    if (dir < 0) {
        return dir;
    }
    TRY(tree_unpacker_new(dir, &limits, &t->unpacker, err));
    return channel_open(n, channel, &put_ops, t, &t->channel, err);
}

void tree_put_request(struct node *n, int64_t id, const json_t *request)
{
    struct orch_err e = ERR_INIT;
    const char *digest = json_get_str(request, "digest", "");
    uint32_t channel = 0;
    if (read_channel(request, &channel, &e) < 0) {
        node_reply_error(n, id, &e);
        return;
    }
    if (!digest_is_valid(digest)) {
        (void)err_set(&e, ORCH_E_CONFIG, "digest: not one");
        node_reply_error(n, id, &e);
        frame_put(&n->queue, FRAME_RESET, channel, NULL, 0);
        return;
    }
    if (map_has(n->trees, digest)) {
        reply_put(n, id, true);
        frame_put(&n->queue, FRAME_RESET, channel, NULL, 0);
        return;
    }
    struct transfer *t = transfer_new(n, id);
    memcpy(t->digest, digest, DIGEST_TEXT_LEN + 1);
    if (put_start(t, channel, &e) < 0) {
        fail(t, &e);
        frame_put(&n->queue, FRAME_RESET, channel, NULL, 0);
    }
}

/* ---- get ---- */

static void get_data(void *owner, const char *data, size_t len)
{
    struct transfer *t = owner;
    (void)data;
    channel_consumed(t->channel, len); /* the host has nothing to say here */
}

static void get_finish(struct transfer *t)
{
    struct tree_counts counts;
    char digest[DIGEST_TEXT_MAX];
    tree_packer_result(t->packer, &counts, digest);
    json_t *ok = json_object();
    json_set_str(ok, "digest", digest);
    json_set_int(ok, "bytes", (int64_t)counts.bytes);
    json_set_int(ok, "entries", (int64_t)counts.entries);
    json_set_int(ok, "skipped", (int64_t)counts.skipped);
    channel_end(&t->channel);
    node_reply(t->node, t->id, ok);
    transfer_free(t);
}

static void get_more(void *owner)
{
    struct transfer *t = owner;
    AUTO_FREE char *chunk = xmalloc(GET_CHUNK);
    while (t->channel->may_send > 0 && node_backlog(t->node) < NODE_OUT_PAUSE) {
        struct orch_err e = ERR_INIT;
        size_t want = t->channel->may_send < GET_CHUNK ? (size_t)t->channel->may_send : GET_CHUNK;
        size_t n = 0;
        if (tree_packer_read(t->packer, chunk, want, &n, &e) < 0) {
            fail(t, &e);
            return;
        }
        if (n == 0) {
            get_finish(t);
            return;
        }
        channel_send(t->channel, chunk, n);
    }
}

static const struct channel_ops get_ops = {get_data, no_credit, on_reset, get_more};

static int get_start(struct transfer *t, struct node_sandbox *sb, const json_t *request, uint32_t channel,
                     struct orch_err *err)
{
    struct tree_limits limits = {.links = true};
    AUTO_FD int dir = files_open_work(sb, json_get_str(request, "path", ""), err);
    if (dir < 0) {
        return dir;
    }
    TRY(tree_packer_new(dir, &limits, &t->packer, err));
    return channel_open(t->node, channel, &get_ops, t, &t->channel, err);
}

static int get_check(struct node *n, const json_t *request, struct node_sandbox **ret, struct orch_err *err)
{
    struct node_sandbox *sb = sandbox_find(n, json_get_str(request, "sandbox", ""));
    if (sb == NULL) {
        return err_set(err, ORCH_E_NOT_FOUND, "no such sandbox");
    }
    if (sb->running != NULL || sb->state == BOX_OPENING || sb->state == BOX_CLOSING) {
        return err_set(err, ORCH_E_CONFIG, "sandbox %s is at work: nothing can be read yet", sb->name);
    }
    *ret = sb;
    return 0;
}

/* With shared paths the host reads itself. */
static int get_path(struct node_sandbox *sb, const json_t *request, json_t **ret, struct orch_err *err)
{
    if (!sb->node->shares_paths || strcmp(json_get_str(request, "as", ""), "path") != 0) {
        return err_set(err, ORCH_E_CONFIG, "as: paths are not shared");
    }
    const char *relative = json_get_str(request, "path", "");
    AUTO_FD int dir = files_open_work(sb, relative, err);
    if (dir < 0) {
        return dir;
    }
    AUTO_FREE char *path = path_join(sb->dir, relative);
    *ret = json_object();
    json_set_str(*ret, "path", path);
    return 0;
}

void tree_get_request(struct node *n, int64_t id, const json_t *request)
{
    struct orch_err e = ERR_INIT;
    struct node_sandbox *sb = NULL;
    uint32_t channel = 0;
    bool by_path = json_get(request, "as") != NULL;
    json_t *ok = NULL;
    int code = get_check(n, request, &sb, &e);
    if (code == 0) {
        code = by_path ? get_path(sb, request, &ok, &e) : read_channel(request, &channel, &e);
    }
    if (code < 0 || by_path) {
        if (code < 0) {
            node_reply_error(n, id, &e);
        } else {
            node_reply(n, id, ok);
        }
        return;
    }
    struct transfer *t = transfer_new(n, id);
    if (get_start(t, sb, request, channel, &e) < 0) {
        fail(t, &e);
        frame_put(&n->queue, FRAME_RESET, channel, NULL, 0);
        return;
    }
    get_more(t);
}
