/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profile that confines a sandbox on macOS (sandbox-exec(1), language SBPL). There are no mounts: a grant keeps its
 * path, and what is not granted is denied by rules. Pure text, made the same on every system; of two rules that match,
 * the later one decides, so the profile goes from the general to the particular:
 *
 *   1  nothing (deny default), then what every program needs: start programs, fork, read the system
 *   2  reads are broad, as programs find their parts in many places; then each tree that a grant lies in, up to the
 *      system's own directories, is closed: the rest of the project, of the home, of other homes
 *   3  the grants are opened again, for reading or for writing
 *   4  hidden paths are closed last, whatever granted them
 *
 * No write outside the writable grants, but to a few devices. No service of the system that could start a program for
 * the caller (launchservicesd) can be looked up.
 */
#ifndef ORCH_BACKENDS_MECHANISMS_SEATBELT_H
#define ORCH_BACKENDS_MECHANISMS_SEATBELT_H

#include "backends/spec.h"
#include "base/buf.h"

#define SEATBELT_PROFILE_MAX ((size_t)1 << 20)

struct seatbelt_extra {
    bool metal; /* the GPU: its compiler service and its drivers' user clients */
};

/*
 * Appends the profile of `s` to `out`. Grants name real paths, source and target alike. ORCH_E_UNAVAILABLE names the
 * first thing in the spec that Seatbelt cannot give: a grant at another place, a work directory, a file or a directory
 * made for the sandbox, a path that must be absent though it is broadly readable.
 */
MUST_USE int seatbelt_profile(const struct sandbox_spec *s, const struct seatbelt_extra *extra, struct buf *out,
                              struct orch_err *err);

#endif
