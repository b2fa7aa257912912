/* SPDX-License-Identifier: Apache-2.0 */
/* A project with one run made by hand: every kind of result, a call with hostile output, two versions in Git. */
#ifndef ORCH_TESTS_DEMO_RUN_H
#define ORCH_TESTS_DEMO_RUN_H

#include "state/layout.h"
#include "state/record.h"
#include "test.h"

struct demo {
    struct test_dir dir;
    struct layout layout;
    char *id;
    char *run_dir;
    struct record *record; /* NULL after demo_close */
    struct clock clock;
};

/* Trials 1 and 2: task "a", samples 0 and 1; 3: task "b"; all planned only. */
void demo_make(struct demo *d);
/* Settles them in every way and adds calls, objects, versions, a step; closes the record. */
void demo_fill(struct demo *d);
void demo_done(struct demo *d);

/* Runs a verb as the program would, with --project; the words end with NULL. Output is captured, owned by the caller.
 */
struct outcome {
    int status;
    char *out, *err;
};
struct outcome demo_verb(const struct demo *d, const char *const *words);
#define VERB(d, ...) demo_verb((d), (const char *const[]){__VA_ARGS__, NULL})
void outcome_done(struct outcome *o);
#define AUTO_OUTCOME __attribute__((cleanup(outcome_done)))

#endif
