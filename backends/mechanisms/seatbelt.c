/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/mechanisms/seatbelt.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"

#include <string.h>

/* Trees of the system: reading them is what programs do, so that a grant beneath one does not close it. */
static const char *const system_roots[] = {"/",
                                           "/System",
                                           "/Library",
                                           "/Applications",
                                           "/usr",
                                           "/bin",
                                           "/sbin",
                                           "/opt",
                                           "/etc",
                                           "/dev",
                                           "/private",
                                           "/private/etc",
                                           "/private/var",
                                           "/private/tmp",
                                           "/private/var/tmp",
                                           "/private/var/folders",
                                           "/Volumes",
                                           "/nix"};

static const char preamble[] = "(version 1)\n"
                               "(deny default)\n"
                               "(allow process-exec*)\n"
                               "(allow process-fork)\n"
                               "(allow process-info* (target same-sandbox))\n"
                               "(allow signal (target same-sandbox))\n"
                               "(allow file-map-executable)\n"
                               "(allow sysctl-read)\n"
                               "(allow ipc-posix-sem)\n"
                               "(allow ipc-posix-shm)\n"
                               "(allow mach-lookup (global-name \"com.apple.system.opendirectoryd.libinfo\"))\n"
                               "(allow mach-lookup (global-name \"com.apple.system.notification_center\"))\n"
                               "(allow mach-lookup (global-name \"com.apple.system.logger\"))\n"
                               "(allow mach-lookup (global-name \"com.apple.trustd.agent\"))\n"
                               "(allow file-read*)\n";

static const char *const devices[] = {"/dev/null",    "/dev/zero", "/dev/random",
                                      "/dev/urandom", "/dev/tty",  "/dev/dtracehelper"};

static const char metal[] = "(allow mach-lookup (global-name \"com.apple.MTLCompilerService\"))\n"
                            "(allow mach-lookup (global-name \"com.apple.cvmsServ\"))\n"
                            "(allow iokit-open (iokit-user-client-class \"AGXDeviceUserClient\"))\n"
                            "(allow iokit-open (iokit-user-client-class \"IOSurfaceRootUserClient\"))\n";

/* SBPL text: '\' and '"' are escaped. Control characters never come here (spec_check). */
static void add_quoted(struct buf *out, const char *text)
{
    buf_char(out, '"');
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '\\' || *p == '"') {
            buf_char(out, '\\');
        }
        buf_char(out, *p);
    }
    buf_char(out, '"');
}

static void rule(struct buf *out, const char *verdict, const char *operations, const char *filter, const char *path)
{
    buf_fmt(out, "(%s %s (%s ", verdict, operations, filter);
    add_quoted(out, path);
    buf_str(out, "))\n");
}

static bool is_system_root(const char *path)
{
    for (size_t i = 0; i < ARRAY_LEN(system_roots); i++) {
        if (strcmp(system_roots[i], path) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- what cannot be had ---- */

static int refused(struct orch_err *err, const char *what, const char *path)
{
    return err_set(err, ORCH_E_UNAVAILABLE, "seatbelt cannot give %s %.400s: it confines, and mounts nothing", what,
                   path);
}

static int check_spec(const struct sandbox_spec *s, struct orch_err *err)
{
    TRY(spec_check(s, err));
    for (size_t i = 0; i < s->grant_count; i++) {
        const struct spec_grant *g = &s->grants[i];
        if (g->source[0] != '/' || g->from != NULL) {
            return refused(err, "the work directory", g->target);
        }
        if (strcmp(g->source, g->target) != 0) {
            return refused(err, "another place to", g->source);
        }
    }
    if (s->file_count > 0) {
        return refused(err, "the file", s->files[0].path);
    }
    return s->dirs[0] != NULL ? refused(err, "the directory", s->dirs[0]) : 0;
}

/* ---- rules ---- */

static char **add_once(char **list, const char *path)
{
    for (size_t i = 0; i < strv_len(list); i++) {
        if (strcmp(list[i], path) == 0) {
            return list;
        }
    }
    return strv_append(list, xstrdup(path));
}

/* The grant, other than `but`, that holds `path`; NULL. */
static const struct spec_grant *holder(const struct sandbox_spec *s, const char *path, const struct spec_grant *but)
{
    for (size_t i = 0; i < s->grant_count; i++) {
        if (&s->grants[i] != but && path_is_beneath(path, s->grants[i].source)) {
            return &s->grants[i];
        }
    }
    return NULL;
}

/* The outermost tree around each grant that is not the system's is closed, with all that lies in it. The names on the
 * way stay known, so that a path can be walked; nothing in them can be listed or read. */
static void close_trees(const struct sandbox_spec *s, struct buf *out)
{
    AUTO_STRV char **trees = NULL;
    AUTO_STRV char **ways = NULL;
    for (size_t i = 0; i < s->grant_count; i++) {
        AUTO_FREE char *outermost = NULL;
        AUTO_FREE char *at = path_dir(s->grants[i].source);
        while (!is_system_root(at)) {
            ways = holder(s, at, NULL) == NULL ? add_once(ways, at) : ways;
            free(outermost);
            outermost = at;
            at = path_dir(outermost);
        }
        trees = outermost != NULL ? add_once(trees, outermost) : trees;
    }
    for (char **tree = trees; tree != NULL && *tree != NULL; tree++) {
        rule(out, "deny", "file-read* file-write*", "subpath", *tree);
    }
    for (char **way = ways; way != NULL && *way != NULL; way++) {
        rule(out, "allow", "file-read-metadata", "literal", *way);
    }
}

static const char *filter_of(const struct spec_grant *g)
{
    return g->kind == SPEC_DIR ? "subpath" : "literal";
}

/* A rule knows a path by its name: within a writable grant, what holds a closed path must keep its own. */
static char **pin_ancestors(const struct sandbox_spec *s, const char *path, char **pins)
{
    AUTO_FREE char *at = path_dir(path);
    const struct spec_grant *g;
    while ((g = holder(s, at, NULL)) != NULL && g->mode == SPEC_RW) {
        pins = add_once(pins, at);
        char *up = path_dir(at);
        free(at);
        at = up;
    }
    return pins;
}

/* Wide ones first: a grant within another is opened or closed by the later rule. */
static char **open_grants(const struct sandbox_spec *s, struct buf *out)
{
    char **pins = NULL;
    for (size_t i = 0; i < s->grant_count; i++) {
        const struct spec_grant *g = &s->grants[i];
        const struct spec_grant *within = holder(s, g->source, g);
        if (g->mode == SPEC_RO && within == NULL) {
            rule(out, "allow", "file-read*", filter_of(g), g->source);
        }
    }
    for (size_t i = 0; i < s->grant_count; i++) {
        const struct spec_grant *g = &s->grants[i];
        if (g->mode == SPEC_RW) {
            rule(out, "allow", "file-read* file-write*", filter_of(g), g->source);
        }
    }
    for (size_t i = 0; i < s->grant_count; i++) {
        const struct spec_grant *g = &s->grants[i];
        const struct spec_grant *within = holder(s, g->source, g);
        if (g->mode == SPEC_RO && within != NULL && within->mode == SPEC_RW) {
            rule(out, "deny", "file-write*", filter_of(g), g->source);
            pins = pin_ancestors(s, g->source, pins);
        }
    }
    return pins;
}

/* Absent and hidden are one here: there is no way not to exist. A subpath rule covers a file of that name too. */
static void close_hidden(const struct sandbox_spec *s, char **pins, struct buf *out)
{
    char *const *const lists[] = {s->absent, s->hide};
    for (size_t l = 0; l < ARRAY_LEN(lists); l++) {
        for (char *const *p = lists[l]; *p != NULL; p++) {
            rule(out, "deny", "file-read* file-write* process-exec*", "subpath", *p);
            pins = pin_ancestors(s, *p, pins);
        }
    }
    for (char **pin = pins; pin != NULL && *pin != NULL; pin++) {
        rule(out, "deny", "file-write-unlink file-write-create", "literal", *pin);
    }
    strv_free(pins);
}

static void add_network(const struct sandbox_spec *s, struct buf *out)
{
    if (s->network == SPEC_PUBLIC) {
        buf_str(out, "(allow network*)\n(allow system-socket)\n");
        return;
    }
    for (size_t i = 0; i < s->port_count; i++) {
        buf_fmt(out, "(allow network-outbound (remote ip \"localhost:%u\"))\n", (unsigned)s->ports[i]);
    }
}

int seatbelt_profile(const struct sandbox_spec *s, const struct seatbelt_extra *extra, struct buf *out,
                     struct orch_err *err)
{
    TRY(check_spec(s, err));
    buf_str(out, preamble);
    for (size_t i = 0; i < ARRAY_LEN(devices); i++) {
        rule(out, "allow", "file-write-data file-ioctl", "literal", devices[i]);
    }
    if (extra->metal) {
        buf_str(out, metal);
    }
    close_trees(s, out);
    close_hidden(s, open_grants(s, out), out);
    add_network(s, out);
    return out->overflow ? err_set(err, ORCH_E_LIMIT, "a seatbelt profile of more than %zu bytes", out->max) : 0;
}
