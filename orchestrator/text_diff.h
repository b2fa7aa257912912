/* SPDX-License-Identifier: Apache-2.0 */
/* Two small texts, line by line. */
#ifndef ORCH_ORCHESTRATOR_TEXT_DIFF_H
#define ORCH_ORCHESTRATOR_TEXT_DIFF_H

/* A unified diff with two lines of context, "" when they are equal; a last line without an end is shown with one.
 * `name` stands after --- and +++. Owned by the caller. */
char *text_diff(const char *name, const char *old_text, const char *new_text);

#endif
