/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/find_run.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "state/fingerprint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

int find_run_meta(const struct layout *l, const struct clock *clock, const char *run_id, const char *key, char **ret,
                  struct orch_err *err)
{
    AUTO_FREE char *dir = layout_run_dir(l, run_id);
    AUTO_RECORD struct record *rec = NULL;
    TRY(record_open(dir, RECORD_READ, clock, &rec, err));
    return record_meta_text(rec, key, ret, err);
}

static void print_change(const struct fingerprint_change *c)
{
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_LINE);
    buf_escaped(&b, c->path, strlen(c->path), false);
    buf_str(&b, ": ");
    buf_escaped(&b, c->before, strlen(c->before), false);
    buf_str(&b, " -> ");
    buf_escaped(&b, c->after, strlen(c->after), false);
    fprintf(stderr, "  %s\n", b.data);
}

static int drift(struct engine *e, const char *run_id, struct orch_err *err)
{
    AUTO_FREE char *text = NULL;
    TRY(find_run_meta(&e->layout, &e->clock, run_id, "fingerprint_document", &text, err));
    AUTO_JSON json_t *before = NULL;
    TRY(json_parse(text, strlen(text), RECORD_TEXT_MAX, &before, err));
    AUTO_FINGERPRINT_DIFF struct fingerprint_diff d = {0};
    fingerprint_compare(before, e->meaning, &d);
    if (!e->call->json) {
        fprintf(stderr, "changed since run %s:\n", run_id);
        for (size_t i = 0; i < d.count; i++) {
            print_change(&d.items[i]);
        }
        if (d.more > 0) {
            fprintf(stderr, "  and %zu more\n", d.more);
        }
    }
    return err_set(err, ORCH_E_DRIFT, "%zu field%s from run %s, first: %s", d.count + d.more,
                   d.count + d.more == 1 ? " differs" : "s differ", run_id,
                   d.count > 0 ? d.items[0].path : "fingerprint");
}

int find_run_compare(struct engine *e, const char *run_id, struct orch_err *err)
{
    char now[FINGERPRINT_MAX];
    fingerprint_of(e->meaning, now);
    AUTO_FREE char *then = NULL;
    TRY(find_run_meta(&e->layout, &e->clock, run_id, "fingerprint", &then, err));
    return strcmp(now, then) == 0 ? 0 : drift(e, run_id, err);
}

int start_guard_take(struct engine *e, int *ret_guard, struct orch_err *err)
{
    TRY(layout_make(&e->layout, err));
    AUTO_FREE char *path = path_join(e->layout.local, "start.lock");
    int fd = fd_open(path, O_RDWR | O_CREAT, 0600, err);
    TRY(fd);
    int r;
    do {
        r = flock(fd, LOCK_EX);
    } while (r < 0 && errno == EINTR);
    *ret_guard = fd; /* a file system without locks has one user at a time, or the run's own lock decides */
    return 0;
}

void start_guard_drop(int *guard)
{
    fd_close(guard);
}

struct facts {
    char *kind;
    char *state;
    char *fingerprint;
};

static void facts_done(struct facts *f)
{
    free(f->kind);
    free(f->state);
    free(f->fingerprint);
}

static int read_facts(const struct engine *e, const char *id, struct facts *f, struct orch_err *err)
{
    AUTO_FREE char *dir = layout_run_dir(&e->layout, id);
    AUTO_RECORD struct record *rec = NULL;
    int code = record_open(dir, RECORD_READ, &e->clock, &rec, err);
    if (code < 0) {
        return err_wrap(err, "run %s", id);
    }
    TRY(record_meta_text(rec, "kind", &f->kind, err));
    TRY(record_meta_text(rec, "state", &f->state, err));
    return record_meta_text(rec, "fingerprint", &f->fingerprint, err);
}

static int search(struct engine *e, const struct run_entry *runs, size_t count, const char *kind, enum found *ret,
                  char **ret_id, char **ret_newest, struct orch_err *err)
{
    char now[FINGERPRINT_MAX];
    fingerprint_of(e->meaning, now);
    for (size_t i = 0; i < count; i++) {
        __attribute__((cleanup(facts_done))) struct facts f = {0};
        if (!runs[i].has_record) {
            continue;
        }
        TRY(read_facts(e, runs[i].id, &f, err));
        if (strcmp(f.kind, kind) != 0) {
            continue;
        }
        if (*ret_newest == NULL) {
            *ret_newest = xstrdup(runs[i].id);
        }
        if (strcmp(f.fingerprint, now) == 0) {
            *ret = strcmp(f.state, "finished") == 0 ? FOUND_FINISHED : FOUND_UNFINISHED;
            *ret_id = xstrdup(runs[i].id);
            return 0;
        }
    }
    *ret = FOUND_NONE;
    return 0;
}

int find_run(struct engine *e, const char *kind, bool strict, enum found *ret, char **ret_id, struct orch_err *err)
{
    AUTO_FREE struct run_entry *runs = NULL;
    size_t count = 0;
    TRY(layout_runs(&e->layout, e->config->name, &runs, &count, err));
    AUTO_FREE char *newest = NULL;
    TRY(search(e, runs, count, kind, ret, ret_id, &newest, err));
    return *ret == FOUND_NONE && strict && newest != NULL ? drift(e, newest, err) : 0;
}

int find_run_source(struct engine *e, bool finished, char **ret_id, struct orch_err *err)
{
    AUTO_FREE struct run_entry *runs = NULL;
    size_t count = 0;
    TRY(layout_runs(&e->layout, e->config->name, &runs, &count, err));
    for (size_t i = 0; i < count; i++) {
        __attribute__((cleanup(facts_done))) struct facts f = {0};
        if (!runs[i].has_record) {
            continue;
        }
        TRY(read_facts(e, runs[i].id, &f, err));
        if (strcmp(f.kind, "run") == 0 && (!finished || strcmp(f.state, "finished") == 0)) {
            *ret_id = xstrdup(runs[i].id);
            return 0;
        }
    }
    return err_set(err, ORCH_E_NOT_FOUND, "no %srun of \"%s\" yet", finished ? "finished " : "", e->config->name);
}
