/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/mechanisms/filter.h"

#include <linux/filter.h>

#include "backends/generated/filter_table.h" /* made by filter_make: filter_with_unix[], filter_without_unix[] */

struct filter_program filter_program(bool unix_sockets)
{
    return unix_sockets ? (struct filter_program){filter_with_unix, sizeof filter_with_unix}
                        : (struct filter_program){filter_without_unix, sizeof filter_without_unix};
}
