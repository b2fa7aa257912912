/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data: a JSONL file of tasks and the split files. Rows stay in the file;
 * memory holds an id, a place and a check value a row. A row changed or moved
 * after opening is noticed when it is read.
 *
 * `id` (or `task_id`) is text; an integer becomes its exact decimal text, so
 * that 1 and "1" are the same id and refused as duplicates. Ids that differ
 * only in case or Unicode normalisation are refused too.
 */
#ifndef ORCH_CONFIG_TASKS_H
#define ORCH_CONFIG_TASKS_H

#include "base/digest.h"
#include "config/findings.h"

#include <stdbool.h>
#include <stddef.h>

#define TASKS_ROWS_MAX ((size_t)4000000)
#define TASKS_ROW_BYTES_MAX ((size_t)16 << 20)
#define TASKS_ID_BYTES_MAX 200 /* fits a file name */
#define TASKS_SPLIT_BYTES_MAX ((size_t)256 << 20)

enum tasks_split { TASKS_TRAIN, TASKS_VAL, TASKS_TEST, TASKS_SPLIT_COUNT };
extern const char *const tasks_split_names[]; /* "train", "val", "test" */

struct tasks_source {
    const char *tasks;                    /* JSONL file */
    const char *split[TASKS_SPLIT_COUNT]; /* NULL: none */
    char *const *answers;                 /* top-level fields that are answers; NULL: none */
};

struct tasks;

/* Reads everything once. On findings returns ORCH_E_CONFIG with the list. *ret_tasks is owned by the caller and keeps
 * the file open. */
MUST_USE int tasks_open(const struct tasks_source *source, struct tasks **ret_tasks, struct config_findings *findings,
                        struct orch_err *err);
void tasks_free(struct tasks *tasks); /* NULL is fine */
void tasks_release(struct tasks **tasks);
#define AUTO_TASKS __attribute__((cleanup(tasks_release)))

size_t tasks_count(const struct tasks *tasks);
const char *tasks_id(const struct tasks *tasks, size_t row); /* borrowed */
bool tasks_find(const struct tasks *tasks, const char *id, size_t *ret_row);
/* Rows of a split, in the order of its file. */
size_t tasks_split_count(const struct tasks *tasks, enum tasks_split split);
size_t tasks_split_row(const struct tasks *tasks, enum tasks_split split, size_t place);
/* Digests of the files' bytes; of a split that is absent: "". Borrowed. */
const char *tasks_digest(const struct tasks *tasks);
const char *tasks_split_digest(const struct tasks *tasks, enum tasks_split split);

/* The row's JSON text as it is in the file (whole numbers of any size verbatim), no newline. Any thread. Owned by the
 * caller. ORCH_E_DRIFT when the file is no longer what was opened. */
MUST_USE int tasks_read_row(const struct tasks *tasks, size_t row, char **ret_text, size_t *ret_len,
                            struct orch_err *err);
/* The same without the answer fields; all other bytes verbatim. */
MUST_USE int tasks_public_row(const struct tasks *tasks, size_t row, char **ret_text, size_t *ret_len,
                              struct orch_err *err);

#endif
