/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/last_record.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "state/layout.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#define RECORD_MAX ((size_t)16 << 20)

/* The file of `dir` that was changed last; NULL when it has none. *ret_ns: when. Owned. */
static char *newest_file(const char *dir, int64_t *ret_ns)
{
    DIR *d = opendir(dir);
    char *best = NULL;
    const struct dirent *e;
    while (d != NULL && (e = readdir(d)) != NULL) { /* NOLINT(concurrency-mt-unsafe): own stream */
        AUTO_FREE char *path = path_join(dir, e->d_name);
        struct stat st;
        if (e->d_name[0] == '.' || lstat(path, &st) < 0 || !S_ISREG(st.st_mode)) {
            continue;
        }
        int64_t ns = (int64_t)st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec;
        if (best == NULL || ns > *ret_ns) {
            free(best);
            best = take(path);
            *ret_ns = ns;
        }
    }
    if (d != NULL) {
        (void)closedir(d);
    }
    return best;
}

static json_t *describe(const char *run, const char *file, int64_t ns)
{
    struct orch_err err = ERR_INIT;
    AUTO_JSON json_t *record = NULL;
    if (json_parse_file(file, RECORD_MAX, &record, &err) < 0) {
        return NULL; /* half written by a crash: nothing to tell */
    }
    char written[CLOCK_TEXT_MAX];
    json_t *o = json_object();
    json_set_str(o, "run", run);
    json_set_str(o, "file", file);
    json_set_str(o, "written", clock_iso(ns, written));
    static const char *const texts[] = {"role", "grade", "mechanism", "mechanism_version", "error"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        json_set_str(o, texts[i], json_get_str(record, texts[i], NULL));
    }
    json_t *enforced = json_get(json_get(record, "enforced"), "enforced"); /* beside the checks */
    json_set_take(o, "enforced", enforced != NULL ? json_incref(enforced) : json_null());
    return o;
}

json_t *last_record(const struct verb_call *call)
{
    AUTO_LAYOUT struct layout layout = {0};
    AUTO_FREE struct run_entry *runs = NULL;
    size_t count = 0;
    struct orch_err err = ERR_INIT;
    if (layout_find(NULL, verb_option_value(call, "project"), NULL, &layout, &err) < 0 ||
        layout_runs(&layout, NULL, &runs, &count, &err) < 0) {
        return NULL;
    }
    json_t *found = NULL;
    for (size_t i = 0; i < count && found == NULL; i++) {
        AUTO_FREE char *dir = layout_run_path(&layout, runs[i].id, RUN_SANDBOX);
        int64_t ns = 0;
        AUTO_FREE char *file = newest_file(dir, &ns);
        found = file != NULL ? describe(runs[i].id, file, ns) : NULL;
    }
    return found;
}
