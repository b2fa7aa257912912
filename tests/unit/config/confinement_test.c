/* SPDX-License-Identifier: Apache-2.0 */
#include "config/confinement.h"

#include "base/buf.h"
#include "base/path.h"
#include "config_support.h"

#include <stdlib.h>
#include <unistd.h>

#define READ(env, ret, err) confinement_request_read((char *const *)(uintptr_t)(env), (ret), (err))

Test(confinement, words_of_the_variable)
{
    static const struct {
        const char *set;
        int code;
        int mechanism;
        bool off;
    } table[] = {
        {"OTHER=1", 0, CONFIG_MECHANISM_AUTO, false},
        {"ORCH_AGENT_SANDBOX=", 0, CONFIG_MECHANISM_AUTO, false},
        {"ORCH_AGENT_SANDBOX=auto", 0, CONFIG_MECHANISM_AUTO, false},
        {"ORCH_AGENT_SANDBOX=bwrap", 0, CONFIG_MECHANISM_BUBBLEWRAP, false},
        {"ORCH_AGENT_SANDBOX=namespaces", 0, CONFIG_MECHANISM_NAMESPACES, false},
        {"ORCH_AGENT_SANDBOX=landlock", 0, CONFIG_MECHANISM_LANDLOCK, false},
        {"ORCH_AGENT_SANDBOX=0", 0, CONFIG_MECHANISM_AUTO, true},
        {"ORCH_AGENT_SANDBOX=false", 0, CONFIG_MECHANISM_AUTO, true},
        {"ORCH_AGENT_SANDBOX=off", 0, CONFIG_MECHANISM_AUTO, true},
        {"ORCH_AGENT_SANDBOX=no", 0, CONFIG_MECHANISM_AUTO, true},
        {"ORCH_AGENT_SANDBOX=1", ORCH_E_CONFIG, 0, false},
        {"ORCH_AGENT_SANDBOX=OFF", ORCH_E_CONFIG, 0, false},
        {"ORCH_AGENT_SANDBOX=bubblewrap", ORCH_E_CONFIG, 0, false},
        {"ORCH_AGENT_SANDBOX= auto", ORCH_E_CONFIG, 0, false},
        {"ORCH_AGENT_SANDBOX_MORE=off", 0, CONFIG_MECHANISM_AUTO, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        const char *env[] = {"PATH=/usr/bin", table[i].set, NULL};
        AUTO_CONFINEMENT_REQUEST struct confinement_request r = {0};
        struct orch_err err = ERR_INIT;
        cr_assert_eq(READ(env, &r, &err), table[i].code, "%s: %s", table[i].set, err.message);
        if (table[i].code == 0) {
            cr_assert_eq(r.mechanism, table[i].mechanism, "%s", table[i].set);
            cr_assert_eq(r.off, table[i].off, "%s", table[i].set);
            cr_assert_null(r.readable[0]);
        } else {
            assert_has(err.message, "auto, bwrap, namespaces, landlock, or one of 0, false, off, no");
        }
    }
    TEST_END();
}

Test(confinement, paths_that_may_be_read)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    test_write(&dir, "data/a", "x");
    test_write(&dir, "home/.ssh/id", "x");
    test_write(&dir, "more/b", "x");
    AUTO_FREE char *link = path_join(dir.path, "link");
    cr_assert_eq(symlink("data", link), 0);
    AUTO_FREE char *good = xasprintf("ORCH_AGENT_SANDBOX_ALLOW=%s/data/:%s/./more/b", dir.path, dir.path);
    const char *env[] = {good, NULL};
    AUTO_CONFINEMENT_REQUEST struct confinement_request r = {0};
    struct orch_err err = ERR_INIT;
    cr_assert_eq(READ(env, &r, &err), 0, "%s", err.message);
    AUTO_FREE char *first = path_join(dir.path, "data");
    AUTO_FREE char *second = path_join(dir.path, "more/b");
    cr_assert_str_eq(r.readable[0], first);
    cr_assert_str_eq(r.readable[1], second);
    cr_assert_null(r.readable[2]);
    const struct {
        const char *form; /* %s: the directory */
        const char *expected;
    } bad[] = {
        {"%s/data:", "an empty path"},           {":%s/data", "an empty path"},
        {"%s/data::%s/more", "an empty path"},   {"data", "is not absolute"},
        {"%s/absent", "No such file"},           {"%s/link", "leads to"},
        {"%s/home/.ssh/id", "credential store"},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        AUTO_BUF struct buf text;
        buf_init(&text, 4096);
        buf_str(&text, "ORCH_AGENT_SANDBOX_ALLOW=");
        for (const char *p = bad[i].form; *p != '\0'; p++) {
            bool here = p[0] == '%' && p[1] == 's';
            buf_add(&text, here ? dir.path : p, here ? strlen(dir.path) : 1);
            p += here;
        }
        const char *bad_env[] = {text.data, NULL};
        AUTO_CONFINEMENT_REQUEST struct confinement_request none = {0};
        struct orch_err why = ERR_INIT;
        cr_assert_eq(READ(bad_env, &none, &why), ORCH_E_CONFIG, "%s", text.data);
        assert_has(why.message, bad[i].expected);
        assert_has(why.message, "ORCH_AGENT_SANDBOX_ALLOW");
        cr_assert_null(none.readable);
    }
    TEST_END();
}

Test(confinement, broad_paths_are_refused)
{
    static const char *const broad[] = {
        "/",
        "//",
        "/home",
        "/root",
        "/usr",
        "/usr/share",
        "/bin",
        "/lib64/x",
        "/etc",
        "/etc/ssl",
        "/etc/orch/x",
        "/proc/1",
        "/sys",
        "/dev/null",
        "/run/docker.sock",
        "/boot",
        "/tmp",
        "/tmp/",
        "/var",
        "/var/tmp",
        "/var/lib",
        "/var/log/x",
        "/opt",
        "/home/ada",
        "/home/ada/.aws/",
        "/w/x",
        "/x/.ssh",
        "/data/../etc",
        "/home/ada/.config",
    };
    for (size_t i = 0; i < ARRAY_LEN(broad); i++) {
        char *path = NULL;
        struct orch_err err = ERR_INIT;
        cr_assert_eq(confinement_readable_check(broad[i], &path, &err), ORCH_E_CONFIG, "%s", broad[i]);
        cr_assert_not_null(strstr(err.message, "is not granted"), "%s: %s", broad[i], err.message);
        cr_assert_null(path);
    }
    TEST_END();
}

/* A link beside a harmless name does not help. */
Test(confinement, a_link_to_a_broad_place_is_refused)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    AUTO_FREE char *link = path_join(dir.path, "innocent");
    cr_assert_eq(symlink("/etc", link), 0);
    char *path = NULL;
    struct orch_err err = ERR_INIT;
    cr_assert_eq(confinement_readable_check(link, &path, &err), ORCH_E_CONFIG);
    assert_has(err.message, "/etc is not granted");
    TEST_END();
}

static struct operator_config *load(const struct test_dir *dir, const char *text)
{
    AUTO_FINDINGS struct config_findings findings = {.count = 0};
    struct orch_err err = ERR_INIT;
    struct operator_config *c = NULL;
    test_write(dir, "op/a.yaml", text);
    AUTO_FREE char *path = path_join(dir->path, "op");
    cr_assert_eq(operator_load(path, NULL, &c, &findings, &err), 0, "%s", err.message);
    return c;
}

Test(confinement, who_wins)
{
    enum { AUTO_ = CONFIG_MECHANISM_AUTO, NS = CONFIG_MECHANISM_NAMESPACES, BW = CONFIG_MECHANISM_BUBBLEWRAP };
    static const struct {
        const char *operator_text;
        const char *set;
        int asked;
        bool asked_wins;
        int code, mechanism;
        const char *message;
    } table[] = {
        {"{}\n", "X=1", AUTO_, false, 0, AUTO_, ""},
        {"{}\n", "X=1", BW, false, 0, BW, ""},
        {"{}\n", "ORCH_AGENT_SANDBOX=bwrap", NS, false, 0, BW, ""},
        {"{}\n", "ORCH_AGENT_SANDBOX=auto", NS, false, 0, NS, ""},
        {"{}\n", "ORCH_AGENT_SANDBOX=bwrap", NS, true, 0, NS, ""},
        {"{}\n", "ORCH_AGENT_SANDBOX=bwrap", AUTO_, true, 0, BW, ""},
        {"confinement: {mechanism: bubblewrap}\n", "X=1", AUTO_, false, 0, BW, ""},
        {"confinement: {mechanism: bubblewrap}\n", "ORCH_AGENT_SANDBOX=bwrap", AUTO_, false, 0, BW, ""},
        {"confinement: {mechanism: bubblewrap}\n", "ORCH_AGENT_SANDBOX=namespaces", AUTO_, false, ORCH_E_CONFIG, 0,
         "ORCH_AGENT_SANDBOX: namespaces is not what the operator requires"},
        {"confinement: {mechanism: bubblewrap}\n", "X=1", NS, true, ORCH_E_CONFIG, 0, "by the test: namespaces"},
        {"{}\n", "ORCH_AGENT_SANDBOX=landlock", AUTO_, false, 0, CONFIG_MECHANISM_LANDLOCK, ""},
        {"confinement: {mechanism: namespaces}\n", "ORCH_AGENT_SANDBOX=landlock", AUTO_, false, ORCH_E_CONFIG, 0,
         "landlock is not what the operator requires"},
        {"{}\n", "ORCH_AGENT_SANDBOX=off", AUTO_, false, ORCH_E_UNAVAILABLE, 0, "(confinement.required, default)"},
        {"confinement: {required: true}\n", "ORCH_AGENT_SANDBOX=0", AUTO_, false, ORCH_E_UNAVAILABLE, 0, "a.yaml:1)"},
        {"confinement: {required: false}\n", "ORCH_AGENT_SANDBOX=no", AUTO_, true, ORCH_E_UNAVAILABLE, 0,
         "without confinement is not built yet"},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        AUTO_TEST_DIR struct test_dir dir = test_dir_new();
        AUTO_OPERATOR_CONFIG struct operator_config *c = load(&dir, table[i].operator_text);
        const char *env[] = {table[i].set, NULL};
        AUTO_CONFINEMENT_REQUEST struct confinement_request r = {0};
        struct orch_err err = ERR_INIT;
        int got = -1;
        cr_assert_eq(READ(env, &r, &err), 0);
        int code = confinement_choose(c, &r, table[i].asked, "by the test", table[i].asked_wins, &got, &err);
        cr_assert_eq(code, table[i].code, "row %zu: %s", i, err.message);
        cr_assert_eq(got, code == 0 ? table[i].mechanism : -1, "row %zu", i);
        assert_has(err.message, table[i].message);
    }
    TEST_END();
}
