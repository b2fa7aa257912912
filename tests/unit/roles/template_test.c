/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "roles/template.h"

#include <string.h>
#include <unistd.h>

#define ADAPTER "template: t@1\nlearnable: [rules.txt, 'notes/**']\nfixed: [notes/keep.txt]\n"

static void make_root(const struct test_dir *dir, const char *where)
{
    static const char *const files[][2] = {
        {"adapter.yaml", ADAPTER}, {"rules.txt", "a\n"}, {"ADAPTER.md", "fixed\n"}, {"notes/keep.txt", "keep\n"}};
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        AUTO_FREE char *name = xasprintf("%s/%s", where, files[i][0]);
        test_write(dir, name, files[i][1]);
    }
}

struct fixture {
    struct test_dir dir;
    char *root;
    char *candidate;
    struct template t;
};

static void fixture_done(struct fixture *f)
{
    free(f->root);
    free(f->candidate);
    template_done(&f->t);
    test_dir_done(&f->dir);
}

static struct fixture fixture_new(void)
{
    struct fixture f = {.dir = test_dir_new()};
    make_root(&f.dir, "root");
    make_root(&f.dir, "candidate");
    f.root = path_join(f.dir.path, "root");
    f.candidate = path_join(f.dir.path, "candidate");
    AUTO_FINDINGS struct config_findings findings = {0};
    struct orch_err err = ERR_INIT;
    cr_assert_eq(template_load(f.root, &f.t, &findings, &err), 0, "%s", err.message);
    return f;
}

static struct template_verdict check(const struct fixture *f)
{
    struct template_verdict v = {0};
    struct orch_err err = ERR_INIT;
    cr_assert_eq(template_check(&f->t, f->root, f->candidate, &v, &err), 0, "%s", err.message);
    return v;
}

static struct template_verdict settle(const struct fixture *f)
{
    struct template_verdict v = {0};
    struct orch_err err = ERR_INIT;
    cr_assert_eq(template_settle(&f->t, f->root, f->candidate, &v, &err), 0, "%s", err.message);
    return v;
}

Test(template, learnable_files_may_change_and_appear)
{
    struct fixture f = fixture_new();
    test_write(&f.dir, "candidate/rules.txt", "b\n");
    test_write(&f.dir, "candidate/notes/deep/new.txt", "n\n");
    struct template_verdict v = check(&f);
    cr_assert_eq(strv_len(v.violations), 0);
    cr_assert_eq(v.changed, 2);
    template_verdict_done(&v);
    fixture_done(&f);
    TEST_END();
}

Test(template, everything_else_is_byte_identical)
{
    struct fixture f = fixture_new();
    test_write(&f.dir, "candidate/ADAPTER.md", "changed\n");
    test_write(&f.dir, "candidate/notes/keep.txt", "changed\n");
    test_write(&f.dir, "candidate/adapter.yaml", "template: t@1\nlearnable: ['**']\n");
    test_write(&f.dir, "candidate/other.txt", "new\n");
    struct template_verdict v = check(&f);
    cr_assert_eq(strv_len(v.violations), 4);
    template_verdict_done(&v);
    cr_assert_eq(unlinkat(f.dir.fd, "candidate/ADAPTER.md", 0), 0);
    v = check(&f);
    cr_assert_eq(strv_len(v.violations), 4, "a removed fixed file is one too");
    template_verdict_done(&v);
    fixture_done(&f);
    TEST_END();
}

Test(template, drop_puts_the_root_back)
{
    struct fixture f = fixture_new();
    f.t.drop = true;
    test_write(&f.dir, "candidate/rules.txt", "learned\n");
    test_write(&f.dir, "candidate/ADAPTER.md", "changed\n");
    test_write(&f.dir, "candidate/other.txt", "new\n");
    struct template_verdict looked = check(&f); /* looking changes nothing, whatever the rules say */
    cr_assert_eq(strv_len(looked.violations), 2);
    template_verdict_done(&looked);
    AUTO_FREE char *still = test_read(&f.dir, "candidate/other.txt");
    cr_assert_str_eq(still, "new\n");
    struct template_verdict v = settle(&f);
    cr_assert_eq(strv_len(v.violations), 2, "they are told all the same");
    template_verdict_done(&v);
    AUTO_FREE char *fixed = test_read(&f.dir, "candidate/ADAPTER.md");
    AUTO_FREE char *learned = test_read(&f.dir, "candidate/rules.txt");
    AUTO_FREE char *other = test_read(&f.dir, "candidate/other.txt");
    cr_assert_str_eq(fixed, "fixed\n");
    cr_assert_str_eq(learned, "learned\n");
    cr_assert_null(other);
    fixture_done(&f);
    TEST_END();
}

Test(template, bad_adapter_yaml_is_refused_with_its_place)
{
    static const char *const bad[] = {
        "learnable: [a]\n",
        "template: t\nlearnable: [a]\n",
        "template: t@1\n",
        "template: t@1\nlearnable: a\n",
        "template: t@1\nlearnable: [a]\nlearnabel: [b]\n",
        "template: t@1\nlearnable: [a]\non_violation: ignore\n",
        "template: t@1\nlearnable: [a]\ncheck: {command: [x], timeout: soon}\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        AUTO_TEST_DIR struct test_dir dir = test_dir_new();
        test_write(&dir, "adapter.yaml", bad[i]);
        AUTO_FINDINGS struct config_findings findings = {0};
        struct orch_err err = ERR_INIT;
        struct template t = {0};
        cr_assert_eq(template_load(dir.path, &t, &findings, &err), ORCH_E_CONFIG, "accepted: %s", bad[i]);
        cr_assert_gt(findings.count, 0);
    }
    TEST_END();
}
