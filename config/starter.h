/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `orch init` writes: a commented run config, a judge, an acting agent, an
 * evolver, a template, and split files drawn from the given tasks. Pure text.
 */
#ifndef ORCH_CONFIG_STARTER_H
#define ORCH_CONFIG_STARTER_H

#include "base/err.h"
#include "config/findings.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct starter_file {
    char *path; /* plain relative, beneath the project */
    mode_t mode;
    char *content;
    size_t len;
};

struct starter {
    struct starter_file *files;
    size_t count;
};

/*
 * `name`: the run's name. `tasks_path`: an existing JSONL file that is split
 * 60/20/20 by `seed` (the same file and seed give the same splits; every split
 * gets at least one row when there are three), or NULL for a small built-in
 * example. `tasks_as_written`: how the config names it (NULL: "tasks.jsonl").
 */
MUST_USE int starter_make(const char *name, const char *tasks_path, const char *tasks_as_written, uint64_t seed,
                          struct starter *ret, struct config_findings *findings, struct orch_err *err);
void starter_done(struct starter *starter);
#define AUTO_STARTER __attribute__((cleanup(starter_done)))

#endif
