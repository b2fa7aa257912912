/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system call filter of every call, made once by the node (libseccomp) and put on by orch-init right before exec.
 *
 * What is not refused is allowed: agents run any program. Refused is what lets a process leave, or reach parts of the
 * kernel that no agent's program needs (sandboxes catalogue: other namespaces and mounts, io_uring, bpf, keyrings,
 * foreign socket families, input to terminals, setuid bits, a second ABI). Left, because programs break without: ptrace
 * (a Landlock domain and the PID namespace hold it), NETLINK_ROUTE, AF_UNIX where no socket of the host's can be
 * reached.
 */
#ifndef ORCH_BACKENDS_MECHANISMS_FILTER_H
#define ORCH_BACKENDS_MECHANISMS_FILTER_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>

#define FILTER_BYTES_MAX ((size_t)32768) /* BPF_MAXINSNS of 8 bytes each */

struct filter_options {
    bool unix_sockets; /* AF_UNIX is allowed: nothing granted holds a socket */
};

/* Appends the classic BPF program (struct sock_filter[], for this architecture) to `out`. ORCH_E_UNAVAILABLE when
 * libseccomp cannot make it. */
MUST_USE int filter_make(const struct filter_options *o, struct buf *out, struct orch_err *err);

#endif
