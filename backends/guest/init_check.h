/* SPDX-License-Identifier: Apache-2.0 */
/* Checks from inside, before anything untrusted runs. */
#ifndef ORCH_BACKENDS_GUEST_INIT_CHECK_H
#define ORCH_BACKENDS_GUEST_INIT_CHECK_H

#include "backends/guest/control.h"

#include <stdbool.h>

#define CHECKS_TEXT_MAX ((size_t)256 << 10)

/* Results as text for HELLO: the failed ones first. */
struct check_list {
    char *failed, *passed; /* "name\0detail\0" each; owned, CHECKS_TEXT_MAX */
    size_t failed_len, passed_len;
    uint32_t failed_count, passed_count;
};

int check_list_init(struct check_list *l); /* 0 or -ENOMEM */
void check_list_done(struct check_list *l);

/* Opens the listeners (fds[i] for ports[i]); a port that cannot be opened or does not answer fails its check. */
void check_ports(const struct control_spec *spec, int fds[CONTROL_PORTS_MAX], struct check_list *l);
/* Everything else: identity, capabilities, user namespaces, the outside, absent paths, the home. */
void check_inside(const struct control_spec *spec, const struct control_hello *facts, const char *absent,
                  size_t absent_len, struct check_list *l);

#endif
