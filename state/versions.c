/* SPDX-License-Identifier: Apache-2.0 */
/* The repository and its refs. Trees go in and out in versions_tree.c. */
#include "state/versions_internal.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "state/durable.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define GIT_SEARCH "/usr/local/bin:/usr/bin:/bin"
#define GIT_ARGS_MAX 40
#define REF_MAX 256

/* Nothing of the user's, the system's or a project's configuration reaches these commands. */
static const char *const git_environment[] = {
    "PATH=/usr/local/bin:/usr/bin:/bin",
    "LC_ALL=C",
    "GIT_CONFIG_NOSYSTEM=1",
    "GIT_CONFIG_SYSTEM=/dev/null",
    "GIT_CONFIG_GLOBAL=/dev/null",
    "GIT_ATTR_NOSYSTEM=1",
    "GIT_ATTR_SOURCE=4b825dc642cb6eb9a060e54bf8d69288fbee4904", /* the empty tree */
    "GIT_TERMINAL_PROMPT=0",
    "GIT_ASKPASS=/bin/false",
    "GIT_OPTIONAL_LOCKS=0",
    "GIT_NO_REPLACE_OBJECTS=1",
    "GIT_PAGER=cat",
    NULL,
};

static const char *const git_options[] = {
    "-c", "core.hooksPath=/dev/null",
    "-c", "core.fsync=all",
    "-c", "core.fsyncMethod=fsync",
    "-c", "core.protectHFS=true",
    "-c", "core.protectNTFS=true",
    "-c", "core.attributesFile=/dev/null",
    "-c", "core.quotePath=true",
    "-c", "core.logAllRefUpdates=false",
    "-c", "gc.auto=0",
    "-c", "maintenance.auto=false",
    "-c", "fastimport.unpackLimit=0",
    "-c", "protocol.allow=never",
};

int versions_git(const struct versions *v, const char *const *args, const struct git_io *io, struct command_result *ret,
                 struct orch_err *err)
{
    const char *argv[ARRAY_LEN(git_options) + GIT_ARGS_MAX + 3];
    AUTO_FREE char *git_dir = xasprintf("--git-dir=%s", v->dir);
    size_t n = 0;

    argv[n++] = "git";
    for (size_t i = 0; i < ARRAY_LEN(git_options); i++) {
        argv[n++] = git_options[i];
    }
    argv[n++] = git_dir;
    for (size_t i = 0; args[i]; i++) {
        if (i == GIT_ARGS_MAX) {
            return err_set(err, ORCH_E_INTERNAL, "git: too many arguments");
        }
        argv[n++] = args[i];
    }
    argv[n] = NULL;
    const struct command command = {
        .program = v->git,
        .argv = (char *const *)(uintptr_t)argv, /* exec's argv is not const; nobody writes to it */
        .envp = (char *const *)(uintptr_t)git_environment,
        .cwd = "/",
        .input = io ? io->input : NULL,
        .input_len = io ? io->input_len : 0,
        .input_fd = io ? io->input_fd : 0,
        .output_fd = io ? io->output_fd : 0,
        .output_max = io && io->output_max ? io->output_max : VERSIONS_OUTPUT_MAX,
        .timeout_ns = VERSIONS_TIMEOUT_NS,
    };
    int r = command_run(&command, ret, err);
    return r < 0 ? err_wrap(err, "git %s", args[0]) : 0;
}

/* The same where any exit but 0 is an error and the output does not matter. */
static int git_quiet(const struct versions *v, const char *const *args, struct orch_err *err)
{
    AUTO_COMMAND_RESULT struct command_result result = {0};
    TRY(versions_git(v, args, NULL, &result, err));
    return command_check(&result, "git", err);
}
#define GIT(...) ((const char *const[]){__VA_ARGS__, NULL})

int versions_scratch(const struct versions *v, struct orch_err *err)
{
    int fd = open(v->dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) { /* some file systems have no O_TMPFILE */
        fd = memfd_create("orch-versions", MFD_CLOEXEC);
    }
    return fd < 0 ? err_errno(err, ORCH_E_IO, "make a scratch file") : fd;
}

static int versions_new(const char *git, const char *dir, struct versions **ret, struct orch_err *err)
{
    AUTO_FREE char *program = NULL;
    struct stat st;

    if (dir[0] != '/' || (git && git[0] != '/')) {
        return err_set(err, ORCH_E_INTERNAL, "versions: a path is not absolute");
    }
    if (git && (stat(git, &st) < 0 || !S_ISREG(st.st_mode) || access(git, X_OK) < 0)) {
        return err_set(err, ORCH_E_UNAVAILABLE, "git is not at %s", git);
    }
    if (git) {
        program = xstrdup(git);
    } else if (path_search("git", GIT_SEARCH, &program, err) < 0) {
        return err_set(err, ORCH_E_UNAVAILABLE, "git was not found in %s: versions are kept with it", GIT_SEARCH);
    }
    struct versions *v = xcalloc(1, sizeof *v);
    v->git = take(program);
    v->dir = xstrdup(dir);
    *ret = v;
    return 0;
}

void versions_free(struct versions *v)
{
    if (v) {
        free(v->git);
        free(v->dir);
        free(v);
    }
}

void versions_release(struct versions **v)
{
    versions_free(*v);
    *v = NULL;
}

/* Locks, half made packs and notes that a killed git left: the caller owns the repository, so nobody holds them. */
static void drop_stale(const char *dir)
{
    static const struct {
        const char *place, *prefix, *suffix;
    } stale[] = {
        {"", "", ".lock"},
        {"refs", "", ".lock"},
        {"refs/heads", "", ".lock"},
        {"refs/tags", "", ".lock"},
        {"objects/pack", "", ".keep"}, /* without it the same commit, imported again, is refused */
        {"objects/pack", "tmp_", ""},
        {"", "fast_import_crash_", ""},
    };

    for (size_t i = 0; i < ARRAY_LEN(stale); i++) {
        AUTO_FREE char *path = path_join(dir, stale[i].place);
        size_t prefix = strlen(stale[i].prefix);
        size_t suffix = strlen(stale[i].suffix);
        DIR *d = opendir(path);
        const struct dirent *e;
        while (d != NULL && (e = readdir(d)) != NULL) { /* NOLINT(concurrency-mt-unsafe): own stream */
            size_t len = strlen(e->d_name);
            if (len > prefix + suffix && strncmp(e->d_name, stale[i].prefix, prefix) == 0 &&
                strcmp(e->d_name + len - suffix, stale[i].suffix) == 0) {
                (void)unlinkat(dirfd(d), e->d_name, 0);
            }
        }
        if (d != NULL) {
            (void)closedir(d);
        }
    }
}

int versions_create(const char *git, const char *dir, struct versions **ret, struct orch_err *err)
{
    AUTO_VERSIONS struct versions *v = NULL;

    TRY(versions_new(git, dir, &v, err));
    /* Safe to repeat: it completes what a crash left half made, and leaves what is there. */
    drop_stale(dir);
    TRY(git_quiet(v, GIT("init", "--quiet", "--bare", "--template=", "--initial-branch=main", "--object-format=sha1"),
                  err));
    TRY(git_quiet(v, GIT("config", "gc.auto", "0"), err));
    AUTO_FD int dirfd = fd_open(dir, O_RDONLY | O_DIRECTORY, 0, err);
    if (dirfd < 0) {
        return dirfd;
    }
    TRY(durable_sync_dir(dirfd, err));
    *ret = take(v);
    return 0;
}

int versions_open(const char *git, const char *dir, struct versions **ret, struct orch_err *err)
{
    AUTO_VERSIONS struct versions *v = NULL;
    AUTO_FREE char *head = path_join(dir, "HEAD");

    TRY(versions_new(git, dir, &v, err));
    if (access(head, R_OK) < 0) {
        return err_errno(err, ORCH_E_NOT_FOUND, "%s is no repository of versions", dir);
    }
    *ret = take(v);
    return 0;
}

bool versions_sha_valid(const char *text)
{
    size_t len = strlen(text);
    return (len == 40 || len == 64) && strspn(text, "0123456789abcdef") == len;
}

static bool selector_valid(const char *text)
{
    size_t len = strlen(text);
    if (len == 0 || len > REF_MAX / 2 || text[0] == '-' || text[0] == '.' || strstr(text, "..") ||
        text[len - 1] == '.') {
        return false;
    }
    for (const char *p = text; *p; p++) {
        if (!isalnum((unsigned char)*p) && !strchr("._-", *p)) {
            return false;
        }
    }
    return len < 5 || strcmp(text + len - 5, ".lock") != 0;
}

/* One name of an object, peeled to `kind`; ORCH_E_NOT_FOUND when there is none. */
static int rev_parse(const struct versions *v, const char *name, const char *kind, char out[VERSIONS_SHA_MAX],
                     struct orch_err *err)
{
    AUTO_COMMAND_RESULT struct command_result result = {0};
    AUTO_FREE char *peeled = xasprintf("%s^{%s}", name, kind);

    TRY(versions_git(v, GIT("rev-parse", "--verify", "--quiet", "--end-of-options", peeled), NULL, &result, err));
    if (result.end == END_EXITED && result.code == 1) {
        return err_set(err, ORCH_E_NOT_FOUND, "there is no version \"%s\"", name);
    }
    TRY(command_check(&result, "git rev-parse", err));
    size_t len = strcspn(result.out, "\n");
    if (len >= VERSIONS_SHA_MAX) {
        return err_set(err, ORCH_E_DAMAGED, "git rev-parse answered with something else");
    }
    memcpy(out, result.out, len);
    out[len] = '\0';
    if (!versions_sha_valid(out)) {
        return err_set(err, ORCH_E_DAMAGED, "git rev-parse answered with something else");
    }
    return 0;
}

int versions_resolve(const struct versions *v, const char *selector, struct version_id *ret, struct orch_err *err)
{
    static const char *const prefixes[] = {"refs/tags/", "refs/tags/v", "refs/heads/", ""};
    struct version_id id;
    int r = ORCH_E_NOT_FOUND;

    if (!selector_valid(selector)) {
        return err_set(err, ORCH_E_NOT_FOUND, "\"%s\" names no version", selector);
    }
    bool hex = strlen(selector) >= 4 && strspn(selector, "0123456789abcdef") == strlen(selector);
    for (size_t i = 0; r == ORCH_E_NOT_FOUND && i < ARRAY_LEN(prefixes); i++) {
        if (prefixes[i][0] || hex) {
            AUTO_FREE char *name = xasprintf("%s%s", prefixes[i], selector);
            r = rev_parse(v, name, "commit", id.sha, err);
        }
    }
    if (r == ORCH_E_NOT_FOUND) {
        return err_set(err, ORCH_E_NOT_FOUND, "there is no version \"%s\"", selector);
    }
    TRY(r);
    err_clear(err);
    TRY(rev_parse(v, id.sha, "tree", id.tree, err));
    *ret = id;
    return 0;
}

int versions_point(const struct versions *v, const char *name, const char *sha, struct orch_err *err)
{
    if (!selector_valid(name) || !versions_sha_valid(sha)) {
        return err_set(err, ORCH_E_INTERNAL, "versions: cannot point \"%s\" to \"%s\"", name, sha);
    }
    AUTO_FREE char *ref = strcmp(name, "main") == 0 ? xstrdup("refs/heads/main") : xasprintf("refs/tags/%s", name);
    return git_quiet(v, GIT("update-ref", "--no-deref", ref, sha), err);
}

int versions_diff(const struct versions *v, const char *a, const char *b, struct buf *out, struct orch_err *err)
{
    AUTO_COMMAND_RESULT struct command_result result = {0};
    struct version_id from;
    struct version_id to;
    struct git_io io = {.output_max = out->max - out->len + 1};

    TRY(versions_resolve(v, a, &from, err));
    TRY(versions_resolve(v, b, &to, err));
    TRY(versions_git(v,
                     GIT("diff-tree", "-r", "-p", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames",
                         "--full-index", "--end-of-options", from.tree, to.tree),
                     &io, &result, err));
    TRY(command_check(&result, "git diff-tree", err));
    buf_add(out, result.out, result.out_len);
    out->overflow = out->overflow || result.out_cut;
    return 0;
}

int versions_log(const struct versions *v, const char *selector, struct buf *out, struct orch_err *err)
{
    AUTO_COMMAND_RESULT struct command_result result = {0};
    struct version_id id;
    struct git_io io = {.output_max = out->max - out->len + 1};

    TRY(versions_resolve(v, selector, &id, err));
    TRY(versions_git(v, GIT("log", "--no-color", "--no-show-signature", "--topo-order", "--format=%H %P %s", id.sha),
                     &io, &result, err));
    TRY(command_check(&result, "git log", err));
    buf_add(out, result.out, result.out_len);
    out->overflow = out->overflow || result.out_cut;
    return 0;
}

int versions_check(const struct versions *v, struct orch_err *err)
{
    AUTO_COMMAND_RESULT struct command_result result = {0};

    TRY(versions_git(v, GIT("fsck", "--full", "--strict", "--no-dangling", "--no-progress"), NULL, &result, err));
    if (result.end != END_EXITED || result.code != 0) {
        return err_set(err, ORCH_E_DAMAGED, "the versions are damaged: %.300s",
                       result.err_len ? result.err : result.out);
    }
    return 0;
}
