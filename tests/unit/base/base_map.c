/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/map.h"
#include "base/mem.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

Test(map, set_get_replace_remove)
{
    AUTO_MAP struct map *m = map_new();
    int one = 1;
    int two = 2;
    char key[] = "key";
    cr_assert_null(map_set(m, key, &one));
    key[0] = 'x'; /* the map has its own copy */
    cr_assert_eq(map_get(m, "key"), &one);
    cr_assert_null(map_get(m, "xey"));
    cr_assert_eq(map_set(m, "key", &two), &one);
    cr_assert_eq(map_count(m), 1);
    cr_assert_eq(map_remove(m, "key"), &two);
    cr_assert_null(map_remove(m, "key"));
    cr_assert_eq(map_count(m), 0);
    cr_assert_null(map_set(m, "null", NULL));
    cr_assert(map_has(m, "null"), "a NULL value is a value");
    cr_assert_not(map_has(m, ""));
    cr_assert_null(map_set(m, "", &one));
    cr_assert_eq(map_get(m, ""), &one);
    TEST_END();
}

struct seen {
    char text[256];
    int left;
};

static bool collect(const char *key, void *value, void *arg)
{
    struct seen *s = arg;
    size_t used = strlen(s->text);
    (void)snprintf(s->text + used, sizeof s->text - used, "%s=%s ", key, (const char *)value);
    return --s->left > 0;
}

Test(map, goes_through_in_insertion_order)
{
    AUTO_MAP struct map *m = map_new();
    char a[] = "1";
    char b[] = "2";
    map_set(m, "zebra", a);
    map_set(m, "apple", b);
    map_set(m, "mango", a);
    map_set(m, "zebra", b); /* replacing keeps the place */
    map_remove(m, "apple");
    map_set(m, "apple", a);
    struct seen s = {.left = 10};
    map_each(m, collect, &s);
    cr_assert_str_eq(s.text, "zebra=2 mango=1 apple=1 ");
    struct seen first = {.left = 1};
    map_each(m, collect, &first);
    cr_assert_str_eq(first.text, "zebra=2 ", "false stops");
    TEST_END();
}

Test(map, many_keys_against_a_model)
{
    enum { KEYS = 20000 };
    AUTO_MAP struct map *m = map_new();
    AUTO_FREE int *values = xcalloc(KEYS, sizeof *values);
    char key[32];
    for (int i = 0; i < KEYS; i++) {
        (void)snprintf(key, sizeof key, "key-%d", i);
        cr_assert_null(map_set(m, key, &values[i]));
    }
    for (int i = 0; i < KEYS; i += 2) {
        (void)snprintf(key, sizeof key, "key-%d", i);
        cr_assert_eq(map_remove(m, key), &values[i]);
    }
    cr_assert_eq(map_count(m), KEYS / 2);
    for (int i = 0; i < KEYS; i++) {
        (void)snprintf(key, sizeof key, "key-%d", i);
        cr_assert_eq(map_get(m, key), i % 2 ? &values[i] : NULL, "%s", key);
    }
    map_free(NULL);
    TEST_END();
}
