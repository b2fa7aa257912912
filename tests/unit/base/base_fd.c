/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static bool exists(const struct test_dir *dir, const char *name)
{
    struct stat st;
    return fstatat(dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

Test(fd, close_keeps_errno_and_forgets)
{
    int fd = dup(0);
    fd = fd < 0 ? open("/dev/null", O_RDONLY | O_CLOEXEC) : fd;
    cr_assert_geq(fd, 0);
    int number = fd;
    errno = EXDEV;
    fd_close(&fd);
    cr_assert_eq(fd, -1);
    cr_assert_eq(errno, EXDEV);
    cr_assert_eq(fcntl(number, F_GETFD), -1);
    errno = EXDEV;
    fd_close(&fd); /* again: nothing */
    cr_assert_eq(errno, EXDEV);
    TEST_END();
}

Test(fd, every_opener_sets_close_on_exec)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    test_write(&dir, "file", "x");
    AUTO_FREE char *path = path_join(dir.path, "file");
    struct orch_err err = ERR_INIT;
    AUTO_FD int a = fd_open(path, O_RDONLY, 0, &err);
    AUTO_FD int b = fd_open_beneath(dir.fd, "file", O_RDONLY, 0, &err);
    AUTO_FD int c = fd_memfd("m", "x", 1, &err);
    const int fds[] = {a, b, c};
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        cr_assert_geq(fds[i], 0, "%zu: %s", i, err.message);
        cr_assert((fcntl(fds[i], F_GETFD) & FD_CLOEXEC) != 0, "%zu", i);
    }
    TEST_END();
}

Test(fd, open_beneath_refuses_links_and_escapes)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    test_write(&dir, "in/file", "inside");
    test_write(&dir, "out", "outside");
    cr_assert_eq(symlinkat("file", dir.fd, "in/link"), 0);
    cr_assert_eq(symlinkat("../out", dir.fd, "in/outward"), 0);
    cr_assert_eq(symlinkat("/etc", dir.fd, "in/absolute"), 0);
    cr_assert_eq(symlinkat("absent", dir.fd, "in/dangling"), 0);
    struct orch_err err = ERR_INIT;
    AUTO_FD int in = fd_open_beneath(dir.fd, "in", O_RDONLY | O_DIRECTORY, 0, &err);
    cr_assert_geq(in, 0, "%s", err.message);
    static const struct {
        const char *path;
        int flags;
        int code;
    } rows[] = {
        {"link", O_RDONLY, ORCH_E_HOSTILE},
        {"outward", O_RDONLY, ORCH_E_HOSTILE},
        {"dangling", O_RDONLY, ORCH_E_HOSTILE},
        {"dangling", O_WRONLY | O_CREAT, ORCH_E_HOSTILE},
        {"absolute/passwd", O_RDONLY, ORCH_E_HOSTILE},
        {"../out", O_RDONLY, ORCH_E_HOSTILE},
        {"..", O_RDONLY, ORCH_E_HOSTILE},
        {"/etc/passwd", O_RDONLY, ORCH_E_HOSTILE},
        {"absent", O_RDONLY, ORCH_E_NOT_FOUND},
        {"absent/file", O_RDONLY, ORCH_E_NOT_FOUND},
        {"file/x", O_RDONLY, ORCH_E_IO},
        {"file", O_RDONLY | O_DIRECTORY, ORCH_E_IO},
        {"file", O_WRONLY | O_CREAT | O_EXCL, ORCH_E_IO},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cr_assert_eq(fd_open_beneath(in, rows[i].path, rows[i].flags, 0600, &err), rows[i].code, "%s: %s", rows[i].path,
                     err.message);
    }
    cr_assert_not(exists(&dir, "in/absent"), "nothing was made through the dangling link");
    AUTO_FD int made = fd_open_beneath(in, "new", O_WRONLY | O_CREAT | O_EXCL, 0640, &err);
    cr_assert_geq(made, 0, "%s", err.message);
    TEST_END();
}

Test(fd, read_all_is_bounded)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    enum { SIZE = 10000 };
    AUTO_FREE char *text = xcalloc(1, SIZE + 1);
    memset(text, 'a', SIZE);
    test_write(&dir, "file", text);
    AUTO_FREE char *path = path_join(dir.path, "file");
    struct orch_err err = ERR_INIT;
    static const struct {
        size_t max;
        int code;
    } rows[] = {{SIZE, 0},         {SIZE + 1, 0},     {SIZE - 1, ORCH_E_LIMIT},
                {0, ORCH_E_LIMIT}, {1, ORCH_E_LIMIT}, {4096, ORCH_E_LIMIT},
                {1 << 30, 0}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char *data = NULL;
        size_t len = 77;
        cr_assert_eq(fd_read_file(path, rows[i].max, &data, &len, &err), rows[i].code, "max %zu", rows[i].max);
        if (rows[i].code == 0) {
            cr_assert_eq(len, SIZE);
            cr_assert_str_eq(data, text);
            free(data);
        } else {
            cr_assert_null(data);
            cr_assert_eq(len, 77);
        }
    }
    test_write(&dir, "empty", "");
    AUTO_FREE char *data = NULL;
    size_t len = 77;
    cr_assert_eq(fd_read_file_at(dir.fd, "empty", 0, &data, &len, &err), 0, "an empty file fits a maximum of 0");
    cr_assert_eq(len, 0);
    cr_assert_str_eq(data, "");
    TEST_END();
}

Test(fd, special_files_are_refused_without_hanging)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    cr_assert_eq(mkfifoat(dir.fd, "pipe", 0600), 0);
    cr_assert_eq(mkdirat(dir.fd, "dir", 0700), 0);
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    (void)snprintf(name.sun_path, sizeof name.sun_path, "/proc/self/fd/%d/socket", dir.fd);
    AUTO_FD int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(s, (struct sockaddr *)&name, sizeof name), 0, "%s", strerror(errno));
    struct orch_err err = ERR_INIT;
    char *data = NULL;
    static const char *const names[] = {"pipe", "dir", "socket"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        AUTO_FREE char *path = path_join(dir.path, names[i]);
        cr_assert_lt(fd_read_file(path, 100, &data, NULL, &err), 0, "%s", names[i]);
        cr_assert_lt(fd_read_file_at(dir.fd, names[i], 100, &data, NULL, &err), 0, "%s", names[i]);
    }
    cr_assert_eq(fd_read_file("/dev/zero", 100, &data, NULL, &err), ORCH_E_HOSTILE);
    cr_assert_null(data);
    TEST_END();
}

Test(fd, mkdirs)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    struct orch_err err = ERR_INIT;
    AUTO_FREE char *deep = path_join(dir.path, "a/b//c/");
    cr_assert_eq(fd_mkdirs(deep, 0755, &err), 0, "%s", err.message);
    cr_assert_eq(fd_mkdirs(deep, 0755, &err), 0, "existing is fine");
    cr_assert(exists(&dir, "a/b/c"));
    cr_assert_eq(fd_mkdirs("/", 0755, &err), 0, "%s", err.message);
    test_write(&dir, "file", "");
    AUTO_FREE char *file = path_join(dir.path, "file");
    AUTO_FREE char *below = path_join(dir.path, "file/x");
    cr_assert_lt(fd_mkdirs(file, 0755, &err), 0);
    cr_assert_lt(fd_mkdirs(below, 0755, &err), 0);
    TEST_END();
}

Test(fd, remove_tree_takes_everything_and_follows_nothing)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    test_write(&dir, "kept/precious", "x");
    test_write(&dir, "tree/a/b/file", "x");
    test_write(&dir, "tree/.hidden", "x");
    cr_assert_eq(symlinkat("../kept", dir.fd, "tree/link"), 0);
    cr_assert_eq(symlinkat("../../kept/precious", dir.fd, "tree/a/link"), 0);
    cr_assert_eq(symlinkat("/etc", dir.fd, "tree/absolute"), 0);
    cr_assert_eq(linkat(dir.fd, "kept/precious", dir.fd, "tree/hard", 0), 0);
    cr_assert_eq(mkfifoat(dir.fd, "tree/pipe", 0600), 0);
    cr_assert_eq(mkdirat(dir.fd, "tree/empty", 0700), 0);
    cr_assert_eq(symlinkat("kept", dir.fd, "alias"), 0);
    struct orch_err err = ERR_INIT;
    int before = test_open_fds();
    cr_assert_eq(fd_remove_tree(dir.fd, "tree", &err), 0, "%s", err.message);
    cr_assert_not(exists(&dir, "tree"));
    cr_assert_eq(fd_remove_tree(dir.fd, "tree", &err), 0, "absence is success");
    cr_assert_eq(fd_remove_tree(dir.fd, "alias", &err), 0, "%s", err.message);
    cr_assert_not(exists(&dir, "alias"));
    cr_assert(exists(&dir, "kept/precious"), "no link was followed");
    cr_assert_eq(fd_remove_tree(dir.fd, "kept/precious", &err), 0, "a file is a small tree");
    cr_assert_eq(test_open_fds(), before);
    TEST_END();
}

Test(fd, remove_tree_deeper_than_any_path_and_any_descriptor_limit)
{
    enum { DEPTH = 3000 };
    static const char name[] = "a-directory-with-a-name-of-some-length";
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    int at = dup(dir.fd);
    for (int i = 0; i < DEPTH; i++) {
        cr_assert_eq(mkdirat(at, name, 0700), 0, "level %d: %s", i, strerror(errno));
        int next = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        cr_assert_geq(next, 0);
        close(at);
        at = next;
    }
    close(at);
    struct orch_err err = ERR_INIT;
    cr_assert_eq(fd_remove_tree(dir.fd, name, &err), 0, "%s", err.message);
    cr_assert_not(exists(&dir, name));
    TEST_END();
}

Test(fd, remove_tree_wide)
{
    enum { WIDTH = 3000 };
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    cr_assert_eq(mkdirat(dir.fd, "wide", 0700), 0);
    for (int i = 0; i < WIDTH; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "wide/d%d", i);
        cr_assert_eq(mkdirat(dir.fd, name, 0700), 0);
        (void)snprintf(name, sizeof name, "wide/d%d/f", i);
        AUTO_FD int fd = openat(dir.fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        cr_assert_geq(fd, 0);
    }
    struct orch_err err = ERR_INIT;
    cr_assert_eq(fd_remove_tree(dir.fd, "wide", &err), 0, "%s", err.message);
    cr_assert_not(exists(&dir, "wide"));
    TEST_END();
}

/* As a user a directory without permissions stops a naive walk; root passes in any case. */
Test(fd, remove_tree_restores_permissions)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    test_write(&dir, "tree/closed/inner/file", "x");
    test_write(&dir, "tree/read-only/file", "x");
    cr_assert_eq(fchmodat(dir.fd, "tree/closed/inner", 0, 0), 0);
    cr_assert_eq(fchmodat(dir.fd, "tree/closed", 0, 0), 0);
    cr_assert_eq(fchmodat(dir.fd, "tree/read-only", 0500, 0), 0);
    cr_assert_eq(fchmodat(dir.fd, "tree", 0500, 0), 0);
    struct orch_err err = ERR_INIT;
    cr_assert_eq(fd_remove_tree(dir.fd, "tree", &err), 0, "%s", err.message);
    cr_assert_not(exists(&dir, "tree"));
    TEST_END();
}

Test(fd, memfd_is_sealed_and_at_its_start)
{
    struct orch_err err = ERR_INIT;
    AUTO_FD int fd = fd_memfd("spec", "hello", 5, &err);
    cr_assert_geq(fd, 0, "%s", err.message);
    char data[8] = "";
    cr_assert_eq(read(fd, data, sizeof data), 5);
    cr_assert_str_eq(data, "hello");
    cr_assert_lt(write(fd, "x", 1), 0);
    cr_assert_lt(ftruncate(fd, 0), 0);
    cr_assert_lt(ftruncate(fd, 100), 0);
    cr_assert_lt(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0, "the seals are sealed");
    TEST_END();
}

Test(fd, write_all_reports_what_stopped_it)
{
    struct orch_err err = ERR_INIT;
    cr_assert_eq(fd_write_all(-1, "x", 1, &err), ORCH_E_IO);
    cr_assert_eq(fd_write_all(-1, "", 0, &err), 0, "nothing to write is no error");
    AUTO_FD int full = fd_open("/dev/full", O_WRONLY, 0, &err);
    cr_assert_geq(full, 0, "%s", err.message);
    cr_assert_eq(fd_write_all(full, "x", 1, &err), ORCH_E_NO_SPACE);
    TEST_END();
}
