/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

static int64_t read_clock(clockid_t id)
{
    struct timespec ts;
    (void)clock_gettime(id, &ts); /* cannot fail for these ids */
    return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

static int64_t system_mono(void *ctx)
{
    (void)ctx;
    return read_clock(CLOCK_MONOTONIC);
}

static int64_t system_wall(void *ctx)
{
    (void)ctx;
    return read_clock(CLOCK_REALTIME);
}

struct clock clock_system(void)
{
    return (struct clock){.mono_ns = system_mono, .wall_ns = system_wall, .ctx = NULL};
}

static struct tm broken_down(int64_t wall_ns)
{
    time_t s = (time_t)(wall_ns / NS_PER_S);
    struct tm tm = {0};
    (void)gmtime_r(&s, &tm);
    return tm;
}

char *clock_iso(int64_t wall_ns, char *out)
{
    struct tm tm = broken_down(wall_ns);
    size_t n = strftime(out, CLOCK_TEXT_MAX, "%Y-%m-%dT%H:%M:%S", &tm);
    (void)snprintf(out + n, CLOCK_TEXT_MAX - n, ".%03" PRId64 "Z", wall_ns / NS_PER_MS % 1000);
    return out;
}

char *clock_compact(int64_t wall_ns, char *out)
{
    struct tm tm = broken_down(wall_ns);
    (void)strftime(out, CLOCK_TEXT_MAX, "%Y%m%dT%H%M%SZ", &tm);
    return out;
}

char *clock_duration(int64_t ns, char *out)
{
    int64_t s = ns / NS_PER_S;
    if (s < 60) {
        (void)snprintf(out, CLOCK_TEXT_MAX, "%" PRId64 ".%" PRId64 "s", s, ns / (NS_PER_S / 10) % 10);
    } else if (s < 3600) {
        (void)snprintf(out, CLOCK_TEXT_MAX, "%" PRId64 "m%02" PRId64 "s", s / 60, s % 60);
    } else {
        (void)snprintf(out, CLOCK_TEXT_MAX, "%" PRId64 "h%02" PRId64 "m", s / 3600, s / 60 % 60);
    }
    return out;
}
