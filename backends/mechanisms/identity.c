/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/mechanisms/identity.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

struct slot {
    uint32_t id;
    int userns;
    int claim; /* holds the id among all nodes of this machine */
    bool busy;
    uint32_t owners; /* how many of the pool's its namespace knows */
};

struct identity_pool {
    bool named, plain;
    uint32_t first, count;
    uint32_t next; /* id to try */
    struct slot *slots;
    uint32_t slot_count;
    struct {
        uid_t uid;
        gid_t gid;
    } owners[IDENTITY_OWNERS_MAX];
    uint32_t owner_count;
};

int identity_pool_new(uint32_t first, uint32_t count, struct identity_pool **ret, struct orch_err *err)
{
    bool named = geteuid() == 0;
    if (named && (first < 1000 || count == 0 || count > 1u << 24 || first > UINT32_MAX - 1 - count)) {
        return err_set(err, ORCH_E_CONFIG, "uids %u, %u of them: not a range for sandboxes", first, count);
    }
    struct identity_pool *p = xcalloc(1, sizeof *p);
    *p = (struct identity_pool){.named = named, .first = first, .count = count};
    *ret = p;
    return 0;
}

void identity_pool_free(struct identity_pool *p)
{
    if (p == NULL) {
        return;
    }
    for (uint32_t i = 0; i < p->slot_count; i++) {
        fd_close(&p->slots[i].userns);
        fd_close(&p->slots[i].claim);
    }
    free(p->slots);
    free(p);
}

void identity_pool_plain(struct identity_pool *p)
{
    p->plain = true;
}

bool identity_pool_named(const struct identity_pool *p)
{
    return p->named;
}

uint32_t identity_pool_slots(const struct identity_pool *p)
{
    return p->slot_count;
}

static int add_owner(struct identity_pool *p, const struct stat *st, struct orch_err *err)
{
    for (uint32_t i = 0; i < p->owner_count; i++) {
        if (p->owners[i].uid == st->st_uid && p->owners[i].gid == st->st_gid) {
            return 0;
        }
    }
    if ((st->st_uid == 0 && st->st_gid == 0) || p->owner_count == IDENTITY_OWNERS_MAX) {
        return p->owner_count < IDENTITY_OWNERS_MAX || st->st_uid == 0
                   ? 0
                   : err_set(err, ORCH_E_LIMIT, "what is granted lies below directories of too many owners");
    }
    p->owners[p->owner_count].uid = st->st_uid;
    p->owners[p->owner_count].gid = st->st_gid;
    p->owner_count++;
    return 0;
}

int identity_pool_pass(struct identity_pool *p, const char *path, struct orch_err *err)
{
    AUTO_FREE char *at = xstrdup(path);
    while (p->named) {
        struct stat st;
        if (stat(at, &st) < 0) {
            return err_errno(err, errno == ENOENT ? ORCH_E_NOT_FOUND : ORCH_E_IO, "%s", at);
        }
        TRY(add_owner(p, &st, err));
        if (strcmp(at, "/") == 0) {
            break;
        }
        char *parent = path_dir(at);
        free(at);
        at = parent;
    }
    return 0;
}

/* Claims an id with an abstract socket: the kernel drops it when the node dies, and no sandbox can reach it. */
static int claim_id(uint32_t id)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int n = snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "orch-uid-%u", id);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 &&
        bind(fd, (struct sockaddr *)&a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) < 0) {
        int sys = errno;
        (void)close(fd);
        errno = sys;
        return -1;
    }
    return fd;
}

/* ---- the namespace of a slot ---- */

static void holder(int ready, pid_t parent) __attribute__((noreturn));
static void holder(int ready, pid_t parent)
{
    /* a node that is killed takes its holders with it */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent) {
        _exit(1);
    }
    /* beside the node, which writes the maps: what counts here is the capability in the namespace, not the id */
    int fd = open("/proc/sys/user/max_user_namespaces", O_WRONLY | O_CLOEXEC);
    char step = fd >= 0 && write(fd, "0", 1) == 1 ? 1 : 0;
    if (write(ready, &step, 1) != 1) {
        _exit(1);
    }
    for (;;) {
        (void)pause(); /* killed when the namespace is held by a descriptor */
    }
}

/* One line an id: 0, the slot's own, and each owner once. */
static void map_text(const struct identity_pool *p, bool groups, uint32_t id, struct buf *out)
{
    buf_fmt(out, "0 0 1\n%u %u 1\n", id, id);
    for (uint32_t i = 0; i < p->owner_count; i++) {
        uint32_t owner = groups ? p->owners[i].gid : p->owners[i].uid;
        bool known = owner == 0 || owner == id;
        for (uint32_t k = 0; k < i; k++) {
            known = known || owner == (groups ? p->owners[k].gid : p->owners[k].uid);
        }
        if (!known) {
            buf_fmt(out, "%u %u 1\n", owner, owner);
        }
    }
}

static int write_map(const struct identity_pool *p, pid_t pid, bool groups, uint32_t id, struct orch_err *err)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, groups ? "gid_map" : "uid_map");
    AUTO_BUF struct buf map;
    buf_init(&map, BUF_MAX_LINE);
    map_text(p, groups, id, &map);
    AUTO_FD int fd = fd_open(path, O_WRONLY, 0, err);
    return fd < 0 ? fd : fd_write_all(fd, map.data, map.len, err); /* one write(2): the kernel takes the map whole */
}

static int expect_step(int ready, const char *what, struct orch_err *err)
{
    char step = 0;
    ssize_t n;
    do {
        n = read(ready, &step, 1);
    } while (n < 0 && errno == EINTR);
    return n == 1 && step == 1 ? 0 : err_set(err, ORCH_E_UNAVAILABLE, "a user namespace: %s failed", what);
}

static int build_namespace(const struct identity_pool *p, pid_t pid, int ready, uint32_t id, struct orch_err *err)
{
    TRY(write_map(p, pid, false, id, err));
    TRY(write_map(p, pid, true, id, err));
    TRY(expect_step(ready, "forbidding further namespaces", err));
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
    return fd_open(path, O_RDONLY, 0, err);
}

/* *ret is -1 in a plain pool. */
static int make_namespace(const struct identity_pool *p, uint32_t id, int *ret, struct orch_err *err)
{
    *ret = -1;
    if (p->plain) {
        return 0;
    }
    int pipe_fds[2];
    if (pipe2(pipe_fds, O_CLOEXEC) < 0) {
        return err_errno(err, ORCH_E_IO, "pipe");
    }
    AUTO_FD int ready = pipe_fds[0];
    AUTO_FD int ready_child = pipe_fds[1];
    pid_t self = getpid();
    /* as fork(2), which takes no flags: the namespace is there at once, nobody waits for the child to make it */
    pid_t pid = (pid_t)syscall(SYS_clone, (unsigned long)CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, 0UL);
    if (pid == 0) {
        (void)close(ready);
        holder(ready_child, self);
    }
    if (pid < 0) {
        return err_errno(err, ORCH_E_UNAVAILABLE, "make a user namespace");
    }
    fd_close(&ready_child);
    *ret = build_namespace(p, pid, ready, id, err);
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    return *ret < 0 ? *ret : 0;
}

static int make_slot(struct identity_pool *p, struct orch_err *err)
{
    AUTO_FD int claim = -1;
    uint32_t id = 0;
    while (claim < 0 && p->next < p->count) {
        id = p->first + p->next++;
        claim = claim_id(id);
        if (claim < 0 && errno != EADDRINUSE) {
            return err_errno(err, ORCH_E_IO, "claim uid %u", id);
        }
    }
    if (claim < 0) {
        return err_set(err, ORCH_E_UNAVAILABLE, "all %u uids for sandboxes are in use", p->count);
    }
    int userns = -1;
    if (make_namespace(p, id, &userns, err) < 0) {
        return err_wrap(err, "identity %u", id);
    }
    p->slots = xrealloc(p->slots, (p->slot_count + 1) * sizeof *p->slots);
    p->slots[p->slot_count++] = (struct slot){.id = id, .userns = userns, .claim = claim, .owners = p->owner_count};
    claim = -1;
    return 0;
}

int identity_acquire(struct identity_pool *p, struct identity *ret, struct orch_err *err)
{
    if (!p->named) {
        *ret = (struct identity){.uid = geteuid(), .gid = getegid(), .userns = -1};
        return 0;
    }
    uint32_t i = 0;
    while (i < p->slot_count && p->slots[i].busy) {
        i++;
    }
    if (i == p->slot_count) {
        TRY(make_slot(p, err));
    }
    if (p->slots[i].owners != p->owner_count) { /* its namespace is older than an owner that matters now */
        int userns = -1;
        if (make_namespace(p, p->slots[i].id, &userns, err) < 0) {
            return err_wrap(err, "identity %u", p->slots[i].id);
        }
        fd_close(&p->slots[i].userns);
        p->slots[i].userns = userns;
        p->slots[i].owners = p->owner_count;
    }
    p->slots[i].busy = true;
    *ret = (struct identity){.uid = p->slots[i].id, .gid = p->slots[i].id, .userns = p->slots[i].userns, .index = i};
    return 0;
}

void identity_release(struct identity_pool *p, const struct identity *id)
{
    if (p->named && id->index < p->slot_count) {
        p->slots[id->index].busy = false;
    }
}
