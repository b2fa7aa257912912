/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target as an ordinary test: replay COUNT CORPUS-DIR gives it every file of the corpus, then COUNT inputs
 * made from them by small changes from a fixed seed. The input that is being tried is kept in a file named by
 * ORCH_FUZZ_KEEP, so that what crashes can be looked at.
 */
#include "fuzz.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/rng.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { INPUT_MAX = 1 << 16, FILES_MAX = 1000, CHANGES_MAX = 6 };

struct input {
    char *data;
    size_t len;
};

static void try_one(const char *data, size_t len)
{
    const char *keep = getenv("ORCH_FUZZ_KEEP");
    if (keep) {
        struct orch_err err = ERR_INIT;
        AUTO_FD int fd = fd_open(keep, O_WRONLY | O_CREAT | O_TRUNC, 0600, &err);
        if (fd < 0 || fd_write_all(fd, data, len, &err) < 0) {
            fprintf(stderr, "%s\n", err.message);
        }
    }
    /* an exact copy: a read past the end is seen */
    uint8_t *copy = malloc(len ? len : 1);
    FUZZ_CHECK(copy);
    memcpy(copy, data, len);
    (void)LLVMFuzzerTestOneInput(copy, len);
    free(copy);
}

static size_t change(struct rng *r, char *data, size_t len)
{
    static const char interesting[] = "\0\xff\x80/\\.*?{}[]\",:\n -0e";
    size_t at = len ? (size_t)rng_below(r, len) : 0;
    switch (rng_below(r, 5)) {
    case 0: /* another byte */
        if (len) {
            data[at] = (char)rng_below(r, 256);
        }
        return len;
    case 1: /* an interesting byte more */
        if (len < INPUT_MAX) {
            memmove(data + at + 1, data + at, len - at);
            data[at] = interesting[rng_below(r, sizeof interesting - 1)];
            return len + 1;
        }
        return len;
    case 2: /* a piece less */
        if (len) {
            size_t n = (size_t)rng_below(r, len - at) + 1;
            n = n > 8 ? 8 : n;
            memmove(data + at, data + at + n, len - at - n);
            return len - n;
        }
        return len;
    case 3: /* a piece twice */
        if (len) {
            size_t n = (size_t)rng_below(r, len - at) + 1;
            n = n > INPUT_MAX - len ? INPUT_MAX - len : n;
            memmove(data + at + n, data + at, len - at);
            return len + n;
        }
        return len;
    default: /* one bit */
        if (len) {
            data[at] = (char)(data[at] ^ (1 << rng_below(r, 8)));
        }
        return len;
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static size_t load(const char *dir, struct input *inputs)
{
    char *names[FILES_MAX];
    size_t n = 0;
    DIR *d = opendir(dir);
    for (const struct dirent *e = d ? readdir(d) : NULL; e && n < FILES_MAX; e = readdir(d)) {
        if (e->d_name[0] != '.') {
            names[n++] = path_join(dir, e->d_name);
        }
    }
    if (d) {
        closedir(d);
    }
    qsort(names, n, sizeof *names, by_name);
    for (size_t i = 0; i < n; i++) {
        struct orch_err err = ERR_INIT;
        if (fd_read_file(names[i], INPUT_MAX, &inputs[i].data, &inputs[i].len, &err) < 0) {
            fprintf(stderr, "%s\n", err.message);
            exit(1);
        }
        free(names[i]);
    }
    return n;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s COUNT CORPUS-DIR\n", argv[0]);
        return 2;
    }
    static struct input inputs[FILES_MAX];
    size_t n = load(argv[2], inputs);
    if (n == 0) {
        fprintf(stderr, "%s: no corpus\n", argv[2]);
        return 1;
    }
    for (size_t i = 0; i < n; i++) {
        try_one(inputs[i].data, inputs[i].len);
    }
    struct rng r = rng_seeded(1, path_base(argv[2]));
    AUTO_FREE char *work = xmalloc(INPUT_MAX);
    long count = strtol(argv[1], NULL, 10);
    for (long i = 0; i < count; i++) {
        const struct input *from = &inputs[rng_below(&r, n)];
        size_t len = from->len;
        memcpy(work, from->data, len);
        for (uint64_t changes = rng_below(&r, CHANGES_MAX) + 1; changes > 0; changes--) {
            len = change(&r, work, len);
        }
        try_one(work, len);
    }
    for (size_t i = 0; i < n; i++) {
        free(inputs[i].data);
    }
    printf("%zu files, %ld changed inputs\n", n, count);
    return 0;
}
