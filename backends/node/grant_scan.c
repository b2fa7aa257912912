/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/node/grant_scan.h"

#include "backends/node/tree_walk.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_AT_CLOCK = 256 };

struct remembered {
    struct timespec modified;
    ino_t inode;
    dev_t device;
    struct grant_facts facts;
};

struct grant_scans {
    struct map *by_path; /* of struct remembered, owned */
    struct clock clock;
};

struct scan {
    struct grant_facts *facts;
    const char *root;
    const struct clock *clock;
    int64_t until;
    dev_t device;
    bool crossed; /* another file system is mounted in it: nothing of that was seen */
};

struct grant_scans *grant_scans_new(void)
{
    struct grant_scans *s = xcalloc(1, sizeof *s);
    *s = (struct grant_scans){.by_path = map_new(), .clock = clock_system()};
    return s;
}

static bool forget(const char *key, void *value, void *arg)
{
    (void)key, (void)arg;
    free(value);
    return true;
}

void grant_scans_free(struct grant_scans *s)
{
    if (s != NULL) {
        map_each(s->by_path, forget, NULL);
        map_free(s->by_path);
        free(s);
    }
}

/* A relative link at `path` (its depth is that of its directory) that climbs above the root, or an absolute one
 * elsewhere. */
static bool leads_out(const struct scan *s, int dirfd, const char *name, const char *path)
{
    char to[4096];
    ssize_t n = readlinkat(dirfd, name, to, sizeof to - 1);
    if (n <= 0) {
        return true;
    }
    to[n] = '\0';
    if (to[0] == '/') {
        return !path_is_beneath(to, s->root);
    }
    int depth = 0;
    for (const char *p = path; (p = strchr(p, '/')) != NULL; p++) {
        depth++;
    }
    for (const char *p = to; *p != '\0'; p += strcspn(p, "/"), p += *p == '/') {
        size_t len = strcspn(p, "/");
        bool up = len == 2 && strncmp(p, "..", 2) == 0;
        bool here = len == 0 || (len == 1 && *p == '.');
        depth += up ? -1 : here ? 0 : 1;
        if (depth < 0) {
            return true;
        }
    }
    return false;
}

static int look(void *arg, int dirfd, const char *name, const char *path, const struct stat *st, struct orch_err *err)
{
    struct scan *s = arg;
    struct grant_facts *f = s->facts;
    f->entries++;
    s->crossed = s->crossed || st->st_dev != s->device;
    f->sockets += S_ISSOCK(st->st_mode);
    f->hard_links += S_ISREG(st->st_mode) && st->st_nlink > 1;
    f->setid += S_ISREG(st->st_mode) && (st->st_mode & (S_ISUID | S_ISGID)) != 0;
    f->outward += S_ISLNK(st->st_mode) && leads_out(s, dirfd, name, path);
    if (f->entries % LOOK_AT_CLOCK == 0 && clock_mono_ns(s->clock) > s->until) {
        return err_set(err, ORCH_E_LIMIT, "no time left");
    }
    return 0;
}

static void scan_now(const struct grant_scans *all, const char *real, dev_t device, struct grant_facts *ret)
{
    struct orch_err ignored = ERR_INIT;
    *ret = (struct grant_facts){0};
    AUTO_FD int fd = fd_open(real, O_RDONLY | O_DIRECTORY, 0, &ignored);
    struct scan s = {.facts = ret,
                     .root = real,
                     .clock = &all->clock,
                     .until = clock_mono_ns(&all->clock) + GRANT_SCAN_NS,
                     .device = device};
    ret->complete = fd >= 0 && tree_walk(fd, GRANT_SCAN_ENTRIES, look, &s, &ignored) == 0 && !s.crossed;
}

static bool same(const struct remembered *r, const struct stat *st)
{
    return r->inode == st->st_ino && r->device == st->st_dev && r->modified.tv_sec == st->st_mtim.tv_sec &&
           r->modified.tv_nsec == st->st_mtim.tv_nsec;
}

const struct grant_facts *grant_scan(struct grant_scans *s, const char *real)
{
    struct stat st = {0};
    bool there = stat(real, &st) == 0;
    struct remembered *r = map_get(s->by_path, real);
    if (r != NULL && there && same(r, &st)) {
        return &r->facts;
    }
    if (r == NULL) {
        r = xcalloc(1, sizeof *r);
        (void)map_set(s->by_path, real, r);
    }
    *r = (struct remembered){.modified = st.st_mtim, .inode = st.st_ino, .device = st.st_dev};
    if (S_ISDIR(st.st_mode)) {
        scan_now(s, real, st.st_dev, &r->facts);
    } else {
        r->facts = (struct grant_facts){.entries = 1,
                                        .sockets = S_ISSOCK(st.st_mode),
                                        .hard_links = S_ISREG(st.st_mode) && st.st_nlink > 1,
                                        .complete = there};
    }
    return &r->facts;
}
