/* SPDX-License-Identifier: Apache-2.0 */
/* The network, and the limits. */
#include "backends/guest/probe.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- network ---- */

static int connect_to(int family, int type, const void *address, socklen_t len)
{
    int fd = socket(family, type | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return errno;
    }
    int code = probe_result(connect(fd, address, len));
    (void)close(fd);
    return code;
}

static struct sockaddr_in address_4(const char *text, int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    (void)inet_pton(AF_INET, text, &a.sin_addr);
    return a;
}

int probe_own_loopback(const struct fixture *f)
{
    (void)f;
    struct sockaddr_in a = address_4("127.0.0.1", 0);
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || listen(fd, 1) < 0 ||
        getsockname(fd, (struct sockaddr *)&a, &len) < 0) {
        return errno;
    }
    return connect_to(AF_INET, SOCK_STREAM, &a, sizeof a);
}

int probe_socket_pair(const struct fixture *f)
{
    (void)f;
    int pair[2];
    return probe_result(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
}

int probe_route_socket(const struct fixture *f)
{
    (void)f;
    return probe_result(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
}

int probe_host_loopback(const struct fixture *f)
{
    struct sockaddr_in a = address_4("127.0.0.1", f->port);
    return connect_to(AF_INET, SOCK_STREAM, &a, sizeof a);
}

int probe_host_loopback_6(const struct fixture *f)
{
    struct sockaddr_in6 a = {
        .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)f->port6), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    return connect_to(AF_INET6, SOCK_STREAM, &a, sizeof a);
}

/* Connecting a datagram socket looks for a route and sends nothing. 192.0.2.0/24 is for documentation. */
int probe_outside(const struct fixture *f)
{
    (void)f;
    struct sockaddr_in a = address_4("192.0.2.1", 9);
    return connect_to(AF_INET, SOCK_DGRAM, &a, sizeof a);
}

int probe_outside_datagram(const struct fixture *f)
{
    struct sockaddr_in a = address_4("192.0.2.53", 53);
    if (!f->inside) {
        return connect_to(AF_INET, SOCK_DGRAM, &a, sizeof a);
    }
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return fd < 0 ? errno : probe_result(sendto(fd, "x", 1, 0, (struct sockaddr *)&a, sizeof a));
}

int probe_metadata(const struct fixture *f)
{
    (void)f;
    struct sockaddr_in a = address_4("169.254.169.254", 80);
    return connect_to(AF_INET, SOCK_DGRAM, &a, sizeof a);
}

int probe_abstract_socket(const struct fixture *f)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    size_t n = strnlen(f->abstract, sizeof a.sun_path - 1);
    memcpy(a.sun_path + 1, f->abstract, n);
    return connect_to(AF_UNIX, SOCK_STREAM, &a, (socklen_t)(sizeof a.sun_family + 1 + n));
}

int probe_path_socket(const struct fixture *f)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    memcpy(a.sun_path, f->socket, strnlen(f->socket, sizeof a.sun_path - 1));
    return connect_to(AF_UNIX, SOCK_STREAM, &a, sizeof a);
}

static int make_socket(long family, int type, int protocol)
{
    long fd = syscall(SYS_socket, family, type | SOCK_CLOEXEC, protocol);
    int code = probe_result(fd);
    if (fd >= 0) {
        (void)close((int)fd);
    }
    return code;
}

int probe_vm_socket(const struct fixture *f)
{
    (void)f;
    return make_socket(AF_VSOCK, SOCK_STREAM, 0);
}

int probe_packet_socket(const struct fixture *f)
{
    (void)f;
    return make_socket(AF_PACKET, SOCK_RAW, 0);
}

int probe_crypto_socket(const struct fixture *f)
{
    (void)f;
    return make_socket(AF_ALG, SOCK_SEQPACKET, 0);
}

int probe_raw_socket(const struct fixture *f)
{
    (void)f;
    return make_socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
}

int probe_audit_socket(const struct fixture *f)
{
    (void)f;
    return make_socket(AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG);
}

/* The kernel looks at the low 32 bits. */
int probe_high_family(const struct fixture *f)
{
    (void)f;
    return make_socket((1L << 32) | AF_INET, SOCK_STREAM, 0);
}

/* ---- limits ---- */

int probe_fork_bomb(const struct fixture *f)
{
    enum { MOST = 1024 };
    pid_t children[MOST];
    int code = 0;
    int count = 0;
    while (count < f->processes * 2 && count < MOST && code == 0) {
        pid_t pid = fork();
        if (pid == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            (void)close(1); /* who waits for our output must not wait for them */
            for (;;) {
                (void)pause();
            }
        }
        code = probe_result(pid);
        children[count] = pid;
        count += pid > 0;
    }
    for (int i = 0; i < count; i++) {
        (void)kill(children[i], SIGKILL);
    }
    while (waitpid(-1, NULL, 0) > 0) {
    }
    return code;
}

int probe_much_memory(const struct fixture *f)
{
    size_t size = (size_t)(f->memory + f->memory / 2);
    char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        return errno;
    }
    for (size_t i = 0; i < size; i += 4096) {
        p[i] = 1; /* killed here where a group limits the tree */
    }
    return 0;
}

static int fill(const char *dir, int64_t bytes)
{
    char path[FIXTURE_PATH_MAX + 64];
    static const char block[65536] = {1};
    int fd = open(probe_path(path, dir, ".orch-fill"), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int code = probe_result(fd);
    for (int64_t n = 0; n < bytes && code == 0; n += (int64_t)sizeof block) {
        code = probe_result(write(fd, block, sizeof block));
    }
    if (fd >= 0) {
        (void)close(fd);
        (void)unlink(path);
    }
    return code;
}

int probe_big_tmp(const struct fixture *f)
{
    return fill("/tmp", f->tmp * 2);
}

int probe_big_shm(const struct fixture *f)
{
    return fill("/dev/shm", f->tmp * 2);
}

int probe_big_home(const struct fixture *f)
{
    return f->inside ? fill("/home/agent", f->tmp * 2) : 0;
}

static int at_size(const struct fixture *f, int (*act)(int fd, int64_t limit))
{
    char path[FIXTURE_PATH_MAX + 64];
    (void)signal(SIGXFSZ, SIG_IGN);
    int fd = open(probe_path(path, f->output, "big"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        return EIO;
    }
    int code = act(fd, f->file);
    (void)close(fd);
    (void)unlink(path);
    return code;
}

static int write_behind(int fd, int64_t limit)
{
    return probe_result(pwrite(fd, "x", 1, limit + 1));
}

static int stretch(int fd, int64_t limit)
{
    return probe_result(ftruncate(fd, limit + ((int64_t)1 << 30)));
}

int probe_big_file(const struct fixture *f)
{
    return at_size(f, write_behind);
}

int probe_sparse_file(const struct fixture *f)
{
    return at_size(f, stretch);
}

int probe_many_descriptors(const struct fixture *f)
{
    int code = 0;
    for (int64_t i = 0; i < f->nofile && code == 0; i++) {
        code = probe_result(fcntl(0, F_DUPFD_CLOEXEC, 3));
    }
    return code;
}
