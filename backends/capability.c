/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/capability.h"

#include "base/mem.h"

#include <string.h>

static const char *const names[CAPABILITY_COUNT] = {
    [CAPABILITY_READ_ONLY] = "read-only",
    [CAPABILITY_HIDDEN] = "hidden",
    [CAPABILITY_MEMORY] = "memory",
    [CAPABILITY_PROCESSES] = "processes",
    [CAPABILITY_FILE] = "file",
    [CAPABILITY_CPU] = "cpu",
    [CAPABILITY_DISK] = "disk",
    [CAPABILITY_OUTPUT] = "output",
    [CAPABILITY_TIMEOUT] = "timeout",
    [CAPABILITY_NO_NETWORK] = "no-network",
    [CAPABILITY_ALLOWLIST] = "allowlist",
    [CAPABILITY_PUBLIC] = "public",
    [CAPABILITY_METER] = "meter",
    [CAPABILITY_SHARES_PATHS] = "shares-paths",
    [CAPABILITY_JUDGE_HOST] = "judge-host",
    [CAPABILITY_JUDGE_SHARED] = "judge-shared",
    [CAPABILITY_JUDGE_SEPARATE] = "judge-separate",
    [CAPABILITY_ADOPT] = "adopt",
    [CAPABILITY_GPU] = "gpu",
};

#define YES                                                                                                            \
    {                                                                                                                  \
        CAPABILITY_ENFORCED, "", ""                                                                                    \
    }
#define WEAK(code, note)                                                                                               \
    {                                                                                                                  \
        CAPABILITY_DEGRADED, code, note                                                                                \
    }
#define NO(code, note)                                                                                                 \
    {                                                                                                                  \
        CAPABILITY_REFUSED, code, note                                                                                 \
    }

/* What orch-init does is the same wherever the node runs, and whatever started it. */
#define INIT_CELLS                                                                                                     \
    [CAPABILITY_READ_ONLY] = YES, [CAPABILITY_HIDDEN] = YES,                                                           \
    [CAPABILITY_MEMORY] = WEAK("memory-per-process", "each process has the limit, not the tree (RLIMIT_DATA)"),        \
    [CAPABILITY_PROCESSES] =                                                                                           \
        WEAK("processes-per-identity", "started as a user the limit counts all of that user's processes"),             \
    [CAPABILITY_FILE] = YES,                                                                                           \
    [CAPABILITY_CPU] = WEAK("cpu-per-process", "each process has the limit, not the tree (RLIMIT_CPU)"),               \
    [CAPABILITY_DISK] = WEAK("disk-watched", "work directories are measured while the call runs; a burst may "         \
                                             "pass the limit before the call is stopped"),                             \
    [CAPABILITY_OUTPUT] = YES, [CAPABILITY_TIMEOUT] = YES, [CAPABILITY_NO_NETWORK] = YES,                              \
    [CAPABILITY_ALLOWLIST] = NO("no-proxy", "the proxy that checks host names is not built yet"),                      \
    [CAPABILITY_PUBLIC] = WEAK("public-network", "the sandbox shares the machine's network; the grade says so"),       \
    [CAPABILITY_METER] = YES, [CAPABILITY_JUDGE_HOST] = YES, [CAPABILITY_JUDGE_SHARED] = YES,                          \
    [CAPABILITY_JUDGE_SEPARATE] = YES,                                                                                 \
    [CAPABILITY_ADOPT] = WEAK("adopt-same-process", "found by name after a lost reply; not after the host "            \
                                                    "process died, which ends the node"),                              \
    [CAPABILITY_GPU] = NO("no-devices", "devices are not passed into sandboxes yet")

struct table_row {
    const char *environment;
    const char *mechanism;
    struct capability_cell cells[CAPABILITY_COUNT];
};

static const struct table_row table[] = {
    {"host", "namespaces", {INIT_CELLS, [CAPABILITY_SHARES_PATHS] = YES}},
    {"host", "bubblewrap", {INIT_CELLS, [CAPABILITY_SHARES_PATHS] = YES}},
    {"loopback-remote",
     "namespaces",
     {INIT_CELLS, [CAPABILITY_SHARES_PATHS] = NO("no-shared-paths", "trees are put and got")}},
    {"loopback-remote",
     "bubblewrap",
     {INIT_CELLS, [CAPABILITY_SHARES_PATHS] = NO("no-shared-paths", "trees are put and got")}},
};

static const struct capability_cell not_built = NO("not-built", "this environment or mechanism is not built yet");

const char *capability_name(enum capability property)
{
    return (unsigned)property < CAPABILITY_COUNT ? names[property] : "?";
}

const char *capability_value_name(enum capability_value value)
{
    static const char *const value_names[] = {
        [CAPABILITY_REFUSED] = "refused",
        [CAPABILITY_DEGRADED] = "degraded",
        [CAPABILITY_ENFORCED] = "enforced",
    };
    return (unsigned)value < ARRAY_LEN(value_names) ? value_names[value] : "?";
}

int capability_find(const char *name, enum capability *ret, struct orch_err *err)
{
    for (int i = 0; i < CAPABILITY_COUNT; i++) {
        if (strcmp(names[i], name) == 0) {
            *ret = (enum capability)i;
            return 0;
        }
    }
    return err_set(err, ORCH_E_NOT_FOUND, "there is no capability `%s`", name);
}

/* The first row of an environment is its default mechanism. */
struct capability_cell capability_get(const char *environment, const char *mechanism, enum capability property)
{
    bool any = mechanism == NULL || strcmp(mechanism, "auto") == 0;
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        if (strcmp(table[i].environment, environment) == 0 && (any || strcmp(table[i].mechanism, mechanism) == 0) &&
            (unsigned)property < CAPABILITY_COUNT) {
            return table[i].cells[property];
        }
    }
    return not_built;
}

int capability_require(const char *environment, const char *mechanism, enum capability property,
                       struct capability_cell *ret, struct orch_err *err)
{
    struct capability_cell cell = capability_get(environment, mechanism, property);
    if (cell.value == CAPABILITY_REFUSED) {
        return err_set(err, ORCH_E_UNAVAILABLE, "environment %s cannot give `%s` [%s]: %s", environment,
                       capability_name(property), cell.code, cell.note);
    }
    if (ret != NULL) {
        *ret = cell;
    }
    return 0;
}

void capability_each(bool (*each)(const struct capability_row *row, void *arg), void *arg)
{
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        for (int p = 0; p < CAPABILITY_COUNT; p++) {
            const struct capability_row row = {
                .environment = table[i].environment,
                .mechanism = table[i].mechanism,
                .property = (enum capability)p,
                .cell = table[i].cells[p],
            };
            if (!each(&row, arg)) {
                return;
            }
        }
    }
}
