/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void out_of_memory(void) __attribute__((noreturn));
static void out_of_memory(void)
{
    static const char text[] = "orch: out of memory\n";
    ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
    (void)ignored;
    abort();
}

void *xmalloc(size_t size)
{
    void *p = malloc(size > 0 ? size : 1);
    if (p == NULL) {
        out_of_memory();
    }
    return p;
}

void *xcalloc(size_t count, size_t size)
{
    void *p = calloc(count > 0 ? count : 1, size > 0 ? size : 1);
    if (p == NULL) {
        out_of_memory();
    }
    return p;
}

void *xrealloc(void *old, size_t size)
{
    void *p = realloc(old, size > 0 ? size : 1);
    if (p == NULL) {
        out_of_memory();
    }
    return p;
}

char *xmemdup0(const void *data, size_t len)
{
    char *p = xmalloc(len + 1);
    if (len > 0) {
        memcpy(p, data, len);
    }
    p[len] = '\0';
    return p;
}

char *xstrdup(const char *s)
{
    return s == NULL ? xmemdup0("", 0) : xmemdup0(s, strlen(s));
}

char *xasprintf(const char *fmt, ...)
{
    char *out = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&out, fmt, ap);
    va_end(ap);
    if (n < 0) {
        out_of_memory();
    }
    return out;
}

void free_pointer(void *pointer_to_pointer)
{
    void **p = pointer_to_pointer;
    free(*p);
    *p = NULL;
}
