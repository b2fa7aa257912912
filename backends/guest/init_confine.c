/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/guest/init_confine.h"

#include "backends/guest/in_place.h"
#include "backends/guest/ruleset.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t handled(int abi)
{
    return (uint64_t)RULESET_FS_CHANGE | (abi >= RULESET_ABI_REFER ? (uint64_t)LANDLOCK_ACCESS_FS_REFER : 0) |
           (abi >= RULESET_ABI_TRUNCATE ? (uint64_t)RULESET_FS_TRUNCATE : 0);
}

static int make_ruleset(int abi, const char *writable, size_t len)
{
    static const char *const always[] = {"/tmp", "/home", "/dev/shm"};
    uint64_t all = handled(abi);
    const struct ruleset_attr attr = {.fs = all, .scoped = abi >= RULESET_ABI_SCOPES ? RULESET_SCOPES : 0};
    int ruleset = ruleset_new(&attr);
    if (ruleset < 0) {
        return ruleset;
    }
    uint64_t whole = all & ~(uint64_t)RULESET_FS_DEVICES;
    uint64_t files = all & RULESET_FS_FILE;
    int code = ruleset_allow(ruleset, "/dev", files, files); /* devices; terminals */
    code = code == 0 ? ruleset_allow(ruleset, "/proc", files, files) : code;
    for (size_t i = 0; i < sizeof always / sizeof always[0] && code == 0; i++) {
        code = ruleset_allow(ruleset, always[i], whole, files);
    }
    for (const char *p = writable; p < writable + len && code == 0; p += strlen(p) + 1) {
        code = ruleset_allow(ruleset, p, whole, files);
    }
    if (code < 0) {
        (void)close(ruleset);
        return code;
    }
    return ruleset;
}

int confine_prepare(const struct control_spec *spec, const char *filter, const char *writable, struct confinement *ret,
                    struct control_hello *facts)
{
    *ret = (struct confinement){.ruleset = -1,
                                .in_place = spec->in_place != 0,
                                .isolated = spec->isolated != 0,
                                .filter_count = (unsigned short)(spec->filter_len / sizeof *ret->filter)};
    ret->filter = malloc(spec->filter_len + 1);
    if (ret->filter == NULL) {
        return -ENOMEM;
    }
    memcpy(ret->filter, filter, spec->filter_len);
    facts->filtered = ret->filter_count > 0;
    long abi = ruleset_abi();
    if (spec->in_place != 0 && (abi < RULESET_ABI_SCOPES || spec->no_landlock != 0)) {
        return -ENOTSUP; /* here it is the first layer */
    }
    if (abi <= 0 || spec->no_landlock != 0) {
        return 0; /* a second layer: the record says that it is not there */
    }
    const char *readable = writable + spec->writable_len;
    int ruleset = spec->in_place != 0
                      ? in_place_ruleset(ret->isolated, writable, spec->writable_len, readable, spec->readable_len)
                      : make_ruleset((int)abi, writable, spec->writable_len);
    if (ruleset < 0) {
        return ruleset;
    }
    ret->ruleset = ruleset;
    ret->scopes = abi >= RULESET_ABI_SCOPES;
    facts->landlock_abi = (uint32_t)abi;
    return 0;
}

static int holds(long result, int expected)
{
    return result < 0 && errno == expected;
}

/* A filter that allows everything loads as well as a good one. */
static int try_filter(void)
{
    if (!holds(syscall(SYS_clone3, NULL, 0), ENOSYS) || !holds(unshare(CLONE_NEWUSER), EPERM)) {
        return -ENOTRECOVERABLE;
    }
    int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return holds(fd, EAFNOSUPPORT) ? 0 : -ENOTRECOVERABLE;
}

int confine_call(const struct confinement *c)
{
    if (c->ruleset >= 0 && syscall(SYS_landlock_restrict_self, c->ruleset, 0) < 0) {
        return -errno;
    }
    if (c->scopes != 0 && !holds(kill(getppid(), 0), EPERM)) { /* the init */
        return -ENOTRECOVERABLE;
    }
    if (c->filter_count == 0) {
        return c->in_place != 0 ? in_place_try(c->isolated, 0) : 0;
    }
    const struct sock_fprog program = {.len = c->filter_count, .filter = c->filter};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0) {
        return -errno;
    }
    int code = try_filter();
    return code == 0 && c->in_place != 0 ? in_place_try(c->isolated, 1) : code;
}
