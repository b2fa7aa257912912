/* SPDX-License-Identifier: Apache-2.0 */
#include "config/starter.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/rng.h"
#include "config/starter_text.h"
#include "config/tasks.h"
#include "config/units.h"
#include "config/yaml.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LEAST_TASKS 3 /* one for each split */
#define SHARE_PERCENT 20
#define STEP_MAX 8
#define SEED_MAX ((UINT64_C(1) << 53) - 1) /* what the config accepts */

static void add_file(struct starter *s, const char *path, mode_t mode, char *content, size_t len)
{
    s->files = xrealloc(s->files, (s->count + 1) * sizeof(*s->files));
    s->files[s->count++] = (struct starter_file){.path = xstrdup(path), .mode = mode, .content = content, .len = len};
}

void starter_done(struct starter *starter)
{
    for (size_t i = 0; i < starter->count; i++) {
        free(starter->files[i].path);
        free(starter->files[i].content);
    }
    free(starter->files);
    memset(starter, 0, sizeof(*starter));
}

/* --- splits --- */

static size_t share(size_t count)
{
    size_t part = count * SHARE_PERCENT / 100;
    return part == 0 ? 1 : part;
}

/* Ids in the order of the data, so that a split can be read beside it. */
static void add_split(struct starter *s, const struct tasks *tasks, const char *const *which, const char *name,
                      uint64_t seed)
{
    AUTO_BUF struct buf b;
    buf_init(&b, TASKS_SPLIT_BYTES_MAX);
    buf_fmt(&b, "# ids of the %s split, one a line; drawn with seed %llu\n", name, (unsigned long long)seed);
    for (size_t i = 0; i < tasks_count(tasks); i++) {
        if (strcmp(which[i], name) == 0) {
            buf_fmt(&b, "%s\n", tasks_id(tasks, i));
        }
    }
    AUTO_FREE char *path = xasprintf("%s.txt", name);
    size_t len;
    char *text = buf_take(&b, &len);
    add_file(s, path, 0644, text, len);
}

static void add_splits(struct starter *s, const struct tasks *tasks, uint64_t seed)
{
    size_t count = tasks_count(tasks);
    AUTO_FREE size_t *order = xcalloc(count, sizeof(*order));
    AUTO_FREE const char **which = xcalloc(count, sizeof(*which));
    for (size_t i = 0; i < count; i++) {
        order[i] = i;
    }
    struct rng rng = rng_seeded(seed, "starter-split");
    rng_shuffle(&rng, order, count);
    size_t val = share(count);
    size_t test = share(count);
    for (size_t i = 0; i < count; i++) {
        enum tasks_split split = i < test ? TASKS_TEST : i < test + val ? TASKS_VAL : TASKS_TRAIN;
        which[order[i]] = tasks_split_names[split];
    }
    for (size_t i = 0; i < TASKS_SPLIT_COUNT; i++) {
        add_split(s, tasks, which, tasks_split_names[i], seed);
    }
}

/* --- files --- */

/* The text with each @WORD@ replaced. */
static char *filled(const char *text, const char *const (*words)[2], size_t count)
{
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_TEXT);
    while (*text != '\0') {
        bool replaced = false;
        for (size_t i = 0; i < count && !replaced; i++) {
            size_t len = strlen(words[i][0]);
            if (strncmp(text, words[i][0], len) == 0) {
                buf_str(&b, words[i][1]);
                text += len;
                replaced = true;
            }
        }
        if (!replaced) {
            buf_char(&b, *text++);
        }
    }
    return buf_take(&b, NULL);
}

/* Two steps at least, so that the second shows what the first learned. */
static size_t step_size(size_t count)
{
    size_t train = count - 2 * share(count);
    size_t half = train / 2;
    return half < 1 ? 1 : half > STEP_MAX ? STEP_MAX : half;
}

static void add_texts(struct starter *s, const char *name, const char *tasks_written, uint64_t seed, size_t count)
{
    AUTO_FREE char *tasks = yaml_scalar_text(tasks_written);
    char seed_text[32];
    snprintf(seed_text, sizeof(seed_text), "%llu", (unsigned long long)seed);
    char step_text[32];
    snprintf(step_text, sizeof(step_text), "%zu", step_size(count));
    const char *const words[][2] = {{"@STEP@", step_text}, {"@NAME@", name}, {"@TASKS@", tasks}, {"@SEED@", seed_text}};
    for (size_t i = 0; i < starter_text_count; i++) {
        char *content = filled(starter_texts[i].content, words, ARRAY_LEN(words));
        add_file(s, starter_texts[i].path, starter_texts[i].mode, content, strlen(content));
    }
}

/* The example's rows reach the reader of tasks by a sealed file: one way to read tasks is enough. */
static int open_tasks(const char *tasks_path, struct tasks **ret, struct config_findings *findings,
                      struct orch_err *err)
{
    if (tasks_path != NULL) {
        return tasks_open(&(struct tasks_source){.tasks = tasks_path}, ret, findings, err);
    }
    AUTO_FD int fd = fd_memfd("starter-tasks", starter_example_tasks, strlen(starter_example_tasks), err);
    TRY(fd);
    AUTO_FREE char *path = xasprintf("/proc/self/fd/%d", fd);
    return tasks_open(&(struct tasks_source){.tasks = path}, ret, findings, err);
}

int starter_make(const char *name, const char *tasks_path, const char *tasks_as_written, uint64_t seed,
                 struct starter *ret, struct config_findings *findings, struct orch_err *err)
{
    AUTO_TASKS struct tasks *tasks = NULL;
    if (!units_is_name(name)) {
        return err_set(err, ORCH_E_USAGE, "`%s` is not a name: small letters, digits, and . _ -", name);
    }
    if (seed > SEED_MAX) {
        return err_set(err, ORCH_E_USAGE, "the seed is larger than %llu", (unsigned long long)SEED_MAX);
    }
    TRY(open_tasks(tasks_path, &tasks, findings, err));
    if (tasks_count(tasks) < LEAST_TASKS) {
        return err_set(err, ORCH_E_CONFIG, "%zu tasks cannot be split in three: at least %d are needed",
                       tasks_count(tasks), LEAST_TASKS);
    }
    AUTO_STARTER struct starter s = {.count = 0};
    add_texts(&s, name, tasks_as_written == NULL ? "tasks.jsonl" : tasks_as_written, seed, tasks_count(tasks));
    if (tasks_path == NULL) {
        add_file(&s, "tasks.jsonl", 0644, xstrdup(starter_example_tasks), strlen(starter_example_tasks));
    }
    add_splits(&s, tasks, seed);
    *ret = s;
    s = (struct starter){.count = 0};
    return 0;
}
