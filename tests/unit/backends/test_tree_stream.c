/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/node/tree_stream.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "test.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void pack(int dirfd, bool links, struct buf *out, struct tree_counts *counts, char digest[DIGEST_TEXT_MAX])
{
    struct tree_limits limits = {.links = links};
    struct tree_packer *p = NULL;
    struct orch_err err = ERR_INIT;
    cr_assert_eq(tree_packer_new(dirfd, &limits, &p, &err), 0, "%s", err.message);
    char chunk[7]; /* odd sizes cross every boundary */
    size_t n = 1;
    while (n > 0) {
        cr_assert_eq(tree_packer_read(p, chunk, sizeof chunk, &n, &err), 0, "%s", err.message);
        buf_add(out, chunk, n);
    }
    tree_packer_result(p, counts, digest);
    tree_packer_free(p);
}

static int unpack(int dirfd, const struct tree_limits *limits, const char *data, size_t len, size_t step,
                  struct tree_counts *counts, char digest[DIGEST_TEXT_MAX])
{
    struct tree_unpacker *u = NULL;
    struct orch_err err = ERR_INIT;
    cr_assert_eq(tree_unpacker_new(dirfd, limits, &u, &err), 0);
    int code = 0;
    for (size_t at = 0; code == 0 && at < len; at += step) {
        code = tree_unpacker_feed(u, data + at, at + step <= len ? step : len - at, &err);
    }
    if (code == 0) {
        code = tree_unpacker_finish(u, counts, digest, &err);
    }
    tree_unpacker_free(u);
    return code;
}

static void fill(const struct test_dir *dir)
{
    test_write(dir, "a/b.txt", "one");
    test_write(dir, "a-b", "two");
    test_write(dir, "a/c/run", "#!/bin/sh\n");
    test_write(dir, "empty", "");
    test_write(dir, "a/two\nlines", "odd names are names");
    test_write(dir, "a\001/below", "");
    test_write(dir, "tab\there", "");
    cr_assert_eq(mkdirat(dir->fd, "nothing", 0700), 0);
    cr_assert_eq(fchmodat(dir->fd, "a/c/run", 0700, 0), 0);
    cr_assert_eq(symlinkat("a/b.txt", dir->fd, "link"), 0);
    cr_assert_eq(symlinkat("../../outside", dir->fd, "a/out"), 0);
    cr_assert_eq(mkfifoat(dir->fd, "pipe", 0600), 0);
}

Test(tree_stream, a_tree_passes_with_its_digest)
{
    for (int links = 0; links <= 1; links++) {
        AUTO_TEST_DIR struct test_dir from = test_dir_new();
        AUTO_TEST_DIR struct test_dir to = test_dir_new();
        fill(&from);
        AUTO_BUF struct buf b;
        buf_init(&b, BUF_MAX_LINE);
        struct tree_counts sent;
        struct tree_counts got;
        char before[DIGEST_TEXT_MAX];
        char after[DIGEST_TEXT_MAX];
        char again[DIGEST_TEXT_MAX];
        pack(from.fd, links == 1, &b, &sent, before);
        struct tree_limits limits = {.links = links == 1};
        cr_assert_eq(unpack(to.fd, &limits, b.data, b.len, 5, &got, after), 0);
        cr_assert_str_eq(before, after);
        cr_assert_eq(sent.skipped, links == 1 ? 2u : 3u, "%d", (int)sent.skipped);
        cr_assert_eq(sent.bytes, got.bytes);
        cr_assert_eq(got.entries, links == 1 ? 12u : 11u);
        AUTO_FREE char *odd = test_read(&to, "a/two\nlines");
        cr_assert_str_eq(odd, "odd names are names");
        AUTO_FREE char *text = test_read(&to, "a/c/run");
        cr_assert_str_eq(text, "#!/bin/sh\n");
        struct stat st;
        cr_assert(fstatat(to.fd, "a/c/run", &st, 0) == 0 && (st.st_mode & 07777) == 0755);
        cr_assert(fstatat(to.fd, "a-b", &st, 0) == 0 && (st.st_mode & 07777) == 0644);
        cr_assert_eq(fstatat(to.fd, "link", &st, AT_SYMLINK_NOFOLLOW) == 0, links == 1);
        cr_assert_neq(fstatat(to.fd, "a/out", &st, AT_SYMLINK_NOFOLLOW), 0);
        struct orch_err err = ERR_INIT;
        cr_assert_eq(tree_digest(to.fd, &limits, &got, again, &err), 0);
        cr_assert_str_eq(before, again);
    }
    TEST_END();
}

struct entry {
    char type;
    const char *path;
    uint64_t size;
    const char *bytes;
};

static void put(struct buf *b, char type, const char *path, uint64_t size, const char *bytes)
{
    size_t len = strlen(path);
    buf_char(b, type);
    buf_char(b, (char)(len & 0xff));
    buf_char(b, (char)(len >> 8));
    for (int i = 0; i < 8; i++) {
        buf_char(b, (char)(size >> (8 * i)));
    }
    buf_str(b, path);
    buf_str(b, bytes);
}

Test(tree_stream, hostile_streams_are_refused)
{
    static const struct {
        const char *why;
        struct entry entries[3];
    } bad[] = {
        {"outside", {{'f', "../x", 1, "y"}}},
        {"absolute", {{'f', "/x", 1, "y"}}},
        {"dot", {{'d', "./x", 0, ""}}},
        {"no parent", {{'f', "a/x", 1, "y"}}},
        {"parent is a file", {{'f', "a", 1, "y"}, {'f', "a/b", 1, "y"}}},
        {"twice", {{'f', "a", 1, "y"}, {'f', "a", 1, "y"}}},
        {"order", {{'f', "b", 1, "y"}, {'f', "a", 1, "y"}}},
        {"unknown type", {{'p', "a", 0, ""}}},
        {"directory with bytes", {{'d', "a", 1, "y"}}},
        {"link out", {{'l', "a", 5, "../.."}}},
        {"absolute link", {{'l', "a", 4, "/etc"}}},
        {"through a link", {{'l', "a", 1, "."}, {'f', "a/x", 1, "y"}}},
        {"control character", {{'f', "a\x01", 1, "y"}}},
        {"too large", {{'f', "a", UINT64_MAX, "y"}}},
        {"wrong count", {{'f', "a", 1, "y"}, {'e', "", 7, ""}}},
        {"after the end", {{'e', "", 0, ""}, {'f', "a", 1, "y"}}},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        AUTO_TEST_DIR struct test_dir to = test_dir_new();
        AUTO_BUF struct buf b;
        buf_init(&b, BUF_MAX_LINE);
        buf_str(&b, "orchtree1\n");
        for (size_t k = 0; k < 3 && bad[i].entries[k].path != NULL; k++) {
            const struct entry *e = &bad[i].entries[k];
            put(&b, e->type, e->path, e->size, e->bytes);
        }
        struct tree_limits limits = {.links = true};
        struct tree_counts counts;
        char digest[DIGEST_TEXT_MAX];
        cr_assert_lt(unpack(to.fd, &limits, b.data, b.len, 3, &counts, digest), 0, "%s was accepted", bad[i].why);
    }
}

Test(tree_stream, a_cut_stream_is_damaged_and_limits_bind)
{
    AUTO_TEST_DIR struct test_dir from = test_dir_new();
    fill(&from);
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_LINE);
    struct tree_counts counts;
    char digest[DIGEST_TEXT_MAX];
    pack(from.fd, false, &b, &counts, digest);
    for (size_t len = 0; len < b.len; len++) {
        AUTO_TEST_DIR struct test_dir to = test_dir_new();
        cr_assert_eq(unpack(to.fd, NULL, b.data, len, 64, &counts, digest), ORCH_E_DAMAGED, "%zu bytes", len);
    }
    AUTO_TEST_DIR struct test_dir small = test_dir_new();
    AUTO_TEST_DIR struct test_dir few = test_dir_new();
    struct tree_limits bytes = {.bytes = 5};
    struct tree_limits entries = {.entries = 3};
    cr_assert_eq(unpack(small.fd, &bytes, b.data, b.len, 64, &counts, digest), ORCH_E_LIMIT);
    cr_assert_eq(unpack(few.fd, &entries, b.data, b.len, 64, &counts, digest), ORCH_E_LIMIT);
    struct tree_packer *p = NULL;
    struct orch_err err = ERR_INIT;
    cr_assert_eq(tree_packer_new(from.fd, &entries, &p, &err), ORCH_E_LIMIT);
}
