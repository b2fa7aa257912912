/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/mechanisms/mechanism.h"

#include "backends/mechanisms/bwrap.h"
#include "backends/mechanisms/landlock.h"
#include "backends/mechanisms/namespaces.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/process.h"

#include <string.h>

int mechanism_choose(const char *asked, const char *init_program, struct mechanism *ret, struct orch_err *err)
{
    static const struct {
        const char *name;
        int (*find)(const char *init_program, struct mechanism *ret, struct orch_err *err);
        bool weaker; /* never taken unless it is asked for */
    } table[] = {
        {"namespaces", namespaces_find, false}, {"bubblewrap", bwrap_find, false}, {"landlock", landlock_find, true}};
    if (strcmp(asked, "seatbelt") == 0) {
        return err_set(err, ORCH_E_UNAVAILABLE, "seatbelt is macOS' own: it needs macOS, and this is not");
    }
    bool any = strcmp(asked, "auto") == 0;
    struct orch_err first = ERR_INIT;
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        struct orch_err e = ERR_INIT;
        if (any ? table[i].weaker : strcmp(table[i].name, asked) != 0) {
            continue;
        }
        if (table[i].find(init_program, ret, &e) == 0) {
            return 0;
        }
        if (first.code == 0) {
            first = e;
            continue;
        }
        return err_set(err, ORCH_E_UNAVAILABLE, "%s; %s", first.message, e.message);
    }
    if (first.code < 0) {
        *err = first;
        return err->code;
    }
    return err_set(err, ORCH_E_UNAVAILABLE, "the mechanism `%s` is not built yet", asked);
}

void mechanism_done(struct mechanism *m)
{
    free(m->program);
    m->program = NULL;
}

pid_t mechanism_spawn(const struct mechanism *m, char *const *argv, const struct buf *plan,
                      const struct mechanism_options *o, int *ret_pidfd, struct orch_err *err)
{
    if (plan->overflow) {
        return err_set(err, ORCH_E_LIMIT, "the sandbox has too many grants");
    }
    AUTO_FD int memfd = fd_memfd("mount-plan", plan->data, plan->len, err);
    if (memfd < 0) {
        return memfd;
    }
    char *envp[] = {NULL};
    const struct spawn_fd fds[] = {{2, o->complaints},
                                   {MECHANISM_FD_CONTROL, o->control},
                                   {MECHANISM_FD_PLAN, memfd},
                                   {MECHANISM_FD_USERNS, o->userns}};
    struct spawn s = {.program = m->program,
                      .argv = argv,
                      .envp = envp,
                      .cwd = "/",
                      .private_mounts = m->private_mounts,
                      .same_session = true, /* the node's, without a terminal; the sandbox gets its own */
                      .fds = fds,
                      .fd_count = o->named_identity ? 4 : 3};
    return process_spawn(&s, ret_pidfd, err);
}
