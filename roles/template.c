/* SPDX-License-Identifier: Apache-2.0 */
#include "roles/template.h"

#include "backends/handoff.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "config/units.h"
#include "config/yaml.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define CHECK_TIMEOUT_NS (INT64_C(60) * NS_PER_S)

void template_done(struct template *t)
{
    free(t->id);
    strv_free(t->learnable);
    strv_free(t->fixed);
    strv_free(t->check_command);
    *t = (struct template){0};
}

/* ------------------------------------------------------------------ adapter.yaml */

static void wrong(struct config_findings *f, const struct yaml_node *n, const char *key, const char *expected)
{
    config_findings_add(f, "template", n->place, n->line, n->column, expected, NULL, NULL, "`%s` has a wrong value",
                        key);
}

static void read_text(const struct yaml_node *n, const char *key, char **ret, struct config_findings *f)
{
    if (n->kind != YAML_SCALAR || n->text[0] == '\0') {
        wrong(f, n, key, "a text");
        return;
    }
    free(*ret);
    *ret = xstrdup(n->text);
}

static void read_list(const struct yaml_node *n, const char *key, char ***ret, struct config_findings *f)
{
    if (n->kind != YAML_LIST) {
        wrong(f, n, key, "a list of texts");
        return;
    }
    for (size_t i = 0; i < n->count; i++) {
        char *item = NULL;
        read_text(n->items[i], key, &item, f);
        if (item != NULL) {
            *ret = strv_append(*ret, item);
        }
    }
}

static void read_check(const struct yaml_node *n, struct template *t, struct config_findings *f)
{
    if (n->kind != YAML_MAP) {
        wrong(f, n, "check", "{command: [...], timeout: 10s}");
        return;
    }
    for (size_t i = 0; i < n->count; i++) {
        if (strcmp(n->keys[i], "command") == 0) {
            read_list(n->items[i], "check.command", &t->check_command, f);
        } else if (strcmp(n->keys[i], "timeout") == 0 && n->items[i]->kind == YAML_SCALAR) {
            if (units_duration(n->items[i]->text, &t->check_timeout_ns) != NULL) {
                wrong(f, n->items[i], "check.timeout", "a duration such as 10s");
            }
        } else {
            config_findings_add(f, "unknown-key", n->place, n->key_lines[i], n->key_columns[i], "command, timeout",
                                NULL, NULL, "unknown key `check.%s`", n->keys[i]);
        }
    }
}

static void read_key(const struct yaml_node *root, size_t i, struct template *t, struct config_findings *f)
{
    const char *key = root->keys[i];
    const struct yaml_node *n = root->items[i];
    if (strcmp(key, "template") == 0) {
        read_text(n, key, &t->id, f);
    } else if (strcmp(key, "learnable") == 0) {
        read_list(n, key, &t->learnable, f);
    } else if (strcmp(key, "fixed") == 0) {
        read_list(n, key, &t->fixed, f);
    } else if (strcmp(key, "check") == 0) {
        read_check(n, t, f);
    } else if (strcmp(key, "on_violation") == 0) {
        bool known = n->kind == YAML_SCALAR && (strcmp(n->text, "refuse") == 0 || strcmp(n->text, "drop") == 0);
        if (!known) {
            wrong(f, n, key, "refuse or drop");
        }
        t->drop = known && strcmp(n->text, "drop") == 0;
    } else if (strcmp(key, "description") != 0) {
        config_findings_add(f, "unknown-key", root->place, root->key_lines[i], root->key_columns[i],
                            "template, learnable, fixed, on_violation, check, description", NULL, NULL,
                            "unknown key `%s`", key);
    }
}

static bool has_version(const char *id)
{
    const char *at = id != NULL ? strchr(id, '@') : NULL;
    return at != NULL && at != id && at[1] != '\0';
}

int template_load(const char *dir, struct template *ret, struct config_findings *findings, struct orch_err *err)
{
    AUTO_FREE char *path = path_join(dir, TEMPLATE_FILE);
    AUTO_FREE char *text = NULL;
    size_t len = 0;
    int code = fd_read_file(path, TEMPLATE_FILE_MAX, &text, &len, err);
    if (code == ORCH_E_NOT_FOUND) {
        return err_set(err, ORCH_E_CONFIG, "%s: no such file; a template is a directory with %s in it", path,
                       TEMPLATE_FILE);
    }
    TRY(code);
    AUTO_YAML struct yaml_node *root = NULL;
    TRY(yaml_tree_parse(path, text, len, 0, &root, findings, err));
    struct template t = {.check_timeout_ns = CHECK_TIMEOUT_NS,
                         .learnable = strv_copy(NULL),
                         .fixed = strv_copy(NULL),
                         .check_command = strv_copy(NULL)};
    if (root->kind != YAML_MAP) {
        wrong(findings, root, TEMPLATE_FILE, "a map");
    }
    for (size_t i = 0; root->kind == YAML_MAP && i < root->count; i++) {
        read_key(root, i, &t, findings);
    }
    if (findings->count == 0 && !has_version(t.id)) {
        config_findings_add(findings, "template", path, root->line, root->column, "template: name@version", NULL, NULL,
                            "`template` is missing or has no @version");
    }
    if (findings->count == 0 && strv_len(t.learnable) == 0) {
        config_findings_add(findings, "template", path, root->line, root->column, "learnable: [globs]", NULL, NULL,
                            "nothing is learnable");
    }
    code = config_findings_result(findings, err);
    if (code < 0) {
        template_done(&t);
        return code;
    }
    *ret = t;
    return 0;
}

/* ------------------------------------------------------------------ rules */

struct listed { /* path → digest and mode, as text */
    struct map *files;
    char **paths; /* in the order of the walk */
};

static int list_file(const char *path, int fd, uint64_t size, bool executable, void *arg, struct orch_err *err)
{
    (void)size;
    struct listed *l = arg;
    char digest[DIGEST_TEXT_MAX];
    TRY(digest_of_fd(fd, digest, err));
    l->paths = strv_append(l->paths, xstrdup(path));
    map_set(l->files, path, xasprintf("%s%c", digest, executable ? 'x' : '-'));
    return 0;
}

static bool free_value(const char *key, void *value, void *arg)
{
    (void)key;
    (void)arg;
    free(value);
    return true;
}

static void listed_done(struct listed *l)
{
    if (l->files != NULL) {
        map_each(l->files, free_value, NULL);
    }
    map_free(l->files);
    strv_free(l->paths);
}

static int list_tree(const char *dir, struct listed *ret, struct orch_err *err)
{
    AUTO_FD int fd = fd_open(dir, O_RDONLY | O_DIRECTORY, 0, err);
    TRY(fd);
    ret->files = map_new();
    struct handoff_limits limits = {
        .bytes = TEMPLATE_BYTES_MAX, .entries = TEMPLATE_FILES_MAX, .observe = list_file, .observe_arg = ret};
    struct handoff_report report;
    return handoff_scan(fd, &limits, &report, err);
}

static bool same_files(const struct listed *a, const struct listed *b)
{
    bool same = strv_len(a->paths) == strv_len(b->paths);
    for (size_t i = 0; same && i < strv_len(a->paths); i++) {
        const char *other = map_get(b->files, a->paths[i]);
        same = other != NULL && strcmp(other, map_get(a->files, a->paths[i])) == 0;
    }
    return same;
}

int template_same_files(const char *a, const char *b, bool *ret, struct orch_err *err)
{
    struct listed first = {0};
    struct listed second = {0};
    int code = list_tree(a, &first, err);
    code = code < 0 ? code : list_tree(b, &second, err);
    *ret = code == 0 && same_files(&first, &second);
    listed_done(&first);
    listed_done(&second);
    return code;
}

static bool matches(char *const *globs, const char *path)
{
    for (size_t i = 0; globs != NULL && globs[i] != NULL; i++) {
        if (path_glob(globs[i], path)) {
            return true;
        }
    }
    return false;
}

static bool may_change(const struct template *t, const char *path)
{
    return strcmp(path, TEMPLATE_FILE) != 0 && matches(t->learnable, path) && !matches(t->fixed, path);
}

static void violation(struct template_verdict *v, const char *path, const char *what)
{
    if (strv_len(v->violations) >= TEMPLATE_VIOLATIONS_MAX) {
        v->more++;
        return;
    }
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_LINE);
    buf_escaped(&b, path, strlen(path), false);
    buf_fmt(&b, ": %s", what);
    v->violations = strv_append(v->violations, buf_take(&b, NULL));
}

static int put_back(const char *root_dir, const char *candidate_dir, const char *path, bool in_root,
                    struct orch_err *err)
{
    AUTO_FD int candidate = fd_open(candidate_dir, O_RDONLY | O_DIRECTORY, 0, err);
    TRY(candidate);
    AUTO_FREE char *dir = path_dir(path);
    AUTO_FREE char *full = path_join(candidate_dir, path);
    (void)unlink(full);
    if (!in_root) {
        return 0;
    }
    AUTO_FREE char *source = path_join(root_dir, path);
    AUTO_FREE char *full_dir = path_join(candidate_dir, dir);
    TRY(fd_mkdirs(full_dir, 0755, err));
    AUTO_FREE char *data = NULL;
    size_t len = 0;
    TRY(fd_read_file(source, TEMPLATE_BYTES_MAX, &data, &len, err));
    mode_t mode = access(source, X_OK) == 0 ? 0755 : 0644;
    AUTO_FD int fd = fd_open_beneath(candidate, path, O_WRONLY | O_CREAT | O_EXCL, mode, err);
    TRY(fd);
    return fd_write_all(fd, data, len, err);
}

struct comparison {
    const struct template *t;
    const char *root_dir;
    const char *candidate_dir;
    bool put_back; /* what breaks the rules */
    struct template_verdict *v;
};

static int compare_one(const struct comparison *c, const char *path, const char *before, const char *now,
                       struct orch_err *err)
{
    if (before != NULL && now != NULL && strcmp(before, now) == 0) {
        return 0;
    }
    if (may_change(c->t, path)) {
        c->v->changed++;
        return 0;
    }
    violation(c->v, path,
              before == NULL ? "was added, but is not learnable"
              : now == NULL  ? "was removed, but is fixed"
                             : "was changed, but is fixed");
    return c->put_back ? put_back(c->root_dir, c->candidate_dir, path, before != NULL, err) : 0;
}

static int compare(const struct comparison *c, const struct listed *root, const struct listed *candidate,
                   struct orch_err *err)
{
    for (size_t i = 0; i < strv_len(candidate->paths); i++) {
        const char *path = candidate->paths[i];
        TRY(compare_one(c, path, map_get(root->files, path), map_get(candidate->files, path), err));
    }
    for (size_t i = 0; i < strv_len(root->paths); i++) {
        const char *path = root->paths[i];
        if (!map_has(candidate->files, path)) {
            TRY(compare_one(c, path, map_get(root->files, path), NULL, err));
        }
    }
    return 0;
}

static int judge(struct comparison c, struct template_verdict *ret, struct orch_err *err)
{
    struct listed root = {0};
    struct listed candidate = {0};
    struct template_verdict v = {0};
    c.v = &v;
    int code = list_tree(c.root_dir, &root, err);
    code = code < 0 ? code : list_tree(c.candidate_dir, &candidate, err);
    code = code < 0 ? code : compare(&c, &root, &candidate, err);
    listed_done(&root);
    listed_done(&candidate);
    if (code < 0) {
        template_verdict_done(&v);
        return code;
    }
    *ret = v;
    return 0;
}

int template_check(const struct template *t, const char *root_dir, const char *candidate_dir,
                   struct template_verdict *ret, struct orch_err *err)
{
    struct comparison c = {.t = t, .root_dir = root_dir, .candidate_dir = candidate_dir};
    return judge(c, ret, err);
}

int template_settle(const struct template *t, const char *root_dir, const char *candidate_dir,
                    struct template_verdict *ret, struct orch_err *err)
{
    struct comparison c = {.t = t, .root_dir = root_dir, .candidate_dir = candidate_dir, .put_back = t->drop};
    return judge(c, ret, err);
}

void template_verdict_done(struct template_verdict *v)
{
    strv_free(v->violations);
    *v = (struct template_verdict){0};
}
