/* SPDX-License-Identifier: Apache-2.0 */
#include "state/redact.h"

#include "base/json.h"
#include "base/mem.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define REDACT_BUCKETS 65536 /* by the first two bytes */

struct pattern {
    char *bytes;
    size_t len;
    char *replacement; /* <VARIABLE> */
    char *variable;
    int next; /* of the same bucket, longest first; -1 ends */
};

struct redactor {
    struct pattern *patterns;
    int count;
    size_t longest;
    int *buckets; /* REDACT_BUCKETS, -1: none */
};

static int bucket_of(const unsigned char *p)
{
    return p[0] << 8 | p[1];
}

static void add_pattern(struct redactor *r, const char *variable, const char *bytes, size_t len)
{
    if (len < 4) {
        return;
    }
    int bucket = bucket_of((const unsigned char *)bytes);
    int *link = &r->buckets[bucket];
    for (; *link >= 0; link = &r->patterns[*link].next) {
        const struct pattern *p = &r->patterns[*link];
        if (p->len == len && memcmp(p->bytes, bytes, len) == 0) {
            return;
        }
        if (p->len < len) {
            break;
        }
    }
    struct pattern added = {.bytes = xmemdup0(bytes, len),
                            .len = len,
                            .replacement = xasprintf("<%s>", variable),
                            .variable = xstrdup(variable),
                            .next = *link};
    *link = r->count; /* before the array may move */
    r->patterns = xrealloc(r->patterns, (size_t)(r->count + 1) * sizeof *r->patterns);
    r->patterns[r->count++] = added;
    r->longest = len > r->longest ? len : r->longest;
}

static void add_json_forms(struct redactor *r, const char *variable, const char *value, size_t len)
{
    static const size_t flags[] = {0, JSON_ESCAPE_SLASH, JSON_ENSURE_ASCII, JSON_ESCAPE_SLASH | JSON_ENSURE_ASCII};
    json_t *text = json_text(value, len);
    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        AUTO_FREE char *form = json_dumps(text, JSON_ENCODE_ANY | flags[i]);
        if (form && strlen(form) > 2) {
            add_pattern(r, variable, form + 1, strlen(form) - 2); /* without the quotes */
        }
    }
    json_decref(text);
}

static void add_url_form(struct redactor *r, const char *variable, const char *value, size_t len, const char *hex,
                         const char *unreserved)
{
    struct buf out;
    buf_init(&out, BUF_MAX_LINE);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)value[i];
        if (isalnum(c) || (c && strchr(unreserved, c))) {
            buf_char(&out, (char)c);
        } else {
            buf_char(&out, '%');
            buf_char(&out, hex[c >> 4]);
            buf_char(&out, hex[c & 15]);
        }
    }
    add_pattern(r, variable, out.data, out.len);
    buf_done(&out);
}

/* The characters of base64 that depend on the value alone when `before` unknown bytes come before it: the value is
 * found inside any larger encoded text ("user:key"). */
static void add_base64_form(struct redactor *r, const char *variable, const char *value, size_t len, size_t before,
                            const char *alphabet)
{
    static const size_t skip[] = {0, 2, 3};
    struct buf out;
    uint32_t bits = 0;
    int have = (int)before * 8;

    buf_init(&out, BUF_MAX_LINE);
    for (size_t i = 0; i < before * 8 / 6; i++, have -= 6) {
        buf_char(&out, 'A');
    }
    for (size_t i = 0; i < len; i++) {
        bits = bits << 8 | (unsigned char)value[i];
        for (have += 8; have >= 6; have -= 6) {
            buf_char(&out, alphabet[bits >> (have - 6) & 63]);
        }
    }
    if (out.len > skip[before]) {
        add_pattern(r, variable, out.data + skip[before], out.len - skip[before]);
    }
    buf_done(&out);
}

bool redact_add(struct redactor *r, const char *variable, const char *value)
{
    static const char upper[] = "0123456789ABCDEF";
    static const char lower[] = "0123456789abcdef";
    static const char standard[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    static const char url_safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    size_t len = strnlen(value, REDACT_VALUE_MAX);

    if (len < (strcasestr(variable, "PASS") ? REDACT_PASSWORD_MIN : REDACT_VALUE_MIN)) {
        return false;
    }
    add_pattern(r, variable, value, len);
    add_json_forms(r, variable, value, len);
    add_url_form(r, variable, value, len, upper, "-._~");
    add_url_form(r, variable, value, len, lower, "-._~");
    add_url_form(r, variable, value, len, upper, "-._~/");
    for (size_t before = 0; before < 3; before++) {
        add_base64_form(r, variable, value, len, before, standard);
        add_base64_form(r, variable, value, len, before, url_safe);
    }
    return true;
}

bool redact_is_secret_name(const char *variable)
{
    static const char *const endings[] = {"KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "CREDENTIALS"};
    static const char *const anywhere[] = {"API_KEY", "PASSWORD", "SECRET"};
    size_t len = strlen(variable);

    for (size_t i = 0; i < ARRAY_LEN(endings); i++) {
        size_t n = strlen(endings[i]);
        if (len >= n && strcasecmp(variable + len - n, endings[i]) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(anywhere); i++) {
        if (strcasestr(variable, anywhere[i])) {
            return true;
        }
    }
    return false;
}

struct redactor *redact_new(char *const *env)
{
    struct redactor *r = xcalloc(1, sizeof *r);
    r->buckets = xmalloc(REDACT_BUCKETS * sizeof *r->buckets);
    memset(r->buckets, 0xff, REDACT_BUCKETS * sizeof *r->buckets);
    for (size_t i = 0; env && env[i]; i++) {
        const char *equals = strchr(env[i], '=');
        if (equals) {
            AUTO_FREE char *name = xmemdup0(env[i], (size_t)(equals - env[i]));
            if (redact_is_secret_name(name)) {
                (void)redact_add(r, name, equals + 1);
            }
        }
    }
    return r;
}

void redact_free(struct redactor *r)
{
    for (int i = 0; r && i < r->count; i++) {
        explicit_bzero(r->patterns[i].bytes, r->patterns[i].len);
        free(r->patterns[i].bytes);
        free(r->patterns[i].replacement);
        free(r->patterns[i].variable);
    }
    if (r) {
        free(r->patterns);
        free(r->buckets);
        free(r);
    }
}

void redact_release(struct redactor **r)
{
    redact_free(*r);
    *r = NULL;
}

size_t redact_reach(const struct redactor *r)
{
    return r && r->longest ? r->longest : 1;
}

/* The longest pattern at p, or NULL. */
static const struct pattern *match_at(const struct redactor *r, const char *p, size_t left)
{
    if (left < 2) {
        return NULL;
    }
    for (int i = r->buckets[bucket_of((const unsigned char *)p)]; i >= 0; i = r->patterns[i].next) {
        const struct pattern *pattern = &r->patterns[i];
        if (pattern->len <= left && memcmp(pattern->bytes, p, pattern->len) == 0) {
            return pattern;
        }
    }
    return NULL;
}

const char *redact_contains(const struct redactor *r, const void *data, size_t len)
{
    const char *p = data;
    for (size_t i = 0; r && r->count && i < len; i++) {
        const struct pattern *pattern = match_at(r, p + i, len - i);
        if (pattern) {
            return pattern->variable;
        }
    }
    return NULL;
}

/* Decides the bytes at which a pattern of any length could still begin and end: all with `whole`, else those that have
 * `longest` bytes from them on. Returns how many bytes were used. */
static size_t redact_some(const struct redactor *r, const char *p, size_t len, bool whole, struct buf *out,
                          bool *replaced)
{
    size_t plain = 0;
    size_t i = 0;

    while (i < len && (whole || len - i >= r->longest)) {
        const struct pattern *pattern = match_at(r, p + i, len - i);
        if (!pattern) {
            i++;
            continue;
        }
        buf_add(out, p + plain, i - plain);
        buf_str(out, pattern->replacement);
        i += pattern->len;
        plain = i;
        *replaced = true;
    }
    buf_add(out, p + plain, i - plain);
    return i;
}

bool redact_bytes(const struct redactor *r, const void *data, size_t len, struct buf *out)
{
    bool replaced = false;
    if (!r || !r->count) {
        buf_add(out, data, len);
    } else {
        (void)redact_some(r, data, len, true, out, &replaced);
    }
    return replaced;
}

char *redact_text(const struct redactor *r, const char *text)
{
    struct buf out;
    buf_init(&out, BUF_MAX_TEXT);
    (void)redact_bytes(r, text, strlen(text), &out);
    return buf_take(&out, NULL);
}

void redact_stream_init(struct redact_stream *s, const struct redactor *r)
{
    *s = (struct redact_stream){.redactor = r && r->count ? r : NULL};
    buf_init(&s->held, BUF_MAX_TEXT * 64);
}

void redact_stream_done(struct redact_stream *s)
{
    buf_done(&s->held);
}

void redact_stream_add(struct redact_stream *s, const void *data, size_t len, struct buf *out)
{
    if (!s->redactor) {
        buf_add(out, data, len);
        return;
    }
    buf_add(&s->held, data, len);
    size_t used = redact_some(s->redactor, s->held.data, s->held.len, false, out, &s->replaced);
    memmove(s->held.data, s->held.data + used, s->held.len - used);
    s->held.len -= used;
    s->held.data[s->held.len] = '\0';
}

void redact_stream_end(struct redact_stream *s, struct buf *out)
{
    if (s->redactor) {
        (void)redact_some(s->redactor, s->held.data, s->held.len, true, out, &s->replaced);
        buf_reset(&s->held);
    }
}
