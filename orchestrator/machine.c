/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/machine.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TABLE_MAX ((size_t)8 << 20) /* mountinfo of a busy machine */

/* The whole of root/path; "" when it is not there. Owned by the caller. */
static char *read_text(const char *root, const char *path)
{
    struct orch_err ignored = ERR_INIT;
    AUTO_FREE char *full = xasprintf("%s%s", root, path);
    char *text = NULL;
    size_t len = 0;
    return fd_read_file(full, TABLE_MAX, &text, &len, &ignored) < 0 ? xstrdup("") : text;
}

static bool is_there(const char *root, const char *path)
{
    AUTO_FREE char *full = xasprintf("%s%s", root, path);
    return access(full, F_OK) == 0;
}

static int64_t number_at(const char *text)
{
    char *end = NULL;
    long long n = strtoll(text, &end, 10);
    return end == text ? MACHINE_UNKNOWN : n;
}

static int64_t read_number(const char *root, const char *path)
{
    AUTO_FREE char *text = read_text(root, path);
    return number_at(text);
}

static void read_kernel(const char *root, struct machine *m)
{
    AUTO_FREE char *release = read_text(root, "/proc/sys/kernel/osrelease");
    AUTO_FREE char *version = read_text(root, "/proc/version");
    const char *minor = strchr(release, '.');
    m->kernel_major = minor == NULL ? MACHINE_UNKNOWN : (int)number_at(release);
    m->kernel_minor = minor == NULL ? MACHINE_UNKNOWN : (int)number_at(minor + 1);
    if (strstr(version, "microsoft-standard") != NULL || strstr(version, "WSL2") != NULL) {
        m->wsl = 2; /* a Linux kernel of Microsoft's; the first version imitated one */
    } else if (strstr(version, "Microsoft") != NULL) {
        m->wsl = 1;
    }
}

static enum machine_container find_container(const char *root)
{
    AUTO_FREE char *first = read_text(root, "/proc/1/cgroup");
    AUTO_FREE char *mounts = read_text(root, "/proc/self/mountinfo");
    const struct {
        bool holds;
        enum machine_container is;
    } table[] = {
        {strstr(first, "kubepods") != NULL || strstr(mounts, "/kubelet/pods/") != NULL, MACHINE_KUBERNETES},
        {is_there(root, "/var/run/secrets/kubernetes.io"), MACHINE_KUBERNETES},
        {is_there(root, "/.dockerenv") || strstr(first, "/docker") != NULL, MACHINE_DOCKER},
        {is_there(root, "/run/.containerenv") || strstr(first, "libpod") != NULL, MACHINE_PODMAN},
        {is_there(root, "/run/systemd/container") || strstr(first, "/lxc") != NULL, MACHINE_OTHER_CONTAINER},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        if (table[i].holds) {
            return table[i].is;
        }
    }
    return MACHINE_NO_CONTAINER;
}

static void read_security(const char *root, struct machine *m)
{
    AUTO_FREE char *status = read_text(root, "/proc/self/status");
    AUTO_FREE char *profile = read_text(root, "/proc/self/attr/current");
    AUTO_FREE char *modules = read_text(root, "/sys/kernel/security/lsm");
    const char *mode = strstr(status, "\nSeccomp:");
    m->seccomp = mode != NULL ? number_at(mode + strlen("\nSeccomp:")) : MACHINE_UNKNOWN;
    m->apparmor_confined = strstr(profile, "(enforce)") != NULL;
    m->landlock_listed = modules[0] == '\0' ? MACHINE_UNKNOWN : strstr(modules, "landlock") != NULL;
    m->apparmor_restrict = read_number(root, "/proc/sys/kernel/apparmor_restrict_unprivileged_userns");
    m->userns_clone = read_number(root, "/proc/sys/kernel/unprivileged_userns_clone");
    m->max_user_namespaces = read_number(root, "/proc/sys/user/max_user_namespaces");
    m->max_net_namespaces = read_number(root, "/proc/sys/user/max_net_namespaces");
    m->selinux_enforcing = read_number(root, "/sys/fs/selinux/enforce");
}

static bool is_read_only(const char *options)
{
    return strcmp(options, "ro") == 0 || strncmp(options, "ro,", 3) == 0;
}

/* proc(5): id parent device root point options [optional…] - type source super-options */
static void read_mount(const char *line, struct machine *m)
{
    char point[512];
    char options[512];
    char type[32];
    const char *tail = strstr(line, " - ");
    if (tail == NULL || sscanf(line, "%*s %*s %*s %*s %511s %511s", point, options) != 2 ||
        sscanf(tail, " - %31s", type) != 1) {
        return;
    }
    bool binfmt = strncmp(point, "/proc/sys/fs/binfmt_misc", 24) == 0; /* everywhere, and hides nothing */
    if (strncmp(point, "/proc/", 6) == 0 && !binfmt) {
        m->proc_masked = 1;
    }
    if (strcmp(point, "/proc/sys") == 0 || strcmp(point, "/proc") == 0) {
        m->proc_sys_read_only = is_read_only(options);
    }
    bool second = strcmp(type, "cgroup2") == 0;
    if (strcmp(type, "cgroup") == 0 || second) {
        bool hybrid = m->cgroup_version == 1 && second; /* the controllers are in version 1 */
        m->cgroup_version = hybrid ? 1 : second ? 2 : 1;
        m->cgroup_read_only = is_read_only(options);
    }
}

static void read_mounts(const char *root, struct machine *m)
{
    AUTO_FREE char *text = read_text(root, "/proc/self/mountinfo");
    for (const char *at = text; *at != '\0';) {
        size_t len = strcspn(at, "\n");
        AUTO_FREE char *line = xmemdup0(at, len);
        read_mount(line, m);
        at += len + (at[len] == '\n');
    }
}

static void read_ids(const char *root, struct machine *m)
{
    AUTO_FREE char *text = read_text(root, "/proc/self/uid_map");
    m->mapped_ids = text[0] == '\0' ? MACHINE_UNKNOWN : 0;
    for (const char *at = text; *at != '\0';) {
        char *next = NULL;
        (void)strtoll(at, &next, 10); /* inside, outside, count */
        (void)strtoll(next, &next, 10);
        m->mapped_ids += strtoll(next, NULL, 10);
        size_t len = strcspn(at, "\n");
        at += len + (at[len] == '\n');
    }
}

void machine_read(const char *root, struct machine *ret)
{
    *ret = (struct machine){.uid = geteuid()};
    read_kernel(root, ret);
    ret->container = find_container(root);
    read_security(root, ret);
    read_mounts(root, ret);
    read_ids(root, ret);
}

const char *machine_container_name(enum machine_container c)
{
    static const char *const names[] = {
        [MACHINE_NO_CONTAINER] = "none",     [MACHINE_DOCKER] = "docker",         [MACHINE_PODMAN] = "podman",
        [MACHINE_KUBERNETES] = "kubernetes", [MACHINE_OTHER_CONTAINER] = "other",
    };
    return (unsigned)c < MACHINE_CONTAINER_COUNT ? names[c] : "?";
}

/* What is not known is null. */
static void set_known(json_t *o, const char *key, int64_t value)
{
    json_set_take(o, key, value == MACHINE_UNKNOWN ? json_null() : json_integer(value));
}

json_t *machine_json(const struct machine *m)
{
    json_t *o = json_object();
    AUTO_FREE char *kernel = xasprintf("%d.%d", m->kernel_major, m->kernel_minor);
    json_set_int(o, "uid", m->uid);
    json_set_str(o, "kernel", m->kernel_major == MACHINE_UNKNOWN ? NULL : kernel);
    json_set_str(o, "container", machine_container_name(m->container));
    const struct {
        const char *key;
        int64_t value;
    } numbers[] = {
        {"wsl", m->wsl},
        {"apparmor_restrict_unprivileged_userns", m->apparmor_restrict},
        {"unprivileged_userns_clone", m->userns_clone},
        {"max_user_namespaces", m->max_user_namespaces},
        {"max_net_namespaces", m->max_net_namespaces},
        {"selinux_enforcing", m->selinux_enforcing},
        {"seccomp_mode", m->seccomp},
        {"apparmor_confined", m->apparmor_confined},
        {"landlock_listed", m->landlock_listed},
        {"proc_masked", m->proc_masked},
        {"proc_sys_read_only", m->proc_sys_read_only},
        {"cgroup_version", m->cgroup_version},
        {"cgroup_read_only", m->cgroup_read_only},
        {"mapped_ids", m->mapped_ids},
    };
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        set_known(o, numbers[i].key, numbers[i].value);
    }
    return o;
}
