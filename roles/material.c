/* SPDX-License-Identifier: Apache-2.0 */
#include "roles/material.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"

#include <fcntl.h>
#include <string.h>

struct writer {
    struct record *rec;
    struct objects *objects;
    const struct tasks *tasks;
    const char *dir;
    json_t *rows; /* one object a trial, without task text and output: those need the record and the file */
    int64_t kinds[RESULT_COUNT];
    double score_sum;
    int64_t scores;
    int64_t base_version;
};

static int write_json(const char *dir, const char *name, const char *text, struct orch_err *err)
{
    AUTO_FREE char *path = path_join(dir, name);
    AUTO_FD int fd = fd_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644, err);
    TRY(fd);
    return fd_write_all(fd, text, strlen(text), err);
}

static json_t *parsed_or_null(const char *text)
{
    json_t *value = NULL;
    struct orch_err err = ERR_INIT;
    if (text == NULL || json_parse(text, strlen(text), RECORD_TEXT_MAX, &value, &err) < 0) {
        return json_null();
    }
    return value;
}

static bool gather(void *arg, const struct trial_row *row)
{
    struct writer *w = arg;
    const struct trial_result *r = &row->result;
    json_t *o = json_object();
    json_set_str(o, "id", row->key.task);
    json_set_int(o, "sample", row->key.sample);
    json_set_str(o, "result", result_kind_text(r->kind));
    json_set_take(o, "score", r->has_score ? json_real(r->score) : json_null());
    json_set_take(o, "metrics", parsed_or_null(r->metrics));
    json_set_str(o, "feedback", r->feedback != NULL ? r->feedback : "");
    json_set_str(o, "reason", r->reason);
    json_set_str(o, "output_tree", r->output_tree);
    json_add_take(w->rows, o);
    w->kinds[r->kind]++;
    w->base_version = row->key.version;
    if (r->has_score) {
        w->score_sum += r->score;
        w->scores++;
    }
    return true;
}

/* The files of one output tree as text, the first bytes of each. */
static int add_output(struct writer *w, json_t *row, struct orch_err *err)
{
    json_t *out = json_object();
    json_set_take(row, "output", out);
    bool cut = false;
    const char *tree = json_get_str(row, "output_tree", NULL);
    if (tree != NULL) {
        AUTO_JSON json_t *manifest = NULL;
        TRY(objects_tree(w->objects, tree, &manifest, err));
        size_t total = 0;
        const char *path;
        json_t *entry;
        json_object_foreach(json_object_get(manifest, "entries"), path, entry)
        {
            const char *digest = json_get_str(entry, "digest", NULL);
            if (digest == NULL) {
                continue; /* a directory */
            }
            int64_t size = json_get_int(entry, "size", 0);
            if (size > (int64_t)MATERIAL_OUTPUT_FILE_MAX || total + (size_t)size > MATERIAL_OUTPUT_TOTAL_MAX) {
                cut = true;
                continue;
            }
            AUTO_FREE char *data = NULL;
            size_t len = 0;
            TRY(objects_read(w->objects, digest, MATERIAL_OUTPUT_FILE_MAX, &data, &len, err));
            json_set_text(out, path, data, len);
            total += len;
        }
    }
    json_set_flag(row, "output_cut", cut);
    json_object_del(row, "output_tree");
    return 0;
}

/* The training row goes in as it stands in the data: numbers of any size verbatim. */
static int write_task(struct writer *w, size_t place, json_t *row, struct orch_err *err)
{
    TRY(add_output(w, row, err));
    size_t index = 0;
    if (!tasks_find(w->tasks, json_get_str(row, "id", ""), &index)) {
        return err_set(err, ORCH_E_DRIFT, "task %s is no longer in the data", json_get_str(row, "id", ""));
    }
    AUTO_FREE char *text = NULL;
    size_t len = 0;
    TRY(tasks_read_row(w->tasks, index, &text, &len, err));
    AUTO_FREE char *rest = json_pretty(row);
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_TEXT * 2);
    buf_str(&b, "{\n  \"task\": ");
    buf_add(&b, text, len);
    buf_str(&b, ",\n  ");
    buf_str(&b, rest + strcspn(rest, "\"")); /* the members after "{" */
    char name[32];
    (void)snprintf(name, sizeof name, "tasks/%04zu.json", place + 1);
    return write_json(w->dir, name, b.data, err);
}

static int write_summary(struct writer *w, int64_t step, struct orch_err *err)
{
    AUTO_JSON json_t *s = json_object();
    json_set_int(s, "version", 1);
    json_set_int(s, "step", step);
    json_set_int(s, "base_version", w->base_version);
    json_set_take(s, "mean_score", w->scores > 0 ? json_real(w->score_sum / (double)w->scores) : json_null());
    json_set_int(s, "tasks", (int64_t)json_array_size(w->rows));
    json_t *kinds = json_object();
    for (int k = 0; k < RESULT_COUNT; k++) {
        json_set_int(kinds, result_kind_text((enum result_kind)k), w->kinds[k]);
    }
    json_set_take(s, "results", kinds);
    AUTO_FREE char *text = json_pretty(s);
    return write_json(w->dir, "summary.json", text, err);
}

int material_write(struct record *rec, struct objects *objects, const struct tasks *tasks, int64_t step,
                   const char *dir, struct orch_err *err)
{
    AUTO_JSON json_t *rows = json_array();
    struct writer w = {.rec = rec, .objects = objects, .tasks = tasks, .dir = dir, .rows = rows};
    struct trial_filter filter = TRIAL_FILTER_ANY;
    filter.step = step;
    filter.split = SPLIT_TRAIN;
    TRY(record_trials(rec, &filter, gather, &w, err));
    AUTO_FREE char *tasks_dir = path_join(dir, "tasks");
    TRY(fd_mkdirs(tasks_dir, 0755, err));
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        TRY(write_task(&w, i, row, err));
    }
    return write_summary(&w, step, err);
}
