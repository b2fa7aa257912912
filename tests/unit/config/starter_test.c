/* SPDX-License-Identifier: Apache-2.0 */
#include "config/starter.h"

#include "base/path.h"
#include "config/tasks.h"
#include "config_support.h"

#include <stdlib.h>

static const struct starter_file *file_of(const struct starter *s, const char *path)
{
    for (size_t i = 0; i < s->count; i++) {
        if (strcmp(s->files[i].path, path) == 0) {
            return &s->files[i];
        }
    }
    cr_assert_fail("no %s", path);
    return NULL;
}

static void make(const char *tasks, uint64_t seed, struct starter *ret)
{
    AUTO_FINDINGS struct config_findings findings = {.count = 0};
    struct orch_err err = ERR_INIT;
    int code = starter_make("first-run", tasks, NULL, seed, ret, &findings, &err);
    cr_assert_eq(code, 0, "%s", err.message);
}

static void write_all(const struct test_dir *dir, const struct starter *s)
{
    for (size_t i = 0; i < s->count; i++) {
        cr_assert(path_is_plain_relative(s->files[i].path));
        cr_assert_eq(strlen(s->files[i].content), s->files[i].len);
        test_write(dir, s->files[i].path, s->files[i].content);
    }
}

/* What is written loads, and its splits cover the data. */
Test(starter, the_project_is_complete)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    AUTO_STARTER struct starter s = {.count = 0};
    make(NULL, 1, &s);
    write_all(&dir, &s);
    AUTO_FREE char *path = path_join(dir.path, "run.yaml");
    AUTO_FINDINGS struct config_findings findings = {.count = 0};
    struct orch_err err = ERR_INIT;
    AUTO_RUN_CONFIG struct run_config *c = NULL;
    int code = run_config_load(path, NULL, &c, &findings, &err);
    AUTO_FREE char *report = config_findings_text(&findings);
    cr_assert_eq(code, 0, "%s", report);
    cr_assert_str_eq(c->name, "first-run");
    cr_assert_eq(c->data.step_size, 3);
    struct tasks_source source = {
        .tasks = c->data.tasks, .split = {c->data.train, c->data.val, c->data.test}, .answers = c->data.answers};
    AUTO_TASKS struct tasks *t = NULL;
    cr_assert_eq(tasks_open(&source, &t, &findings, &err), 0, "%s", err.message);
    cr_assert_eq(tasks_count(t), 10);
    cr_assert_eq(tasks_split_count(t, TASKS_TRAIN), 6);
    cr_assert_eq(tasks_split_count(t, TASKS_VAL), 2);
    cr_assert_eq(tasks_split_count(t, TASKS_TEST), 2);
    cr_assert_eq(file_of(&s, "judge")->mode, 0755);
    cr_assert_eq(file_of(&s, "solve")->mode, 0755);
    cr_assert(strncmp(file_of(&s, "learn")->content, "#!/bin/sh\n", 10) == 0);
    for (size_t i = 0; i < s.count; i++) {
        cr_assert_null(strchr(s.files[i].path, '@'));
        assert_lacks(s.files[i].content, "@NAME@");
        assert_lacks(s.files[i].content, "@SEED@");
        assert_lacks(s.files[i].content, "@STEP@");
    }
    assert_has(file_of(&s, "template/adapter.yaml")->content, "template: first-run@1.0\n");
    TEST_END();
}

Test(starter, the_seed_decides_the_splits)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    char text[8192] = "";
    for (int i = 0; i < 100; i++) {
        size_t at = strlen(text);
        snprintf(text + at, sizeof(text) - at, "{\"id\": %d, \"answer\": \"x\"}\n", i);
    }
    test_write(&dir, "mine.jsonl", text);
    AUTO_FREE char *path = path_join(dir.path, "mine.jsonl");
    AUTO_STARTER struct starter a = {.count = 0};
    AUTO_STARTER struct starter b = {.count = 0};
    AUTO_STARTER struct starter other = {.count = 0};
    make(path, 5, &a);
    make(path, 5, &b);
    make(path, 6, &other);
    cr_assert_str_eq(file_of(&a, "test.txt")->content, file_of(&b, "test.txt")->content);
    cr_assert_str_neq(strchr(file_of(&a, "test.txt")->content, '\n'),
                      strchr(file_of(&other, "test.txt")->content, '\n'));
    size_t lines = 0;
    for (const char *c = file_of(&a, "train.txt")->content; *c != '\0'; c++) {
        lines += *c == '\n';
    }
    cr_assert_eq(lines, 61, "60 ids and a comment");
    for (size_t i = 0; i < a.count; i++) {
        cr_assert_str_neq(a.files[i].path, "tasks.jsonl", "the user's data is not copied");
    }
    TEST_END();
}

Test(starter, what_cannot_be_split)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    test_write(&dir, "two.jsonl", "{\"id\": 1}\n{\"id\": 2}\n");
    test_write(&dir, "bad.jsonl", "{\"id\": 1}\n{\"id\": 1}\n");
    AUTO_FREE char *two = path_join(dir.path, "two.jsonl");
    AUTO_FREE char *bad = path_join(dir.path, "bad.jsonl");
    AUTO_FINDINGS struct config_findings findings = {.count = 0};
    struct orch_err err = ERR_INIT;
    struct starter s = {.count = 0};
    cr_assert_eq(starter_make("a", two, NULL, 1, &s, &findings, &err), ORCH_E_CONFIG);
    assert_has(err.message, "at least 3");
    err_clear(&err);
    cr_assert_eq(starter_make("a", bad, NULL, 1, &s, &findings, &err), ORCH_E_CONFIG);
    cr_assert_eq(findings.count, 1);
    err_clear(&err);
    cr_assert_eq(starter_make("a", NULL, NULL, UINT64_MAX, &s, &findings, &err), ORCH_E_USAGE);
    err_clear(&err);
    cr_assert_eq(starter_make("A B", NULL, NULL, 1, &s, &findings, &err), ORCH_E_USAGE);
    cr_assert_eq(s.count, 0);
    TEST_END();
}

Test(starter, odd_paths_are_quoted)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    AUTO_FINDINGS struct config_findings findings = {.count = 0};
    struct orch_err err = ERR_INIT;
    test_write(&dir, "t.jsonl", "{\"id\": 1}\n{\"id\": 2}\n{\"id\": 3}\n");
    AUTO_FREE char *path = path_join(dir.path, "t.jsonl");
    AUTO_STARTER struct starter s = {.count = 0};
    cr_assert_eq(starter_make("a", path, "my data: \"x\" # y.jsonl", 1, &s, &findings, &err), 0, "%s", err.message);
    AUTO_RUN_CONFIG struct run_config *c = load_good(file_of(&s, "run.yaml")->content, NULL);
    cr_assert_str_eq(c->data.tasks, "/project/my data: \"x\" # y.jsonl");
    TEST_END();
}
