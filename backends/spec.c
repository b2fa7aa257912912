/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/spec.h"

#include "base/mem.h"
#include "base/path.h"
#include "base/utf8.h"

#include <string.h>

void spec_init(struct sandbox_spec *s, const char *name)
{
    *s = (struct sandbox_spec){
        .name = xstrdup(name),
        .role = xstrdup(""),
        .hostname = xstrdup("sandbox"),
        .cwd = xstrdup("/"),
        .dirs = xcalloc(1, sizeof(char *)),
        .env = xcalloc(1, sizeof(char *)),
        .absent = xcalloc(1, sizeof(char *)),
        .hide = xcalloc(1, sizeof(char *)),
        .network = SPEC_NO_NETWORK,
        .system = true,
    };
}

void spec_done(struct sandbox_spec *s)
{
    free(s->name);
    free(s->role);
    free(s->hostname);
    for (size_t i = 0; i < s->grant_count; i++) {
        free(s->grants[i].source);
        free(s->grants[i].target);
        free(s->grants[i].from);
    }
    free(s->grants);
    for (size_t i = 0; i < s->file_count; i++) {
        free(s->files[i].path);
        free(s->files[i].data);
    }
    free(s->files);
    strv_free(s->dirs);
    strv_free(s->env);
    strv_free(s->absent);
    strv_free(s->hide);
    free(s->cwd);
    free(s->ports);
    *s = (struct sandbox_spec){.name = NULL};
}

static struct spec_grant *grant_new(struct sandbox_spec *s)
{
    s->grants = xrealloc(s->grants, (s->grant_count + 1) * sizeof *s->grants);
    struct spec_grant *g = &s->grants[s->grant_count++];
    *g = (struct spec_grant){.required = true};
    return g;
}

void spec_grant(struct sandbox_spec *s, const char *source, const char *target, enum spec_mode mode,
                enum spec_kind kind)
{
    struct spec_grant *g = grant_new(s);
    g->source = xstrdup(source);
    g->target = xstrdup(target);
    g->mode = mode;
    g->kind = kind;
}

void spec_grant_work(struct sandbox_spec *s, const char *relative, const char *from, const char *target,
                     enum spec_mode mode)
{
    struct spec_grant *g = grant_new(s);
    g->source = xasprintf("work:%s", relative);
    g->target = xstrdup(target);
    g->from = from == NULL ? NULL : xstrdup(from);
    g->mode = mode;
    g->kind = SPEC_DIR;
}

void spec_add_file(struct sandbox_spec *s, const char *path, const void *data, size_t len, unsigned mode)
{
    s->files = xrealloc(s->files, (s->file_count + 1) * sizeof *s->files);
    s->files[s->file_count++] =
        (struct spec_file){.path = xstrdup(path), .data = xmemdup0(data, len), .len = len, .mode = mode};
}

void spec_add_dir(struct sandbox_spec *s, const char *path)
{
    s->dirs = strv_append(s->dirs, xstrdup(path));
}

void spec_set_env(struct sandbox_spec *s, const char *name, const char *value)
{
    size_t len = strlen(name);
    for (char **e = s->env; *e != NULL; e++) {
        if (strncmp(*e, name, len) == 0 && (*e)[len] == '=') {
            free(*e);
            *e = xasprintf("%s=%s", name, value);
            return;
        }
    }
    s->env = strv_append(s->env, xasprintf("%s=%s", name, value));
}

void spec_add_port(struct sandbox_spec *s, uint16_t port)
{
    s->ports = xrealloc(s->ports, (s->port_count + 1) * sizeof *s->ports);
    s->ports[s->port_count++] = port;
}

void spec_add_absent(struct sandbox_spec *s, const char *path)
{
    s->absent = strv_append(s->absent, xstrdup(path));
}

void spec_add_hide(struct sandbox_spec *s, const char *path)
{
    s->hide = strv_append(s->hide, xstrdup(path));
}

bool spec_name_is_valid(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t len = strlen(name);
    return len > 0 && len <= SPEC_NAME_MAX && name[0] != '.' && name[0] != '-' && strspn(name, allowed) == len;
}

/* ---- rules ---- */

static bool plain_absolute(const char *path)
{
    size_t len = strlen(path);
    return len > 1 && len < SPEC_PATH_MAX && path[0] == '/' && path_is_plain_relative(path + 1);
}

/* Whether nothing may be mounted at `path`. The skeleton root owns these; a link of it (/bin) would lead a mount away.
 */
static bool reserved(const char *path)
{
    static const char *const trees[] = {"/proc", "/sys", "/dev",   "/usr",   "/etc",    "/bin",
                                        "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/.orch-init"};
    static const char *const exact[] = {"/tmp", "/home", SPEC_HOME};
    for (size_t i = 0; i < ARRAY_LEN(trees); i++) {
        if (path_is_beneath(path, trees[i])) {
            return true;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(exact); i++) {
        if (strcmp(path, exact[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Paths travel as JSON: another name would be opened than was asked for. */
static int check_utf8(const char *what, const char *path, struct orch_err *err)
{
    if (!utf8_valid(path, strlen(path))) {
        return err_set(err, ORCH_E_CONFIG, "%s: \"%.200s\" is not UTF-8: give it another name", what, path);
    }
    return 0;
}

static int check_target(const char *what, const char *path, struct orch_err *err)
{
    TRY(check_utf8(what, path, err));
    if (!plain_absolute(path)) {
        return err_set(err, ORCH_E_CONFIG, "%s: \"%.200s\" is not an absolute, normalised path", what, path);
    }
    if (reserved(path)) {
        return err_set(err, ORCH_E_CONFIG, "%s: \"%.200s\" belongs to the sandbox itself", what, path);
    }
    return 0;
}

static int check_tree_or_path(const char *what, const char *source, struct orch_err *err)
{
    if (strncmp(source, "tree:", 5) == 0) {
        const char *hex = strncmp(source + 5, "sha256:", 7) == 0 ? source + 12 : "";
        if (strlen(hex) != 64 || strspn(hex, "0123456789abcdef") != 64) {
            return err_set(err, ORCH_E_CONFIG, "%s: \"%.200s\" is not a digest", what, source);
        }
        return 0;
    }
    if (!plain_absolute(source)) {
        return err_set(err, ORCH_E_CONFIG, "%s: \"%.200s\" is no absolute path, tree: or work: source", what, source);
    }
    return 0;
}

static int check_grant(const struct spec_grant *g, struct orch_err *err)
{
    TRY(check_utf8("grants", g->source, err));
    TRY(check_target("grants", g->target, err));
    if (g->mode >= SPEC_MODE_COUNT || g->kind >= SPEC_KIND_COUNT) {
        return err_set(err, ORCH_E_CONFIG, "grants: %.200s: no such mode or kind", g->target);
    }
    bool work = strncmp(g->source, "work:", 5) == 0;
    if (work && (g->kind != SPEC_DIR || !path_is_plain_relative(g->source + 5))) {
        return err_set(err, ORCH_E_CONFIG, "grants: \"%.200s\" must name a directory of the sandbox", g->source);
    }
    if (!work) {
        TRY(check_tree_or_path("grants", g->source, err));
    }
    if (g->from != NULL && !work) {
        return err_set(err, ORCH_E_CONFIG, "grants: %.200s: only a work: source can start from something", g->target);
    }
    if (g->from != NULL) {
        TRY(check_utf8("from", g->from, err));
        TRY(check_tree_or_path("from", g->from, err));
    }
    if (strncmp(g->source, "tree:", 5) == 0 && (g->mode != SPEC_RO || g->kind != SPEC_DIR)) {
        return err_set(err, ORCH_E_CONFIG, "grants: %.200s: a tree is a read-only directory", g->target);
    }
    return 0;
}

static int check_env(char *const *env, struct orch_err *err)
{
    for (char *const *e = env; *e != NULL; e++) {
        const char *eq = strchr(*e, '=');
        if (eq == NULL || eq == *e) {
            return err_set(err, ORCH_E_CONFIG, "env: a variable without a name");
        }
        if (!utf8_valid(*e, (size_t)(eq - *e))) {
            return err_set(err, ORCH_E_CONFIG, "env: a variable whose name is not UTF-8");
        }
        for (char *const *later = e + 1; *later != NULL; later++) {
            if (strncmp(*later, *e, (size_t)(eq - *e) + 1) == 0) {
                return err_set(err, ORCH_E_CONFIG, "env: %.*s is set twice", (int)(eq - *e), *e);
            }
        }
    }
    return 0;
}

static int check_counts(const struct sandbox_spec *s, struct orch_err *err)
{
    const struct {
        const char *name;
        size_t count, max;
    } lists[] = {
        {"grants", s->grant_count, SPEC_GRANTS_MAX}, {"files", s->file_count, SPEC_FILES_MAX},
        {"ports", s->port_count, SPEC_PORTS_MAX},    {"dirs", strv_len(s->dirs), SPEC_LIST_MAX},
        {"env", strv_len(s->env), SPEC_LIST_MAX},    {"absent", strv_len(s->absent), SPEC_LIST_MAX},
        {"hide", strv_len(s->hide), SPEC_LIST_MAX},
    };
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        if (lists[i].count > lists[i].max) {
            return err_set(err, ORCH_E_CONFIG, "%s: %zu entries, at most %zu", lists[i].name, lists[i].count,
                           lists[i].max);
        }
    }
    return 0;
}

static int check_ports(const struct sandbox_spec *s, struct orch_err *err)
{
    for (size_t i = 0; i < s->port_count; i++) {
        if (s->ports[i] < SPEC_PORT_MIN) {
            return err_set(err, ORCH_E_CONFIG, "ports: %u is below %d", s->ports[i], SPEC_PORT_MIN);
        }
        for (size_t k = i + 1; k < s->port_count; k++) {
            if (s->ports[k] == s->ports[i]) {
                return err_set(err, ORCH_E_CONFIG, "ports: %u is named twice", s->ports[i]);
            }
        }
    }
    return 0;
}

/* Every target once: two things at one place would depend on the order. */
static int check_unique_targets(const struct sandbox_spec *s, struct orch_err *err)
{
    for (size_t i = 0; i < s->grant_count + s->file_count; i++) {
        const char *a = i < s->grant_count ? s->grants[i].target : s->files[i - s->grant_count].path;
        for (size_t k = i + 1; k < s->grant_count + s->file_count; k++) {
            const char *b = k < s->grant_count ? s->grants[k].target : s->files[k - s->grant_count].path;
            if (strcmp(a, b) == 0) {
                return err_set(err, ORCH_E_CONFIG, "\"%.200s\" is granted twice", a);
            }
        }
    }
    return 0;
}

static int check_paths(const struct sandbox_spec *s, struct orch_err *err)
{
    for (size_t i = 0; i < s->grant_count; i++) {
        TRY(check_grant(&s->grants[i], err));
    }
    for (size_t i = 0; i < s->file_count; i++) {
        TRY(check_target("files", s->files[i].path, err));
        if ((s->files[i].mode & ~0777U) != 0 || s->files[i].len > SPEC_FILE_BYTES_MAX) {
            return err_set(err, ORCH_E_CONFIG, "files: %.200s: bad mode or too large", s->files[i].path);
        }
    }
    for (char **d = s->dirs; *d != NULL; d++) {
        TRY(check_target("dirs", *d, err));
    }
    for (char **d = s->hide; *d != NULL; d++) {
        TRY(check_target("hide", *d, err));
    }
    for (char **d = s->absent; *d != NULL; d++) {
        TRY(check_utf8("absent", *d, err));
        if (!plain_absolute(*d)) {
            return err_set(err, ORCH_E_CONFIG, "absent: \"%.200s\" is not an absolute, normalised path", *d);
        }
    }
    return check_unique_targets(s, err);
}

int spec_check(const struct sandbox_spec *s, struct orch_err *err)
{
    static const char host[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.";
    if (!spec_name_is_valid(s->name)) {
        return err_set(err, ORCH_E_CONFIG, "name: \"%.200s\" is not a sandbox name", s->name);
    }
    size_t host_len = strlen(s->hostname);
    if (host_len == 0 || host_len > 63 || strspn(s->hostname, host) != host_len) {
        return err_set(err, ORCH_E_CONFIG, "hostname: \"%.200s\" is not one", s->hostname);
    }
    if (s->network >= SPEC_NETWORK_COUNT) {
        return err_set(err, ORCH_E_CONFIG, "network: no such mode");
    }
    TRY(check_utf8("cwd", s->cwd, err));
    if (strcmp(s->cwd, "/") != 0 && !plain_absolute(s->cwd)) {
        return err_set(err, ORCH_E_CONFIG, "cwd: \"%.200s\" is not an absolute, normalised path", s->cwd);
    }
    if (s->limits.memory != 0 && s->limits.memory < SPEC_MEMORY_MIN) {
        return err_set(err, ORCH_E_CONFIG, "limits: memory: at least %llu bytes, or 0 for no limit",
                       (unsigned long long)SPEC_MEMORY_MIN);
    }
    TRY(check_counts(s, err));
    TRY(check_ports(s, err));
    TRY(check_env(s->env, err));
    return check_paths(s, err);
}
