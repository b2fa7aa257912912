/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rng.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

uint64_t rng_next(struct rng *r)
{
    uint64_t z = (r->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

struct rng rng_seeded(uint64_t seed, const char *label)
{
    struct rng r = {.state = seed};
    for (const char *p = label; *p != '\0'; p++) {
        r.state ^= (unsigned char)*p;
        r.state = rng_next(&r);
    }
    return r;
}

uint64_t rng_below(struct rng *r, uint64_t bound)
{
    /* refuse the short last part of the range, so that every value is equally likely */
    uint64_t threshold = (UINT64_C(0) - bound) % bound;
    for (;;) {
        uint64_t x = rng_next(r);
        if (x >= threshold) {
            return x % bound;
        }
    }
}

void rng_shuffle(struct rng *r, size_t *items, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        size_t j = (size_t)rng_below(r, i);
        size_t kept = items[i - 1];
        items[i - 1] = items[j];
        items[j] = kept;
    }
}

void random_bytes(void *data, size_t len)
{
    unsigned char *p = data;
    while (len > 0) {
        ssize_t n = getrandom(p, len, 0);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            abort();
        }
        p += n;
        len -= (size_t)n;
    }
}

void random_name(char *out, size_t n)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
    random_bytes(out, n);
    for (size_t i = 0; i < n; i++) {
        out[i] = letters[(unsigned char)out[i] & 31];
    }
    out[n] = '\0';
}
