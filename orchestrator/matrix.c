/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/matrix.h"

#include "backends/capability.h"
#include "backends/environments/registry.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "orchestrator/table.h"

#include <stdio.h>
#include <string.h>

#define PLACES_MAX (TABLE_COLUMNS_MAX - 2)
#define TITLE_MAX 64

/* The columns: each pair of environment and mechanism that the table has, once, in its order. */
struct places {
    struct {
        const char *environment, *mechanism;
    } at[PLACES_MAX];
    size_t count;
};

static bool note_place(const struct capability_row *row, void *arg)
{
    struct places *p = arg;
    size_t last = p->count - 1;
    bool same = p->count > 0 && strcmp(p->at[last].environment, row->environment) == 0 &&
                strcmp(p->at[last].mechanism, row->mechanism) == 0;
    if (!same && p->count < PLACES_MAX) {
        p->at[p->count].environment = row->environment;
        p->at[p->count++].mechanism = row->mechanism;
    }
    return true;
}

static struct places find_places(void)
{
    struct places p = {.count = 0};
    capability_each(note_place, &p);
    return p;
}

static struct capability_cell cell_of(const struct places *p, size_t i, int property)
{
    return capability_get(p->at[i].environment, p->at[i].mechanism, (enum capability)property);
}

static char *cell_text(const struct capability_cell *c)
{
    const char *value = capability_value_name(c->value);
    return c->code[0] == '\0' ? xstrdup(value) : xasprintf("%s [%s]", value, c->code);
}

/* ---- what the codes mean ---- */

struct codes {
    struct buf *out;
    bool markdown;
    char **seen;
};

static bool add_code(const struct capability_row *row, void *arg)
{
    struct codes *c = arg;
    if (row->cell.code[0] == '\0') {
        return true;
    }
    for (size_t i = 0; i < strv_len(c->seen); i++) {
        if (strcmp(c->seen[i], row->cell.code) == 0) {
            return true;
        }
    }
    c->seen = strv_append(c->seen, xstrdup(row->cell.code));
    buf_fmt(c->out, c->markdown ? "| `%s` | %s | %s |\n" : "%s (%s): %s\n", row->cell.code,
            capability_value_name(row->cell.value), row->cell.note);
    return true;
}

static void add_codes(struct buf *out, bool markdown)
{
    struct codes c = {.out = out, .markdown = markdown};
    capability_each(add_code, &c);
    strv_free(c.seen);
}

static void add_not_built(struct buf *out, const char *mark)
{
    const char *before = "";
    for (const struct environment_row *row = environment_rows(); row->name != NULL; row++) {
        if (row->state == ROW_NOT_BUILT) {
            buf_fmt(out, "%s%s%s%s", before, mark, row->name, mark);
            before = ", ";
        }
    }
}

/* ---- forms ---- */

char *matrix_markdown(void)
{
    struct places p = find_places();
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_TEXT);
    buf_str(&b, "# Reference: what confinement can enforce\n\n"
                "Made by `orch sandbox status --matrix --markdown` from the capability table; do not edit.\n\n"
                "enforced: as asked. degraded: weaker than asked; allowed, and every record and summary says so.\n"
                "refused: a config that asks for it does not start (exit 3).\n\n| property |");
    for (size_t i = 0; i < p.count; i++) {
        buf_fmt(&b, " %s, %s |", p.at[i].environment, p.at[i].mechanism);
    }
    buf_str(&b, "\n| --- |");
    for (size_t i = 0; i < p.count; i++) {
        buf_str(&b, " --- |");
    }
    buf_char(&b, '\n');
    for (int property = 0; property < CAPABILITY_COUNT; property++) {
        buf_fmt(&b, "| %s |", capability_name((enum capability)property));
        for (size_t i = 0; i < p.count; i++) {
            struct capability_cell c = cell_of(&p, i, property);
            buf_fmt(&b, " %s", capability_value_name(c.value));
            buf_fmt(&b, c.code[0] != '\0' ? " `%s` |" : " |%s", c.code);
        }
        buf_char(&b, '\n');
    }
    buf_str(&b, "\n## Codes\n\n| code | value | meaning |\n| --- | --- | --- |\n");
    add_codes(&b, true);
    buf_str(&b, "\n## Not built yet\n\nEverything is refused with `not-built` in: ");
    add_not_built(&b, "`");
    buf_str(&b, ".\n");
    return buf_take(&b, NULL);
}

char *matrix_text(size_t width)
{
    struct places p = find_places();
    struct table_column columns[TABLE_COLUMNS_MAX] = {{"PROPERTY", TABLE_LEFT}};
    char titles[PLACES_MAX][TITLE_MAX];
    for (size_t i = 0; i < p.count; i++) {
        (void)snprintf(titles[i], TITLE_MAX, "%s, %s", p.at[i].environment, p.at[i].mechanism);
        columns[i + 1] = (struct table_column){titles[i], TABLE_CUT};
    }
    columns[p.count + 1] = (struct table_column){NULL, TABLE_LEFT};
    AUTO_TABLE struct table *t = table_new(columns);
    for (int property = 0; property < CAPABILITY_COUNT; property++) {
        table_row(t);
        table_text(t, capability_name((enum capability)property));
        for (size_t i = 0; i < p.count; i++) {
            struct capability_cell c = cell_of(&p, i, property);
            AUTO_FREE char *text = cell_text(&c);
            table_text(t, text);
        }
    }
    AUTO_FREE char *text = table_render(t, width);
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_TEXT);
    buf_fmt(&b, "%s\n", text);
    add_codes(&b, false);
    buf_str(&b, "not-built (refused): everything in ");
    add_not_built(&b, "");
    buf_char(&b, '\n');
    return buf_take(&b, NULL);
}

static bool add_row(const struct capability_row *row, void *arg)
{
    json_t *o = json_object();
    json_set_str(o, "environment", row->environment);
    json_set_str(o, "mechanism", row->mechanism);
    json_set_str(o, "property", capability_name(row->property));
    json_set_str(o, "value", capability_value_name(row->cell.value));
    json_set_str(o, "code", row->cell.code);
    json_set_str(o, "note", row->cell.note);
    json_add_take(arg, o);
    return true;
}

json_t *matrix_json(void)
{
    json_t *list = json_array();
    capability_each(add_row, list);
    return list;
}
