/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/verb.h"

#include "base/buf.h"
#include "base/mem.h"
#include "config/units.h"
#include "orchestrator/options.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

const char *verb_option_value(const struct verb_call *call, const char *name)
{
    for (size_t i = call->line->option_count; i > 0; i--) {
        if (strcmp(call->line->options[i - 1].name, name) == 0) {
            return call->line->options[i - 1].value;
        }
    }
    return NULL;
}

bool verb_flag(const struct verb_call *call, const char *name)
{
    return verb_option_value(call, name) != NULL;
}

char **verb_option_values(const struct verb_call *call, const char *name)
{
    char **list = xcalloc(1, sizeof *list);
    for (size_t i = 0; i < call->line->option_count; i++) {
        if (strcmp(call->line->options[i].name, name) == 0) {
            list = strv_append(list, xstrdup(call->line->options[i].value));
        }
    }
    return list;
}

int verb_option_int(const struct verb_call *call, const char *name, int64_t min, int64_t max, int64_t *ret,
                    struct orch_err *err)
{
    const char *text = verb_option_value(call, name);
    int64_t value = 0;
    if (text == NULL) {
        return 0;
    }
    if (units_int(text, &value) != NULL || value < min || value > max) {
        return err_set(err, ORCH_E_USAGE, "option --%s: a whole number from %" PRId64 " to %" PRId64 " is expected",
                       name, min, max);
    }
    *ret = value;
    return 0;
}

json_t *verb_json(void)
{
    json_t *object = json_object();
    json_set_int(object, "version", VERB_JSON_VERSION);
    return object;
}

static json_t *error_json(const struct config_findings *findings, const struct orch_err *err)
{
    json_t *document = verb_json();
    json_t *error = json_object();
    json_set_str(error, "id", err_name(err->code));
    json_set_str(error, "message", err->message);
    json_set_str(error, "remedy", err_remedy(err->code));
    json_set_int(error, "exit_status", err_exit_status(err->code));
    if (findings != NULL && findings->count > 0) {
        json_set_take(error, "findings", config_findings_json(findings));
    }
    json_set_take(document, "error", error);
    return document;
}

/* One paragraph; whatever found its way into a message cannot move the cursor. */
static void print_error(const struct orch_err *err)
{
    AUTO_BUF struct buf text;
    buf_init(&text, BUF_MAX_LINE);
    buf_escaped(&text, err->message, strlen(err->message), true);
    (void)fflush(stdout);
    (void)fprintf(stderr, "orch: %s\n", text.data);
    const char *remedy = err_remedy(err->code);
    if (remedy[0] != '\0') {
        (void)fprintf(stderr, "  remedy: %s\n", remedy);
    }
    if (err_class_of(err->code) == ERR_BUG && err->file != NULL) {
        (void)fprintf(stderr, "  at: %s:%d\n", err->file, err->line);
    }
}

int verb_fail_findings(const struct verb_call *call, const struct config_findings *findings, const struct orch_err *err)
{
    if (call->json) {
        verb_print_json(call, error_json(findings, err));
        return err_exit_status(err->code);
    }
    if (findings == NULL || findings->count == 0) {
        print_error(err);
        return err_exit_status(err->code);
    }
    AUTO_FREE char *text = config_findings_text(findings);
    (void)fflush(stdout);
    (void)fputs(text, stderr);
    size_t n = findings->count + findings->dropped;
    (void)fprintf(stderr, "orch: %zu %s\n", n, n == 1 ? "thing is wrong" : "things are wrong");
    return err_exit_status(err->code);
}

int verb_fail(const struct verb_call *call, const struct orch_err *err)
{
    return verb_fail_findings(call, NULL, err);
}

void verb_print(const struct verb_call *call, const char *fmt, ...)
{
    (void)call;
    va_list ap;
    va_start(ap, fmt);
    (void)vfprintf(stdout, fmt, ap);
    va_end(ap);
}

void verb_print_json(const struct verb_call *call, json_t *value)
{
    (void)call;
    AUTO_FREE char *text = json_pretty(value);
    (void)fputs(text, stdout);
    json_decref(value);
}

void verb_print_json_line(const struct verb_call *call, json_t *value)
{
    (void)call;
    AUTO_FREE char *text = json_dumps(value, JSON_COMPACT);
    if (text != NULL) {
        (void)fprintf(stdout, "%s\n", text);
    }
    (void)fflush(stdout);
    json_decref(value);
}

size_t verb_output_width(void)
{
    struct winsize size = {0};
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void verb_note(const struct verb_call *call, const char *fmt, ...)
{
    if (call->quiet || call->json) {
        return;
    }
    (void)fflush(stdout);
    va_list ap;
    va_start(ap, fmt);
    (void)vfprintf(stderr, fmt, ap);
    va_end(ap);
    (void)fputc('\n', stderr);
}
