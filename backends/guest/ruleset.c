/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/guest/ruleset.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

long ruleset_abi(void)
{
    return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

int ruleset_new(const struct ruleset_attr *attr)
{
    /* an older kernel takes a longer structure whose rest is zero */
    int ruleset = (int)syscall(SYS_landlock_create_ruleset, attr, sizeof *attr, 0);
    return ruleset < 0 ? -errno : ruleset;
}

int ruleset_allow(int ruleset, const char *path, uint64_t directory, uint64_t file)
{
    const struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
    int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
    struct stat st;
    if (fd < 0) {
        return errno == ENOENT ? 0 : -errno;
    }
    bool is_directory = fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
    const struct landlock_path_beneath_attr rule = {.allowed_access = is_directory ? directory : file, .parent_fd = fd};
    int code = syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0 ? -errno : 0;
    (void)close(fd);
    return code;
}
