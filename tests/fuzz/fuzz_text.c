/* SPDX-License-Identifier: Apache-2.0 */
/* Escaped text is valid, shows nothing that moves or hides, and escaping it again changes nothing. */
#include "fuzz.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/utf8.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    const char *data = (const char *)bytes;
    AUTO_BUF struct buf once;
    AUTO_BUF struct buf twice;
    buf_init(&once, 8 * size + 1);
    buf_init(&twice, 8 * size + 1);
    buf_escaped(&once, data, size, false);
    FUZZ_CHECK(!once.overflow && utf8_valid(once.data, once.len));
    for (size_t i = 0; i < once.len; i++) {
        FUZZ_CHECK((unsigned char)once.data[i] >= 0x20 && once.data[i] != 0x7f);
    }
    buf_escaped(&twice, once.data, once.len, false);
    FUZZ_CHECK(twice.len == once.len && memcmp(once.data, twice.data, once.len) == 0);

    for (size_t max = 0; max < size && max < 64; max++) {
        size_t cut = utf8_cut(data, size, max);
        FUZZ_CHECK(cut <= max && cut + 3 >= max);
        FUZZ_CHECK(!utf8_valid(data, size) || utf8_valid(data, cut));
    }
    AUTO_JSON json_t *text = json_text(data, size);
    FUZZ_CHECK(json_is_string(text) && utf8_valid(json_string_value(text), json_string_length(text)));
    FUZZ_CHECK(!utf8_valid(data, size) || json_string_length(text) == size);
    return 0;
}
