/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/node/node.h"

#include "base/mem.h"

static struct channel *find(struct node *n, uint32_t id)
{
    struct channel *c = n->channels;
    while (c != NULL && c->id != id) {
        c = c->next;
    }
    return c;
}

int channel_open(struct node *n, uint32_t id, const struct channel_ops *ops, void *owner, struct channel **ret,
                 struct orch_err *err)
{
    if (id == 0) {
        n->next_channel += 2;
        id = n->next_channel;
    } else if (id % 2 == 0 || find(n, id) != NULL) {
        return err_set(err, ORCH_E_PROTOCOL, "channel %u cannot be opened", id);
    }
    struct channel *c = xcalloc(1, sizeof *c);
    *c = (struct channel){.node = n,
                          .id = id,
                          .ops = ops,
                          .owner = owner,
                          .may_send = PROTOCOL_WINDOW,
                          .may_receive = PROTOCOL_WINDOW,
                          .next = n->channels};
    n->channels = c;
    *ret = c;
    return 0;
}

static void drop(struct channel *c)
{
    struct channel **at = &c->node->channels;
    while (*at != c) {
        at = &(*at)->next;
    }
    *at = c->next;
    free(c);
}

void channel_send(struct channel *c, const void *data, size_t len)
{
    const char *p = data;
    c->may_send -= len;
    while (len > 0) {
        size_t n = len < PROTOCOL_DATA_MAX ? len : PROTOCOL_DATA_MAX;
        frame_put(&c->node->queue, FRAME_DATA, c->id, p, n);
        p += n;
        len -= n;
    }
}

void channel_end(struct channel **c)
{
    struct channel *at = *c;
    if (!at->sent_end) {
        at->sent_end = true;
        frame_put(&at->node->queue, FRAME_END, at->id, NULL, 0);
    }
    if (at->got_end) {
        *c = NULL;
        drop(at);
    }
}

void channel_reset(struct channel **c)
{
    frame_put(&(*c)->node->queue, FRAME_RESET, (*c)->id, NULL, 0);
    drop(*c);
    *c = NULL;
}

void channel_consumed(struct channel *c, size_t len)
{
    c->consumed += len;
    if (c->consumed >= PROTOCOL_WINDOW / 4 && !c->got_end) {
        c->may_receive += c->consumed;
        frame_put_credit(&c->node->queue, c->id, (uint32_t)c->consumed);
        c->consumed = 0;
    }
}

static int take_data(struct channel *c, const struct frame *f, struct orch_err *err)
{
    if (c->got_end || f->len > c->may_receive) {
        return err_set(err, ORCH_E_PROTOCOL, "channel %u: bytes beyond what was granted", c->id);
    }
    c->may_receive -= f->len;
    c->ops->data(c->owner, f->data, f->len);
    return 0;
}

static int take_end(struct channel *c, struct orch_err *err)
{
    if (c->got_end) {
        return err_set(err, ORCH_E_PROTOCOL, "channel %u ended twice", c->id);
    }
    struct node *n = c->node;
    uint32_t id = c->id;
    c->got_end = true;
    c->ops->end(c->owner);
    c = find(n, id); /* the owner may have ended it meanwhile */
    if (c != NULL && c->sent_end) {
        c->ops->reset(c->owner);
        drop(c);
    }
    return 0;
}

int channel_frame(struct node *n, const struct frame *f, struct orch_err *err)
{
    struct channel *c = find(n, f->channel);
    if (c == NULL) {
        return 0;
    }
    if (f->type == FRAME_DATA) {
        return take_data(c, f, err);
    }
    if (f->type == FRAME_END) {
        return take_end(c, err);
    }
    if (f->type == FRAME_RESET) {
        c->ops->reset(c->owner);
        drop(c);
        return 0;
    }
    c->may_send += frame_credit(f);
    if (c->may_send > PROTOCOL_CREDIT_MAX) {
        return err_set(err, ORCH_E_PROTOCOL, "channel %u was granted too much", c->id);
    }
    c->ops->credit(c->owner);
    return 0;
}

void channels_resume(struct node *n)
{
    for (struct channel *c = n->channels; c != NULL;) {
        struct channel *next = c->next;
        c->ops->credit(c->owner);
        c = next;
    }
}

void channels_free(struct node *n)
{
    while (n->channels != NULL) {
        /* drop() takes it out of the list, which the analyzer loses */
        n->channels->ops->reset(n->channels->owner); /* NOLINT(clang-analyzer-unix.Malloc) */
        drop(n->channels);
    }
}

size_t channels_count(const struct node *n)
{
    size_t count = 0;
    for (const struct channel *c = n->channels; c != NULL; c = c->next) {
        count++;
    }
    return count;
}
