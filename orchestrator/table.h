/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table for people, through libsmartcols: aligned, and no wider than the
 * terminal it goes to (elsewhere as wide as it needs). Cells are escaped here:
 * give the texts as they are.
 */
#ifndef ORCH_ORCHESTRATOR_TABLE_H
#define ORCH_ORCHESTRATOR_TABLE_H

#include "base/buf.h"
#include "orchestrator/verb.h"

#define TABLE_COLUMNS_MAX 16
#define TABLE_CELL_MAX 400 /* bytes of a cell; more is cut with "…" */

enum table_align { TABLE_LEFT, TABLE_RIGHT, TABLE_CUT }; /* CUT: left, and the first to be shortened */

struct table_column {
    const char *title;
    enum table_align align;
};

struct table;

/* `columns` ends with title NULL; at most TABLE_COLUMNS_MAX. */
struct table *table_new(const struct table_column *columns);
void table_free(struct table *t);
void table_release(struct table **t);
#define AUTO_TABLE __attribute__((cleanup(table_release)))

/* Begins a row; cells are then added from left to right, NULL and "" as "-". */
void table_row(struct table *t);
void table_cell(struct table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void table_text(struct table *t, const char *text);
void table_int(struct table *t, int64_t value);
/* Four decimals; "-" when !known. */
void table_score(struct table *t, bool known, double value);
size_t table_rows(const struct table *t);

/* The table as text, lines ended; `width`: of the terminal, 0: unbounded. Owned by the caller. */
char *table_render(struct table *t, size_t width);
/* Prints it to standard output. */
void table_print(const struct verb_call *call, struct table *t);

#endif
