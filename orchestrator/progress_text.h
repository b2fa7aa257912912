/* SPDX-License-Identifier: Apache-2.0 */
/* The words of progress: pure functions from numbers to text, so that they can be tested without a terminal. */
#ifndef ORCH_ORCHESTRATOR_PROGRESS_TEXT_H
#define ORCH_ORCHESTRATOR_PROGRESS_TEXT_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

#define PROGRESS_TITLE_MAX 200 /* bytes */

/* What one batch has come to. */
struct progress_counts {
    const char *title;     /* escaped */
    int64_t total, before; /* of trials; `before`: settled when the batch began */
    int64_t settled;       /* since then */
    int64_t scored, limited, infrastructure, judge;
    int64_t scores; /* what the mean is over */
    double sum;
    int64_t elapsed_ns;
};

/* Counts a result by the record's word; an unknown word counts as settled only. */
void progress_count(struct progress_counts *c, const char *result, bool has_score, double score);

/* "step 3/20 [####......] 12/30  10 scored, 1 limited  3.4/s  left 1m02s  mean 0.5120", at most `width` columns: what
 * does not fit is left out, then the bar, then the title is cut. */
void progress_live(const struct progress_counts *c, size_t width, struct buf *out);
/* The plain line while a batch works: "step 3/20: 12/30 trials, …". */
void progress_plain(const struct progress_counts *c, struct buf *out);
/* The line at the end of a batch: every kind is named, zero or not, and what was not run. */
void progress_final(const struct progress_counts *c, struct buf *out);

/* Columns of a text on a terminal (combining characters 0, wide ones 2). */
size_t text_width(const char *text, size_t len);
/* Bytes of the longest beginning that fits into `columns`. */
size_t text_fit(const char *text, size_t len, size_t columns);

#endif
