/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landlock as a mechanism of its own, for machines that give neither a user namespace nor bubblewrap. Only when it is
 * asked for: `auto` never comes here, and nothing falls back to it.
 *
 * orch-init is started as an ordinary process of the sandbox's identity, in the machine's root. It enters a domain that
 * scopes signals, adopts whatever its descendants orphan, and runs each call in a further domain, under the system call
 * filter (guest/in_place.h). So there hold: what may be read, written and run; no socket without a network; no signal
 * to, or look into the memory of, a process outside; limits; no privilege; the end of every process.
 *
 * What that cannot do decides what it takes:
 *   - There is no mount, hence no /w: a grant must keep its path (source equal to target), and inline files, made
 *     directories, work directories and trees, whose paths are the node's, have none. Roles of a run need them, so runs
 *     are refused. `orch sandbox exec` works. (A mount without privilege would need a user namespace, and where there
 *     is one the mechanism `namespaces` works.)
 *   - Rules only add rights: a read-only or hidden path inside a granted one is refused, not ignored.
 *   - /tmp and the home cannot be private. Granting the machine's /tmp would open what every other program keeps there,
 *     so it is not granted: TMPDIR and HOME are two directories made for the sandbox and removed with it. They lie
 * below /tmp or /dev/shm, therefore a project that lies there is refused.
 *   - The loopback would be the machine's: no ports, and without a network no internet socket at all.
 *   - Connecting to a socket file is no right before ABI 9: AF_UNIX is refused by the filter, pairs work.
 *   - Names, modes and times are no rights: what was not granted is closed, but seen. So are processes.
 * The last is weaker than asked, and told at each start and in the record; the others are refused with the code of the
 * capability table. ABI 6 (Linux 6.12) is needed: before 3 a file can be cut short without a right, and before 6
 * nothing keeps a sandbox from killing its own init and outliving it.
 */
#ifndef ORCH_BACKENDS_MECHANISMS_LANDLOCK_H
#define ORCH_BACKENDS_MECHANISMS_LANDLOCK_H

#include "backends/mechanisms/mechanism.h"
#include "backends/spec.h"
#include "base/buf.h"
#include "base/json.h"

#define LANDLOCK_ABI_MIN 6

/* ORCH_E_UNAVAILABLE when the kernel offers none, or an older one. */
MUST_USE int landlock_find(const char *init_program, struct mechanism *ret, struct orch_err *err);

/* ORCH_E_UNAVAILABLE names the first thing of the spec that cannot be had, the property with its code, and the remedy.
 */
MUST_USE int landlock_check(const struct sandbox_spec *s, struct orch_err *err);

/* The paths of the machine for the init's rules, each real and with its NUL: granted for reading and running, the
 * system's with them; for everything. sources[i] as for mount_plan_lower; `scratch` holds TMPDIR and HOME. */
void landlock_paths(const struct sandbox_spec *s, char *const *sources, const char *scratch, struct buf *readable,
                    struct buf *writable);

/* TMPDIR and HOME of a call, where they name private ones, become the sandbox's own below `scratch`. */
void landlock_variables(struct sandbox_spec *call, const char *scratch);

/* What is not enforced: [{property, value, code, note}]. New reference. */
json_t *landlock_not_enforced(void);

#endif
