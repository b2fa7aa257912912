/* SPDX-License-Identifier: Apache-2.0 */
/* The profile is asked what it lets a program do; no Mac is needed for that, and none was seen. */
#include "backends/mechanisms/mechanism.h"
#include "backends/mechanisms/seatbelt.h"
#include "base/mem.h"
#include "sbpl.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

#define HOME "/Volumes/Home/ada"
#define PROJECT HOME "/jobs/date \"s\\"

struct question {
    bool allowed;
    const char *operation;
    const char *subject;
};

static void project_spec(struct sandbox_spec *s)
{
    spec_init(s, "box");
    spec_grant(s, PROJECT, PROJECT, SPEC_RW, SPEC_DIR);
    spec_grant(s, PROJECT "/fixed", PROJECT "/fixed", SPEC_RO, SPEC_DIR);
    spec_grant(s, HOME "/data/corpus.txt", HOME "/data/corpus.txt", SPEC_RO, SPEC_FILE);
    spec_grant(s, "/private/tmp/box", "/private/tmp/box", SPEC_RW, SPEC_DIR);
    spec_add_hide(s, PROJECT "/conf/keys");
    spec_add_hide(s, PROJECT "/.env");
    spec_add_absent(s, "/Library/Keychains");
    spec_add_port(s, 8080);
}

static const struct question project_questions[] = {
    /* the grants, with the positive control of each denial */
    {true, "file-read-data", PROJECT "/main.c"},
    {true, "file-write-data", PROJECT "/main.c"},
    {true, "file-write-create", PROJECT "/new/deep"},
    {true, "file-read-data", PROJECT},
    {true, "file-read-data", PROJECT "/fixed/x"},
    {false, "file-write-data", PROJECT "/fixed/x"},
    {false, "file-write-unlink", PROJECT "/fixed"},
    {true, "file-read-data", HOME "/data/corpus.txt"},
    {false, "file-write-data", HOME "/data/corpus.txt"},
    {true, "file-write-data", "/private/tmp/box/x"},
    {false, "file-write-data", "/private/tmp/other"},
    /* everything else of the project's, of the home, of other homes */
    {false, "file-read-data", HOME "/jobs/other/main.c"},
    {false, "file-read-data", HOME "/jobs"},
    {false, "file-read-data", HOME "/data/other.txt"},
    {false, "file-read-data", HOME "/.ssh/id"},
    {false, "file-read-data", "/Volumes/Home/bob/x"},
    {false, "file-write-create", HOME "/x"},
    {false, "file-read-data", PROJECT "2/x"}, /* a name that only begins alike */
    {true, "file-read-metadata", HOME},       /* a path can be walked */
    {true, "file-read-metadata", HOME "/jobs"},
    {true, "file-read-metadata", HOME "/data"},
    {true, "file-read-metadata", "/Volumes/Home"},
    {false, "file-read-metadata", HOME "/.ssh"},
    /* hidden, also when what holds it would move */
    {false, "file-read-data", PROJECT "/conf/keys/id"},
    {false, "file-read-metadata", PROJECT "/conf/keys"},
    {false, "file-write-create", PROJECT "/conf/keys/x"},
    {false, "process-exec", PROJECT "/conf/keys/tool"},
    {false, "file-read-data", PROJECT "/.env"},
    {true, "file-read-data", PROJECT "/.env2"},
    {true, "file-read-data", PROJECT "/conf/public"},
    {true, "file-write-create", PROJECT "/conf/public"},
    {false, "file-write-unlink", PROJECT "/conf"},
    {false, "file-write-unlink", PROJECT},
    {true, "file-write-unlink", PROJECT "/conf/public"},
    {true, "file-write-unlink", PROJECT "/src"},
    {false, "file-read-data", "/Library/Keychains/login.keychain"},
    /* the system */
    {true, "file-read-data", "/usr/lib/dyld"},
    {true, "file-read-data", "/System/Library/x"},
    {false, "file-write-data", "/usr/local/bin/x"},
    {false, "file-write-create", "/private/var/tmp/x"},
    {true, "process-exec", "/bin/sh"},
    {true, "process-fork", ""},
    {true, "file-map-executable", "/usr/lib/libSystem.dylib"},
    {true, "sysctl-read", ""},
    {true, "ipc-posix-sem", ""},
    {true, "ipc-posix-shm", ""},
    {true, "signal", "same-sandbox"},
    {false, "signal", "others"},
    {true, "process-info-pidinfo", "same-sandbox"},
    {false, "process-info-pidinfo", "others"},
    {true, "file-write-data", "/dev/null"},
    {true, "file-write-data", "/dev/zero"},
    {true, "file-write-data", "/dev/random"},
    {true, "file-write-data", "/dev/urandom"},
    {true, "file-ioctl", "/dev/tty"},
    {true, "file-ioctl", "/dev/dtracehelper"},
    {false, "file-write-data", "/dev/disk0"},
    {true, "mach-lookup", "com.apple.system.opendirectoryd.libinfo"},
    {true, "mach-lookup", "com.apple.system.notification_center"},
    {true, "mach-lookup", "com.apple.system.logger"},
    {true, "mach-lookup", "com.apple.trustd.agent"},
    {false, "mach-lookup", "com.apple.coreservices.launchservicesd"}, /* it starts programs that nothing confines */
    {false, "mach-lookup", "com.apple.pasteboard.1"},
    {false, "mach-lookup", "com.apple.MTLCompilerService"},
    {false, "iokit-open", "AGXDeviceUserClient"},
    {false, "appleevent-send", ""},
    {false, "system-privilege", ""},
    /* the network */
    {true, "network-outbound", "localhost:8080"},
    {false, "network-outbound", "localhost:22"},
    {false, "network-outbound", "198.51.100.1:443"},
    {false, "network-bind", "localhost:8080"},
    {false, "system-socket", ""},
};

static struct sbpl *profile_of(const struct sandbox_spec *s, bool metal)
{
    struct orch_err err = ERR_INIT;
    struct seatbelt_extra extra = {.metal = metal};
    AUTO_BUF struct buf b;
    buf_init(&b, SEATBELT_PROFILE_MAX);
    cr_assert_eq(seatbelt_profile(s, &extra, &b, &err), 0, "%s", err.message);
    char why[200] = "";
    struct sbpl *p = sbpl_parse(b.data, why);
    cr_assert_not_null(p, "%s", why);
    return p;
}

static size_t wrong_answers(const struct sbpl *p, const struct question *q, size_t n, bool tell)
{
    size_t wrong = 0;
    for (size_t i = 0; i < n; i++) {
        if (sbpl_allows(p, q[i].operation, q[i].subject) != q[i].allowed) {
            wrong++;
            cr_expect(!tell, "%s %s is %s", q[i].operation, q[i].subject, q[i].allowed ? "denied" : "allowed");
        }
    }
    return wrong;
}

Test(seatbelt, a_project_is_open_and_nothing_else_of_its_owners)
{
    AUTO_SPEC struct sandbox_spec s;
    project_spec(&s);
    struct sbpl *p = profile_of(&s, false);
    (void)wrong_answers(p, project_questions, ARRAY_LEN(project_questions), true);
    sbpl_free(p);
    TEST_END();
}

/* Nothing in the profile is there for nothing: without any one of its rules some answer is wrong. */
Test(seatbelt, every_rule_is_needed)
{
    AUTO_SPEC struct sandbox_spec s;
    project_spec(&s);
    struct sbpl *p = profile_of(&s, false);
    cr_assert_gt(sbpl_rules(p), 30u);
    for (size_t i = 0; i < sbpl_rules(p); i++) {
        sbpl_without(p, i);
        size_t wrong = wrong_answers(p, project_questions, ARRAY_LEN(project_questions), false);
        /* (deny default) says what an evaluator takes for granted */
        cr_expect(wrong > 0 || strcmp(sbpl_text(p, i), "(deny default)") == 0, "nobody misses %s", sbpl_text(p, i));
    }
    sbpl_free(p);
    TEST_END();
}

Test(seatbelt, network_and_metal_are_open_only_when_asked_for)
{
    static const struct question open[] = {
        {true, "network-outbound", "198.51.100.1:443"},
        {true, "network-bind", "localhost:8080"},
        {true, "system-socket", ""},
        {true, "mach-lookup", "com.apple.MTLCompilerService"},
        {true, "mach-lookup", "com.apple.cvmsServ"},
        {true, "iokit-open", "AGXDeviceUserClient"},
        {true, "iokit-open", "IOSurfaceRootUserClient"},
        {false, "iokit-open", "IOHIDParamUserClient"},
        {false, "file-read-data", HOME "/x"},
    };
    AUTO_SPEC struct sandbox_spec s;
    project_spec(&s);
    s.network = SPEC_PUBLIC;
    struct sbpl *p = profile_of(&s, true);
    (void)wrong_answers(p, open, ARRAY_LEN(open), true);
    sbpl_free(p);
    TEST_END();
}

static void refused(const struct sandbox_spec *s, const char *what)
{
    struct orch_err err = ERR_INIT;
    struct seatbelt_extra extra = {0};
    AUTO_BUF struct buf b;
    buf_init(&b, SEATBELT_PROFILE_MAX);
    cr_assert_eq(seatbelt_profile(s, &extra, &b, &err), ORCH_E_UNAVAILABLE);
    cr_assert_not_null(strstr(err.message, what), "%s", err.message);
    cr_assert_eq(b.len, 0u, "nothing half made");
}

Test(seatbelt, what_it_cannot_give_is_refused)
{
    AUTO_SPEC struct sandbox_spec moved;
    spec_init(&moved, "a");
    spec_grant(&moved, "/data", "/w/data", SPEC_RO, SPEC_DIR);
    refused(&moved, "another place to /data");
    AUTO_SPEC struct sandbox_spec work;
    spec_init(&work, "a");
    spec_grant_work(&work, "output", NULL, "/w/output", SPEC_RW);
    refused(&work, "the work directory /w/output");
    AUTO_SPEC struct sandbox_spec file;
    spec_init(&file, "a");
    spec_add_file(&file, "/w/task.json", "{}", 2, 0444);
    refused(&file, "the file /w/task.json");
    AUTO_SPEC struct sandbox_spec dir;
    spec_init(&dir, "a");
    spec_add_dir(&dir, "/w/place");
    refused(&dir, "the directory /w/place");
    TEST_END();
}

Test(seatbelt, is_refused_where_there_is_none)
{
    struct orch_err err = ERR_INIT;
    struct mechanism m;
    cr_assert_eq(mechanism_choose("seatbelt", "/bin/true", &m, &err), ORCH_E_UNAVAILABLE);
    cr_assert_not_null(strstr(err.message, "macOS"), "%s", err.message);
    TEST_END();
}
