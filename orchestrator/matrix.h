/* SPDX-License-Identifier: Apache-2.0 */
/* The capability table of backends/capability.h for people and programs: properties down, environments and mechanisms
 * across, and what each code means. Everything returned is owned by the caller. */
#ifndef ORCH_ORCHESTRATOR_MATRIX_H
#define ORCH_ORCHESTRATOR_MATRIX_H

#include <jansson.h>
#include <stddef.h>

/* docs/sandbox-matrix.md. */
char *matrix_markdown(void);
/* The same as a table no wider than `width` (0: unbounded), with a line a code. */
char *matrix_text(size_t width);
/* [{environment, mechanism, property, value, code, note}] in the table's order. New reference. */
json_t *matrix_json(void);

#endif
