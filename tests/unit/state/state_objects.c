/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "state/objects.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECRET "hf_0123456789abcdefXYZ"

struct fixture {
    struct test_dir dir;
    struct record *rec;
    struct redactor *redactor;
    struct objects *objects;
};

static void must(int r, const struct orch_err *err)
{
    cr_assert_eq(r, 0, "%s", err->message);
}

static struct fixture make(void)
{
    struct orch_err err = ERR_INIT;
    struct clock clock = clock_system();
    char *env[] = {(char[]){"HF_TOKEN=" SECRET}, NULL};
    struct fixture f = {.dir = test_dir_new(), .redactor = redact_new(env)};
    test_write(&f.dir, "objects/.keep", "");
    AUTO_FREE char *path = path_join(f.dir.path, "objects");
    must(record_open(f.dir.path, RECORD_CREATE, &clock, &f.rec, &err), &err);
    must(record_start_writer(f.rec, NULL, NULL, &err), &err);
    must(objects_open(path, f.rec, f.redactor, &f.objects, &err), &err);
    return f;
}

static void done(struct fixture *f)
{
    struct orch_err err = ERR_INIT;
    objects_free(f->objects);
    must(record_close(f->rec, &err), &err);
    redact_free(f->redactor);
    test_dir_done(&f->dir);
}
#define AUTO_FIXTURE __attribute__((cleanup(done_fixture)))
static void done_fixture(struct fixture *f)
{
    done(f);
}

static void round_trip(struct fixture *f, size_t len)
{
    struct orch_err err = ERR_INIT;
    AUTO_FREE char *data = xmalloc(len + 1);
    AUTO_FREE char *back = NULL;
    struct kept kept;
    struct kept again;
    size_t got = 0;
    for (size_t i = 0; i < len; i++) {
        data[i] = (char)(i * 7 + i / 251);
    }
    must(objects_keep(f->objects, data, len, 1 << 20, KEEP_REFUSE, &kept, &err), &err);
    must(objects_keep(f->objects, data, len, 1 << 20, KEEP_REFUSE, &again, &err), &err);
    cr_assert_str_eq(kept.digest, again.digest);
    cr_assert_eq(kept.size, (int64_t)len);
    cr_assert(!kept.cut && !kept.redacted);
    must(objects_read(f->objects, kept.digest, 1 << 20, &back, &got, &err), &err);
    cr_assert_eq(got, len);
    cr_assert_eq(memcmp(back, data, len), 0);
    char digest[DIGEST_TEXT_MAX];
    digest_of(data, len, digest);
    cr_assert_str_eq(digest, kept.digest);
    if (len > 10) {
        free(back);
        back = NULL;
        cr_assert_eq(objects_read(f->objects, kept.digest, len - 1, &back, &got, &err), ORCH_E_LIMIT);
    }
}

Test(objects, any_size_comes_back)
{
    static const size_t sizes[] = {0, 1, OBJECTS_INLINE_MAX, OBJECTS_INLINE_MAX + 1, 65536, 200000};
    AUTO_FIXTURE struct fixture f = make();
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        round_trip(&f, sizes[i]);
    }
    bool has = true;
    struct orch_err err = ERR_INIT;
    char digest[DIGEST_TEXT_MAX];
    digest_of("absent", 6, digest);
    must(objects_has(f.objects, digest, &has, &err), &err);
    cr_assert(!has);
    char *none = NULL;
    cr_assert_eq(objects_read(f.objects, digest, 10, &none, NULL, &err), ORCH_E_NOT_FOUND);
    cr_assert_eq(objects_read(f.objects, "sha256:../../etc/passwd", 10, &none, NULL, &err), ORCH_E_NOT_FOUND);
}

Test(objects, more_than_the_maximum_is_refused_or_cut)
{
    AUTO_FIXTURE struct fixture f = make();
    struct orch_err err = ERR_INIT;
    struct kept kept;
    AUTO_FREE char *data = xmalloc(100000);
    AUTO_FREE char *back = NULL;
    size_t len = 0;
    memset(data, 'x', 100000);
    cr_assert_eq(objects_keep(f.objects, data, 101, 100, KEEP_REFUSE, &kept, &err), ORCH_E_LIMIT);
    err_clear(&err);
    must(objects_keep(f.objects, data, 100, 100, KEEP_REFUSE, &kept, &err), &err);
    must(objects_keep(f.objects, data, 100000, 50000, KEEP_CUT, &kept, &err), &err);
    cr_assert(kept.cut);
    cr_assert_eq(kept.size, 50000);
    must(objects_read(f.objects, kept.digest, 1 << 20, &back, &len, &err), &err);
    cr_assert_eq(len, 50000);
    must(objects_keep(f.objects, data, 100, 100, KEEP_CUT, &kept, &err), &err);
    cr_assert(!kept.cut);
    cr_assert_eq(kept.size, 100);
}

Test(objects, secrets_never_reach_the_disk_at_any_cut)
{
    AUTO_FIXTURE struct fixture f = make();
    struct orch_err err = ERR_INIT;
    const char text[] = "0123456789" SECRET "tail and more tail to be cut away, quite a lot of it, really";
    for (int64_t max = 8; max < 40; max++) {
        struct kept kept;
        AUTO_FREE char *back = NULL;
        size_t len = 0;
        must(objects_keep(f.objects, text, sizeof text - 1, max, KEEP_CUT, &kept, &err), &err);
        cr_assert(kept.cut);
        cr_assert_leq(kept.size, max);
        must(objects_read(f.objects, kept.digest, 100, &back, &len, &err), &err);
        cr_assert(!strstr(back, "hf_"), "cut at %lld: %s", (long long)max, back);
    }
}

Test(objects, a_changed_file_is_damaged)
{
    AUTO_FIXTURE struct fixture f = make();
    struct orch_err err = ERR_INIT;
    struct kept kept;
    AUTO_FREE char *data = xcalloc(1, 50000);
    AUTO_FREE char *back = NULL;
    must(objects_keep(f.objects, data, 50000, 1 << 20, KEEP_REFUSE, &kept, &err), &err);
    AUTO_FREE char *name = xasprintf("objects/%.2s/%s", kept.digest + 7, kept.digest + 9);
    AUTO_FREE char *text = test_read(&f.dir, name);
    cr_assert_not_null(text);
    test_write(&f.dir, name, "changed");
    cr_assert_eq(objects_read(f.objects, kept.digest, 1 << 20, &back, NULL, &err), ORCH_E_DAMAGED);
    cr_assert_eq(unlinkat(f.dir.fd, name, 0), 0);
    cr_assert_eq(objects_read(f.objects, kept.digest, 1 << 20, &back, NULL, &err), ORCH_E_DAMAGED);
}

static int tree_fd(const struct fixture *f, const char *name)
{
    int fd = openat(f->dir.fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cr_assert_geq(fd, 0);
    return fd;
}

Test(objects, trees_come_back_whole)
{
    AUTO_FIXTURE struct fixture f = make();
    struct orch_err err = ERR_INIT;
    struct tree_caps caps = TREE_CAPS_DEFAULT;
    struct kept kept;
    struct kept again;

    test_write(&f.dir, "in/a.txt", "a");
    test_write(&f.dir, "in/d/run", "#!/bin/sh\n");
    test_write(&f.dir, "in/odd\n\xff\\name", "odd");
    test_write(&f.dir, "in/log", "key " SECRET);
    cr_assert_eq(mkdirat(f.dir.fd, "in/empty", 0700), 0);
    cr_assert_eq(fchmodat(f.dir.fd, "in/d/run", 04711, 0), 0);
    cr_assert_eq(mkdirat(f.dir.fd, "out", 0700), 0);
    AUTO_FD int in = tree_fd(&f, "in");
    AUTO_FD int out = tree_fd(&f, "out");
    must(objects_keep_tree(f.objects, in, &caps, &kept, &err), &err);
    cr_assert(kept.redacted);
    must(objects_write_tree(f.objects, kept.digest, out, &err), &err);
    AUTO_FREE char *odd = test_read(&f.dir, "out/odd\n\xff\\name");
    AUTO_FREE char *log = test_read(&f.dir, "out/log");
    cr_assert_str_eq(odd, "odd");
    cr_assert_str_eq(log, "key <HF_TOKEN>");
    struct stat st;
    cr_assert_eq(fstatat(f.dir.fd, "out/d/run", &st, 0), 0);
    cr_assert_eq(st.st_mode & 07777, 0755, "no setuid");
    cr_assert_eq(fstatat(f.dir.fd, "out/empty", &st, 0), 0);
    must(objects_keep_tree(f.objects, out, &caps, &again, &err), &err);
    cr_assert_str_eq(kept.digest, again.digest, "equal trees have equal digests");
    cr_assert_lt(objects_write_tree(f.objects, kept.digest, out, &err), 0, "nothing is replaced");
}

Test(objects, hostile_trees_are_refused)
{
    AUTO_FIXTURE struct fixture f = make();
    struct orch_err err = ERR_INIT;
    struct tree_caps caps = TREE_CAPS_DEFAULT;
    struct kept kept;

    test_write(&f.dir, "l/x", "");
    cr_assert_eq(symlinkat("/etc/passwd", f.dir.fd, "l/link"), 0);
    AUTO_FD int l = tree_fd(&f, "l");
    cr_assert_eq(objects_keep_tree(f.objects, l, &caps, &kept, &err), ORCH_E_HOSTILE);
    test_write(&f.dir, "p/x", "");
    cr_assert_eq(mkfifoat(f.dir.fd, "p/pipe", 0600), 0);
    AUTO_FD int p = tree_fd(&f, "p");
    cr_assert_eq(objects_keep_tree(f.objects, p, &caps, &kept, &err), ORCH_E_HOSTILE);
    test_write(&f.dir, "b/x", "12345");
    test_write(&f.dir, "b/c/d/e", "12345");
    AUTO_FD int b = tree_fd(&f, "b");
    const struct tree_caps tight[] = {{9, 100, 100, 10}, {100, 4, 100, 10}, {100, 100, 3, 10}, {100, 100, 100, 1}};
    for (size_t i = 0; i < ARRAY_LEN(tight); i++) {
        cr_assert_eq(objects_keep_tree(f.objects, b, &tight[i], &kept, &err), ORCH_E_LIMIT, "%zu", i);
    }
    const struct tree_caps fits = {10, 5, 4, 2};
    err_clear(&err);
    must(objects_keep_tree(f.objects, b, &fits, &kept, &err), &err);
}

Test(objects, a_manifest_cannot_lead_out)
{
    static const char *const bad[] = {"../x", "/x", "a//b", "a/../../x", "\\x2e./x", "\\q", ""};
    AUTO_FIXTURE struct fixture f = make();
    struct orch_err err = ERR_INIT;
    cr_assert_eq(mkdirat(f.dir.fd, "out", 0700), 0);
    AUTO_FD int out = tree_fd(&f, "out");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct kept kept;
        AUTO_JSON json_t *m = json_pack("{s:i,s:{s:{s:s}}}", "version", 1, "entries", bad[i], "mode", "0644");
        AUTO_FREE char *text = json_canonical(m);
        must(objects_keep(f.objects, text, strlen(text), 1000, KEEP_REFUSE, &kept, &err), &err);
        cr_assert_eq(objects_write_tree(f.objects, kept.digest, out, &err), ORCH_E_DAMAGED, "%s", bad[i]);
        err_clear(&err);
    }
}
