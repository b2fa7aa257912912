/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the record as JSON, the same in every verb. New references; texts that hold JSON become values. */
#ifndef ORCH_ORCHESTRATOR_ROW_JSON_H
#define ORCH_ORCHESTRATOR_ROW_JSON_H

#include "base/json.h"
#include "state/record.h"

json_t *row_json_trial(const struct trial_row *row, bool whole); /* whole: metrics, feedback, evidence too */
json_t *row_json_call(const struct call_row *row);
/* Why a step ended as it did, or what was left out of its candidate, from its data; borrowed, NULL: nothing to say. */
const char *row_json_step_reason(const json_t *data);
json_t *row_json_step(const struct step_row *row);
json_t *row_json_version(const struct version_add *row, int64_t added_ns);
json_t *row_json_event(const struct event_row *row);
json_t *row_json_sandbox(const struct sandbox_row *row);
/* {planned, scored, limited, infrastructure, judge_errors, not_run, scores, mean, …}; the mean is null over nothing. */
json_t *row_json_counts(const struct trial_counts *counts);
json_t *row_json_usage(int64_t calls, const struct call_usage *usage);

/* The value a text holds; the text itself when it is no JSON; null for NULL. */
json_t *row_json_value(const char *text);
/* Number of elements of a JSON array in a text, 0 when it is none. */
size_t row_json_length(const char *text);

#endif
