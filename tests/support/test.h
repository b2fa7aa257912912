/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one header of a unit test: Criterion behind a thin local wall, so that a
 * change of framework stays mechanical. Only the classic cr_assert_* macros.
 *
 *   Test(buf, keeps_the_maximum)
 *   {
 *       …
 *       TEST_END();                      // last line: no leak of this test is left
 *   }
 *
 * Rules that Criterion forces on us: no assertion in .fini (it would not be seen),
 * a forked child only execs or calls _exit, one program a folder.
 * A test that needs a capability the machine lacks calls TEST_SKIP(why); with
 * CI=true in the environment that is a failure.
 */
#ifndef ORCH_SUPPORT_TEST_H
#define ORCH_SUPPORT_TEST_H

#include <criterion/criterion.h>

#include <stdbool.h>
#include <stddef.h>

/* A directory of this test's own, removed at the end of the scope:
 *   AUTO_TEST_DIR struct test_dir dir = test_dir_new(); */
struct test_dir {
    char *path; /* absolute, owned */
    int fd;     /* owned */
};
struct test_dir test_dir_new(void);
void test_dir_done(struct test_dir *dir); /* removes the tree; accepts {NULL, -1} */
#define AUTO_TEST_DIR __attribute__((cleanup(test_dir_done)))

/* Writes `text` into dir/name (parents are made); aborts the test on failure. */
void test_write(const struct test_dir *dir, const char *name, const char *text);
/* The whole of dir/name, owned by the caller; NULL if it is not there. */
char *test_read(const struct test_dir *dir, const char *name);

/* Path of a built program or file, below the build tree (ORCH_BUILD, set by ctest), for
 * example test_built("backends/orch-node"); owned by the caller. */
char *test_built(const char *relative);
/* Path of a file of the source tree (ORCH_SOURCE, set by ctest); owned by the caller. */
char *test_source(const char *relative);

/* Number of open descriptors of this process: take it before and after. */
int test_open_fds(void);

/* True if this program runs under AddressSanitizer. */
bool test_has_asan(void);
/* Leaks of this process so far, as LeakSanitizer sees them; always 0 without AddressSanitizer. */
int test_leaks(void);

/* Last statement of a test body. In the body, because the worker's exit code would hide it. */
#define TEST_END() cr_assert_eq(test_leaks(), 0, "memory was leaked: see the report above")

/* Leaves the test as skipped, loudly; a failure where CI says that nothing may be missing. */
#define TEST_SKIP(...)                                                                                                 \
    do {                                                                                                               \
        cr_assert(!test_must_not_skip(), "skipped, but CI=true: " __VA_ARGS__);                                        \
        cr_skip_test(__VA_ARGS__);                                                                                     \
    } while (0)
bool test_must_not_skip(void);

#endif
