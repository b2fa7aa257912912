/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/sandbox_fixture.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIXTURE_VARIABLE "ORCH_TEST_UNDECLARED"
#define FIXTURE_KEY "orch-test-key"
#define FIXTURE_DESCRIPTOR 77

enum { LIMIT_PROCESSES = 64, LIMIT_NOFILE = 256 };
#define PROGRAM_MAX ((size_t)64 << 20)
#define LIMIT_MEMORY ((uint64_t)64 << 20)
#define LIMIT_FILE ((uint64_t)16 << 20)
#define LIMIT_TMP ((uint64_t)8 << 20)

enum { LOOPBACK, LOOPBACK_6, ABSTRACT, PATH };

/* ---- files ---- */

static int put_file(const struct sandbox_fixture *f, const char *name, const char *text, mode_t mode,
                    struct orch_err *err)
{
    AUTO_FREE char *path = path_join(f->dir, name);
    AUTO_FD int fd = fd_open(path, O_WRONLY | O_CREAT | O_EXCL, 0600, err);
    TRY(fd);
    TRY(fd_write_all(fd, text, strlen(text), err));
    return fchmod(fd, mode) < 0 ? err_errno(err, ORCH_E_IO, "%s", path) : 0;
}

static const char *parent_of(const struct sandbox_fixture *f)
{
    const char *tmp = getenv("TMPDIR"); /* NOLINT(concurrency-mt-unsafe): before any thread */
    tmp = tmp != NULL && tmp[0] == '/' ? tmp : "/tmp";
    return f->in_place && (path_is_beneath(tmp, "/tmp") || path_is_beneath(tmp, "/dev/shm")) ? "/var/tmp" : tmp;
}

static int make_files(struct sandbox_fixture *f, struct orch_err *err)
{
    static const char *const dirs[] = {"granted", "granted/sub", "readable", "output", "secret"};
    f->dir = xasprintf("%s/orch-test-XXXXXX", parent_of(f));
    if (mkdtemp(f->dir) == NULL || chmod(f->dir, 0755) < 0) {
        return err_errno(err, ORCH_E_IO, "make %s", f->dir);
    }
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        AUTO_FREE char *path = path_join(f->dir, dirs[i]);
        if (mkdir(path, 0755) < 0) {
            return err_errno(err, ORCH_E_IO, "make %s", path);
        }
    }
    TRY(put_file(f, "granted/sub/hidden", "hidden\n", 0644, err));
    TRY(put_file(f, "readable/public", "public\n", 0644, err));
    if (geteuid() == 0) {
        TRY(put_file(f, "readable/root-only", "root's\n", 0600, err));
    }
    return put_file(f, "secret/file", "secret\n", 0644, err);
}

/* A file beside the caller's own in a directory that every sandbox has one of. */
static char *make_marker(const char *dir)
{
    AUTO_FREE char *path = xasprintf("%s/.orch-marker-XXXXXX", dir);
    int fd = mkstemp(path);
    if (fd < 0) {
        return xstrdup("");
    }
    fd_close(&fd);
    return take(path);
}

/* ---- a process, listeners, objects ---- */

static int make_process(struct sandbox_fixture *f, struct orch_err *err)
{
    f->process = fork();
    if (f->process == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            (void)pause();
        }
    }
    return f->process < 0 ? err_errno(err, ORCH_E_IO, "fork") : 0;
}

static int listening(int family, const void *address, socklen_t len)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && (bind(fd, address, len) < 0 || listen(fd, 16) < 0)) {
        fd_close(&fd);
    }
    return fd;
}

/* The port stands at the same place in both families. */
static int port_of(int fd)
{
    struct sockaddr_in6 a = {.sin6_port = 0};
    socklen_t len = sizeof a;
    return fd >= 0 && getsockname(fd, (struct sockaddr *)&a, &len) == 0 ? ntohs(a.sin6_port) : 0;
}

static void make_sockets(struct sandbox_fixture *f)
{
    const struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    AUTO_FREE char *path = path_join(f->dir, "secret/socket");
    f->sockets[LOOPBACK] = listening(AF_INET, &four, sizeof four);
    f->sockets[LOOPBACK_6] = listening(AF_INET6, &six, sizeof six);
    memcpy(name.sun_path + 1, f->dir, strnlen(f->dir, sizeof name.sun_path - 2));
    f->sockets[ABSTRACT] =
        listening(AF_UNIX, &name, (socklen_t)(sizeof name.sun_family + 1 + strlen(name.sun_path + 1)));
    name = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(name.sun_path, path, strnlen(path, sizeof name.sun_path - 1));
    f->sockets[PATH] = listening(AF_UNIX, &name, sizeof name);
}

static void make_objects(struct sandbox_fixture *f)
{
    f->shared = shmget(IPC_PRIVATE, 4096, 0600);
    AUTO_FREE char *queue = xasprintf("orch-test-%d", (int)getpid());
    long mq = syscall(SYS_mq_open, queue, O_RDWR | O_CREAT | O_EXCL, 0600, NULL);
    if (mq >= 0) {
        (void)close((int)mq);
    }
    (void)syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
    (void)syscall(SYS_add_key, "user", FIXTURE_KEY, "x", 1UL, KEY_SPEC_SESSION_KEYRING);
}

/* What a careless caller would pass on. */
static int be_careless(struct sandbox_fixture *f, struct orch_err *err)
{
    AUTO_FREE char *path = path_join(f->dir, "secret/file");
    AUTO_FD int fd = fd_open(path, O_RDONLY, 0, err);
    TRY(fd);
    f->descriptor = dup2(fd, FIXTURE_DESCRIPTOR);
    (void)umask(0);
    (void)signal(SIGUSR1, SIG_IGN);
    if (f->descriptor < 0 || setenv(FIXTURE_VARIABLE, "undeclared", 1) < 0) { // NOLINT(concurrency-mt-unsafe)
        return err_errno(err, ORCH_E_IO, "prepare the self-test");
    }
    return 0;
}

/* ---- the file ---- */

static int write_file(struct sandbox_fixture *f, struct orch_err *err)
{
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_TEXT);
    buf_fmt(&b, "granted=%s/granted\nreadable=%s/readable\noutput=%s/output\n", f->dir, f->dir, f->dir);
    buf_fmt(&b, "secret=%s/secret/file\nsocket=%s/secret/socket\nabstract=%s\n", f->dir, f->dir, f->dir);
    buf_fmt(&b, "marker_home=%s\nmarker_tmp=%s\nmarker_shm=%s\n", f->marker_home, f->marker_tmp, f->marker_shm);
    buf_fmt(&b, "queue=orch-test-%d\nkey=%s\nvariable=%s\n", (int)getpid(), FIXTURE_KEY, FIXTURE_VARIABLE);
    buf_fmt(&b, "process=%d\nport=%d\nport6=%d\nshared=%d\ndescriptor=%d\n", (int)f->process,
            port_of(f->sockets[LOOPBACK]), port_of(f->sockets[LOOPBACK_6]), f->shared, f->descriptor);
    buf_fmt(&b, "processes=%d\nmemory=%llu\nfile=%llu\ntmp=%llu\nnofile=%d\n", LIMIT_PROCESSES,
            (unsigned long long)LIMIT_MEMORY, (unsigned long long)LIMIT_FILE, (unsigned long long)LIMIT_TMP,
            LIMIT_NOFILE);
    TRY(put_file(f, "readable/fixture", b.data, 0644, err));
    f->file = path_join(f->dir, "readable/fixture");
    return 0;
}

int sandbox_fixture_make(bool in_place, struct sandbox_fixture *ret, struct orch_err *err)
{
    struct sandbox_fixture f = {.in_place = in_place, .sockets = {-1, -1, -1, -1}, .shared = -1, .descriptor = -1};
    int code = make_files(&f, err);
    if (code == 0) {
        const char *home = getenv("HOME"); /* NOLINT(concurrency-mt-unsafe): before any thread */
        f.marker_home = make_marker(home != NULL ? home : "/root");
        f.marker_tmp = make_marker("/tmp");
        f.marker_shm = make_marker("/dev/shm");
        make_sockets(&f);
        make_objects(&f);
        code = make_process(&f, err);
    }
    code = code < 0 ? code : be_careless(&f, err);
    code = code < 0 ? code : write_file(&f, err);
    if (code < 0) {
        sandbox_fixture_done(&f);
        return code;
    }
    *ret = f;
    return 0;
}

static void forget_file(char *path)
{
    if (path != NULL && path[0] != '\0') {
        (void)unlink(path);
    }
    free(path);
}

void sandbox_fixture_done(struct sandbox_fixture *f)
{
    struct orch_err ignored = ERR_INIT;
    if (f->process > 0) {
        (void)kill(f->process, SIGKILL);
        (void)waitpid(f->process, NULL, 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(f->sockets); i++) {
        fd_close(&f->sockets[i]);
    }
    fd_close(&f->descriptor);
    if (f->shared >= 0) {
        (void)shmctl(f->shared, IPC_RMID, NULL);
    }
    AUTO_FREE char *queue = xasprintf("orch-test-%d", (int)getpid());
    (void)syscall(SYS_mq_unlink, queue);
    forget_file(f->marker_home);
    forget_file(f->marker_tmp);
    forget_file(f->marker_shm);
    if (f->dir != NULL) {
        (void)!fd_remove_tree(AT_FDCWD, f->dir, &ignored);
    }
    free(f->dir);
    free(f->file);
    *f = (struct sandbox_fixture){.sockets = {-1, -1, -1, -1}, .shared = -1, .descriptor = -1};
}

/* ---- the sandbox ---- */

void sandbox_fixture_spec(const struct sandbox_fixture *f, const char *probe, struct sandbox_spec *s)
{
    AUTO_FREE char *granted = path_join(f->dir, "granted");
    AUTO_FREE char *readable = path_join(f->dir, "readable");
    AUTO_FREE char *output = path_join(f->dir, "output");
    AUTO_FREE char *hidden = path_join(f->dir, "granted/sub/hidden");
    spec_init(s, "self-test");
    spec_grant(s, granted, granted, SPEC_RW, SPEC_DIR);
    spec_grant(s, readable, readable, SPEC_RO, SPEC_DIR);
    spec_grant(s, output, output, SPEC_RW, SPEC_DIR);
    if (!f->in_place && !path_is_beneath(probe, "/usr")) {
        spec_grant(s, probe, probe, SPEC_RO, SPEC_FILE);
    }
    if (!f->in_place) {
        spec_add_hide(s, hidden);
    }
    spec_set_env(s, "PATH", "/usr/bin:/bin");
    spec_set_env(s, "HOME", SPEC_HOME);
    s->limits = (struct spec_limits){.memory = LIMIT_MEMORY,
                                     .file = LIMIT_FILE,
                                     .processes = LIMIT_PROCESSES,
                                     .nofile = LIMIT_NOFILE,
                                     .tmp = f->in_place ? 0 : LIMIT_TMP,
                                     .home = f->in_place ? 0 : LIMIT_TMP};
}

int sandbox_fixture_program(const struct sandbox_fixture *f, const char *probe, char **ret, struct orch_err *err)
{
    AUTO_FREE char *data = NULL;
    size_t len = 0;
    TRY(fd_read_file(probe, PROGRAM_MAX, &data, &len, err));
    AUTO_FREE char *path = path_join(f->dir, "readable/orch-probe");
    AUTO_FD int fd = fd_open(path, O_WRONLY | O_CREAT | O_EXCL, 0600, err);
    TRY(fd);
    TRY(fd_write_all(fd, data, len, err));
    if (fchmod(fd, 0755) < 0) {
        return err_errno(err, ORCH_E_IO, "%s", path);
    }
    *ret = take(path);
    return 0;
}
