/* SPDX-License-Identifier: Apache-2.0 */
#include "lab.h"

#include "backends/environments/environment_impl.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

ENVIRONMENT_TEST(puts_a_tree_and_grants_it)
{
    test_write(&lab->dir, "tree/a.txt", "alpha");
    test_write(&lab->dir, "tree/sub/run", "#!/bin/sh\necho ran\n");
    cr_assert_eq(fchmodat(lab->dir.fd, "tree/sub/run", 0755, 0), 0);
    AUTO_FREE char *source = lab_put(lab, "tree");
    AUTO_FREE char *again = lab_put(lab, "tree");
    cr_assert_str_eq(source, again);
    AUTO_SPEC struct sandbox_spec spec = lab_spec(lab);
    spec_grant(&spec, source, "/w/tree", SPEC_RO, SPEC_DIR);
    struct sandbox *sb = lab_sandbox(lab, &spec);
    AUTO_CALL_RESULT struct call_result r =
        lab_sh(lab, sb, "cat /w/tree/a.txt; /w/tree/sub/run; echo x > /w/tree/a.txt || echo refused");
    cr_assert_str_eq(r.out.head, "alpharan\nrefused\n", "%s %s", r.out.head, r.errout.head);
    lab_remove(lab, sb);
    AUTO_FREE char *kept = test_read(&lab->dir, "tree/a.txt");
    cr_assert_str_eq(kept, "alpha");
}

ENVIRONMENT_TEST(puts_a_large_tree)
{
    enum { SIZE = 5000000 };
    AUTO_FREE char *big = xmalloc(SIZE + 1);
    for (size_t i = 0; i < SIZE; i++) {
        big[i] = (char)('a' + i * 7 % 26);
    }
    big[SIZE] = '\0';
    test_write(&lab->dir, "tree/big", big);
    for (int i = 0; i < 300; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "tree/d%d/f%d", i % 10, i);
        test_write(&lab->dir, name, name);
    }
    AUTO_FREE char *source = lab_put(lab, "tree");
    AUTO_SPEC struct sandbox_spec spec = lab_spec(lab);
    spec_grant(&spec, source, "/w/tree", SPEC_RO, SPEC_DIR);
    struct sandbox *sb = lab_sandbox(lab, &spec);
    AUTO_CALL_RESULT struct call_result r =
        lab_sh(lab, sb, "cd /w/tree && find . -type f | wc -l && wc -c < big && cat d3/f103");
    cr_assert_str_eq(r.out.head, "301\n5000000\ntree/d3/f103");
    lab_remove(lab, sb);
}

ENVIRONMENT_TEST(shows_inline_files)
{
    AUTO_SPEC struct sandbox_spec spec = lab_spec(lab);
    static const char text[] = "{\"id\":\"t1\"}\n";
    spec_add_file(&spec, "/w/task.json", text, strlen(text), 0444);
    struct sandbox *sb = lab_sandbox(lab, &spec);
    AUTO_CALL_RESULT struct call_result r = lab_sh(lab, sb, "cat /w/task.json; echo x > /w/task.json || echo no");
    cr_assert_str_eq(r.out.head, "{\"id\":\"t1\"}\nno\n");
    lab_remove(lab, sb);
}

ENVIRONMENT_TEST(gets_a_directory_through_the_sanitizer)
{
    AUTO_SPEC struct sandbox_spec spec = lab_spec(lab);
    spec_grant_work(&spec, "output", NULL, "/w/output", SPEC_RW);
    struct sandbox *sb = lab_sandbox(lab, &spec);
    AUTO_CALL_RESULT struct call_result r =
        lab_sh(lab, sb,
               "cd /w/output && mkdir -p d/e && echo deep > d/e/f && echo hi > a && chmod 700 a && ln -s /etc/passwd l "
               "&& mkfifo p && chmod 000 d/e/f && head -c 3000000 /dev/zero > zeros");
    cr_assert_eq(r.code, 0, "%s", r.errout.head);
    struct handoff_report report;
    cr_assert_eq(lab_get(lab, sb, "/w/output", "got", NULL, &report), 0, "%s", lab->err.message);
    AUTO_FREE char *a = test_read(&lab->dir, "got/a");
    AUTO_FREE char *f = test_read(&lab->dir, "got/d/e/f");
    cr_assert_not_null(a);
    cr_assert_str_eq(a, "hi\n");
    cr_assert_not_null(f);
    cr_assert_str_eq(f, "deep\n");
    cr_assert_eq(report.files, 3);
    cr_assert_eq(report.bytes, 3000000 + 8);
    struct stat st;
    cr_assert_eq(fstatat(lab->dir.fd, "got/a", &st, AT_SYMLINK_NOFOLLOW), 0);
    cr_assert_eq(st.st_uid, geteuid());
    cr_assert_eq(st.st_mode & 07777, 0755);
    cr_assert_neq(fstatat(lab->dir.fd, "got/l", &st, AT_SYMLINK_NOFOLLOW), 0);
    cr_assert_neq(fstatat(lab->dir.fd, "got/p", &st, AT_SYMLINK_NOFOLLOW), 0);
    if (!lab->lossy) {
        cr_assert_eq(report.dropped, 2);
    }
    /* Below the grant, and the same content on a second get. */
    cr_assert_eq(lab_get(lab, sb, "/w/output/d", "got2", NULL, &report), 0, "%s", lab->err.message);
    AUTO_FREE char *f2 = test_read(&lab->dir, "got2/e/f");
    cr_assert_str_eq(f2, "deep\n");
    lab_remove(lab, sb);
}

ENVIRONMENT_TEST(caps_a_get)
{
    AUTO_SPEC struct sandbox_spec spec = lab_spec(lab);
    spec_grant_work(&spec, "output", NULL, "/w/output", SPEC_RW);
    struct sandbox *sb = lab_sandbox(lab, &spec);
    AUTO_CALL_RESULT struct call_result r = lab_sh(lab, sb, "truncate -s 1T /w/output/sparse || exit 3");
    cr_assert_eq(r.code, 0, "%s", r.errout.head);
    struct handoff_report report;
    struct handoff_limits limits = {.bytes = 1 << 20};
    cr_assert_eq(lab_get(lab, sb, "/w/output", "got", &limits, &report), ORCH_E_LIMIT, "%s", lab->err.message);
    lab_remove(lab, sb);
}

ENVIRONMENT_TEST(refuses_to_get_what_is_not_there)
{
    AUTO_SPEC struct sandbox_spec spec = lab_spec(lab);
    spec_grant_work(&spec, "output", NULL, "/w/output", SPEC_RW);
    struct sandbox *sb = lab_sandbox(lab, &spec);
    struct handoff_report report;
    cr_assert_eq(lab_get(lab, sb, "/etc", "got", NULL, &report), ORCH_E_NOT_FOUND);
    cr_assert_eq(lab_get(lab, sb, "/w/output/none", "got2", NULL, &report), ORCH_E_NOT_FOUND, "%s", lab->err.message);
    lab_remove(lab, sb);
}

/* A work directory that starts as a copy of a tree: changes stay in the sandbox. */
ENVIRONMENT_TEST(starts_a_work_directory_from_a_tree)
{
    test_write(&lab->dir, "tree/a", "before");
    AUTO_FREE char *source = lab_put(lab, "tree");
    AUTO_SPEC struct sandbox_spec spec = lab_spec(lab);
    spec_grant_work(&spec, "adapter", source, "/w/adapter", SPEC_RW);
    struct sandbox *sb = lab_sandbox(lab, &spec);
    AUTO_CALL_RESULT struct call_result r =
        lab_sh(lab, sb, "cat /w/adapter/a; printf after > /w/adapter/a; printf new > /w/adapter/b");
    cr_assert_str_eq(r.out.head, "before");
    cr_assert_eq(r.code, 0, "%s", r.errout.head);
    struct handoff_report report;
    cr_assert_eq(lab_get(lab, sb, "/w/adapter", "got", NULL, &report), 0, "%s", lab->err.message);
    AUTO_FREE char *a = test_read(&lab->dir, "got/a");
    AUTO_FREE char *b = test_read(&lab->dir, "got/b");
    AUTO_FREE char *kept = test_read(&lab->dir, "tree/a");
    cr_assert_str_eq(a, "after");
    cr_assert_str_eq(b, "new");
    cr_assert_str_eq(kept, "before");
    lab_remove(lab, sb);
}

/* Where paths are shared a path is a grant; elsewhere it is refused. */
ENVIRONMENT_TEST(shares_paths_only_where_it_says_so)
{
    test_write(&lab->dir, "shared/x", "seen");
    AUTO_FREE char *path = xasprintf("%s/shared", lab->dir.path);
    AUTO_SPEC struct sandbox_spec spec = lab_spec(lab);
    spec_grant(&spec, path, "/w/shared", SPEC_RO, SPEC_DIR);
    struct sandbox *sb = lab_try_sandbox(lab, &spec);
    if (!environment_caps(lab->env)->shares_paths) {
        cr_assert_null(sb);
        cr_assert_lt(lab->err.code, 0);
        return;
    }
    cr_assert_not_null(sb, "%s", lab->err.message);
    AUTO_CALL_RESULT struct call_result r = lab_sh(lab, sb, "cat /w/shared/x");
    cr_assert_str_eq(r.out.head, "seen");
    lab_remove(lab, sb);
}

static void write_big(struct lab *lab, const char *name)
{
    enum { SIZE = 8000000 };
    AUTO_FREE char *big = xmalloc(SIZE + 1);
    memset(big, 'b', SIZE);
    big[SIZE] = '\0';
    test_write(&lab->dir, name, big);
}

static void on_put_ended(struct environment *env, const struct put_result *r, void *arg)
{
    struct lab *lab = arg;
    (void)env;
    cr_assert(r->err.code == 0 || r->err.code == ORCH_E_INTERRUPTED || r->err.code == ORCH_E_LOST, "%s",
              r->err.message);
    lab->ended++;
}

static void on_get_ended(struct sandbox *sb, const struct get_result *r, void *arg)
{
    struct lab *lab = arg;
    (void)sb;
    cr_assert(r->err.code == 0 || r->err.code == ORCH_E_INTERRUPTED || r->err.code == ORCH_E_LOST, "%s",
              r->err.message);
    lab->ended++;
}

static void start_transfers(struct lab *lab)
{
    write_big(lab, "one/big");
    write_big(lab, "two/big2");
    AUTO_SPEC struct sandbox_spec spec = lab_spec(lab);
    spec_grant_work(&spec, "output", NULL, "/w/output", SPEC_RW);
    struct sandbox *sb = lab_sandbox(lab, &spec);
    AUTO_CALL_RESULT struct call_result r = lab_sh(lab, sb, "head -c 8000000 /dev/zero > /w/output/zeros");
    cr_assert_eq(r.code, 0, "%s", r.errout.head);
    AUTO_FREE char *one = xasprintf("%s/one", lab->dir.path);
    AUTO_FREE char *two = xasprintf("%s/two", lab->dir.path);
    const struct handoff_limits limits = {0};
    cr_assert_eq(mkdirat(lab->dir.fd, "got", 0755), 0);
    int fd = openat(lab->dir.fd, "got", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cr_assert_eq(sandbox_get(sb, "/w/output", fd, &limits, on_get_ended, lab, &lab->err), 0, "%s", lab->err.message);
    (void)close(fd);
    cr_assert_eq(environment_put(lab->env, one, on_put_ended, lab, &lab->err), 0, "%s", lab->err.message);
    cr_assert_eq(environment_put(lab->env, two, on_put_ended, lab, &lab->err), 0, "%s", lab->err.message);
    for (int i = 0; i < 8; i++) {
        (void)uv_run(&lab->loop, UV_RUN_NOWAIT);
    }
}

/* Trees under way when the environment closes: one completion each, nothing left (lab_close). */
ENVIRONMENT_TEST(closes_while_trees_are_under_way)
{
    start_transfers(lab);
    lab->must_end = 3;
}

/* The same when the node dies. */
ENVIRONMENT_TEST(loses_trees_with_the_node)
{
    start_transfers(lab);
    cr_assert_eq(kill(lab->env->pid, SIGKILL), 0);
    while (lab->ended < 3) {
        (void)uv_run(&lab->loop, UV_RUN_ONCE);
    }
    lab->must_end = 3;
}

/* Links that stay inside pass when asked for, in both directions. */
ENVIRONMENT_TEST(keeps_links_inside_a_tree)
{
    test_write(&lab->dir, "tree/a/file", "x");
    cr_assert_eq(symlinkat("a/file", lab->dir.fd, "tree/link"), 0);
    AUTO_FREE char *source = lab_put(lab, "tree");
    AUTO_SPEC struct sandbox_spec spec = lab_spec(lab);
    spec_grant(&spec, source, "/w/tree", SPEC_RO, SPEC_DIR);
    spec_grant_work(&spec, "output", NULL, "/w/output", SPEC_RW);
    struct sandbox *sb = lab_sandbox(lab, &spec);
    AUTO_CALL_RESULT struct call_result r =
        lab_sh(lab, sb, "cat /w/tree/link && cd /w/output && echo y > f && ln -s f in && ln -s ../../etc/passwd out");
    cr_assert_str_eq(r.out.head, "x", "%s", r.errout.head);
    struct handoff_report report;
    const struct handoff_limits limits = {.keep_links = true};
    cr_assert_eq(lab_get(lab, sb, "/w/output", "got", &limits, &report), 0, "%s", lab->err.message);
    char target[64] = "";
    cr_assert_eq(readlinkat(lab->dir.fd, "got/in", target, sizeof target - 1), 1);
    cr_assert_str_eq(target, "f");
    cr_assert_eq(readlinkat(lab->dir.fd, "got/out", target, sizeof target - 1), -1);
    lab_remove(lab, sb);
}
