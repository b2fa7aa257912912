/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prepared roots: a directory with a generated /etc, the links of the host's root, mount points and the init.
 * One for every set of first components and kind of network; made once, bound read-only by each sandbox.
 * Single-threaded.
 */
#ifndef ORCH_BACKENDS_MECHANISMS_SKELETON_H
#define ORCH_BACKENDS_MECHANISMS_SKELETON_H

#include "backends/spec.h"
#include "base/err.h"

#include <sys/types.h>

struct skeletons;

/* Roots are made in `dir` (absolute, the node's own). `init_program` is copied into each, if not NULL. */
MUST_USE int skeletons_new(const char *dir, const char *init_program, struct skeletons **ret, struct orch_err *err);
void skeletons_free(struct skeletons *k); /* the files go with the directory */

/* The root for a spec, whose user is uid:gid. *ret_path is borrowed until skeletons_free. */
MUST_USE int skeleton_for(struct skeletons *k, const struct sandbox_spec *s, uid_t uid, gid_t gid,
                          const char **ret_path, struct orch_err *err);
/* Empty things nobody can write, for covering paths; borrowed. */
const char *skeletons_empty_dir(const struct skeletons *k);
const char *skeletons_empty_file(const struct skeletons *k);

#endif
