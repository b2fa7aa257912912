/* SPDX-License-Identifier: Apache-2.0 */
/* The one table of the operator config. */
#include "base/mem.h"
#include "config/operator.h"
#include "config/schema.h"

#include <stddef.h>

#define X(n, word) word,
const char *const config_unavailable_names[] = {CONFIG_UNAVAILABLE(X) NULL};
#undef X

#define AT(member) .offset = offsetof(struct operator_config, member)
#define UID_MAX 4294967294.0 /* (uid_t)-1 is no uid */

static const struct config_row credential_rows[] = {
    {"urls", CONFIG_TEXTS, CONFIG_REQUIRED, .offset = offsetof(struct operator_credential, urls),
     .example = "[\"https://api.openai.com/\"]",
     .doc = "Beginnings of base URLs that the variable's value may be sent to. A beginning ends at a `/` of the URL."},
};
static const struct config_table credential_table = {.title = "credential",
                                                     .rows = credential_rows,
                                                     .row_count = ARRAY_LEN(credential_rows),
                                                     .size = sizeof(struct operator_credential),
                                                     .key_type = CONFIG_VARIABLE};

static const struct config_row rows[] = {
    {"confinement.required", CONFIG_FLAG, 0, AT(confinement.required), "true",
     .doc = "`run`, `eval` and `check` start nothing without confinement."},
    {"confinement.on_unavailable", CONFIG_ENUM, 0, AT(confinement.on_unavailable), "refuse",
     .values = config_unavailable_names,
     .doc =
         "What happens where confinement cannot be enforced. warn and silent need `required: false`; such a call has "
         "the grade unconfined."},
    {"confinement.mechanism", CONFIG_ENUM, 0, AT(confinement.mechanism), "auto", .values = config_mechanism_names,
     .doc = "The least that must enforce it. auto: any mechanism that confines."},
    {"network.permitted", CONFIG_ENUMS, 0, AT(network_permitted), "[no-network, allowlist, public]",
     .values = config_network_names, .doc = "Network modes that a run config may choose."},
    {"readable", CONFIG_PATHS, 0, AT(readable), "[]", .example = "[/opt/data]",
     .doc = "Further absolute paths that every sandbox may read."},
    {"allow.runner_host", CONFIG_FLAG, 0, AT(allow.runner_host), "false",
     .doc = "Permits `environment.runner: host` in run configs."},
    {"allow.container_root", CONFIG_FLAG, 0, AT(allow.container_root), "false",
     .doc = "Permits calls as root of their container."},
    {"uid_range.first", CONFIG_INT, 0, AT(uid_range.first), "200000", 1000, UID_MAX,
     .doc = "First host uid for sandboxes when orch is started as root. Nobody else may use the range."},
    {"uid_range.count", CONFIG_INT, 0, AT(uid_range.count), "65000", 1, UID_MAX,
     .doc = "How many uids; a sandbox uses one."},
    {"credentials", CONFIG_NAMED, 0, AT(credentials), .element = &credential_table,
     .example = "{MY_KEY: {urls: [\"https://models.example.com/\"]}}",
     .doc =
         "Where the value of a key variable may be sent, besides the shipped pairs of the known providers; loopback is "
         "free. An entry replaces the shipped one of that name."},
    {"login_files", CONFIG_PATHS, 0, AT(login_files), "[]", .example = "[~/.codex/auth.json]",
     .doc = "Login files that an agent which cannot be redirected may have copied in."},
    {"clusters", CONFIG_JSON, 0, AT(clusters), .doc = "Clusters, by name."},
    {"profiles", CONFIG_JSON, 0, AT(profiles), .doc = "Profiles, by name."},
    {"brokers", CONFIG_JSON, 0, AT(brokers), .doc = "Brokers, by name."},
    {"service", CONFIG_JSON, 0, AT(service), .doc = "Settings of `orch serve`."},
};

static const struct config_retired retired[] = {
    {"sandbox.enabled", NULL, "write `confinement.required`"},
    {"sandbox.on_unavailable", NULL, "write `confinement.on_unavailable`"},
    {"sandbox.onUnavailable", NULL, "write `confinement.on_unavailable`"},
    {"sandbox.network", NULL, "write `network.permitted`"},
    {"sandbox.allowWrite", NULL, "remove it; a run config grants what may be written (`task.paths.write`)"},
    {"confinement.on_unavailable", "best_effort", "write `warn`, with `confinement.required: false`"},
};

static const struct config_table operator_table = {
    .title = "operator config",
    .rows = rows,
    .row_count = ARRAY_LEN(rows),
    .size = sizeof(struct operator_config),
    .retired = retired,
    .retired_count = ARRAY_LEN(retired),
};

const struct config_table *config_operator_table(void)
{
    return &operator_table;
}

_Static_assert(offsetof(struct operator_config, credential_count) ==
                   offsetof(struct operator_config, credentials) + sizeof(void *),
               "credentials is read as a config_array");
_Static_assert(offsetof(struct operator_credential, name) == 0, "the name of an element comes first");
