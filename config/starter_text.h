/* SPDX-License-Identifier: Apache-2.0 */
/* The texts of a starter project; @NAME@, @TASKS@ and @SEED@ are filled in. Used within config/. */
#ifndef ORCH_CONFIG_STARTER_TEXT_H
#define ORCH_CONFIG_STARTER_TEXT_H

#include <stddef.h>
#include <sys/types.h>

struct starter_text {
    const char *path;
    mode_t mode;
    const char *content;
};

extern const struct starter_text starter_texts[];
extern const size_t starter_text_count;
extern const char starter_example_tasks[];

#endif
