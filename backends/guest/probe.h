/* SPDX-License-Identifier: Apache-2.0 */
/*
 * orch-probe: does the acts of probe_table.h and says what came of each. Static, needs nothing but the fixture.
 *
 *   orch-probe inside|outside FIXTURE      prints "<name> <errno>" a line, 0: the act succeeded
 *
 * FIXTURE is a file of "key=value" lines (struct fixture). Each act runs in a child of its own; one that is killed
 * gives the errno that its killing stands for (SIGKILL: ENOMEM, SIGXFSZ: EFBIG), else EINTR. Acts that mount
 * have a namespace of their own outside, so that one that succeeds harms nothing.
 */
#ifndef ORCH_BACKENDS_GUEST_PROBE_H
#define ORCH_BACKENDS_GUEST_PROBE_H

#include "backends/guest/probe_table.h"

#include <stdint.h>
#include <sys/types.h>

#define FIXTURE_PATH_MAX 512

struct fixture {
    int inside;
    char granted[FIXTURE_PATH_MAX];     /* directory granted read-write, with public, sub/hidden, root-only */
    char readable[FIXTURE_PATH_MAX];    /* directory granted read-only, with public */
    char output[FIXTURE_PATH_MAX];      /* directory granted read-write, empty */
    char secret[FIXTURE_PATH_MAX];      /* a file outside every grant */
    char marker_home[FIXTURE_PATH_MAX]; /* a file in the caller's home */
    char marker_tmp[FIXTURE_PATH_MAX], marker_shm[FIXTURE_PATH_MAX];
    char socket[FIXTURE_PATH_MAX];                /* a listening Unix socket, not granted */
    char abstract[128];                           /* name of a listening abstract socket */
    char queue[128];                              /* name of a POSIX message queue */
    char key[128];                                /* description of a key of the session */
    char variable[128];                           /* set outside, not declared */
    pid_t process;                                /* a process of the machine, of the caller's uid */
    int port, port6;                              /* listening on 127.0.0.1 and ::1; 0: none */
    int shared;                                   /* id of a SysV segment */
    int descriptor;                               /* open outside, not close-on-exec */
    int64_t processes, memory, file, tmp, nofile; /* limits of the sandbox */
};

#define X(name, group, kind, expected, other, needs, what) int probe_##name(const struct fixture *f);
PROBE_TABLE(X)
#undef X

/* "PATH/NAME" in a buffer of the caller's that holds FIXTURE_PATH_MAX + 64 bytes; returns it. */
char *probe_path(char *to, const char *dir, const char *name);
/* 0 or errno of opening with these flags (closed again). */
int probe_open(const char *path, int flags, mode_t mode);
/* 0 if `result` is not negative, else errno. */
int probe_result(long result);

#endif
