/* SPDX-License-Identifier: Apache-2.0 */
#include "roles/context.h"

#include "base/mem.h"

#include <fnmatch.h>
#include <string.h>
#include <unistd.h>

struct fixed {
    const char *name;
    const char *value;
};

/* HOME and ORCH_CONTEXT are added where they are known. */
static const struct fixed fixed_variables[] = {
    {"PATH", CONTEXT_PATH}, {"LANG", "C.UTF-8"}, {"LC_ALL", "C.UTF-8"}, {"TERM", "dumb"}, {"TMPDIR", "/tmp"},
};

static const char *const reserved[] = {"HOME",       "ORCH_CONTEXT",      "ORCH_TOOL_URL",
                                       "CODEX_HOME", "CLAUDE_CONFIG_DIR", "ORCH_SANDBOX_HIDE"};

json_t *context_new(const char *role)
{
    json_t *c = json_object();
    json_set_int(c, "version", CONTEXT_VERSION);
    json_set_str(c, "role", role);
    return c;
}

static bool is_reserved(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(reserved); i++) {
        if (strcmp(name, reserved[i]) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(fixed_variables); i++) {
        if (strcmp(name, fixed_variables[i].name) == 0) {
            return true;
        }
    }
    return false;
}

static bool matches(const char *name, char *const *patterns)
{
    for (size_t i = 0; patterns != NULL && patterns[i] != NULL; i++) {
        if (fnmatch(patterns[i], name, 0) == 0) {
            return true;
        }
    }
    return false;
}

/* Calls `each` for every host variable that was asked for. */
static void passed(char *const *patterns, void (*each)(const char *name, const char *value, void *arg), void *arg)
{
    for (char **e = environ; e != NULL && *e != NULL; e++) {
        const char *equals = strchr(*e, '=');
        if (equals == NULL) {
            continue;
        }
        AUTO_FREE char *name = xmemdup0(*e, (size_t)(equals - *e));
        if (matches(name, patterns) && !is_reserved(name)) {
            each(name, equals + 1, arg);
        }
    }
}

static void set_in_spec(const char *name, const char *value, void *arg)
{
    spec_set_env(arg, name, value);
}

void context_apply(struct sandbox_spec *spec, json_t *context, char *const *patterns)
{
    AUTO_JSON json_t *owned = context;
    AUTO_FREE char *text = json_pretty(owned);
    spec_add_file(spec, CONTEXT_FILE, text, strlen(text), 0444);
    for (size_t i = 0; i < ARRAY_LEN(fixed_variables); i++) {
        spec_set_env(spec, fixed_variables[i].name, fixed_variables[i].value);
    }
    spec_set_env(spec, "HOME", SPEC_HOME);
    spec_set_env(spec, "ORCH_CONTEXT", CONTEXT_FILE);
    passed(patterns, set_in_spec, spec);
}

static void append_pair(const char *name, const char *value, void *arg)
{
    char ***env = arg;
    *env = strv_append(*env, xasprintf("%s=%s", name, value));
}

char **context_host_env(const char *context_path, const char *home, char *const *patterns)
{
    char **env = NULL;
    for (size_t i = 0; i < ARRAY_LEN(fixed_variables); i++) {
        append_pair(fixed_variables[i].name, fixed_variables[i].value, &env);
    }
    append_pair("HOME", home, &env);
    append_pair("ORCH_CONTEXT", context_path, &env);
    passed(patterns, append_pair, &env);
    return env;
}
