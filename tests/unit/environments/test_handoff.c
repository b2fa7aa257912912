/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/handoff.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

struct fixture {
    struct test_dir root;
    int src, dst;
    struct handoff_report report;
    struct handoff_limits limits;
    struct orch_err err;
};

static struct fixture *fixture_new(void)
{
    struct fixture *f = xcalloc(1, sizeof *f);
    f->root = test_dir_new();
    cr_assert_eq(mkdirat(f->root.fd, "src", 0755), 0);
    cr_assert_eq(mkdirat(f->root.fd, "dst", 0755), 0);
    f->src = openat(f->root.fd, "src", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    f->dst = openat(f->root.fd, "dst", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return f;
}

static void fixture_free(struct fixture **p)
{
    struct fixture *f = *p;
    fd_close(&f->src);
    fd_close(&f->dst);
    test_dir_done(&f->root);
    free(f);
}
#define FIXTURE(name) __attribute__((cleanup(fixture_free))) struct fixture *name = fixture_new()

static int copy(struct fixture *f)
{
    f->err = (struct orch_err)ERR_INIT;
    return handoff_copy(f->src, f->dst, &f->limits, &f->report, &f->err);
}

static bool exists(const struct fixture *f, const char *path)
{
    struct stat st;
    return fstatat(f->dst, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool noted(const struct fixture *f, enum handoff_reason reason, const char *path)
{
    for (size_t i = 0; i < f->report.note_count; i++) {
        if (f->report.notes[i].reason == reason && strcmp(f->report.notes[i].path, path) == 0) {
            return true;
        }
    }
    return false;
}

Test(handoff, copies_files_and_directories)
{
    FIXTURE(f);
    test_write(&f->root, "src/a.txt", "hello");
    test_write(&f->root, "src/d/e/b.txt", "deep");
    test_write(&f->root, "src/run.sh", "#!/bin/sh\n");
    cr_assert_eq(fchmodat(f->src, "run.sh", 0700, 0), 0);
    cr_assert_eq(fchmodat(f->src, "a.txt", 0600, 0), 0);
    cr_assert_eq(copy(f), 0, "%s", f->err.message);
    AUTO_FREE char *a = test_read(&f->root, "dst/a.txt");
    AUTO_FREE char *b = test_read(&f->root, "dst/d/e/b.txt");
    cr_assert_str_eq(a, "hello");
    cr_assert_str_eq(b, "deep");
    struct stat st;
    cr_assert_eq(fstatat(f->dst, "run.sh", &st, 0), 0);
    cr_assert_eq(st.st_mode & 07777, 0755);
    cr_assert_eq(fstatat(f->dst, "a.txt", &st, 0), 0);
    cr_assert_eq(st.st_mode & 07777, 0644);
    cr_assert_eq(fstatat(f->dst, "d", &st, 0), 0);
    cr_assert_eq(st.st_mode & 07777, 0755);
    cr_assert_eq(f->report.files, 3);
    cr_assert_eq(f->report.dirs, 2);
    cr_assert_eq(f->report.bytes, 5 + 4 + 10);
    cr_assert_eq(f->report.dropped, 0);
    cr_assert_not(f->report.stopped);
}

Test(handoff, refuses_a_destination_that_is_not_empty)
{
    FIXTURE(f);
    test_write(&f->root, "dst/x", "");
    cr_assert_eq(copy(f), ORCH_E_USAGE);
}

Test(handoff, drops_links_without_following_them)
{
    FIXTURE(f);
    test_write(&f->root, "outside", "secret");
    test_write(&f->root, "src/in", "x");
    cr_assert_eq(symlinkat("../outside", f->src, "out"), 0);
    cr_assert_eq(symlinkat("/etc", f->src, "abs"), 0);
    cr_assert_eq(symlinkat("in", f->src, "inside"), 0);
    cr_assert_eq(symlinkat("loop", f->src, "loop"), 0);
    cr_assert_eq(copy(f), 0, "%s", f->err.message);
    cr_assert_not(exists(f, "out") || exists(f, "abs") || exists(f, "inside") || exists(f, "loop"));
    cr_assert_eq(f->report.reasons[HANDOFF_LINK], 4);
    cr_assert_eq(f->report.dropped, 4);
    cr_assert_eq(f->report.files, 1);
}

Test(handoff, keeps_only_links_that_stay_inside)
{
    FIXTURE(f);
    f->limits.keep_links = true;
    test_write(&f->root, "src/a/b/file", "x");
    static const struct {
        const char *path, *target;
        bool passes;
    } links[] = {
        {"a/b/same", "file", true},
        {"a/b/up", "../../a/b/file", true},
        {"a/b/root", "../..", true},
        {"a/b/out", "../../..", false},
        {"a/b/abs", "/etc/passwd", false},
        /* "root" leads to the top: ".." after it would leave, whatever the letters say. */
        {"a/b/trick", "root/../x", false},
        {"a/b/dots", "./../b/./file", true},
    };
    for (size_t i = 0; i < ARRAY_LEN(links); i++) {
        cr_assert_eq(symlinkat(links[i].target, f->src, links[i].path), 0);
    }
    cr_assert_eq(copy(f), 0, "%s", f->err.message);
    for (size_t i = 0; i < ARRAY_LEN(links); i++) {
        cr_assert_eq(exists(f, links[i].path), links[i].passes, "%s", links[i].path);
        cr_assert_eq(noted(f, HANDOFF_LINK_OUT, links[i].path), !links[i].passes, "%s", links[i].path);
    }
}

Test(handoff, drops_special_files_without_opening_them)
{
    FIXTURE(f);
    cr_assert_eq(mkfifoat(f->src, "fifo", 0644), 0);
    AUTO_FD int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    (void)snprintf(addr.sun_path, sizeof addr.sun_path, "/proc/self/fd/%d/sock", f->src);
    cr_assert_eq(bind(sock, (struct sockaddr *)&addr, sizeof addr), 0);
    uint64_t special = 2;
    if (mknodat(f->src, "null", S_IFCHR | 0666, 0x103) == 0) {
        special++;
    }
    cr_assert_eq(copy(f), 0, "%s", f->err.message);
    cr_assert_eq(f->report.reasons[HANDOFF_SPECIAL], special);
    cr_assert_eq(f->report.files, 0);
    cr_assert(noted(f, HANDOFF_SPECIAL, "fifo"));
    cr_assert(noted(f, HANDOFF_SPECIAL, "sock"));
}

Test(handoff, removes_setuid_and_attributes)
{
    FIXTURE(f);
    test_write(&f->root, "src/su", "x");
    test_write(&f->root, "src/sticky/x", "x");
    cr_assert_eq(fchmodat(f->src, "su", 06755, 0), 0);
    cr_assert_eq(fchmodat(f->src, "sticky", 03777, 0), 0);
    AUTO_FD int fd = openat(f->src, "su", O_RDONLY | O_CLOEXEC);
    bool attribute = fsetxattr(fd, "user.note", "v", 1, 0) == 0;
    if (geteuid() == 0) {
        cr_assert_eq(fchownat(f->src, "su", 12345, 12345, 0), 0);
        cr_assert_eq(fchmodat(f->src, "su", 06755, 0), 0);
    }
    cr_assert_eq(copy(f), 0, "%s", f->err.message);
    struct stat st;
    cr_assert_eq(fstatat(f->dst, "su", &st, 0), 0);
    cr_assert_eq(st.st_mode & 07777, 0755);
    cr_assert_eq(st.st_uid, geteuid());
    cr_assert_eq(fstatat(f->dst, "sticky", &st, 0), 0);
    cr_assert_eq(st.st_mode & 07777, 0755);
    cr_assert(noted(f, HANDOFF_SETID, "su"));
    cr_assert(noted(f, HANDOFF_SETID, "sticky"));
    if (attribute) {
        char value[8];
        AUTO_FD int out = openat(f->dst, "su", O_RDONLY | O_CLOEXEC);
        cr_assert_eq(fgetxattr(out, "user.note", value, sizeof value), -1);
    }
}

Test(handoff, separates_hard_links)
{
    FIXTURE(f);
    test_write(&f->root, "outside", "linked");
    test_write(&f->root, "src/a", "x");
    cr_assert_eq(linkat(f->src, "a", f->src, "b", 0), 0);
    cr_assert_eq(linkat(f->root.fd, "outside", f->src, "c", 0), 0);
    cr_assert_eq(copy(f), 0, "%s", f->err.message);
    struct stat a;
    struct stat b;
    cr_assert_eq(fstatat(f->dst, "a", &a, 0), 0);
    cr_assert_eq(fstatat(f->dst, "b", &b, 0), 0);
    cr_assert_neq(a.st_ino, b.st_ino);
    cr_assert_eq(a.st_nlink, 1);
    cr_assert_eq(f->report.reasons[HANDOFF_HARDLINK], 3);
}

Test(handoff, reports_odd_names_and_keeps_them)
{
    FIXTURE(f);
    static const char *const odd[] = {"new\nline", "\x1b[31mred", "-rf", "bad\xff\xfe"};
    for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
        test_write(&f->root, "src/ok name ü", "x");
        AUTO_FD int fd = openat(f->src, odd[i], O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
        cr_assert_geq(fd, 0);
    }
    cr_assert_eq(copy(f), 0, "%s", f->err.message);
    cr_assert_eq(f->report.reasons[HANDOFF_ODD_NAME], ARRAY_LEN(odd));
    for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
        cr_assert(exists(f, odd[i]));
        cr_assert(noted(f, HANDOFF_ODD_NAME, odd[i]));
    }
    AUTO_JSON json_t *json = handoff_report_json(&f->report);
    cr_assert_eq(json_array_size(json_object_get(json, "notes")), ARRAY_LEN(odd));
}

Test(handoff, stops_at_the_byte_cap_also_for_holes)
{
    FIXTURE(f);
    f->limits.bytes = 1 << 20;
    test_write(&f->root, "src/a", "small");
    AUTO_FD int fd = openat(f->src, "sparse", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    cr_assert_eq(ftruncate(fd, (off_t)1 << 40), 0);
    cr_assert_eq(copy(f), ORCH_E_LIMIT);
    cr_assert(f->report.stopped);
    cr_assert(noted(f, HANDOFF_OVER_BYTES, "sparse"));
    cr_assert_eq(f->report.files, 1);
    cr_assert_not(exists(f, "sparse"));
}

Test(handoff, skips_a_big_file_when_told_to)
{
    FIXTURE(f);
    f->limits.file_bytes = 10;
    f->limits.skip_over_file = true;
    test_write(&f->root, "src/big", "0123456789x");
    test_write(&f->root, "src/small", "0123456789");
    cr_assert_eq(copy(f), 0, "%s", f->err.message);
    cr_assert(exists(f, "small"));
    cr_assert_not(exists(f, "big"));
    cr_assert(noted(f, HANDOFF_BIG, "big"));
}

Test(handoff, keeps_holes_as_holes)
{
    FIXTURE(f);
    AUTO_FD int fd = openat(f->src, "sparse", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    cr_assert_eq(ftruncate(fd, (off_t)256 << 20), 0);
    cr_assert_eq(pwrite(fd, "mid", 3, (off_t)128 << 20), 3);
    cr_assert_eq(copy(f), 0, "%s", f->err.message);
    struct stat st;
    cr_assert_eq(fstatat(f->dst, "sparse", &st, 0), 0);
    cr_assert_eq(st.st_size, (off_t)256 << 20);
    cr_assert_lt(st.st_blocks, 20480);
    AUTO_FD int out = openat(f->dst, "sparse", O_RDONLY | O_CLOEXEC);
    char mid[3];
    cr_assert_eq(pread(out, mid, 3, (off_t)128 << 20), 3);
    cr_assert_eq(memcmp(mid, "mid", 3), 0);
}

Test(handoff, stops_at_the_entry_cap)
{
    FIXTURE(f);
    f->limits.entries = 50;
    for (int i = 0; i < 51; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "src/f%d", i);
        test_write(&f->root, name, "");
    }
    cr_assert_eq(copy(f), ORCH_E_LIMIT);
    cr_assert_eq(f->report.reasons[HANDOFF_OVER_ENTRIES], 1);
    cr_assert_eq(f->report.files, 0);
}

static void make_chain(int at, int depth)
{
    int fd = fcntl(at, F_DUPFD_CLOEXEC, 3);
    for (int i = 0; i < depth; i++) {
        cr_assert_eq(mkdirat(fd, "d", 0755), 0);
        int next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        fd_close(&fd);
        fd = next;
    }
    int file = openat(fd, "end", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    fd_close(&file);
    fd_close(&fd);
}

Test(handoff, stops_at_the_depth_cap)
{
    FIXTURE(f);
    f->limits.depth = 5;
    make_chain(f->src, 6);
    cr_assert_eq(copy(f), ORCH_E_LIMIT);
    cr_assert(noted(f, HANDOFF_OVER_DEPTH, "d/d/d/d/d/d"));
    cr_assert_eq(f->report.dirs, 5);
}

Test(handoff, stops_at_the_path_cap)
{
    FIXTURE(f);
    f->limits.path = 100;
    char name[NAME_MAX + 1];
    memset(name, 'n', NAME_MAX);
    name[NAME_MAX] = '\0';
    cr_assert_eq(mkdirat(f->src, name, 0755), 0);
    cr_assert_eq(copy(f), ORCH_E_LIMIT);
    cr_assert_eq(f->report.reasons[HANDOFF_OVER_PATH], 1);
}

Test(handoff, walks_a_5000_deep_tree_with_few_descriptors)
{
    FIXTURE(f);
    f->limits.depth = 6000;
    f->limits.path = HANDOFF_PATH_MAX;
    make_chain(f->src, 5000);
    int before = test_open_fds();
    cr_assert_eq(copy(f), 0, "%s", f->err.message);
    cr_assert_eq(test_open_fds(), before);
    cr_assert_eq(f->report.dirs, 5000);
    cr_assert_eq(f->report.files, 1);
}

/* Coming back from a deep directory: entries that sort after it are still found. */
Test(handoff, finds_what_comes_after_a_directory)
{
    FIXTURE(f);
    test_write(&f->root, "src/a/b/c/x", "1");
    test_write(&f->root, "src/a/b/z", "2");
    test_write(&f->root, "src/a/z/y", "3");
    test_write(&f->root, "src/z", "4");
    cr_assert_eq(copy(f), 0, "%s", f->err.message);
    cr_assert(exists(f, "a/b/c/x") && exists(f, "a/b/z") && exists(f, "a/z/y") && exists(f, "z"));
}

Test(handoff, reads_what_its_owner_made_unreadable)
{
    FIXTURE(f);
    test_write(&f->root, "src/closed/file", "x");
    test_write(&f->root, "src/noread", "y");
    cr_assert_eq(fchmodat(f->src, "closed/file", 0, 0), 0);
    cr_assert_eq(fchmodat(f->src, "closed", 0, 0), 0);
    cr_assert_eq(fchmodat(f->src, "noread", 0200, 0), 0);
    if (geteuid() == 0) {
        /* As the user who owns everything: root may read anyway. */
        static const char *const all[] = {".", "closed", "closed/file", "noread"};
        for (size_t i = 0; i < ARRAY_LEN(all); i++) {
            cr_assert_eq(fchownat(f->src, all[i], 12345, 12345, 0), 0);
        }
        cr_assert_eq(fchown(f->dst, 12345, 12345), 0);
        cr_assert_eq(seteuid(12345), 0);
    }
    int r = copy(f);
    cr_assert(geteuid() == 0 || seteuid(getuid()) == 0);
    cr_assert_eq(r, 0, "%s", f->err.message);
    cr_assert(exists(f, "closed/file"));
    cr_assert(exists(f, "noread"));
    cr_assert_eq(f->report.dropped, 0);
}

Test(handoff, reports_what_it_may_not_read)
{
    if (geteuid() != 0) {
        TEST_SKIP("needs root to make another user's file");
    }
    FIXTURE(f);
    test_write(&f->root, "src/theirs", "y");
    cr_assert_eq(fchmodat(f->src, "theirs", 0600, 0), 0);
    cr_assert_eq(fchown(f->dst, 12345, 12345), 0);
    cr_assert_eq(seteuid(12345), 0);
    int r = copy(f);
    cr_assert_eq(seteuid(0), 0);
    cr_assert_eq(r, 0, "%s", f->err.message);
    cr_assert(noted(f, HANDOFF_UNREADABLE, "theirs"));
    cr_assert_eq(f->report.dropped, 1);
}

Test(handoff, drops_a_mount)
{
    if (geteuid() != 0) {
        TEST_SKIP("needs root to mount");
    }
    FIXTURE(f);
    test_write(&f->root, "outside/secret", "secret");
    test_write(&f->root, "src/m/x", "");
    AUTO_FREE char *from = xasprintf("%s/outside", f->root.path);
    AUTO_FREE char *at = xasprintf("%s/src/m", f->root.path);
    if (mount(from, at, NULL, MS_BIND, NULL) < 0) {
        TEST_SKIP("cannot mount here");
    }
    int r = copy(f);
    cr_assert_eq(umount2(at, MNT_DETACH), 0);
    cr_assert_eq(r, 0, "%s", f->err.message);
    cr_assert(noted(f, HANDOFF_MOUNT, "m"));
    cr_assert_not(exists(f, "m"));
}

static int observe_one(const char *path, int fd, uint64_t size, bool executable, void *arg, struct orch_err *err)
{
    AUTO_FREE char *data = NULL;
    size_t len = 0;
    struct buf *seen = arg;
    (void)executable;
    TRY(fd_read_all(fd, 1000, &data, &len, err));
    cr_assert_eq(len, size);
    buf_fmt(seen, "%s=%s;", path, data);
    return strcmp(path, "stop") == 0 ? err_set(err, ORCH_E_FAILED, "stopped here") : 0;
}

Test(handoff, shows_each_kept_file_in_order)
{
    FIXTURE(f);
    AUTO_BUF struct buf seen = {0};
    buf_init(&seen, 1000);
    f->limits.observe = observe_one;
    f->limits.observe_arg = &seen;
    test_write(&f->root, "src/b", "2");
    test_write(&f->root, "src/a/x", "1");
    cr_assert_eq(copy(f), 0, "%s", f->err.message);
    cr_assert_str_eq(seen.data, "a/x=1;b=2;");
    buf_reset(&seen);
    struct orch_err err = ERR_INIT;
    cr_assert_eq(handoff_scan(f->src, &f->limits, &f->report, &err), 0, "%s", err.message);
    cr_assert_str_eq(seen.data, "a/x=1;b=2;");
    test_write(&f->root, "src/stop", "3");
    test_write(&f->root, "src/z", "4");
    cr_assert_eq(handoff_scan(f->src, &f->limits, &f->report, &err), ORCH_E_FAILED);
    cr_assert(f->report.stopped);
}

/* A process that is not dead after all exchanges a file, a directory and links to the outside while we copy. */
static void race(int src)
{
    for (;;) {
        (void)renameat2(src, "file", src, "link", RENAME_EXCHANGE);
        (void)renameat2(src, "dir", src, "dirlink", RENAME_EXCHANGE);
    }
}

Test(handoff, never_brings_an_outside_byte_in_a_race)
{
    FIXTURE(f);
    f->limits.keep_links = false;
    test_write(&f->root, "outside/secret", "outside-secret");
    test_write(&f->root, "src/file", "inside");
    test_write(&f->root, "src/dir/secret", "inside");
    cr_assert_eq(symlinkat("../outside/secret", f->src, "link"), 0);
    cr_assert_eq(symlinkat("../outside", f->src, "dirlink"), 0);
    pid_t pid = fork();
    if (pid == 0) {
        race(f->src);
        _exit(0);
    }
    static const char *const places[] = {"file", "link", "dir/secret", "dirlink/secret"};
    unsigned got = 0;
    for (int i = 0; i < 300; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "copy%d", i);
        cr_assert_eq(mkdirat(f->root.fd, name, 0755), 0);
        AUTO_FD int dst = openat(f->root.fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct orch_err err = ERR_INIT;
        cr_assert_eq(handoff_copy(f->src, dst, &f->limits, &f->report, &err), 0, "%s", err.message);
        for (size_t p = 0; p < ARRAY_LEN(places); p++) {
            char path[64];
            (void)snprintf(path, sizeof path, "%s/%s", name, places[p]);
            AUTO_FREE char *data = test_read(&f->root, path);
            if (data != NULL) {
                got++;
                cr_assert_str_eq(data, "inside", "%s", places[p]);
            }
        }
    }
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    cr_assert_gt(got, 0, "no copy ever saw a file: the race tested nothing");
}
