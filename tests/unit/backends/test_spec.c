/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/spec.h"
#include "base/mem.h"
#include "test.h"

#include <string.h>

static void fill(struct sandbox_spec *s)
{
    spec_init(s, "t7-solve");
    spec_grant(s, "/data/x", "/w/data", SPEC_RO, SPEC_DIR);
    s->grants[0].required = false;
    spec_grant_work(s, "adapter", "tree:sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
                    "/w/adapter", SPEC_RW);
    spec_add_file(s, "/w/task.json", "{\"id\": \"7\"}", 11, 0444);
    spec_add_dir(s, "/w/empty");
    spec_set_env(s, "PATH", "/usr/bin");
    spec_set_env(s, "A", "1");
    spec_set_env(s, "A", "x=y");
    spec_add_port(s, 8080);
    spec_add_absent(s, "/root");
    spec_add_hide(s, "/w/adapter/.env");
    s->limits.memory = UINT64_C(1) << 30;
    s->limits.processes = 256;
}

Test(spec, json_round_trip_is_equal)
{
    AUTO_SPEC struct sandbox_spec a;
    AUTO_SPEC struct sandbox_spec b = {.name = NULL};
    struct orch_err err = ERR_INIT;
    fill(&a);
    cr_assert_eq(spec_check(&a, &err), 0, "%s", err.message);
    AUTO_JSON json_t *j = spec_to_json(&a);
    cr_assert_eq(spec_from_json(j, &b, &err), 0, "%s", err.message);
    AUTO_JSON json_t *again = spec_to_json(&b);
    cr_assert(json_equal(j, again));
    cr_assert_str_eq(json_get_str(json_get(again, "env"), "A", ""), "x=y");
    cr_assert_eq(strv_len(b.env), 2u);
}

Test(spec, a_path_that_is_not_utf8_is_refused_by_name)
{
    AUTO_SPEC struct sandbox_spec s;
    struct orch_err err = ERR_INIT;
    fill(&s);
    spec_add_hide(&s, "/w/adapter/\xff");
    cr_assert_eq(spec_check(&s, &err), ORCH_E_CONFIG);
    cr_assert_not_null(strstr(err.message, "hide: \"/w/adapter/\xff\" is not UTF-8"), "%s", err.message);
}

static const char *refusal(const char *text)
{
    static struct orch_err err;
    struct sandbox_spec s;
    err = (struct orch_err)ERR_INIT;
    if (spec_parse(text, strlen(text), &s, &err) == 0) {
        spec_done(&s);
        return "";
    }
    return err_name(err.code);
}

Test(spec, minimal_is_accepted)
{
    cr_assert_str_eq(refusal("{\"version\":1,\"name\":\"a\"}"), "");
}

Test(spec, what_is_not_known_or_out_of_range_is_refused)
{
    static const char *const bad[] = {
        "{\"name\":\"a\"}",
        "{\"version\":2,\"name\":\"a\"}",
        "{\"version\":1}",
        "{\"version\":1,\"name\":\"\"}",
        "{\"version\":1,\"name\":\"../a\"}",
        "{\"version\":1,\"name\":\".a\"}",
        "{\"version\":1,\"name\":\"a\",\"color\":1}",
        "{\"version\":1,\"name\":\"a\",\"name\":\"b\"}",
        "{\"version\":1,\"name\":\"a\",\"cwd\":\"w\"}",
        "{\"version\":1,\"name\":\"a\",\"cwd\":7}",
        "{\"version\":1,\"name\":\"a\",\"network\":\"host\"}",
        "{\"version\":1,\"name\":\"a\",\"ports\":[80]}",
        "{\"version\":1,\"name\":\"a\",\"ports\":[8080,8080]}",
        "{\"version\":1,\"name\":\"a\",\"ports\":[70000]}",
        "{\"version\":1,\"name\":\"a\",\"limits\":{\"memory\":-1}}",
        "{\"version\":1,\"name\":\"a\",\"limits\":{\"swap\":1}}",
        "{\"version\":1,\"name\":\"a\",\"env\":{\"A=B\":\"1\"}}",
        "{\"version\":1,\"name\":\"a\",\"hostname\":\"a b\"}",
        "{\"version\":1,\"name\":\"a\",\"dirs\":[\"/w/../etc\"]}",
        "{\"version\":1,\"name\":\"a\",\"files\":[{\"path\":\"/w/x\",\"text\":\"\",\"mode\":2541}]}",
        "{\"version\":1,\"name\":\"a\",\"files\":[{\"path\":\"/w/x\"}]}",
        "[]",
        "",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        cr_assert_str_neq(refusal(bad[i]), "", "accepted: %s", bad[i]);
    }
}

Test(spec, grants_where_nothing_may_be_mounted_are_refused)
{
    static const char *const targets[] = {"/",    "/proc/x", "/proc",  "/sys",  "/dev/shm", "/usr/lib/x",
                                          "/etc", "/bin/x",  "/lib64", "/tmp",  "/home",    SPEC_HOME,
                                          "w/x",  "/w//x",   "/w/./x", "/w/x/", "/w/..",    "/.orch-init"};
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        AUTO_FREE char *text = xasprintf("{\"version\":1,\"name\":\"a\",\"grants\":[{\"source\":\"/data\",\"target\":"
                                         "\"%s\",\"mode\":\"ro\"}]}",
                                         targets[i]);
        cr_assert_str_eq(refusal(text), "config", "accepted: %s", targets[i]);
    }
    static const char *const fine[] = {"/w", "/w/data", "/tmp/x", "/home/me/project", "/opt/x", "/srv", "/etcetera"};
    for (size_t i = 0; i < ARRAY_LEN(fine); i++) {
        AUTO_FREE char *text = xasprintf("{\"version\":1,\"name\":\"a\",\"grants\":[{\"source\":\"/data\",\"target\":"
                                         "\"%s\",\"mode\":\"ro\"}]}",
                                         fine[i]);
        cr_assert_str_eq(refusal(text), "", "refused: %s", fine[i]);
    }
}

Test(spec, sources_follow_their_rules)
{
    static const char *const bad[] = {
        "{\"source\":\"data\",\"target\":\"/w/x\",\"mode\":\"ro\"}",
        "{\"source\":\"/a/../b\",\"target\":\"/w/x\",\"mode\":\"ro\"}",
        "{\"source\":\"tree:sha256:12\",\"target\":\"/w/x\",\"mode\":\"ro\"}",
        ("{\"source\":\"tree:sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\",\"target\":\"/w/"
         "x\",\"mode\":\"rw\"}"),
        "{\"source\":\"work:../x\",\"target\":\"/w/x\",\"mode\":\"rw\"}",
        "{\"source\":\"work:\",\"target\":\"/w/x\",\"mode\":\"rw\"}",
        "{\"source\":\"work:x\",\"target\":\"/w/x\",\"mode\":\"rw\",\"kind\":\"file\"}",
        "{\"source\":\"/a\",\"target\":\"/w/x\",\"mode\":\"ro\",\"from\":\"/b\"}",
        "{\"source\":\"/a\",\"target\":\"/w/x\",\"mode\":\"rwx\"}",
        "{\"source\":\"/a\",\"target\":\"/w/x\"}",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        AUTO_FREE char *text = xasprintf("{\"version\":1,\"name\":\"a\",\"grants\":[%s]}", bad[i]);
        cr_assert_str_eq(refusal(text), "config", "accepted: %s", bad[i]);
    }
    cr_assert_str_eq(refusal("{\"version\":1,\"name\":\"a\",\"grants\":[{\"source\":\"/a\",\"target\":\"/w/"
                             "x\",\"mode\":\"ro\"},{\"source\":\"/b\",\"target\":\"/w/x\",\"mode\":\"ro\"}]}"),
                     "config");
}

Test(spec, limits_of_a_call_replace_single_values)
{
    struct spec_limits l = {.memory = 5, .cpu_s = 7};
    struct orch_err err = ERR_INIT;
    AUTO_JSON json_t *j = json_object();
    json_set_int(j, "cpu_s", 9);
    cr_assert_eq(spec_limits_read(j, &l, &err), 0);
    cr_assert(l.memory == 5 && l.cpu_s == 9);
    json_set_int(j, "unknown", 9);
    cr_assert_eq(spec_limits_read(j, &l, &err), ORCH_E_CONFIG);
}
