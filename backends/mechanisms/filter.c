/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/mechanisms/filter.h"

#include <linux/filter.h>

#include "backends/generated/filter_table.h" /* made by filter_make */

struct filter_program filter_program(enum filter_kind kind)
{
    static const struct filter_program programs[] = {
        [FILTER_UNIX] = {filter_with_unix, sizeof filter_with_unix},
        [FILTER_NO_UNIX] = {filter_without_unix, sizeof filter_without_unix},
        [FILTER_IN_PLACE] = {filter_in_place, sizeof filter_in_place},
        [FILTER_IN_PLACE_ISOLATED] = {filter_in_place_isolated, sizeof filter_in_place_isolated},
    };
    return programs[kind];
}
