/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "state/durable.h"
#include "state/versions.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void must(int r, const struct orch_err *err)
{
    cr_assert_eq(r, 0, "%s", err->message);
}

static struct versions *make(const struct test_dir *dir)
{
    struct orch_err err = ERR_INIT;
    struct versions *v = NULL;
    AUTO_FREE char *path = path_join(dir->path, "versions.git");
    must(versions_create(NULL, path, &v, &err), &err);
    return v;
}

static int open_dir(const struct test_dir *dir, const char *name)
{
    if (faccessat(dir->fd, name, F_OK, 0) < 0) {
        cr_assert_eq(mkdirat(dir->fd, name, 0755), 0);
    }
    int fd = openat(dir->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cr_assert_geq(fd, 0);
    return fd;
}

static int commit(const struct versions *v, const struct test_dir *dir, const char *tree, const char *parent,
                  const char *tag, struct version_id *id, struct orch_err *err)
{
    AUTO_FD int fd = open_dir(dir, tree);
    AUTO_FREE char *copy = xstrdup(parent);
    char *parents[] = {copy, NULL};
    const struct version_commit c = {
        .dirfd = fd, .parents = parent ? parents : NULL, .message = "m", .tag = tag, .wall_ns = INT64_C(5000000000)};
    return versions_commit(v, &c, id, err);
}

Test(versions, bytes_and_modes_come_back)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    AUTO_VERSIONS struct versions *v = make(&dir);
    struct orch_err err = ERR_INIT;
    struct version_id id;
    struct stat st;

    test_write(&dir, "in/.gitattributes", "* text=auto eol=crlf filter=lfs ident\n");
    test_write(&dir, "in/crlf.txt", "a\r\nb\n$Id$\r\n");
    test_write(&dir, "in/d/run", "#!/bin/sh\n");
    test_write(&dir, "in/.gitignore", "*\n");
    test_write(&dir, "in/odd \"q\" \\ \t\n\xff", "odd");
    test_write(&dir, "in/empty", "");
    cr_assert_eq(fchmodat(dir.fd, "in/d/run", 0700, 0), 0);
    must(commit(v, &dir, "in", NULL, "v0", &id, &err), &err);
    AUTO_FD int out = open_dir(&dir, "out");
    must(versions_checkout(v, id.sha, out, &err), &err);
    static const char *const names[] = {".gitattributes",        "crlf.txt", "d/run", ".gitignore",
                                        "odd \"q\" \\ \t\n\xff", "empty"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        AUTO_FREE char *in_name = path_join("in", names[i]);
        AUTO_FREE char *out_name = path_join("out", names[i]);
        AUTO_FREE char *x = test_read(&dir, in_name);
        AUTO_FREE char *y = test_read(&dir, out_name);
        cr_assert_not_null(y, "%s", names[i]);
        cr_assert_str_eq(x, y);
    }
    cr_assert_eq(fstatat(dir.fd, "out/d/run", &st, 0), 0);
    cr_assert_eq(st.st_mode & 0777, 0755);
    cr_assert_eq(fstatat(dir.fd, "out/crlf.txt", &st, 0), 0);
    cr_assert_eq(st.st_mode & 0777, 0644);
    must(versions_check(v, &err), &err);
    TEST_END();
}

Test(versions, the_graph_has_parents_and_names)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    AUTO_VERSIONS struct versions *v = make(&dir);
    struct orch_err err = ERR_INIT;
    struct version_id a;
    struct version_id b;
    struct version_id same;
    struct version_id found;
    AUTO_BUF struct buf text;

    test_write(&dir, "one/f", "first\n");
    test_write(&dir, "one/gone", "x\n");
    test_write(&dir, "two/f", "second\n");
    must(commit(v, &dir, "one", NULL, "v0", &a, &err), &err);
    must(commit(v, &dir, "two", a.sha, "v1", &b, &err), &err);
    must(versions_point(v, "main", b.sha, &err), &err);
    must(versions_point(v, "best", b.sha, &err), &err);
    must(versions_point(v, "best", a.sha, &err), &err);
    static const struct {
        const char *selector;
        int which;
    } rows[] = {{"v0", 0}, {"0", 0}, {"1", 1}, {"main", 1}, {"best", 0}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        must(versions_resolve(v, rows[i].selector, &found, &err), &err);
        cr_assert_str_eq(found.sha, rows[i].which ? b.sha : a.sha, "%s", rows[i].selector);
    }
    AUTO_FREE char *prefix = xmemdup0(b.sha, 10);
    must(versions_resolve(v, prefix, &found, &err), &err);
    cr_assert_str_eq(found.tree, b.tree);
    static const char *const bad[] = {"v9", "", "-x", "HEAD^", "a..b", "main~1", "deadbeef", ":/m", "@{0}", "x.lock"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        cr_assert_eq(versions_resolve(v, bad[i], &found, &err), ORCH_E_NOT_FOUND, "%s", bad[i]);
    }
    err_clear(&err);
    must(commit(v, &dir, "one", b.sha, "v2", &same, &err), &err);
    cr_assert_str_eq(same.tree, a.tree, "equal trees have equal ids; what is gone is gone");
    buf_init(&text, 4096);
    must(versions_diff(v, "v0", "v1", &text, &err), &err);
    cr_assert(strstr(text.data, "-first") && strstr(text.data, "+second") && strstr(text.data, "deleted file"), "%s",
              text.data);
    buf_reset(&text);
    must(versions_log(v, "v2", &text, &err), &err);
    cr_assert(strstr(text.data, a.sha) && strstr(text.data, b.sha));
    AUTO_BUF struct buf tiny;
    buf_init(&tiny, 10);
    must(versions_diff(v, "v0", "v1", &tiny, &err), &err);
    cr_assert(tiny.overflow);
    TEST_END();
}

Test(versions, a_repeated_commit_is_the_same_commit)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    AUTO_VERSIONS struct versions *v = make(&dir);
    AUTO_VERSIONS struct versions *again = make(&dir); /* as on resume */
    struct orch_err err = ERR_INIT;
    struct version_id a;
    struct version_id b;
    test_write(&dir, "t/f", "x");
    must(commit(v, &dir, "t", NULL, "v0", &a, &err), &err);
    must(commit(again, &dir, "t", NULL, "v0", &b, &err), &err);
    cr_assert_str_eq(a.sha, b.sha);
    TEST_END();
}

Test(versions, hostile_trees_are_refused)
{
    static const char *const names[] = {".git/x", ".GIT/config", "a/.Git", ".git. ", "git~1/x", ".g\xe2\x80\x8cit/x"};
    struct orch_err err = ERR_INIT;
    struct version_id id;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        AUTO_TEST_DIR struct test_dir dir = test_dir_new();
        AUTO_VERSIONS struct versions *v = make(&dir);
        AUTO_FREE char *name = path_join("t", names[i]);
        test_write(&dir, name, "x");
        cr_assert_eq(commit(v, &dir, "t", NULL, "v0", &id, &err), ORCH_E_HOSTILE, "%s", names[i]);
    }
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    AUTO_VERSIONS struct versions *v = make(&dir);
    test_write(&dir, "t/fine.git", "x");
    err_clear(&err);
    must(commit(v, &dir, "t", NULL, "v0", &id, &err), &err);
    cr_assert_eq(symlinkat("fine.git", dir.fd, "t/link"), 0);
    cr_assert_eq(commit(v, &dir, "t", NULL, "v1", &id, &err), ORCH_E_HOSTILE);
    cr_assert_eq(versions_resolve(v, "v1", &id, &err), ORCH_E_NOT_FOUND);
    TEST_END();
}

Test(versions, a_key_is_refused_wherever_it_lies)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    AUTO_VERSIONS struct versions *v = make(&dir);
    struct orch_err err = ERR_INIT;
    struct version_id id;
    char *env[] = {(char[]){"HF_TOKEN=hf_0123456789abcdefXYZ"}, NULL};
    AUTO_REDACTOR struct redactor *r = redact_new(env);
    AUTO_FREE char *big = xmalloc(70000);
    memset(big, 'x', 69999);
    big[69999] = '\0';
    memcpy(big + 65530, "hf_0123456789abcdefXYZ", 22); /* across the border of two reads */
    test_write(&dir, "t/big", big);
    AUTO_FD int fd = open_dir(&dir, "t");
    const struct version_commit c = {.dirfd = fd, .message = "m", .tag = "v0", .redactor = r};
    cr_assert_eq(versions_commit(v, &c, &id, &err), ORCH_E_HOSTILE);
    cr_assert(strstr(err.message, "HF_TOKEN"), "%s", err.message);
    cr_assert(!strstr(err.message, "hf_0123"));
    cr_assert_eq(unlinkat(dir.fd, "t/big", 0), 0);
    test_write(&dir, "t/hf_0123456789abcdefXYZ", "");
    cr_assert_eq(versions_commit(v, &c, &id, &err), ORCH_E_HOSTILE);
    cr_assert(!strstr(err.message, "hf_0123"), "%s", err.message);
    TEST_END();
}

Test(versions, an_absent_repository_or_git_is_said)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    struct orch_err err = ERR_INIT;
    struct versions *v = NULL;
    AUTO_FREE char *path = path_join(dir.path, "none.git");
    cr_assert_eq(versions_open(NULL, path, &v, &err), ORCH_E_NOT_FOUND);
    cr_assert_eq(versions_create("/nonexistent/git", path, &v, &err), ORCH_E_UNAVAILABLE);
    TEST_END();
}

Test(versions, damage_is_found)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    AUTO_VERSIONS struct versions *v = make(&dir);
    struct orch_err err = ERR_INIT;
    struct version_id id;
    test_write(&dir, "t/f", "x");
    must(commit(v, &dir, "t", NULL, "v0", &id, &err), &err);
    cr_assert_eq(renameat(dir.fd, "versions.git/objects/pack", dir.fd, "away"), 0);
    cr_assert_eq(versions_check(v, &err), ORCH_E_DAMAGED);
    AUTO_FD int out = open_dir(&dir, "out");
    cr_assert_lt(versions_checkout(v, id.sha, out, &err), 0);
    TEST_END();
}

/* A commit that is imported again after a kill has the same pack, whose .keep would refuse it. */
Test(versions, what_a_killed_import_left_is_dropped)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    struct orch_err err = ERR_INIT;
    struct version_id id;
    test_write(&dir, "in/file", "x\n");
    static const char *const left[] = {"versions.git/objects/pack/pack-1.keep", "versions.git/objects/pack/tmp_pack_x",
                                       "versions.git/fast_import_crash_1", "versions.git/refs/heads/main.lock"};
    struct versions *killed = make(&dir);
    versions_release(&killed);
    for (size_t i = 0; i < ARRAY_LEN(left); i++) {
        test_write(&dir, left[i], "");
    }
    AUTO_VERSIONS struct versions *v = make(&dir);
    for (size_t i = 0; i < ARRAY_LEN(left); i++) {
        cr_assert_lt(faccessat(dir.fd, left[i], F_OK, 0), 0, "%s is still there", left[i]);
    }
    must(commit(v, &dir, "in", NULL, "v0", &id, &err), &err);
    TEST_END();
}
