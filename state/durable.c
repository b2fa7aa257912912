/* SPDX-License-Identifier: Apache-2.0 */
#include "state/durable.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/rng.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum fault_action { FAULT_KILL, FAULT_ENOSPC, FAULT_EIO, FAULT_SHORT, FAULT_ACTION_COUNT };

static const char *const action_names[FAULT_ACTION_COUNT] = {
    [FAULT_KILL] = "kill", [FAULT_ENOSPC] = "enospc", [FAULT_EIO] = "eio", [FAULT_SHORT] = "short"};

static const char *const fault_names[FAULT_COUNT] = {
#define X(id, name) [FAULT_##id] = (name),
    FAULT_TABLE(X)
#undef X
};

#define FAULT_RULES_MAX 16

struct fault_rule {
    enum fault_name point;
    long nth;
    enum fault_action action;
    atomic_long *seen; /* behind a pointer: the plan itself stays const */
};

struct fault_plan {
    size_t count;
    struct fault_rule rules[FAULT_RULES_MAX];
};

/* Set once before threads start; a constant of the process from then on (durable.h). */
static const struct fault_plan *_Atomic installed;

static int find_name(const char *const *names, int count, const char *text, size_t len)
{
    for (int i = 0; i < count; i++) {
        if (strlen(names[i]) == len && memcmp(names[i], text, len) == 0) {
            return i;
        }
    }
    return -1;
}

static int parse_rule(const char *text, size_t len, struct fault_rule *ret, struct orch_err *err)
{
    const char *colon = memchr(text, ':', len);
    const char *second = colon ? memchr(colon + 1, ':', len - (size_t)(colon + 1 - text)) : NULL;
    if (!second) {
        return err_set(err, ORCH_E_USAGE, "fault plan: \"%.*s\" is not name:nth:action", (int)len, text);
    }
    int point = find_name(fault_names, FAULT_COUNT, text, (size_t)(colon - text));
    int action = find_name(action_names, FAULT_ACTION_COUNT, second + 1, len - (size_t)(second + 1 - text));
    char *end = NULL;
    errno = 0;
    long nth = strtol(colon + 1, &end, 10);
    if (point < 0 || action < 0 || errno || end != second || nth < 1) {
        return err_set(err, ORCH_E_USAGE, "fault plan: unknown %s in \"%.*s\"",
                       point < 0    ? "fault point"
                       : action < 0 ? "action"
                                    : "number",
                       (int)len, text);
    }
    *ret = (struct fault_rule){.point = (enum fault_name)point, .nth = nth, .action = (enum fault_action)action};
    return 0;
}

int fault_plan_parse(const char *text, struct fault_plan **ret, struct orch_err *err)
{
    struct fault_plan *plan = xcalloc(1, sizeof *plan);
    for (const char *p = text; *p;) {
        size_t len = strcspn(p, ",");
        int r = plan->count == FAULT_RULES_MAX
                    ? err_set(err, ORCH_E_USAGE, "fault plan: more than %d rules", FAULT_RULES_MAX)
                    : parse_rule(p, len, &plan->rules[plan->count], err);
        if (r < 0) {
            fault_plan_free(plan);
            return r;
        }
        plan->rules[plan->count++].seen = xcalloc(1, sizeof(atomic_long));
        p += len;
        p += *p == ',';
    }
    *ret = plan;
    return 0;
}

void fault_plan_free(struct fault_plan *plan)
{
    for (size_t i = 0; plan && i < plan->count; i++) {
        free(plan->rules[i].seen);
    }
    free(plan);
}

void fault_install(const struct fault_plan *plan)
{
    atomic_store(&installed, plan);
}

const char *fault_text(enum fault_name point)
{
    return fault_names[point];
}

/* The action due now at `point`, or FAULT_ACTION_COUNT. */
static enum fault_action fault_due(enum fault_name point)
{
    const struct fault_plan *plan = atomic_load_explicit(&installed, memory_order_acquire);
    for (size_t i = 0; plan && i < plan->count; i++) {
        const struct fault_rule *rule = &plan->rules[i];
        if (rule->point == point && atomic_fetch_add(rule->seen, 1) + 1 == rule->nth) {
            return rule->action;
        }
    }
    return FAULT_ACTION_COUNT;
}

static int fault_act(enum fault_name point, enum fault_action action, struct orch_err *err)
{
    switch (action) {
    case FAULT_KILL:
        (void)kill(getpid(), SIGKILL);
        for (;;) {
            pause(); /* the signal is on its way: nothing after this point may happen */
        }
    case FAULT_ENOSPC:
        errno = ENOSPC;
        return err_errno(err, ORCH_E_NO_SPACE, "%s", fault_names[point]);
    case FAULT_EIO:
        errno = EIO;
        return err_errno(err, ORCH_E_IO, "%s", fault_names[point]);
    case FAULT_SHORT:
    case FAULT_ACTION_COUNT:
        break;
    }
    return 0;
}

int fault_point(enum fault_name point, struct orch_err *err)
{
    return fault_act(point, fault_due(point), err);
}

int durable_sync_dir(int dirfd, struct orch_err *err)
{
    TRY(fault_point(FAULT_DURABLE_WRITE_DIRSYNC, err));
    if (fsync(dirfd) < 0) {
        return err_errno(err, ORCH_E_IO, "fsync of a directory");
    }
    return 0;
}

int durable_mkdir(int dirfd, const char *name, mode_t mode, bool exclusive, struct orch_err *err)
{
    TRY(fault_point(FAULT_DURABLE_MKDIR, err));
    if (mkdirat(dirfd, name, mode) < 0) {
        struct stat st;
        if (errno != EEXIST || exclusive) {
            return err_errno(err, errno == EEXIST ? ORCH_E_FAILED : ORCH_E_IO, "mkdir %s", name);
        }
        if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode)) {
            return err_set(err, ORCH_E_FAILED, "%s is in the way of a directory", name);
        }
    }
    return durable_sync_dir(dirfd, err);
}

int durable_temp_open(int dirfd, mode_t mode, struct durable_temp *ret, struct orch_err *err)
{
    struct durable_temp t = {.fd = -1, .dirfd = dirfd};
    char random[13];

    TRY(fault_point(FAULT_DURABLE_WRITE_OPEN, err));
    random_name(random, 12);
    snprintf(t.name, sizeof t.name, ".tmp-%s", random);
    t.fd = openat(dirfd, t.name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (t.fd < 0) {
        return err_errno(err, ORCH_E_IO, "make a temporary file");
    }
    if (fchmod(t.fd, mode) < 0) { /* whatever the umask says */
        err_errno(err, ORCH_E_IO, "chmod of a temporary file");
        durable_temp_drop(&t);
        return err->code;
    }
    *ret = t;
    return 0;
}

int durable_temp_write(struct durable_temp *t, const void *data, size_t len, struct orch_err *err)
{
    const char *p = data;
    enum fault_action action = fault_due(FAULT_DURABLE_WRITE_DATA);
    size_t first = len;

    if (action == FAULT_SHORT) {
        first = len > 1 ? len / 2 : len;
    } else if (action != FAULT_ACTION_COUNT) {
        size_t half = len / 2; /* what a full disk or a kill leaves is a part */
        if (half) {
            TRY(fd_write_all(t->fd, p, half, err));
        }
        return fault_act(FAULT_DURABLE_WRITE_DATA, action, err);
    }
    TRY(fd_write_all(t->fd, p, first, err));
    if (first < len) {
        TRY(fd_write_all(t->fd, p + first, len - first, err));
    }
    return 0;
}

static int temp_commit(struct durable_temp *t, int to_dirfd, const char *name, struct orch_err *err)
{
    TRY(fault_point(FAULT_DURABLE_WRITE_SYNC, err));
    if (fsync(t->fd) < 0) {
        return err_errno(err, ORCH_E_IO, "fsync %s", name);
    }
    TRY(fault_point(FAULT_DURABLE_WRITE_RENAME, err));
    if (renameat(t->dirfd, t->name, to_dirfd, name) < 0) {
        return err_errno(err, ORCH_E_IO, "rename to %s", name);
    }
    t->name[0] = '\0';
    return durable_sync_dir(to_dirfd, err);
}

int durable_temp_commit(struct durable_temp *t, int to_dirfd, const char *name, struct orch_err *err)
{
    int r = temp_commit(t, to_dirfd, name, err);
    durable_temp_drop(t);
    return r;
}

void durable_temp_drop(struct durable_temp *t)
{
    if (t->fd >= 0 && t->name[0]) {
        (void)unlinkat(t->dirfd, t->name, 0);
    }
    fd_close(&t->fd);
    t->name[0] = '\0';
}

int durable_write_file(int dirfd, const char *name, const void *data, size_t len, mode_t mode, struct orch_err *err)
{
    struct durable_temp t = {.fd = -1, .dirfd = dirfd};

    TRY(durable_temp_open(dirfd, mode, &t, err));
    int r = durable_temp_write(&t, data, len, err);
    if (r == 0) {
        r = durable_temp_commit(&t, dirfd, name, err);
    } else {
        durable_temp_drop(&t);
    }
    return r < 0 ? err_wrap(err, "write %s", name) : 0;
}

int durable_write_path(const char *path, const void *data, size_t len, mode_t mode, struct orch_err *err)
{
    AUTO_FREE char *dir = path_dir(path);
    AUTO_FD int dirfd = fd_open(dir, O_RDONLY | O_DIRECTORY, 0, err);

    if (dirfd < 0) {
        return dirfd;
    }
    return durable_write_file(dirfd, path_base(path), data, len, mode, err);
}
