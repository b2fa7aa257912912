/* SPDX-License-Identifier: Apache-2.0 */
#include "base/path.h"

#include "base/buf.h"
#include "base/mem.h"

#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *path_join(const char *a, const char *b)
{
    if (b[0] == '/' || a[0] == '\0') {
        return xstrdup(b);
    }
    if (b[0] == '\0') {
        return xstrdup(a);
    }
    return xasprintf("%s%s%s", a, a[strlen(a) - 1] == '/' ? "" : "/", b);
}

static void drop_last(struct buf *out)
{
    while (out->len > 0 && out->data[out->len - 1] != '/') {
        out->len--;
    }
    if (out->len > 1) {
        out->len--;
    }
    out->data[out->len] = '\0';
}

static bool ends_in_parent(const struct buf *out)
{
    return out->len == 0 || (out->len >= 2 && strcmp(out->data + out->len - 2, "..") == 0 &&
                             (out->len == 2 || out->data[out->len - 3] == '/'));
}

char *path_normal(const char *path)
{
    AUTO_BUF struct buf out;
    buf_init(&out, strlen(path) + 2);
    bool absolute = path[0] == '/';
    if (absolute) {
        buf_char(&out, '/');
    }
    const char *p = path;
    while (*p != '\0') {
        p += strspn(p, "/");
        size_t n = strcspn(p, "/");
        if (n == 0) {
            break;
        }
        if (n == 2 && p[0] == '.' && p[1] == '.') {
            if (!ends_in_parent(&out)) {
                drop_last(&out);
                p += n;
                continue;
            }
            if (absolute) {
                p += n;
                continue;
            }
        }
        if (!(n == 1 && p[0] == '.')) {
            if (out.len > 0 && out.data[out.len - 1] != '/') {
                buf_char(&out, '/');
            }
            buf_add(&out, p, n);
        }
        p += n;
    }
    if (out.len == 0) {
        buf_char(&out, '.');
    }
    return buf_take(&out, NULL);
}

bool path_is_beneath(const char *path, const char *root)
{
    size_t n = strlen(root);
    if (n == 1 && root[0] == '/') {
        return path[0] == '/';
    }
    return strncmp(path, root, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

bool path_is_plain_relative(const char *path)
{
    for (const char *p = path; *p != '\0'; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f) {
            return false;
        }
    }
    return path_is_inner(path);
}

bool path_is_inner(const char *path)
{
    const char *p = path;
    for (;;) {
        size_t n = strcspn(p, "/");
        if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.')) {
            return false;
        }
        if (p[n] == '\0') {
            return true;
        }
        p += n + 1;
    }
}

const char *path_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

char *path_dir(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL) {
        return xstrdup(".");
    }
    return slash == path ? xstrdup("/") : xmemdup0(path, (size_t)(slash - path));
}

int path_real(const char *path, char **ret, struct orch_err *err)
{
    char *real = realpath(path, NULL);
    if (real == NULL) {
        return err_errno(err, errno == ENOENT || errno == ENOTDIR ? ORCH_E_NOT_FOUND : ORCH_E_IO, "%s", path);
    }
    *ret = real;
    return 0;
}

static bool is_program(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

int path_search(const char *program, const char *search, char **ret, struct orch_err *err)
{
    if (strchr(program, '/') != NULL) {
        if (!is_program(program)) {
            return err_set(err, ORCH_E_NOT_FOUND, "%s: no such program, or not executable", program);
        }
        *ret = xstrdup(program);
        return 0;
    }
    const char *p = search;
    while (p != NULL && *p != '\0') {
        size_t n = strcspn(p, ":");
        if (n > 0 && p[0] == '/') {
            AUTO_FREE char *candidate = xasprintf("%.*s/%s", (int)n, p, program);
            if (is_program(candidate)) {
                *ret = take(candidate);
                return 0;
            }
        }
        p += n + (p[n] == ':' ? 1 : 0);
    }
    return err_set(err, ORCH_E_NOT_FOUND, "%s: no such program on PATH", program);
}

static bool glob_components(const char *pattern, const char *path)
{
    size_t n = strcspn(pattern, "/");
    bool last = pattern[n] == '\0';
    if (n == 2 && pattern[0] == '*' && pattern[1] == '*') {
        if (last) {
            return true;
        }
        for (const char *rest = path;; rest += strcspn(rest, "/") + 1) {
            if (glob_components(pattern + 3, rest)) {
                return true;
            }
            if (strchr(rest, '/') == NULL) {
                return false;
            }
        }
    }
    size_t m = strcspn(path, "/");
    if (last != (path[m] == '\0')) {
        return false;
    }
    AUTO_FREE char *pattern_part = xmemdup0(pattern, n);
    AUTO_FREE char *path_part = xmemdup0(path, m);
    if (fnmatch(pattern_part, path_part, 0) != 0) {
        return false;
    }
    return last || glob_components(pattern + n + 1, path + m + 1);
}

bool path_glob(const char *pattern, const char *path)
{
    return glob_components(pattern, path);
}
