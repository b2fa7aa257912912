/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of the host's with its whole tree: `orch-init reap PARENT PROGRAM ARGV0 ARG…` runs PROGRAM, takes in
 * whatever it orphans (PR_SET_CHILD_SUBREAPER, prctl(2)), and when it ends, when SIGTERM comes or when process PARENT
 * dies, kills all that is left, also what moved into a session of its own. No confinement: for commands the operator
 * trusts.
 */
#ifndef ORCH_BACKENDS_GUEST_REAPER_H
#define ORCH_BACKENDS_GUEST_REAPER_H

#define REAPER_WORD "reap"

/* argv begins with PARENT. Ends as the program did: its exit status, or the same signal. 126: it could not be started;
 * descriptor 2 says why. */
int reaper_main(char **argv);

#endif
