/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocation and cleanup. The x… functions never return NULL: running out of
 * memory is the host's failure, not an agent's, because every size that comes
 * from outside is bounded before it gets here. They abort with one line.
 */
#ifndef ORCH_BASE_MEM_H
#define ORCH_BASE_MEM_H

#include <stddef.h>
#include <stdlib.h>

void *xmalloc(size_t size) __attribute__((malloc, returns_nonnull));
void *xcalloc(size_t count, size_t size) __attribute__((malloc, returns_nonnull));
void *xrealloc(void *old, size_t size) __attribute__((returns_nonnull));
char *xstrdup(const char *s) __attribute__((malloc, returns_nonnull));                 /* NULL s gives "" */
char *xmemdup0(const void *data, size_t len) __attribute__((malloc, returns_nonnull)); /* adds a NUL */
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2), malloc, returns_nonnull));

void free_pointer(void *pointer_to_pointer); /* cleanup helper: frees *p and sets it to NULL */

/* `AUTO_FREE char *s = …;` frees at the end of the scope; take(s) lets it escape. */
#define AUTO_FREE __attribute__((cleanup(free_pointer)))
#define AUTO(cleanup_function) __attribute__((cleanup(cleanup_function)))

/* Returns the pointer and sets the variable to NULL: the one way out of a cleanup scope. */
#define take(variable)                                                                                                 \
    ({                                                                                                                 \
        __typeof__(variable) taken_ = (variable);                                                                      \
        (variable) = NULL;                                                                                             \
        taken_;                                                                                                        \
    })

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#endif
