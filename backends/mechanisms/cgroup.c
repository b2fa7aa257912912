/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/mechanisms/cgroup.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/rng.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define TABLE_MAX ((size_t)4 << 20) /* /proc/self/mountinfo */
#define VALUE_MAX ((size_t)64 << 10)
#define OWN_PREFIX "orch-"
#define OWN_TRIES 3

struct cgroup_tree {
    int version; /* 0: none */
    char *own;   /* name of the node's group below each base */
    char *bases[2];
    int dirs[2];                 /* the node's groups; version 2 has one */
    struct cgroup_limits *slots; /* of each group made: its limits now */
    uint32_t slot_count;
    char *why;
};

enum { MEMORY, PIDS };

/* ---- finding the trees ---- */

static bool has_word(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = list; (p = strstr(p, word)) != NULL; p += n) {
        bool begins = p == list || p[-1] == ',' || p[-1] == ' ';
        if (begins && (p[n] == ',' || p[n] == '\0' || p[n] == ' ' || p[n] == '\n')) {
            return true;
        }
    }
    return false;
}

/* Cuts the next line off *at; NULL at the end. */
static char *next_line(char **at)
{
    char *line = *at;
    if (*line == '\0') {
        return NULL;
    }
    char *end = line + strcspn(line, "\n");
    *at = *end == '\0' ? end : end + 1;
    *end = '\0';
    return line;
}

/* What the kernel tells; each is read once, as a machine with many mounts takes its time over them. NULL: unreadable.
 */
struct tables {
    char *groups; /* /proc/self/cgroup */
    char *mounts; /* /proc/self/mountinfo */
};

static void tables_read(struct tables *t)
{
    struct orch_err ignored = ERR_INIT;
    size_t len = 0;
    *t = (struct tables){.groups = NULL};
    if (fd_read_file("/proc/self/cgroup", VALUE_MAX, &t->groups, &len, &ignored) == 0) {
        (void)!fd_read_file("/proc/self/mountinfo", TABLE_MAX, &t->mounts, &len, &ignored);
    }
}

static void tables_done(struct tables *t)
{
    free(t->groups);
    free(t->mounts);
}

/* This process's own group in the hierarchy with that controller; NULL controller: version 2. Owned. */
static char *own_group(const struct tables *t, const char *controller)
{
    if (t->groups == NULL) {
        return NULL;
    }
    AUTO_FREE char *text = xstrdup(t->groups);
    char *at = text;
    for (char *line = next_line(&at); line != NULL; line = next_line(&at)) {
        char *names = strchr(line, ':');
        char *path = names != NULL ? strchr(names + 1, ':') : NULL;
        if (path == NULL) {
            continue;
        }
        *path++ = '\0';
        if (controller == NULL ? names[1] == '\0' : has_word(names + 1, controller)) {
            return xstrdup(path);
        }
    }
    return NULL;
}

/* Where `group` is seen below a mount whose root is `root`; owned. */
static char *seen_at(const char *mount, const char *root, const char *group)
{
    size_t n = strcmp(root, "/") == 0 ? 0 : strlen(root);
    const char *rest = strncmp(group, root, n) == 0 ? group + n : group;
    return strcmp(rest, "/") == 0 ? xstrdup(mount) : xasprintf("%s%s", mount, rest);
}

/* The directory in which a group of ours can be made; NULL: there is no such hierarchy. Owned. */
static char *find_base(const struct tables *t, const char *controller)
{
    AUTO_FREE char *group = own_group(t, controller);
    if (group == NULL || t->mounts == NULL) {
        return NULL;
    }
    AUTO_FREE char *text = xstrdup(t->mounts);
    char *at = text;
    for (char *line = next_line(&at); line != NULL; line = next_line(&at)) {
        char root[1024];
        char mount[1024];
        char type[32];
        char options[1024];
        const char *tail = strstr(line, " - ");
        if (tail == NULL || sscanf(line, "%*s %*s %*s %1023s %1023s", root, mount) != 2 ||
            sscanf(tail, " - %31s %*s %1023s", type, options) != 2) {
            continue;
        }
        if (controller == NULL ? strcmp(type, "cgroup2") == 0
                               : strcmp(type, "cgroup") == 0 && has_word(options, controller)) {
            return seen_at(mount, root, group);
        }
    }
    return NULL;
}

/* ---- small file work ---- */

/* memory.limit_in_bytes answers EINTR when a signal is pending: it has to reclaim first. */
static int write_value(int dir, const char *file, const char *value)
{
    AUTO_FD int fd = openat(dir, file, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return -errno;
    }
    ssize_t n;
    do {
        n = write(fd, value, strlen(value));
    } while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : 0;
}

static int write_number(int dir, const char *file, uint64_t value)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%" PRIu64, value);
    return write_value(dir, file, text);
}

/* The number after `word` in a file of "word number" lines; word NULL: the whole file is one. 0 when it is not there.
 */
static uint64_t read_number(int dir, const char *file, const char *word)
{
    struct orch_err ignored = ERR_INIT;
    AUTO_FREE char *text = NULL;
    size_t len = 0;
    if (fd_read_file_at(dir, file, VALUE_MAX, &text, &len, &ignored) < 0) {
        return 0;
    }
    const char *at = text;
    size_t n = word != NULL ? strlen(word) : 0;
    while (word != NULL && at != NULL && (strncmp(at, word, n) != 0 || at[n] != ' ')) {
        at = strchr(at, '\n');
        at = at != NULL ? at + 1 : NULL;
    }
    return at != NULL ? strtoull(at + n, NULL, 10) : 0;
}

static int group_dir(const struct cgroup_tree *t, int which, uint32_t index)
{
    char name[16];
    (void)snprintf(name, sizeof name, "%u", index);
    int dir = t->dirs[which];
    return dir < 0 ? -1 : openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

/* ---- what dead nodes left ----
 * A node holds a lock on its group while it lives. Its pid would not do: nodes in other PID namespaces make groups in
 * the same tree. */

static void remove_groups(int base, const char *name)
{
    int fd = openat(base, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        fd_close(&fd);
        return;
    }
    const struct dirent *e;
    while ((e = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe): own stream */
        if (e->d_type == DT_DIR && e->d_name[0] != '.') {
            (void)unlinkat(fd, e->d_name, AT_REMOVEDIR);
        }
    }
    (void)closedir(dir);
    (void)unlinkat(base, name, AT_REMOVEDIR); /* fails while something lives in it */
}

static void sweep_one(int base, const char *name)
{
    AUTO_FD int group = openat(base, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (group >= 0 && flock(group, LOCK_EX | LOCK_NB) == 0) {
        remove_groups(base, name); /* locked until it is gone: nobody takes it for his own meanwhile */
    }
}

static void sweep(const char *base)
{
    int fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        fd_close(&fd);
        return;
    }
    const struct dirent *e;
    while ((e = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe): own stream */
        if (strncmp(e->d_name, OWN_PREFIX, strlen(OWN_PREFIX)) == 0) {
            sweep_one(fd, e->d_name);
        }
    }
    (void)closedir(dir);
}

/* ---- the node's own group ---- */

/* Version 2 gives no controllers to groups below one that holds processes: ours move into a leaf first. Only where
 * nobody else is there. */
static int make_room(int base, const char *own)
{
    AUTO_FREE char *leaf = xasprintf("%s-node", own);
    if (mkdirat(base, leaf, 0755) < 0 && errno != EEXIST) {
        return -errno;
    }
    AUTO_FREE char *procs = xasprintf("%s/cgroup.procs", leaf);
    const pid_t ours[] = {getpid(), getppid()};
    for (size_t i = 0; i < ARRAY_LEN(ours); i++) {
        int code = write_number(base, procs, (uint64_t)ours[i]);
        if (code < 0) {
            return code;
        }
    }
    return write_value(base, "cgroup.subtree_control", "+memory +pids");
}

/* -EAGAIN, -ENOENT: somebody swept it away before it was locked. */
static int make_own(struct cgroup_tree *t, int which, int base)
{
    if (mkdirat(base, t->own, 0755) < 0) {
        return -errno;
    }
    AUTO_FD int dir = openat(base, t->own, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;
    if (dir < 0 || flock(dir, LOCK_EX | LOCK_NB) < 0 || fstatat(base, t->own, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return -errno;
    }
    t->dirs[which] = dir;
    dir = -1;
    return 0;
}

static int open_own(struct cgroup_tree *t, int which)
{
    AUTO_FD int base = open(t->bases[which], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (base < 0) {
        return -errno;
    }
    int code = 0;
    if (t->version == 2) {
        code = write_value(base, "cgroup.subtree_control", "+memory +pids");
        code = code == -EBUSY ? make_room(base, t->own) : code;
    }
    if (code < 0) {
        return code;
    }
    for (int tries = 0; t->dirs[which] < 0; tries++) {
        code = make_own(t, which, base);
        if (code < 0 && (tries == OWN_TRIES || (code != -EAGAIN && code != -ENOENT))) {
            return code;
        }
    }
    return t->version == 2 ? write_value(t->dirs[which], "cgroup.subtree_control", "+memory +pids") : 0;
}

static void give_up(struct cgroup_tree *t, int code)
{
    for (int i = 0; i < 2; i++) {
        AUTO_FD int base = t->bases[i] == NULL ? -1 : open(t->bases[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        fd_close(&t->dirs[i]);
        if (base >= 0) {
            remove_groups(base, t->own);
        }
    }
    free(t->why);
    t->why = xasprintf("version %d, %s: %s", t->version, t->bases[0], strerrordesc_np(-code));
    t->version = 0;
}

static char *own_name(void)
{
    uint64_t random = 0;
    random_bytes(&random, sizeof random);
    return xasprintf(OWN_PREFIX "%d-%016" PRIx64, (int)getpid(), random);
}

struct cgroup_tree *cgroup_tree_new(void)
{
    struct cgroup_tree *t = xcalloc(1, sizeof *t);
    *t = (struct cgroup_tree){.dirs = {-1, -1}, .own = own_name()};
    AUTO(tables_done) struct tables tables;
    tables_read(&tables);
    t->bases[MEMORY] = find_base(&tables, "memory");
    t->bases[PIDS] = find_base(&tables, "pids");
    t->version = 1;
    if (t->bases[MEMORY] == NULL || t->bases[PIDS] == NULL) {
        free(t->bases[MEMORY]);
        free(t->bases[PIDS]);
        t->bases[PIDS] = NULL;
        t->bases[MEMORY] = find_base(&tables, NULL);
        t->version = 2;
    }
    if (t->bases[MEMORY] == NULL) {
        t->version = 0;
        t->why = xstrdup("no control groups are mounted");
        return t;
    }
    for (int i = 0; i < 2 && t->version != 0; i++) {
        if (t->bases[i] != NULL && access(t->bases[i], W_OK) < 0) {
            give_up(t, -errno);
        }
    }
    return t;
}

/* The node's own groups are made with the first sandbox that needs one. */
static int open_all(struct cgroup_tree *t)
{
    int code = 0;
    for (int i = 0; i < 2 && code == 0 && t->version != 0; i++) {
        if (t->bases[i] != NULL && t->dirs[i] < 0) {
            sweep(t->bases[i]);
            code = open_own(t, i);
        }
    }
    return code;
}

void cgroup_tree_free(struct cgroup_tree *t)
{
    if (t == NULL) {
        return;
    }
    for (int i = 0; i < 2; i++) {
        AUTO_FD int base = t->bases[i] == NULL ? -1 : open(t->bases[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        fd_close(&t->dirs[i]);
        if (base >= 0 && t->version != 0) {
            remove_groups(base, t->own);
        }
        free(t->bases[i]);
    }
    free(t->own);
    free(t->slots);
    free(t->why);
    free(t);
}

const char *cgroup_tree_limits(const struct cgroup_tree *t)
{
    static const char *const names[] = {"rlimit", "cgroup1", "cgroup2"};
    return names[t->version];
}

const char *cgroup_tree_why(const struct cgroup_tree *t)
{
    return t->why != NULL ? t->why : "";
}

/* ---- a sandbox's group ---- */

static int set_memory(const struct cgroup_tree *t, int dir, uint64_t bytes)
{
    if (bytes == 0) {
        return 0;
    }
    if (t->version == 2) {
        int code = write_number(dir, "memory.max", bytes);
        int swap = code == 0 ? write_value(dir, "memory.swap.max", "0") : code;
        return swap == -ENOENT ? 0 : swap;
    }
    int code = write_number(dir, "memory.limit_in_bytes", bytes);
    int both = code == 0 ? write_number(dir, "memory.memsw.limit_in_bytes", bytes) : code;
    return both == -ENOENT ? 0 : both; /* a kernel without swap accounting */
}

static int set_limits(const struct cgroup_tree *t, int which, uint32_t index, const struct cgroup_limits *l)
{
    AUTO_FD int dir = group_dir(t, which, index);
    if (dir < 0) {
        return -errno;
    }
    int code = which == MEMORY ? set_memory(t, dir, l->memory) : 0;
    bool pids = which == PIDS || t->version == 2;
    return code == 0 && pids && l->processes > 0 ? write_number(dir, "pids.max", l->processes + 1) : code;
}

static int make_group(const struct cgroup_tree *t, int which, uint32_t index)
{
    char name[16];
    (void)snprintf(name, sizeof name, "%u", index);
    return mkdirat(t->dirs[which], name, 0755) < 0 && errno != EEXIST ? -errno : 0;
}

/* A limit that is taken away again needs a new group: 0 is not "none" there. */
static bool can_stay(const struct cgroup_limits *has, const struct cgroup_limits *l)
{
    return has->memory == l->memory && has->processes == l->processes;
}

static int prepare(struct cgroup_tree *t, uint32_t index, const struct cgroup_limits *l)
{
    static const struct cgroup_limits none = {0, 0};
    const struct cgroup_limits *has = index < t->slot_count ? &t->slots[index] : &none;
    if (!can_stay(has, &none) && can_stay(has, l)) {
        return 0;
    }
    char name[16];
    (void)snprintf(name, sizeof name, "%u", index);
    int code = 0;
    for (int i = 0; i < 2 && code == 0; i++) {
        if (t->dirs[i] >= 0) {
            (void)unlinkat(t->dirs[i], name, AT_REMOVEDIR);
            code = make_group(t, i, index);
            code = code == 0 ? set_limits(t, i, index, l) : code;
        }
    }
    if (code == 0 && index >= t->slot_count) {
        t->slots = xrealloc(t->slots, (index + 1) * sizeof *t->slots);
        memset(t->slots + t->slot_count, 0, (index + 1 - t->slot_count) * sizeof *t->slots);
        t->slot_count = index + 1;
    }
    if (code == 0) {
        t->slots[index] = *l;
    }
    return code;
}

int cgroup_take(struct cgroup_tree *t, uint32_t index, const struct cgroup_limits *l, struct orch_err *err)
{
    int code = open_all(t);
    if (code == -EBUSY || code == -EACCES || code == -EPERM || code == -EROFS) {
        give_up(t, code); /* not delegated after all */
        code = 0;
    }
    code = code == 0 ? prepare(t, index, l) : code;
    return code < 0 ? err_set(err, ORCH_E_UNAVAILABLE, "make a control group: %s", strerrordesc_np(-code)) : 0;
}

int cgroup_put(struct cgroup_tree *t, uint32_t index, pid_t pid, struct orch_err *err)
{
    for (int i = 0; i < 2; i++) {
        AUTO_FD int dir = group_dir(t, i, index);
        int code = dir < 0 ? 0 : write_number(dir, "cgroup.procs", (uint64_t)pid);
        if (code < 0) {
            return err_set(err, ORCH_E_UNAVAILABLE, "put the sandbox into its control group: %s",
                           strerrordesc_np(-code));
        }
    }
    return 0;
}

struct cgroup_events cgroup_read(struct cgroup_tree *t, uint32_t index)
{
    struct cgroup_events e = {0};
    AUTO_FD int memory = group_dir(t, MEMORY, index);
    AUTO_FD int pids = t->version == 2 ? -1 : group_dir(t, PIDS, index);
    if (memory >= 0) {
        e.oom_kills = read_number(memory, t->version == 2 ? "memory.events" : "memory.oom_control", "oom_kill");
    }
    int holder = pids >= 0 ? pids : memory;
    e.refused_forks = holder < 0 ? 0 : read_number(holder, "pids.events", "max");
    return e;
}
