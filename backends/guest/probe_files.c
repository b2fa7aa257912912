/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/guest/probe.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATHS char path[FIXTURE_PATH_MAX + 64]

static int read_something(const char *path)
{
    char byte;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int code = fd < 0 ? errno : read(fd, &byte, 1) < 0 ? errno : 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    return code;
}

/* Creates and removes again. */
static int create_in(const char *dir)
{
    PATHS;
    int code = probe_open(probe_path(path, dir, ".orch-probe"), O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (code == 0) {
        (void)unlink(path);
    }
    return code;
}

static int seen(const char *path)
{
    struct stat st;
    return probe_result(lstat(path, &st));
}

int probe_read_granted(const struct fixture *f)
{
    PATHS;
    return read_something(probe_path(path, f->readable, "public"));
}

int probe_write_output(const struct fixture *f)
{
    return create_in(f->output);
}

int probe_write_tmp(const struct fixture *f)
{
    (void)f;
    return create_in("/tmp");
}

int probe_write_home(const struct fixture *f)
{
    return f->inside ? create_in("/home/agent") : 0;
}

int probe_write_shm(const struct fixture *f)
{
    (void)f;
    return create_in("/dev/shm");
}

int probe_rename_output(const struct fixture *f)
{
    char a[FIXTURE_PATH_MAX + 64];
    char b[FIXTURE_PATH_MAX + 64];
    char c[FIXTURE_PATH_MAX + 64];
    if (mkdir(probe_path(a, f->output, "a"), 0755) < 0 || mkdir(probe_path(b, f->output, "a/x"), 0755) < 0) {
        return errno;
    }
    int code = probe_result(rename(b, probe_path(c, f->output, "x")));
    (void)rmdir(c);
    (void)rmdir(b);
    (void)rmdir(a);
    return code;
}

int probe_read_secret(const struct fixture *f)
{
    return read_something(f->secret);
}

int probe_read_home(const struct fixture *f)
{
    return seen(f->marker_home);
}

int probe_read_link(const struct fixture *f)
{
    PATHS;
    if (symlink(f->secret, probe_path(path, f->output, "link")) < 0) {
        return EIO;
    }
    int code = read_something(path);
    (void)unlink(path);
    return code;
}

int probe_link_secret(const struct fixture *f)
{
    PATHS;
    int code = probe_result(link(f->secret, probe_path(path, f->output, "hard")));
    (void)unlink(path);
    return code;
}

int probe_see_tmp(const struct fixture *f)
{
    return seen(f->marker_tmp);
}

int probe_see_shm(const struct fixture *f)
{
    return seen(f->marker_shm);
}

int probe_see_var(const struct fixture *f)
{
    (void)f;
    return seen("/var");
}

int probe_see_sys(const struct fixture *f)
{
    (void)f;
    return seen("/sys");
}

int probe_see_run(const struct fixture *f)
{
    (void)f;
    return seen("/run");
}

int probe_see_cgroups(const struct fixture *f)
{
    (void)f;
    return seen("/sys/fs/cgroup");
}

/* Outside it belongs to the caller. */
int probe_write_granted(const struct fixture *f)
{
    return create_in(f->readable);
}

int probe_write_root(const struct fixture *f)
{
    /* nobody but root may create there outside: the control is a directory of the caller's */
    return create_in(f->inside ? "/" : f->output);
}

int probe_write_usr(const struct fixture *f)
{
    (void)f;
    return create_in("/usr");
}

int probe_write_etc(const struct fixture *f)
{
    (void)f;
    return create_in("/etc");
}

int probe_read_hidden(const struct fixture *f)
{
    PATHS;
    struct stat st;
    if (stat(probe_path(path, f->granted, "sub/hidden"), &st) < 0) {
        return errno;
    }
    return !S_ISREG(st.st_mode) ? EINVAL : st.st_size == 0 ? ENODATA : read_something(path);
}

int probe_write_hidden(const struct fixture *f)
{
    PATHS;
    return probe_open(probe_path(path, f->granted, "sub/hidden"), O_WRONLY | O_APPEND, 0);
}

int probe_move_hidden(const struct fixture *f)
{
    char from[FIXTURE_PATH_MAX + 64];
    char to[FIXTURE_PATH_MAX + 64];
    probe_path(from, f->granted, "sub");
    int code = probe_result(rename(from, probe_path(to, f->granted, "moved")));
    if (code == 0) {
        (void)rename(to, from);
    }
    return code;
}

int probe_unlink_hidden(const struct fixture *f)
{
    char from[FIXTURE_PATH_MAX + 64];
    char to[FIXTURE_PATH_MAX + 64];
    probe_path(from, f->granted, "sub/hidden");
    int code = probe_result(rename(from, probe_path(to, f->granted, "sub/moved")));
    if (code == 0) {
        (void)rename(to, from);
    }
    return code;
}

/* ---- setuid and devices ---- */

static int with_file(const struct fixture *f, int (*act)(const char *path, int fd))
{
    PATHS;
    int fd = open(probe_path(path, f->output, "file"), O_RDWR | O_CREAT | O_CLOEXEC, 0700);
    if (fd < 0) {
        return EIO;
    }
    int code = act(path, fd);
    (void)close(fd);
    (void)unlink(path);
    return code;
}

static int do_setuid(const char *path, int fd)
{
    (void)fd;
    return probe_result(chmod(path, 04755));
}

static int do_setgid(const char *path, int fd)
{
    (void)fd;
    return probe_result(chmod(path, 02755));
}

static int do_fchmod(const char *path, int fd)
{
    (void)path;
    return probe_result(fchmod(fd, 06755));
}

int probe_chmod_setuid(const struct fixture *f)
{
    return with_file(f, do_setuid);
}

int probe_chmod_setgid(const struct fixture *f)
{
    return with_file(f, do_setgid);
}

int probe_fchmod_setuid(const struct fixture *f)
{
    return with_file(f, do_fchmod);
}

int probe_create_setuid(const struct fixture *f)
{
    PATHS;
    int code = probe_open(probe_path(path, f->output, "setuid"), O_WRONLY | O_CREAT | O_EXCL, 04755);
    (void)unlink(path);
    return code;
}

int probe_mkdir_setgid(const struct fixture *f)
{
    PATHS;
    int code = probe_result(mkdir(probe_path(path, f->output, "setgid"), 02755));
    (void)rmdir(path);
    return code;
}

int probe_openat2_call(const struct fixture *f)
{
    struct {
        uint64_t flags, mode, resolve;
    } how = {.flags = O_RDONLY | O_DIRECTORY};
    return probe_result(syscall(SYS_openat2, AT_FDCWD, f->output, &how, sizeof how));
}

int probe_make_device(const struct fixture *f)
{
    PATHS;
    int code = probe_result(mknod(probe_path(path, f->output, "device"), S_IFCHR | 0600, makedev(1, 3)));
    (void)unlink(path);
    return code;
}

int probe_open_by_handle(const struct fixture *f)
{
    struct {
        struct file_handle handle;
        unsigned char bytes[128];
    } h = {.handle = {.handle_bytes = 128}};
    int mount_id = 0;
    if (name_to_handle_at(AT_FDCWD, f->output, &h.handle, &mount_id, 0) < 0) {
        return errno;
    }
    int root = open(f->output, O_RDONLY | O_CLOEXEC);
    return probe_result(open_by_handle_at(root, &h.handle, O_RDONLY | O_CLOEXEC));
}

int probe_file_lock(const struct fixture *f)
{
    (void)f;
    int fd = open("/usr/bin/env", O_RDONLY | O_CLOEXEC);
    return fd < 0 ? errno : probe_result(flock(fd, LOCK_EX | LOCK_NB));
}

int probe_memory_program(const struct fixture *f)
{
    (void)f;
    int fd = memfd_create("program", MFD_CLOEXEC);
    static const char script[] = "#!/bin/sh\nexit 0\n";
    return fd < 0 ? errno : probe_result(write(fd, script, sizeof script - 1));
}
