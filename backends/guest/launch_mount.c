/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/guest/launch_mount.h"

#include "backends/guest/launch.h"
#include "backends/mechanisms/mount_plan.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

struct step {
    enum mount_kind kind;
    const char *source; /* "" without one */
    const char *target; /* begins with / */
    uint64_t size;
};

static int say(const char *what, const char *path)
{
    (void)dprintf(2, "%s %s: %s\n", what, path, strerrordesc_np(errno));
    return -1;
}

static void shut(int fd)
{
    int sys = errno;
    if (fd >= 0) {
        (void)close(fd);
    }
    errno = sys;
}

/* ---- the calls ---- */

static int set_attributes(int mount, uint64_t set, bool below)
{
    struct mount_attr a = {.attr_set = set};
    unsigned flags = AT_EMPTY_PATH | (below ? AT_RECURSIVE : 0);
    return (int)syscall(SYS_mount_setattr, mount, "", flags, &a, sizeof a);
}

static int attach(int mount, int target)
{
    return (int)syscall(SYS_move_mount, mount, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}

/* A copy of what is mounted at `path` and below it, attached nowhere. */
static int copy_mounts(int dirfd, const char *path)
{
    return (int)syscall(SYS_open_tree, dirfd, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
}

struct option {
    const char *key, *value; /* value NULL: a flag */
};

/* A new file system, attached nowhere. */
static int new_mount(const char *type, const struct option *options, unsigned attributes)
{
    int fs = (int)syscall(SYS_fsopen, type, FSOPEN_CLOEXEC);
    int code = fs < 0 ? -1 : (int)syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "source", type, 0);
    for (; code >= 0 && options->key != NULL; options++) {
        unsigned command = options->value != NULL ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG;
        code = (int)syscall(SYS_fsconfig, fs, command, options->key, options->value, 0);
    }
    if (code >= 0) {
        code = (int)syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
    }
    int mount = code < 0 ? -1 : (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, attributes);
    shut(fs);
    return mount;
}

/* `path` below `root`, no link followed. */
static int open_inside(int root, const char *path, int flags)
{
    struct open_how how = {.flags = (uint64_t)flags | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    return (int)syscall(SYS_openat2, root, path[0] == '/' && path[1] != '\0' ? path + 1 : ".", &how, sizeof how);
}

/* The directory that holds the last component of `path`, which *ret_name becomes. */
static int open_parent(int root, const char *path, const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    char parent[SPEC_PATH_MAX];
    size_t n = (size_t)(slash - path);
    if (n >= sizeof parent) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(parent, path, n);
    parent[n] = '\0';
    *ret_name = slash + 1;
    return open_inside(root, n == 0 ? "/" : parent, O_PATH | O_DIRECTORY);
}

static int make_dir(int root, const char *path)
{
    const char *name = "";
    int parent = open_parent(root, path, &name);
    int code = parent < 0 ? -1 : mkdirat(parent, name, 0755);
    shut(parent);
    return code < 0 && errno != EEXIST ? -1 : 0;
}

static int make_file(int root, const char *path)
{
    const char *name = "";
    int parent = open_parent(root, path, &name);
    int fd = parent < 0 ? -1 : openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
    shut(parent);
    shut(fd);
    return fd < 0 ? -1 : 0;
}

/* Where `mount` shall be attached. Mount points lie in the prepared root; only those in memory are made here. */
static int open_point(int root, const char *target, int mount)
{
    int fd = open_inside(root, target, O_PATH);
    struct stat st;
    if (fd >= 0 || errno != ENOENT || fstat(mount, &st) < 0) {
        return fd;
    }
    int made = S_ISDIR(st.st_mode) ? make_dir(root, target) : make_file(root, target);
    return made < 0 ? -1 : open_inside(root, target, O_PATH);
}

/* Attaches and closes `mount`. */
static int put_mount(int root, const char *target, int mount)
{
    int point = mount < 0 ? -1 : open_point(root, target, mount);
    int code = point < 0 ? -1 : attach(mount, point);
    shut(point);
    shut(mount);
    return code;
}

/* ---- steps ---- */

static int bind(int root, const struct step *s, uint64_t attributes)
{
    int mount = copy_mounts(AT_FDCWD, s->source);
    if (mount < 0 || set_attributes(mount, attributes, true) < 0) {
        shut(mount);
        return -1;
    }
    return put_mount(root, s->target, mount);
}

/* Parts of /proc that speak to the machine: read-only even for a process that would own them (bubblewrap does the same
 * for those it could write). */
static int cover_proc(int proc)
{
    static const char *const parts[] = {"sysrq-trigger", "irq", "bus"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        int mount = copy_mounts(proc, parts[i]);
        if (mount < 0 && errno == ENOENT) {
            continue;
        }
        if (mount < 0 || set_attributes(mount, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, true) < 0) {
            shut(mount);
            return -1;
        }
        char path[32];
        (void)snprintf(path, sizeof path, "/%s", parts[i]);
        if (put_mount(proc, path, mount) < 0) {
            return -1;
        }
    }
    return 0;
}

static int do_proc(int root, const struct step *s)
{
    static const struct option none[] = {{NULL, NULL}};
    int mount = new_mount("proc", none, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    if (put_mount(root, s->target, mount) < 0) {
        return -1;
    }
    int proc = open_inside(root, s->target, O_PATH | O_DIRECTORY);
    int code = proc < 0 ? -1 : cover_proc(proc);
    shut(proc);
    return code;
}

static int do_tmpfs(int root, const struct step *s)
{
    char size[32];
    (void)snprintf(size, sizeof size, "%llu", (unsigned long long)s->size);
    const struct option options[] = {{"mode", "1777"}, {"size", size}, {NULL, NULL}};
    return put_mount(root, s->target, new_mount("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV));
}

/* A device of the machine, if it is the one it should be. */
static int put_device(int dev, const char *name, unsigned major_number, unsigned minor_number)
{
    char path[32];
    (void)snprintf(path, sizeof path, "/dev/%s", name);
    int mount = copy_mounts(AT_FDCWD, path);
    struct stat st;
    if (mount < 0 || fstat(mount, &st) < 0) {
        shut(mount);
        return -1;
    }
    if (!S_ISCHR(st.st_mode) || st.st_rdev != makedev(major_number, minor_number)) {
        shut(mount);
        errno = ENODEV;
        return -1;
    }
    if (set_attributes(mount, MOUNT_ATTR_NOSUID, false) < 0) {
        shut(mount);
        return -1;
    }
    return put_mount(dev, path + strlen("/dev"), mount);
}

static int fill_dev(int dev)
{
    static const struct {
        const char *name;
        unsigned major_number, minor_number; /* Documentation/admin-guide/devices.txt */
    } devices[] = {{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}};
    static const struct {
        const char *name, *to;
    } links[] = {{"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"},
                 {"stderr", "/proc/self/fd/2"}, {"core", "/proc/kcore"},      {"ptmx", "pts/ptmx"}};
    static const struct option terminals[] = {
        {"newinstance", NULL}, {"ptmxmode", "0666"}, {"mode", "620"}, {NULL, NULL}};
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        if (put_device(dev, devices[i].name, devices[i].major_number, devices[i].minor_number) < 0) {
            return -1;
        }
    }
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
        if (symlinkat(links[i].to, dev, links[i].name) < 0) {
            return -1;
        }
    }
    if (mkdirat(dev, "shm", 0755) < 0 || mkdirat(dev, "pts", 0755) < 0) {
        return -1;
    }
    return put_mount(dev, "/pts", new_mount("devpts", terminals, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC));
}

static int do_dev(int root, const struct step *s)
{
    static const struct option options[] = {{"mode", "0755"}, {NULL, NULL}};
    if (put_mount(root, s->target, new_mount("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)) < 0) {
        return -1;
    }
    int dev = open_inside(root, s->target, O_PATH | O_DIRECTORY);
    int code = dev < 0 ? -1 : fill_dev(dev);
    shut(dev);
    return code;
}

static int do_remount(int root, const struct step *s)
{
    int fd = open_inside(root, s->target, O_PATH);
    int code = fd < 0 ? -1 : set_attributes(fd, MOUNT_ATTR_RDONLY, false);
    shut(fd);
    return code;
}

static int do_step(int root, const struct step *s)
{
    static const uint64_t common = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    switch (s->kind) {
    case MOUNT_RO_BIND:
        return bind(root, s, common | MOUNT_ATTR_RDONLY);
    case MOUNT_BIND:
        return bind(root, s, common);
    case MOUNT_PROC:
        return do_proc(root, s);
    case MOUNT_DEV:
        return do_dev(root, s);
    case MOUNT_TMPFS:
        return do_tmpfs(root, s);
    case MOUNT_REMOUNT_RO:
        return do_remount(root, s);
    case MOUNT_DIR:
        return make_dir(root, s->target);
    case MOUNT_KIND_COUNT:
        break;
    }
    errno = EPROTO;
    return -1;
}

/* ---- the plan ---- */

static int next_step(const char **at, const char *end, struct step *ret)
{
    struct launch_step head;
    if ((size_t)(end - *at) < sizeof head) {
        errno = EPROTO;
        return -1;
    }
    memcpy(&head, *at, sizeof head);
    const char *source = *at + sizeof head;
    size_t left = (size_t)(end - source);
    if (head.source_len >= left || head.target_len >= left - head.source_len - 1) {
        errno = EPROTO;
        return -1;
    }
    const char *target = source + head.source_len + 1;
    if (source[head.source_len] != '\0' || target[head.target_len] != '\0' || target[0] != '/') {
        errno = EPROTO;
        return -1;
    }
    *ret = (struct step){.kind = (enum mount_kind)head.kind, .source = source, .target = target, .size = head.size};
    *at = target + head.target_len + 1;
    return 0;
}

/* The root is attached where it came from, so that it is a mount point that can be pivoted to. */
static int attach_root(const struct step *s)
{
    int root = copy_mounts(AT_FDCWD, s->source);
    int point = root < 0 ? -1 : open(s->source, O_PATH | O_DIRECTORY | O_CLOEXEC);
    bool bound = point >= 0 && s->kind == MOUNT_RO_BIND && strcmp(s->target, "/") == 0 &&
                 set_attributes(root, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, true) == 0 &&
                 attach(root, point) == 0;
    shut(point);
    if (!bound) {
        shut(root);
        return -1;
    }
    return root;
}

int launch_mount_all(uint32_t count, const char *steps, size_t len)
{
    const char *at = steps;
    int root = -1;
    for (uint32_t i = 0; i < count; i++) {
        struct step s;
        if (next_step(&at, steps + len, &s) < 0) {
            shut(root);
            return say("read", "the plan");
        }
        if (i == 0) {
            root = attach_root(&s);
        }
        if (root < 0 || (i > 0 && do_step(root, &s) < 0)) {
            (void)say("mount", s.target);
            shut(root);
            return -1;
        }
    }
    return root;
}

int launch_mount_probe(void)
{
    static const struct option options[] = {{"mode", "0755"}, {NULL, NULL}};
    int mount = new_mount("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    int code = mount < 0 || set_attributes(mount, MOUNT_ATTR_RDONLY, true) < 0 ? say("mount", "a tmpfs") : 0;
    shut(mount);
    return code;
}
