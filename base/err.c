/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct code_row {
    const char *name;
    int exit_status;
    enum err_class class;
    const char *remedy;
};

static const struct code_row rows[] = {
#define X(name, exit, class, remedy) [ORCH_X_##name] = {#name, exit, class, remedy},
    ORCH_ERR_TABLE(X)
#undef X
};

/* Names as printed: lower case with dashes, made from the table's own spelling. */
static const char *const printed[] = {
    [ORCH_X_OK] = "ok",
    [ORCH_X_FAILED] = "failed",
    [ORCH_X_USAGE] = "usage",
    [ORCH_X_CONFIG] = "config",
    [ORCH_X_NOT_FOUND] = "not-found",
    [ORCH_X_DRIFT] = "drift",
    [ORCH_X_UNAVAILABLE] = "unavailable",
    [ORCH_X_OWNED] = "owned",
    [ORCH_X_BUDGET] = "budget",
    [ORCH_X_DAMAGED] = "damaged",
    [ORCH_X_DISABLED] = "disabled",
    [ORCH_X_INCONCLUSIVE] = "inconclusive",
    [ORCH_X_INTERRUPTED] = "interrupted",
    [ORCH_X_IO] = "io",
    [ORCH_X_NO_SPACE] = "no-space",
    [ORCH_X_TIMEOUT] = "timeout",
    [ORCH_X_LIMIT] = "limit",
    [ORCH_X_HOSTILE] = "hostile",
    [ORCH_X_PROTOCOL] = "protocol",
    [ORCH_X_LOST] = "lost",
    [ORCH_X_INTERNAL] = "internal",
};
_Static_assert(sizeof printed / sizeof printed[0] == ORCH_X_COUNT, "every code has a printed name");

static const struct code_row *row_of(int code, size_t *ret_index)
{
    size_t index = code <= 0 && code > -(int)ORCH_X_COUNT ? (size_t)-code : (size_t)ORCH_X_INTERNAL;
    if (ret_index != NULL) {
        *ret_index = index;
    }
    return &rows[index];
}

static int vset(struct orch_err *err, int code, int sys, const char *file, int line, const char *fmt, va_list ap)
    __attribute__((format(printf, 6, 0)));
static int vset(struct orch_err *err, int code, int sys, const char *file, int line, const char *fmt, va_list ap)
{
    int n = vsnprintf(err->message, sizeof err->message, fmt, ap);
    err->code = code < 0 ? code : ORCH_E_INTERNAL;
    err->sys = sys;
    err->file = file;
    err->line = line;
    err->truncated = n < 0 || (size_t)n >= sizeof err->message;
    return err->code;
}

int err_set_at(struct orch_err *err, int code, int sys, const char *file, int line, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int r = vset(err, code, sys, file, line, fmt, ap);
    va_end(ap);
    return r;
}

int err_errno_at(struct orch_err *err, int code, const char *file, int line, const char *fmt, ...)
{
    int sys = errno;
    if (code == ORCH_E_IO && (sys == ENOSPC || sys == EDQUOT)) {
        code = ORCH_E_NO_SPACE;
    }
    va_list ap;
    va_start(ap, fmt);
    int r = vset(err, code, sys, file, line, fmt, ap);
    va_end(ap);
    size_t used = strlen(err->message);
    char text[128];
    /* strerror_r: the GNU variant, which is safe in threads */
    int n = snprintf(err->message + used, sizeof err->message - used, ": %s", strerror_r(sys, text, sizeof text));
    err->truncated = err->truncated || n < 0 || (size_t)n >= sizeof err->message - used;
    return r;
}

int(err_wrap)(struct orch_err *err, const char *fmt, ...)
{
    char inner[ERR_MESSAGE_MAX];
    memcpy(inner, err->message, sizeof inner);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err->message, sizeof err->message, fmt, ap);
    va_end(ap);
    size_t used = n < 0 ? 0 : (size_t)n;
    if (used >= sizeof err->message) {
        err->truncated = true;
        return err->code;
    }
    n = snprintf(err->message + used, sizeof err->message - used, ": %s", inner);
    err->truncated = err->truncated || n < 0 || (size_t)n >= sizeof err->message - used;
    return err->code;
}

void err_clear(struct orch_err *err)
{
    *err = (struct orch_err)ERR_INIT;
}

const char *err_name(int code)
{
    size_t index;
    (void)row_of(code, &index);
    return printed[index];
}

int err_exit_status(int code)
{
    return row_of(code, NULL)->exit_status;
}

enum err_class err_class_of(int code)
{
    return row_of(code, NULL)->class;
}

const char *err_remedy(int code)
{
    return row_of(code, NULL)->remedy;
}
