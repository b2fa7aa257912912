/* SPDX-License-Identifier: Apache-2.0 */
/*
 * orch-private-view [--cover DIR]... -- PROGRAM ARGV0 [ARG]...
 *
 * Runs PROGRAM in a mount namespace of its own in which each DIR is an empty,
 * read-only file system. Test environments use it to be sure that no path of
 * the host's is shared. Needs root: in a user namespace of its own the node would
 * see root's programs as an unknown user's, and rightly not trust them.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

enum { EXIT_REFUSED = 125, EXIT_NOT_EXECUTABLE = 126 };

static int refuse(const char *what)
{
    (void)fprintf(stderr, "orch-private-view: %s: %s\n", what, strerrordesc_np(errno));
    return EXIT_REFUSED;
}

int main(int argc, char **argv)
{
    int at = 1;
    if (unshare(CLONE_NEWNS) < 0) {
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
    (void)execv(argv[at + 1], argv + at + 2);
    (void)refuse(argv[at + 1]);
    return EXIT_NOT_EXECUTABLE;
}
