/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a mount plan, done with descriptors. Each failure is said on descriptor 2, with the step's target. */
#ifndef ORCH_BACKENDS_GUEST_LAUNCH_MOUNT_H
#define ORCH_BACKENDS_GUEST_LAUNCH_MOUNT_H

#include <stddef.h>
#include <stdint.h>

/* Does `count` steps (launch.h) in this mount namespace. Returns the descriptor of the finished root, or -1. */
int launch_mount_all(uint32_t count, const char *steps, size_t len);

/* 0 when a file system can be made, changed and mounted with these calls (Linux 5.12) in this namespace. */
int launch_mount_probe(void);

#endif
