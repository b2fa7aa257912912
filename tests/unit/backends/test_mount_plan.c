/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/mechanisms/bwrap.h"
#include "backends/mechanisms/mount_plan.h"
#include "base/fd.h"
#include "base/mem.h"
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct lowered {
    struct test_dir dir;
    struct mount_plan plan;
    struct orch_err err;
    int code;
};

static struct lowered lower(const struct sandbox_spec *s, char *const *sources)
{
    struct lowered l = {.dir = test_dir_new(), .err = ERR_INIT};
    struct mount_place place = {.dir = l.dir.path,
                                .dirfd = l.dir.fd,
                                .skeleton = "/skeleton",
                                .empty_dir = "/empty",
                                .empty_file = "/empty-file"};
    l.code = mount_plan_lower(s, sources, &place, &l.plan, &l.err);
    return l;
}

static void lowered_done(struct lowered *l)
{
    mount_plan_done(&l->plan);
    test_dir_done(&l->dir);
}

static size_t depth(const char *path)
{
    size_t n = 0;
    for (; *path != '\0'; path++) {
        n += *path == '/';
    }
    return n;
}

static const struct mount_step *step_at(const struct mount_plan *p, const char *target)
{
    for (size_t i = 0; i < p->count; i++) {
        if (strcmp(p->steps[i].target, target) == 0) {
            return &p->steps[i];
        }
    }
    return NULL;
}

static int kind_at(const struct mount_plan *p, const char *target)
{
    const struct mount_step *step = step_at(p, target);
    return step == NULL ? -1 : (int)step->kind;
}

static const char *source_at(const struct mount_plan *p, const char *target)
{
    const struct mount_step *step = step_at(p, target);
    return step == NULL ? "" : step->source;
}

Test(mount_plan, deeper_targets_come_later)
{
    AUTO_TEST_DIR struct test_dir src = test_dir_new();
    test_write(&src, "sub/deep/x", "");
    AUTO_SPEC struct sandbox_spec s;
    spec_init(&s, "a");
    spec_grant(&s, "/b", "/w/a/sub/deep", SPEC_RO, SPEC_DIR);
    spec_grant(&s, "/a", "/w/a", SPEC_RO, SPEC_DIR);
    spec_grant_work(&s, "o", NULL, "/w/output", SPEC_RW);
    AUTO_FREE char *deep = xasprintf("%s/sub/deep", src.path);
    char *sources[] = {deep, src.path, src.path};
    AUTO(lowered_done) struct lowered l = lower(&s, sources);
    cr_assert_eq(l.code, 0, "%s", l.err.message);
    cr_assert_str_eq(l.plan.steps[0].target, "/");
    size_t last = 0;
    bool seen_top = false;
    for (size_t i = 0; i < l.plan.count; i++) {
        const char *target = l.plan.steps[i].target;
        if (strncmp(target, "/w", 2) == 0) {
            seen_top = seen_top || strcmp(target, "/w") == 0;
            cr_assert(seen_top, "%s before /w", target);
            cr_assert_geq(depth(target), last, "%s", target);
            last = depth(target);
        }
    }
    cr_assert_eq(kind_at(&l.plan, "/w"), (int)MOUNT_RO_BIND);
    cr_assert_eq(kind_at(&l.plan, "/w/output"), (int)MOUNT_BIND);
    cr_assert_eq(kind_at(&l.plan, "/w/a"), (int)MOUNT_RO_BIND);
    struct stat st;
    cr_assert(fstatat(l.dir.fd, "root/w/output", &st, 0) == 0 && S_ISDIR(st.st_mode));
}

Test(mount_plan, inline_files_need_no_mount)
{
    AUTO_SPEC struct sandbox_spec s;
    spec_init(&s, "a");
    spec_add_file(&s, "/w/in/task.json", "{}", 2, 0644);
    char *none[] = {NULL};
    AUTO(lowered_done) struct lowered l = lower(&s, none);
    cr_assert_eq(l.code, 0, "%s", l.err.message);
    cr_assert_null(step_at(&l.plan, "/w/in/task.json"));
    AUTO_FREE char *text = test_read(&l.dir, "root/w/in/task.json");
    cr_assert_str_eq(text, "{}");
    struct stat st;
    cr_assert(fstatat(l.dir.fd, "root/w/in/task.json", &st, 0) == 0 && (st.st_mode & 07777) == 0444);
}

Test(mount_plan, no_mount_goes_through_a_link)
{
    AUTO_TEST_DIR struct test_dir src = test_dir_new();
    test_write(&src, "real/x", "");
    cr_assert_eq(symlinkat("/etc", src.fd, "link"), 0);
    cr_assert_eq(symlinkat("real", src.fd, "inner"), 0);
    static const char *const targets[] = {"/w/a/link", "/w/a/inner", "/w/a/link/x", "/w/a/inner/x"};
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        AUTO_SPEC struct sandbox_spec s;
        spec_init(&s, "a");
        spec_grant_work(&s, "a", NULL, "/w/a", SPEC_RW);
        spec_grant(&s, "/b", targets[i], SPEC_RO, SPEC_DIR);
        char *sources[] = {src.path, src.path};
        AUTO(lowered_done) struct lowered l = lower(&s, sources);
        cr_assert_eq(l.code, ORCH_E_HOSTILE, "%s: %d %s", targets[i], l.code, l.err.message);
        AUTO_SPEC struct sandbox_spec h;
        spec_init(&h, "a");
        spec_grant(&h, "/b", "/w/a", SPEC_RW, SPEC_DIR);
        spec_add_hide(&h, targets[i]);
        AUTO(lowered_done) struct lowered hidden = lower(&h, sources);
        cr_assert_eq(hidden.code, ORCH_E_HOSTILE, "hide %s: %d", targets[i], hidden.code);
    }
}

Test(mount_plan, only_own_directories_get_mount_points)
{
    AUTO_TEST_DIR struct test_dir src = test_dir_new();
    AUTO_SPEC struct sandbox_spec s;
    spec_init(&s, "a");
    spec_grant(&s, "/a", "/w/a", SPEC_RO, SPEC_DIR);
    spec_grant(&s, "/b", "/w/a/new", SPEC_RO, SPEC_DIR);
    char *sources[] = {src.path, src.path};
    AUTO(lowered_done) struct lowered l = lower(&s, sources);
    cr_assert_eq(l.code, ORCH_E_CONFIG);
    AUTO_SPEC struct sandbox_spec w;
    spec_init(&w, "a");
    spec_grant_work(&w, "a", NULL, "/w/a", SPEC_RW);
    spec_grant(&w, "/b", "/w/a/new/point", SPEC_RO, SPEC_DIR);
    AUTO(lowered_done) struct lowered own = lower(&w, sources);
    cr_assert_eq(own.code, 0, "%s", own.err.message);
    struct stat st;
    cr_assert(fstatat(src.fd, "new/point", &st, 0) == 0 && S_ISDIR(st.st_mode));
}

Test(mount_plan, hidden_things_are_covered_by_their_own_kind_and_pinned)
{
    AUTO_TEST_DIR struct test_dir src = test_dir_new();
    test_write(&src, "conf/keys/id", "secret");
    test_write(&src, ".env", "K=1");
    AUTO_SPEC struct sandbox_spec s;
    spec_init(&s, "a");
    spec_grant(&s, "/p", "/p", SPEC_RW, SPEC_DIR);
    spec_add_hide(&s, "/p/.env");
    spec_add_hide(&s, "/p/conf/keys");
    spec_add_hide(&s, "/p/absent");
    spec_add_hide(&s, "/elsewhere/x");
    char *sources[] = {src.path};
    AUTO(lowered_done) struct lowered l = lower(&s, sources);
    cr_assert_eq(l.code, 0, "%s", l.err.message);
    cr_assert_str_eq(source_at(&l.plan, "/p/.env"), "/empty-file");
    cr_assert_str_eq(source_at(&l.plan, "/p/conf/keys"), "/empty");
    cr_assert_eq(kind_at(&l.plan, "/p/conf"), (int)MOUNT_BIND, "the ancestor is pinned");
    cr_assert_null(step_at(&l.plan, "/p/absent"));
    cr_assert_null(step_at(&l.plan, "/elsewhere/x"));
}

static bool has_argument(const struct buf *b, const char *word)
{
    for (size_t at = 0; at < b->len; at += strlen(b->data + at) + 1) {
        if (strcmp(b->data + at, word) == 0) {
            return true;
        }
    }
    return false;
}

Test(bwrap, every_sandbox_has_what_confines_it)
{
    AUTO_MOUNT_PLAN struct mount_plan p = {.steps = NULL};
    mount_plan_add(&p, MOUNT_TMPFS, NULL, "/tmp", 12345);
    for (int named = 0; named <= 1; named++) {
        struct mechanism_options o = {.mounts = &p, .hostname = "box", .named_identity = named == 1};
        AUTO_BUF struct buf b;
        buf_init(&b, BWRAP_ARGS_MAX);
        bwrap_arguments(&o, &b);
        static const char *const always[] = {"--unshare-ipc",
                                             "--unshare-pid",
                                             "--unshare-net",
                                             "--unshare-uts",
                                             "--unshare-cgroup",
                                             "--new-session",
                                             "--die-with-parent",
                                             "--as-pid-1",
                                             "--cap-drop",
                                             "ALL",
                                             "--hostname",
                                             "box",
                                             "12345"};
        for (size_t i = 0; i < ARRAY_LEN(always); i++) {
            cr_assert(has_argument(&b, always[i]), "%s is missing", always[i]);
        }
        cr_assert_eq(has_argument(&b, "--userns"), named == 1);
        cr_assert_eq(has_argument(&b, "--disable-userns"), named == 0);
        cr_assert_eq(has_argument(&b, "CAP_SETUID"), named == 1);
    }
    struct mechanism_options open = {.mounts = &p, .hostname = "box", .share_network = true};
    AUTO_BUF struct buf b;
    buf_init(&b, BWRAP_ARGS_MAX);
    bwrap_arguments(&open, &b);
    cr_assert_not(has_argument(&b, "--unshare-net"));
}

Test(bwrap, only_a_program_that_nobody_else_can_change_is_trusted)
{
    struct orch_err err = ERR_INIT;
    cr_assert_eq(bwrap_trusted("/usr/bin/bwrap", &err), 0, "%s", err.message);
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    test_write(&dir, "bwrap", "");
    AUTO_FREE char *planted = xasprintf("%s/bwrap", dir.path);
    cr_assert_eq(bwrap_trusted(planted, &err), ORCH_E_UNAVAILABLE); /* below a directory open to all */
    AUTO_FREE char *link = xasprintf("%s/link", dir.path);
    cr_assert_eq(symlink("/usr/bin/bwrap", link), 0);
    struct orch_err e = ERR_INIT;
    cr_assert_eq(bwrap_trusted(link, &e), ORCH_E_UNAVAILABLE);
    struct orch_err absent = ERR_INIT;
    cr_assert_eq(bwrap_trusted("/usr/bin/no-such-bwrap", &absent), ORCH_E_UNAVAILABLE);
}
