/* SPDX-License-Identifier: Apache-2.0 */
/*
 * orch-init: PID 1 of every sandbox (of one without namespaces: in_place.h). It takes its spec from the control
 * socket, drops everything it has, checks from inside, says hello, and runs
 * calls one after the other. End of the socket ends the sandbox.
 *
 * Exit status: 0 the node ended it, 3 a bad message, 4 it could not drop its privileges, 5 it could not make its
 * namespaces or mounts (launch.h).
 */
#include "backends/guest/control.h"
#include "backends/guest/in_place.h"
#include "backends/guest/init_call.h"
#include "backends/guest/init_check.h"
#include "backends/guest/init_drop.h"
#include "backends/guest/launch.h"
#include "backends/guest/probe_step.h"
#include "backends/guest/reaper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { INIT_OK = 0, INIT_PROTOCOL = 3, INIT_DROP = 4, INIT_LAUNCH = 5 };

struct init {
    int control;
    bool in_place;
    int signals;
    struct confinement confinement;
    struct running_call call;
    uint64_t user_us, system_us; /* of earlier calls: RUSAGE_CHILDREN only grows */
};

/* Signals are taken by signalfd; blocked ones of PID 1 cannot end it either way. */
static int block_signals(void)
{
    sigset_t all;
    (void)sigfillset(&all);
    int sys = pthread_sigmask(SIG_SETMASK, &all, NULL);
    if (sys != 0) {
        return -sys;
    }
    sigset_t child;
    (void)sigemptyset(&child);
    (void)sigaddset(&child, SIGCHLD);
    int fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

static int say_hello(struct init *in, const struct control_message *m)
{
    struct control_spec spec;
    if (m->type != CONTROL_SPEC || m->len < sizeof spec) {
        return INIT_PROTOCOL;
    }
    memcpy(&spec, m->data, sizeof spec);
    size_t texts = m->len - sizeof spec;
    uint64_t before_absent = (uint64_t)spec.filter_len + spec.writable_len + spec.readable_len;
    if (spec.port_count > CONTROL_PORTS_MAX || before_absent > texts || in->in_place != (spec.in_place != 0)) {
        return INIT_PROTOCOL;
    }
    const char *filter = m->data + sizeof spec;
    const char *writable = filter + spec.filter_len;
    const char *absent = filter + before_absent;
    struct control_hello hello = {.uid = 0};
    int dropped = drop_init(&spec, &hello);
    dropped = dropped == 0 ? confine_prepare(&spec, filter, writable, &in->confinement, &hello) : dropped;
    struct check_list list;
    if (dropped < 0 || check_list_init(&list) < 0) {
        return INIT_DROP;
    }
    int fds[CONTROL_PORTS_MAX];
    check_ports(&spec, fds, &list);
    check_inside(&spec, &hello, absent, texts - before_absent, &list);
    hello.failed = list.failed_count;
    hello.checks = list.failed_count + list.passed_count;
    char *text = malloc(list.failed_len + list.passed_len + 1);
    if (text == NULL) {
        return INIT_DROP;
    }
    memcpy(text, list.failed, list.failed_len);
    memcpy(text + list.failed_len, list.passed, list.passed_len);
    size_t fd_count = list.failed_count == 0 ? spec.port_count : 0; /* after a failure nothing will run */
    int code = control_send(in->control, CONTROL_HELLO, &hello, sizeof hello, text, list.failed_len + list.passed_len,
                            fds, fd_count);
    for (uint32_t i = 0; i < spec.port_count; i++) {
        (void)close(fds[i]);
    }
    free(text);
    check_list_done(&list);
    return code < 0 ? INIT_PROTOCOL : INIT_OK;
}

static int report(struct init *in, struct control_exit *e)
{
    uint64_t user = e->user_us;
    uint64_t system = e->system_us;
    if (e->exec_errno == 0) {
        e->user_us -= in->user_us;
        e->system_us -= in->system_us;
        in->user_us = user;
        in->system_us = system;
    }
    return control_send(in->control, CONTROL_EXIT, e, sizeof *e, NULL, 0, NULL, 0) < 0 ? INIT_PROTOCOL : INIT_OK;
}

static int on_signal_message(struct init *in, const struct control_message *m)
{
    struct control_signal s;
    if (m->len != sizeof s) {
        return INIT_PROTOCOL;
    }
    memcpy(&s, m->data, sizeof s);
    if (in->call.pid == 0 || s.signal < 1 || s.signal >= NSIG) {
        return INIT_OK; /* it ended while the message was under way */
    }
    if (s.signal == SIGKILL) {
        in->call.killed = 1;
        (void)kill(-1, SIGKILL);
    } else {
        (void)kill(-in->call.pid, s.signal);
    }
    return INIT_OK;
}

static int on_message(struct init *in, struct control_message *m)
{
    if (m->type == CONTROL_SIGNAL) {
        return on_signal_message(in, m);
    }
    if (m->type != CONTROL_CALL || in->call.pid != 0) {
        return INIT_PROTOCOL;
    }
    struct control_exit e = {.status = 0};
    if (call_start(m, &in->confinement, &in->call, &e) < 0) {
        return INIT_PROTOCOL;
    }
    return e.exec_errno != 0 ? report(in, &e) : INIT_OK;
}

static int on_children(struct init *in)
{
    struct signalfd_siginfo info;
    while (read(in->signals, &info, sizeof info) > 0) {
    }
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0) {
        if (in->call.pid != 0 && pid == in->call.pid) {
            struct control_exit e;
            call_end(&in->call, status, &e);
            return report(in, &e);
        }
        in->call.left += in->call.killed;
    }
    return INIT_OK;
}

static int serve(struct init *in)
{
    for (;;) {
        struct pollfd p[2] = {{in->control, POLLIN, 0}, {in->signals, POLLIN, 0}};
        if (poll(p, 2, -1) < 0 && errno != EINTR) {
            return INIT_PROTOCOL;
        }
        int code = p[1].revents != 0 ? on_children(in) : INIT_OK;
        if (code == INIT_OK && p[0].revents != 0) {
            struct control_message m;
            int got = control_receive(in->control, &m);
            if (got == 0) {
                return INIT_OK;
            }
            if (got < 0) {
                return INIT_PROTOCOL;
            }
            code = on_message(in, &m);
            control_message_done(&m);
        }
        if (code != INIT_OK) {
            return code;
        }
    }
}

int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    if (strcmp(word, LAUNCH_PROBE_WORD) == 0) {
        return launch_probe() == 0 ? INIT_OK : INIT_LAUNCH;
    }
    if (strcmp(word, PROBE_STEP_WORD) == 0) {
        return probe_step_main(argc > 2 ? argv[2] : "");
    }
    if (strcmp(word, REAPER_WORD) == 0) {
        return reaper_main(argv + 2);
    }
    bool in_place = strcmp(word, IN_PLACE_WORD) == 0;
    if ((in_place && in_place_enter() < 0) || (strcmp(word, LAUNCH_WORD) == 0 && launch() < 0)) {
        return INIT_LAUNCH;
    }
    if (!in_place && getpid() != 1) {
        return INIT_LAUNCH; /* kill(-1) would reach the machine's processes */
    }
    /* only stdio and the control socket are ours; whatever else came through the mechanism goes */
    if (syscall(SYS_close_range, CONTROL_FD + 1, ~0U, 0) < 0 || fcntl(CONTROL_FD, F_SETFD, FD_CLOEXEC) < 0) {
        return INIT_PROTOCOL;
    }
    struct init in = {.control = CONTROL_FD, .in_place = in_place, .signals = block_signals()};
    if (in.signals < 0) {
        return INIT_PROTOCOL;
    }
    struct control_message m;
    if (control_receive(in.control, &m) != 1) {
        return INIT_PROTOCOL;
    }
    int code = say_hello(&in, &m);
    control_message_done(&m);
    if (code == INIT_OK) {
        code = serve(&in);
    }
    (void)kill_all();
    return code;
}
