/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/table.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <libsmartcols/libsmartcols.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct table {
    struct libscols_table *cols;
    struct libscols_line *line; /* the row being filled; borrowed from cols */
    size_t column_count;
    size_t next; /* cell */
};

/* The library fails only for want of memory; that is the host's failure, as everywhere. */
static void must(bool good)
{
    if (!good) {
        abort();
    }
}

struct table *table_new(const struct table_column *columns)
{
    struct table *t = xcalloc(1, sizeof *t);
    t->cols = scols_new_table();
    must(t->cols != NULL);
    must(scols_table_enable_noencoding(t->cols, 1) == 0); /* cells are escaped already, by our rules */
    for (size_t i = 0; columns[i].title != NULL && i < TABLE_COLUMNS_MAX; i++) {
        int flags = columns[i].align == TABLE_RIGHT ? SCOLS_FL_RIGHT
                    : columns[i].align == TABLE_CUT ? SCOLS_FL_TRUNC
                                                    : 0;
        must(scols_table_new_column(t->cols, columns[i].title, 0, flags) != NULL);
        t->column_count++;
    }
    return t;
}

void table_free(struct table *t)
{
    if (t != NULL) {
        scols_unref_table(t->cols);
        free(t);
    }
}

void table_release(struct table **t)
{
    table_free(take(*t));
}

void table_row(struct table *t)
{
    t->line = scols_table_new_line(t->cols, NULL);
    must(t->line != NULL);
    t->next = 0;
}

void table_text(struct table *t, const char *text)
{
    if (t->line == NULL || t->next >= t->column_count) {
        return;
    }
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_LINE);
    size_t len = text != NULL ? strlen(text) : 0;
    if (len == 0) {
        buf_char(&b, '-');
    } else {
        size_t cut = utf8_cut(text, len, TABLE_CELL_MAX);
        buf_escaped(&b, text, cut, false);
        buf_str(&b, cut < len ? "…" : "");
    }
    must(scols_line_set_data(t->line, t->next++, b.data) == 0);
}

void table_cell(struct table *t, const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    must(vasprintf(&text, fmt, ap) >= 0);
    va_end(ap);
    table_text(t, text);
    free(text);
}

void table_int(struct table *t, int64_t value)
{
    table_cell(t, "%" PRId64, value);
}

void table_score(struct table *t, bool known, double value)
{
    double size = value < 0 ? -value : value;
    if (known) { /* a score may be any finite number: three hundred digits help nobody */
        table_cell(t, size != 0 && (size >= 1e6 || size < 1e-4) ? "%.4g" : "%.4f", value);
    } else {
        table_text(t, NULL);
    }
}

size_t table_rows(const struct table *t)
{
    return scols_table_get_nlines(t->cols);
}

/* The library counts columns by the locale of the thread; the program's own stays C. */
char *table_render(struct table *t, size_t width)
{
    (void)scols_table_set_termforce(t->cols, width > 0 ? SCOLS_TERMFORCE_ALWAYS : SCOLS_TERMFORCE_NEVER);
    if (width > 0) {
        (void)scols_table_set_termwidth(t->cols, width);
    }
    char *text = NULL;
    locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    locale_t before = utf8 != (locale_t)0 ? uselocale(utf8) : (locale_t)0;
    int code = scols_print_table_to_string(t->cols, &text);
    if (utf8 != (locale_t)0) {
        (void)uselocale(before);
        freelocale(utf8);
    }
    must(code == 0);
    /* The library leaves the last line open, and pads the last column. */
    AUTO_FREE char *raw = text;
    AUTO_BUF struct buf b;
    buf_init(&b, (size_t)1 << 30);
    for (const char *line = raw != NULL ? raw : ""; *line != '\0';) {
        size_t len = strcspn(line, "\n");
        size_t used = len;
        while (used > 0 && line[used - 1] == ' ') {
            used--;
        }
        buf_add(&b, line, used);
        buf_char(&b, '\n');
        line += len + (line[len] == '\n' ? 1 : 0);
    }
    return buf_take(&b, NULL);
}

void table_print(const struct verb_call *call, struct table *t)
{
    size_t width = call->output_terminal ? verb_output_width() : 0;
    AUTO_FREE char *text = table_render(t, width);
    verb_print(call, "%s", text);
}
