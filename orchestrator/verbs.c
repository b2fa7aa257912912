/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/verbs.h"

#include "base/buf.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

const struct verb *const verbs[] = {
    &cmd_doctor,
    &cmd_init,
    &cmd_check,
    &cmd_run,
    &cmd_eval,
    &cmd_resume,
    &cmd_runs,
    &cmd_show,
    &cmd_logs,
    &cmd_diff,
    &cmd_export,
    &cmd_config_show,
    &cmd_config_explain,
    &cmd_config_schema,
    &cmd_config_reference,
    &cmd_sandbox_status,
    &cmd_sandbox_enable,
    &cmd_sandbox_disable,
    &cmd_sandbox_exec,
    &cmd_sandbox_test,
    &cmd_version,
    &cmd_help,
    NULL,
};

const struct verb_option verb_common_options[] = {
    {"json", NULL, "print JSON on standard output, and nothing else there"},
    {"quiet", NULL, "print results and errors only"},
    {"project", "DIR", "the project's root (default: found from the config or the working directory)"},
    {"help", NULL, "this help"},
    {"version", NULL, "the version of orch"},
    {NULL, NULL, NULL},
};

#define OPTION_COLUMN 24

static void add_options(struct buf *b, const struct verb_option *list)
{
    for (; list != NULL && list->name != NULL; list++) {
        char left[80];
        (void)snprintf(left, sizeof left, "--%s%s%s", list->name, list->value != NULL ? " " : "",
                       list->value != NULL ? list->value : "");
        buf_fmt(b, "  %-*s %s\n", OPTION_COLUMN, left, list->help);
    }
}

static void add_verbs(struct buf *b, const struct verb *const *table, const char *group)
{
    size_t len = strlen(group);
    for (size_t i = 0; table[i] != NULL; i++) {
        if (len == 0 || (strncmp(table[i]->name, group, len) == 0 && table[i]->name[len] == ' ')) {
            buf_fmt(b, "  %-18s %s\n", table[i]->name, table[i]->summary);
        }
    }
}

char *help_overview(const struct verb *const *table)
{
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_TEXT);
    buf_str(&b, "orch runs programs that must not trust each other, and keeps a record nobody can bend.\n"
                "\n"
                "usage: orch VERB [words] [options]\n"
                "\n"
                "Verbs:\n");
    add_verbs(&b, table, "");
    buf_str(&b, "\nOptions of every verb:\n");
    add_options(&b, verb_common_options);
    buf_str(&b, "\n`orch help VERB` tells more, with examples.\n"
                "\n"
                "Exit codes:\n"
                "  0 done  1 finished with failures, or a check failed  2 usage or config\n"
                "  3 confinement or environment unavailable  4 owned by another process\n"
                "  5 stopped by budget  6 record damaged  7 disabled by the operator\n"
                "  8 inconclusive  130 interrupted (can go on)\n");
    return buf_take(&b, NULL);
}

char *help_group(const struct verb *const *table, const char *word)
{
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_TEXT);
    buf_fmt(&b, "usage: orch %s WHAT [words] [options]\n\n", word);
    add_verbs(&b, table, word);
    buf_fmt(&b, "\n`orch help %s WHAT` tells more, with examples.\n", word);
    return buf_take(&b, NULL);
}

char *help_verb(const struct verb *verb)
{
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_TEXT);
    buf_fmt(&b, "usage: %s\n\n%s.\n\n%s", verb->usage, verb->summary, verb->help);
    if (verb->options != NULL && verb->options[0].name != NULL) {
        buf_str(&b, "\nOptions:\n");
        add_options(&b, verb->options);
    }
    buf_str(&b, "\nOptions of every verb:\n");
    add_options(&b, verb_common_options);
    return buf_take(&b, NULL);
}
