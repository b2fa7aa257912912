/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/policy_edit.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "orchestrator/text_diff.h"

#include <string.h>

int policy_edit_begin(struct policy_edit *e, struct orch_err *err)
{
    operator_directories(&e->system_dir, &e->user_dir);
    if (e->user_dir == NULL) {
        return err_set(err, ORCH_E_USAGE, "the variable HOME is not set: there is no place for the user's config");
    }
    e->file = path_join(e->user_dir, POLICY_FILE);
    return operator_load(e->system_dir, e->user_dir, &e->now, &e->findings, err);
}

void policy_edit_done(struct policy_edit *e)
{
    for (size_t i = 0; i < e->count; i++) {
        json_decref(e->changes[i].want);
        free(e->changes[i].value);
    }
    operator_free(e->now);
    operator_free(e->then);
    config_findings_done(&e->findings);
    char *owned[] = {e->system_dir, e->user_dir, e->file, e->old_text, e->new_text, e->diff};
    for (size_t i = 0; i < ARRAY_LEN(owned); i++) {
        free(owned[i]);
    }
}

/* ---- values as YAML ---- */

static bool is_plain(const char *text)
{
    return text[0] != '\0' && (text[0] == '/' || (text[0] >= 'a' && text[0] <= 'z')) &&
           text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._+-")] == '\0';
}

static void add_value(struct buf *b, const json_t *want)
{
    if (json_is_array(want)) {
        size_t i;
        json_t *item;
        buf_char(b, '[');
        json_array_foreach(want, i, item)
        {
            buf_str(b, i > 0 ? ", " : "");
            add_value(b, item);
        }
        buf_char(b, ']');
    } else if (json_is_string(want) && is_plain(json_string_value(want))) {
        buf_str(b, json_string_value(want));
    } else { /* a quoted JSON text is one in YAML, too */
        AUTO_FREE char *text = json_dumps(want, JSON_ENCODE_ANY | JSON_COMPACT);
        buf_str(b, text != NULL ? text : "null");
    }
}

void policy_edit_set(struct policy_edit *e, const char *key, json_t *want)
{
    if (e->count == POLICY_CHANGES_MAX) { /* a rule of ours: callers set a handful */
        json_decref(want);
        return;
    }
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_LINE);
    add_value(&b, want);
    e->changes[e->count++] = (struct policy_change){.key = key, .want = want, .value = buf_take(&b, NULL)};
}

/* ---- the plan ---- */

/* The effective value of a dotted key; borrowed from `all`. */
static const json_t *value_of(const json_t *all, const char *key)
{
    const json_t *value = all;
    for (const char *at = key; *at != '\0' && value != NULL;) {
        size_t len = strcspn(at, ".");
        AUTO_FREE char *word = xmemdup0(at, len);
        value = json_get(value, word);
        at += len + (at[len] == '.');
    }
    return value;
}

/* What was written must be what is in effect. */
static int check_effect(const struct policy_edit *e, struct orch_err *err)
{
    AUTO_JSON json_t *all = operator_effective(e->then);
    for (size_t i = 0; i < e->count; i++) {
        const struct policy_change *c = &e->changes[i];
        if (json_equal(value_of(all, c->key), c->want)) {
            continue;
        }
        AUTO_FREE char *origin = operator_origin(e->then, c->key);
        bool system = strncmp(origin, e->system_dir, strlen(e->system_dir)) == 0;
        return err_set(err, system ? ORCH_E_DISABLED : ORCH_E_CONFIG,
                       "%s decides about %s; what %s says about it has no effect%s", origin, c->key, e->file,
                       system ? "" : ": change it there");
    }
    return 0;
}

int policy_edit_plan(struct policy_edit *e, struct orch_err *err)
{
    struct operator_change list[POLICY_CHANGES_MAX];
    for (size_t i = 0; i < e->count; i++) {
        list[i] = (struct operator_change){e->changes[i].key, e->changes[i].value};
    }
    TRY(operator_set_plan(e->file, list, e->count, &e->old_text, &e->new_text, &e->findings, err));
    e->diff = text_diff(e->file, e->old_text, e->new_text);
    TRY(operator_load_with(e->system_dir, e->user_dir, POLICY_FILE, e->new_text, &e->then, &e->findings, err));
    return check_effect(e, err);
}

int policy_edit_write(const struct policy_edit *e, struct orch_err *err)
{
    return e->diff[0] == '\0' ? 0 : operator_write(e->file, e->new_text, err);
}

/* ---- telling ---- */

json_t *policy_edit_json(const struct policy_edit *e, bool written)
{
    json_t *d = verb_json();
    json_set_str(d, "file", e->file);
    json_set_flag(d, "changed", e->diff[0] != '\0');
    json_set_flag(d, "written", written);
    json_set_str(d, "diff", e->diff);
    return d;
}

void policy_edit_print(const struct verb_call *call, const struct policy_edit *e)
{
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_TEXT);
    buf_escaped(&b, e->diff, strlen(e->diff), true);
    verb_print(call, "%s", b.data);
}
