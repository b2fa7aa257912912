/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the self-test needs outside a sandbox, so that an act in it can fail for the right reason: files granted and not
 * granted, a process, listeners, shared memory, a key, a descriptor, a variable. Everything is made in places of its
 * own and taken away again; a crash leaves at most one directory below TMPDIR and one file in /tmp and /dev/shm, named
 * orch-*.
 */
#ifndef ORCH_ORCHESTRATOR_SANDBOX_FIXTURE_H
#define ORCH_ORCHESTRATOR_SANDBOX_FIXTURE_H

#include "backends/spec.h"
#include "base/err.h"

#include <sys/types.h>

struct sandbox_fixture {
    bool in_place; /* for the mechanism landlock: nothing private, hidden or sized, and not below /tmp */
    char *dir;     /* everything that is a file */
    char *file;    /* what orch-probe reads */
    char *marker_home, *marker_tmp, *marker_shm;
    pid_t process;
    int sockets[4]; /* 127.0.0.1, ::1, abstract, path; -1: not to be had here */
    int shared;
    int descriptor;
};

/* Changes this process: its umask, an ignored signal, a session keyring, a variable, a descriptor that is inherited.
 * For a program that does nothing else. */
MUST_USE int sandbox_fixture_make(bool in_place, struct sandbox_fixture *ret, struct orch_err *err);
void sandbox_fixture_done(struct sandbox_fixture *f);

/* Grants, hidden path and limits that the fixture's file speaks of; `probe`: absolute path of orch-probe. */
void sandbox_fixture_spec(const struct sandbox_fixture *f, const char *probe, struct sandbox_spec *s);
/* A copy of orch-probe in what is granted: where it lies may be refused. *ret is owned by the caller. */
MUST_USE int sandbox_fixture_program(const struct sandbox_fixture *f, const char *probe, char **ret,
                                     struct orch_err *err);

#endif
