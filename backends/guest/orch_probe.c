/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/guest/probe.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TEXT, NUMBER, LONG_NUMBER, ACT_SECONDS = 10 };

static const struct {
    const char *name;
    int needs;
    int (*act)(const struct fixture *f);
} acts[] = {
#define X(name, group, kind, expected, other, needs, what) {#name, needs, probe_##name},
    PROBE_TABLE(X)
#undef X
};

#define TEXT_FIELD(field)                                                                                              \
    {                                                                                                                  \
#field, offsetof(struct fixture, field), sizeof(((struct fixture *)0)->field), TEXT                            \
    }
#define INT_FIELD(field)                                                                                               \
    {                                                                                                                  \
#field, offsetof(struct fixture, field), sizeof(int), NUMBER                                                   \
    }
#define LONG_FIELD(field)                                                                                              \
    {                                                                                                                  \
#field, offsetof(struct fixture, field), sizeof(int64_t), LONG_NUMBER                                          \
    }

static const struct {
    const char *name;
    size_t at, size;
    int kind;
} fields[] = {
    TEXT_FIELD(granted),     TEXT_FIELD(readable),   TEXT_FIELD(output),     TEXT_FIELD(secret),
    TEXT_FIELD(marker_home), TEXT_FIELD(marker_tmp), TEXT_FIELD(marker_shm), TEXT_FIELD(socket),
    TEXT_FIELD(abstract),    TEXT_FIELD(queue),      TEXT_FIELD(key),        TEXT_FIELD(variable),
    INT_FIELD(process),      INT_FIELD(port),        INT_FIELD(port6),       INT_FIELD(shared),
    INT_FIELD(descriptor),   LONG_FIELD(processes),  LONG_FIELD(memory),     LONG_FIELD(file),
    LONG_FIELD(tmp),         LONG_FIELD(nofile),
};

char *probe_path(char *to, const char *dir, const char *name)
{
    (void)snprintf(to, FIXTURE_PATH_MAX + 64, "%s/%s", dir, name);
    return to;
}

int probe_result(long result)
{
    return result < 0 ? errno : 0;
}

int probe_open(const char *path, int flags, mode_t mode)
{
    int fd = open(path, flags | O_CLOEXEC, mode);
    int code = probe_result(fd);
    if (fd >= 0) {
        (void)close(fd);
    }
    return code;
}

/* ---- fixture ---- */

static void set(struct fixture *f, const char *name, const char *value)
{
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        char *to = (char *)f + fields[i].at;
        if (strcmp(fields[i].name, name) != 0) {
            continue;
        }
        if (fields[i].kind == TEXT) {
            (void)snprintf(to, fields[i].size, "%s", value);
        } else if (fields[i].kind == NUMBER) {
            int n = (int)strtol(value, NULL, 10);
            memcpy(to, &n, sizeof n);
        } else {
            int64_t n = strtoll(value, NULL, 10);
            memcpy(to, &n, sizeof n);
        }
    }
}

static int read_fixture(const char *path, struct fixture *f)
{
    FILE *file = fopen(path, "re");
    char line[FIXTURE_PATH_MAX + 128];
    if (file == NULL) {
        return -1;
    }
    while (fgets(line, sizeof line, file) != NULL) {
        char *equals = strchr(line, '=');
        if (equals != NULL) {
            *equals = '\0';
            equals[1 + strcspn(equals + 1, "\n")] = '\0';
            set(f, line, equals + 1);
        }
    }
    (void)fclose(file);
    return 0;
}

/* ---- the control outside ---- */

static int put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));
    if (fd >= 0) {
        (void)close(fd);
    }
    return n < 0 ? -1 : 0;
}

/* Namespaces of its own for one act: what it mounts is nobody else's. An ordinary user needs a user namespace for that,
 * and takes one only where the act needs it: from there another process of that user may not be traced. */
static int step_aside(int needs)
{
    char map[48];
    int flags = CLONE_NEWNS | CLONE_NEWUTS | (geteuid() != 0 ? CLONE_NEWUSER : 0);
    if (geteuid() != 0 && (needs & R_OR_USERNS) == 0) {
        return 0;
    }
    uid_t uid = getuid();
    gid_t gid = getgid();
    if (unshare(flags) < 0) {
        return -1;
    }
    if ((flags & CLONE_NEWUSER) != 0) {
        (void)snprintf(map, sizeof map, "%u %u 1", uid, uid);
        if (put("/proc/self/setgroups", "deny") < 0 || put("/proc/self/uid_map", map) < 0) {
            return -1;
        }
        (void)snprintf(map, sizeof map, "%u %u 1", gid, gid);
        if (put("/proc/self/gid_map", map) < 0) {
            return -1;
        }
    }
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

/* ---- acts ---- */

static int errno_of(int status)
{
    if (WIFEXITED(status)) {
        return WEXITSTATUS(status);
    }
    int sig = WTERMSIG(status);
    return sig == SIGKILL ? ENOMEM : sig == SIGXFSZ ? EFBIG : EINTR;
}

static int try_act(size_t i, const struct fixture *f)
{
    pid_t pid = fork();
    if (pid < 0) {
        return errno;
    }
    if (pid == 0) {
        (void)alarm(ACT_SECONDS);
        if (!f->inside && step_aside(acts[i].needs) < 0) {
            _exit(EIO);
        }
        _exit(acts[i].act(f) & 0xff);
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return errno_of(status);
}

int main(int argc, char **argv)
{
    struct fixture f = {.inside = 0};
    int inside = argc == 3 && strcmp(argv[1], "inside") == 0;
    if (argc != 3 || (!inside && strcmp(argv[1], "outside") != 0) || read_fixture(argv[2], &f) < 0) {
        (void)fprintf(stderr, "usage: orch-probe inside|outside FIXTURE\n");
        return 2;
    }
    f.inside = inside;
    for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++) {
        (void)printf("%s %d\n", acts[i].name, try_act(i, &f));
        (void)fflush(stdout); /* a child would print it again */
    }
    return 0;
}
