/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of config/ share. */
#ifndef ORCH_TESTS_CONFIG_SUPPORT_H
#define ORCH_TESTS_CONFIG_SUPPORT_H

#include "base/json.h"
#include "base/mem.h"
#include "config/run_config.h"
#include "test.h"

#include <string.h>

/* The smallest config that is complete, in the directory /project. */
#define MINIMAL                                                                                                        \
    "version: 1\nname: dates\ndata: {tasks: tasks.jsonl, train: train.txt}\ncandidate: {template: template/}\n"        \
    "task: {command: [./solve]}\njudge: {command: [./judge]}\nevolver: {command: [./learn]}\n"

/* Loads `text`; fails the test with the findings when it is refused. Owned by the caller. */
static inline struct run_config *load_good(const char *text, char *const *overrides)
{
    AUTO_FINDINGS struct config_findings findings = {.count = 0};
    struct orch_err err = ERR_INIT;
    struct run_config *config = NULL;
    int code = run_config_parse("run.yaml", "/project", text, strlen(text), overrides, &config, &findings, &err);
    AUTO_FREE char *report = config_findings_text(&findings);
    cr_assert_eq(code, 0, "refused: %s", report);
    return config;
}

/* The findings' text of a config that must be refused. Owned by the caller. */
static inline char *load_bad(const char *text, char *const *overrides)
{
    AUTO_FINDINGS struct config_findings findings = {.count = 0};
    struct orch_err err = ERR_INIT;
    struct run_config *config = NULL;
    int code = run_config_parse("run.yaml", "/project", text, strlen(text), overrides, &config, &findings, &err);
    cr_assert_eq(code, ORCH_E_CONFIG, "accepted: %s", text);
    cr_assert_null(config);
    return config_findings_text(&findings);
}

#define assert_has(text, part) cr_assert_not_null(strstr((text), (part)), "`%s` is not in:\n%s", (part), (text))
#define assert_lacks(text, part) cr_assert_null(strstr((text), (part)), "`%s` is in:\n%s", (part), (text))

#endif
