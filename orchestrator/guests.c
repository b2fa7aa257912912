/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/guests.h"

#include "base/mem.h"
#include "base/path.h"

#include <sys/stat.h>
#include <unistd.h>

const char *const guest_names[] = {"orch-node", "orch-init", "orch-probe", NULL};

/* Relative to the folder of the program: installed (bin/, libexec/orch/), then as built. */
static const char *const places[] = {"../libexec/orch", "../backends", "../backends/guest", "."};

int guest_find(const char *program, const char *name, char **ret, struct orch_err *err)
{
    AUTO_FREE char *dir = path_dir(program);
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        AUTO_FREE char *there = path_join(dir, places[i]);
        AUTO_FREE char *full = path_join(there, name);
        AUTO_FREE char *path = path_normal(full);
        struct stat st;
        if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0) {
            *ret = take(path);
            return 0;
        }
    }
    return err_set(err, ORCH_E_UNAVAILABLE, "%s is not installed: looked in ../libexec/orch and beside %s", name,
                   program);
}
