/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operator config: what a project must not decide for itself. Files of the
 * system directory win over those of the user's; within a directory, files are
 * read in the order of their names and later ones win, key by key.
 */
#ifndef ORCH_CONFIG_OPERATOR_H
#define ORCH_CONFIG_OPERATOR_H

#include "config/findings.h"
#include "config/run_config.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define OPERATOR_FILES_MAX 64 /* in one directory */

#define CONFIG_UNAVAILABLE(X) X(REFUSE, "refuse") X(WARN, "warn") X(SILENT, "silent")
enum operator_unavailable {
#define X(n, w) OPERATOR_ON_UNAVAILABLE_##n,
    CONFIG_UNAVAILABLE(X)
#undef X
        OPERATOR_ON_UNAVAILABLE_COUNT
};
extern const char *const config_unavailable_names[];

struct operator_credential {
    char *name;  /* of the variable */
    char **urls; /* prefixes of base URLs it may be sent to */
};

struct operator_config {
    struct {
        bool required;
        int on_unavailable; /* enum operator_unavailable; REFUSE whenever `required` */
        int mechanism;      /* enum config_mechanism: the minimum; AUTO: any */
    } confinement;
    char **network_permitted; /* words of enum config_network */
    char **readable;          /* extra absolute paths every sandbox may read */
    struct {
        bool runner_host, container_root;
    } allow;
    struct {
        int64_t first, count;
    } uid_range;
    struct operator_credential *credentials;
    size_t credential_count;
    char **login_files;                              /* absolute paths an agent may have copied in */
    json_t *clusters, *profiles, *brokers, *service; /* free-form, for what reads them */

    char **files; /* those that were read, in the order of their effect */
    struct config_source *source;
};

/* "/etc/orch", and "$XDG_CONFIG_HOME/orch" or "~/.config/orch" (NULL without a home); both owned by the caller. */
void operator_directories(char **ret_system, char **ret_user);

/*
 * Loads both directories (either may be NULL or absent). A file that cannot be
 * read, is writable by others, or is owned by somebody else than root or the
 * caller is an error: policy is never silently left out. *ret is owned.
 */
MUST_USE int operator_load(const char *system_dir, const char *user_dir, struct operator_config **ret,
                           struct config_findings *findings, struct orch_err *err);
/* The same as if user_dir/<name> (which need not exist) held `text`: what an edit would give. */
MUST_USE int operator_load_with(const char *system_dir, const char *user_dir, const char *name, const char *text,
                                struct operator_config **ret, struct config_findings *findings, struct orch_err *err);
void operator_free(struct operator_config *config); /* NULL is fine */
void operator_release(struct operator_config **config);
#define AUTO_OPERATOR_CONFIG __attribute__((cleanup(operator_release)))

json_t *operator_effective(const struct operator_config *config); /* new reference */
char *operator_show(const struct operator_config *config);        /* YAML with origins; owned */
/* "file:3" of the file that decides about a dotted key, or "default". Owned by the caller. */
char *operator_origin(const struct operator_config *config, const char *key);

/* May the value of variable `key` be sent to `base_url`? Loopback is free; else a listed prefix must match. */
bool operator_key_allowed(const struct operator_config *config, const char *key, const char *base_url);
bool operator_network_permitted(const struct operator_config *config, int network);
/* Adds a finding for everything in the run config that the operator does not permit. */
void operator_check(const struct operator_config *config, const struct run_config *run,
                    struct config_findings *findings);

/*
 * Sets one dotted key in a file, in place: every other byte (comments, order,
 * line ends) stays. The new text is checked against the schema before the file
 * is replaced by rename; missing file and directories are made (0644, 0755).
 * `value` is one YAML value in flow form: a scalar or [a, b].
 */
MUST_USE int operator_set(const char *file, const char *key, const char *value, struct config_findings *findings,
                          struct orch_err *err);
/* One key and its value, as operator_set takes them. */
struct operator_change {
    const char *key, *value;
};
/* What operator_set would do for several keys, without writing: the file's text before ("" when it is absent) and
 * after, both owned by the caller. */
MUST_USE int operator_set_plan(const char *file, const struct operator_change *changes, size_t count, char **ret_old,
                               char **ret_new, struct config_findings *findings, struct orch_err *err);
/* Replaces the file by rename; makes it and its directories where they are missing. */
MUST_USE int operator_write(const char *file, const char *text, struct orch_err *err);
/* The pure text step of operator_set; *ret_text is owned by the caller. */
MUST_USE int operator_edit(const char *text, size_t len, const char *key, const char *value, char **ret_text,
                           struct orch_err *err);

#endif
