/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/node/protocol.h"

#include "base/mem.h"

#include <string.h>

static void put_u32(unsigned char *p, uint32_t n)
{
    for (int i = 0; i < 4; i++) {
        p[i] = (unsigned char)(n >> (8 * i));
    }
}

static uint32_t get_u32(const char *data)
{
    uint32_t n = 0;
    for (int i = 3; i >= 0; i--) {
        n = n << 8 | (unsigned char)data[i];
    }
    return n;
}

/* Bounds of each type: what the header alone can be judged by. */
static const struct {
    size_t min, max;
    bool channel;
} frame_rules[FRAME_TYPE_COUNT] = {
    [FRAME_REQUEST] = {2, PROTOCOL_JSON_MAX, false},
    [FRAME_REPLY] = {2, PROTOCOL_JSON_MAX, false},
    [FRAME_EVENT] = {2, PROTOCOL_JSON_MAX, false},
    [FRAME_DATA] = {1, PROTOCOL_DATA_MAX, true},
    [FRAME_END] = {0, 0, true},
    [FRAME_RESET] = {0, 0, true},
    [FRAME_CREDIT] = {4, 4, true},
};

static bool frame_fits(unsigned type, uint32_t channel, size_t len)
{
    return type >= FRAME_REQUEST && type < FRAME_TYPE_COUNT && len >= frame_rules[type].min &&
           len <= frame_rules[type].max && (channel != 0) == frame_rules[type].channel;
}

void frame_header(unsigned char out[PROTOCOL_HEADER], enum frame_type type, uint32_t channel, size_t len)
{
    if (!frame_fits(type, channel, len)) {
        abort(); /* our own bug: the other side would break the stream */
    }
    put_u32(out, (uint32_t)len);
    put_u32(out + 4, (uint32_t)type);
    put_u32(out + 8, channel);
}

void frame_put(struct buf *out, enum frame_type type, uint32_t channel, const void *data, size_t len)
{
    unsigned char header[PROTOCOL_HEADER];
    frame_header(header, type, channel, len);
    buf_add(out, header, sizeof header);
    buf_add(out, data, len);
}

int frame_put_json(struct buf *out, enum frame_type type, json_t *value, struct orch_err *err)
{
    AUTO_JSON json_t *owned = value;
    AUTO_FREE char *text = json_dumps(owned, JSON_COMPACT);
    if (text == NULL) {
        return err_set(err, ORCH_E_INTERNAL, "a message that is no JSON");
    }
    size_t len = strlen(text);
    if (len > PROTOCOL_JSON_MAX) {
        return err_set(err, ORCH_E_LIMIT, "a message of %zu bytes, at most %zu", len, PROTOCOL_JSON_MAX);
    }
    frame_put(out, type, 0, text, len);
    return 0;
}

void frame_put_credit(struct buf *out, uint32_t channel, uint32_t bytes)
{
    unsigned char n[4];
    put_u32(n, bytes);
    frame_put(out, FRAME_CREDIT, channel, n, sizeof n);
}

uint32_t frame_credit(const struct frame *f)
{
    return f->type == FRAME_CREDIT && f->len == 4 ? get_u32(f->data) : 0;
}

/* ---- decoder ---- */

void frame_decoder_init(struct frame_decoder *d)
{
    *d = (struct frame_decoder){.data = NULL};
}

void frame_decoder_done(struct frame_decoder *d)
{
    free(d->data);
    *d = (struct frame_decoder){.data = NULL};
}

char *frame_decoder_room(struct frame_decoder *d, size_t want, size_t *ret_room)
{
    if (d->start > 0) {
        memmove(d->data, d->data + d->start, d->len - d->start);
        d->len -= d->start;
        d->start = 0;
    }
    if (d->cap - d->len < want) {
        size_t cap = d->len + want;
        d->data = xrealloc(d->data, cap);
        d->cap = cap;
    }
    *ret_room = d->cap - d->len;
    return d->data + d->len;
}

void frame_decoder_filled(struct frame_decoder *d, size_t len)
{
    d->len += len;
}

void frame_decoder_feed(struct frame_decoder *d, const void *data, size_t len)
{
    if (len == 0) {
        return;
    }
    size_t room;
    memcpy(frame_decoder_room(d, len, &room), data, len);
    frame_decoder_filled(d, len);
}

int frame_decoder_next(struct frame_decoder *d, struct frame *ret, struct orch_err *err)
{
    if (d->broken) {
        return err_set(err, ORCH_E_PROTOCOL, "the stream was broken before");
    }
    size_t have = d->len - d->start;
    if (have < PROTOCOL_HEADER) {
        return 0;
    }
    const char *p = d->data + d->start;
    size_t len = get_u32(p);
    uint32_t type = get_u32(p + 4); /* flags and the reserved half are its upper bytes: they must be 0 */
    uint32_t channel = get_u32(p + 8);
    if (!frame_fits(type, channel, len)) {
        d->broken = true;
        return err_set(err, ORCH_E_PROTOCOL, "a frame of type %u, channel %u, %zu bytes", type, channel, len);
    }
    if (have - PROTOCOL_HEADER < len) {
        return 0;
    }
    *ret = (struct frame){.type = (enum frame_type)type, .channel = channel, .data = p + PROTOCOL_HEADER, .len = len};
    d->start += PROTOCOL_HEADER + len;
    if (ret->type == FRAME_CREDIT && frame_credit(ret) == 0) {
        d->broken = true;
        return err_set(err, ORCH_E_PROTOCOL, "a credit of nothing");
    }
    return 1;
}

int frame_json(const struct frame *f, json_t **ret, struct orch_err *err)
{
    AUTO_JSON json_t *value = NULL;
    if (json_parse(f->data, f->len, PROTOCOL_JSON_MAX, &value, err) < 0) {
        err->code = ORCH_E_PROTOCOL;
        return err_wrap(err, "message");
    }
    if (!json_is_object(value)) {
        return err_set(err, ORCH_E_PROTOCOL, "a message that is no object");
    }
    *ret = take(value);
    return 0;
}

/* ---- messages ---- */

json_t *request_new(int64_t id, const char *op)
{
    json_t *o = json_object();
    json_set_int(o, "id", id);
    json_set_str(o, "op", op);
    return o;
}

json_t *reply_ok(int64_t id, json_t *ok)
{
    json_t *o = json_object();
    json_set_int(o, "id", id);
    json_set_take(o, "ok", ok);
    return o;
}

json_t *reply_error(int64_t id, const struct orch_err *e)
{
    json_t *detail = json_object();
    json_set_str(detail, "code", err_name(e->code));
    json_set_str(detail, "message", e->message);
    json_t *o = json_object();
    json_set_int(o, "id", id);
    json_set_take(o, "error", detail);
    return o;
}

int reply_read(const json_t *reply, int64_t *ret_id, json_t **ret_ok, struct orch_err *err)
{
    int64_t id = json_get_int(reply, "id", 0);
    json_t *ok = json_get(reply, "ok");
    json_t *error = json_get(reply, "error");
    if (id <= 0 || json_is_object(ok) == json_is_object(error)) {
        return err_set(err, ORCH_E_PROTOCOL, "a reply without an answer");
    }
    *ret_id = id;
    if (error != NULL) {
        return err_set(err, protocol_code(json_get_str(error, "code", "")), "%s",
                       json_get_str(error, "message", "failed without a message"));
    }
    *ret_ok = ok;
    return 0;
}

int protocol_code(const char *name)
{
    for (int i = 1; i < ORCH_X_COUNT; i++) {
        if (strcmp(err_name(-i), name) == 0) {
            return -i;
        }
    }
    return ORCH_E_INTERNAL;
}
