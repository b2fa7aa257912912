/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One source of time. Durations and limits use `mono` (CLOCK_MONOTONIC: a
 * suspended machine is not charged, wall jumps are harmless); `wall` is only
 * shown and recorded, always as UTC.
 */
#ifndef ORCH_BASE_CLOCK_H
#define ORCH_BASE_CLOCK_H

#include <stdint.h>

struct clock {
    int64_t (*mono_ns)(void *ctx);
    int64_t (*wall_ns)(void *ctx); /* since 1970-01-01T00:00:00Z */
    void *ctx;
};

struct clock clock_system(void);
static inline int64_t clock_mono_ns(const struct clock *c)
{
    return c->mono_ns(c->ctx);
}
static inline int64_t clock_wall_ns(const struct clock *c)
{
    return c->wall_ns(c->ctx);
}

#define NS_PER_S INT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)

#define CLOCK_TEXT_MAX 40
/* "2026-12-01T02:13:38.123Z" into out[CLOCK_TEXT_MAX]; returns out. */
char *clock_iso(int64_t wall_ns, char *out);
/* "20261201T021338Z" into out[CLOCK_TEXT_MAX]; for names. */
char *clock_compact(int64_t wall_ns, char *out);
/* "1.2s", "3m04s", "2h10m" into out[CLOCK_TEXT_MAX]; for people. */
char *clock_duration(int64_t ns, char *out);

#endif
