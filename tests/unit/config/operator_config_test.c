/* SPDX-License-Identifier: Apache-2.0 */
#include "config/operator.h"

#include "base/path.h"
#include "config_support.h"

#include <stdlib.h>
#include <sys/stat.h>

struct dirs {
    struct test_dir root;
    char *system, *user;
};

static void dirs_done(struct dirs *d)
{
    free(d->system);
    free(d->user);
    test_dir_done(&d->root);
}

#define AUTO_DIRS __attribute__((cleanup(dirs_done)))

static struct dirs dirs_new(const char *system, const char *user)
{
    struct dirs d = {.root = test_dir_new()};
    if (system != NULL) {
        test_write(&d.root, "system/a.yaml", system);
    }
    if (user != NULL) {
        test_write(&d.root, "user/a.yaml", user);
    }
    d.system = path_join(d.root.path, "system");
    d.user = path_join(d.root.path, "user");
    return d;
}

static struct operator_config *operator_good(const struct dirs *d)
{
    AUTO_FINDINGS struct config_findings findings = {.count = 0};
    struct orch_err err = ERR_INIT;
    struct operator_config *c = NULL;
    int code = operator_load(d->system, d->user, &c, &findings, &err);
    cr_assert_eq(code, 0, "%s", err.message);
    return c;
}

static char *operator_bad(const struct dirs *d)
{
    AUTO_FINDINGS struct config_findings findings = {.count = 0};
    struct orch_err err = ERR_INIT;
    struct operator_config *c = NULL;
    cr_assert_lt(operator_load(d->system, d->user, &c, &findings, &err), 0);
    cr_assert_null(c);
    AUTO_FREE char *text = config_findings_text(&findings);
    return xasprintf("%s%s", err.message, text);
}

Test(operator, defaults_are_closed)
{
    AUTO_DIRS struct dirs d = dirs_new(NULL, NULL);
    AUTO_OPERATOR_CONFIG struct operator_config *c = operator_good(&d);
    cr_assert(c->confinement.required);
    cr_assert_eq(c->confinement.on_unavailable, OPERATOR_ON_UNAVAILABLE_REFUSE);
    cr_assert_eq(c->confinement.mechanism, CONFIG_MECHANISM_AUTO);
    cr_assert_not(c->allow.runner_host || c->allow.container_root);
    cr_assert_eq(c->uid_range.first, 200000);
    cr_assert_eq(c->uid_range.count, 65000);
    cr_assert_eq(c->credential_count, 4);
    cr_assert(operator_network_permitted(c, CONFIG_NETWORK_PUBLIC));
    cr_assert_not(operator_network_permitted(c, -1));
    cr_assert_eq(c->files[0], NULL);
    TEST_END();
}

Test(operator, system_wins_over_user)
{
    AUTO_DIRS struct dirs d =
        dirs_new("confinement: {required: true}\n", "confinement: {required: false}\nallow: {runner_host: true}\n");
    test_write(&d.root, "system/b.yaml", "network: {permitted: [no-network]}\nreadable: [/opt/b]\n");
    test_write(&d.root, "system/a0.yaml", "readable: [/opt/a]\n");
    test_write(&d.root, "system/ignored.txt", "not: [yaml");
    AUTO_OPERATOR_CONFIG struct operator_config *c = operator_good(&d);
    cr_assert(c->confinement.required, "the user's file cannot weaken the system's");
    cr_assert(c->allow.runner_host, "what the system leaves open the user decides");
    cr_assert_str_eq(c->readable[0], "/opt/b", "later files win");
    cr_assert_not(operator_network_permitted(c, CONFIG_NETWORK_PUBLIC));
    cr_assert_eq(strv_len(c->files), 4);
    AUTO_FREE char *show = operator_show(c);
    assert_has(show, "system/a.yaml:1\n");
    TEST_END();
}

Test(operator, weak_combinations_are_refused)
{
    AUTO_DIRS struct dirs d = dirs_new(NULL, "confinement: {on_unavailable: warn}\n");
    AUTO_FREE char *report = operator_bad(&d);
    assert_has(report, "user/a.yaml:1:31:");
    assert_has(report, "would start calls that `confinement.required` forbids");
    AUTO_DIRS struct dirs fine = dirs_new(NULL, "confinement: {required: false, on_unavailable: warn}\n");
    AUTO_OPERATOR_CONFIG struct operator_config *c = operator_good(&fine);
    cr_assert_eq(c->confinement.on_unavailable, OPERATOR_ON_UNAVAILABLE_WARN);
    TEST_END();
}

Test(operator, bad_files_are_errors)
{
    static const struct {
        const char *text;
        const char *expected;
    } table[] = {
        {"confinment: {required: false}\n", "nearest: confinement"},
        {"confinement: {required: no}\n", "write false"},
        {"confinement: {required: true, required: false}\n", "[duplicate-key]"},
        {"readable: [/root]\n", "`readable` would grant /root"},
        {"readable: [~/.ssh]\n", "[forbidden-path]"},
        {"uid_range: {first: 0}\n", "[out-of-range]"},
        {"readable: [/opt/a, opt/b]\n", "`readable[1]` is relative"},
        {"uid_range: {first: 4294967000, count: 1000}\n", "ends beyond the largest uid"},
        {"network: {permitted: [everything]}\n", "[unknown-value]"},
        {"credentials: {MY_KEY: {urls: [\"https://\"]}}\n", "not the beginning of a URL"},
        {"credentials: {MY_KEY: {urls: [\"https://*.evil.com/\"]}}\n", "not the beginning of a URL"},
        {"credentials: {my-key: {urls: []}}\n", "[bad-name]"},
        {"credentials: {MY_KEY: {}}\n", "key `credentials.MY_KEY.urls` is missing"},
        {"sandbox: {enabled: false}\n", "write `confinement.required`"},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        AUTO_DIRS struct dirs d = dirs_new(table[i].text, NULL);
        if (strstr(table[i].expected, "is missing") != NULL) {
            continue; /* checked when everything is joined, below */
        }
        AUTO_FREE char *report = operator_bad(&d);
        assert_has(report, table[i].expected);
    }
    AUTO_DIRS struct dirs d = dirs_new("credentials: {MY_KEY: {}}\n", NULL);
    AUTO_FREE char *report = operator_bad(&d);
    assert_has(report, "key `credentials.MY_KEY.urls` is missing");
    TEST_END();
}

/* Policy that others may write, or that is not a file, is never used and never passed over. */
Test(operator, policy_of_others_is_refused)
{
    AUTO_DIRS struct dirs d = dirs_new("confinement: {required: true}\n", NULL);
    AUTO_FREE char *file = path_join(d.system, "a.yaml");
    cr_assert_eq(chmod(file, 0666), 0);
    AUTO_FREE char *report = operator_bad(&d);
    assert_has(report, "may be written by others");
    cr_assert_eq(chmod(file, 0644), 0);
    cr_assert_eq(chmod(d.system, 0777), 0);
    AUTO_FREE char *dir_report = operator_bad(&d);
    assert_has(dir_report, "may be written by others");
    cr_assert_eq(chmod(d.system, 0755), 0);
    AUTO_FREE char *folder = path_join(d.system, "b.yaml");
    cr_assert_eq(mkdir(folder, 0755), 0);
    AUTO_FREE char *special = operator_bad(&d);
    assert_has(special, "is not a regular file");
    TEST_END();
}

Test(operator, keys_go_only_where_they_belong)
{
    AUTO_DIRS struct dirs d = dirs_new("credentials: {MY_KEY: {urls: [\"https://models.example.com/v1\"]}}\n", NULL);
    AUTO_OPERATOR_CONFIG struct operator_config *c = operator_good(&d);
    static const struct {
        const char *key, *url;
        bool allowed;
    } table[] = {
        {"OPENAI_API_KEY", "https://api.openai.com/v1", true},
        {"OPENAI_API_KEY", "https://api.openai.com", true},
        {"OPENAI_API_KEY", "https://api.openai.com.evil.com/v1", false},
        {"OPENAI_API_KEY", "http://api.openai.com/v1", false},
        {"OPENAI_API_KEY", "https://api.openai.com@evil.com/", false},
        {"OPENAI_API_KEY", "https://api.anthropic.com/v1", false},
        {"ANTHROPIC_API_KEY", "https://api.anthropic.com", true},
        {"OTHER", "https://api.openai.com/v1", false},
        {"OTHER", "http://127.0.0.1:8000/v1", true},
        {"OTHER", "http://localhost:8000", true},
        {"OTHER", "http://[::1]:8000", true},
        {"OTHER", "http://127.0.0.1.evil.com/", false},
        {"OTHER", "http://127.0.0.1:80@evil.com/", false},
        {"OTHER", "ftp://127.0.0.1/", false},
        {"MY_KEY", "https://models.example.com/v1", true},
        {"MY_KEY", "https://models.example.com/v1/chat", true},
        {"MY_KEY", "https://models.example.com/v10", false},
        {"MY_KEY", "https://models.example.com/v1/../admin", false},
        {"MY_KEY", "https://models.example.com/", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        cr_assert_eq(operator_key_allowed(c, table[i].key, table[i].url), table[i].allowed, "%s to %s", table[i].key,
                     table[i].url);
    }
    TEST_END();
}

Test(operator, a_run_config_is_held_to_it)
{
    AUTO_DIRS struct dirs d =
        dirs_new("network: {permitted: [no-network]}\nconfinement: {mechanism: bubblewrap}\n", NULL);
    AUTO_OPERATOR_CONFIG struct operator_config *c = operator_good(&d);
    AUTO_FINDINGS struct config_findings findings = {.count = 0};
    AUTO_RUN_CONFIG struct run_config *fine = load_good(MINIMAL, NULL);
    operator_check(c, fine, &findings);
    cr_assert_eq(findings.count, 0);
    char *const overrides[] = {
        (char[]){"task.network=public"}, (char[]){"environment.runner=host"}, (char[]){"sandbox.mechanism=landlock"},
        (char[]){"models.m={provider: openai, model: m, key: OPENAI_API_KEY, base_url: \"https://evil.example/v1\"}"},
        NULL};
    AUTO_RUN_CONFIG struct run_config *bad = load_good(MINIMAL, overrides);
    operator_check(c, bad, &findings);
    cr_assert_eq(findings.count, 4);
    AUTO_FREE char *report = config_findings_text(&findings);
    assert_has(report, "override task.network: `task.network: public` is not permitted by the operator [operator]");
    assert_has(report, "`environment.runner: host` is not permitted");
    assert_has(report, "`models.m` would send OPENAI_API_KEY to https://evil.example/v1");
    assert_has(report, "`sandbox.mechanism: landlock` is not what the operator requires");
    TEST_END();
}

/* --- editing --- */

static void edits(const char *text, const char *key, const char *value, const char *expected)
{
    struct orch_err err = ERR_INIT;
    AUTO_FREE char *got = NULL;
    int code = operator_edit(text, strlen(text), key, value, &got, &err);
    cr_assert_eq(code, 0, "%s=%s: %s", key, value, err.message);
    cr_assert_str_eq(got, expected, "%s=%s\n--- got\n%s--- expected\n%s", key, value, got, expected);
}

Test(operator, edits_change_one_value_only)
{
    edits("", "confinement.required", "true", "confinement:\n  required: true\n");
    edits("# top\nconfinement:\n  required: true # why\n  on_unavailable: refuse\n", "confinement.required", "false",
          "# top\nconfinement:\n  required: false # why\n  on_unavailable: refuse\n");
    edits("confinement:\n    required: true # why\n# end\nallow: {runner_host: false}\n", "confinement.mechanism",
          "bubblewrap",
          "confinement:\n    required: true # why\n    mechanism: bubblewrap\n# end\nallow: {runner_host: false}\n");
    edits("allow: {runner_host: false} # x\n", "allow.container_root", "true",
          "allow: {runner_host: false, container_root: true} # x\n");
    edits("allow: {} # x\n", "allow.container_root", "true", "allow: {container_root: true} # x\n");
    edits("allow: { runner_host: false }\n", "allow.runner_host", "true", "allow: { runner_host: true }\n");
    edits("readable:\n  - /a # one\n  - /b\n# after\nlogin_files: []\n", "readable", "[/c]",
          "readable: [/c]\n# after\nlogin_files: []\n");
    edits("readable: [/a,\n  /b] # two\n", "readable", "[]", "readable: [] # two\n");
    edits("confinement:\nreadable: []\n", "confinement.required", "true",
          "confinement:\n  required: true\nreadable: []\n");
    edits("confinement: # none yet\nreadable: []\n", "confinement.required", "true",
          "confinement: # none yet\n  required: true\nreadable: []\n");
    edits("confinement: null # none yet\n", "confinement.required", "true",
          "confinement: # none yet\n  required: true\n");
    edits("a: 1\r\nconfinement: {required: true}\r\n", "allow.runner_host", "true",
          "a: 1\r\nconfinement: {required: true}\r\nallow:\r\n  runner_host: true\r\n");
    edits("\xef\xbb\xbf# é\nname: \"é\" # é\n", "name", "x", "\xef\xbb\xbf# é\nname: x # é\n");
    edits("a: 1", "b", "2", "a: 1\nb: 2\n");
    edits("a: 'it''s' # q\n", "a", "\"b\"", "a: \"b\" # q\n");
    edits("credentials:\n  MY_KEY: {urls: [\"https://a/\"]}\n", "credentials.OTHER.urls", "[\"https://b/\"]",
          "credentials:\n  MY_KEY: {urls: [\"https://a/\"]}\n  OTHER:\n    urls: [\"https://b/\"]\n");
    edits("# only a comment\n", "readable", "[/x]", "# only a comment\nreadable: [/x]\n");
    edits("note: |\n  text\n  more\n# c\nb: 1\n", "note", "short", "note: short\n# c\nb: 1\n");
    TEST_END();
}

Test(operator, edits_that_cannot_be_made)
{
    static const struct {
        const char *text, *key, *value;
    } table[] = {
        {"a: [1\n", "b", "2"},   {"a: 1\n", "a.b", "2"},  {"- a\n", "b", "2"},    {"a: 1\n", "b", "2\nc: 3"},
        {"a: 1\n", "b", "[1"},   {"a: 1\n", "", "2"},     {"a: 1\n", "b c", "2"}, {"a: 1\n", "b", "x: y"},
        {"a: 1\n", "a", "&x 1"}, {"a: 1\n", "b..c", "1"},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        struct orch_err err = ERR_INIT;
        char *got = NULL;
        cr_assert_lt(operator_edit(table[i].text, strlen(table[i].text), table[i].key, table[i].value, &got, &err), 0,
                     "%s=%s gave %s", table[i].key, table[i].value, got);
        cr_assert_null(got);
    }
    TEST_END();
}

Test(operator, set_writes_a_checked_file)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    AUTO_FINDINGS struct config_findings findings = {.count = 0};
    struct orch_err err = ERR_INIT;
    AUTO_FREE char *file = path_join(dir.path, "new/orch.yaml");
    cr_assert_eq(operator_set(file, "confinement.required", "true", &findings, &err), 0, "%s", err.message);
    AUTO_FREE char *first = test_read(&dir, "new/orch.yaml");
    cr_assert_str_eq(first, "confinement:\n  required: true\n");
    cr_assert_eq(operator_set(file, "confinement.required", "maybe", &findings, &err), ORCH_E_CONFIG);
    cr_assert_gt(findings.count, 0);
    err_clear(&err);
    cr_assert_eq(operator_set(file, "confinement.requierd", "true", &findings, &err), ORCH_E_NOT_FOUND);
    assert_has(err.message, "confinement.required");
    AUTO_FREE char *second = test_read(&dir, "new/orch.yaml");
    cr_assert_str_eq(second, first, "a refused edit leaves the file alone");
    struct stat st;
    cr_assert_eq(stat(file, &st), 0);
    cr_assert_eq(st.st_mode & 0777, 0644);
    TEST_END();
}
