/* SPDX-License-Identifier: Apache-2.0 */
#include "config/tasks.h"

#include "base/path.h"
#include "config_support.h"

#include <stdlib.h>
#include <unistd.h>

struct data {
    struct test_dir dir;
    char *tasks;
    char *split[TASKS_SPLIT_COUNT];
    struct tasks_source source;
};

static void data_done(struct data *d)
{
    free(d->tasks);
    for (size_t i = 0; i < TASKS_SPLIT_COUNT; i++) {
        free(d->split[i]);
    }
    test_dir_done(&d->dir);
}

#define AUTO_DATA __attribute__((cleanup(data_done)))

static struct data data_new(const char *tasks, const char *train, const char *val, const char *test)
{
    const char *const texts[TASKS_SPLIT_COUNT] = {train, val, test};
    struct data d = {.dir = test_dir_new()};
    test_write(&d.dir, "tasks.jsonl", tasks);
    d.tasks = path_join(d.dir.path, "tasks.jsonl");
    d.source.tasks = d.tasks;
    for (size_t i = 0; i < TASKS_SPLIT_COUNT; i++) {
        if (texts[i] != NULL) {
            AUTO_FREE char *name = xasprintf("%s.txt", tasks_split_names[i]);
            test_write(&d.dir, name, texts[i]);
            d.split[i] = path_join(d.dir.path, name);
            d.source.split[i] = d.split[i];
        }
    }
    return d;
}

static struct tasks *open_good(const struct data *d)
{
    AUTO_FINDINGS struct config_findings findings = {.count = 0};
    struct orch_err err = ERR_INIT;
    struct tasks *t = NULL;
    int code = tasks_open(&d->source, &t, &findings, &err);
    cr_assert_eq(code, 0, "%s", err.message);
    return t;
}

/* The report, without the name of the directory. */
static char *open_bad(const struct data *d)
{
    AUTO_FINDINGS struct config_findings findings = {.count = 0};
    struct orch_err err = ERR_INIT;
    struct tasks *t = NULL;
    cr_assert_eq(tasks_open(&d->source, &t, &findings, &err), ORCH_E_CONFIG);
    cr_assert_null(t);
    char *text = config_findings_text(&findings);
    AUTO_FREE char *prefix = xasprintf("%s/", d->dir.path);
    for (char *at = strstr(text, prefix); at != NULL; at = strstr(text, prefix)) {
        memmove(at, at + strlen(prefix), strlen(at + strlen(prefix)) + 1);
    }
    return text;
}

static char *row_text(const struct tasks *t, const char *id, bool public)
{
    struct orch_err err = ERR_INIT;
    size_t row = 0;
    char *text = NULL;
    size_t len = 0;
    cr_assert(tasks_find(t, id, &row), "%s", id);
    int code = public ? tasks_public_row(t, row, &text, &len, &err) : tasks_read_row(t, row, &text, &len, &err);
    cr_assert_eq(code, 0, "%s", err.message);
    cr_assert_eq(len, strlen(text));
    return text;
}

Test(tasks, rows_and_splits)
{
    AUTO_DATA struct data d =
        data_new("{\"id\":\"a\",\"q\":1}\n\n  {\"task_id\":\"b\"}  \r\n{\"id\":7}", "# ids\nb\n\na\n",
                 "\xef\xbb\xbf"
                 "7\r\n",
                 NULL);
    AUTO_TASKS struct tasks *t = open_good(&d);
    cr_assert_eq(tasks_count(t), 3);
    cr_assert_str_eq(tasks_id(t, 0), "a");
    cr_assert_str_eq(tasks_id(t, 2), "7");
    cr_assert_eq(tasks_split_count(t, TASKS_TRAIN), 2);
    cr_assert_eq(tasks_split_row(t, TASKS_TRAIN, 0), 1, "the order of the file");
    cr_assert_eq(tasks_split_row(t, TASKS_VAL, 0), 2);
    cr_assert_eq(tasks_split_count(t, TASKS_TEST), 0);
    cr_assert(digest_is_valid(tasks_digest(t)));
    cr_assert(digest_is_valid(tasks_split_digest(t, TASKS_VAL)));
    cr_assert_str_eq(tasks_split_digest(t, TASKS_TEST), "");
    AUTO_FREE char *b = row_text(t, "b", false);
    cr_assert_str_eq(b, "{\"task_id\":\"b\"}");
    AUTO_FREE char *a = row_text(t, "a", false);
    cr_assert_str_eq(a, "{\"id\":\"a\",\"q\":1}");
    char whole[DIGEST_TEXT_MAX];
    AUTO_FREE char *text = test_read(&d.dir, "tasks.jsonl");
    digest_of(text, strlen(text), whole);
    cr_assert_str_eq(tasks_digest(t), whole);
    TEST_END();
}

Test(tasks, answers_are_left_out_and_numbers_stay)
{
    static const char row[] =
        "{\"id\": 9007199254740993, \"big\": 123456789012345678901234567890, \"x\": 1.10, "
        "\"answer\": {\"a\": [1, \"}\"]}, \"s\": \"\\\"answer\\\": 1\", \"ans\\u0077er2\": 5, \"in\": "
        "{\"answer\": 1}}\n";
    AUTO_DATA struct data d = data_new(row, "9007199254740993\n", NULL, NULL);
    char *answers[] = {(char[]){"answer"}, (char[]){"answer2"}, NULL};
    d.source.answers = answers;
    AUTO_TASKS struct tasks *t = open_good(&d);
    AUTO_FREE char *all = row_text(t, "9007199254740993", false);
    cr_assert(strncmp(all, row, strlen(all)) == 0, "verbatim");
    AUTO_FREE char *public = row_text(t, "9007199254740993", true);
    cr_assert_str_eq(public, "{\"id\": 9007199254740993,\"big\": 123456789012345678901234567890,\"x\": 1.10,\"s\": "
                             "\"\\\"answer\\\": 1\",\"in\": {\"answer\": 1}}");
    TEST_END();
}

Test(tasks, public_row_of_only_answers)
{
    AUTO_DATA struct data d = data_new("{\"answer\":1,\"id\":\"a\",\"key\":2}\n", "a\n", NULL, NULL);
    char *answers[] = {(char[]){"answer"}, (char[]){"key"}, NULL};
    d.source.answers = answers;
    AUTO_TASKS struct tasks *t = open_good(&d);
    AUTO_FREE char *public = row_text(t, "a", true);
    cr_assert_str_eq(public, "{\"id\":\"a\"}");
    TEST_END();
}

Test(tasks, bad_rows)
{
    static const struct {
        const char *row;
        const char *expected;
    } table[] = {
        {"{\"id\":\"a\",\"x\":NaN}", "[not-json]"},
        {"{\"id\":\"a\"", "[not-json]"},
        {"{\"id\":\"a\"} x", "[not-json]"},
        {"{\"id\":\"a\",\"id\":\"b\"}", "[duplicate-key]"},
        {"[1]", "[wrong-type]"},
        {"\"a\"", "[wrong-type]"},
        {"{\"x\":1}", "the row has no `id`"},
        {"{\"id\":1.5}", "the id is `1.5`"},
        {"{\"id\":1e3}", "the id is `1e3`"},
        {"{\"id\":null}", "the id is `null`"},
        {"{\"id\":true}", "the id is `true`"},
        {"{\"id\":\"\"}", "the id is empty"},
        {"{\"id\":\" a\"}", "starts or ends with a space"},
        {"{\"id\":\"a\\u0007b\"}", "control or invisible"},
        {"{\"id\":\"a\\u202eb\"}", "control or invisible"},
        {"{\"id\":\"a\\u200bb\"}", "control or invisible"},
        {"{\"id\":\"#a\"}", "comment"},
        {"{\"id\":\"\xff\"}", "[not-json]"},
        {"{\"id\":\"a\",\"x\":1e999}", "[not-json]"},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        AUTO_FREE char *text = xasprintf("{\"id\":\"fine\"}\n%s\n", table[i].row);
        AUTO_DATA struct data d = data_new(text, NULL, NULL, NULL);
        AUTO_FREE char *report = open_bad(&d);
        assert_has(report, table[i].expected);
        cr_assert(strncmp(report, "tasks.jsonl:2", 13) == 0, "%s", report);
    }
    char id[TASKS_ID_BYTES_MAX + 2];
    memset(id, 'a', sizeof(id) - 1);
    id[sizeof(id) - 1] = '\0';
    AUTO_FREE char *text = xasprintf("{\"id\":\"%s\"}\n", id);
    AUTO_DATA struct data d = data_new(text, NULL, NULL, NULL);
    AUTO_FREE char *report = open_bad(&d);
    assert_has(report, "longer than 200 bytes");
    TEST_END();
}

Test(tasks, ids_that_are_the_same_or_alike)
{
    static const struct {
        const char *rows;
        const char *expected;
    } table[] = {
        {"{\"id\":1}\n{\"id\":\"1\"}\n",
         "tasks.jsonl:2: id `1` is given twice: on line 1 and on line 2 [duplicate-id]"},
        {"{\"id\":\"a\"}\n\n{\"task_id\":\"a\"}\n", "on line 1 and on line 3"},
        {"{\"id\":\"Ab\"}\n{\"id\":\"aB\"}\n", "id `Ab` on line 1 and id `aB` on line 2 differ only in case"},
        {"{\"id\":\"caf\\u00e9\"}\n{\"id\":\"cafe\\u0301\"}\n", "[alike-ids]"},
        {"{\"id\":\"stra\\u00dfe\"}\n{\"id\":\"STRASSE\"}\n", "[alike-ids]"},
        {"{\"id\":0}\n{\"id\":-0}\n", "[duplicate-id]"},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        AUTO_DATA struct data d = data_new(table[i].rows, NULL, NULL, NULL);
        AUTO_FREE char *report = open_bad(&d);
        assert_has(report, table[i].expected);
    }
    TEST_END();
}

Test(tasks, bad_splits)
{
    static const char rows[] = "{\"id\":\"alpha\"}\n{\"id\":\"beta\"}\n{\"id\":\"gamma\"}\n";
    static const struct {
        const char *train, *val;
        const char *expected;
    } table[] = {
        {"alpha\nbeta\nalpha\n", NULL,
         "train.txt:3:1: id `alpha` is given twice: on line 1 and on line 3 [duplicate-id]"},
        {"alpha\n", "# x\nalpha\n", "val.txt:2:1: id `alpha` is in two splits: train.txt:1 and val.txt:2 [overlap]"},
        {"alpah\n", NULL,
         "train.txt:1:1: id `alpah` is not in the data [unknown-id]\n  expected: an id of tasks.jsonl\n  nearest: "
         "alpha\n"},
        {"Alpha\n", NULL, "nearest: alpha"},
        {"\n# nothing\n", NULL, "train.txt: the split holds no id [no-tasks]"},
        {"alpha beta\n", NULL, "id `alpha beta` is not in the data"},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        AUTO_DATA struct data d = data_new(rows, table[i].train, table[i].val, NULL);
        AUTO_FREE char *report = open_bad(&d);
        assert_has(report, table[i].expected);
    }
    AUTO_DATA struct data empty = data_new("\n", NULL, NULL, NULL);
    AUTO_FREE char *report = open_bad(&empty);
    assert_has(report, "the file holds no task");
    TEST_END();
}

Test(tasks, a_changed_file_is_noticed)
{
    AUTO_DATA struct data d = data_new("{\"id\":\"a\",\"x\":1}\n{\"id\":\"b\"}\n", "a\n", NULL, NULL);
    AUTO_TASKS struct tasks *t = open_good(&d);
    test_write(&d.dir, "tasks.jsonl", "{\"id\":\"a\",\"x\":2}\n");
    struct orch_err err = ERR_INIT;
    char *text = NULL;
    size_t len = 0;
    cr_assert_eq(tasks_read_row(t, 0, &text, &len, &err), ORCH_E_DRIFT);
    assert_has(err.message, "task `a` changed");
    err_clear(&err);
    cr_assert_eq(tasks_public_row(t, 1, &text, &len, &err), ORCH_E_DRIFT);
    cr_assert_null(text);
    TEST_END();
}

Test(tasks, absent_and_special_files)
{
    AUTO_DATA struct data d = data_new("{\"id\":\"a\"}\n", NULL, NULL, NULL);
    AUTO_FINDINGS struct config_findings findings = {.count = 0};
    struct orch_err err = ERR_INIT;
    struct tasks *t = NULL;
    struct tasks_source none = {.tasks = "/nonexistent/tasks.jsonl"};
    cr_assert_lt(tasks_open(&none, &t, &findings, &err), 0);
    err_clear(&err);
    struct tasks_source special = {.tasks = "/dev/zero"};
    cr_assert_lt(tasks_open(&special, &t, &findings, &err), 0);
    err_clear(&err);
    d.source.split[TASKS_TEST] = "/nonexistent/test.txt";
    cr_assert_lt(tasks_open(&d.source, &t, &findings, &err), 0);
    assert_has(err.message, "data.test");
    cr_assert_null(t);
    TEST_END();
}

static long resident_kib(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f != NULL) {
        if (fscanf(f, "%*d %ld", &pages) != 1) {
            pages = 0;
        }
        fclose(f);
    }
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* 100,000 rows are a file of 73 MB; what stays in memory is far less. */
Test(tasks, many_rows_stay_small)
{
    enum { ROWS = 100000, PADDING = 700 };
    AUTO_DATA struct data d = data_new("", NULL, NULL, NULL);
    FILE *f = fopen(d.tasks, "w");
    cr_assert_not_null(f);
    for (int i = 0; i < ROWS; i++) {
        fprintf(f, "{\"id\": \"task-%06d\", \"text\": \"%0*d\"}\n", i, PADDING, 0);
    }
    fclose(f);
    long before = resident_kib();
    AUTO_TASKS struct tasks *t = open_good(&d);
    long grown = resident_kib() - before;
    cr_assert_eq(tasks_count(t), ROWS);
    size_t row = 0;
    cr_assert(tasks_find(t, "task-099999", &row));
    AUTO_FREE char *text = row_text(t, "task-099999", false);
    assert_has(text, "task-099999");
    if (!test_has_asan()) { /* which keeps what was freed */
        cr_assert_lt(grown, 40 * 1024, "%ld KiB", grown);
    }
    TEST_END();
}
