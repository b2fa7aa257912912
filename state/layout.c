/* SPDX-License-Identifier: Apache-2.0 */
#include "state/layout.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "state/durable.h"
#include "state/record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STATE_DIR ".state"
#define PROJECT_FILE "project.json"
#define PROJECT_FILE_MAX 65536
#define RUN_ID_TAIL 24 /* -20261201T021338Z-abcdef */
#define CREATE_TRIES 8

/* ---- The root ---- */

static int absolute_dir(const char *path, char **ret, struct orch_err *err)
{
    struct stat st;
    AUTO_FREE char *real = NULL;

    TRY(path_real(path, &real, err));
    if (stat(real, &st) < 0 || !S_ISDIR(st.st_mode)) {
        return err_set(err, ORCH_E_USAGE, "%s is not a directory", path);
    }
    *ret = take(real);
    return 0;
}

static bool is_root(const char *dir)
{
    AUTO_FREE char *state = path_join(dir, STATE_DIR);
    AUTO_FREE char *file = path_join(state, PROJECT_FILE);
    struct stat st;
    return stat(file, &st) == 0 && S_ISREG(st.st_mode);
}

/* The nearest ancestor that is a project, else `start` itself. */
static char *nearest_root(const char *start)
{
    AUTO_FREE char *dir = xstrdup(start);
    for (;;) {
        if (is_root(dir)) {
            return take(dir);
        }
        if (strcmp(dir, "/") == 0) {
            return xstrdup(start);
        }
        char *slash = strrchr(dir, '/');
        slash[slash == dir] = '\0';
    }
}

/* What every part of orch, of SQLite (512 bytes, with names of ours behind it) and of a sandbox's mounts can carry. */
static int check_path(const char *path, const char *what, struct orch_err *err)
{
    size_t len = strlen(path);
    AUTO_BUF struct buf shown;
    buf_init(&shown, BUF_MAX_LINE);
    buf_escaped(&shown, path, len, false);
    if (len > LAYOUT_PATH_MAX) {
        return err_set(err, ORCH_E_CONFIG, "the %s is %zu bytes long, at most %d are possible: %.200s…", what, len,
                       LAYOUT_PATH_MAX, shown.data);
    }
    bool plain = utf8_valid(path, len);
    for (size_t i = 0; i < len; i++) {
        plain = plain && (unsigned char)path[i] >= 0x20 && path[i] != 0x7f;
    }
    return plain ? 0
                 : err_set(err, ORCH_E_CONFIG,
                           "the %s holds a control character, or is not UTF-8; move it to a plain name: %s", what,
                           shown.data);
}

int layout_find(const char *config_path, const char *project_dir, const char *state_dir, struct layout *ret,
                struct orch_err *err)
{
    struct layout l = {0};

    if (project_dir) {
        TRY(absolute_dir(project_dir, &l.root, err));
    } else {
        AUTO_FREE char *real = NULL;
        AUTO_FREE char *folder = NULL;
        if (config_path) { /* the config's own folder, also when the config is reached by a link */
            folder = path_dir(config_path);
        }
        TRY(absolute_dir(folder ? folder : ".", &real, err));
        l.root = nearest_root(real);
    }
    AUTO_FREE char *state = path_join(l.root, state_dir ? state_dir : STATE_DIR);
    l.state = path_normal(state);
    l.runs = path_join(l.state, "runs");
    l.local = path_join(l.state, "local");
    l.visible = path_join(l.state, "agent-visible");
    int code = check_path(l.root, "project's path", err);
    code = code < 0 ? code : check_path(l.state, "path of the project's state", err);
    if (code < 0) {
        layout_done(&l);
        return code;
    }
    *ret = l;
    return 0;
}

void layout_done(struct layout *l)
{
    free(l->root);
    free(l->state);
    free(l->runs);
    free(l->local);
    free(l->visible);
    *l = (struct layout){0};
}

static int check_project(int state, struct orch_err *err)
{
    AUTO_FREE char *text = NULL;
    AUTO_JSON json_t *doc = NULL;
    size_t len = 0;

    TRY(fd_read_file_at(state, PROJECT_FILE, PROJECT_FILE_MAX, &text, &len, err));
    if (json_parse(text, len, PROJECT_FILE_MAX, &doc, err) < 0) {
        return err_wrap(err, STATE_DIR "/" PROJECT_FILE);
    }
    int64_t schema = json_get_int(doc, "schema", 0);
    if (schema < 1 || schema > LAYOUT_SCHEMA) {
        return err_set(err, ORCH_E_CONFIG,
                       STATE_DIR "/" PROJECT_FILE ": schema %lld is not known to this orch (it knows up to %d)",
                       (long long)schema, LAYOUT_SCHEMA);
    }
    return 0;
}

static int write_once(int state, const char *name, const char *text, struct orch_err *err)
{
    if (faccessat(state, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
        return 0;
    }
    return durable_write_file(state, name, text, strlen(text), 0644, err);
}

int layout_make(const struct layout *l, struct orch_err *err)
{
    static const struct {
        const char *name;
        mode_t mode;
    } dirs[] = {{"runs", 0700}, {"local", 0700}, {"agent-visible", 0755}};

    TRY(fd_mkdirs(l->state, 0755, err));
    AUTO_FD int state = fd_open(l->state, O_RDONLY | O_DIRECTORY, 0, err);
    if (state < 0) {
        return state;
    }
    /* Nothing of a state is for a repository: the ignore file ignores itself too. */
    TRY(write_once(state, ".gitignore", "*\n", err));
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        struct stat st;
        if (fstatat(state, dirs[i].name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode)) {
            continue;
        }
        TRY(durable_mkdir(state, dirs[i].name, dirs[i].mode, false, err));
        if (fchmodat(state, dirs[i].name, dirs[i].mode, 0) < 0) {
            return err_errno(err, ORCH_E_IO, "chmod %s", dirs[i].name);
        }
    }
    AUTO_JSON json_t *doc = json_object();
    json_set_int(doc, "schema", LAYOUT_SCHEMA);
    AUTO_FREE char *text = json_pretty(doc);
    TRY(write_once(state, PROJECT_FILE, text, err)); /* last: it marks the rest as made */
    return check_project(state, err);
}

/* ---- Runs ---- */

static bool name_valid_n(const char *name, size_t len)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    if (len == 0 || len > LAYOUT_NAME_MAX || !strchr(first, name[0])) {
        return false;
    }
    for (size_t i = 1; i < len; i++) {
        if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789._-", name[i]) || !name[i]) {
            return false;
        }
    }
    return true;
}

bool layout_name_valid(const char *name)
{
    return name_valid_n(name, strlen(name));
}

bool layout_run_id_valid(const char *id)
{
    static const char shape[] = "-00000000T000000Z-aaaaaa"; /* 0: a digit, a: one of [a-z2-7] */
    size_t len = strlen(id);

    if (len <= RUN_ID_TAIL || len >= LAYOUT_RUN_ID_MAX || !name_valid_n(id, len - RUN_ID_TAIL)) {
        return false;
    }
    const char *tail = id + len - RUN_ID_TAIL;
    for (size_t i = 0; i < RUN_ID_TAIL; i++) {
        const char *allowed = shape[i] == '0'   ? "0123456789"
                              : shape[i] == 'a' ? "abcdefghijklmnopqrstuvwxyz234567"
                                                : NULL;
        if (allowed ? !strchr(allowed, tail[i]) : tail[i] != shape[i]) {
            return false;
        }
    }
    return true;
}

static int fill_run(const struct layout *l, int runs, const char *id, struct orch_err *err)
{
    static const char *const dirs[] = {RUN_OBJECTS, RUN_STEPS, RUN_SANDBOX};
    AUTO_FD int run = fd_open_beneath(runs, id, O_RDONLY | O_DIRECTORY, 0, err);
    AUTO_FD int visible = fd_open(l->visible, O_RDONLY | O_DIRECTORY, 0, err);

    if (run < 0 || visible < 0) {
        return err->code;
    }
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        TRY(durable_mkdir(run, dirs[i], 0700, false, err));
    }
    TRY(durable_mkdir(visible, id, 0755, false, err));
    if (fchmodat(visible, id, 0755, 0) < 0) {
        return err_errno(err, ORCH_E_IO, "chmod %s", id);
    }
    return 0;
}

int layout_run_create(const struct layout *l, const char *name, const struct clock *clock, char **ret_id,
                      struct orch_err *err)
{
    AUTO_FD int runs = fd_open(l->runs, O_RDONLY | O_DIRECTORY, 0, err);
    char time[CLOCK_TEXT_MAX];
    char random[7];

    if (runs < 0) {
        return runs;
    }
    if (!layout_name_valid(name)) {
        return err_set(err, ORCH_E_CONFIG, "\"%s\" is no name of a run: [a-z0-9][a-z0-9._-]{0,62}", name);
    }
    for (int i = 0; i < CREATE_TRIES; i++) {
        random_name(random, 6);
        AUTO_FREE char *id = xasprintf("%s-%s-%s", name, clock_compact(clock_wall_ns(clock), time), random);
        int r = durable_mkdir(runs, id, 0700, true, err);
        if (r == ORCH_E_FAILED && err->sys == EEXIST) {
            err_clear(err);
            continue;
        }
        TRY(r);
        TRY(fill_run(l, runs, id, err));
        *ret_id = take(id);
        return 0;
    }
    return err_set(err, ORCH_E_FAILED, "no free run id was found");
}

char *layout_run_dir(const struct layout *l, const char *id)
{
    return path_join(l->runs, id);
}

char *layout_run_path(const struct layout *l, const char *id, const char *below)
{
    return xasprintf("%s/%s/%s", l->runs, id, below);
}

char *layout_step_dir(const struct layout *l, const char *id, int64_t step)
{
    return xasprintf("%s/%s/" RUN_STEPS "/%04lld", l->runs, id, (long long)step);
}

char *layout_visible_dir(const struct layout *l, const char *id)
{
    return path_join(l->visible, id);
}

char *layout_local_dir(const struct layout *l, const char *id)
{
    return path_join(l->local, id);
}

#define RUN_ID_TIME 17 /* of the tail: "-20260101T000000Z" */

/* By time, newest first: the second that the id says, then the moment its directory was made; where that is not known
 * the random part decides. */
static int newest_first(const void *a, const void *b)
{
    const struct run_entry *x = a;
    const struct run_entry *y = b;
    const char *x_tail = x->id + strlen(x->name);
    const char *y_tail = y->id + strlen(y->name);
    int order = strncmp(y_tail, x_tail, RUN_ID_TIME);
    if (order == 0) {
        order = (y->made_ns > x->made_ns) - (y->made_ns < x->made_ns);
    }
    order = order != 0 ? order : strcmp(y_tail, x_tail);
    return order != 0 ? order : strcmp(x->name, y->name);
}

static int64_t made_ns(const char *path)
{
    struct statx st;
    bool known = statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_BTIME, &st) == 0 && (st.stx_mask & STATX_BTIME) != 0;
    return known ? st.stx_btime.tv_sec * NS_PER_S + st.stx_btime.tv_nsec : 0;
}

static void close_dir(DIR **dir)
{
    if (*dir) {
        closedir(*dir);
    }
}

int layout_runs(const struct layout *l, const char *name, struct run_entry **ret, size_t *ret_count,
                struct orch_err *err)
{
    AUTO_FREE struct run_entry *items = NULL;
    size_t count = 0;
    size_t cap = 0;
    AUTO(close_dir) DIR *dir = opendir(l->runs);

    if (!dir && errno != ENOENT) {
        return err_errno(err, ORCH_E_IO, "read %s", l->runs);
    }
    for (const struct dirent *e = NULL;
         dir && (e = readdir(dir)) != NULL;) { /* NOLINT(concurrency-mt-unsafe): own DIR */
        if (!layout_run_id_valid(e->d_name)) {
            continue;
        }
        if (count == LAYOUT_RUNS_MAX) {
            return err_set(err, ORCH_E_LIMIT, "more than %d runs in %s", LAYOUT_RUNS_MAX, l->runs);
        }
        struct run_entry entry = {0};
        memcpy(entry.id, e->d_name, strlen(e->d_name) + 1); /* a valid id fits */
        snprintf(entry.name, sizeof entry.name, "%.*s", (int)(strlen(entry.id) - RUN_ID_TAIL), entry.id);
        if (name && strcmp(name, entry.name) != 0) {
            continue;
        }
        AUTO_FREE char *record = layout_run_path(l, entry.id, RUN_RECORD);
        AUTO_FREE char *starting = layout_run_path(l, entry.id, RUN_STARTING);
        AUTO_FREE char *run_dir = layout_run_path(l, entry.id, "");
        entry.made_ns = made_ns(run_dir);
        entry.has_record = access(record, F_OK) == 0 && access(starting, F_OK) != 0;
        if (count == cap) {
            cap = cap ? cap * 2 : 32;
            items = xrealloc(items, cap * sizeof *items);
        }
        items[count++] = entry;
    }
    if (count) {
        qsort(items, count, sizeof *items, newest_first);
    }
    *ret = take(items);
    *ret_count = count;
    return 0;
}

/* Keeps those that began, in order; returns how many. */
static size_t begun_first(struct run_entry *runs, size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        if (runs[i].has_record) {
            runs[kept++] = runs[i];
        }
    }
    return kept;
}

int layout_run_select(const struct layout *l, const char *selector, char **ret_id, struct orch_err *err)
{
    AUTO_FREE struct run_entry *runs = NULL;
    size_t count = 0;
    size_t len = strlen(selector);
    const char *found = NULL;

    TRY(layout_runs(l, NULL, &runs, &count, err));
    count = runs != NULL ? begun_first(runs, count) : 0;
    for (size_t i = 0; i < count && !found; i++) { /* newest first: a name is its newest run */
        if (strcmp(selector, "latest") == 0 || strcmp(runs[i].id, selector) == 0 ||
            strcmp(runs[i].name, selector) == 0) {
            found = runs[i].id;
        }
    }
    for (size_t i = 0; i < count; i++) { /* an exact id wins over a name */
        found = strcmp(runs[i].id, selector) == 0 ? runs[i].id : found;
    }
    for (size_t i = 0, matches = 0; i < count && len && (!found || matches > 0); i++) {
        size_t id_len = strlen(runs[i].id);
        if (strncmp(runs[i].id, selector, len) != 0 &&
            (id_len < len || strcmp(runs[i].id + id_len - len, selector) != 0)) {
            continue;
        }
        if (++matches > 1) {
            return err_set(err, ORCH_E_USAGE, "\"%s\" is more than one run: %s and %s", selector, found, runs[i].id);
        }
        found = runs[i].id;
    }
    if (!found) {
        return err_set(err, ORCH_E_NOT_FOUND, "there is no run \"%s\" in %s", selector, l->runs);
    }
    *ret_id = xstrdup(found);
    return 0;
}

/* Whether the run is of the kind and state asked for. */
static int run_matches(const struct layout *l, const char *id, const char *kind, bool unfinished, bool *ret,
                       struct orch_err *err)
{
    AUTO_FREE char *dir = layout_run_dir(l, id);
    AUTO_RECORD struct record *rec = NULL;
    AUTO_FREE char *its_kind = NULL;
    AUTO_FREE char *its_state = NULL;
    struct clock clock = clock_system();

    TRY(record_open(dir, RECORD_READ, &clock, &rec, err));
    TRY(record_meta_text(rec, "kind", &its_kind, err));
    TRY(record_meta_text(rec, "state", &its_state, err));
    *ret = (!kind || strcmp(kind, its_kind) == 0) && (!unfinished || strcmp(its_state, "finished") != 0);
    return 0;
}

int layout_run_newest(const struct layout *l, const char *name, const char *kind, bool unfinished, char **ret_id,
                      struct orch_err *err)
{
    AUTO_FREE struct run_entry *runs = NULL;
    size_t count = 0;

    TRY(layout_runs(l, name, &runs, &count, err));
    for (size_t i = 0; i < count; i++) {
        bool match = false;
        if (!runs[i].has_record) {
            continue;
        }
        if (run_matches(l, runs[i].id, kind, unfinished, &match, err) < 0) {
            return err_wrap(err, "run %s", runs[i].id);
        }
        if (match) {
            *ret_id = xstrdup(runs[i].id);
            return 0;
        }
    }
    return err_set(err, ORCH_E_NOT_FOUND, "there is no %srun%s%s", unfinished ? "unfinished " : "",
                   name ? " named " : "", name ? name : "");
}
