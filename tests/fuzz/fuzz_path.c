/* SPDX-License-Identifier: Apache-2.0 */
/* Normal paths stay normal; what is called plain has nothing to resolve; a name matches itself. */
#include "fuzz.h"

#include "base/mem.h"
#include "base/path.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size = size > 200 ? 200 : size;
    AUTO_FREE char *path = xmemdup0(data, size);
    AUTO_FREE char *normal = path_normal(path);
    AUTO_FREE char *again = path_normal(normal);
    FUZZ_CHECK(strcmp(normal, again) == 0);
    FUZZ_CHECK((path[0] == '/') == (normal[0] == '/'));
    FUZZ_CHECK(strlen(normal) <= (path[0] ? strlen(path) : 1));
    if (path[0] == '/') {
        FUZZ_CHECK(!strstr(normal, "/../") && path_is_beneath(normal, "/"));
    }
    if (path_is_plain_relative(path)) {
        FUZZ_CHECK(strcmp(path, normal) == 0);
        AUTO_FREE char *joined = path_join("/base/of/it", path);
        AUTO_FREE char *resolved = path_normal(joined);
        FUZZ_CHECK(path_is_beneath(resolved, "/base/of/it"));
        FUZZ_CHECK(strcmp(joined, resolved) == 0);
        if (!strpbrk(path, "*?[\\")) {
            FUZZ_CHECK(path_glob(path, path));
        }
        FUZZ_CHECK(path_glob("**", path));
    }
    size_t half = strlen(path) / 2;
    AUTO_FREE char *pattern = xmemdup0(path, half);
    (void)path_glob(pattern, path + half);
    AUTO_FREE char *dir = path_dir(path);
    FUZZ_CHECK(strlen(dir) <= strlen(path) + 1 && strlen(path_base(path)) <= strlen(path));
    return 0;
}
