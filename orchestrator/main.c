/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program: puts the process in order, picks the verb and runs it. Light on
 * purpose: nothing is opened or loaded that the verb does not ask for.
 */
#include "base/mem.h"
#include "orchestrator/options.h"
#include "orchestrator/verbs.h"
#include "state/durable.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define DESCRIPTORS_WANTED 65536

extern char **environ;

/* getenv(3) may not be used beside threads; this may be used anywhere. NULL when it is not set. */
static const char *variable(const char *name)
{
    size_t len = strlen(name);
    for (char **e = environ; e != NULL && *e != NULL; e++) {
        if (strncmp(*e, name, len) == 0 && (*e)[len] == '=') {
            return *e + len + 1;
        }
    }
    return NULL;
}

/* A descriptor 0, 1 or 2 that is closed would be taken by the first file that is opened, and messages written into it.
 */
static void open_standard_fds(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) {
            int got = open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY); /* the lowest free one: this one */
            if (got != fd) {
                _exit(1);
            }
        }
    }
}

static void raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return;
    }
    rlim_t want = limit.rlim_max < DESCRIPTORS_WANTED ? limit.rlim_max : DESCRIPTORS_WANTED;
    if (limit.rlim_cur < want) {
        limit.rlim_cur = want;
        (void)setrlimit(RLIMIT_NOFILE, &limit); /* best effort: what needs more says so itself */
    }
}

/* The plan lives as long as the process: fault points read it without a lock. */
static int install_faults(struct orch_err *err)
{
    const char *text = variable("ORCH_FAULT");
    if (text == NULL || text[0] == '\0') {
        return 0;
    }
    struct fault_plan *plan = NULL;
    int code = fault_plan_parse(text, &plan, err);
    if (code < 0) {
        return err_wrap(err, "ORCH_FAULT");
    }
    fault_install(plan);
    return 0;
}

static char *program_path(void)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    return xmemdup0(path, n > 0 ? (size_t)n : 0);
}

static bool can_redraw(void)
{
    const char *term = variable("TERM");
    return isatty(STDERR_FILENO) && term != NULL && term[0] != '\0' && strcmp(term, "dumb") != 0;
}

static bool may_color(void)
{
    const char *no = variable("NO_COLOR");
    const char *term = variable("TERM");
    return isatty(STDOUT_FILENO) && (no == NULL || no[0] == '\0') && term != NULL && strcmp(term, "dumb") != 0;
}

/* Help goes to standard output when it was asked for, else to standard error. */
static int show_help(const struct verb_line *line)
{
    bool asked = line->help;
    AUTO_FREE char *text = line->verb != NULL    ? help_verb(line->verb)
                           : line->group != NULL ? help_group(verbs, line->group)
                                                 : help_overview(verbs);
    (void)fputs(text, asked ? stdout : stderr);
    return asked ? 0 : err_exit_status(ORCH_E_USAGE);
}

static bool reader_is_gone(void)
{
    struct pollfd fd = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&fd, 1, 0) > 0 && (fd.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0;
}

/* Output that was lost is a failure; a reader that went away (`| head`) is not. The stream remembers that a write
 * failed, not why: that was long ago. */
static int finish_output(int status)
{
    bool bad = ferror(stdout) != 0;
    if (fflush(stdout) != 0) {
        bad = true;
    }
    if (!bad || reader_is_gone()) {
        return status;
    }
    (void)fprintf(stderr, "orch: standard output could not be written: is the disk full?\n");
    return status != 0 ? status : 1;
}

static int dispatch(struct verb_call *call, const struct verb_line *line)
{
    if (line->version && line->verb == NULL) {
        call->verb = &cmd_version;
        return cmd_version.run(call);
    }
    if (line->help || line->verb == NULL) {
        return show_help(line);
    }
    call->verb = line->verb;
    return line->verb->run(call);
}

int main(int argc, char **argv)
{
    open_standard_fds();
    raise_descriptors();
    (void)signal(SIGPIPE, SIG_IGN);

    struct orch_err err = ERR_INIT;
    AUTO_VERB_LINE struct verb_line line = {0};
    AUTO_FREE char *program = program_path();
    int code = verb_line_parse(verbs, argc, argv, &line, &err);
    struct verb_call call = {
        .verb = line.verb,
        .args = line.args,
        .arg_count = line.arg_count,
        .rest = line.rest,
        .environ = environ,
        .clock = clock_system(),
        .program = program,
        .json = line.json,
        .quiet = line.quiet,
        .terminal = can_redraw(),
        .output_terminal = isatty(STDOUT_FILENO) != 0,
        .color = may_color(),
        .line = &line,
    };
    if (code >= 0) {
        code = install_faults(&err);
    }
    int status = code < 0 ? verb_fail(&call, &err) : dispatch(&call, &line);
    return finish_output(status);
}
