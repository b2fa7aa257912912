/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/mechanisms/bwrap.h"

#include "backends/guest/control.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/process.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define VERSION_TIMEOUT_NS (INT64_C(10) * 1000000000)

/* ---- arguments ---- */

static void arg(struct buf *out, const char *text)
{
    buf_add(out, text, strlen(text) + 1);
}

static void args(struct buf *out, const char *const *list)
{
    for (; *list != NULL; list++) {
        arg(out, *list);
    }
}

static void step_arguments(const struct mount_step *m, struct buf *out)
{
    static const char *const words[MOUNT_KIND_COUNT] = {
        [MOUNT_RO_BIND] = "--ro-bind", [MOUNT_BIND] = "--bind",   [MOUNT_PROC] = "--proc",
        [MOUNT_DEV] = "--dev",         [MOUNT_TMPFS] = "--tmpfs", [MOUNT_REMOUNT_RO] = "--remount-ro",
        [MOUNT_DIR] = "--dir",
    };
    if (m->kind == MOUNT_TMPFS) {
        arg(out, "--perms");
        arg(out, "1777");
        arg(out, "--size");
        buf_fmt(out, "%llu", (unsigned long long)m->size);
        buf_char(out, '\0');
    }
    if (m->kind == MOUNT_DIR) {
        arg(out, "--perms");
        arg(out, "0755");
    }
    arg(out, words[m->kind]);
    if (m->source != NULL) {
        arg(out, m->source);
    }
    arg(out, m->target);
}

void bwrap_arguments(const struct mechanism_options *o, struct buf *out)
{
    static const char *const always[] = {"--unshare-ipc",     "--unshare-pid", "--unshare-uts", "--unshare-cgroup",
                                         "--die-with-parent", "--new-session", "--as-pid-1",    NULL};
    /* as root the init changes to the slot's uid itself and drops these three on the way */
    static const char *const named[] = {"--userns",  "5",           "--cap-drop", "ALL",
                                        "--cap-add", "CAP_SETUID",  "--cap-add",  "CAP_SETGID",
                                        "--cap-add", "CAP_SETPCAP", NULL};
    static const char *const own[] = {"--unshare-user", "--disable-userns", "--cap-drop", "ALL", NULL};
    args(out, always);
    if (!o->share_network) {
        arg(out, "--unshare-net");
    }
    args(out, o->named_identity ? named : own);
    arg(out, "--hostname");
    arg(out, o->hostname);
    for (size_t i = 0; i < o->mounts->count; i++) {
        step_arguments(&o->mounts->steps[i], out);
    }
    arg(out, "--chdir");
    arg(out, "/");
}

static pid_t start(const struct mechanism *m, const struct mechanism_options *o, int *ret_pidfd, struct orch_err *err)
{
    AUTO(buf_done) struct buf text;
    buf_init(&text, BWRAP_ARGS_MAX);
    bwrap_arguments(o, &text);
    char name[] = "bwrap";
    char option[] = "--args";
    char number[] = "4";
    char end[] = "--";
    char init[] = CONTROL_INIT_PATH;
    char *argv[] = {name, option, number, end, init, NULL};
    return mechanism_spawn(m, argv, &text, o, ret_pidfd, err);
}

/* ---- finding ---- */

int bwrap_trusted(const char *path, struct orch_err *err)
{
    AUTO_FREE char *at = xstrdup(path);
    for (;;) {
        struct stat st;
        if (lstat(at, &st) < 0) {
            return err_errno(err, ORCH_E_UNAVAILABLE, "%s", at);
        }
        if (S_ISLNK(st.st_mode)) {
            return err_set(err, ORCH_E_UNAVAILABLE, "%s is a link", at);
        }
        if (st.st_uid != 0 || (st.st_mode & 022) != 0) {
            return err_set(err, ORCH_E_UNAVAILABLE, "%s can be changed by others than root", at);
        }
        if (strcmp(at, "/") == 0) {
            return 0;
        }
        char *parent = path_dir(at);
        free(at);
        at = parent;
    }
}

static int read_version(struct mechanism *m, struct orch_err *err)
{
    char name[] = "bwrap";
    char option[] = "--version";
    char *argv[] = {name, option, NULL};
    char *envp[] = {NULL};
    struct command c = {.program = m->program,
                        .argv = argv,
                        .envp = envp,
                        .cwd = "/",
                        .output_max = 256,
                        .timeout_ns = VERSION_TIMEOUT_NS};
    AUTO_COMMAND_RESULT struct command_result r = {.end = END_UNKNOWN};
    TRY(command_run(&c, &r, err));
    TRY(command_check(&r, "bwrap --version", err));
    const char *digits = strpbrk(r.out, "0123456789");
    size_t n = digits == NULL ? 0 : strspn(digits, "0123456789.");
    if (n == 0 || n >= sizeof m->version) {
        return err_set(err, ORCH_E_UNAVAILABLE, "%s does not say its version", m->program);
    }
    memcpy(m->version, digits, n);
    m->version[n] = '\0';
    return 0;
}

int bwrap_find(const char *init_program, struct mechanism *ret, struct orch_err *err)
{
    (void)init_program; /* it comes with the prepared root */
    static const char *const places[] = {"/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap"};
    struct orch_err first = ERR_INIT;
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        struct orch_err e = ERR_INIT;
        AUTO_FREE char *real = NULL;
        if (path_real(places[i], &real, &e) < 0 || bwrap_trusted(real, &e) < 0) {
            first = i == 0 || first.code == ORCH_E_NOT_FOUND ? e : first;
            continue;
        }
        struct mechanism m = {.name = "bubblewrap",
                              .private_mounts = geteuid() == 0,
                              .program = take(real),
                              .init_inside = true,
                              .start = start};
        int code = read_version(&m, err);
        if (code < 0) {
            mechanism_done(&m);
            return code;
        }
        *ret = m;
        return 0;
    }
    return err_set(err, ORCH_E_UNAVAILABLE, "bubblewrap cannot be used: %s", first.message);
}
