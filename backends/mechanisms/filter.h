/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system call filter of every call, put on by orch-init right before exec. guest/filter_make.c makes it with
 * libseccomp when orch is built, for the architecture it is built for: making it takes longer than opening a sandbox.
 *
 * What is not refused is allowed: agents run any program. Refused is what lets a process leave, or reach parts of the
 * kernel that no agent's program needs (sandboxes catalogue: other namespaces and mounts, io_uring, bpf, keyrings,
 * foreign socket families, input to terminals, setuid bits, a second ABI). Left, because programs break without: ptrace
 * (a Landlock domain and the PID namespace hold it), NETLINK_ROUTE, AF_UNIX where no socket of the host's can be
 * reached.
 */
#ifndef ORCH_BACKENDS_MECHANISMS_FILTER_H
#define ORCH_BACKENDS_MECHANISMS_FILTER_H

#include <stddef.h>

struct filter_program {
    const void *bytes; /* struct sock_filter[], constant */
    size_t len;        /* in bytes */
};

enum filter_kind {
    FILTER_UNIX,    /* AF_UNIX is allowed, as nothing granted holds a socket */
    FILTER_NO_UNIX, /* it is not */
    /* For a sandbox without namespaces. AF_UNIX is refused, as a connect to a socket file asks for no right that
     * Landlock knows before ABI 9; so are objects of System V and message queues, and limits of other processes. */
    FILTER_IN_PLACE,
    FILTER_IN_PLACE_ISOLATED, /* no socket but pairs: neither TCP nor UDP nor raw, and no list of interfaces */
};
struct filter_program filter_program(enum filter_kind kind);

#endif
