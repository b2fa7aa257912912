/* SPDX-License-Identifier: Apache-2.0 */
/* Landlock's calls (landlock(7)), with what is newer than the headers of Debian 12. */
#ifndef ORCH_BACKENDS_GUEST_RULESET_H
#define ORCH_BACKENDS_GUEST_RULESET_H

#include <linux/landlock.h>
#include <stdint.h>

struct ruleset_attr {
    uint64_t fs, net, scoped;
};
enum { RULESET_ABI_REFER = 2, RULESET_ABI_TRUNCATE = 3, RULESET_ABI_SCOPES = 6 };

#define RULESET_SCOPES UINT64_C(3) /* abstract sockets, signals; ABI 6 */
#define RULESET_FS_TRUNCATE (UINT64_C(1) << 14)
#define RULESET_FS_CHANGE                                                                                              \
    (LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |                  \
     LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |                        \
     LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |                     \
     LANDLOCK_ACCESS_FS_MAKE_SYM)
#define RULESET_FS_DEVICES (LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK) /* allowed nowhere */
#define RULESET_FS_FILE (LANDLOCK_ACCESS_FS_WRITE_FILE | RULESET_FS_TRUNCATE) /* what a file, not a directory, has */

/* The kernel's ABI, or -1 with errno. */
long ruleset_abi(void);
/* A ruleset that handles these. A descriptor, or -errno. */
int ruleset_new(const struct ruleset_attr *attr);
/* Beneath `path`: `directory`, or `file` if it is none. A path that is absent is passed over; a link in it is -ELOOP.
 * 0 or -errno. */
int ruleset_allow(int ruleset, const char *path, uint64_t directory, uint64_t file);

#endif
