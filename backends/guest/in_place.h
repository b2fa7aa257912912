/* SPDX-License-Identifier: Apache-2.0 */
/*
 * orch-init without namespaces, for the mechanism "landlock" (mechanisms/landlock.h): `orch-init in-place`.
 *
 * In place of a PID namespace stands a domain that scopes signals and nothing else. kill(-1) in it reaches exactly what
 * was started in it, however it daemonised (kill(2): processes that may not be signalled are passed over), and as a
 * subreaper (prctl(2)) the init waits until none is left. Calls are in further domains, from which the init cannot be
 * reached. Above it stands a guardian, in a domain around the init's and in no control group, that holds nothing and
 * reads nothing: when the init ends, or is killed by whomever, it ends what is left in the same way. So the node may
 * kill the init, but never the guardian.
 */
#ifndef ORCH_BACKENDS_GUEST_IN_PLACE_H
#define ORCH_BACKENDS_GUEST_IN_PLACE_H

#include <stddef.h>

#define IN_PLACE_WORD "in-place"

/* First of all: the domain, tried on the node. 0 in the init, a child of the caller's, which stays as the guardian and
 * exits as the init did. -1 when something failed and was said on descriptor 2: then nothing may be signalled. */
int in_place_enter(void);

/* The ruleset of a call: beneath `writable` everything but devices, beneath `readable` reading and running (each path
 * with its NUL, real), nothing else; no TCP when `isolated`. A descriptor, or -errno after a line on descriptor 2. */
int in_place_ruleset(int isolated, const char *writable, size_t writable_len, const char *readable,
                     size_t readable_len);

/* In the child of a call, confined: tries what a namespace would have held. 0 or -ENOTRECOVERABLE. */
int in_place_try(int isolated, int filtered);

#endif
