/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/guest/init_confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Newer than the headers of Debian 12 (landlock(7)). */
struct ruleset_attr {
    uint64_t fs, net, scoped;
};
enum { SCOPE_ABSTRACT_UNIX = 1, SCOPE_SIGNAL = 2, ABI_REFER = 2, ABI_TRUNCATE = 3, ABI_SCOPES = 6 };

#define FS_TRUNCATE (UINT64_C(1) << 14)
#define FS_CHANGE                                                                                                      \
    (LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |                  \
     LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |                        \
     LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |                     \
     LANDLOCK_ACCESS_FS_MAKE_SYM)
#define FS_DEVICES (LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK) /* allowed nowhere */
#define FS_FILE (LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE) /* what a file, not a directory, has */

static uint64_t handled(int abi)
{
    return (uint64_t)FS_CHANGE | (abi >= ABI_REFER ? (uint64_t)LANDLOCK_ACCESS_FS_REFER : 0) |
           (abi >= ABI_TRUNCATE ? (uint64_t)FS_TRUNCATE : 0);
}

static int allow(int ruleset, const char *path, uint64_t access)
{
    int fd = open(path, O_PATH | O_CLOEXEC);
    struct stat st;
    if (fd < 0) {
        return errno == ENOENT ? 0 : -errno;
    }
    if (fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode)) {
        access &= FS_FILE; /* a rule on a file may hold nothing else */
    }
    const struct landlock_path_beneath_attr rule = {.allowed_access = access, .parent_fd = fd};
    int code = syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0 ? -errno : 0;
    (void)close(fd);
    return code;
}

static int make_ruleset(int abi, const char *writable, size_t len)
{
    static const char *const always[] = {"/tmp", "/home", "/dev/shm"};
    uint64_t all = handled(abi);
    const struct ruleset_attr attr = {.fs = all, .scoped = abi >= ABI_SCOPES ? SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL : 0};
    size_t size = abi >= ABI_SCOPES ? sizeof attr : sizeof attr.fs;
    int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
    if (ruleset < 0) {
        return -errno;
    }
    uint64_t whole = all & ~(uint64_t)FS_DEVICES;
    uint64_t files = all & FS_FILE;
    int code = allow(ruleset, "/dev", files); /* devices; terminals */
    code = code == 0 ? allow(ruleset, "/proc", files) : code;
    for (size_t i = 0; i < sizeof always / sizeof always[0] && code == 0; i++) {
        code = allow(ruleset, always[i], whole);
    }
    for (const char *p = writable; p < writable + len && code == 0; p += strlen(p) + 1) {
        code = allow(ruleset, p, whole);
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
    *ret =
        (struct confinement){.ruleset = -1, .filter_count = (unsigned short)(spec->filter_len / sizeof *ret->filter)};
    ret->filter = malloc(spec->filter_len + 1);
    if (ret->filter == NULL) {
        return -ENOMEM;
    }
    memcpy(ret->filter, filter, spec->filter_len);
    facts->filtered = ret->filter_count > 0;
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (abi <= 0 || spec->no_landlock != 0) {
        return 0; /* a second layer: the record says that it is not there */
    }
    int ruleset = make_ruleset((int)abi, writable, spec->writable_len);
    if (ruleset < 0) {
        return ruleset;
    }
    ret->ruleset = ruleset;
    ret->scopes = abi >= ABI_SCOPES;
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
    if (c->scopes != 0 && !holds(kill(1, 0), EPERM)) {
        return -ENOTRECOVERABLE;
    }
    if (c->filter_count == 0) {
        return 0;
    }
    const struct sock_fprog program = {.len = c->filter_count, .filter = c->filter};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0) {
        return -errno;
    }
    return try_filter();
}
