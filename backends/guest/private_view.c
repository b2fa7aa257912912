/* SPDX-License-Identifier: Apache-2.0 */
/*
 * orch-private-view [--cover DIR]... -- PROGRAM ARGV0 [ARG]...
 *
 * Runs PROGRAM in a mount namespace of its own in which each DIR is an empty,
 * read-only file system. Test environments use it to be sure that no path of
 * the host's is shared. As a user it makes a user namespace that maps only the
 * user; the capabilities it has there are gone after the exec.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { EXIT_REFUSED = 125, EXIT_NOT_EXECUTABLE = 126 };

static int refuse(const char *what)
{
    (void)fprintf(stderr, "orch-private-view: %s: %s\n", what, strerror(errno));
    return EXIT_REFUSED;
}

static int write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    ssize_t n = write(fd, text, strlen(text));
    (void)close(fd);
    return n == (ssize_t)strlen(text) ? 0 : -1;
}

static int own_namespace(void)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();
    char map[64];
    if (uid == 0) {
        return unshare(CLONE_NEWNS);
    }
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 || write_file("/proc/self/setgroups", "deny") < 0) {
        return -1;
    }
    (void)snprintf(map, sizeof map, "%u %u 1", uid, uid);
    if (write_file("/proc/self/uid_map", map) < 0) {
        return -1;
    }
    (void)snprintf(map, sizeof map, "%u %u 1", gid, gid);
    return write_file("/proc/self/gid_map", map);
}

int main(int argc, char **argv)
{
    int at = 1;
    /* exec keeps the parent-death signal, but namespaces must not let us miss a death before. */
    pid_t parent = getppid();
    if (own_namespace() < 0) {
        return refuse("make a namespace");
    }
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
        return refuse("make the mounts private");
    }
    for (; at + 1 < argc && strcmp(argv[at], "--cover") == 0; at += 2) {
        if (mount("tmpfs", argv[at + 1], "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY,
                  "size=4k,nr_inodes=4,mode=0555") < 0) {
            return refuse(argv[at + 1]);
        }
    }
    if (at + 2 >= argc || strcmp(argv[at], "--") != 0) {
        errno = EINVAL;
        return refuse("usage: [--cover DIR]... -- PROGRAM ARGV0 [ARG]...");
    }
    if (getppid() != parent) {
        return EXIT_REFUSED;
    }
    (void)execv(argv[at + 1], argv + at + 2);
    (void)refuse(argv[at + 1]);
    return EXIT_NOT_EXECUTABLE;
}
