/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/progress.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "orchestrator/progress_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define REDRAW_NS (100 * NS_PER_MS)
#define PLAIN_NS (10 * NS_PER_S)
#define WIDTH_DEFAULT 80

enum progress_mode { PROGRESS_SILENT, PROGRESS_PLAIN, PROGRESS_LIVE };

struct progress {
    const struct verb_call *call;
    enum progress_mode mode;
    char title[PROGRESS_TITLE_MAX + 1];
    struct progress_counts counts;
    bool in_batch;
    bool in_activity;
    int64_t began_ns; /* of the batch or the activity */
    int64_t shown_ns;
    bool drawn; /* a live line is on the terminal */
};

struct progress *progress_new(const struct verb_call *call)
{
    struct progress *p = xcalloc(1, sizeof *p);
    p->call = call;
    p->mode = call->quiet || call->json ? PROGRESS_SILENT : call->terminal ? PROGRESS_LIVE : PROGRESS_PLAIN;
    p->counts.title = p->title;
    return p;
}

static int64_t now(const struct progress *p)
{
    return clock_mono_ns(&p->call->clock);
}

static size_t width(void)
{
    struct winsize size = {0};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : WIDTH_DEFAULT;
}

/* One write(2) a line: lines of several writers do not mix, and a line is never shown half. */
static void put(const struct buf *b)
{
    ssize_t ignored = write(STDERR_FILENO, b->data, b->len);
    (void)ignored; /* a terminal that went away stops nothing */
}

static void erase(struct progress *p, struct buf *out)
{
    if (p->drawn) {
        buf_str(out, "\r\x1b[K");
        p->drawn = false;
    }
}

static void put_line(struct progress *p, const struct buf *text)
{
    if (p->mode == PROGRESS_SILENT) {
        return;
    }
    (void)fflush(stdout);
    AUTO_BUF struct buf out;
    buf_init(&out, BUF_MAX_LINE);
    erase(p, &out);
    buf_add(&out, text->data, text->len);
    buf_char(&out, '\n');
    put(&out);
    p->shown_ns = now(p);
}

static void draw(struct progress *p, const struct buf *text)
{
    AUTO_BUF struct buf out;
    buf_init(&out, BUF_MAX_LINE);
    buf_char(&out, '\r');
    size_t columns = width();
    buf_add(&out, text->data, text_fit(text->data, text->len, columns > 1 ? columns - 1 : 1));
    buf_str(&out, "\x1b[K");
    put(&out);
    p->drawn = true;
    p->shown_ns = now(p);
}

static void set_title(struct progress *p, const char *title)
{
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_LINE);
    size_t len = strlen(title);
    buf_escaped(&b, title, utf8_cut(title, len, PROGRESS_TITLE_MAX), false);
    size_t n = utf8_cut(b.data, b.len, PROGRESS_TITLE_MAX);
    memcpy(p->title, b.data, n);
    p->title[n] = '\0';
}

static void redraw(struct progress *p)
{
    AUTO_BUF struct buf text;
    buf_init(&text, BUF_MAX_LINE);
    char took[CLOCK_TEXT_MAX];
    if (p->in_batch) {
        p->counts.elapsed_ns = now(p) - p->began_ns;
        if (p->mode == PROGRESS_LIVE) {
            progress_live(&p->counts, width() - 1, &text);
        } else {
            progress_plain(&p->counts, &text);
        }
    } else if (p->in_activity) {
        buf_fmt(&text, "%s  %s", p->title, clock_duration(now(p) - p->began_ns, took));
    } else {
        return;
    }
    if (p->mode == PROGRESS_LIVE) {
        draw(p, &text);
    } else {
        put_line(p, &text);
    }
}

void progress_begin(struct progress *p, const char *title, int64_t total, int64_t done)
{
    if (p == NULL) {
        return;
    }
    set_title(p, title);
    p->counts = (struct progress_counts){.title = p->title, .total = total, .before = done};
    p->in_batch = true;
    p->in_activity = false;
    p->began_ns = now(p);
    if (p->mode == PROGRESS_LIVE) {
        redraw(p);
    } else {
        p->shown_ns = p->began_ns; /* the first plain line comes after ten seconds, or at the end */
    }
}

void progress_trial(struct progress *p, const char *result, bool has_score, double score)
{
    if (p != NULL && p->in_batch) {
        progress_count(&p->counts, result, has_score, score);
    }
}

void progress_end(struct progress *p)
{
    if (p == NULL || !p->in_batch) {
        return;
    }
    p->in_batch = false;
    p->counts.elapsed_ns = now(p) - p->began_ns;
    AUTO_BUF struct buf text;
    buf_init(&text, BUF_MAX_LINE);
    progress_final(&p->counts, &text);
    put_line(p, &text);
}

void progress_activity(struct progress *p, const char *text)
{
    if (p == NULL) {
        return;
    }
    set_title(p, text);
    p->in_activity = true;
    p->in_batch = false;
    p->began_ns = now(p);
    if (p->mode == PROGRESS_LIVE) {
        redraw(p);
    } else if (p->mode == PROGRESS_PLAIN) {
        AUTO_BUF struct buf line;
        buf_init(&line, BUF_MAX_LINE);
        buf_str(&line, p->title);
        put_line(p, &line);
    }
}

void progress_line(struct progress *p, const char *fmt, ...)
{
    if (p == NULL || p->mode == PROGRESS_SILENT) {
        return;
    }
    char *raw = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&raw, fmt, ap);
    va_end(ap);
    if (n < 0) {
        return;
    }
    AUTO_FREE char *owned = raw;
    AUTO_BUF struct buf text;
    buf_init(&text, BUF_MAX_LINE);
    buf_escaped(&text, owned, (size_t)n, true);
    put_line(p, &text);
    if (p->mode == PROGRESS_LIVE) {
        redraw(p);
    }
}

void progress_tick(struct progress *p)
{
    if (p == NULL || p->mode == PROGRESS_SILENT || (!p->in_batch && !p->in_activity)) {
        return;
    }
    int64_t since = now(p) - p->shown_ns;
    if (since >= (p->mode == PROGRESS_LIVE ? REDRAW_NS : PLAIN_NS)) {
        redraw(p);
    }
}

void progress_free(struct progress *p)
{
    if (p == NULL) {
        return;
    }
    if (p->drawn) {
        AUTO_BUF struct buf out;
        buf_init(&out, BUF_MAX_LINE);
        erase(p, &out);
        put(&out);
    }
    free(p);
}
