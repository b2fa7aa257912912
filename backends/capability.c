/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/capability.h"

#include "base/mem.h"

#include <string.h>

static const char *const names[CAPABILITY_COUNT] = {
    [CAPABILITY_READ_ONLY] = "read-only",
    [CAPABILITY_HIDDEN] = "hidden",
    [CAPABILITY_OWN_PATHS] = "own-paths",
    [CAPABILITY_PRIVATE_TMP] = "private-tmp",
    [CAPABILITY_ABSENT] = "absent",
    [CAPABILITY_OWN_PROCESSES] = "own-processes",
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

/* What orch-init does by itself, whatever started it: limits, and the end of every process. */
#define LIMIT_CELLS                                                                                                    \
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
    [CAPABILITY_ADOPT] = WEAK("adopt-same-process", "found by name after a lost reply; not after the host "            \
                                                    "process died, which ends the node"),                              \
    [CAPABILITY_GPU] = NO("no-devices", "devices are not passed into sandboxes yet")

/* With a root and namespaces of its own, wherever the node runs. */
#define INIT_CELLS                                                                                                     \
    LIMIT_CELLS, [CAPABILITY_READ_ONLY] = YES, [CAPABILITY_HIDDEN] = YES, [CAPABILITY_OWN_PATHS] = YES,                \
                 [CAPABILITY_PRIVATE_TMP] = YES, [CAPABILITY_ABSENT] = YES, [CAPABILITY_OWN_PROCESSES] = YES,          \
                 [CAPABILITY_METER] = YES, [CAPABILITY_JUDGE_HOST] = YES, [CAPABILITY_JUDGE_SHARED] = YES,             \
                 [CAPABILITY_JUDGE_SEPARATE] = YES

#define HOST_PATHS NO("host-paths", "without a mount everything keeps the machine's paths, and roles need /w")
#define ONLY_GROW                                                                                                      \
    NO("rights-only-grow",                                                                                             \
       "rights are only added: nothing in a writable tree can be read-only, nothing in a granted one hidden")
#define SHARED_TMP                                                                                                     \
    NO("shared-tmp", "/tmp is the machine's and not granted; TMPDIR and HOME are directories of the sandbox's own "    \
                     "below it, without a size")
#define NAMES_SEEN                                                                                                     \
    WEAK("names-seen", "what was not granted is closed, but its names, sizes and modes are seen, and modes, times "    \
                       "and attributes of files of the same user can be changed")
#define PROCESSES_SEEN                                                                                                 \
    WEAK("processes-seen",                                                                                             \
         "the machine's processes, their command lines and its host name are seen, and those of the "                  \
         "same user can be given another priority; none can be signalled or traced")

/* Landlock alone (mechanisms/landlock.h): it adds rights, so nothing can be taken out of what was granted. */
#define LANDLOCK_CELLS                                                                                                 \
    LIMIT_CELLS, [CAPABILITY_READ_ONLY] = ONLY_GROW, [CAPABILITY_HIDDEN] = ONLY_GROW,                                  \
                 [CAPABILITY_OWN_PATHS] = HOST_PATHS, [CAPABILITY_PRIVATE_TMP] = SHARED_TMP,                           \
                 [CAPABILITY_ABSENT] = NAMES_SEEN, [CAPABILITY_OWN_PROCESSES] = PROCESSES_SEEN,                        \
                 [CAPABILITY_METER] = NO("shared-loopback", "a port inside would be one of the machine's"),            \
                 [CAPABILITY_JUDGE_HOST] = HOST_PATHS, [CAPABILITY_JUDGE_SHARED] = HOST_PATHS,                         \
                 [CAPABILITY_JUDGE_SEPARATE] = HOST_PATHS

struct table_row {
    const char *environment;
    const char *mechanism;
    struct capability_cell cells[CAPABILITY_COUNT];
};

static const struct table_row table[] = {
    {"host", "namespaces", {INIT_CELLS, [CAPABILITY_SHARES_PATHS] = YES}},
    {"host", "bubblewrap", {INIT_CELLS, [CAPABILITY_SHARES_PATHS] = YES}},
    {"host", "landlock", {LANDLOCK_CELLS, [CAPABILITY_SHARES_PATHS] = YES}},
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
        return err_set(err, ORCH_E_UNAVAILABLE, "environment %s, mechanism %s, cannot give `%s` [%s]: %s", environment,
                       mechanism != NULL ? mechanism : "auto", capability_name(property), cell.code, cell.note);
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
