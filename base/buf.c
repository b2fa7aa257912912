/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

void buf_init(struct buf *b, size_t max)
{
    *b = (struct buf){.data = xmalloc(64), .cap = 64, .max = max};
    b->data[0] = '\0';
}

void buf_done(struct buf *b)
{
    free(b->data);
    *b = (struct buf){0};
}

void buf_reset(struct buf *b)
{
    b->len = 0;
    b->overflow = false;
    if (b->data != NULL) {
        b->data[0] = '\0';
    }
}

static size_t reserve(struct buf *b, size_t want)
{
    size_t room = b->max - b->len;
    if (want > room) {
        b->overflow = true;
        want = room;
    }
    if (b->len + want + 1 > b->cap) {
        size_t cap = b->cap > 0 ? b->cap : 64;
        while (cap < b->len + want + 1) {
            cap *= 2;
        }
        b->data = xrealloc(b->data, cap);
        b->cap = cap;
    }
    return want;
}

void buf_add(struct buf *b, const void *data, size_t len)
{
    if (len == 0) {
        return;
    }
    size_t n = reserve(b, len);
    memcpy(b->data + b->len, data, n);
    b->len += n;
    b->data[b->len] = '\0';
}

void buf_str(struct buf *b, const char *s)
{
    buf_add(b, s, strlen(s));
}

void buf_char(struct buf *b, char c)
{
    buf_add(b, &c, 1);
}

void buf_fmt(struct buf *b, const char *fmt, ...)
{
    char stack[512];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(stack, sizeof stack, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof stack) {
        buf_add(b, stack, (size_t)n);
        return;
    }
    if (n < 0) {
        b->overflow = true;
        return;
    }
    AUTO_FREE char *big = xmalloc((size_t)n + 1);
    va_start(ap, fmt);
    n = vsnprintf(big, (size_t)n + 1, fmt, ap);
    va_end(ap);
    buf_add(b, big, n < 0 ? 0 : (size_t)n);
}

static bool shows_nothing_or_moves(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || c == 0xad || c == 0x61c || c == 0x180e ||
           (c >= 0xfff9 && c <= 0xfffb) || (c >= 0xe0000 && c <= 0xe0fff);
}

void buf_escaped(struct buf *b, const char *data, size_t len, bool lines)
{
    size_t i = 0;
    while (i < len) {
        uint32_t c = 0;
        size_t n = utf8_decode(data + i, len - i, &c);
        if (n == 0) {
            buf_fmt(b, "\\x%02x", (unsigned char)data[i]);
            i++;
            continue;
        }
        if (lines && (c == '\n' || c == '\t')) {
            buf_char(b, (char)c);
        } else if (shows_nothing_or_moves(c)) {
            buf_fmt(b, c < 0x80 ? "\\x%02x" : "\\u{%x}", c);
        } else {
            buf_add(b, data + i, n);
        }
        i += n;
    }
}

char *buf_take(struct buf *b, size_t *ret_len)
{
    char *out = b->data != NULL ? b->data : xstrdup("");
    if (ret_len != NULL) {
        *ret_len = b->len;
    }
    *b = (struct buf){.max = b->max}; /* nothing to free: a caller that is done with it need not say so */
    return out;
}
