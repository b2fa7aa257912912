/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "orchestrator/row_json.h"
#include "orchestrator/run_view.h"
#include "orchestrator/verbs.h"
#include "state/objects.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define POLL_MS 200
#define EVENTS_AT_ONCE 1000
#define STREAM_MAX ((size_t)64 << 20) /* of one stored output that is shown escaped */
#define PART_DEFAULT INT64_C(32768)   /* bytes shown from each end */
#define PART_MAX ((int64_t)32 << 20)
#define EVENT_DATA_MAX 300
#define CHUNK 65536

/* ---- Events ---------------------------------------------------------------- */

struct events {
    const struct verb_call *call;
    struct run_view *v;
    char subject[32]; /* only of this one; "": all */
    int64_t seq;      /* the last one seen */
    int64_t batch;    /* seen in this turn */
    json_t *array;    /* NULL: printed one by one */
};

static void print_event(const struct verb_call *call, const struct event_row *row)
{
    char when[CLOCK_TEXT_MAX];
    AUTO_BUF struct buf line;
    buf_init(&line, BUF_MAX_LINE);
    buf_fmt(&line, "%s ", clock_iso(row->wall_ns, when));
    buf_escaped(&line, row->kind, strlen(row->kind), false);
    if (row->subject != NULL && row->subject[0] != '\0') {
        buf_char(&line, ' ');
        buf_escaped(&line, row->subject, strlen(row->subject), false);
    }
    if (row->data != NULL && strcmp(row->data, "{}") != 0) {
        size_t len = strlen(row->data);
        size_t cut = utf8_cut(row->data, len, EVENT_DATA_MAX);
        buf_char(&line, ' ');
        buf_escaped(&line, row->data, cut, false);
        buf_str(&line, cut < len ? "…" : "");
    }
    verb_print(call, "%s\n", line.data);
}

static bool take_event(void *arg, const struct event_row *row)
{
    struct events *e = arg;
    e->seq = row->seq;
    e->batch++;
    if (e->subject[0] != '\0' && (row->subject == NULL || strcmp(row->subject, e->subject) != 0)) {
        return true;
    }
    if (!e->call->json) {
        print_event(e->call, row);
        return true;
    }
    json_t *event = row_json_event(row);
    if (e->array != NULL) {
        json_add_take(e->array, event);
        return true;
    }
    json_t *line = verb_json();
    (void)json_object_update(line, event);
    json_decref(event);
    verb_print_json_line(e->call, line);
    return true;
}

/* Everything there is now. */
static int read_events(struct events *e, struct orch_err *err)
{
    do {
        e->batch = 0;
        TRY(record_events(e->v->record, e->seq, EVENTS_AT_ONCE, take_event, e, err));
    } while (e->batch == EVENTS_AT_ONCE && ferror(stdout) == 0);
    (void)fflush(stdout);
    return 0;
}

static bool keep_phase(void *arg, const struct trial_row *row)
{
    *(enum phase *)arg = row->phase;
    return false;
}

/* Looked at before the events are read, so that the last ones are not missed. */
static int is_over(struct events *e, int64_t trial, bool *ret, struct orch_err *err)
{
    TRY(lock_look(e->v->dir, &e->v->owner, err));
    *ret = !e->v->owner.held;
    if (trial > 0 && !*ret) {
        enum phase phase = PHASE_PLANNED;
        TRY(record_trial(e->v->record, trial, keep_phase, &phase, err));
        *ret = phase == PHASE_SETTLED;
    }
    return 0;
}

/* A change of the record wakes it; the timer is for file systems that tell nothing. */
static void wait_for_change(int watch)
{
    struct pollfd fd = {.fd = watch, .events = POLLIN};
    if (poll(&fd, 1, POLL_MS) > 0) {
        char drop[4096];
        ssize_t ignored = read(watch, drop, sizeof drop);
        (void)ignored;
    }
}

static int follow(struct events *e, int64_t trial, struct orch_err *err)
{
    AUTO_FD int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (watch >= 0) {
        (void)inotify_add_watch(watch, e->v->dir, IN_MODIFY | IN_CREATE);
    }
    for (;;) {
        bool over = false;
        TRY(is_over(e, trial, &over, err));
        TRY(read_events(e, err));
        if (over || ferror(stdout) != 0) {
            break;
        }
        wait_for_change(watch);
    }
    AUTO_FREE char *state = NULL;
    TRY(run_view_state(e->v, &state, err));
    if (strcmp(state, "interrupted") == 0) {
        verb_note(e->call, "orch: the run was interrupted: its owner is gone; `orch resume %s` goes on", e->v->id);
    }
    return 0;
}

static int log_events(const struct verb_call *call, struct run_view *v, int64_t trial, struct orch_err *err)
{
    bool following = verb_flag(call, "follow");
    struct events e = {.call = call, .v = v};
    TRY(verb_option_int(call, "since", 0, INT64_MAX, &e.seq, err));
    if (trial > 0) {
        (void)snprintf(e.subject, sizeof e.subject, "trial:%" PRId64, trial);
    }
    if (following) {
        return follow(&e, trial, err);
    }
    AUTO_JSON json_t *array = call->json ? json_array() : NULL;
    e.array = array;
    TRY(read_events(&e, err));
    if (call->json) {
        json_t *document = verb_json();
        json_set_str(document, "run", v->id);
        json_set_int(document, "next", e.seq);
        json_set_take(document, "events", take(array));
        verb_print_json(call, document);
    }
    return 0;
}

/* ---- Output of calls ------------------------------------------------------- */

struct stored {
    int64_t call;
    enum call_kind kind;
    int64_t incarnation;
    enum exit_kind exit;
    int code;
    bool settled;
    char stream[2][DIGEST_TEXT_MAX]; /* "" when there is none */
    char left_out[300];              /* what the handoff of its output left out; "" for nothing */
};

struct outputs {
    const struct verb_call *call;
    struct objects *objects;
    struct stored *items; /* owned */
    size_t count;
    int64_t only_call; /* 0: all */
    int64_t part;      /* bytes from each end; INT64_MAX: everything */
    bool raw;
    json_t *array;
};

static const char *const stream_names[] = {"stdout", "stderr"};

static void tell_left_out(const char *data, char *out, size_t size)
{
    AUTO_JSON json_t *o = data != NULL ? json_loads(data, 0, NULL) : NULL;
    const json_t *first = json_array_get(json_get(o, "first"), 0);
    if (first == NULL) {
        return;
    }
    const char *path = json_get_str(first, "path", "");
    AUTO_BUF struct buf shown;
    buf_init(&shown, BUF_MAX_LINE);
    buf_escaped(&shown, path, strlen(path), false);
    (void)snprintf(out, size, "left out of its output: %lld, first %.200s (%s)",
                   (long long)json_get_int(o, "left_out", 0), shown.data, json_get_str(first, "reason", ""));
}

static bool keep_call(void *arg, const struct call_row *row)
{
    struct outputs *o = arg;
    if (o->only_call != 0 && o->only_call != row->id) {
        return true;
    }
    struct stored s = {
        .call = row->id,
        .kind = row->plan.kind,
        .incarnation = row->plan.incarnation,
        .exit = row->result.exit,
        .code = row->result.code,
        .settled = row->phase == PHASE_SETTLED,
    };
    tell_left_out(row->result.data, s.left_out, sizeof s.left_out);
    const char *digests[] = {row->result.stdout_digest, row->result.stderr_digest};
    for (size_t i = 0; i < ARRAY_LEN(digests); i++) {
        (void)snprintf(s.stream[i], sizeof s.stream[i], "%s", digests[i] != NULL ? digests[i] : "");
    }
    o->items = xrealloc(o->items, (o->count + 1) * sizeof *o->items);
    o->items[o->count++] = s;
    return true;
}

/* In pieces: an escaped byte can be four or more. */
static void print_escaped(const struct verb_call *call, const char *data, size_t len)
{
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_LINE);
    for (size_t at = 0; at < len;) {
        size_t n = utf8_cut(data + at, len - at, CHUNK);
        n = n > 0 ? n : 1;
        buf_reset(&b);
        buf_escaped(&b, data + at, n, true);
        verb_print(call, "%s", b.data);
        at += n;
    }
    if (len > 0 && data[len - 1] != '\n') {
        verb_print(call, "\n");
    }
}

static void print_ends(const struct outputs *o, const char *data, size_t len)
{
    if (o->part == INT64_MAX || len <= (size_t)o->part * 2) {
        print_escaped(o->call, data, len);
        return;
    }
    size_t head = utf8_cut(data, len, (size_t)o->part);
    size_t tail = len - (size_t)o->part;
    while (tail < len && ((unsigned char)data[tail] & 0xc0) == 0x80) {
        tail++; /* not from the middle of a character */
    }
    print_escaped(o->call, data, head);
    verb_print(o->call, "--- %zu of %zu bytes left out; --full shows them ---\n", tail - head, len);
    print_escaped(o->call, data + tail, len - tail);
}

static json_t *stream_json(const struct outputs *o, const char *digest, const char *data, size_t len)
{
    size_t max = o->part == INT64_MAX ? len : (size_t)o->part * 2;
    size_t shown = len > max ? utf8_cut(data + (len - max), max, max) : len;
    json_t *stream = json_object();
    json_set_str(stream, "digest", digest);
    json_set_int(stream, "bytes", (int64_t)len);
    json_set_flag(stream, "cut", shown < len);
    json_set_text(stream, "text", data + (len - shown), shown); /* the end tells most */
    return stream;
}

static int show_stream(struct outputs *o, const struct stored *s, size_t which, json_t *into, struct orch_err *err)
{
    const char *digest = s->stream[which];
    if (digest[0] == '\0') {
        return 0;
    }
    if (o->raw) {
        (void)fflush(stdout);
        return objects_write_fd(o->objects, digest, STDOUT_FILENO, err);
    }
    AUTO_FREE char *data = NULL;
    size_t len = 0;
    TRY(objects_read(o->objects, digest, STREAM_MAX, &data, &len, err));
    if (into != NULL) {
        json_set_take(into, stream_names[which], stream_json(o, digest, data, len));
    } else if (len > 0) {
        verb_print(o->call, "--- %s, %zu bytes\n", stream_names[which], len);
        print_ends(o, data, len);
    }
    return 0;
}

static int show_call(struct outputs *o, const struct stored *s, struct orch_err *err)
{
    json_t *item = NULL;
    if (o->call->json) {
        item = json_object();
        json_add_take(o->array, item);
        json_set_int(item, "call", s->call);
        json_set_str(item, "kind", call_kind_text(s->kind));
        json_set_int(item, "incarnation", s->incarnation);
        json_set_flag(item, "settled", s->settled);
        json_set_str(item, "exit", exit_kind_text(s->exit));
        json_set_int(item, "code", s->code);
        json_set_str(item, "left_out", s->left_out[0] != '\0' ? s->left_out : NULL);
    } else if (!o->raw) {
        const char *how = s->settled ? exit_kind_text(s->exit) : "not settled";
        verb_print(o->call, "=== call %" PRId64 ": %s, incarnation %" PRId64 ", %s", s->call, call_kind_text(s->kind),
                   s->incarnation, how);
        if (s->settled && (s->exit == EXIT_EXITED || s->exit == EXIT_SIGNALLED)) {
            verb_print(o->call, " %d", s->code);
        }
        verb_print(o->call, "\n");
        if (s->left_out[0] != '\0') {
            verb_print(o->call, "--- %s\n", s->left_out);
        }
    }
    bool only_stderr = verb_flag(o->call, "stderr");
    bool only_stdout = verb_flag(o->call, "stdout");
    for (size_t i = 0; i < ARRAY_LEN(stream_names); i++) {
        if ((i == 0 && only_stderr && !only_stdout) || (i == 1 && only_stdout && !only_stderr)) {
            continue;
        }
        TRY(show_stream(o, s, i, item, err));
    }
    return 0;
}

static int show_outputs(struct outputs *o, struct run_view *v, int64_t trial, struct orch_err *err)
{
    struct call_filter filter = CALL_FILTER_ANY;
    filter.trial = trial;
    TRY(record_calls(v->record, &filter, keep_call, o, err));
    for (size_t i = 0; i < o->count; i++) {
        TRY(show_call(o, &o->items[i], err));
    }
    if (o->count == 0 && o->only_call != 0) {
        return err_set(err, ORCH_E_NOT_FOUND, "there is no call %" PRId64 " of it; `orch show --json` lists calls",
                       o->only_call);
    }
    if (o->count == 0) {
        verb_note(o->call, "no call of it yet");
    }
    if (o->call->json) {
        json_t *document = verb_json();
        json_set_str(document, "run", v->id);
        json_set_int(document, "trial", trial);
        json_set_take(document, "calls", json_incref(o->array));
        verb_print_json(o->call, document);
    }
    return 0;
}

static int log_calls(const struct verb_call *call, struct run_view *v, int64_t trial, struct orch_err *err)
{
    AUTO_OBJECTS struct objects *objects = NULL;
    AUTO_FREE char *dir = layout_run_path(&v->layout, v->id, RUN_OBJECTS);
    struct outputs o = {.call = call, .part = PART_DEFAULT, .raw = verb_flag(call, "raw")};
    TRY(verb_option_int(call, "call", 1, INT64_MAX, &o.only_call, err));
    TRY(verb_option_int(call, "bytes", 1, PART_MAX, &o.part, err));
    if (verb_flag(call, "full")) {
        o.part = INT64_MAX;
    }
    TRY(objects_open(dir, v->record, NULL, &objects, err));
    o.objects = objects;
    AUTO_JSON json_t *array = json_array();
    o.array = array;
    int code = show_outputs(&o, v, trial, err);
    free(o.items);
    return code;
}

/* ---- The verb -------------------------------------------------------------- */

static int logs(const struct verb_call *call, struct orch_err *err)
{
    if (verb_flag(call, "raw") && (call->output_terminal || call->json)) {
        return err_set(err, ORCH_E_USAGE,
                       "--raw writes the bytes of an agent as they are: not to a terminal, not as JSON");
    }
    AUTO_RUN_VIEW struct run_view v = {0};
    TRY(run_view_open(call, call->arg_count > 0 ? call->args[0] : NULL, &v, err));
    if (call->arg_count < 2) {
        if (verb_flag(call, "call")) {
            return log_calls(call, &v, 0, err); /* of any trial, or of none: the evolver's, a check's */
        }
        static const char *const of_calls[] = {"raw", "stdout", "stderr", "bytes", "full"};
        for (size_t i = 0; i < ARRAY_LEN(of_calls); i++) {
            if (verb_flag(call, of_calls[i])) {
                return err_set(err, ORCH_E_USAGE, "--%s is for the output of calls: name a trial, or --call N",
                               of_calls[i]);
            }
        }
        return log_events(call, &v, 0, err);
    }
    int64_t trial = 0;
    TRY(run_view_trial(&v, call->args[1], &trial, err));
    if (verb_flag(call, "follow")) {
        TRY(log_events(call, &v, trial, err));
        if (call->json) {
            return 0; /* a stream of events stays one */
        }
    }
    return log_calls(call, &v, trial, err);
}

static int run(const struct verb_call *call)
{
    struct orch_err err = ERR_INIT;
    return logs(call, &err) < 0 ? verb_fail(call, &err) : 0;
}

static const struct verb_option options[] = {
    {"follow", NULL, "go on until the run (or the trial) ends; with --json one event a line"},
    {"since", "N", "events after number N"},
    {"call", "N", "only this call; without a trial any call of the run, the evolver's too"},
    {"stdout", NULL, "only standard output of the calls"},
    {"stderr", NULL, "only standard error of the calls"},
    {"bytes", "N", "show so many bytes from each end of an output (default 32768)"},
    {"full", NULL, "show the whole output"},
    {"raw", NULL, "bytes as they are, without headings (not to a terminal)"},
    RUN_VIEW_OPTION,
    {NULL, NULL, NULL},
};

const struct verb cmd_logs = {
    .name = "logs",
    .summary = "Shows the events of a run, or what the calls of a trial printed",
    .usage = "orch logs [RUN [TRIAL]] [--follow] [--call N]",
    .help = "What agents print is shown escaped: it cannot move the cursor or hide text.\n"
            "\n"
            "Examples:\n"
            "  orch logs                       the events of the newest run\n"
            "  orch logs dates --follow        and those to come\n"
            "  orch logs dates 17              what the calls of trial 17 printed\n"
            "  orch logs dates --call 40       what call 40 printed, such as an evolver's\n"
            "  orch logs dates 17 --stdout --raw >out.bin\n"
            "  orch logs dates --follow --json | jq .kind\n",
    .options = options,
    .max_args = 2,
    .run = run,
};
