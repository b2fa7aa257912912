/* SPDX-License-Identifier: Apache-2.0 */
/* Bounded capture of an output: the first bytes and a rolling tail. Memory never grows with the output. */
#ifndef ORCH_BACKENDS_ENVIRONMENTS_CAPTURE_H
#define ORCH_BACKENDS_ENVIRONMENTS_CAPTURE_H

#include "backends/environment.h"

struct capture_state {
    char *head;
    size_t head_len, head_cap, head_max;
    char *ring;
    size_t ring_len, ring_at, ring_max; /* ring_at: where the next byte goes */
    uint64_t total;
};

/* Both 0: the defaults of struct call_spec. */
void capture_init(struct capture_state *c, size_t head_max, size_t tail_max);
void capture_done(struct capture_state *c);
/* O(len), at most O(ring) copied. */
void capture_add(struct capture_state *c, const char *data, size_t len);
/* Moves what was kept into *ret (owned by the caller, capture_release()); the state is empty afterwards. */
void capture_result(struct capture_state *c, struct capture *ret);
void capture_release(struct capture *c);

#endif
