/* SPDX-License-Identifier: Apache-2.0 */
#include "config/findings.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define FINDING_TEXT_MAX 4096

void config_findings_done(struct config_findings *f)
{
    for (size_t i = 0; i < f->count; i++) {
        struct config_finding *item = &f->items[i];
        free(item->id);
        free(item->place);
        free(item->message);
        free(item->expected);
        free(item->nearest);
        free(item->remedy);
    }
    memset(f, 0, sizeof(*f));
}

static char *copy_escaped(const char *text)
{
    if (text == NULL) {
        return NULL;
    }
    AUTO_BUF struct buf b;
    buf_init(&b, FINDING_TEXT_MAX);
    buf_escaped(&b, text, strlen(text), false);
    return buf_take(&b, NULL);
}

struct config_finding *config_findings_add(struct config_findings *f, const char *id, const char *place, int line,
                                           int column, const char *expected, const char *nearest, const char *remedy,
                                           const char *message_format, ...)
{
    if (f->count == CONFIG_FINDINGS_MAX) {
        f->dropped++;
        return NULL;
    }
    char message[FINDING_TEXT_MAX];
    va_list args;
    va_start(args, message_format);
    vsnprintf(message, sizeof(message), message_format, args);
    va_end(args);
    struct config_finding *item = &f->items[f->count++];
    item->id = xstrdup(id);
    item->place = copy_escaped(place == NULL ? "" : place);
    item->line = line;
    item->column = column;
    item->message = copy_escaped(message);
    item->expected = copy_escaped(expected);
    item->nearest = copy_escaped(nearest);
    item->remedy = copy_escaped(remedy);
    return item;
}

static void add_head(struct buf *b, const struct config_finding *f)
{
    if (f->place[0] != '\0') {
        buf_str(b, f->place);
        if (f->line > 0) {
            buf_fmt(b, ":%d", f->line);
        }
        if (f->column > 0) {
            buf_fmt(b, ":%d", f->column);
        }
        buf_str(b, ": ");
    }
    buf_fmt(b, "%s [%s]", f->message, f->id);
}

static void add_text(struct buf *b, const struct config_finding *f)
{
    add_head(b, f);
    buf_char(b, '\n');
    if (f->expected != NULL) {
        buf_fmt(b, "  expected: %s\n", f->expected);
    }
    if (f->nearest != NULL) {
        buf_fmt(b, "  nearest: %s\n", f->nearest);
    }
    if (f->remedy != NULL) {
        buf_fmt(b, "  remedy: %s\n", f->remedy);
    }
}

char *config_finding_text(const struct config_finding *f)
{
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_LINE);
    add_text(&b, f);
    return buf_take(&b, NULL);
}

char *config_findings_text(const struct config_findings *f)
{
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_TEXT);
    for (size_t i = 0; i < f->count; i++) {
        add_text(&b, &f->items[i]);
    }
    if (f->dropped > 0) {
        buf_fmt(&b, "and %zu more\n", f->dropped);
    }
    return buf_take(&b, NULL);
}

json_t *config_findings_json(const struct config_findings *f)
{
    json_t *array = json_array();
    for (size_t i = 0; i < f->count; i++) {
        const struct config_finding *item = &f->items[i];
        json_t *o = json_object();
        json_set_str(o, "id", item->id);
        json_set_str(o, "file", item->place);
        json_set_int(o, "line", item->line);
        json_set_int(o, "column", item->column);
        json_set_str(o, "message", item->message);
        json_set_str(o, "expected", item->expected);
        json_set_str(o, "nearest", item->nearest);
        json_set_str(o, "remedy", item->remedy);
        json_add_take(array, o);
    }
    return array;
}

int config_findings_result(const struct config_findings *f, struct orch_err *err)
{
    if (f->count == 0) {
        return 0;
    }
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_LINE);
    add_head(&b, &f->items[0]);
    size_t more = f->count - 1 + f->dropped;
    if (more > 0) {
        buf_fmt(&b, " (and %zu more)", more);
    }
    return err_set(err, ORCH_E_CONFIG, "%s", b.data);
}
