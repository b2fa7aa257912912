/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A string-keyed map: uthash behind a keyed hash (SipHash-1-3 would do; here
 * SplitMix64 over a random per-process key, which is enough against collisions
 * chosen without seeing the key). Values are borrowed pointers: the map owns
 * only copies of its keys.
 */
#ifndef ORCH_BASE_MAP_H
#define ORCH_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>

struct map;

struct map *map_new(void);
void map_free(struct map *m);
void map_release(struct map **m);
#define AUTO_MAP __attribute__((cleanup(map_release)))
/* Sets or replaces; returns the earlier value or NULL. */
void *map_set(struct map *m, const char *key, void *value);
void *map_get(const struct map *m, const char *key);
bool map_has(const struct map *m, const char *key);
void *map_remove(struct map *m, const char *key);
size_t map_count(const struct map *m);
/* Insertion order. `each` may not change the map; returning false stops. */
void map_each(const struct map *m, bool (*each)(const char *key, void *value, void *arg), void *arg);

#endif
