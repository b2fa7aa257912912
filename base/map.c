/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include "base/mem.h"
#include "base/rng.h"

#include <stdint.h>
#include <string.h>

/* The key is drawn per map, so that a table cannot be attacked by chosen names. */
struct map {
    struct map_entry *head;
    uint64_t seed;
};

static unsigned keyed_hash(uint64_t seed, const void *key, size_t len);
#define uthash_fatal(msg) abort()
#define HASH_KEYCMP(a, b, n) memcmp(a, b, n)
#include <uthash.h>

struct map_entry {
    void *value;
    UT_hash_handle hh;
    char key[];
};

static unsigned keyed_hash(uint64_t seed, const void *key, size_t len)
{
    const unsigned char *p = key;
    struct rng r = {.state = seed ^ len};
    for (size_t i = 0; i < len; i += 8) {
        uint64_t word = 0;
        memcpy(&word, p + i, len - i < 8 ? len - i : 8);
        r.state ^= word;
        r.state = rng_next(&r);
    }
    return (unsigned)(r.state ^ (r.state >> 32));
}

struct map *map_new(void)
{
    struct map *m = xcalloc(1, sizeof *m);
    random_bytes(&m->seed, sizeof m->seed);
    return m;
}

void map_free(struct map *m)
{
    if (m == NULL) {
        return;
    }
    struct map_entry *e = NULL;
    struct map_entry *next = NULL;
    HASH_ITER (hh, m->head, e, next) {
        HASH_DEL(m->head, e); /* NOLINT(clang-analyzer-unix.Malloc): `next` was read before the free */
        free(e);
    }
    free(m);
}

void map_release(struct map **m)
{
    map_free(*m);
    *m = NULL;
}

static struct map_entry *find(const struct map *m, const char *key)
{
    size_t len = strlen(key);
    struct map_entry *e = NULL;
    HASH_FIND_BYHASHVALUE(hh, m->head, key, len, keyed_hash(m->seed, key, len), e);
    return e;
}

void *map_set(struct map *m, const char *key, void *value)
{
    struct map_entry *e = find(m, key);
    if (e != NULL) {
        void *before = e->value;
        e->value = value;
        return before;
    }
    size_t len = strlen(key);
    e = xcalloc(1, sizeof *e + len + 1);
    memcpy(e->key, key, len + 1);
    e->value = value;
    HASH_ADD_KEYPTR_BYHASHVALUE(hh, m->head, e->key, len, keyed_hash(m->seed, key, len), e);
    return NULL;
}

void *map_get(const struct map *m, const char *key)
{
    const struct map_entry *e = find(m, key);
    return e != NULL ? e->value : NULL;
}

bool map_has(const struct map *m, const char *key)
{
    return find(m, key) != NULL;
}

void *map_remove(struct map *m, const char *key)
{
    struct map_entry *e = find(m, key);
    if (e == NULL) {
        return NULL;
    }
    void *value = e->value;
    HASH_DEL(m->head, e);
    free(e);
    return value;
}

size_t map_count(const struct map *m)
{
    return HASH_COUNT(m->head);
}

void map_each(const struct map *m, bool (*each)(const char *key, void *value, void *arg), void *arg)
{
    for (struct map_entry *e = m->head; e != NULL; e = e->hh.next) {
        if (!each(e->key, e->value, arg)) {
            return;
        }
    }
}
