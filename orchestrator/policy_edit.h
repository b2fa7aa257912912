/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A change of the user's operator config, for `orch sandbox enable` and `disable`: it goes into one file,
 * confinement.yaml in the user's directory, and is planned and judged as a whole before anything is written. What
 * another file decides (the system's, or a later one of the user's) is found out by loading the result.
 */
#ifndef ORCH_ORCHESTRATOR_POLICY_EDIT_H
#define ORCH_ORCHESTRATOR_POLICY_EDIT_H

#include "config/operator.h"
#include "orchestrator/verb.h"

#define POLICY_FILE "confinement.yaml"
#define POLICY_CHANGES_MAX 8

struct policy_change {
    const char *key;
    json_t *want; /* owned */
    char *value;  /* the same as YAML, owned */
};

struct policy_edit {
    char *system_dir, *user_dir; /* owned, as all below */
    char *file;
    struct operator_config *now;  /* as it is */
    struct operator_config *then; /* as it would be; NULL before policy_edit_plan */
    struct policy_change changes[POLICY_CHANGES_MAX];
    size_t count;
    char *old_text, *new_text; /* of the file */
    char *diff;                /* "" when nothing changes */
    struct config_findings findings;
};

/* Loads the config as it is. ORCH_E_USAGE without a home. policy_edit_done in any case. */
MUST_USE int policy_edit_begin(struct policy_edit *e, struct orch_err *err);
void policy_edit_done(struct policy_edit *e);
#define AUTO_POLICY_EDIT __attribute__((cleanup(policy_edit_done)))

/* Sets a key to a flag, a text or an array of texts; consumes `want`. */
void policy_edit_set(struct policy_edit *e, const char *key, json_t *want);
/*
 * Fills new_text, diff and `then`. ORCH_E_DISABLED: the system's files decide otherwise about a key; ORCH_E_CONFIG: a
 * later file of the user's does, or the result is no valid config.
 */
MUST_USE int policy_edit_plan(struct policy_edit *e, struct orch_err *err);
/* Writes new_text if anything changes. */
MUST_USE int policy_edit_write(const struct policy_edit *e, struct orch_err *err);

/* {version, file, changed, written, diff}; more members are the verb's. New reference. */
json_t *policy_edit_json(const struct policy_edit *e, bool written);
/* The diff for people, "" when nothing changes. */
void policy_edit_print(const struct verb_call *call, const struct policy_edit *e);

#endif
