/* SPDX-License-Identifier: Apache-2.0 */
#include "roles/program.h"

#include "backends/handoff.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "roles/context.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INTERPRETER_MAX 255 /* BINPRM_BUF_SIZE */

void program_done(struct program *p)
{
    strv_free(p->inside);
    strv_free(p->host);
    free(p->stage);
    *p = (struct program){0};
}

/* Every sandbox shows these under their own names. */
static bool is_system(const char *path)
{
    static const char *const roots[] = {"/usr", "/bin", "/sbin", "/lib", "/lib64"};
    for (size_t i = 0; i < ARRAY_LEN(roots); i++) {
        if (path_is_beneath(path, roots[i])) {
            return true;
        }
    }
    return false;
}

/* "./x" and "../x" mean the project, and as the program itself every path that is not the system's. */
static bool names_project(const char *word, bool is_program)
{
    return strncmp(word, "./", 2) == 0 || strncmp(word, "../", 3) == 0 ||
           (is_program && strchr(word, '/') != NULL && !is_system(word));
}

static char *original_of(const char *word, const char *config_dir)
{
    AUTO_FREE char *joined = path_join(config_dir, word);
    return path_normal(joined);
}

/* ------------------------------------------------------------------ digests */

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static int add_file(struct digest *d, const char *path, struct orch_err *err)
{
    char text[DIGEST_TEXT_MAX];
    AUTO_FD int fd = fd_open(path, O_RDONLY | O_NONBLOCK, 0, err);
    TRY(fd);
    TRY(digest_of_fd(fd, text, err));
    digest_add(d, text, sizeof text);
    return 0;
}

static int add_entry(struct digest *d, const FTSENT *e, size_t root_len, struct orch_err *err)
{
    const char *below = e->fts_path + root_len;
    if (e->fts_info == FTS_DP) {
        return 0;
    }
    digest_add(d, below, strlen(below) + 1);
    if (e->fts_info == FTS_D) {
        digest_add(d, "dir", 4);
        return 0;
    }
    if (e->fts_info == FTS_SL || e->fts_info == FTS_SLNONE) {
        char target[4096];
        ssize_t n = readlink(e->fts_accpath, target, sizeof target);
        digest_add(d, "link", 5);
        digest_add(d, target, n > 0 ? (size_t)n : 0);
        return 0;
    }
    if (e->fts_info != FTS_F) {
        return err_set(err, ORCH_E_CONFIG, "%s: not a regular file, directory or link", e->fts_path);
    }
    bool executable = (e->fts_statp->st_mode & 0111) != 0;
    digest_add(d, executable ? "exec" : "file", 5);
    return add_file(d, e->fts_accpath, err);
}

int contents_digest(const char *path, char out[DIGEST_TEXT_MAX], struct orch_err *err)
{
    AUTO_FREE char *copy = xstrdup(path);
    char *roots[] = {copy, NULL};
    FTS *fts = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
    if (fts == NULL) {
        return err_errno(err, ORCH_E_IO, "read %s", path);
    }
    AUTO_DIGEST struct digest *d = digest_new();
    int code = 0;
    const FTSENT *e;
    while (code == 0 && (e = fts_read(fts)) != NULL) {
        if (e->fts_info == FTS_ERR || e->fts_info == FTS_DNR || e->fts_info == FTS_NS) {
            errno = e->fts_errno;
            code = err_errno(err, errno == ENOENT ? ORCH_E_NOT_FOUND : ORCH_E_IO, "read %s", e->fts_path);
        } else {
            code = add_entry(d, e, strlen(path), err);
        }
    }
    (void)fts_close(fts);
    digest_text(d, out);
    return code;
}

int program_digest_now(char *const *command, const char *config_dir, char out[DIGEST_TEXT_MAX], struct orch_err *err)
{
    AUTO_DIGEST struct digest *d = digest_new();
    for (size_t i = 0; command[i] != NULL; i++) {
        digest_add(d, command[i], strlen(command[i]) + 1);
        AUTO_FREE char *path = original_of(command[i], config_dir);
        if (names_project(command[i], i == 0) && access(path, F_OK) == 0) {
            char text[DIGEST_TEXT_MAX];
            TRY(contents_digest(path, text, err));
            digest_add(d, text, sizeof text);
        }
    }
    digest_text(d, out);
    return 0;
}

/* ------------------------------------------------------------------ staging */

static int copy_file(const char *from, int dirfd, const char *name, struct orch_err *err)
{
    AUTO_FREE char *data = NULL;
    size_t len = 0;
    TRY(fd_read_file(from, PROGRAM_BYTES_MAX, &data, &len, err));
    struct stat st;
    if (stat(from, &st) < 0) {
        return err_errno(err, ORCH_E_IO, "%s", from);
    }
    mode_t mode = (st.st_mode & 0111) != 0 ? 0755 : 0644;
    AUTO_FD int fd = fd_open_beneath(dirfd, name, O_WRONLY | O_CREAT | O_EXCL, mode, err);
    TRY(fd);
    (void)fchmod(fd, mode); /* whatever the umask is */
    return fd_write_all(fd, data, len, err);
}

static int copy_dir(const char *from, int dirfd, const char *name, struct orch_err *err)
{
    AUTO_FD int source = fd_open(from, O_RDONLY | O_DIRECTORY, 0, err);
    TRY(source);
    if (mkdirat(dirfd, name, 0755) < 0) {
        return err_errno(err, ORCH_E_IO, "make %s", name);
    }
    AUTO_FD int dest = fd_open_beneath(dirfd, name, O_RDONLY | O_DIRECTORY, 0, err);
    TRY(dest);
    struct handoff_limits limits = {.bytes = PROGRAM_BYTES_MAX, .keep_links = true};
    struct handoff_report report;
    return handoff_copy(source, dest, &limits, &report, err);
}

static int stage_word(const char *original, int stage_fd, const char *name, struct orch_err *err)
{
    struct stat st;
    if (stat(original, &st) < 0) {
        return err_errno(err, ORCH_E_CONFIG, "%s", original);
    }
    int code = S_ISDIR(st.st_mode) ? copy_dir(original, stage_fd, name, err) : copy_file(original, stage_fd, name, err);
    return code < 0 ? err_wrap(err, "copy %s", original) : 0;
}

/* What a script's first line starts (execve(2), "Interpreter scripts"), and the program env(1) would look for. */
static int check_interpreter(const char *word, const char *path, struct orch_err *err)
{
    char line[INTERPRETER_MAX + 1] = "";
    struct orch_err ignored = ERR_INIT;
    AUTO_FD int fd = fd_open(path, O_RDONLY, 0, &ignored);
    ssize_t n = fd < 0 ? 0 : pread(fd, line, sizeof line - 1, 0);
    if (n < 2 || strncmp(line, "#!", 2) != 0) {
        return 0;
    }
    char *name = line + 2 + strspn(line + 2, " \t");
    char *end = name + strcspn(name, " \t\r\n");
    bool more = *end == ' ' || *end == '\t';
    bool dos = *end == '\r';
    char *argument = end + strspn(end, " \t");
    argument[strcspn(argument, " \t\r\n")] = '\0';
    *end = '\0';
    if (dos) {
        return err_set(err, ORCH_E_CONFIG, "program \"%s\": its lines end in CR LF: the kernel looks for \"%s\\r\"",
                       word, name);
    }
    if (access(name, X_OK) < 0) {
        return err_set(err, ORCH_E_CONFIG, "program \"%s\": its first line names %s, which is not an executable file",
                       word, name);
    }
    AUTO_FREE char *found = NULL;
    if (more && strcmp(path_base(name), "env") == 0 && argument[0] != '-' && strchr(argument, '=') == NULL &&
        path_search(argument, CONTEXT_PATH, &found, &ignored) < 0) {
        return err_set(err, ORCH_E_CONFIG, "program \"%s\": its first line asks for %s, which is not on " CONTEXT_PATH,
                       word, argument);
    }
    return 0;
}

int program_check(char *const *command, const char *config_dir, struct orch_err *err)
{
    const char *word = command[0];
    if (word == NULL || !names_project(word, true)) {
        return 0;
    }
    AUTO_FREE char *path = original_of(word, config_dir);
    struct stat st;
    if (stat(path, &st) < 0) {
        return err_errno(err, ORCH_E_CONFIG, "program \"%s\" (%s)", word, path);
    }
    if (!S_ISREG(st.st_mode) || access(path, X_OK) < 0) {
        return err_set(err, ORCH_E_CONFIG, "program \"%s\" (%s) is not an executable file; chmod +x it", word, path);
    }
    return check_interpreter(word, path, err);
}

static int open_stage(struct program *p, const char *stage, int *stage_fd, struct orch_err *err)
{
    if (*stage_fd >= 0) {
        return 0;
    }
    AUTO_FREE char *parent = path_dir(stage);
    AUTO_FD int parent_fd = fd_open(parent, O_RDONLY | O_DIRECTORY, 0, err);
    TRY(parent_fd);
    TRY(fd_remove_tree(parent_fd, path_base(stage), err)); /* a dead predecessor's */
    TRY(fd_mkdirs(stage, 0755, err));
    *stage_fd = fd_open(stage, O_RDONLY | O_DIRECTORY, 0, err);
    TRY(*stage_fd);
    p->stage = xstrdup(stage);
    return 0;
}

static int prepare_words(char *const *command, const char *config_dir, const char *stage, struct program *p,
                         struct orch_err *err)
{
    AUTO_FD int stage_fd = -1;
    TRY(program_check(command, config_dir, err));
    for (size_t i = 0; command[i] != NULL; i++) {
        AUTO_FREE char *path = original_of(command[i], config_dir);
        if (!names_project(command[i], i == 0) || (i > 0 && access(path, F_OK) != 0)) {
            p->inside = strv_append(p->inside, xstrdup(command[i]));
            p->host = strv_append(p->host, xstrdup(command[i]));
            continue;
        }
        TRY(open_stage(p, stage, &stage_fd, err));
        AUTO_FREE char *name = xstrdup(path_base(path));
        if (faccessat(stage_fd, name, F_OK, 0) == 0) { /* the same last name twice */
            char *numbered = xasprintf("%zu-%s", i, name);
            free(name);
            name = numbered;
        }
        TRY(stage_word(path, stage_fd, name, err));
        p->inside = strv_append(p->inside, xasprintf(PROGRAM_DIR "/%s", name));
        p->host = strv_append(p->host, path_join(stage, name));
    }
    return 0;
}

int program_prepare(char *const *command, const char *config_dir, const char *stage, struct program *ret,
                    struct orch_err *err)
{
    struct program p = {0};
    int code = prepare_words(command, config_dir, stage, &p, err);
    if (code == 0) {
        code = program_digest_now(command, config_dir, p.digest, err);
    }
    if (code < 0) {
        program_done(&p);
        return code;
    }
    *ret = p;
    return 0;
}
