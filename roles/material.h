/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Learning material of a step: what the evolver reads.
 *
 *   summary.json        {"version": 1, "step": n, "base_version": v, "mean_score": x|null, "tasks": n,
 *                        "results": {"scored": n, …}}
 *   tasks/0001.json     one a trial, in the step's order: {"id", "sample", "task": {the whole training row},
 *                        "result": "scored"|…, "score": x|null, "metrics", "feedback", "reason",
 *                        "output": {"answer.txt": "text", …}, "output_cut": bool}
 *
 * Made from the record alone, so making it again gives the same bytes.
 */
#ifndef ORCH_ROLES_MATERIAL_H
#define ORCH_ROLES_MATERIAL_H

#include "base/err.h"
#include "config/tasks.h"
#include "state/objects.h"
#include "state/record.h"

#define MATERIAL_OUTPUT_FILE_MAX ((size_t)64 << 10)   /* shown bytes of one output file */
#define MATERIAL_OUTPUT_TOTAL_MAX ((size_t)512 << 10) /* of one trial */

/* Writes the material of `step` into `dir` (absolute, empty, exists). Blocking; everything of the step is settled. */
MUST_USE int material_write(struct record *rec, struct objects *objects, const struct tasks *tasks, int64_t step,
                            const char *dir, struct orch_err *err);

#endif
