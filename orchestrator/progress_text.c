/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/progress_text.h"

#include "base/clock.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <string.h>
#include <utf8proc.h>

#define BAR_MAX 30
#define BAR_MIN 5

void progress_count(struct progress_counts *c, const char *result, bool has_score, double score)
{
    const struct {
        const char *word;
        int64_t *count;
    } kinds[] = {
        {"scored", &c->scored},
        {"agent-limit", &c->limited},
        {"infrastructure-error", &c->infrastructure},
        {"judge-error", &c->judge},
    };
    c->settled++;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(result, kinds[i].word) == 0) {
            (*kinds[i].count)++;
        }
    }
    if (has_score) {
        c->scores++;
        c->sum += score;
    }
}

size_t text_fit(const char *text, size_t len, size_t columns)
{
    size_t at = 0;
    size_t used = 0;
    while (at < len) {
        uint32_t c = 0;
        size_t n = utf8_decode(text + at, len - at, &c);
        size_t w = 1;
        if (n == 0) {
            n = 1;
        } else {
            int wide = utf8proc_charwidth((utf8proc_int32_t)c);
            w = wide > 0 ? (size_t)wide : 0;
        }
        if (used + w > columns) {
            break;
        }
        used += w;
        at += n;
    }
    return at;
}

size_t text_width(const char *text, size_t len)
{
    size_t used = 0;
    for (size_t at = 0; at < len;) {
        uint32_t c = 0;
        size_t n = utf8_decode(text + at, len - at, &c);
        int wide = n == 0 ? 1 : utf8proc_charwidth((utf8proc_int32_t)c);
        used += wide > 0 ? (size_t)wide : 0;
        at += n == 0 ? 1 : n;
    }
    return used;
}

static void add_counts(const struct progress_counts *c, bool all, struct buf *out)
{
    const struct {
        int64_t n;
        const char *word;
    } parts[] = {
        {c->scored, "scored"},
        {c->limited, "limited"},
        {c->infrastructure, "infrastructure"},
        {c->judge, "judge errors"},
    };
    bool first = true;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (all || parts[i].n > 0) {
            buf_fmt(out, "%s%" PRId64 " %s", first ? "" : ", ", parts[i].n, parts[i].word);
            first = false;
        }
    }
}

/* Trials a second, of those settled since the batch began. */
static double rate(const struct progress_counts *c)
{
    return c->elapsed_ns > 0 ? (double)c->settled * (double)NS_PER_S / (double)c->elapsed_ns : 0;
}

static int64_t done(const struct progress_counts *c)
{
    return c->before + c->settled;
}

static void add_left(const struct progress_counts *c, struct buf *out)
{
    double r = rate(c);
    int64_t left = c->total - done(c);
    if (c->settled == 0 || r <= 0 || left <= 0) {
        return;
    }
    double ns = (double)left / r * (double)NS_PER_S;
    char text[CLOCK_TEXT_MAX];
    if (ns < 1e17) {
        buf_fmt(out, "  left %s", clock_duration((int64_t)ns, text));
    }
}

static void add_rate(const struct progress_counts *c, struct buf *out)
{
    double r = rate(c);
    if (c->settled == 0) {
        return;
    }
    if (r >= 0.1) {
        buf_fmt(out, "  %.1f/s", r);
    } else {
        buf_fmt(out, "  %.1f/min", r * 60);
    }
}

static void add_bar(const struct progress_counts *c, size_t cells, struct buf *out)
{
    int64_t at = done(c) < c->total ? done(c) : c->total;
    size_t full = c->total > 0 && at > 0 ? (size_t)((double)cells * (double)at / (double)c->total) : 0;
    buf_char(out, '[');
    for (size_t i = 0; i < cells; i++) {
        buf_char(out, i < full ? '#' : '.');
    }
    buf_char(out, ']');
}

static void add_score(const struct progress_counts *c, struct buf *out)
{
    if (c->scores > 0) {
        buf_fmt(out, "  mean %.4f", c->sum / (double)c->scores);
    }
}

static void add_kinds(const struct progress_counts *c, struct buf *out)
{
    if (c->settled > 0) {
        buf_str(out, "  ");
        add_counts(c, false, out);
    }
}

/* What follows the count, in the order in which it is wanted; what does not fit is left out. */
static void add_tail(const struct progress_counts *c, size_t left, struct buf *out)
{
    static void (*const parts[])(const struct progress_counts *, struct buf *) = {
        add_kinds,
        add_rate,
        add_left,
        add_score,
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        AUTO_BUF struct buf part;
        buf_init(&part, BUF_MAX_LINE);
        parts[i](c, &part);
        size_t w = text_width(part.data, part.len);
        if (w <= left) {
            left -= w;
            buf_add(out, part.data, part.len);
        }
    }
}

void progress_live(const struct progress_counts *c, size_t width, struct buf *out)
{
    AUTO_BUF struct buf count;
    buf_init(&count, BUF_MAX_LINE);
    buf_fmt(&count, " %" PRId64 "/%" PRId64, done(c), c->total);
    size_t title = strlen(c->title);
    size_t title_width = text_width(c->title, title);
    size_t fixed = title_width + count.len;
    size_t spare = width > fixed ? width - fixed : 0;
    /* A fifth of the line at most for the bar; without room for a short one there is none. */
    size_t cells = width / 5 < BAR_MAX ? width / 5 : BAR_MAX;
    if (cells + 3 > spare) {
        cells = spare >= BAR_MIN + 3 ? spare - 3 : 0;
    }
    size_t room = width > count.len ? width - count.len : 0;
    buf_add(out, c->title, text_fit(c->title, title, room));
    if (cells > 0) {
        buf_char(out, ' ');
        add_bar(c, cells, out);
        spare -= cells + 3;
    }
    size_t fit = count.len < width ? count.len : width;
    buf_add(out, count.data, fit);
    add_tail(c, spare, out);
}

void progress_plain(const struct progress_counts *c, struct buf *out)
{
    buf_fmt(out, "%s: %" PRId64 "/%" PRId64 " trials", c->title, done(c), c->total);
    add_tail(c, SIZE_MAX, out);
}

void progress_final(const struct progress_counts *c, struct buf *out)
{
    char text[CLOCK_TEXT_MAX];
    buf_fmt(out, "%s: %" PRId64 " trials: ", c->title, c->total);
    add_counts(c, true, out);
    if (c->before > 0) {
        buf_fmt(out, ", %" PRId64 " settled before", c->before);
    }
    int64_t left = c->total - done(c);
    buf_fmt(out, ", %" PRId64 " not run", left > 0 ? left : 0);
    if (c->scores > 0) {
        buf_fmt(out, "; mean %.4f over %" PRId64, c->sum / (double)c->scores, c->scores);
    } else {
        buf_str(out, "; no score");
    }
    buf_fmt(out, " (%s)", clock_duration(c->elapsed_ns, text));
}
