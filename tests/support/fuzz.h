/* SPDX-License-Identifier: Apache-2.0 */
/* What a fuzz target and its replayer share. */
#ifndef ORCH_SUPPORT_FUZZ_H
#define ORCH_SUPPORT_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Returns 0. Must hold for any input; what does not hold aborts (FUZZ_CHECK) or trips a sanitizer. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);                             \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

#endif
