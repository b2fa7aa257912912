/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif

#ifdef HAS_ASAN
int __lsan_do_recoverable_leak_check(void);
#endif

enum { TEST_FILE_MAX = 64 << 20 };

struct test_dir test_dir_new(void)
{
    const char *base = getenv("TMPDIR");
    AUTO_FREE char *path = xasprintf("%s/orch-test-XXXXXX", base && *base ? base : "/tmp");
    cr_assert_not_null(mkdtemp(path), "mkdtemp %s: %s", path, strerrordesc_np(errno));
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cr_assert_geq(fd, 0, "open %s: %s", path, strerrordesc_np(errno));
    return (struct test_dir){.path = take(path), .fd = fd};
}

void test_dir_done(struct test_dir *dir)
{
    if (!dir->path) {
        return;
    }
    struct orch_err err = ERR_INIT;
    fd_close(&dir->fd);
    if (fd_remove_tree(AT_FDCWD, dir->path, &err) < 0) {
        fprintf(stderr, "leaving %s: %s\n", dir->path, err.message);
    }
    free_pointer(&dir->path);
}

void test_write(const struct test_dir *dir, const char *name, const char *text)
{
    struct orch_err err = ERR_INIT;
    AUTO_FREE char *path = path_join(dir->path, name);
    AUTO_FREE char *parent = path_dir(path);
    cr_assert_eq(fd_mkdirs(parent, 0755, &err), 0, "%s", err.message);
    AUTO_FD int fd = fd_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644, &err);
    cr_assert_geq(fd, 0, "%s", err.message);
    cr_assert_eq(fd_write_all(fd, text, strlen(text), &err), 0, "%s", err.message);
}

char *test_read(const struct test_dir *dir, const char *name)
{
    struct orch_err err = ERR_INIT;
    AUTO_FREE char *path = path_join(dir->path, name);
    char *data = NULL;
    size_t len = 0;
    return fd_read_file(path, TEST_FILE_MAX, &data, &len, &err) < 0 ? NULL : data;
}

/* The variable if it is set; else where this program was built. */
static const char *place(const char *variable, const char *compiled)
{
    const char *value = getenv(variable);
    return value && *value ? value : compiled;
}

char *test_built(const char *relative)
{
    return path_join(place("ORCH_BUILD", TEST_BUILD_DIR), relative);
}

char *test_source(const char *relative)
{
    return path_join(place("ORCH_SOURCE", TEST_SOURCE_DIR), relative);
}

int test_open_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    cr_assert_not_null(dir);
    int count = -1; /* the one that reads the list */
    for (const struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        count += e->d_name[0] != '.';
    }
    closedir(dir);
    return count;
}

bool test_has_asan(void)
{
#ifdef HAS_ASAN
    return true;
#else
    return false;
#endif
}

int test_leaks(void)
{
#ifdef HAS_ASAN
    return __lsan_do_recoverable_leak_check();
#else
    return 0;
#endif
}

bool test_must_not_skip(void)
{
    const char *ci = getenv("CI");
    return ci && strcmp(ci, "true") == 0;
}
