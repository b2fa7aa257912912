/* SPDX-License-Identifier: Apache-2.0 */
#include "config/operator.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "config/config_read.h"
#include "config/run_check.h"
#include "config/schema.h"
#include "config/yaml.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where the keys of the known providers may go. */
static const struct {
    const char *variable;
    const char *urls[3];
} shipped[] = {
    {"OPENAI_API_KEY", {"https://api.openai.com/"}},
    {"ANTHROPIC_API_KEY", {"https://api.anthropic.com/"}},
    {"FIREWORKS_API_KEY", {"https://api.fireworks.ai/"}},
    {"DEEPSEEK_API_KEY", {"https://api.deepseek.com/"}},
};

void operator_directories(char **ret_system, char **ret_user)
{
    const char *config = config_variable("XDG_CONFIG_HOME");
    const char *home = config_variable("HOME");
    *ret_system = xstrdup("/etc/orch");
    if (config != NULL && config[0] == '/') {
        *ret_user = path_join(config, "orch");
    } else {
        *ret_user = home != NULL && home[0] == '/' ? path_join(home, ".config/orch") : NULL;
    }
}

void operator_free(struct operator_config *config)
{
    if (config == NULL) {
        return;
    }
    config_clear(config_operator_table(), config);
    config_source_free(config->source);
    strv_free(config->files);
    free(config);
}

void operator_release(struct operator_config **config)
{
    operator_free(*config);
    *config = NULL;
}

/* --- files --- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_config_name(const char *name)
{
    size_t len = strlen(name);
    return name[0] != '.' && len > 5 && strcmp(name + len - 5, ".yaml") == 0;
}

/* Names of the *.yaml files in order; an absent directory holds none. NULL after an error. Owned by the caller. */
static char **list_files(const char *dir, struct orch_err *err)
{
    char **list = xcalloc(1, sizeof(*list));
    size_t count = 0;
    DIR *d = opendir(dir);
    if (d == NULL && errno == ENOENT) {
        return list;
    }
    if (d == NULL) {
        strv_free(list);
        err_errno(err, ORCH_E_IO, "open operator config %s", dir);
        return NULL;
    }
    int code = 0;
    while (code == 0) {
        errno = 0;
        struct dirent *e = readdir(d); /* NOLINT(concurrency-mt-unsafe): own stream */
        if (e == NULL) {
            code = errno == 0 ? 1 : err_errno(err, ORCH_E_IO, "read operator config %s", dir);
        } else if (is_config_name(e->d_name) && ++count > OPERATOR_FILES_MAX) {
            code = err_set(err, ORCH_E_CONFIG, "operator config %s: more than %d files", dir, OPERATOR_FILES_MAX);
        } else if (is_config_name(e->d_name)) {
            list = strv_append(list, xstrdup(e->d_name));
        }
    }
    closedir(d);
    if (code < 0) {
        strv_free(list);
        return NULL;
    }
    if (count > 1) {
        qsort(list, count, sizeof(*list), by_name);
    }
    return list;
}

/* Policy that somebody else can write is not the operator's. */
static int check_owner(int fd, const char *path, struct orch_err *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0) {
        return err_errno(err, ORCH_E_IO, "look at %s", path);
    }
    if (st.st_uid != 0 && st.st_uid != geteuid()) {
        return err_set(err, ORCH_E_CONFIG, "operator config %s belongs to uid %u, not to root or you", path,
                       (unsigned)st.st_uid);
    }
    bool sticky_dir = S_ISDIR(st.st_mode) && (st.st_mode & S_ISVTX) != 0;
    if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0 && !sticky_dir) {
        return err_set(err, ORCH_E_CONFIG, "operator config %s may be written by others (mode %03o): chmod go-w it",
                       path, (unsigned)(st.st_mode & 0777));
    }
    return 0;
}

static int read_policy(const char *path, char **ret_text, size_t *ret_len, struct orch_err *err)
{
    AUTO_FD int fd = fd_open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, err);
    TRY(fd);
    TRY(check_owner(fd, path, err));
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        return err_set(err, ORCH_E_CONFIG, "operator config %s is not a regular file", path);
    }
    return fd_read_all(fd, YAML_BYTES_MAX, ret_text, ret_len, err);
}

/* A relative path would mean another place for each file, and for each reader. */
static void check_absolute(const struct yaml_node *tree, const char *key, struct config_findings *findings)
{
    const struct yaml_node *list = config_find(config_operator_table(), tree, key);
    for (size_t i = 0; list != NULL && list->kind == YAML_LIST && i < list->count; i++) {
        const struct yaml_node *item = list->items[i];
        if (item->kind == YAML_SCALAR && item->text[0] != '\0' && strchr("/~$", item->text[0]) == NULL) {
            config_findings_add(findings, "bad-path", item->place, item->line, item->column, "an absolute path", NULL,
                                "write it from the root, or from ~", "`%s[%zu]` is relative", key, i);
        }
    }
}

/* Each file is checked alone, so that what a later one replaces is checked too. */
static void check_alone(const struct yaml_node *tree, const char *place, const char *dir,
                        struct config_findings *findings)
{
    struct operator_config *alone = xcalloc(1, sizeof(*alone));
    config_read(config_operator_table(), alone, tree, place, dir, true, findings);
    operator_free(alone);
    check_absolute(tree, "readable", findings);
    check_absolute(tree, "login_files", findings);
}

/* A text that stands for a file of the user's directory. */
struct overlay {
    const char *name, *text; /* NULL: there is none */
};

static bool is_overlay(const struct overlay *o, const char *name)
{
    return o->name != NULL && strcmp(o->name, name) == 0;
}

static int load_file(struct operator_config *c, const char *dir, const char *name, const struct overlay *overlay,
                     struct config_findings *findings, struct orch_err *err)
{
    AUTO_FREE char *path = path_join(dir, name);
    AUTO_FREE char *text = NULL;
    AUTO_YAML struct yaml_node *tree = NULL;
    size_t len = 0;
    if (is_overlay(overlay, name)) {
        text = xstrdup(overlay->text);
        len = strlen(text);
    } else {
        TRY(read_policy(path, &text, &len, err));
    }
    c->files = strv_append(c->files, xstrdup(path));
    c->source->places = strv_append(c->source->places, xstrdup(path));
    const char *place = c->source->places[strv_len(c->source->places) - 1];
    if (yaml_tree_parse(place, text, len, 0, &tree, findings, err) < 0) {
        err_clear(err); /* the findings say it; the other files are looked at too */
        return 0;
    }
    size_t before = findings->count;
    check_alone(tree, place, dir, findings);
    if (findings->count == before && tree->kind == YAML_MAP) {
        config_merge(c->source->tree, take(tree));
    }
    return 0;
}

static char **add_overlay(char **names, const struct overlay *overlay)
{
    for (size_t i = 0; overlay->name != NULL && i < strv_len(names); i++) {
        if (is_overlay(overlay, names[i])) {
            return names;
        }
    }
    if (overlay->name != NULL) {
        names = strv_append(names, xstrdup(overlay->name));
        qsort(names, strv_len(names), sizeof(*names), by_name);
    }
    return names;
}

static int check_dir(const char *dir, struct orch_err *err)
{
    AUTO_FD int fd = fd_open(dir, O_RDONLY | O_DIRECTORY, 0, err);
    TRY(fd);
    return check_owner(fd, dir, err);
}

static int load_dir(struct operator_config *c, const char *dir, const struct overlay *overlay,
                    struct config_findings *findings, struct orch_err *err)
{
    if (dir == NULL) {
        return 0;
    }
    AUTO_STRV char **names = list_files(dir, err);
    if (names == NULL) {
        return err->code;
    }
    if (names[0] != NULL) {
        TRY(check_dir(dir, err));
    }
    names = add_overlay(names, overlay);
    for (size_t i = 0; i < strv_len(names); i++) {
        TRY(load_file(c, dir, names[i], overlay, findings, err));
    }
    return 0;
}

static struct yaml_node *shipped_tree(void)
{
    struct yaml_node *root = yaml_node_map("shipped", 0, 0);
    struct yaml_node *credentials = yaml_node_map("shipped", 0, 0);
    for (size_t i = 0; i < ARRAY_LEN(shipped); i++) {
        struct yaml_node *entry = yaml_node_map("shipped", 0, 0);
        struct yaml_node *urls = yaml_node_list("shipped", 0, 0);
        for (size_t k = 0; k < ARRAY_LEN(shipped[i].urls) && shipped[i].urls[k] != NULL; k++) {
            yaml_node_add(urls, yaml_node_scalar("shipped", 0, 0, shipped[i].urls[k], false));
        }
        yaml_node_set(entry, "urls", 0, 0, urls);
        yaml_node_set(credentials, shipped[i].variable, 0, 0, entry);
    }
    yaml_node_set(root, "credentials", 0, 0, credentials);
    return root;
}

/* --- rules between keys --- */

static void report(const struct operator_config *c, struct config_findings *findings, const char *key, const char *id,
                   const char *expected, const char *remedy, const char *message)
{
    const struct yaml_node *node = config_find(config_operator_table(), c->source->tree, key);
    config_findings_add(findings, id, node == NULL ? "operator config" : node->place, node == NULL ? 0 : node->line,
                        node == NULL ? 0 : node->column, expected, NULL, remedy, "%s", message);
}

static void check_urls(const struct operator_config *c, struct config_findings *findings)
{
    for (size_t i = 0; i < c->credential_count; i++) {
        for (size_t k = 0; k < strv_len(c->credentials[i].urls); k++) {
            const char *url = c->credentials[i].urls[k];
            size_t head = strncmp(url, "https://", 8) == 0 ? 8 : strncmp(url, "http://", 7) == 0 ? 7 : 0;
            size_t host = head == 0 ? 0 : strcspn(url + head, "/");
            if (host == 0 || strpbrk(url, "@*?# \t") != NULL) {
                AUTO_FREE char *key = xasprintf("credentials.%s", c->credentials[i].name);
                AUTO_FREE char *message = xasprintf("`%s.urls` holds `%s`, not the beginning of a URL", key, url);
                report(c, findings, key, "bad-value", "https:// or http://, a host, and as much of the path as must be",
                       "write it such as https://host/v1/", message);
            }
        }
    }
}

static void check_rules(struct operator_config *c, struct config_findings *findings)
{
    if (c->confinement.required && c->confinement.on_unavailable != OPERATOR_ON_UNAVAILABLE_REFUSE) {
        report(c, findings, "confinement.on_unavailable", "conflict", "`refuse` while `confinement.required` is true",
               "write `refuse`, or `confinement.required: false`",
               "`confinement.on_unavailable` would start calls that `confinement.required` forbids");
    }
    if (c->uid_range.first + c->uid_range.count > INT64_C(4294967295)) {
        report(c, findings, "uid_range.count", "out-of-range", "a range below 4294967295", "choose a smaller range",
               "`uid_range` ends beyond the largest uid");
    }
    for (size_t i = 0; i < strv_len(c->readable); i++) {
        if (config_path_is_forbidden(c->readable[i])) {
            AUTO_FREE char *message = xasprintf("`readable` would grant %s", c->readable[i]);
            report(c, findings, "readable", "forbidden-path", "a path that holds no whole home and no credential store",
                   "name the folder that is needed; whole homes and credential stores are never granted", message);
        }
    }
    check_urls(c, findings);
}

static int load(const char *system_dir, const char *user_dir, const struct overlay *overlay,
                struct operator_config **ret, struct config_findings *findings, struct orch_err *err)
{
    static const struct overlay none = {NULL, NULL};
    AUTO_OPERATOR_CONFIG struct operator_config *c = xcalloc(1, sizeof(*c));
    c->source = xcalloc(1, sizeof(*c->source));
    c->source->places = xcalloc(1, sizeof(char *));
    c->files = xcalloc(1, sizeof(char *));
    c->source->tree = shipped_tree();
    TRY(load_dir(c, user_dir, overlay, findings, err));
    TRY(load_dir(c, system_dir, &none, findings, err));
    TRY(config_findings_result(findings, err));
    config_read(config_operator_table(), c, c->source->tree, "operator config", "/", false, findings);
    if (findings->count == 0) {
        check_rules(c, findings);
    }
    TRY(config_findings_result(findings, err));
    *ret = take(c);
    return 0;
}

int operator_load(const char *system_dir, const char *user_dir, struct operator_config **ret,
                  struct config_findings *findings, struct orch_err *err)
{
    static const struct overlay none = {NULL, NULL};
    return load(system_dir, user_dir, &none, ret, findings, err);
}

int operator_load_with(const char *system_dir, const char *user_dir, const char *name, const char *text,
                       struct operator_config **ret, struct config_findings *findings, struct orch_err *err)
{
    const struct overlay overlay = {name, text};
    return load(system_dir, user_dir, &overlay, ret, findings, err);
}

json_t *operator_effective(const struct operator_config *config)
{
    return config_to_json(config_operator_table(), config, config->source->tree, CONFIG_FORM_EFFECTIVE, NULL, NULL);
}

char *operator_show(const struct operator_config *config)
{
    return config_to_yaml(config_operator_table(), config, config->source->tree, NULL, NULL);
}

char *operator_origin(const struct operator_config *config, const char *key)
{
    return config_origin(config_operator_table(), config->source->tree, key);
}

/* --- permissions --- */

static bool is_loopback(const char *url)
{
    static const char *const hosts[] = {"127.0.0.1", "localhost", "[::1]"};
    const char *host = strstr(url, "://");
    if (host == NULL || (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)) {
        return false;
    }
    host += 3;
    for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
        size_t len = strlen(hosts[i]);
        if (strncmp(host, hosts[i], len) == 0 && strchr(":/", host[len]) != NULL) {
            return strchr(host, '@') == NULL;
        }
    }
    return false;
}

/* "https://host/v1" allows "https://host/v1" and "https://host/v1/…", never "https://host/v10" or "https://host.evil".
 */
static bool is_prefix(const char *prefix, const char *url)
{
    size_t len = strlen(prefix);
    if (len > 0 && prefix[len - 1] == '/') {
        len--;
    }
    return strncmp(prefix, url, len) == 0 && (url[len] == '\0' || url[len] == '/') && strstr(url, "/..") == NULL;
}

bool operator_key_allowed(const struct operator_config *config, const char *key, const char *base_url)
{
    if (is_loopback(base_url)) {
        return true;
    }
    for (size_t i = 0; i < config->credential_count; i++) {
        for (size_t k = 0; strcmp(config->credentials[i].name, key) == 0 && k < strv_len(config->credentials[i].urls);
             k++) {
            if (is_prefix(config->credentials[i].urls[k], base_url)) {
                return true;
            }
        }
    }
    return false;
}

bool operator_network_permitted(const struct operator_config *config, int network)
{
    for (size_t i = 0; i < strv_len(config->network_permitted); i++) {
        if (network >= 0 && strcmp(config->network_permitted[i], config_network_names[network]) == 0) {
            return true;
        }
    }
    return false;
}

#define FORBIDDEN(run, findings, key, expected, remedy, ...)                                                           \
    run_check_report((run), (run)->source->places[0], (findings), (key), "operator", (expected), (remedy), __VA_ARGS__)

static void check_network(const struct operator_config *config, const struct run_config *run, const char *key,
                          int network, struct config_findings *findings)
{
    if (!operator_network_permitted(config, network)) {
        FORBIDDEN(run, findings, key, "a mode of the operator's `network.permitted`",
                  "choose another mode, or ask the operator", "`%s: %s` is not permitted by the operator", key,
                  config_network_names[network]);
    }
}

static void check_runner(const struct operator_config *config, const struct run_config *run, const char *key,
                         const struct config_environment *e, struct config_findings *findings)
{
    if (e->runner == CONFIG_RUNNER_HOST && !e->inherited && !config->allow.runner_host) {
        FORBIDDEN(run, findings, key, "`sandbox`", "write `sandbox`, or ask the operator for `allow.runner_host: true`",
                  "`%s: host` is not permitted by the operator", key);
    }
}

void operator_check(const struct operator_config *config, const struct run_config *run,
                    struct config_findings *findings)
{
    check_network(config, run, "task.network", run->task.access.network, findings);
    check_network(config, run, "evolver.network", run->evolver.access.network, findings);
    for (size_t i = 0; i < run->task.tool_count; i++) {
        check_network(config, run, "task.tools", run->task.tools[i].network, findings);
    }
    check_runner(config, run, "environment.runner", &run->environment, findings);
    check_runner(config, run, "task.environment.runner", &run->task.environment, findings);
    check_runner(config, run, "evolver.environment.runner", &run->evolver.environment, findings);
    for (size_t i = 0; i < run->model_count; i++) {
        const struct config_model *m = &run->models[i];
        if (m->key != NULL && !operator_key_allowed(config, m->key, m->base_url)) {
            AUTO_FREE char *key = xasprintf("models.%s", m->name);
            FORBIDDEN(run, findings, key, "a base URL that the operator pairs with the variable",
                      "correct `base_url` or `key`, or ask the operator to add the pair under `credentials`",
                      "`models.%s` would send %s to %s", m->name, m->key, m->base_url);
        }
    }
    int least = config->confinement.mechanism;
    if (least != CONFIG_MECHANISM_AUTO && run->sandbox.mechanism != CONFIG_MECHANISM_AUTO &&
        run->sandbox.mechanism != least) {
        FORBIDDEN(run, findings, "sandbox.mechanism", config_mechanism_names[least], "remove the key",
                  "`sandbox.mechanism: %s` is not what the operator requires",
                  config_mechanism_names[run->sandbox.mechanism]);
    }
}
