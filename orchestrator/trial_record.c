/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/trial_record.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "state/durable.h"
#include "state/redact.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LEFT_OUT_NAMED 8 /* entries by name; the rest is counted */

int call_note_plan(struct engine *e, struct call_note *n, enum call_kind kind, int64_t trial, int64_t incarnation,
                   int64_t step, struct orch_err *err)
{
    const char *environment = config_environment_names[e->config->task.environment.kind];
    n->kind = kind;
    struct call_plan plan = {
        .kind = kind, .trial = trial, .incarnation = incarnation, .step = step, .environment = environment};
    TRY(record_call_plan(e->record, &plan, &n->call, NULL, err));
    (void)snprintf(n->name, sizeof n->name, "%s-%06lld", call_kind_text(kind), (long long)n->call);
    struct sandbox_open open = {
        .role = call_kind_text(kind), .environment = environment, .mechanism = "auto", .name = n->name};
    TRY(record_sandbox_open(e->record, &open, &n->sandbox, NULL, err));
    TRY(record_call_phase(e->record, n->call, PHASE_INTENT, n->name, NULL, err));
    return fault_point(FAULT_CALL_INTENT, err);
}

/* File contents are the task's own text: the record has them elsewhere. */
void call_note_asked(struct call_note *n, const struct sandbox_spec *spec)
{
    json_t *asked = spec_to_json(spec);
    size_t i;
    json_t *file;
    json_array_foreach(json_object_get(asked, "files"), i, file)
    {
        json_set_int(file, "bytes", (int64_t)spec->files[i].len);
        json_object_del(file, "text");
    }
    json_t *names = json_array();
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(asked, "env"), name, value)
    {
        json_add_str(names, name);
    }
    json_set_take(asked, "env", names); /* names of variables only */
    json_decref(n->asked);
    n->asked = asked;
}

int call_note_started(struct engine *e, struct call_note *n, struct orch_err *err)
{
    n->started = true;
    TRY(record_call_phase(e->record, n->call, PHASE_STARTED, NULL, NULL, err));
    return fault_point(FAULT_CALL_STARTED, err);
}

void call_note_limit(struct call_note *n, const char *limit, int64_t value, int64_t reached)
{
    (void)snprintf(n->limit, sizeof n->limit, "%s", limit);
    n->limit_value = value;
    n->limit_reached = reached;
}

static int64_t reached(const struct call_result *r)
{
    return strcmp(r->limit, "timeout") == 0 || strcmp(r->limit, "time") == 0 ? r->wall_ns
           : strcmp(r->limit, "memory") == 0                                 ? r->max_rss
                                                                             : -1;
}

static void sandbox_file(const struct engine *e, const struct call_note *n, const struct role_call_outcome *o)
{
    AUTO_JSON json_t *doc = json_object();
    json_set_int(doc, "version", 1);
    json_set_str(doc, "name", n->name);
    json_set_str(doc, "role", call_kind_text(n->kind));
    json_set_str(doc, "mechanism", o->mechanism);
    json_set_str(doc, "mechanism_version", o->mechanism_version);
    json_set_str(doc, "grade", o->grade);
    json_set_int(doc, "uid", o->uid);
    json_set_take(doc, "asked", json_incref(n->asked));
    json_set_take(doc, "enforced", o->checks != NULL ? json_incref(o->checks) : json_null());
    if (!o->opened) {
        json_set_str(doc, "error", o->err.message);
    }
    engine_sandbox_record(e, call_kind_text(n->kind), n->sandbox, doc);
}

int call_note_ended(struct engine *e, struct call_note *n, struct role_call_outcome *o, struct orch_err *err)
{
    if (o->checks != NULL) {
        (void)json_object_del(o->checks, "asked"); /* ours names variables without their values */
    }
    sandbox_file(e, n, o);
    if (o->opened) {
        AUTO_FREE char *text = o->checks != NULL ? json_canonical(o->checks) : NULL;
        AUTO_FREE char *checks = text != NULL ? redact_text(e->redactor, text) : NULL;
        TRY(record_sandbox_checked(e->record, n->sandbox, o->grade, NULL, checks, NULL, err));
        free(n->grade);
        n->grade = xstrdup(o->grade);
    }
    TRY(fault_point(FAULT_SANDBOX_CLOSED, err));
    TRY(record_sandbox_closed(e->record, n->sandbox, o->opened ? "removed" : "never opened", NULL, err));
    call_result_take(&n->end, &o->call);
    n->reached = o->err.code == 0;
    if (n->reached && n->end.end == CALL_LIMIT) {
        call_note_limit(n, n->end.limit, n->end.limit_value, reached(&n->end));
    }
    return n->reached ? record_call_phase(e->record, n->call, PHASE_EXITED, NULL, NULL, err) : 0;
}

void call_note_left_out(struct call_note *n, const struct handoff_report *report)
{
    if (report->dropped == 0) {
        return;
    }
    AUTO_JSON json_t *o = json_object();
    json_set_int(o, "left_out", (int64_t)report->dropped);
    json_t *list = json_array();
    json_set_take(o, "first", list);
    for (size_t i = 0; i < report->note_count && json_array_size(list) < LEFT_OUT_NAMED; i++) {
        const struct handoff_note *note = &report->notes[i];
        if (!handoff_reason_drops(note->reason)) {
            continue;
        }
        json_t *entry = json_object();
        json_set_text(entry, "path", note->path, strlen(note->path));
        json_set_str(entry, "reason", handoff_reason_name(note->reason));
        json_add_take(list, entry);
    }
    free(n->left_out);
    n->left_out = json_canonical(o);
}

/* Head, a line that says what is missing, tail: one object a stream. */
static int keep_capture(struct engine *e, const struct capture *c, struct kept *ret, struct orch_err *err)
{
    if (c->total == 0) {
        return 0;
    }
    AUTO_BUF struct buf b;
    buf_init(&b, c->head_len + c->tail_len + 128);
    buf_add(&b, c->head, c->head_len);
    if (c->dropped > 0) {
        buf_fmt(&b, "\n[orch: %llu bytes left out]\n", (unsigned long long)c->dropped);
    }
    buf_add(&b, c->tail, c->tail_len);
    return objects_keep(e->objects, b.data, b.len, (int64_t)b.max, KEEP_CUT, ret, err);
}

int call_note_keep(struct engine *e, struct call_note *n, struct orch_err *err)
{
    TRY(keep_capture(e, &n->end.out, &n->out, err));
    return keep_capture(e, &n->end.errout, &n->errout, err);
}

static enum exit_kind exit_of(const struct call_note *n)
{
    static const enum exit_kind kinds[] = {
        [CALL_UNKNOWN] = EXIT_LOST,
        [CALL_EXITED] = EXIT_EXITED,
        [CALL_SIGNALLED] = EXIT_SIGNALLED,
        [CALL_LIMIT] = EXIT_LIMIT,
    };
    return n->reached ? kinds[n->end.end] : n->started ? EXIT_LOST : EXIT_UNKNOWN;
}

int call_note_settle(struct engine *e, struct call_note *n, const char *output_tree, struct orch_err *err)
{
    if (n->call == 0) {
        return 0;
    }
    if (n->reached) {
        TRY(record_call_phase(e->record, n->call, PHASE_COLLECTED, NULL, NULL, err));
    }
    struct record_call_result r = {
        .exit = exit_of(n),
        .code = n->end.code,
        .reason = n->limit[0] != '\0' ? n->limit : NULL,
        .grade = n->grade,
        .output_tree = output_tree,
        .data = n->left_out,
        .stdout_digest = n->out.digest[0] != '\0' ? n->out.digest : NULL,
        .stderr_digest = n->errout.digest[0] != '\0' ? n->errout.digest : NULL,
        .usage = {.wall_ns = n->reached ? n->end.wall_ns : -1,
                  .cpu_ns = n->reached ? n->end.cpu_ns : -1,
                  .rss_bytes = n->reached ? n->end.max_rss : -1},
    };
    TRY(record_call_settle(e->record, n->call, &r, NULL, err));
    return fault_point(FAULT_CALL_SETTLED, err);
}

void call_note_done(struct call_note *n)
{
    json_decref(n->asked);
    free(n->grade);
    free(n->left_out);
    call_result_done(&n->end);
    *n = (struct call_note){0};
}

/* ------------------------------------------------------------------ host judge */

static int keep_text(struct engine *e, const char *data, size_t len, struct kept *ret, struct orch_err *err)
{
    return len == 0 ? 0 : objects_keep(e->objects, data, len, (int64_t)len, KEEP_CUT, ret, err);
}

int host_judge_note(struct engine *e, const struct batch_item *item, const struct host_judgement *j,
                    struct orch_err *err)
{
    struct call_plan plan = {
        .kind = CALL_JUDGE, .trial = item->trial, .incarnation = item->incarnation, .step = -1, .environment = "host"};
    int64_t id = 0;
    TRY(record_call_plan(e->record, &plan, &id, NULL, err));
    struct kept out = {0};
    struct kept errout = {0};
    TRY(keep_text(e, j->out, j->out_len, &out, err));
    TRY(keep_text(e, j->errout, j->errout_len, &errout, err));
    bool ran = strcmp(j->reason, "judge-start") != 0;
    bool exited = ran && strcmp(j->reason, "judge-signal") != 0 && strcmp(j->reason, "judge-timeout") != 0;
    struct record_call_result r = {
        .exit = exited ? EXIT_EXITED
                : ran  ? EXIT_SIGNALLED
                       : EXIT_UNKNOWN,
        .code = j->exit_code,
        .reason = j->code < 0 ? j->reason : NULL,
        .grade = "host-runner",
        .stdout_digest = out.digest[0] != '\0' ? out.digest : NULL,
        .stderr_digest = errout.digest[0] != '\0' ? errout.digest : NULL,
        .usage = {.wall_ns = j->wall_ns, .cpu_ns = -1, .rss_bytes = -1},
    };
    return record_call_settle(e->record, id, &r, NULL, err);
}

/* ------------------------------------------------------------------ collect */

/* "output", "output/" → ""; "output/a/b/" → "a/b"; NULL: nothing of the output. Owned. */
static char *below_output(const char *entry)
{
    if (strncmp(entry, "output", 6) != 0 || (entry[6] != '/' && entry[6] != '\0')) {
        return NULL;
    }
    const char *below = entry + 6 + strspn(entry + 6, "/");
    size_t n = strlen(below);
    while (n > 0 && below[n - 1] == '/') {
        n--;
    }
    return xmemdup0(below, n);
}

enum wanted { WANTED_NOT, WANTED_WHOLE, WANTED_PART };

static bool begins_with_path(const char *path, const char *prefix)
{
    size_t n = strlen(prefix);
    return n == 0 || (strncmp(path, prefix, n) == 0 && (path[n] == '/' || path[n] == '\0'));
}

static enum wanted wanted(char *const *collect, const char *path)
{
    enum wanted w = WANTED_NOT;
    for (size_t i = 0; collect[i] != NULL; i++) {
        AUTO_FREE char *below = below_output(collect[i]);
        if (below != NULL && begins_with_path(path, below)) {
            return WANTED_WHOLE;
        }
        if (below != NULL && begins_with_path(below, path)) {
            w = WANTED_PART;
        }
    }
    return w;
}

static int list_names(int dirfd, char ***ret, struct orch_err *err)
{
    int copy = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (dir == NULL) {
        fd_close(&copy);
        return err_errno(err, ORCH_E_IO, "read what was collected");
    }
    const struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe): own stream */
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            *ret = strv_append(*ret, xstrdup(entry->d_name));
        }
    }
    (void)closedir(dir);
    return 0;
}

/* Depth is bounded by the entries of judge.collect: only directories above one of them are entered. */
static int keep_wanted(char *const *collect, int dirfd, const char *prefix, struct orch_err *err)
{
    AUTO_STRV char **names = NULL;
    TRY(list_names(dirfd, &names, err));
    for (size_t i = 0; names != NULL && names[i] != NULL; i++) {
        AUTO_FREE char *path = path_join(prefix, names[i]);
        enum wanted w = wanted(collect, path);
        if (w == WANTED_NOT) {
            TRY(fd_remove_tree(dirfd, names[i], err));
        } else if (w == WANTED_PART) {
            struct orch_err no_dir = ERR_INIT;
            AUTO_FD int below = fd_open_beneath(dirfd, names[i], O_RDONLY | O_DIRECTORY, 0, &no_dir);
            if (below < 0) {
                TRY(fd_remove_tree(dirfd, names[i], err)); /* a file where a directory was named */
            } else {
                TRY(keep_wanted(collect, below, path, err));
            }
        }
    }
    return 0;
}

int collect_only(char *const *collect, int collected_fd, struct orch_err *err)
{
    return keep_wanted(collect, collected_fd, "", err);
}
