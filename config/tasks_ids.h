/* SPDX-License-Identifier: Apache-2.0 */
/* Ids of tasks: what an id may be, and which ids are too alike. Used within config/. */
#ifndef ORCH_CONFIG_TASKS_IDS_H
#define ORCH_CONFIG_TASKS_IDS_H

#include <stddef.h>

/* A static text that says what is wrong with an id, or NULL. */
const char *tasks_id_fault(const char *id);
/* The form in which two ids that a file system or a reader may confuse are equal: NFC and case folding. Owned. */
char *tasks_id_folded(const char *id);

#endif
