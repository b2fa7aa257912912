/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/budget.h"

#include "base/mem.h"

#include <stdlib.h>

#define META_ACTIVE "active_ns"

static int64_t active_ns(const struct engine *e)
{
    return e->active_before_ns + clock_mono_ns(&e->clock) - e->began_ns;
}

int budget_open(struct engine *e, struct orch_err *err)
{
    struct call_usage usage;
    TRY(record_usage(e->record, -1, &e->calls, &usage, err));
    AUTO_FREE char *text = NULL;
    TRY(record_meta_text(e->record, META_ACTIVE, &text, err));
    e->active_before_ns = strtoll(text, NULL, 10);
    return 0;
}

bool budget_over(const struct engine *e, int64_t calls)
{
    const struct run_config *c = e->config;
    bool over_calls = c->budget.calls >= 0 && e->calls + calls > c->budget.calls;
    return over_calls || (c->budget.wall_ns >= 0 && active_ns(e) >= c->budget.wall_ns);
}

int budget_check(const struct engine *e, int64_t calls, struct orch_err *err)
{
    return budget_over(e, calls) ? err_set(err, ORCH_E_BUDGET, "the budget is used up") : 0;
}

int budget_keep(struct engine *e, struct orch_err *err)
{
    AUTO_FREE char *text = xasprintf("%lld", (long long)active_ns(e));
    return record_meta_set(e->record, META_ACTIVE, text, NULL, err);
}
