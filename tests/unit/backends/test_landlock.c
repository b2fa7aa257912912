/* SPDX-License-Identifier: Apache-2.0 */
/* The mechanism landlock: which specs it takes, what it grants, how it ends. Denials are tests/e2e/sandbox_landlock.sh.
 */
#include "backends/mechanisms/landlock.h"
#include "base/mem.h"
#include "node_driver.h"

#include <string.h>

/* ---- what it takes ---- */

static void takes_these(struct sandbox_spec *s)
{
    spec_grant(s, "/srv/in", "/srv/in", SPEC_RO, SPEC_DIR);
    spec_grant(s, "/srv/out", "/srv/out", SPEC_RW, SPEC_DIR);
    free(s->cwd);
    s->cwd = xstrdup("/srv/out");
}

static void other_target(struct sandbox_spec *s)
{
    spec_grant(s, "/srv/data", "/w/data", SPEC_RO, SPEC_DIR);
}

static void work(struct sandbox_spec *s)
{
    spec_grant_work(s, "out", NULL, "/w/output", SPEC_RW);
}

static void file(struct sandbox_spec *s)
{
    spec_add_file(s, "/w/task.json", "{}", 2, 0444);
}

static void made(struct sandbox_spec *s)
{
    spec_add_dir(s, "/w/empty");
}

static void elsewhere(struct sandbox_spec *s)
{
    free(s->cwd);
    s->cwd = xstrdup("/w");
}

static void below_tmp(struct sandbox_spec *s)
{
    spec_grant(s, "/tmp/project", "/tmp/project", SPEC_RW, SPEC_DIR);
}

static void read_only_part(struct sandbox_spec *s)
{
    spec_grant(s, "/srv/out/fixed", "/srv/out/fixed", SPEC_RO, SPEC_DIR);
}

static void hide_part(struct sandbox_spec *s)
{
    spec_add_hide(s, "/srv/in/.env");
}

static void hide_other(struct sandbox_spec *s)
{
    spec_add_hide(s, "/srv/other/.env"); /* not granted: closed already */
}

static void sized(struct sandbox_spec *s)
{
    s->limits.tmp = 1 << 20;
}

static void absent(struct sandbox_spec *s)
{
    spec_add_absent(s, "/root");
}

static void port(struct sandbox_spec *s)
{
    spec_add_port(s, 8080);
}

static void limited(struct sandbox_spec *s)
{
    s->limits = (struct spec_limits){.memory = 1 << 30, .file = 1 << 20, .cpu_s = 9, .processes = 9, .disk = 1 << 20};
}

Test(landlock, refuses_what_it_cannot_hold)
{
    static const struct {
        void (*change)(struct sandbox_spec *s);
        const char *property, *code, *what; /* NULL: it is taken */
    } table[] = {
        {NULL, NULL, NULL, NULL},
        {hide_other, NULL, NULL, NULL},
        {limited, NULL, NULL, NULL},
        {other_target, "`own-paths`", "[host-paths]", "the grant of /srv/data at /w/data"},
        {work, "`own-paths`", "[host-paths]", "/w/output"},
        {file, "`own-paths`", "[host-paths]", "/w/task.json"},
        {made, "`own-paths`", "[host-paths]", "/w/empty"},
        {elsewhere, "`own-paths`", "[host-paths]", "working directory /w"},
        {below_tmp, "`private-tmp`", "[shared-tmp]", "/tmp/project, which lies in /tmp"},
        {read_only_part, "`read-only`", "[rights-only-grow]", "/srv/out/fixed in the writable /srv/out"},
        {hide_part, "`hidden`", "[rights-only-grow]", "/srv/in/.env in the granted /srv/in"},
        {sized, "`private-tmp`", "[shared-tmp]", "limit \"tmp\""},
        {absent, "`absent`", "[names-seen]", "/root"},
        {port, "`meter`", "[shared-loopback]", "port 8080"},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        AUTO_SPEC struct sandbox_spec s;
        struct orch_err err = ERR_INIT;
        spec_init(&s, "box");
        takes_these(&s);
        if (table[i].change != NULL) {
            table[i].change(&s);
        }
        int code = landlock_check(&s, &err);
        cr_assert_eq(code, table[i].property == NULL ? 0 : ORCH_E_UNAVAILABLE, "row %zu: %s", i, err.message);
        for (const char *const *want = &table[i].property; code < 0 && want <= &table[i].what; want++) {
            cr_assert_not_null(strstr(err.message, *want), "row %zu: no %s in: %s", i, *want, err.message);
        }
        cr_assert(code == 0 || strstr(err.message, "namespaces or bubblewrap") != NULL, "row %zu: no remedy", i);
    }
    TEST_END();
}

/* ---- what it grants ---- */

static bool holds(const struct buf *list, const char *path)
{
    for (const char *p = list->data; p < list->data + list->len; p += strlen(p) + 1) {
        if (strcmp(p, path) == 0) {
            return true;
        }
    }
    return false;
}

Test(landlock, grants_by_mode)
{
    AUTO_SPEC struct sandbox_spec s;
    AUTO_BUF struct buf readable;
    AUTO_BUF struct buf writable;
    buf_init(&readable, BUF_MAX_TEXT);
    buf_init(&writable, BUF_MAX_TEXT);
    spec_init(&s, "box");
    takes_these(&s);
    spec_grant(&s, "/srv/absent", "/srv/absent", SPEC_RW, SPEC_DIR);
    char in[] = "/srv/in";
    char out[] = "/srv/out";
    char *sources[] = {in, out, NULL};
    landlock_paths(&s, sources, "/srv/scratch", &readable, &writable);
    cr_assert(holds(&readable, "/srv/in") && !holds(&writable, "/srv/in"));
    cr_assert(holds(&writable, "/srv/out") && !holds(&readable, "/srv/out"));
    cr_assert(holds(&writable, "/srv/scratch"));
    cr_assert(!holds(&writable, "/srv/absent"), "what was left out has no rule");
    cr_assert(holds(&readable, "/usr") && holds(&readable, "/etc/passwd") && holds(&writable, "/dev/null"));
    cr_assert(!holds(&readable, "/etc/hosts"), "no names without a network");
    static const char *const never[] = {"/", "/etc", "/tmp", "/dev", "/home", "/root", "/run", "/var", "/etc/shadow"};
    for (size_t i = 0; i < ARRAY_LEN(never); i++) {
        cr_assert(!holds(&readable, never[i]) && !holds(&writable, never[i]), "%s", never[i]);
    }
    TEST_END();
}

Test(landlock, names_the_scratch_directories)
{
    static const struct {
        const char *home, *tmp;           /* NULL: not set */
        const char *want_home, *want_tmp; /* "" : not set */
    } table[] = {
        {SPEC_HOME, "/tmp", "HOME=/s/home", "TMPDIR=/s/tmp"},
        {SPEC_HOME, NULL, "HOME=/s/home", "TMPDIR=/s/tmp"},
        {NULL, NULL, NULL, "TMPDIR=/s/tmp"},
        {"/srv/out", "/srv/out", "HOME=/srv/out", "TMPDIR=/srv/out"},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        AUTO_SPEC struct sandbox_spec s;
        spec_init(&s, "box");
        if (table[i].home != NULL) {
            spec_set_env(&s, "HOME", table[i].home);
        }
        if (table[i].tmp != NULL) {
            spec_set_env(&s, "TMPDIR", table[i].tmp);
        }
        landlock_variables(&s, "/s");
        const char *home = NULL;
        const char *tmp = NULL;
        for (char **e = s.env; *e != NULL; e++) {
            home = strncmp(*e, "HOME=", 5) == 0 ? *e : home;
            tmp = strncmp(*e, "TMPDIR=", 7) == 0 ? *e : tmp;
        }
        cr_assert_eq(home == NULL, table[i].want_home == NULL, "row %zu", i);
        cr_assert(home == NULL || strcmp(home, table[i].want_home) == 0, "row %zu: %s", i, home);
        cr_assert_str_eq(tmp, table[i].want_tmp, "row %zu", i);
    }
    TEST_END();
}

Test(landlock, says_what_is_not_enforced)
{
    AUTO_JSON json_t *list = landlock_not_enforced();
    bool read_only = false;
    bool hidden = false;
    size_t i;
    json_t *tier;
    json_array_foreach(list, i, tier)
    {
        const char *name = json_get_str(tier, "property", "");
        read_only = read_only || strcmp(name, "read-only") == 0;
        hidden = hidden || strcmp(name, "hidden") == 0;
        cr_assert_str_neq(json_get_str(tier, "code", ""), "", "%s", name);
    }
    cr_assert(read_only && hidden);
    TEST_END();
}

/* ---- through a node ---- */

static void check_node(void)
{
    struct driver *d = xcalloc(1, sizeof *d);
    driver_start(d, true, 0, "landlock");
    AUTO_SPEC struct sandbox_spec s;
    spec_init(&s, "box");
    spec_set_env(&s, "PATH", "/usr/bin:/bin");
    spec_set_env(&s, "HOME", SPEC_HOME);
    driver_open_ok(d, &s);
    AUTO_OUTCOME struct outcome o = driver_sh(d, "box", "c1", "touch $TMPDIR/x $HOME/y && echo made; id -u", 20000);
    cr_assert_eq(strncmp(o.out, "made\n", 5), 0, "%s %s", o.out, o.err);
    cr_assert_str_neq(o.out, "made\n0\n", "not root");
    /* the next call of the sandbox finds what the first left, and none of its processes */
    AUTO_OUTCOME struct outcome p =
        driver_sh(d, "box", "c2", "ls $TMPDIR; setsid sleep 1000 >/dev/null 2>&1 & echo $!", 20000);
    cr_assert_eq(strncmp(p.out, "x\n", 2), 0, "%s %s", p.out, p.err);
    p.out[2 + strcspn(p.out + 2, "\n")] = '\0';
    AUTO_FREE char *look = xasprintf("[ -e /proc/%s ] || echo gone", p.out + 2);
    AUTO_OUTCOME struct outcome q = driver_sh(d, "box", "c3", look, 20000);
    cr_assert_str_eq(q.out, "gone\n");
    driver_remove(d, "box");
    AUTO_SPEC struct sandbox_spec role;
    driver_spec(&role, "role");
    AUTO_JSON json_t *reply = driver_open(d, &role);
    cr_assert_str_eq(driver_code(reply), "unavailable");
    driver_stop(d);
    free(d);
}

Test(landlock, opens_and_refuses)
{
    struct mechanism m = {.name = NULL};
    struct orch_err err = ERR_INIT;
    if (landlock_find("orch-init", &m, &err) < 0) {
        cr_skip_test("%s", err.message);
    }
    mechanism_done(&m);
    check_node(); /* as root the directories of these tests are closed to the uids of sandboxes */
    TEST_END();
}
