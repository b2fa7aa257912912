/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "config/starter.h"
#include "config/units.h"
#include "orchestrator/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_MAX_LEN 63
#define DEPTH_MAX 16

/* A run's name from a folder's: what is not allowed becomes '-'. Owned by the caller. */
static char *name_from(const char *folder)
{
    char name[NAME_MAX_LEN + 1];
    size_t n = 0;
    for (const char *c = folder; *c != '\0' && n < NAME_MAX_LEN; c++) {
        static const char upper[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
        static const char lower[] = "abcdefghijklmnopqrstuvwxyz";
        const char *at = strchr(upper, *c);
        char low = *c;
        if (at != NULL) {
            low = lower[at - upper];
        }
        bool plain = strchr(lower, low) != NULL || strchr("0123456789", low) != NULL;
        if (plain || (n > 0 && strchr("._-", low) != NULL)) {
            name[n++] = low;
        } else if (n > 0 && name[n - 1] != '-') {
            name[n++] = '-';
        }
    }
    while (n > 0 && name[n - 1] == '-') {
        n--;
    }
    name[n] = '\0';
    return xstrdup(units_is_name(name) ? name : "run");
}

struct init {
    char *dir;  /* as given, or "." */
    char *root; /* absolute */
    int dirfd;
    char *name;
    char *tasks; /* absolute; NULL: none given */
    int64_t seed;
    struct starter starter;
};

static void init_done(struct init *in)
{
    free(in->dir);
    free(in->root);
    fd_close(&in->dirfd);
    free(in->name);
    free(in->tasks);
    starter_done(&in->starter);
}

static int prepare(const struct verb_call *call, struct init *in, struct config_findings *findings,
                   struct orch_err *err)
{
    in->dir = xstrdup(call->arg_count > 0 ? call->args[0] : ".");
    in->seed = 1;
    TRY(verb_option_int(call, "seed", 0, INT64_MAX, &in->seed, err));
    const char *name = verb_option_value(call, "name");
    if (name != NULL && !units_is_name(name)) {
        return err_set(err, ORCH_E_USAGE, "--name: [a-z0-9][a-z0-9._-]{0,62} is expected");
    }
    const char *tasks = verb_option_value(call, "tasks");
    if (tasks != NULL) {
        TRY(path_real(tasks, &in->tasks, err));
    }
    TRY(fd_mkdirs(in->dir, 0755, err));
    TRY(path_real(in->dir, &in->root, err));
    in->dirfd = fd_open(in->root, O_RDONLY | O_DIRECTORY, 0, err);
    TRY(in->dirfd);
    in->name = name != NULL ? xstrdup(name) : name_from(path_base(in->root));
    /* Inside the project the config names it as a neighbour, so that the project can be moved. */
    const char *written = in->tasks;
    if (in->tasks != NULL && path_is_beneath(in->tasks, in->root)) {
        written = in->tasks + strlen(in->root) + (strcmp(in->root, "/") == 0 ? 0 : 1);
    }
    return starter_make(in->name, in->tasks, written, (uint64_t)in->seed, &in->starter, findings, err);
}

/* Nothing is overwritten: if anything is there, nothing is written at all. */
static int refuse_existing(const struct init *in, struct orch_err *err)
{
    AUTO_BUF struct buf there;
    buf_init(&there, 600);
    size_t count = 0;
    for (size_t i = 0; i < in->starter.count; i++) {
        struct stat st;
        if (fstatat(in->dirfd, in->starter.files[i].path, &st, AT_SYMLINK_NOFOLLOW) == 0) {
            buf_fmt(&there, "%s%s", count > 0 ? ", " : "", in->starter.files[i].path);
            count++;
        } else if (errno != ENOENT) {
            return err_errno(err, ORCH_E_IO, "%s/%s", in->root, in->starter.files[i].path);
        }
    }
    if (count == 0) {
        return 0;
    }
    return err_set(err, ORCH_E_USAGE,
                   "%zu of the files are there already in %s: %s; nothing was written: init never overwrites", count,
                   in->root, there.data);
}

static int make_parents(int dirfd, const char *path, struct orch_err *err)
{
    for (const char *slash = strchr(path, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        AUTO_FREE char *parent = xmemdup0(path, (size_t)(slash - path));
        if (mkdirat(dirfd, parent, 0755) != 0 && errno != EEXIST) {
            return err_errno(err, ORCH_E_IO, "make %s", parent);
        }
    }
    return 0;
}

static int write_files(const struct init *in, struct orch_err *err)
{
    for (size_t i = 0; i < in->starter.count; i++) {
        const struct starter_file *f = &in->starter.files[i];
        if (!path_is_plain_relative(f->path)) {
            return err_set(err, ORCH_E_INTERNAL, "starter file %s is no plain relative path", f->path);
        }
        TRY(make_parents(in->dirfd, f->path, err));
        AUTO_FD int fd = fd_open_beneath(in->dirfd, f->path, O_WRONLY | O_CREAT | O_EXCL, f->mode, err);
        TRY(fd);
        TRY(fd_write_all(fd, f->content, f->len, err));
    }
    return 0;
}

/* In the user's words: the folder as it was given, so that the lines can be copied. */
static char *next_command(const struct init *in, const char *verb)
{
    AUTO_FREE char *config = strcmp(in->dir, ".") == 0 ? xstrdup("run.yaml") : path_join(in->dir, "run.yaml");
    return xasprintf("orch %s %s", verb, config);
}

static void report(const struct verb_call *call, const struct init *in)
{
    static const char *const next[] = {"check", "run", "eval"};
    json_t *document = verb_json();
    json_set_str(document, "directory", in->root);
    json_set_str(document, "name", in->name);
    json_t *files = json_array();
    json_t *commands = json_array();
    for (size_t i = 0; i < in->starter.count; i++) {
        json_add_str(files, in->starter.files[i].path);
    }
    for (size_t i = 0; i < ARRAY_LEN(next); i++) {
        AUTO_FREE char *text = next_command(in, next[i]);
        json_add_str(commands, text);
    }
    if (!call->json) {
        verb_print(call, "wrote in %s:\n", in->root);
        for (size_t i = 0; i < in->starter.count; i++) {
            verb_print(call, "  %s\n", in->starter.files[i].path);
        }
        verb_print(call, "next:\n");
        for (size_t i = 0; i < ARRAY_LEN(next); i++) {
            verb_print(call, "  %s\n", json_string_value(json_array_get(commands, i)));
        }
    }
    json_set_take(document, "files", files);
    json_set_take(document, "next", commands);
    if (call->json) {
        verb_print_json(call, document);
    } else {
        json_decref(document);
    }
}

static int run(const struct verb_call *call)
{
    struct orch_err err = ERR_INIT;
    AUTO_FINDINGS struct config_findings findings = {0};
    struct init in = {.dirfd = -1};
    int code = prepare(call, &in, &findings, &err);
    if (code >= 0) {
        code = refuse_existing(&in, &err);
    }
    if (code >= 0) {
        code = write_files(&in, &err);
    }
    if (code >= 0) {
        report(call, &in);
    }
    int status = code < 0 ? verb_fail_findings(call, &findings, &err) : 0;
    init_done(&in);
    return status;
}

static const struct verb_option options[] = {
    {"tasks", "FILE.jsonl", "existing tasks: one JSON object a line, `id` unique; split 60/20/20 by the seed"},
    {"name", "NAME", "the run's name (default: from the directory)"},
    {"seed", "N", "for the splits (default 1)"},
    {NULL, NULL, NULL},
};

const struct verb cmd_init = {
    .name = "init",
    .summary = "Writes a starter project: a commented config, programs and splits",
    .usage = "orch init [DIR] [--tasks FILE.jsonl] [--name NAME] [--seed N]",
    .help = "Nothing is ever overwritten: if one of the files is there, none is written. Without --tasks a small\n"
            "example is written that learns without a model and without a key.\n"
            "\n"
            "Examples:\n"
            "  orch init first && orch run first/run.yaml\n"
            "  orch init . --tasks tasks.jsonl --name dates --seed 7\n",
    .options = options,
    .max_args = 1,
    .run = run,
};
