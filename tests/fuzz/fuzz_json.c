/* SPDX-License-Identifier: Apache-2.0 */
/* What parses has one canonical text, which parses to the same again. */
#include "fuzz.h"

#include "base/json.h"
#include "base/mem.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct orch_err err = ERR_INIT;
    AUTO_JSON json_t *value = NULL;
    int code = json_parse((const char *)data, size, 1 << 20, &value, &err);
    FUZZ_CHECK((code == 0) == (value != NULL));
    if (code < 0) {
        FUZZ_CHECK(err.message[0] != '\0');
        return 0;
    }
    AUTO_FREE char *text = json_canonical(value);
    AUTO_JSON json_t *again = NULL;
    FUZZ_CHECK(json_parse(text, strlen(text), SIZE_MAX, &again, &err) == 0);
    AUTO_FREE char *second = json_canonical(again);
    FUZZ_CHECK(strcmp(text, second) == 0);
    FUZZ_CHECK(json_equal(value, again));
    return 0;
}
