/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A verb of the program: one file, one constant descriptor. main() picks the
 * row, parses its options from the table and calls `run`. Verbs are the only
 * code that prints; they return an exit status of DESIGN 10 through verb_fail()
 * or directly.
 */
#ifndef ORCH_ORCHESTRATOR_VERB_H
#define ORCH_ORCHESTRATOR_VERB_H

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "config/findings.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VERB_JSON_VERSION 1 /* of the documents of --json */

struct verb_line;

struct verb_option {
    const char *name;  /* "json", "project"; given as --json, --project DIR or --project=DIR */
    const char *value; /* NULL: a flag; else the word for its value in help */
    const char *help;
};

/* What main() found on the command line, and the world around it. Borrowed; lives as long as the verb runs. */
struct verb_call {
    const struct verb *verb;
    char *const *args; /* what is no option, in order; NULL-terminated */
    size_t arg_count;
    char *const *rest; /* after "--"; NULL-terminated, may be empty */
    char *const *environ;
    struct clock clock;
    const char *program;  /* absolute path of this program, for finding the guests beside it */
    bool json;            /* --json was given: standard output carries JSON only */
    bool quiet;           /* --quiet */
    bool terminal;        /* standard error is a terminal that can redraw a line (TERM is not dumb) */
    bool output_terminal; /* standard output is a terminal */
    bool color;           /* standard output may have colours: a terminal, and NO_COLOR does not say otherwise */
    const struct verb_line *line; /* the parsed command line: use the functions below */
};

struct verb {
    const char *name;                  /* "config show" is the verb of two words */
    const char *summary;               /* one line */
    const char *usage;                 /* "orch run FILE [key.path=value…]" */
    const char *help;                  /* paragraphs and examples */
    const struct verb_option *options; /* ends with name NULL; --json, --quiet, --help, --project DIR are everywhere */
    size_t min_args;
    size_t max_args; /* SIZE_MAX: any number */
    bool takes_rest; /* "-- command…" is allowed */
    int (*run)(const struct verb_call *call);
};

/* The value of an option, NULL when it was not given; flags give "". The last one wins. */
const char *verb_option_value(const struct verb_call *call, const char *name);
bool verb_flag(const struct verb_call *call, const char *name);
/* Every value of an option that may be given several times, in order; NULL-terminated, owned (strv_free). */
char **verb_option_values(const struct verb_call *call, const char *name);

/* Prints the error (one line and the remedy on standard error, or {"error": {id, message, remedy}} with --json)
 * and returns its exit status. */
int verb_fail(const struct verb_call *call, const struct orch_err *err);
/* The same for a config: every finding is printed, and is in the JSON's "findings". With no finding as verb_fail. */
int verb_fail_findings(const struct verb_call *call, const struct config_findings *findings,
                       const struct orch_err *err);
/* Prints to standard output; text from outside must be escaped already (buf_escaped). */
void verb_print(const struct verb_call *call, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Prints a JSON document to standard output; consumes it. */
void verb_print_json(const struct verb_call *call, json_t *value);
/* The same on one line, written at once: for streams of events. */
void verb_print_json_line(const struct verb_call *call, json_t *value);
/* A new object that holds "version": 1, the first member of every document of --json. New reference. */
json_t *verb_json(void);
/* A whole number option: *ret is untouched when it was not given. ORCH_E_USAGE names the option. */
MUST_USE int verb_option_int(const struct verb_call *call, const char *name, int64_t min, int64_t max, int64_t *ret,
                             struct orch_err *err);
/* Columns of the terminal on standard output; 80 when it does not say. */
size_t verb_output_width(void);
/* A line for people on standard error; silent with --quiet and --json. */
void verb_note(const struct verb_call *call, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
