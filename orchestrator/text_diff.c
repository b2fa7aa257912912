/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/text_diff.h"

#include "base/buf.h"
#include "base/mem.h"

#include <stdint.h>
#include <string.h>

#define CONTEXT 2
#define CELLS_MAX ((size_t)4 << 20) /* of the table; larger texts are shown as one replaced middle */

struct line {
    const char *text;
    size_t len;
};

struct side {
    struct line *lines; /* owned */
    size_t count;
};

/* One line of the result: ' ', '-' or '+', and its place in both texts. */
struct op {
    char mark;
    struct line line;
    size_t old_at, new_at;
};

struct script {
    struct op *ops; /* owned */
    size_t count;
};

static struct side split(const char *text)
{
    struct side s = {.lines = xcalloc(strlen(text) + 1, sizeof *s.lines)};
    while (*text != '\0') {
        size_t len = strcspn(text, "\n");
        s.lines[s.count++] = (struct line){text, len};
        text += len + (text[len] == '\n');
    }
    return s;
}

static bool same(const struct line *a, const struct line *b)
{
    return a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
}

static void add(struct script *s, char mark, const struct line *line, size_t old_at, size_t new_at)
{
    s->ops[s->count++] = (struct op){mark, *line, old_at, new_at};
}

/* Longest common subsequence of the middles that differ: table[i][j] is its length from i and j on. */
static void compare(struct script *s, const struct side *a, const struct side *b, size_t head, size_t tail)
{
    size_t n = a->count - head - tail;
    size_t m = b->count - head - tail;
    bool fits = (n + 1) * (m + 1) <= CELLS_MAX;
    AUTO_FREE uint32_t *table = xcalloc(fits ? (n + 1) * (m + 1) : 1, sizeof *table);
    for (size_t i = n; fits && i-- > 0;) {
        for (size_t j = m; j-- > 0;) {
            uint32_t down = table[(i + 1) * (m + 1) + j];
            uint32_t right = table[i * (m + 1) + j + 1];
            table[i * (m + 1) + j] = same(&a->lines[head + i], &b->lines[head + j])
                                         ? table[(i + 1) * (m + 1) + j + 1] + 1
                                         : (down > right ? down : right);
        }
    }
    size_t i = 0;
    size_t j = 0;
    while (i < n || j < m) {
        const struct line *x = &a->lines[head + i];
        const struct line *y = &b->lines[head + j];
        if (fits && i < n && j < m && same(x, y)) {
            add(s, ' ', x, head + i++, head + j++);
        } else if (i < n && (j == m || !fits || table[(i + 1) * (m + 1) + j] >= table[i * (m + 1) + j + 1])) {
            add(s, '-', x, head + i++, head + j);
        } else {
            add(s, '+', y, head + i, head + j++);
        }
    }
}

static struct script make_script(const struct side *a, const struct side *b)
{
    struct script s = {.ops = xcalloc(a->count + b->count + 1, sizeof *s.ops)};
    size_t least = a->count < b->count ? a->count : b->count;
    size_t head = 0;
    size_t tail = 0;
    while (head < least && same(&a->lines[head], &b->lines[head])) {
        head++;
    }
    while (tail < least - head && same(&a->lines[a->count - 1 - tail], &b->lines[b->count - 1 - tail])) {
        tail++;
    }
    for (size_t i = 0; i < head; i++) {
        add(&s, ' ', &a->lines[i], i, i);
    }
    compare(&s, a, b, head, tail);
    for (size_t i = 0; i < tail; i++) {
        size_t old_at = a->count - tail + i;
        add(&s, ' ', &a->lines[old_at], old_at, b->count - tail + i);
    }
    return s;
}

/* From `at`, the first op behind the hunk: where more than twice the context is unchanged. */
static size_t hunk_end(const struct script *s, size_t at)
{
    size_t last = at;
    for (size_t i = at; i < s->count && i <= last + (size_t)2 * CONTEXT; i++) {
        last = s->ops[i].mark != ' ' ? i : last;
    }
    size_t end = last + 1 + CONTEXT;
    return end < s->count ? end : s->count;
}

static void add_hunk(struct buf *out, const struct script *s, size_t begin, size_t end)
{
    size_t olds = 0;
    size_t news = 0;
    for (size_t i = begin; i < end; i++) {
        olds += s->ops[i].mark != '+';
        news += s->ops[i].mark != '-';
    }
    buf_fmt(out, "@@ -%zu,%zu +%zu,%zu @@\n", s->ops[begin].old_at + (olds > 0), olds,
            s->ops[begin].new_at + (news > 0), news);
    for (size_t i = begin; i < end; i++) {
        buf_char(out, s->ops[i].mark);
        buf_add(out, s->ops[i].line.text, s->ops[i].line.len);
        buf_char(out, '\n');
    }
}

char *text_diff(const char *name, const char *old_text, const char *new_text)
{
    AUTO_BUF struct buf out;
    buf_init(&out, BUF_MAX_TEXT);
    if (strcmp(old_text, new_text) == 0) {
        return buf_take(&out, NULL);
    }
    struct side a = split(old_text);
    struct side b = split(new_text);
    struct script s = make_script(&a, &b);
    buf_fmt(&out, "--- %s\n+++ %s\n", name, name);
    for (size_t i = 0; i < s.count;) {
        if (s.ops[i].mark == ' ') {
            i++;
            continue;
        }
        size_t end = hunk_end(&s, i);
        add_hunk(&out, &s, i > CONTEXT ? i - CONTEXT : 0, end);
        i = end;
    }
    free(s.ops);
    free(a.lines);
    free(b.lines);
    return buf_take(&out, NULL);
}
