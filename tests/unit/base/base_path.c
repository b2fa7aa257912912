/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/mem.h"
#include "base/path.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

Test(path, join)
{
    static const char *const rows[][3] = {
        {"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"a", "/b", "/b"}, {"", "b", "b"},
        {"a", "", "a"},    {"/", "b", "/b"},   {"", "", ""},      {"a/b", "c/d", "a/b/c/d"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_FREE char *got = path_join(rows[i][0], rows[i][1]);
        cr_assert_str_eq(got, rows[i][2], "row %zu", i);
    }
    TEST_END();
}

Test(path, normal)
{
    static const char *const rows[][2] = {
        {"", "."},
        {".", "."},
        {"/", "/"},
        {"//", "/"},
        {"a", "a"},
        {"a/", "a"},
        {"a//b/./c", "a/b/c"},
        {"a/..", "."},
        {"a/b/..", "a"},
        {"a/../..", ".."},
        {"../a", "../a"},
        {"../../a/..", "../.."},
        {"/..", "/"},
        {"/../a", "/a"},
        {"/a/../../b", "/b"},
        {"/a/b/../../..", "/"},
        {"./a", "a"},
        {"a/...", "a/..."},
        {"a/..b/c", "a/..b/c"},
        {"a/b../..", "a"},
        {"b../..", "."},
        {"/a/b/../c", "/a/c"},
        {"../b/../c", "../c"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_FREE char *got = path_normal(rows[i][0]);
        cr_assert_str_eq(got, rows[i][1], "%s", rows[i][0]);
        AUTO_FREE char *again = path_normal(got);
        cr_assert_str_eq(again, got, "normal twice: %s", rows[i][0]);
    }
    TEST_END();
}

Test(path, beneath)
{
    cr_assert(path_is_beneath("/a/b", "/a"));
    cr_assert(path_is_beneath("/a", "/a"));
    cr_assert_not(path_is_beneath("/ab", "/a"), "a prefix of a name is no ancestor");
    cr_assert_not(path_is_beneath("/", "/a"));
    cr_assert_not(path_is_beneath("/b/a", "/a"));
    cr_assert(path_is_beneath("/anything", "/"));
    cr_assert(path_is_beneath("/", "/"));
    cr_assert_not(path_is_beneath("relative", "/"));
    TEST_END();
}

Test(path, plain_relative)
{
    static const char *const good[] = {"a", "a/b", ".hidden", "..a", "a../b", "a b", "\xc3\xa9"};
    static const char *const bad[] = {"",      "/",    "/a",  "a/",  ".",     "..",     "a/..",    "../a",
                                      "a/./b", "a//b", "./a", "a\n", "a\x1b", "a/\x7f", "a/b/../c"};
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        cr_assert(path_is_plain_relative(good[i]), "%s", good[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        cr_assert_not(path_is_plain_relative(bad[i]), "%s", bad[i]);
    }
    TEST_END();
}

Test(path, base_and_dir)
{
    static const char *const rows[][3] = {
        {"a", "a", "."}, {"a/b", "b", "a"}, {"/a", "a", "/"}, {"/a/b/c", "c", "/a/b"}, {"/", "", "/"}, {"", "", "."},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cr_assert_str_eq(path_base(rows[i][0]), rows[i][1], "%s", rows[i][0]);
        AUTO_FREE char *dir = path_dir(rows[i][0]);
        cr_assert_str_eq(dir, rows[i][2], "%s", rows[i][0]);
    }
    TEST_END();
}

Test(path, real)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    test_write(&dir, "d/file", "x");
    cr_assert_eq(symlinkat("d", dir.fd, "link"), 0);
    struct orch_err err = ERR_INIT;
    AUTO_FREE char *through = path_join(dir.path, "link/../link/file");
    AUTO_FREE char *got = NULL;
    cr_assert_eq(path_real(through, &got, &err), 0, "%s", err.message);
    cr_assert_str_eq(got + strlen(got) - 7, "/d/file");
    AUTO_FREE char *absent = path_join(dir.path, "absent");
    char *untouched = NULL;
    cr_assert_eq(path_real(absent, &untouched, &err), ORCH_E_NOT_FOUND);
    AUTO_FREE char *beneath_file = path_join(dir.path, "d/file/x");
    cr_assert_eq(path_real(beneath_file, &untouched, &err), ORCH_E_NOT_FOUND);
    cr_assert_null(untouched);
    TEST_END();
}

Test(path, search_takes_only_regular_programs_of_absolute_entries)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    test_write(&dir, "one/tool", "#!/bin/sh\n");
    test_write(&dir, "two/tool", "#!/bin/sh\n");
    cr_assert_eq(fchmodat(dir.fd, "two/tool", 0755, 0), 0);
    cr_assert_eq(mkdirat(dir.fd, "three", 0755), 0);
    cr_assert_eq(mkdirat(dir.fd, "three/tool", 0755), 0);
    AUTO_FREE char *search = xasprintf(":relative:%s/three:%s/one:%s/two", dir.path, dir.path, dir.path);
    AUTO_FREE char *want = path_join(dir.path, "two/tool");
    struct orch_err err = ERR_INIT;
    AUTO_FREE char *got = NULL;
    cr_assert_eq(path_search("tool", search, &got, &err), 0, "%s", err.message);
    cr_assert_str_eq(got, want, "a directory and a file without the x bit are passed over");

    AUTO_FREE char *as_is = NULL;
    cr_assert_eq(path_search(want, "", &as_is, &err), 0);
    cr_assert_str_eq(as_is, want);

    char *none = NULL;
    AUTO_FREE char *not_program = path_join(dir.path, "one/tool");
    cr_assert_eq(path_search(not_program, search, &none, &err), ORCH_E_NOT_FOUND);
    cr_assert_eq(path_search("absent", search, &none, &err), ORCH_E_NOT_FOUND);
    cr_assert_eq(chdir(dir.path), 0);
    cr_assert_eq(path_search("tool", ":two:./two", &none, &err), ORCH_E_NOT_FOUND, "relative entries never count");
    cr_assert_eq(path_search("tool", NULL, &none, &err), ORCH_E_NOT_FOUND);
    cr_assert_null(none);
    TEST_END();
}

Test(path, glob)
{
    static const struct {
        const char *pattern;
        const char *path;
        bool match;
    } rows[] = {
        {"a", "a", true},
        {"a", "b", false},
        {"*", "a", true},
        {"*", "a/b", false},
        {"*.c", "x.c", true},
        {"*.c", "d/x.c", false},
        {"?", "a", true},
        {"?", "ab", false},
        {"d/*", "d/x", true},
        {"d/*", "d/x/y", false},
        {"**", "a/b/c", true},
        {"**/x", "x", true},
        {"**/x", "a/b/x", true},
        {"**/x", "a/b/xy", false},
        {"a/**", "a/b/c", true},
        {"a/**", "b/c", false},
        {"a/**/z", "a/z", true},
        {"a/**/z", "a/b/c/z", true},
        {"a/**/z", "a/b/c/y", false},
        {"**/m/**/z", "a/m/b/z", true},
        {"a", "a/b", false},
        {"a/b", "a", false},
        {".env*", ".env.local", true},
        {"[ab]", "b", true},
        {"\\*", "*", true},
        {"\\*", "x", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cr_assert_eq(path_glob(rows[i].pattern, rows[i].path), rows[i].match, "%s against %s", rows[i].pattern,
                     rows[i].path);
    }
    TEST_END();
}
