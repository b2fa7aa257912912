/* SPDX-License-Identifier: Apache-2.0 */
#include "state/fingerprint.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

#define FINGERPRINT_VALUE_MAX 160 /* bytes of one value shown */
#define FINGERPRINT_DEPTH_MAX 64

void fingerprint_of(const json_t *document, char out[FINGERPRINT_MAX])
{
    AUTO_FREE char *text = json_canonical(document);
    char digest[DIGEST_TEXT_MAX];

    digest_of(text, strlen(text), digest);
    snprintf(out, FINGERPRINT_MAX, "%d:%s", FINGERPRINT_VERSION, digest);
}

static char *show(const json_t *value)
{
    if (!value) {
        return xstrdup("(absent)");
    }
    char *text = json_canonical(value);
    size_t len = strlen(text);
    if (len > FINGERPRINT_VALUE_MAX) {
        size_t cut = utf8_cut(text, len, FINGERPRINT_VALUE_MAX);
        char *shorter = xasprintf("%.*s…", (int)cut, text);
        free(text);
        return shorter;
    }
    return text;
}

static void add_change(struct fingerprint_diff *d, const char *path, const json_t *before, const json_t *after)
{
    if (d->count == FINGERPRINT_DIFF_MAX) {
        d->more++;
        return;
    }
    d->items = xrealloc(d->items, (d->count + 1) * sizeof *d->items);
    d->items[d->count++] = (struct fingerprint_change){xstrdup(path), show(before), show(after)};
}

static void compare(struct fingerprint_diff *d, const char *path, const json_t *before, const json_t *after, int depth);

static void compare_member(struct fingerprint_diff *d, const char *path, const char *key, const json_t *before,
                           const json_t *after, int depth)
{
    AUTO_FREE char *below = *path ? xasprintf("%s.%s", path, key) : xstrdup(key);
    compare(d, below, before, after, depth);
}

static void compare_objects(struct fingerprint_diff *d, const char *path, const json_t *before, const json_t *after,
                            int depth)
{
    const char *key;
    json_t *value;

    /* jansson's iteration macros want a mutable object but do not change it */
    json_t *first = json_copy((json_t *)(uintptr_t)before);
    json_t *second = json_copy((json_t *)(uintptr_t)after);
    json_object_foreach(first, key, value)
    {
        compare_member(d, path, key, value, json_object_get(second, key), depth);
    }
    json_object_foreach(second, key, value)
    {
        if (!json_object_get(first, key)) {
            compare_member(d, path, key, NULL, value, depth);
        }
    }
    json_decref(first);
    json_decref(second);
}

static void compare(struct fingerprint_diff *d, const char *path, const json_t *before, const json_t *after, int depth)
{
    if (before && after && json_equal(before, after)) {
        return;
    }
    if (depth < FINGERPRINT_DEPTH_MAX && json_is_object(before) && json_is_object(after)) {
        compare_objects(d, path, before, after, depth + 1);
    } else if (depth < FINGERPRINT_DEPTH_MAX && json_is_array(before) && json_is_array(after)) {
        size_t n = json_array_size(before) > json_array_size(after) ? json_array_size(before) : json_array_size(after);
        for (size_t i = 0; i < n; i++) {
            AUTO_FREE char *below = xasprintf("%s[%zu]", path, i);
            compare(d, below, json_array_get(before, i), json_array_get(after, i), depth + 1);
        }
    } else {
        add_change(d, path, before, after);
    }
}

void fingerprint_compare(const json_t *before, const json_t *after, struct fingerprint_diff *ret)
{
    struct fingerprint_diff d = {0};
    compare(&d, "", before, after, 0);
    *ret = d;
}

void fingerprint_diff_done(struct fingerprint_diff *d)
{
    for (size_t i = 0; i < d->count; i++) {
        free(d->items[i].path);
        free(d->items[i].before);
        free(d->items[i].after);
    }
    free(d->items);
    *d = (struct fingerprint_diff){0};
}
