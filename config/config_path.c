/* SPDX-License-Identifier: Apache-2.0 */
/* Paths as a config writes them, and the paths that nobody is ever given. */
#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "config/config_read.h"
#include "config/run_config.h"
#include "config/units.h"

#include <string.h>
#include <unistd.h>

const char *config_variable(const char *name)
{
    size_t len = strlen(name);
    for (char **e = environ; e != NULL && *e != NULL; e++) {
        if (strncmp(*e, name, len) == 0 && (*e)[len] == '=') {
            return *e + len + 1;
        }
    }
    return NULL;
}

static const char *home_directory(void)
{
    const char *home = config_variable("HOME");
    return home == NULL || home[0] != '/' ? NULL : home;
}

/* Appends ${VAR} at *at (which points at '$') and moves *at behind it. */
static char *expand_variable(struct buf *b, const char **at)
{
    const char *name = *at + 2;
    const char *end = strchr(name, '}');
    if (end == NULL) {
        return xstrdup("`${` has no `}`");
    }
    AUTO_FREE char *variable = xmemdup0(name, (size_t)(end - name));
    if (!units_is_variable(variable)) {
        return xasprintf("`${%s}` is not a variable", variable);
    }
    const char *value = config_variable(variable);
    if (value == NULL || value[0] == '\0') {
        return xasprintf("the variable %s is %s", variable, value == NULL ? "not set" : "empty");
    }
    buf_str(b, value);
    *at = end + 1;
    return NULL;
}

char *config_expand_path(const char *dir, const char *text, char **ret_why)
{
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_LINE);
    const char *at = text;
    if (text[0] == '~' && (text[1] == '/' || text[1] == '\0')) {
        const char *home = home_directory();
        if (home == NULL) {
            *ret_why = xstrdup("the variable HOME is not set");
            return NULL;
        }
        buf_str(&b, home);
        at++;
    } else if (text[0] == '~') {
        *ret_why = xstrdup("`~name` is not expanded");
        return NULL;
    }
    while (*at != '\0') {
        if (at[0] == '$' && at[1] == '{') {
            *ret_why = expand_variable(&b, &at);
            if (*ret_why != NULL) {
                return NULL;
            }
            continue;
        }
        if ((unsigned char)*at < 0x20 || *at == 0x7f) {
            *ret_why = xstrdup("a control character");
            return NULL;
        }
        buf_char(&b, *at++);
    }
    if (b.len == 0) {
        *ret_why = xstrdup("it is empty");
        return NULL;
    }
    AUTO_FREE char *joined = path_join(dir, b.data);
    return path_normal(joined);
}

/* Names of places where people and programs keep credentials, beneath a home. */
static const char *const stores[] = {
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".config/gcloud",
    ".kube",
    ".docker",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".config/gh",
    ".config/orch",
    ".codex",
    ".claude",
    ".claude.json",
    ".password-store",
    ".local/share/keyrings",
    ".modal.toml",
    ".sky",
    ".huggingface",
    ".cache/huggingface/token",
    ".pgpass",
    ".my.cnf",
    ".vault-token",
    ".s3cfg",
    ".boto",
    ".oci",
    ".mozilla",
    ".config/rclone",
    ".config/google-chrome",
    ".config/chromium",
};

static bool is_store(const char *path, const char *home)
{
    for (size_t i = 0; i < ARRAY_LEN(stores); i++) {
        AUTO_FREE char *store = path_join(home, stores[i]);
        if (path_is_beneath(path, store) || path_is_beneath(store, path)) {
            return true;
        }
    }
    return false;
}

bool config_path_is_forbidden(const char *path)
{
    static const char *const whole[] = {"/",     "/home", "/root", "/Users", "/etc/shadow", "/etc/gshadow",
                                        "/proc", "/sys",  "/dev",  "/run",   "/var/run",    "/etc"};
    for (size_t i = 0; i < ARRAY_LEN(whole); i++) {
        if (strcmp(path, whole[i]) == 0) {
            return true;
        }
    }
    static const char *const homes[] = {"/home/", "/Users/"};
    for (size_t i = 0; i < ARRAY_LEN(homes); i++) {
        size_t len = strlen(homes[i]);
        if (strncmp(path, homes[i], len) == 0) {
            AUTO_FREE char *home = xmemdup0(path, len + strcspn(path + len, "/"));
            return strcmp(path, home) == 0 || is_store(path, home);
        }
    }
    const char *own = config_variable("HOME");
    return is_store(path, "/root") || path_is_beneath("/etc/orch", path) || path_is_beneath(path, "/etc/orch") ||
           (own != NULL && own[0] == '/' && own[1] != '\0' && (strcmp(path, own) == 0 || is_store(path, own)));
}
