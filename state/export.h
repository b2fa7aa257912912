/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole run as one JSON document: meta, steps, versions, trials by key.
 *
 * Normalised, it holds only what a run means: no times, ids, run id,
 * incarnations, usage, host paths, uids or commit shas (a version is its number
 * and the id of its tree). An interrupted and resumed run exports the same
 * bytes as an unbroken one, on any environment.
 */
#ifndef ORCH_STATE_EXPORT_H
#define ORCH_STATE_EXPORT_H

#include "base/buf.h"
#include "base/err.h"
#include "state/record.h"

struct export_options {
    bool normalized;
    bool calls;  /* ignored when normalised */
    bool events; /* ignored when normalised */
};
/* Streams to fd: memory does not grow with the number of trials. Blocking. */
MUST_USE int export_json(struct record *rec, const struct export_options *options, int fd, struct orch_err *err);

#endif
