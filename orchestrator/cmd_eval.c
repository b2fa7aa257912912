/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/find_run.h"
#include "orchestrator/finish.h"
#include "orchestrator/run_verb.h"
#include "orchestrator/trials.h"
#include "orchestrator/verbs.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REPEATS_MAX 10000

struct chosen { /* what is evaluated */
    const char *selector;
    char *source_run;     /* NULL: none, or a directory */
    char *dir;            /* a directory given as the selector */
    struct version_id id; /* in the source run's repository */
    char tree_digest[DIGEST_TEXT_MAX];
    int64_t repeats;
};

static void chosen_done(struct chosen *c)
{
    free(c->source_run);
    free(c->dir);
}

static bool is_none(const struct chosen *c)
{
    return strcmp(c->selector, "none") == 0;
}

static int choose_source(struct engine *e, struct chosen *c, struct orch_err *err)
{
    const char *given = verb_option_value(e->call, "run");
    if (given != NULL) {
        return layout_run_select(&e->layout, given, &c->source_run, err);
    }
    bool of_the_end = strcmp(c->selector, "final") == 0 || strcmp(c->selector, "best") == 0;
    int code = find_run_source(e, of_the_end, &c->source_run, err);
    return code < 0 ? err_wrap(err, "--adapter %s needs a run (`orch run` first, or --run ID)", c->selector) : 0;
}

static int choose(struct engine *e, struct chosen *c, struct orch_err *err)
{
    if (is_none(c)) {
        return 0;
    }
    if (strchr(c->selector, '/') != NULL || strcmp(c->selector, ".") == 0) {
        TRY(path_real(c->selector, &c->dir, err));
        struct stat st;
        if (stat(c->dir, &st) < 0 || !S_ISDIR(st.st_mode)) {
            return err_set(err, ORCH_E_USAGE, "--adapter %s is no directory", c->selector);
        }
        TRY(engine_scan_tree(c->dir, "an adapter", err)); /* before a run is made of it */
        return contents_digest(c->dir, c->tree_digest, err);
    }
    TRY(choose_source(e, c, err));
    AUTO_FREE char *path = layout_run_path(&e->layout, c->source_run, RUN_VERSIONS);
    AUTO_VERSIONS struct versions *v = NULL;
    TRY(versions_open(NULL, path, &v, err));
    int code = versions_resolve(v, c->selector, &c->id, err);
    return code < 0 ? err_wrap(err, "run %s", c->source_run) : 0;
}

static json_t *meaning_of(const struct chosen *c)
{
    json_t *m = json_object();
    json_set_str(m, "adapter", is_none(c) ? "none" : c->dir != NULL ? c->tree_digest : c->id.tree);
    json_set_int(m, "repeats", c->repeats);
    return m;
}

/* ------------------------------------------------------------------ the version, in a record of its own */

struct import_job {
    struct engine *e;
    const struct chosen *c;
    struct version_id id;
    int code;
    struct orch_err err;
};

static int import(struct import_job *j)
{
    struct engine *e = j->e;
    AUTO_FREE char *fresh = NULL;
    if (j->c->dir == NULL) {
        TRY(engine_fresh_dir(e, "source", &fresh, &j->err));
        AUTO_FD int out = fd_open(fresh, O_RDONLY | O_DIRECTORY, 0, &j->err);
        TRY(out);
        AUTO_FREE char *path = layout_run_path(&e->layout, j->c->source_run, RUN_VERSIONS);
        AUTO_VERSIONS struct versions *v = NULL;
        TRY(versions_open(NULL, path, &v, &j->err));
        TRY(versions_checkout(v, j->c->id.sha, out, &j->err));
    }
    AUTO_FD int fd = fd_open(fresh != NULL ? fresh : j->c->dir, O_RDONLY | O_DIRECTORY, 0, &j->err);
    TRY(fd);
    AUTO_FREE char *message = xasprintf("adapter %s", j->c->selector);
    struct version_commit commit = {
        .dirfd = fd, .message = message, .tag = "v0", .wall_ns = clock_wall_ns(&e->clock), .redactor = e->redactor};
    return versions_commit(e->versions, &commit, &j->id, &j->err);
}

static void import_run(void *arg)
{
    struct import_job *j = arg;
    j->code = import(j);
}

static bool keep_ref(void *arg, const struct version_add *row, int64_t added_ns)
{
    (void)added_ns;
    struct version_ref *ref = arg;
    ref->number = row->number;
    memcpy(ref->sha, row->sha, strnlen(row->sha, sizeof ref->sha - 1) + 1);
    memcpy(ref->tree, row->tree, strnlen(row->tree, sizeof ref->tree - 1) + 1);
    return false;
}

static bool see_step(void *arg, const struct step_row *row)
{
    *(bool *)arg = row->number == 0;
    return false;
}

static int prepare_version(struct engine *e, const struct chosen *c, struct version_ref *ret, struct orch_err *err)
{
    bool planned = false;
    TRY(record_steps(e->record, see_step, &planned, err));
    if (!planned) {
        TRY(record_step_plan(e->record, 0, VERSION_NONE, "[]", NULL, err));
    }
    *ret = (struct version_ref){.number = VERSION_NONE};
    TRY(record_versions(e->record, keep_ref, ret, err));
    if (is_none(c) || ret->number != VERSION_NONE) {
        return 0;
    }
    struct import_job j = {.e = e, .c = c, .err = ERR_INIT};
    engine_work(e, import_run, &j);
    if (j.code < 0) {
        *err = j.err;
        return j.code;
    }
    struct version_add add = {.number = 0, .state = VERSION_ACCEPTED, .sha = j.id.sha, .tree = j.id.tree};
    TRY(record_version_add(e->record, &add, RECORD_FSYNC(NULL, NULL), err));
    (void)keep_ref(ret, &add, 0);
    return engine_settle(e, err);
}

/* ------------------------------------------------------------------ the verb */

static int evaluate(struct engine *e, const struct chosen *c, int *ret_status, struct orch_err *err)
{
    TRY(engine_start(e, false, err));
    struct version_ref version;
    TRY(prepare_version(e, c, &version, err));
    size_t count = tasks_split_count(e->tasks, TASKS_TEST);
    AUTO_FREE size_t *rows = xcalloc(count, sizeof *rows);
    for (size_t i = 0; i < count; i++) {
        rows[i] = tasks_split_row(e->tasks, TASKS_TEST, i);
    }
    AUTO_FREE char *title = xasprintf("eval test, adapter %s", c->selector);
    struct trial_set set = {.title = title,
                            .version = &version,
                            .split = SPLIT_TEST,
                            .step = 0,
                            .repeats = c->repeats,
                            .samples = e->config->task.samples,
                            .rows = rows,
                            .row_count = count};
    int code = trials_run(e, &set, err);
    bool by_budget = code == ORCH_E_BUDGET;
    if (by_budget) {
        err_clear(err);
    } else {
        TRY(code);
    }
    struct finish f = {.kind = "eval",
                       .stop_reason = by_budget ? "budget" : "evaluated",
                       .adapter = c->selector,
                       .source_run = c->source_run != NULL ? c->source_run : "-"};
    return finish_run(e, &f, ret_status, err);
}

static int read_repeats(const struct engine *e, int64_t *ret, struct orch_err *err)
{
    const char *text = verb_option_value(e->call, "repeats");
    *ret = e->config->eval.repeats;
    if (text == NULL) {
        return 0;
    }
    char *end = NULL;
    long n = strtol(text, &end, 10);
    if (*text == '\0' || *end != '\0' || n < 1 || n > REPEATS_MAX) {
        return err_set(err, ORCH_E_USAGE, "--repeats %s: expected a whole number from 1 to %d", text, REPEATS_MAX);
    }
    *ret = n;
    return 0;
}

static int open_eval(struct engine *e, const struct chosen *c, bool *ret_complete, struct orch_err *err)
{
    AUTO_START_GUARD int guard = -1;
    TRY(start_guard_take(e, &guard, err));
    enum found found = FOUND_NONE;
    AUTO_FREE char *id = NULL;
    if (!verb_flag(e->call, "new")) {
        TRY(find_run(e, "eval", false, &found, &id, err));
    }
    *ret_complete = found == FOUND_FINISHED;
    if (found == FOUND_FINISHED) {
        verb_print(e->call, "eval %s is complete; nothing was run (--new starts another, `orch show %s` shows it)\n",
                   id, id);
        return 0;
    }
    if (found == FOUND_UNFINISHED) {
        return engine_adopt(e, id, err);
    }
    TRY(engine_create(e, "eval", err));
    TRY(record_meta_set(e->record, "adapter", c->selector, NULL, err));
    return record_meta_set(e->record, "source_run", c->source_run != NULL ? c->source_run : "", NULL, err);
}

static int eval(struct engine *e, const struct verb_call *call, struct chosen *c, int *ret_status, struct orch_err *err)
{
    TRY(engine_load(e, call, call->args[0], call->args + 1, err));
    if (tasks_split_count(e->tasks, TASKS_TEST) == 0) {
        return err_set(err, ORCH_E_CONFIG, "data.test: the test split is empty; `orch eval` measures on it");
    }
    TRY(read_repeats(e, &c->repeats, err));
    TRY(choose(e, c, err));
    TRY(engine_meaning(e, "eval", meaning_of(c), err));
    bool complete = false;
    TRY(open_eval(e, c, &complete, err));
    return complete ? 0 : evaluate(e, c, ret_status, err);
}

static int cmd_eval_main(const struct verb_call *call)
{
    struct engine e = {0};
    struct orch_err err = ERR_INIT;
    const char *selector = verb_option_value(call, "adapter");
    __attribute__((cleanup(chosen_done))) struct chosen c = {.selector = selector != NULL ? selector : "final"};
    int status = 0;
    int code = eval(&e, call, &c, &status, &err);
    return run_verb_end(&e, call, code, status, &err);
}

static const struct verb_option eval_options[] = {
    {"adapter", "SEL", "none, root, final, best, a tag, a commit, or a directory (with a /); default final"},
    {"run", "RUN", "the run whose versions are meant (default: the newest of the config's name)"},
    {"repeats", "N", "measure each task N times (default: eval.repeats)"},
    {"new", NULL, "measure again, whatever exists"},
    {NULL, NULL, NULL},
};

const struct verb cmd_eval = {
    .name = "eval",
    .summary = "Measure one version on the held-out test split",
    .usage = "orch eval FILE [--adapter SEL] [--run RUN] [--repeats N] [key.path=value…]",
    .help = "An evaluation is a run of its own, with its own record. Stopped, the same command goes on with it.\n"
            "\n"
            "Examples:\n"
            "  orch eval run.yaml --adapter root\n"
            "  orch eval run.yaml --adapter final --repeats 3\n"
            "  orch eval run.yaml --adapter ./my-adapter/\n",
    .options = eval_options,
    .min_args = 1,
    .max_args = SIZE_MAX,
    .run = cmd_eval_main,
};
