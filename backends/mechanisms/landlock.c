/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/mechanisms/landlock.h"

#include "backends/capability.h"
#include "base/mem.h"
#include "base/path.h"

#include <linux/landlock.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ENVIRONMENT "host" /* the only one whose paths are the machine's */
#define NAME "landlock"

static pid_t start(const struct mechanism *m, const struct mechanism_options *o, int *ret_pidfd, struct orch_err *err)
{
    AUTO(buf_done) struct buf none;
    buf_init(&none, BUF_MAX_LINE);
    char name[] = "orch-init";
    char word[] = "in-place";
    char *argv[] = {name, word, NULL};
    return mechanism_spawn(m, argv, &none, o, ret_pidfd, err);
}

int landlock_find(const char *init_program, struct mechanism *ret, struct orch_err *err)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (abi < 0) {
        return err_errno(err, ORCH_E_UNAVAILABLE,
                         "Landlock cannot be used (`orch doctor` says why, for the step landlock)");
    }
    if (abi < LANDLOCK_ABI_MIN) {
        return err_set(err, ORCH_E_UNAVAILABLE,
                       "Landlock cannot be used alone: this kernel has ABI %ld, and before ABI %d (Linux 6.12) signals "
                       "are not scoped, so that a sandbox could outlive its end; take namespaces or bubblewrap",
                       abi, LANDLOCK_ABI_MIN);
    }
    *ret = (struct mechanism){.name = NAME, .program = xstrdup(init_program), .in_place = true, .start = start};
    (void)snprintf(ret->version, sizeof ret->version, "ABI %ld", abi);
    return 0;
}

/* ---- what it takes ---- */

/* Each says what of the spec needs the property, as text owned by the caller, or NULL. */

static char *other_paths(const struct sandbox_spec *s)
{
    for (size_t i = 0; i < s->grant_count; i++) {
        const struct spec_grant *g = &s->grants[i];
        if (strcmp(g->source, g->target) != 0) {
            return xasprintf("the grant of %s at %s", g->source, g->target);
        }
    }
    if (s->file_count > 0) {
        return xasprintf("the file %s", s->files[0].path);
    }
    return s->dirs[0] != NULL ? xasprintf("the directory %s", s->dirs[0]) : NULL;
}

static char *other_directory(const struct sandbox_spec *s)
{
    bool granted = strcmp(s->cwd, "/") == 0 || (s->system && path_is_beneath(s->cwd, "/usr"));
    for (size_t i = 0; i < s->grant_count; i++) {
        granted = granted || path_is_beneath(s->cwd, s->grants[i].target);
    }
    return granted ? NULL : xasprintf("the working directory %s, which is not granted,", s->cwd);
}

/* Where the scratch directories of all sandboxes lie. */
static char *shared_tree(const struct sandbox_spec *s)
{
    static const char *const shared[] = {"/tmp", "/dev/shm"};
    for (size_t i = 0; i < s->grant_count; i++) {
        for (size_t k = 0; k < ARRAY_LEN(shared); k++) {
            if (path_is_beneath(s->grants[i].source, shared[k])) {
                return xasprintf("the grant of %s, which lies in %s and should be moved,", s->grants[i].source,
                                 shared[k]);
            }
        }
    }
    return NULL;
}

static char *sized_memory(const struct sandbox_spec *s)
{
    return s->limits.tmp != 0    ? xstrdup("the limit \"tmp\"")
           : s->limits.home != 0 ? xstrdup("the limit \"home\"")
                                 : NULL;
}

static char *read_only_inside(const struct sandbox_spec *s)
{
    for (size_t i = 0; i < s->grant_count; i++) {
        for (size_t k = 0; k < s->grant_count; k++) {
            if (s->grants[i].mode == SPEC_RO && s->grants[k].mode == SPEC_RW &&
                path_is_beneath(s->grants[i].target, s->grants[k].target)) {
                return xasprintf("the read-only %s in the writable %s", s->grants[i].target, s->grants[k].target);
            }
        }
    }
    return NULL;
}

static char *hidden(const struct sandbox_spec *s)
{
    for (char **h = s->hide; *h != NULL; h++) {
        for (size_t i = 0; i < s->grant_count; i++) {
            if (path_is_beneath(*h, s->grants[i].target)) {
                return xasprintf("the hidden %s in the granted %s", *h, s->grants[i].target);
            }
        }
    }
    return NULL;
}

static char *must_not_exist(const struct sandbox_spec *s)
{
    return s->absent[0] != NULL ? xasprintf("\"absent\": %s", s->absent[0]) : NULL;
}

static char *ports(const struct sandbox_spec *s)
{
    return s->port_count > 0 ? xasprintf("the port %u", s->ports[0]) : NULL;
}

/* `wanted`: the least the property must be. */
static const struct {
    enum capability property;
    enum capability_value wanted;
    char *(*asks)(const struct sandbox_spec *s);
} needs[] = {
    {CAPABILITY_PRIVATE_TMP, CAPABILITY_DEGRADED, shared_tree},
    {CAPABILITY_OWN_PATHS, CAPABILITY_DEGRADED, other_paths},
    {CAPABILITY_OWN_PATHS, CAPABILITY_DEGRADED, other_directory},
    {CAPABILITY_READ_ONLY, CAPABILITY_DEGRADED, read_only_inside},
    {CAPABILITY_HIDDEN, CAPABILITY_DEGRADED, hidden},
    {CAPABILITY_PRIVATE_TMP, CAPABILITY_DEGRADED, sized_memory},
    {CAPABILITY_ABSENT, CAPABILITY_ENFORCED, must_not_exist},
    {CAPABILITY_METER, CAPABILITY_DEGRADED, ports},
};

int landlock_check(const struct sandbox_spec *s, struct orch_err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(needs); i++) {
        struct capability_cell cell = capability_get(ENVIRONMENT, NAME, needs[i].property);
        AUTO_FREE char *what = cell.value < needs[i].wanted ? needs[i].asks(s) : NULL;
        if (what != NULL) {
            return err_set(
                err, ORCH_E_UNAVAILABLE,
                "%.600s needs `%s`, which the mechanism landlock cannot give [%s]: %s. Leave it out, or take "
                "the mechanism namespaces or bubblewrap",
                what, capability_name(needs[i].property), cell.code, cell.note);
        }
    }
    return 0;
}

json_t *landlock_not_enforced(void)
{
    static const enum capability tiers[] = {CAPABILITY_READ_ONLY,   CAPABILITY_HIDDEN, CAPABILITY_OWN_PATHS,
                                            CAPABILITY_PRIVATE_TMP, CAPABILITY_ABSENT, CAPABILITY_OWN_PROCESSES};
    json_t *list = json_array();
    for (size_t i = 0; i < ARRAY_LEN(tiers); i++) {
        struct capability_cell cell = capability_get(ENVIRONMENT, NAME, tiers[i]);
        if (cell.value == CAPABILITY_ENFORCED) {
            continue;
        }
        json_t *o = json_object();
        json_set_str(o, "property", capability_name(tiers[i]));
        json_set_str(o, "value", capability_value_name(cell.value));
        json_set_str(o, "code", cell.code);
        json_set_str(o, "note", cell.note);
        json_add_take(list, o);
    }
    return list;
}

/* ---- paths ---- */

/* What every program needs; the same files of /etc of which other mechanisms make copies. Links are resolved here. */
static const struct {
    const char *path;
    bool writable;
    bool system; /* only with spec.system */
    bool public; /* only with a network */
} machine[] = {
    {"/usr", false, true, false},
    {"/bin", false, true, false},
    {"/sbin", false, true, false},
    {"/lib", false, true, false},
    {"/lib32", false, true, false},
    {"/lib64", false, true, false},
    {"/libx32", false, true, false},
    {"/etc/alternatives", false, true, false},
    {"/etc/ssl/certs", false, true, false},
    {"/etc/ssl/openssl.cnf", false, false, false},
    {"/etc/ld.so.cache", false, false, false},
    {"/etc/localtime", false, false, false},
    {"/etc/passwd", false, false, false},
    {"/etc/group", false, false, false},
    {"/etc/nsswitch.conf", false, false, false},
    {"/etc/services", false, false, false},
    {"/etc/protocols", false, false, false},
    {"/etc/hosts", false, false, true},
    {"/etc/resolv.conf", false, false, true},
    {"/proc", false, false, false},
    {"/dev/null", true, false, false},
    {"/dev/zero", true, false, false},
    {"/dev/full", true, false, false},
    {"/dev/random", false, false, false},
    {"/dev/urandom", false, false, false},
};

static void add(struct buf *out, const char *path)
{
    buf_add(out, path, strlen(path) + 1);
}

void landlock_paths(const struct sandbox_spec *s, char *const *sources, const char *scratch, struct buf *readable,
                    struct buf *writable)
{
    for (size_t i = 0; i < ARRAY_LEN(machine); i++) {
        AUTO_FREE char *real = NULL;
        struct orch_err absent = ERR_INIT;
        bool fits = (s->system || !machine[i].system) && (s->network == SPEC_PUBLIC || !machine[i].public);
        if (fits && path_real(machine[i].path, &real, &absent) == 0) {
            add(machine[i].writable ? writable : readable, real);
        }
    }
    for (size_t i = 0; i < s->grant_count; i++) {
        if (sources[i] != NULL) {
            add(s->grants[i].mode == SPEC_RW ? writable : readable, sources[i]);
        }
    }
    add(writable, scratch);
}

void landlock_variables(struct sandbox_spec *call, const char *scratch)
{
    AUTO_FREE char *tmp = path_join(scratch, "tmp");
    AUTO_FREE char *home = path_join(scratch, "home");
    bool has_tmp = false;
    bool private_home = false;
    for (char **e = call->env; *e != NULL; e++) {
        has_tmp = has_tmp || (strncmp(*e, "TMPDIR=", 7) == 0 && strcmp(*e, "TMPDIR=/tmp") != 0);
        private_home = private_home || strcmp(*e, "HOME=" SPEC_HOME) == 0;
    }
    if (!has_tmp) {
        spec_set_env(call, "TMPDIR", tmp); /* there is no other place for temporary files */
    }
    if (private_home) {
        spec_set_env(call, "HOME", home);
    }
}
