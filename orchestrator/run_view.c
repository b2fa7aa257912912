/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/run_view.h"

#include "base/buf.h"
#include "base/mem.h"
#include "config/units.h"

#include <inttypes.h>
#include <string.h>

#define CANDIDATES_NAMED 12

int run_view_project(const struct verb_call *call, struct layout *ret, struct orch_err *err)
{
    return layout_find(NULL, verb_option_value(call, "project"), verb_option_value(call, "state-dir"), ret, err);
}

int run_view_open_id(const struct verb_call *call, const struct layout *layout, const char *id, struct run_view *ret,
                     struct orch_err *err)
{
    AUTO_RUN_VIEW struct run_view v = {0};
    ret->clock = call->clock; /* the record may keep a pointer to it */
    v.id = xstrdup(id);
    v.dir = layout_run_dir(layout, id);
    /* Before the record: an owner that ends in between is seen as ended, with all it wrote. */
    TRY(lock_look(v.dir, &v.owner, err));
    TRY(record_open(v.dir, RECORD_READ, &ret->clock, &v.record, err));
    ret->id = take(v.id);
    ret->dir = take(v.dir);
    ret->record = take(v.record);
    ret->owner = v.owner;
    return 0;
}

int run_view_open(const struct verb_call *call, const char *selector, struct run_view *ret, struct orch_err *err)
{
    AUTO_LAYOUT struct layout layout = {0};
    AUTO_FREE char *id = NULL;
    TRY(run_view_project(call, &layout, err));
    TRY(layout_run_select(&layout, selector != NULL ? selector : "latest", &id, err));
    TRY(run_view_open_id(call, &layout, id, ret, err));
    ret->layout = layout;
    layout = (struct layout){0};
    return 0;
}

void run_view_done(struct run_view *v)
{
    record_release(&v->record);
    free(v->id);
    free(v->dir);
    layout_done(&v->layout);
    *v = (struct run_view){0};
}

int run_view_meta(struct run_view *v, const char *key, char **ret, struct orch_err *err)
{
    return record_meta_text(v->record, key, ret, err);
}

int run_view_state(struct run_view *v, char **ret, struct orch_err *err)
{
    AUTO_FREE char *state = NULL;
    TRY(record_meta_text(v->record, "state", &state, err));
    if (v->owner.held) {
        *ret = xstrdup("running");
    } else if (strcmp(state, "running") == 0 || state[0] == '\0') {
        *ret = xstrdup("interrupted");
    } else {
        *ret = take(state);
    }
    return 0;
}

struct search {
    int64_t id;
    size_t count;
    struct buf named;
};

static bool found(void *arg, const struct trial_row *row)
{
    struct search *s = arg;
    s->id = row->id;
    s->count++;
    if (s->count <= CANDIDATES_NAMED) {
        buf_fmt(&s->named, "%s%" PRId64, s->count > 1 ? ", " : "", row->id);
    }
    return true;
}

static bool keep_id(void *arg, const struct trial_row *row)
{
    *(int64_t *)arg = row->id;
    return false;
}

int run_view_trial(struct run_view *v, const char *selector, int64_t *ret, struct orch_err *err)
{
    const char *digits = strncmp(selector, "trial:", 6) == 0 ? selector + 6 : selector;
    int64_t number = 0;
    if (units_int(digits, &number) == NULL && number > 0) {
        struct orch_err absent = ERR_INIT;
        int64_t id = 0;
        int code = record_trial(v->record, number, keep_id, &id, &absent);
        if (code >= 0) {
            *ret = id;
            return 0;
        }
        if (code != ORCH_E_NOT_FOUND) {
            *err = absent;
            return code;
        }
    }
    struct search s = {0};
    buf_init(&s.named, BUF_MAX_LINE);
    struct trial_filter filter = TRIAL_FILTER_ANY;
    filter.task = selector;
    int code = record_trials(v->record, &filter, found, &s, err);
    AUTO_BUF struct buf named = s.named;
    TRY(code);
    if (s.count == 0) {
        return err_set(err, ORCH_E_NOT_FOUND,
                       "run %s has no trial and no task %.200s; `orch show %s --trials` lists them", v->id, selector,
                       v->id);
    }
    if (s.count > 1) {
        return err_set(err, ORCH_E_USAGE, "task %.200s has %zu trials: %s%s; name one by its number", selector, s.count,
                       named.data, s.count > CANDIDATES_NAMED ? ", …" : "");
    }
    *ret = s.id;
    return 0;
}
