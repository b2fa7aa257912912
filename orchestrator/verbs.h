/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of the program: one row each, in the order of help. */
#ifndef ORCH_ORCHESTRATOR_VERBS_H
#define ORCH_ORCHESTRATOR_VERBS_H

#include "orchestrator/verb.h"

extern const struct verb cmd_doctor, cmd_check, cmd_run, cmd_eval, cmd_resume;
extern const struct verb cmd_init, cmd_runs, cmd_show, cmd_logs, cmd_diff, cmd_export;
extern const struct verb cmd_config_show, cmd_config_explain, cmd_config_schema, cmd_config_reference;
extern const struct verb cmd_sandbox_exec, cmd_sandbox_test, cmd_sandbox_status, cmd_sandbox_enable,
    cmd_sandbox_disable;
extern const struct verb cmd_version, cmd_help;

/* NULL-terminated. */
extern const struct verb *const verbs[];

/* Options that every verb takes; ends with name NULL. */
extern const struct verb_option verb_common_options[];

/* The verb of exactly this name ("runs", "config show"); NULL when there is none. */
const struct verb *verb_find(const struct verb *const *table, const char *name);
/* True if some verb's first word is `word` and it has a second one. */
bool verb_is_group(const struct verb *const *table, const char *word);
/* The name that is nearest to `word`, a verb's or its first word; NULL when none is near. Borrowed or owned: the
 * result is written into out[VERB_NAME_MAX]. */
#define VERB_NAME_MAX 64
const char *verb_nearest(const struct verb *const *table, const char *word, char out[VERB_NAME_MAX]);

/* Help as text, for people. Owned by the caller. */
char *help_overview(const struct verb *const *table);
char *help_group(const struct verb *const *table, const char *word);
char *help_verb(const struct verb *verb);

#endif
