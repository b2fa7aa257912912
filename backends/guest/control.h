/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket between a node and orch-init: a SEQPACKET pair, one
 * message a packet, both ends of one build on one machine. Plain libc, so that
 * the init stays small.
 *
 *   node → init   SPEC   struct control_spec, the filter, the writable, readable and absent paths (each NUL-terminated)
 *                 CALL   struct control_call, then cwd, argv…, env… (each NUL-terminated);
 *                        descriptors: stdin, stdout, stderr
 *                 SIGNAL struct control_signal
 *   init → node   HELLO  struct control_hello, then for each check: "name\0detail\0";
 *                        descriptors: a listener for each port, in order
 *                 EXIT   struct control_exit
 * A payload over CONTROL_INLINE_MAX travels as a sealed memfd: the last descriptor.
 * End of file: the other side is gone. The init then kills everything and exits.
 */
#ifndef ORCH_BACKENDS_GUEST_CONTROL_H
#define ORCH_BACKENDS_GUEST_CONTROL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CONTROL_FD 3 /* where the init finds its socket */
#define CONTROL_INLINE_MAX ((size_t)64 << 10)
#define CONTROL_PAYLOAD_MAX ((size_t)16 << 20)
#define CONTROL_FDS_MAX 20
#define CONTROL_PORTS_MAX 16
#define CONTROL_INIT_PATH "/.orch-init"

enum control_type { CONTROL_SPEC = 1, CONTROL_CALL, CONTROL_SIGNAL, CONTROL_HELLO, CONTROL_EXIT, CONTROL_TYPE_COUNT };

struct control_spec {
    uint32_t switch_identity; /* 1: started as uid 0 of the namespace, become uid:gid */
    uint32_t uid, gid;
    uint32_t no_landlock; /* 1: the self-test left it out */
    uint32_t isolated;    /* 1: the outside must be unreachable */
    uint32_t in_place;    /* 1: without namespaces (in_place.h) */
    uint32_t port_count;
    uint16_t ports[CONTROL_PORTS_MAX];
    uint32_t filter_len;   /* bytes of struct sock_filter[] */
    uint32_t writable_len; /* bytes of the writable paths */
    uint32_t readable_len; /* bytes of the readable paths; 0 unless in_place */
};

struct control_call {
    uint64_t memory, file, cpu_s, processes, nofile; /* 0: leave as it is */
    uint32_t argc, envc;
};

struct control_signal {
    int32_t signal; /* 9: every process; else the main process's group */
};

struct control_hello {
    uint32_t uid, gid;
    uint32_t failed; /* number of checks that failed; they come first */
    uint32_t checks;
    uint64_t capabilities; /* effective, permitted and bounding together */
    uint32_t no_new_privileges;
    uint32_t pid;          /* own pid inside: 1 */
    uint32_t landlock_abi; /* 0: none; every call is in a Landlock domain of its own */
    uint32_t filtered;     /* 1: every call has the system call filter */
};

/* What could not be done when the program was not started. */
enum control_step { CONTROL_STEP_PROGRAM, CONTROL_STEP_DIRECTORY };

struct control_exit {
    int32_t status;     /* as wait(2); meaningless when exec_errno != 0 */
    int32_t exec_errno; /* != 0: the program was not started */
    uint32_t exec_step; /* enum control_step, with exec_errno */
    uint32_t left;      /* processes alive after the main one */
    uint32_t killed;    /* a SIGNAL 9 came */
    uint32_t reserved;
    uint64_t user_us, system_us, maxrss_kb, wall_ns;
};

struct control_message {
    enum control_type type;
    char *data; /* owned (malloc); NUL-terminated; 8-byte aligned */
    size_t len;
    int fds[CONTROL_FDS_MAX]; /* owned, close-on-exec */
    size_t fd_count;
    pid_t sender; /* by SO_PASSCRED, 0 if unknown */
};

/* Sends one message: `head` then `tail` (may be NULL). Returns 0 or -errno; never blocks for room if the socket
 * is non-blocking (-EAGAIN). */
int control_send(int fd, enum control_type type, const void *head, size_t head_len, const void *tail, size_t tail_len,
                 const int *fds, size_t fd_count);
/* Receives one message. 1: got one; 0: end of file; -EAGAIN; other -errno, -EPROTO for a bad one. */
int control_receive(int fd, struct control_message *ret);
void control_message_done(struct control_message *m);

#endif
