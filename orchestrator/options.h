/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line as data: which verb, its options, its words. Options stand
 * anywhere; "--name VALUE" and "--name=VALUE" are the same; "--" ends options
 * and begins the rest. Pure: nothing is printed or opened.
 */
#ifndef ORCH_ORCHESTRATOR_OPTIONS_H
#define ORCH_ORCHESTRATOR_OPTIONS_H

#include "base/err.h"
#include "orchestrator/verb.h"

#define OPTIONS_WORDS_MAX 65536

struct option_given {
    const char *name;  /* borrowed from the table */
    const char *value; /* borrowed from argv; "" for a flag */
};

struct verb_line {
    const struct verb *verb; /* NULL: none was named (only --help or --version), or a group was */
    const char *group;       /* "config", when only that was given with --help; else NULL */
    char **args;             /* owned vector of borrowed words, NULL-terminated */
    size_t arg_count;
    char *const *rest; /* after "--"; borrowed from argv; NULL-terminated */
    bool has_rest;
    struct option_given *options; /* owned */
    size_t option_count;
    bool help, version, json, quiet;
};

/*
 * `argv` is NULL-terminated and outlives *ret. Errors are ORCH_E_USAGE: an unknown verb or option (with the nearest),
 * a missing or unexpected value, too few or too many words. `json` is set in *ret even then, so that the error can be
 * printed as it was asked for; call verb_line_done in any case.
 */
MUST_USE int verb_line_parse(const struct verb *const *table, int argc, char *const *argv, struct verb_line *ret,
                             struct orch_err *err);
void verb_line_done(struct verb_line *line);
#define AUTO_VERB_LINE __attribute__((cleanup(verb_line_done)))

#endif
