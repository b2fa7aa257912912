/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/environments/environment_impl.h"
#include "base/fd.h"
#include "base/mem.h"
#include "test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static void age(const struct test_dir *dir, const char *name)
{
    const struct timespec old[2] = {{.tv_sec = 1000000}, {.tv_sec = 1000000}};
    cr_assert_eq(utimensat(dir->fd, name, old, AT_SYMLINK_NOFOLLOW), 0);
}

static bool there(const struct test_dir *dir, const char *name)
{
    struct stat st;
    return fstatat(dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

Test(sweep, removes_only_what_is_old_and_in_no_use)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    test_write(&dir, "node-stale/s/x/file", "x");
    test_write(&dir, "get-stale/file", "x");
    test_write(&dir, "node-used/file", "x");
    test_write(&dir, "node-young/file", "x");
    test_write(&dir, "other/file", "x");
    test_write(&dir, "elsewhere/file", "x");
    cr_assert_eq(symlinkat("elsewhere", dir.fd, "node-link"), 0);
    static const char *const old[] = {"node-stale", "get-stale", "node-used", "other", "elsewhere", "node-link"};
    for (size_t i = 0; i < ARRAY_LEN(old); i++) {
        age(&dir, old[i]);
    }
    AUTO_FREE char *used = xasprintf("%s/node-used", dir.path);
    AUTO_FD int lock = environment_lock_dir(used);
    cr_assert_geq(lock, 0);
    cr_assert_eq(environment_sweep(dir.path), 2);
    cr_assert_not(there(&dir, "node-stale") || there(&dir, "get-stale"));
    cr_assert(there(&dir, "node-used/file") && there(&dir, "node-young/file") && there(&dir, "other/file"));
    cr_assert(there(&dir, "elsewhere/file"));
    fd_close(&lock);
    cr_assert_eq(environment_sweep(dir.path), 1);
    cr_assert_not(there(&dir, "node-used"));
}
