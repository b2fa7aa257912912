/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Randomness. `struct rng` is the seeded source behind everything a run decides
 * (shuffles, samples): the same seed gives the same run on every machine.
 * Generator: SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom
 * number generators", OOPSLA 2014); its whole state is one number that the
 * record can keep. Names and tokens use the kernel's getrandom(2) instead.
 */
#ifndef ORCH_BASE_RNG_H
#define ORCH_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

struct rng {
    uint64_t state;
};

/* A source for one purpose: the same seed with another label gives an independent stream. */
struct rng rng_seeded(uint64_t seed, const char *label);
uint64_t rng_next(struct rng *r);
/* Uniform in [0, bound), bound > 0, without bias. */
uint64_t rng_below(struct rng *r, uint64_t bound);
/* Fisher–Yates over n indexes. */
void rng_shuffle(struct rng *r, size_t *items, size_t n);

/* Fills `data` from the kernel; aborts if there is none. */
void random_bytes(void *data, size_t len);
/* n characters of [a-z2-7] and a NUL into out[n + 1]. */
void random_name(char *out, size_t n);

#endif
