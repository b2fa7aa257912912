/* SPDX-License-Identifier: Apache-2.0 */
#include "state/lock.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "state/durable.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LOCK_FILE "lock"
#define LOCK_FILE_MAX 4096

struct run_lock {
    int fd;
};

static void read_boot_id(char out[64])
{
    struct orch_err ignored = ERR_INIT;
    AUTO_FREE char *text = NULL;
    size_t len = 0;

    out[0] = '\0';
    AUTO_FD int fd = fd_open("/proc/sys/kernel/random/boot_id", O_RDONLY, 0, &ignored);
    if (fd >= 0 && fd_read_all(fd, 63, &text, &len, &ignored) == 0) {
        snprintf(out, 64, "%.*s", (int)strcspn(text, "\n"), text);
    }
}

/* Field 22 of /proc/<pid>/stat; the command may hold anything, so count from its last ')'. -1: no such process. */
static int64_t start_time(pid_t pid)
{
    struct orch_err ignored = ERR_INIT;
    char path[64];
    AUTO_FREE char *text = NULL;
    size_t len = 0;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    AUTO_FD int fd = fd_open(path, O_RDONLY, 0, &ignored);
    if (fd < 0 || fd_read_all(fd, LOCK_FILE_MAX, &text, &len, &ignored) < 0) {
        return -1;
    }
    char *p = strrchr(text, ')');
    for (int field = 2; p && field < 22; field++) {
        p = strchr(p + 1, ' ');
    }
    return p ? strtoll(p + 1, NULL, 10) : -1;
}

static void read_owner(int fd, struct lock_owner *ret)
{
    struct orch_err ignored = ERR_INIT;
    AUTO_FREE char *text = xcalloc(1, LOCK_FILE_MAX);
    AUTO_JSON json_t *doc = NULL;
    char boot[64];
    char host[LOCK_HOST_MAX] = "";

    ssize_t n = pread(fd, text, LOCK_FILE_MAX - 1, 0);
    if (n <= 0 || json_parse(text, (size_t)n, LOCK_FILE_MAX, &doc, &ignored) < 0) {
        return; /* written a moment later, or by nobody */
    }
    ret->pid = (pid_t)json_get_int(doc, "pid", 0);
    ret->start = json_get_int(doc, "start", 0);
    snprintf(ret->host, sizeof ret->host, "%s", json_get_str(doc, "host", ""));
    snprintf(ret->boot_id, sizeof ret->boot_id, "%s", json_get_str(doc, "boot_id", ""));
    (void)gethostname(host, sizeof host - 1);
    read_boot_id(boot);
    ret->alive = ret->pid > 0 && strcmp(host, ret->host) == 0 && strcmp(boot, ret->boot_id) == 0 &&
                 start_time(ret->pid) == ret->start;
}

static int write_owner(int fd, struct orch_err *err)
{
    AUTO_JSON json_t *doc = json_object();
    char boot[64];
    char host[LOCK_HOST_MAX] = "";

    (void)gethostname(host, sizeof host - 1);
    read_boot_id(boot);
    json_set_int(doc, "pid", getpid());
    json_set_int(doc, "start", start_time(getpid()));
    json_set_str(doc, "host", host);
    json_set_str(doc, "boot_id", boot);
    AUTO_FREE char *text = json_pretty(doc);
    /* Padded and not truncated first: a reader never sees half of it followed by the old rest. */
    char line[LOCK_FILE_MAX / 4];
    if (snprintf(line, sizeof line, "%-*s", (int)sizeof line - 1, text) != (int)sizeof line - 1) {
        return err_set(err, ORCH_E_INTERNAL, "lock owner is too long");
    }
    line[sizeof line - 1] = '\n';
    if (pwrite(fd, line, sizeof line, 0) != (ssize_t)sizeof line) {
        return err_errno(err, ORCH_E_IO, "write the lock's owner");
    }
    return 0;
}

static int owned_error(int fd, struct orch_err *err)
{
    struct lock_owner owner = {0};
    read_owner(fd, &owner);
    if (owner.pid <= 0) {
        return err_set(err, ORCH_E_OWNED, "the run is owned by another process");
    }
    return err_set(err, ORCH_E_OWNED, "the run is owned by process %d on %s", (int)owner.pid, owner.host);
}

int lock_take(const char *run_dir, struct run_lock **ret, struct orch_err *err)
{
    AUTO_FREE char *path = path_join(run_dir, LOCK_FILE);
    AUTO_FD int fd = fd_open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600, err);
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    if (fd < 0) {
        return fd;
    }
    if (fcntl(fd, F_OFD_SETLK, &whole) < 0) {
        return errno == EAGAIN || errno == EACCES ? owned_error(fd, err) : err_errno(err, ORCH_E_IO, "lock %s", path);
    }
    TRY(fault_point(FAULT_LOCK_TAKEN, err));
    TRY(write_owner(fd, err));
    struct run_lock *lock = xcalloc(1, sizeof *lock);
    lock->fd = fd;
    fd = -1;
    *ret = lock;
    return 0;
}

void lock_drop(struct run_lock *lock)
{
    if (lock) {
        fd_close(&lock->fd);
        free(lock);
    }
}

void lock_release(struct run_lock **lock)
{
    lock_drop(*lock);
    *lock = NULL;
}

int lock_look(const char *run_dir, struct lock_owner *ret, struct orch_err *err)
{
    AUTO_FREE char *path = path_join(run_dir, LOCK_FILE);
    AUTO_FD int fd = fd_open(path, O_RDONLY | O_NOFOLLOW, 0, err);
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct lock_owner owner = {0};

    if (fd == ORCH_E_NOT_FOUND) {
        err_clear(err);
        *ret = owner;
        return 0;
    }
    if (fd < 0) {
        return fd;
    }
    if (fcntl(fd, F_OFD_GETLK, &whole) < 0) {
        return err_errno(err, ORCH_E_IO, "look at lock %s", path);
    }
    read_owner(fd, &owner);
    owner.held = whole.l_type != F_UNLCK;
    *ret = owner;
    return 0;
}
