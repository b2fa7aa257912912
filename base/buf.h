/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing byte buffer with a named maximum and a sticky error: append without
 * checking, ask once at the end. `data` is always NUL-terminated (the NUL is not
 * counted). Bytes stay bytes; only the *_escaped functions change them.
 */
#ifndef ORCH_BASE_BUF_H
#define ORCH_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

struct buf {
    char *data; /* owned; never NULL after buf_init, until buf_take */
    size_t len;
    size_t cap;
    size_t max;    /* largest allowed len */
    bool overflow; /* something was dropped because of max */
};

#define BUF_MAX_TEXT ((size_t)16 << 20) /* generated documents */
#define BUF_MAX_LINE ((size_t)1 << 20)  /* one message or line */

void buf_init(struct buf *b, size_t max);
void buf_done(struct buf *b); /* accepts a zeroed struct */
void buf_reset(struct buf *b);
#define AUTO_BUF __attribute__((cleanup(buf_done)))

void buf_add(struct buf *b, const void *data, size_t len);
void buf_str(struct buf *b, const char *s);
void buf_char(struct buf *b, char c);
void buf_fmt(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * Appends text for a terminal: valid UTF-8 passes; control characters (C0, C1,
 * DEL), bidirectional overrides and invalid bytes become \xNN or \u{NNNN}; '\n'
 * and '\t' pass when `lines` is true. Nothing that agents print can move a
 * cursor, set a title or hide text (bugs.md D10).
 */
void buf_escaped(struct buf *b, const char *data, size_t len, bool lines);

/* Hands the bytes over (owned by the caller, free()). The buffer owns nothing afterwards: `data` is NULL until
 * something is added again. */
char *buf_take(struct buf *b, size_t *ret_len);

#endif
