/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/readable.h"

#include "base/json.h"
#include "base/mem.h"

#include <string.h>
#include <sys/stat.h>

static char **add_once(char **list, const char *path)
{
    for (size_t i = 0; i < strv_len(list); i++) {
        if (strcmp(list[i], path) == 0) {
            return list;
        }
    }
    return strv_append(list, xstrdup(path));
}

char **readable_paths(const struct operator_config *config, const struct confinement_request *request)
{
    char **list = xcalloc(1, sizeof *list);
    for (char **p = config->readable; *p != NULL; p++) {
        list = add_once(list, *p);
    }
    for (char **p = request->readable; *p != NULL; p++) {
        list = add_once(list, *p);
    }
    return list;
}

static bool is_target(const struct sandbox_spec *spec, const char *path)
{
    for (size_t i = 0; i < spec->grant_count; i++) {
        if (strcmp(spec->grants[i].target, path) == 0) {
            return true;
        }
    }
    return false;
}

void readable_grant(struct sandbox_spec *spec, char *const *paths)
{
    for (char *const *p = paths; *p != NULL; p++) {
        struct stat st;
        if (is_target(spec, *p)) {
            continue;
        }
        bool file = stat(*p, &st) == 0 && !S_ISDIR(st.st_mode);
        spec_grant(spec, *p, *p, SPEC_RO, file ? SPEC_FILE : SPEC_DIR);
        spec->grants[spec->grant_count - 1].required = false;
    }
}
