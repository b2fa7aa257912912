/* SPDX-License-Identifier: Apache-2.0 */
/* The sandbox record that was written last in a project. */
#ifndef ORCH_ORCHESTRATOR_LAST_RECORD_H
#define ORCH_ORCHESTRATOR_LAST_RECORD_H

#include "orchestrator/verb.h"

/* {run, file, written, role, grade, mechanism, mechanism_version, error, enforced} of the newest record of the newest
 * run that has one; NULL when the project has none, or there is no project. New reference. */
json_t *last_record(const struct verb_call *call);

#endif
