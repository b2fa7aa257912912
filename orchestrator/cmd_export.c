/* SPDX-License-Identifier: Apache-2.0 */
#include "state/export.h"

#include "base/mem.h"
#include "orchestrator/run_view.h"
#include "orchestrator/verbs.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The formats, one row each. */
static const struct format {
    const char *name;
    int (*write)(struct record *rec, const struct export_options *options, int fd, struct orch_err *err);
} formats[] = {
    {"json", export_json},
};

static const struct format *find_format(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(formats); i++) {
        if (strcmp(formats[i].name, name) == 0) {
            return &formats[i];
        }
    }
    return NULL;
}

static int export(const struct verb_call *call, struct orch_err *err)
{
    const char *name = verb_option_value(call, "format");
    const struct format *format = find_format(name != NULL ? name : "json");
    if (format == NULL) {
        return err_set(err, ORCH_E_USAGE, "unknown format %.40s; known: json", name);
    }
    struct export_options options = {
        .normalized = verb_flag(call, "normalize"),
        .calls = verb_flag(call, "calls"),
        .events = verb_flag(call, "events"),
    };
    if (options.normalized && (options.calls || options.events)) {
        return err_set(err, ORCH_E_USAGE, "--normalize leaves calls and events out: give one or the other");
    }
    AUTO_RUN_VIEW struct run_view v = {0};
    TRY(run_view_open(call, call->args[0], &v, err));
    (void)fflush(stdout);
    return format->write(v.record, &options, STDOUT_FILENO, err);
}

static int run(const struct verb_call *call)
{
    struct orch_err err = ERR_INIT;
    return export(call, &err) < 0 ? verb_fail(call, &err) : 0;
}

static const struct verb_option options[] = {
    {"format", "FORMAT", "json (the default)"},
    {"normalize", NULL, "only what the run means: no times, ids, paths, usage; equal runs export equal bytes"},
    {"calls", NULL, "with the calls"},
    {"events", NULL, "with the events"},
    RUN_VIEW_OPTION,
    {NULL, NULL, NULL},
};

const struct verb cmd_export = {
    .name = "export",
    .summary = "Writes a whole run as one document to standard output",
    .usage = "orch export RUN [--format json] [--normalize]",
    .help = "RUN: an id, a unique prefix, a name (its newest run) or latest.\n"
            "\n"
            "Examples:\n"
            "  orch export latest --format json >run.json\n"
            "  orch export dates --normalize | sha256sum    equal for a broken and an unbroken run\n"
            "  orch export dates --calls --events\n",
    .options = options,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
