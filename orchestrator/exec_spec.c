/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/exec_spec.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/utf8.h"
#include "config/run_config.h"

#include <fnmatch.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SPEC_NAME "exec"

/* ---- variables ---- */

/* The fixed set of every sandbox; HOME and TMPDIR are its own. */
static bool always_passes(const char *name)
{
    static const char *const names[] = {"PATH", "LANG", "LC_ALL", "TERM"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool allowed(const json_t *patterns, const char *name)
{
    if (patterns == NULL || always_passes(name)) {
        return true;
    }
    size_t i;
    json_t *pattern;
    json_array_foreach(patterns, i, pattern)
    {
        if (fnmatch(json_string_value(pattern), name, 0) == 0) {
            return true;
        }
    }
    return false;
}

static void pass_variables(struct sandbox_spec *s, const json_t *patterns, char *const *variables)
{
    static const char *const own[] = {"HOME", "TMPDIR", "PWD", "OLDPWD", "SHLVL", "_"};
    for (char *const *e = variables; *e != NULL; e++) {
        const char *equals = strchr(*e, '=');
        if (equals == NULL) {
            continue;
        }
        AUTO_FREE char *name = xmemdup0(*e, (size_t)(equals - *e));
        bool skip = !utf8_valid(name, strlen(name)); /* nothing inside could name it in a spec either */
        for (size_t i = 0; i < ARRAY_LEN(own); i++) {
            skip = skip || strcmp(name, own[i]) == 0;
        }
        if (!skip && allowed(patterns, name)) {
            spec_set_env(s, name, equals + 1);
        }
    }
    spec_set_env(s, "HOME", SPEC_HOME);
    spec_set_env(s, "TMPDIR", "/tmp");
}

/* ---- paths ---- */

static int add_grant(struct sandbox_spec *s, const char *path, enum spec_mode mode, struct orch_err *err)
{
    const char *list = mode == SPEC_RW ? "writable" : "readable";
    if (path[0] != '/') {
        return err_set(err, ORCH_E_CONFIG, "%s: %.400s is not absolute", list, path);
    }
    AUTO_FREE char *real = NULL;
    if (path_real(path, &real, err) < 0) {
        return err_wrap(err, "%s", list);
    }
    AUTO_FREE char *plain = path_join(path, "");
    size_t len = strlen(plain);
    while (len > 1 && plain[len - 1] == '/') {
        plain[--len] = '\0';
    }
    if (strcmp(plain, real) != 0) {
        return err_set(err, ORCH_E_CONFIG, "%s: %.400s leads to %.400s: name that path instead", list, path, real);
    }
    if (config_path_is_forbidden(real)) {
        return err_set(err, ORCH_E_CONFIG, "%s: %s would grant a whole home, a system root or a credential store", list,
                       real);
    }
    if (mode == SPEC_RO && path_is_beneath(real, "/usr")) {
        return 0; /* the system is there */
    }
    struct stat st;
    if (stat(real, &st) < 0) {
        return err_errno(err, ORCH_E_NOT_FOUND, "%s: %s", list, real);
    }
    spec_grant(s, real, real, mode, S_ISDIR(st.st_mode) ? SPEC_DIR : SPEC_FILE);
    return 0;
}

static bool is_granted(const struct sandbox_spec *s, const char *path)
{
    for (size_t i = 0; i < s->grant_count; i++) {
        if (path_is_beneath(path, s->grants[i].target)) {
            return true;
        }
    }
    return path_is_beneath(path, "/usr");
}

/* PREFIX/bin/x with PREFIX/lib beside it is an installation; else the program alone. */
static int grant_program(struct sandbox_spec *s, const char *program, struct orch_err *err)
{
    AUTO_FREE char *real = NULL;
    struct orch_err absent = ERR_INIT;
    if (strchr(program, '/') == NULL || path_real(program, &real, &absent) < 0 || is_granted(s, real)) {
        return 0; /* looked up inside; what is absent is told from there */
    }
    AUTO_FREE char *dir = path_dir(real);
    AUTO_FREE char *prefix = path_dir(dir);
    AUTO_FREE char *lib = path_join(prefix, "lib");
    const char *name = strrchr(dir, '/');
    bool installed = name != NULL && strcmp(name, "/bin") == 0 && access(lib, F_OK) == 0;
    return add_grant(s, installed ? prefix : real, SPEC_RO, err);
}

/* ---- the short form ---- */

static int check_members(const json_t *spec, struct orch_err *err)
{
    static const char *const lists[] = {"readable", "writable", "hide", "env_allow"};
    static const char *const others[] = {"network", "chdir", "limits"};
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)spec, key, value)
    {
        bool list = false;
        bool known = false;
        for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
            list = list || strcmp(key, lists[i]) == 0;
        }
        for (size_t i = 0; i < ARRAY_LEN(others); i++) {
            known = known || strcmp(key, others[i]) == 0;
        }
        if (!list && !known) {
            return err_set(err, ORCH_E_CONFIG,
                           "unknown member \"%.100s\" (readable, writable, hide, network, env_allow, "
                           "chdir, limits; or a full spec, with \"version\")",
                           key);
        }
        size_t i;
        json_t *item;
        json_array_foreach(value, i, item)
        {
            if (!json_is_string(item)) {
                return err_set(err, ORCH_E_CONFIG, "%s[%zu]: a text is expected", key, i);
            }
        }
        if (list && (!json_is_array(value) || json_array_size(value) > EXEC_ENV_PATTERNS_MAX)) {
            return err_set(err, ORCH_E_CONFIG, "%s: a list of at most %d texts is expected", key,
                           EXEC_ENV_PATTERNS_MAX);
        }
    }
    return 0;
}

static int read_network(const json_t *spec, struct sandbox_spec *s, struct orch_err *err)
{
    const char *word = json_get_str(spec, "network", "isolated");
    if (strcmp(word, "public") == 0) {
        s->network = SPEC_PUBLIC;
    } else if (strcmp(word, "isolated") != 0 && strcmp(word, "no-network") != 0) {
        return err_set(err, ORCH_E_CONFIG, "network: \"%.100s\" (isolated, no-network or public)", word);
    }
    return 0;
}

static int read_grants(const json_t *spec, struct sandbox_spec *s, struct orch_err *err)
{
    static const struct {
        const char *key;
        enum spec_mode mode;
    } lists[] = {{"readable", SPEC_RO}, {"writable", SPEC_RW}};
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        const json_t *list = json_get(spec, lists[i].key);
        for (size_t k = 0; k < json_array_size(list); k++) {
            TRY(add_grant(s, json_string_value(json_array_get(list, k)), lists[i].mode, err));
        }
    }
    const json_t *hide = json_get(spec, "hide");
    for (size_t k = 0; k < json_array_size(hide); k++) {
        spec_add_hide(s, json_string_value(json_array_get(hide, k)));
    }
    return 0;
}

static int read_directory(const json_t *spec, struct sandbox_spec *s, struct orch_err *err)
{
    const char *asked = json_get_str(spec, "chdir", NULL);
    if (asked != NULL) {
        free(s->cwd);
        s->cwd = xstrdup(asked);
        return 0;
    }
    AUTO_FREE char *here = NULL;
    struct orch_err gone = ERR_INIT;
    if (path_real(".", &here, &gone) == 0 && is_granted(s, here)) {
        free(s->cwd);
        s->cwd = take(here);
    }
    (void)err;
    return 0;
}

static int read_short(const json_t *spec, char *const *variables, const char *program, struct sandbox_spec *s,
                      struct orch_err *err)
{
    TRY(check_members(spec, err));
    TRY(read_network(spec, s, err));
    TRY(read_grants(spec, s, err));
    TRY(grant_program(s, program, err));
    TRY(read_directory(spec, s, err));
    if (json_get(spec, "limits") != NULL) {
        TRY(spec_limits_read(json_get(spec, "limits"), &s->limits, err));
    }
    pass_variables(s, json_get(spec, "env_allow"), variables);
    return spec_check(s, err);
}

int exec_spec_read(const char *text, size_t len, char *const *variables, const char *program, struct sandbox_spec *ret,
                   struct orch_err *err)
{
    AUTO_JSON json_t *spec = NULL;
    TRY(json_parse(text, len, SPEC_JSON_MAX, &spec, err));
    if (!json_is_object(spec)) {
        return err_set(err, ORCH_E_CONFIG, "an object is expected");
    }
    if (json_get(spec, "version") != NULL) {
        return spec_from_json(spec, ret, err);
    }
    struct sandbox_spec s;
    spec_init(&s, SPEC_NAME);
    int code = read_short(spec, variables, program, &s, err);
    if (code < 0) {
        spec_done(&s);
        return code;
    }
    *ret = s;
    return 0;
}
