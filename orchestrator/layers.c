/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/layers.h"

#include "base/json.h"
#include "base/mem.h"

#include <string.h>

#define SCOPES_ABI 6 /* landlock(7): signals and abstract sockets */

static const json_t *enforced(const struct attempt *a)
{
    return json_get(a->record, "enforced");
}

/* The check of that name from inside; NULL when there was none. */
static const json_t *check_of(const struct attempt *a, const char *name)
{
    size_t i;
    json_t *check;
    json_array_foreach(json_get(a->record, "checks"), i, check)
    {
        if (strcmp(json_get_str(check, "name", ""), name) == 0) {
            return check;
        }
    }
    return NULL;
}

/* "… (found from inside)"; false when the check failed or was not made. */
static bool by_check(const struct attempt *a, const char *name, const char *what, char **ret)
{
    const json_t *check = check_of(a, name);
    if (check == NULL) {
        const char *mechanism = json_get_str(enforced(a), "mechanism", "");
        *ret = xasprintf(
            strcmp(mechanism, "landlock") == 0 ? "%s: not with the mechanism landlock" : "%s was not checked", what);
        return false;
    }
    *ret = xasprintf("%s (%s)", what, json_get_str(check, "detail", ""));
    return json_get_flag(check, "ok", false);
}

static bool user_namespace(const struct attempt *a, char **ret)
{
    return by_check(a, "no-user-namespaces", "its own; no other can be made in it", ret);
}

static bool mount_namespace(const struct attempt *a, char **ret)
{
    return by_check(a, "home", "a root of its own, made of what was granted", ret);
}

static bool process_namespace(const struct attempt *a, char **ret)
{
    return by_check(a, "first-process", "only its own processes are seen", ret);
}

static bool network_namespace(const struct attempt *a, char **ret)
{
    return by_check(a, "outside-unreachable", "loopback only", ret);
}

static bool privileges(const struct attempt *a, char **ret)
{
    bool on =
        json_get_int(enforced(a), "capabilities", -1) == 0 && json_get_flag(enforced(a), "no_new_privileges", false);
    *ret = xstrdup(on ? "no capability, and no new privileges" : "capabilities or privileges are left");
    return on;
}

static bool filter(const struct attempt *a, char **ret)
{
    bool on = strcmp(json_get_str(enforced(a), "seccomp", ""), "filter") == 0;
    *ret = xstrdup(on ? "every call has the system call filter" : "no filter was loaded");
    return on;
}

static bool landlock(const struct attempt *a, char **ret)
{
    int64_t abi = json_get_int(enforced(a), "landlock_abi", 0);
    *ret = abi == 0 ? xstrdup("the kernel offers none: it is older than 5.13, built without, or leaves it out of lsm=")
                    : xasprintf("ABI %lld: %s", (long long)abi,
                                abi >= SCOPES_ABI ? "writes, and scopes of signals and abstract sockets"
                                                  : "writes; scopes need ABI 6 (Linux 6.12)");
    return abi > 0;
}

static bool groups(const struct attempt *a, char **ret)
{
    const char *why = json_get_str(a->node, "limits_why", "");
    const char *used = json_get_str(enforced(a), "cgroup", "none");
    bool on = strcmp(used, "none") != 0;
    *ret = on ? xasprintf("version %c: memory and processes of the whole sandbox", used[strlen(used) - 1])
              : xasprintf("limits hold for each process only: %s", why[0] != '\0' ? why : "a group could not be made");
    return on;
}

static bool identity(const struct attempt *a, char **ret)
{
    bool range = strcmp(json_get_str(enforced(a), "identity", ""), "range") == 0;
    long long uid = (long long)json_get_int(a->record, "host_uid", -1);
    *ret = range ? xasprintf("host uid %lld of the operator's range, one a sandbox", uid)
                 : xasprintf("started as uid %lld: all sandboxes share it (a range needs root)", uid);
    return range;
}

static bool keyring(const struct attempt *a, char **ret)
{
    bool on = json_get_flag(enforced(a), "keyring", false);
    *ret = xstrdup(on ? "an empty session keyring, closed to all" : "the kernel gave no session keyring");
    return on;
}

static const struct {
    const char *id;
    bool (*look)(const struct attempt *a, char **ret_reason);
} layers[] = {
    {"user-namespace", user_namespace},
    {"mount-namespace", mount_namespace},
    {"pid-namespace", process_namespace},
    {"network-namespace", network_namespace},
    {"privileges", privileges},
    {"seccomp", filter},
    {"landlock", landlock},
    {"cgroup", groups},
    {"identity-range", identity},
    {"keyring", keyring},
};

json_t *layers_json(const struct attempt *a)
{
    json_t *list = json_array();
    for (size_t i = 0; i < ARRAY_LEN(layers); i++) {
        AUTO_FREE char *reason = NULL;
        bool on = false;
        if (a->record == NULL) {
            reason = xstrdup("no sandbox could be opened");
        } else {
            on = layers[i].look(a, &reason);
        }
        json_t *o = json_object();
        json_set_str(o, "id", layers[i].id);
        json_set_flag(o, "on", on);
        json_set_str(o, "reason", reason);
        json_add_take(list, o);
    }
    return list;
}
