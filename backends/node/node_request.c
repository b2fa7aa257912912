/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: one table of operations and the members each may have. */
#include "backends/node/node.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/rng.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#define NODE_VERSION "0.1.0"

struct operation {
    const char *name;
    const char *members; /* allowed beside id and op, each followed by a space */
    /* Either fills *ret_ok (0) or fails; ORCH_LATER: it answers by itself. */
    int (*run)(struct node *n, int64_t id, const json_t *request, json_t **ret_ok, struct orch_err *err);
};

#define ORCH_LATER 1

/* ---- hello ---- */

static char *default_init(void)
{
    char self[SPEC_PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0) {
        return xstrdup("orch-init");
    }
    self[n] = '\0';
    AUTO_FREE char *dir = path_dir(self);
    return path_join(dir, "orch-init");
}

/* A hint for ext4: directories below `name` go to block groups of their own. Short-lived ones in one group make it
 * search for inodes that were not freed lately. Elsewhere it has no effect, and a refusal has none either. */
static void spread(int dirfd, const char *name)
{
    AUTO_FD int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int flags = 0;
    if (fd >= 0 && ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0) {
        flags |= FS_TOPDIR_FL;
        (void)ioctl(fd, FS_IOC_SETFLAGS, &flags);
    }
}

static int make_work(struct node *n, const char *parent, struct orch_err *err)
{
    if (parent == NULL) {
        parent = getenv("TMPDIR"); /* NOLINT(concurrency-mt-unsafe): nobody sets variables */
        parent = parent == NULL || parent[0] != '/' ? "/tmp" : parent;
    }
    AUTO_FREE char *real = NULL;
    TRY(path_real(parent, &real, err));
    char random[13];
    random_name(random, 12);
    AUTO_FREE char *work = xasprintf("%s/node-%s", strcmp(real, "/") == 0 ? "" : real, random);
    if (mkdir(work, 0700) < 0) {
        return err_errno(err, ORCH_E_UNAVAILABLE, "make the node's directory %s", work);
    }
    n->workfd = fd_open(work, O_RDONLY | O_DIRECTORY, 0, err);
    if (n->workfd < 0) {
        return n->workfd;
    }
    n->work = take(work);
    static const char *const parts[] = {"s", "spare", "trees", "roots", "places"};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        if (mkdirat(n->workfd, parts[i], 0755) < 0) {
            return err_errno(err, ORCH_E_UNAVAILABLE, "make %s/%s", n->work, parts[i]);
        }
    }
    spread(n->workfd, "s");
    return 0;
}

static int read_layers(struct node *n, const json_t *off, struct orch_err *err)
{
    static const char *const names[NODE_LAYER_COUNT] = {"seccomp", "landlock", "network", "limits"};
    for (size_t i = 0; i < json_array_size(off); i++) {
        const char *name = json_string_value(json_array_get(off, i));
        size_t k = 0;
        while (k < ARRAY_LEN(names) && (name == NULL || strcmp(names[k], name) != 0)) {
            k++;
        }
        if (k == ARRAY_LEN(names)) {
            return err_set(err, ORCH_E_CONFIG,
                           "faults.off: \"%.100s\" is no layer (seccomp, landlock, network, limits)",
                           name != NULL ? name : "");
        }
        n->off[k] = true;
    }
    return 0;
}

/* Sandboxes go through the node's directory on the machine's own paths; they cannot list it. */
static int greet_in_place(struct node *n, struct orch_err *err)
{
    identity_pool_plain(n->identities);
    return fchmod(n->workfd, 0711) < 0 ? err_errno(err, ORCH_E_IO, "open %s", n->work) : 0;
}

static int greet(struct node *n, const json_t *request, struct orch_err *err)
{
    if (json_get_int(request, "version", 0) != PROTOCOL_VERSION) {
        return err_set(err, ORCH_E_UNAVAILABLE, "this node speaks version %d", PROTOCOL_VERSION);
    }
    const json_t *ids = json_get(request, "ids");
    int64_t first = json_get_int(ids, "first", IDENTITY_FIRST_DEFAULT);
    int64_t count = json_get_int(ids, "count", IDENTITY_COUNT_DEFAULT);
    if (first < 0 || first > UINT32_MAX || count < 0 || count > UINT32_MAX) {
        return err_set(err, ORCH_E_CONFIG, "ids: out of range");
    }
    TRY(identity_pool_new((uint32_t)first, (uint32_t)count, &n->identities, err));
    TRY(make_work(n, json_get_str(request, "work", NULL), err));
    const char *asked = json_get_str(request, "init", NULL);
    AUTO_FREE char *init = asked != NULL ? xstrdup(asked) : default_init();
    TRY(mechanism_choose(json_get_str(request, "mechanism", "auto"), init, &n->mechanism, err));
    if (n->mechanism.in_place) {
        TRY(greet_in_place(n, err));
    }
    AUTO_FREE char *roots = path_join(n->work, "roots");
    n->groups = cgroup_tree_new();
    n->scans = grant_scans_new();
    TRY(skeletons_new(roots, n->mechanism.init_inside ? init : NULL, &n->skeletons, err));
    n->shares_paths = json_get_flag(request, "shares_paths", false);
    TRY(read_layers(n, json_get(json_get(request, "faults"), "off"), err));
    if (n->mechanism.in_place && n->off[NODE_LANDLOCK]) {
        return err_set(err, ORCH_E_CONFIG, "faults.off: landlock is the mechanism: nothing would hold without it");
    }
    n->passes_stdio = json_get_flag(request, "stdio", false);
    n->lose = json_get_int(json_get(request, "faults"), "lose", 0);
    return 0;
}

static int op_hello(struct node *n, int64_t id, const json_t *request, json_t **ret_ok, struct orch_err *err)
{
    (void)id;
    if (n->greeted) {
        return err_set(err, ORCH_E_PROTOCOL, "hello was said before");
    }
    TRY(greet(n, request, err));
    n->greeted = true;
    struct utsname u;
    bool known = uname(&u) == 0;
    json_t *mechanism = json_object();
    json_set_str(mechanism, "name", n->mechanism.name);
    json_set_str(mechanism, "path", n->mechanism.program);
    json_set_str(mechanism, "version", n->mechanism.version);
    json_t *ok = json_object();
    json_set_int(ok, "version", PROTOCOL_VERSION);
    json_set_str(ok, "node_version", NODE_VERSION);
    json_set_int(ok, "pid", getpid());
    json_set_int(ok, "uid", geteuid());
    json_set_str(ok, "identity", identity_pool_named(n->identities) ? "range" : "user");
    json_set_str(ok, "work", n->shares_paths ? n->work : NULL);
    json_set_take(ok, "mechanism", mechanism);
    json_set_str(ok, "limits", cgroup_tree_limits(n->groups));
    json_set_str(ok, "limits_why", cgroup_tree_why(n->groups));
    json_set_str(ok, "kernel", known ? u.release : "");
    json_set_int(ok, "cpus", sysconf(_SC_NPROCESSORS_ONLN));
    *ret_ok = ok;
    return 0;
}

/* ---- the others ---- */

static int find_sandbox(struct node *n, const json_t *request, struct node_sandbox **ret, struct orch_err *err)
{
    const char *name = json_get_str(request, "sandbox", "");
    *ret = sandbox_find(n, name);
    return *ret != NULL ? 0 : err_set(err, ORCH_E_NOT_FOUND, "no sandbox %.200s", name);
}

static int op_put(struct node *n, int64_t id, const json_t *request, json_t **ret_ok, struct orch_err *err)
{
    (void)ret_ok, (void)err;
    tree_put_request(n, id, request);
    return ORCH_LATER;
}

static int op_open(struct node *n, int64_t id, const json_t *request, json_t **ret_ok, struct orch_err *err)
{
    (void)ret_ok, (void)err;
    sandbox_open_request(n, id, request);
    return ORCH_LATER;
}

static int op_call(struct node *n, int64_t id, const json_t *request, json_t **ret_ok, struct orch_err *err)
{
    (void)id;
    struct node_sandbox *sb;
    TRY(find_sandbox(n, request, &sb, err));
    return call_request(sb, request, ret_ok, err);
}

static int op_signal(struct node *n, int64_t id, const json_t *request, json_t **ret_ok, struct orch_err *err)
{
    (void)id;
    struct node_sandbox *sb;
    TRY(find_sandbox(n, request, &sb, err));
    return call_signal_request(sb, request, ret_ok, err);
}

static int op_get(struct node *n, int64_t id, const json_t *request, json_t **ret_ok, struct orch_err *err)
{
    (void)ret_ok, (void)err;
    tree_get_request(n, id, request);
    return ORCH_LATER;
}

static int op_observe(struct node *n, int64_t id, const json_t *request, json_t **ret_ok, struct orch_err *err)
{
    (void)id, (void)err;
    struct node_sandbox *sb = sandbox_find(n, json_get_str(request, "sandbox", ""));
    if (sb != NULL) {
        *ret_ok = sandbox_observe_json(sb);
        return 0;
    }
    json_t *o = json_object();
    json_set_str(o, "state", "absent");
    json_set_str(o, "reason", "");
    json_set_take(o, "open", json_null());
    json_set_take(o, "calls", json_object());
    *ret_ok = o;
    return 0;
}

static int op_list(struct node *n, int64_t id, const json_t *request, json_t **ret_ok, struct orch_err *err)
{
    (void)id, (void)request, (void)err;
    json_t *list = json_array();
    for (const struct node_sandbox *sb = n->sandboxes; sb != NULL; sb = sb->next) {
        json_t *o = json_object();
        json_set_str(o, "sandbox", sb->name);
        json_set_str(o, "state", sandbox_state_name(sb));
        json_add_take(list, o);
    }
    *ret_ok = json_object();
    json_set_take(*ret_ok, "sandboxes", list);
    return 0;
}

static int op_remove(struct node *n, int64_t id, const json_t *request, json_t **ret_ok, struct orch_err *err)
{
    (void)ret_ok, (void)err;
    sandbox_remove_request(n, id, json_get_str(request, "sandbox", ""));
    return ORCH_LATER;
}

static int64_t count_descriptors(void)
{
    int64_t count = 0;
    DIR *d = opendir("/proc/self/fd");
    if (d == NULL) {
        return -1;
    }
    const struct dirent *e;
    while ((e = readdir(d)) != NULL) { /* NOLINT(concurrency-mt-unsafe): own DIR */
        count += e->d_name[0] != '.';
    }
    (void)closedir(d);
    return count - 1; /* the listing's own */
}

static int op_stats(struct node *n, int64_t id, const json_t *request, json_t **ret_ok, struct orch_err *err)
{
    (void)id, (void)request, (void)err;
    int64_t sandboxes = 0;
    for (const struct node_sandbox *sb = n->sandboxes; sb != NULL; sb = sb->next) {
        sandboxes++;
    }
    json_t *o = json_object();
    json_set_int(o, "descriptors", count_descriptors());
    json_set_int(o, "sandboxes", sandboxes);
    json_set_int(o, "slots", identity_pool_slots(n->identities));
    json_set_int(o, "opened", n->opened);
    json_set_int(o, "calls", n->calls);
    json_set_int(o, "trees", (int64_t)map_count(n->trees));
    json_set_int(o, "channels", (int64_t)channels_count(n));
    json_set_int(o, "lost", n->lost);
    *ret_ok = o;
    return 0;
}

static const struct operation operations[] = {
    {"hello", "version shares_paths work init mechanism stdio ids faults ", op_hello},
    {"put", "digest channel ", op_put},
    {"open", "sandbox spec ", op_open},
    {"call", "sandbox call argv env cwd limits stdin stdout stderr stdio wall_ms ", op_call},
    {"signal", "sandbox call signal ", op_signal},
    {"get", "sandbox path channel as ", op_get},
    {"observe", "sandbox ", op_observe},
    {"list", "", op_list},
    {"remove", "sandbox ", op_remove},
    {"stats", "", op_stats},
};

static bool member_known(const struct operation *op, const char *key)
{
    if (strcmp(key, "id") == 0 || strcmp(key, "op") == 0) {
        return true;
    }
    AUTO_FREE char *word = xasprintf("%s ", key);
    const char *at = strstr(op->members, word);
    return strchr(key, ' ') == NULL && at != NULL && (at == op->members || at[-1] == ' ');
}

static int run(struct node *n, int64_t id, const json_t *request, json_t **ret_ok, struct orch_err *err)
{
    const char *name = json_get_str(request, "op", "");
    size_t i = 0;
    while (i < ARRAY_LEN(operations) && strcmp(operations[i].name, name) != 0) {
        i++;
    }
    if (i == ARRAY_LEN(operations)) {
        return err_set(err, ORCH_E_PROTOCOL, "no operation \"%.100s\"", name);
    }
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)request, key, value)
    {
        if (!member_known(&operations[i], key)) {
            return err_set(err, ORCH_E_PROTOCOL, "%s: unknown member \"%.100s\"", name, key);
        }
    }
    if (!n->greeted && operations[i].run != op_hello) {
        return err_set(err, ORCH_E_PROTOCOL, "%s before hello", name);
    }
    return operations[i].run(n, id, request, ret_ok, err);
}

int node_request(struct node *n, const struct frame *f, struct orch_err *err)
{
    AUTO_JSON json_t *request = NULL;
    TRY(frame_json(f, &request, err));
    int64_t id = json_get_int(request, "id", 0);
    if (id <= 0) {
        return err_set(err, ORCH_E_PROTOCOL, "a request without a number");
    }
    json_t *ok = NULL;
    struct orch_err e = ERR_INIT;
    int code = run(n, id, request, &ok, &e);
    if (code < 0) {
        node_reply_error(n, id, &e);
    } else if (code == 0) {
        node_reply(n, id, ok);
    }
    return 0;
}

void node_release(struct node *n)
{
    trees_free(n);
    files_free_places(n);
    spares_free(n);
    skeletons_free(n->skeletons);
    identity_pool_free(n->identities);
    mechanism_done(&n->mechanism);
    cgroup_tree_free(n->groups);
    grant_scans_free(n->scans);
    fd_close(&n->workfd);
    if (n->work != NULL) {
        struct orch_err ignored = ERR_INIT;
        (void)!fd_remove_tree(AT_FDCWD, n->work, &ignored);
        free(n->work);
        n->work = NULL;
    }
}
