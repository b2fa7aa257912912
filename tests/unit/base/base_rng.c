/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expected values come from an implementation of the published algorithm in
 * another language; the first rows are the generator's well-known outputs for
 * seeds 0 and 1234567. A change here changes every recorded run.
 */
#include "test.h"

#include "base/mem.h"
#include "base/rng.h"

#include <string.h>

Test(rng, published_values)
{
    struct rng zero = rng_seeded(0, "");
    cr_assert_eq(rng_next(&zero), UINT64_C(0xe220a8397b1dcdaf));
    cr_assert_eq(rng_next(&zero), UINT64_C(0x6e789e6aa1b965f4));
    cr_assert_eq(rng_next(&zero), UINT64_C(0x06c45d188009454f));
    static const uint64_t want[] = {UINT64_C(6457827717110365317), UINT64_C(3203168211198807973),
                                    UINT64_C(9817491932198370423), UINT64_C(4593380528125082431),
                                    UINT64_C(16408922859458223821)};
    struct rng r = rng_seeded(1234567, "");
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        cr_assert_eq(rng_next(&r), want[i], "value %zu", i);
    }
    TEST_END();
}

Test(rng, labels_give_their_own_streams)
{
    struct rng r = rng_seeded(7, "shuffle");
    cr_assert_eq(rng_next(&r), UINT64_C(0xc7830426125ab880));
    cr_assert_eq(rng_next(&r), UINT64_C(0x7b2581fc37ac7393));
    cr_assert_eq(rng_next(&r), UINT64_C(0xd24f7c6335278720));
    struct rng other = rng_seeded(7, "samples");
    cr_assert_neq(rng_next(&other), UINT64_C(0xc7830426125ab880));
    TEST_END();
}

Test(rng, below_is_fixed_and_bounded)
{
    static const uint64_t want[] = {4, 5, 4, 6, 7, 5, 1, 7, 9, 9, 5, 0};
    struct rng r = rng_seeded(42, "x");
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        cr_assert_eq(rng_below(&r, 10), want[i], "value %zu", i);
    }
    /* a bound just above half of the range refuses almost every second value */
    static const uint64_t wide[] = {UINT64_C(0x2da0ebf68a5f8338), UINT64_C(0x7c6d5f225613cd72),
                                    UINT64_C(0x2975e3b621ea2bda), UINT64_C(0x3a541026e09f516f)};
    struct rng w = rng_seeded(42, "x");
    for (size_t i = 0; i < ARRAY_LEN(wide); i++) {
        cr_assert_eq(rng_below(&w, (UINT64_C(1) << 63) + 1), wide[i], "value %zu", i);
    }
    for (int i = 0; i < 1000; i++) {
        cr_assert_eq(rng_below(&r, 1), 0);
        cr_assert_lt(rng_below(&r, 3), 3);
    }
    TEST_END();
}

Test(rng, below_is_even)
{
    enum { BOUND = 7, ROUNDS = 70000 };
    int counts[BOUND] = {0};
    struct rng r = rng_seeded(1, "even");
    for (int i = 0; i < ROUNDS; i++) {
        counts[rng_below(&r, BOUND)]++;
    }
    for (int i = 0; i < BOUND; i++) {
        cr_assert(counts[i] > 9500 && counts[i] < 10500, "%d came %d times", i, counts[i]);
    }
    TEST_END();
}

Test(rng, shuffle_is_fixed_and_a_permutation)
{
    static const size_t want[] = {8, 3, 6, 1, 7, 9, 5, 0, 4, 2};
    size_t items[10];
    for (size_t i = 0; i < 10; i++) {
        items[i] = i;
    }
    struct rng r = rng_seeded(7, "shuffle");
    rng_shuffle(&r, items, 10);
    cr_assert_eq(memcmp(items, want, sizeof want), 0);
    size_t one = 5;
    rng_shuffle(&r, &one, 1);
    rng_shuffle(&r, NULL, 0);
    cr_assert_eq(one, 5);
    TEST_END();
}

Test(rng, the_state_is_the_whole_position)
{
    struct rng r = rng_seeded(99, "resume");
    for (int i = 0; i < 10; i++) {
        (void)rng_next(&r);
    }
    struct rng again = {.state = r.state};
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(rng_next(&again), rng_next(&r));
    }
    TEST_END();
}

Test(rng, names)
{
    char a[13];
    char b[13];
    memset(a, '!', sizeof a);
    random_name(a, 12);
    random_name(b, 12);
    cr_assert_eq(strlen(a), 12);
    cr_assert_eq(strspn(a, "abcdefghijklmnopqrstuvwxyz234567"), 12);
    cr_assert_str_neq(a, b);
    char none[1] = {'!'};
    random_name(none, 0);
    cr_assert_eq(none[0], '\0');
    TEST_END();
}
