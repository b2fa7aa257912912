/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "roles/program.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void make_executable(const struct test_dir *dir, const char *name)
{
    cr_assert_eq(fchmodat(dir->fd, name, 0755, 0), 0);
}

Test(program, project_words_are_staged_and_others_stay)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    test_write(&dir, "solve", "#!/bin/sh\n");
    test_write(&dir, "lib/a.txt", "a");
    test_write(&dir, "other/lib/b.txt", "b");
    make_executable(&dir, "solve");
    char w0[] = "./solve", w1[] = "-v", w2[] = "./lib", w3[] = "./other/lib", w4[] = "./absent", w5[] = "plain";
    char *command[] = {w0, w1, w2, w3, w4, w5, NULL};
    AUTO_FREE char *stage = path_join(dir.path, "stage");
    struct program p = {0};
    struct orch_err err = ERR_INIT;
    cr_assert_eq(program_prepare(command, dir.path, stage, &p, &err), 0, "%s", err.message);
    static const char *const inside[] = {"/w/program/solve", "-v",       "/w/program/lib",
                                         "/w/program/3-lib", "./absent", "plain"};
    cr_assert_eq(strv_len(p.inside), ARRAY_LEN(inside));
    for (size_t i = 0; i < ARRAY_LEN(inside); i++) {
        cr_assert_str_eq(p.inside[i], inside[i]);
    }
    AUTO_FREE char *copied = test_read(&dir, "stage/3-lib/b.txt");
    cr_assert_str_eq(copied, "b");
    char now[DIGEST_TEXT_MAX];
    cr_assert_eq(program_digest_now(command, dir.path, now, &err), 0);
    cr_assert_str_eq(now, p.digest);
    test_write(&dir, "lib/a.txt", "changed");
    cr_assert_eq(program_digest_now(command, dir.path, now, &err), 0);
    cr_assert_str_neq(now, p.digest, "a change of what is named is seen");
    program_done(&p);
    TEST_END();
}

Test(program, a_file_that_cannot_run_is_named)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    test_write(&dir, "solve", "#!/bin/sh\n");
    char w0[] = "./solve";
    char *command[] = {w0, NULL};
    AUTO_FREE char *stage = path_join(dir.path, "stage");
    struct program p = {0};
    struct orch_err err = ERR_INIT;
    cr_assert_eq(program_prepare(command, dir.path, stage, &p, &err), ORCH_E_CONFIG);
    cr_assert_not_null(strstr(err.message, "./solve"));
    cr_assert_not_null(strstr(err.message, "chmod +x"));
    char w1[] = "./nothing";
    char *absent[] = {w1, NULL};
    cr_assert_eq(program_prepare(absent, dir.path, stage, &p, &err), ORCH_E_CONFIG);
    cr_assert_not_null(strstr(err.message, "./nothing"));
    TEST_END();
}

Test(program, tree_digest_sees_names_modes_and_contents)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    struct orch_err err = ERR_INIT;
    char digests[4][DIGEST_TEXT_MAX];
    test_write(&dir, "t/a", "1");
    AUTO_FREE char *path = path_join(dir.path, "t");
    cr_assert_eq(contents_digest(path, digests[0], &err), 0);
    make_executable(&dir, "t/a");
    cr_assert_eq(contents_digest(path, digests[1], &err), 0);
    cr_assert_eq(renameat(dir.fd, "t/a", dir.fd, "t/b"), 0);
    cr_assert_eq(contents_digest(path, digests[2], &err), 0);
    test_write(&dir, "t/b", "2");
    cr_assert_eq(contents_digest(path, digests[3], &err), 0);
    for (size_t i = 0; i < 4; i++) {
        for (size_t j = i + 1; j < 4; j++) {
            cr_assert_str_neq(digests[i], digests[j], "%zu and %zu", i, j);
        }
    }
    TEST_END();
}
