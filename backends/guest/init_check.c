/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/guest/init_check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define HOME "/home/agent"

int check_list_init(struct check_list *l)
{
    *l = (struct check_list){.failed = malloc(CHECKS_TEXT_MAX), .passed = malloc(CHECKS_TEXT_MAX)};
    return l->failed == NULL || l->passed == NULL ? -ENOMEM : 0;
}

void check_list_done(struct check_list *l)
{
    free(l->failed);
    free(l->passed);
}

static void add(struct check_list *l, bool ok, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static void add(struct check_list *l, bool ok, const char *name, const char *fmt, ...)
{
    char detail[512];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(detail, sizeof detail, fmt, args);
    va_end(args);
    char *text = ok ? l->passed : l->failed;
    size_t *len = ok ? &l->passed_len : &l->failed_len;
    uint32_t *count = ok ? &l->passed_count : &l->failed_count;
    size_t need = strlen(name) + strlen(detail) + 2;
    if (need > CHECKS_TEXT_MAX - *len) {
        l->failed_count += ok ? 0 : 1; /* counted even where there is no room to say why */
        return;
    }
    memcpy(text + *len, name, strlen(name) + 1);
    memcpy(text + *len + strlen(name) + 1, detail, strlen(detail) + 1);
    *len += need;
    (*count)++;
}

static struct sockaddr_in address(uint32_t ip, uint16_t port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    a.sin_addr.s_addr = htonl(ip);
    return a;
}

/* A connection to ourselves: loopback is up and the backlog takes it. */
static int listener_answers(int listener, uint16_t port)
{
    struct sockaddr_in a = address(INADDR_LOOPBACK, port);
    int c = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c < 0 || connect(c, (struct sockaddr *)&a, sizeof a) < 0) {
        int sys = errno;
        (void)close(c);
        return sys;
    }
    int s = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    int sys = s < 0 ? errno : 0;
    (void)close(s);
    (void)close(c);
    return sys;
}

static int open_listener(uint16_t port, int *ret)
{
    struct sockaddr_in a = address(INADDR_LOOPBACK, port);
    int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return errno;
    }
    /* the probe below leaves a connection in TIME_WAIT */
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || listen(fd, 128) < 0) {
        int sys = errno;
        (void)close(fd);
        return sys;
    }
    *ret = fd;
    return listener_answers(fd, port);
}

void check_ports(const struct control_spec *spec, int fds[CONTROL_PORTS_MAX], struct check_list *l)
{
    for (uint32_t i = 0; i < spec->port_count && i < CONTROL_PORTS_MAX; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "port-%u", spec->ports[i]);
        fds[i] = -1;
        int sys = open_listener(spec->ports[i], &fds[i]);
        add(l, sys == 0, name, "%s", sys == 0 ? "answers on 127.0.0.1" : strerrordesc_np(sys));
    }
}

static void check_outside(struct check_list *l)
{
    struct sockaddr_in a = address(0xc0000201, 9); /* 192.0.2.1: for documentation, never assigned */
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int sys = fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) < 0 ? errno : 0;
    (void)close(fd);
    add(l, sys == ENETUNREACH, "outside-unreachable", "connect to 192.0.2.1: %s",
        sys == 0 ? "reached" : strerrordesc_np(sys));
}

static void check_absent(const char *absent, size_t len, struct check_list *l)
{
    for (const char *p = absent; p < absent + len; p += strlen(p) + 1) {
        struct stat st;
        int sys = lstat(p, &st) == 0 ? 0 : errno;
        bool ok = sys == ENOENT || sys == ENOTDIR; /* EACCES would only hide whether it is there */
        add(l, ok, "absent", "%.400s: %s", p, sys == 0 ? "is there" : strerrordesc_np(sys));
    }
}

static void check_home(struct check_list *l)
{
    /* made here, not by the node: it must belong to the sandbox's identity, in memory of its own */
    int sys = mkdir(HOME, 0700) < 0 ? errno : 0;
    sys = sys == EEXIST ? 0 : sys;
    if (sys == 0 && access(HOME, R_OK | W_OK | X_OK) < 0) {
        sys = errno;
    }
    add(l, sys == 0, "home", "%s: %s", HOME, sys == 0 ? "private and writable" : strerrordesc_np(sys));
}

/* The rest is tried by each call, in the domain and under the filter that are its only walls. */
static void check_in_place(struct check_list *l)
{
    struct ucred node = {.pid = 0};
    socklen_t len = sizeof node;
    int known = getsockopt(CONTROL_FD, SOL_SOCKET, SO_PEERCRED, &node, &len) == 0 && node.pid > 0;
    int sys = known != 0 && kill(node.pid, 0) < 0 ? errno : 0;
    add(l, sys == EPERM, "signals-scoped", "signal the node: %s", sys == 0 ? "allowed" : strerrordesc_np(sys));
}

void check_inside(const struct control_spec *spec, const struct control_hello *facts, const char *absent,
                  size_t absent_len, struct check_list *l)
{
    bool identity = facts->uid != 0 && facts->gid != 0 && (spec->switch_identity == 0 || facts->uid == spec->uid);
    add(l, identity, "identity", "uid %u, gid %u", facts->uid, facts->gid);
    add(l, facts->capabilities == 0, "capabilities", "%#llx", (unsigned long long)facts->capabilities);
    add(l, facts->no_new_privileges == 1, "no-new-privileges", "%u", facts->no_new_privileges);
    if (spec->in_place != 0) {
        check_in_place(l);
        return;
    }
    add(l, facts->pid == 1, "first-process", "pid %u", facts->pid);
    int sys = unshare(CLONE_NEWUSER) == 0 ? 0 : errno;
    add(l, sys != 0, "no-user-namespaces", "unshare: %s", sys == 0 ? "allowed" : strerrordesc_np(sys));
    if (spec->isolated != 0) {
        check_outside(l);
    }
    check_home(l);
    check_absent(absent, absent_len, l);
}
