/* SPDX-License-Identifier: Apache-2.0 */
#include "config/tasks_ids.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "config/tasks.h"

#include <stdint.h>
#include <string.h>
#include <utf8proc.h>

const char *tasks_id_fault(const char *id)
{
    size_t len = strlen(id);
    if (len == 0) {
        return "the id is empty";
    }
    if (len > TASKS_ID_BYTES_MAX) {
        return "the id is longer than 200 bytes";
    }
    if (id[0] == '#') {
        return "an id that starts with # would be a comment in a split file";
    }
    for (size_t at = 0; at < len;) {
        uint32_t c;
        size_t n = utf8_decode(id + at, len - at, &c);
        if (n == 0) {
            return "the id is not UTF-8";
        }
        utf8proc_category_t kind = utf8proc_category((utf8proc_int32_t)c);
        if (kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CF || kind == UTF8PROC_CATEGORY_ZL ||
            kind == UTF8PROC_CATEGORY_ZP) {
            return "the id holds a control or invisible character";
        }
        if (kind == UTF8PROC_CATEGORY_ZS && (at == 0 || at + n == len)) {
            return "the id starts or ends with a space";
        }
        at += n;
    }
    return NULL;
}

char *tasks_id_folded(const char *id)
{
    utf8proc_uint8_t *folded = NULL;
    utf8proc_ssize_t len = utf8proc_map((const utf8proc_uint8_t *)id, 0, &folded,
                                        UTF8PROC_NULLTERM | UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_CASEFOLD);
    if (len < 0) {
        return xstrdup(id);
    }
    return (char *)folded;
}
