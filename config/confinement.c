/* SPDX-License-Identifier: Apache-2.0 */
#include "config/confinement.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"

#include <stdio.h>
#include <string.h>

/* ---- the variables ---- */

static const struct {
    const char *word;
    int mechanism;
    bool off;
} words[] = {
    {"auto", CONFIG_MECHANISM_AUTO, false},
    {"bwrap", CONFIG_MECHANISM_BUBBLEWRAP, false},
    {"namespaces", CONFIG_MECHANISM_NAMESPACES, false},
    {"landlock", CONFIG_MECHANISM_LANDLOCK, false},
    {"0", CONFIG_MECHANISM_AUTO, true},
    {"false", CONFIG_MECHANISM_AUTO, true},
    {"off", CONFIG_MECHANISM_AUTO, true},
    {"no", CONFIG_MECHANISM_AUTO, true},
};

static const char *variable(char *const *environ, const char *name)
{
    size_t len = strlen(name);
    for (char *const *e = environ; *e != NULL; e++) {
        if (strncmp(*e, name, len) == 0 && (*e)[len] == '=') {
            return *e + len + 1;
        }
    }
    return "";
}

static int read_word(const char *text, struct confinement_request *r, struct orch_err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (strcmp(words[i].word, text) == 0) {
            r->mechanism = words[i].mechanism;
            r->off = words[i].off;
            (void)snprintf(r->word, sizeof r->word, "%s", text);
            return 0;
        }
    }
    return err_set(err, ORCH_E_CONFIG,
                   CONFINEMENT_VARIABLE "=%.60s: write auto, bwrap, namespaces, landlock, or one of 0, false, off, no",
                   text);
}

static int read_paths(const char *text, struct confinement_request *r, struct orch_err *err)
{
    for (const char *at = text; *at != '\0';) {
        size_t len = strcspn(at, ":");
        AUTO_FREE char *path = xmemdup0(at, len);
        if (len == 0 || strcmp(at + len, ":") == 0) {
            return err_set(err, ORCH_E_CONFIG,
                           CONFINEMENT_ALLOW_VARIABLE ": an empty path between or beside colons; write PATH:PATH…");
        }
        AUTO_FREE char *plain = NULL;
        if (confinement_readable_check(path, &plain, err) < 0) {
            return err_wrap(err, CONFINEMENT_ALLOW_VARIABLE);
        }
        r->readable = strv_append(r->readable, take(plain));
        at += len + (at[len] == ':');
    }
    return 0;
}

int confinement_request_read(char *const *environ, struct confinement_request *ret, struct orch_err *err)
{
    AUTO_CONFINEMENT_REQUEST struct confinement_request r = {.mechanism = CONFIG_MECHANISM_AUTO};
    r.readable = xcalloc(1, sizeof(char *));
    const char *word = variable(environ, CONFINEMENT_VARIABLE);
    if (word[0] != '\0') {
        TRY(read_word(word, &r, err));
    }
    TRY(read_paths(variable(environ, CONFINEMENT_ALLOW_VARIABLE), &r, err));
    *ret = r;
    r.readable = NULL;
    return 0;
}

void confinement_request_done(struct confinement_request *r)
{
    strv_free(r->readable);
    r->readable = NULL;
}

/* ---- who wins ---- */

static int refuse_off(const struct operator_config *config, const char *word, struct orch_err *err)
{
    if (config->confinement.required) {
        AUTO_FREE char *origin = operator_origin(config, "confinement.required");
        return err_set(err, ORCH_E_UNAVAILABLE,
                       CONFINEMENT_VARIABLE "=%s: the operator config requires confinement (confinement.required, %s); "
                                            "nothing was run. Unset the variable, or ask the operator",
                       word, origin);
    }
    return err_set(err, ORCH_E_UNAVAILABLE,
                   CONFINEMENT_VARIABLE "=%s: the operator config permits it, but running without confinement is not "
                                        "built yet; nothing was run. Unset the variable",
                   word);
}

int confinement_choose(const struct operator_config *config, const struct confinement_request *request, int asked,
                       const char *asked_by, bool asked_wins, int *ret, struct orch_err *err)
{
    if (request->off) {
        return refuse_off(config, request->word, err);
    }
    bool by_variable = request->mechanism != CONFIG_MECHANISM_AUTO && !(asked_wins && asked != CONFIG_MECHANISM_AUTO);
    int chosen = by_variable ? request->mechanism : asked;
    int least = config->confinement.mechanism;
    if (least != CONFIG_MECHANISM_AUTO && chosen != CONFIG_MECHANISM_AUTO && chosen != least) {
        return err_set(err, ORCH_E_CONFIG, "%s: %s is not what the operator requires (confinement.mechanism: %s)",
                       by_variable ? CONFINEMENT_VARIABLE : asked_by, config_mechanism_names[chosen],
                       config_mechanism_names[least]);
    }
    *ret = least != CONFIG_MECHANISM_AUTO ? least : chosen;
    return 0;
}

/* ---- paths ---- */

/* What is too broad, or never anybody's to grant. `below`: neither is anything beneath it. */
static const struct {
    const char *path;
    bool below;
    const char *why;
} places[] = {
    {"/", false, "that is everything"},
    {"/usr", true, "every sandbox reads the system already"},
    {"/bin", true, "every sandbox reads the system already"},
    {"/sbin", true, "every sandbox reads the system already"},
    {"/lib", true, "every sandbox reads the system already"},
    {"/lib32", true, "every sandbox reads the system already"},
    {"/lib64", true, "every sandbox reads the system already"},
    {"/etc", true, "settings and secrets of the machine; a sandbox gets an /etc of its own"},
    {"/proc", true, "the kernel's; a sandbox gets its own"},
    {"/sys", true, "the kernel's"},
    {"/dev", true, "devices are not granted as paths"},
    {"/run", true, "sockets and secrets of services"},
    {"/var/run", true, "sockets and secrets of services"},
    {"/boot", true, "a root of the system"},
    {"/w", true, "the sandbox's own tree is there"},
    {"/home", false, "every home is in it"},
    {"/tmp", false, "everybody's temporary files; name a directory in it"},
    {"/var/tmp", false, "everybody's temporary files; name a directory in it"},
    {"/var", false, "a root of the system; name a directory in it"},
    {"/var/lib", false, "the data of every service; name a directory in it"},
    {"/var/log", true, "logs of the machine"},
    {"/var/spool", true, "mail and jobs of everybody"},
    {"/var/lib/docker", true, "other containers are in it"},
    {"/var/lib/containers", true, "other containers are in it"},
    {"/opt", false, "too broad; name a directory in it"},
    {"/srv", false, "too broad; name a directory in it"},
    {"/mnt", false, "too broad; name a directory in it"},
    {"/media", false, "too broad; name a directory in it"},
};

/* Names that mean credentials in whoever's home, wherever homes are on this machine. */
static bool holds_store_name(const char *path)
{
    static const char *const names[] = {".ssh",   ".gnupg", ".aws",    ".azure",  ".kube",          ".docker",
                                        ".netrc", ".codex", ".claude", ".gcloud", ".password-store"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        size_t len = strlen(names[i]);
        for (const char *at = strstr(path, names[i]); at != NULL; at = strstr(at + 1, names[i])) {
            if (at > path && at[-1] == '/' && (at[len] == '/' || at[len] == '\0')) {
                return true;
            }
        }
    }
    return false;
}

static int check_place(const char *path, struct orch_err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        bool is = strcmp(path, places[i].path) == 0;
        if (is || (places[i].below && path_is_beneath(path, places[i].path))) {
            return err_set(err, ORCH_E_CONFIG, "%.400s is not granted: %s", path, places[i].why);
        }
    }
    if (config_path_is_forbidden(path) || holds_store_name(path)) {
        return err_set(err, ORCH_E_CONFIG, "%.400s is not granted: it is or holds a whole home or a credential store",
                       path);
    }
    return 0;
}

int confinement_readable_check(const char *path, char **ret, struct orch_err *err)
{
    if (path[0] != '/') {
        return err_set(err, ORCH_E_CONFIG, "%.400s is not absolute: write it from the root", path);
    }
    AUTO_FREE char *plain = path_normal(path);
    AUTO_FREE char *real = NULL;
    TRY(check_place(plain, err));
    if (path_real(plain, &real, err) < 0) {
        err->code = ORCH_E_CONFIG;
        return err->code;
    }
    TRY(check_place(real, err));
    if (strcmp(plain, real) != 0) {
        return err_set(err, ORCH_E_CONFIG, "%.400s leads to %.400s: name that path instead", path, real);
    }
    *ret = take(plain);
    return 0;
}
