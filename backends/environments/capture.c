/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/environments/capture.h"

#include "base/mem.h"

#include <string.h>

#define DEFAULT_HALF ((size_t)64 << 10)

void capture_init(struct capture_state *c, size_t head_max, size_t tail_max)
{
    bool defaults = head_max == 0 && tail_max == 0;
    *c = (struct capture_state){
        .head_max = defaults ? DEFAULT_HALF : head_max,
        .ring_max = defaults ? DEFAULT_HALF : tail_max,
    };
}

void capture_done(struct capture_state *c)
{
    free_pointer(&c->head);
    free_pointer(&c->ring);
}

static size_t add_head(struct capture_state *c, const char *data, size_t len)
{
    size_t n = c->head_max - c->head_len < len ? c->head_max - c->head_len : len;
    if (n == 0) {
        return 0;
    }
    if (c->head_len + n > c->head_cap) {
        size_t cap = c->head_cap == 0 ? 4096 : c->head_cap * 2;
        cap = cap < c->head_len + n ? c->head_len + n : cap;
        c->head_cap = cap < c->head_max ? cap : c->head_max;
        c->head = xrealloc(c->head, c->head_cap + 1);
    }
    memcpy(c->head + c->head_len, data, n);
    c->head_len += n;
    return n;
}

void capture_add(struct capture_state *c, const char *data, size_t len)
{
    c->total += len;
    size_t n = add_head(c, data, len);
    data += n;
    len -= n;
    if (len == 0 || c->ring_max == 0) {
        return;
    }
    if (c->ring == NULL) {
        c->ring = xmalloc(c->ring_max + 1);
    }
    if (len > c->ring_max) {
        data += len - c->ring_max;
        len = c->ring_max;
    }
    size_t first = c->ring_max - c->ring_at < len ? c->ring_max - c->ring_at : len;
    memcpy(c->ring + c->ring_at, data, first);
    memcpy(c->ring, data + first, len - first);
    c->ring_at = (c->ring_at + len) % c->ring_max;
    c->ring_len = c->ring_len + len < c->ring_max ? c->ring_len + len : c->ring_max;
}

void capture_result(struct capture_state *c, struct capture *ret)
{
    *ret = (struct capture){.head_len = c->head_len, .tail_len = c->ring_len, .total = c->total};
    ret->dropped = c->total - c->head_len - c->ring_len;
    ret->head = c->head != NULL ? take(c->head) : xstrdup("");
    ret->head[ret->head_len] = '\0';
    ret->tail = xmalloc(c->ring_len + 1);
    /* The ring is full when it has wrapped: its oldest byte is then where the next would go. */
    size_t start = c->ring_len == c->ring_max ? c->ring_at : 0;
    size_t first = c->ring_len - start;
    if (c->ring_len > 0) {
        memcpy(ret->tail, c->ring + start, first);
        memcpy(ret->tail + first, c->ring, c->ring_len - first);
    }
    ret->tail[ret->tail_len] = '\0';
    capture_done(c);
    capture_init(c, c->head_max, c->ring_max);
}

void capture_release(struct capture *c)
{
    free_pointer(&c->head);
    free_pointer(&c->tail);
    *c = (struct capture){0};
}
