/* SPDX-License-Identifier: Apache-2.0 */
/* bubblewrap as a mechanism: found by a trusted path, told everything on a descriptor. */
#ifndef ORCH_BACKENDS_MECHANISMS_BWRAP_H
#define ORCH_BACKENDS_MECHANISMS_BWRAP_H

#include "backends/mechanisms/mechanism.h"
#include "base/buf.h"
#include "base/err.h"

#define BWRAP_ARGS_MAX ((size_t)4 << 20)

/* The first of the fixed places that is root's and only root's to change, with all its parents; its version.
 * ORCH_E_UNAVAILABLE says what is wrong with each. Never searched in PATH. */
MUST_USE int bwrap_find(const char *init_program, struct mechanism *ret, struct orch_err *err);
/* The rule behind it: `path` and each parent belongs to uid 0 and is not writable for group or others. */
MUST_USE int bwrap_trusted(const char *path, struct orch_err *err);

/* The options as bubblewrap reads them with --args: each followed by NUL. */
void bwrap_arguments(const struct mechanism_options *o, struct buf *out);

#endif
