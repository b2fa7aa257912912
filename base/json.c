/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <math.h>
#include <string.h>

void json_release(json_t **value)
{
    json_decref(*value);
    *value = NULL;
}

int json_parse(const char *data, size_t len, size_t max, json_t **ret, struct orch_err *err)
{
    if (len > max) {
        return err_set(err, ORCH_E_LIMIT, "JSON of %zu bytes, more than the limit of %zu", len, max);
    }
    json_error_t e;
    json_t *value = json_loadb(data, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
    if (value == NULL) {
        return err_set(err, ORCH_E_CONFIG, "line %d, column %d: %s", e.line, e.column, e.text);
    }
    *ret = value;
    return 0;
}

int json_parse_file(const char *path, size_t max, json_t **ret, struct orch_err *err)
{
    AUTO_FREE char *data = NULL;
    size_t len = 0;
    TRY(fd_read_file(path, max, &data, &len, err));
    int r = json_parse(data, len, max, ret, err);
    return r < 0 ? err_wrap(err, "%s", path) : 0;
}

char *json_canonical(const json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    return text != NULL ? text : xstrdup("null");
}

char *json_pretty(const json_t *value)
{
    AUTO_FREE char *text = json_dumps(value, JSON_INDENT(2) | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    return xasprintf("%s\n", text != NULL ? text : "null");
}

json_t *json_get(const json_t *object, const char *key)
{
    return json_object_get(object, key);
}

const char *json_get_str(const json_t *object, const char *key, const char *fallback)
{
    const json_t *v = json_object_get(object, key);
    return json_is_string(v) ? json_string_value(v) : fallback;
}

int64_t json_get_int(const json_t *object, const char *key, int64_t fallback)
{
    const json_t *v = json_object_get(object, key);
    return json_is_integer(v) ? (int64_t)json_integer_value(v) : fallback;
}

double json_get_num(const json_t *object, const char *key, double fallback)
{
    const json_t *v = json_object_get(object, key);
    return json_is_number(v) ? json_number_value(v) : fallback;
}

bool json_get_flag(const json_t *object, const char *key, bool fallback)
{
    const json_t *v = json_object_get(object, key);
    return json_is_boolean(v) ? json_is_true(v) : fallback;
}

static void must(int jansson_result)
{
    if (jansson_result != 0) {
        abort(); /* out of memory, or a wrong type: both ours */
    }
}

json_t *json_text(const char *data, size_t len)
{
    json_t *v = json_stringn(data, len);
    if (v != NULL) {
        return v;
    }
    AUTO_BUF struct buf clean;
    buf_init(&clean, len * 3 + 1);
    for (size_t i = 0; i < len;) {
        uint32_t c;
        size_t n = utf8_decode(data + i, len - i, &c);
        if (n == 0) {
            buf_str(&clean, "\xef\xbf\xbd");
            i++;
        } else {
            buf_add(&clean, data + i, n);
            i += n;
        }
    }
    v = json_stringn(clean.data, clean.len);
    return v != NULL ? v : json_string("");
}

json_t *json_bytes(const char *text)
{
    size_t len = strlen(text);
    json_t *v = json_stringn(text, len);
    if (v != NULL) {
        return v;
    }
    AUTO_BUF struct buf hex;
    buf_init(&hex, len * 2 + 1);
    for (size_t i = 0; i < len; i++) {
        buf_fmt(&hex, "%02x", (unsigned char)text[i]);
    }
    v = json_object();
    json_set_str(v, "hex", hex.data);
    return v;
}

static int hex_digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c == '\0' ? NULL : strchr(digits, c);
    return at == NULL ? -1 : (int)(at - digits);
}

char *json_bytes_get(const json_t *value)
{
    const char *text = json_string_value(value);
    if (text != NULL) {
        return strlen(text) == json_string_length(value) ? xstrdup(text) : NULL;
    }
    const char *hex = json_object_size(value) == 1 ? json_get_str(value, "hex", NULL) : NULL;
    size_t len = hex == NULL ? 0 : strlen(hex);
    if (hex == NULL || len % 2 != 0) {
        return NULL;
    }
    AUTO_FREE char *out = xcalloc(1, len / 2 + 1);
    for (size_t i = 0; i < len / 2; i++) {
        int high = hex_digit(hex[2 * i]);
        int low = hex_digit(hex[2 * i + 1]);
        if (high < 0 || low < 0 || high + low == 0) {
            return NULL;
        }
        out[i] = (char)(high * 16 + low);
    }
    return take(out);
}

json_t *json_from_byte_strv(char *const *strv)
{
    json_t *array = json_array();
    for (size_t i = 0; i < strv_len(strv); i++) {
        json_add_take(array, json_bytes(strv[i]));
    }
    return array;
}

void json_set_str(json_t *object, const char *key, const char *text)
{
    json_set_take(object, key, text == NULL ? json_null() : json_text(text, strlen(text)));
}

void json_set_text(json_t *object, const char *key, const char *data, size_t len)
{
    json_set_take(object, key, json_text(data, len));
}

void json_set_int(json_t *object, const char *key, int64_t value)
{
    json_set_take(object, key, json_integer(value));
}

void json_set_num(json_t *object, const char *key, double value)
{
    json_set_take(object, key, isfinite(value) ? json_real(value) : json_null());
}

void json_set_flag(json_t *object, const char *key, bool value)
{
    json_set_take(object, key, json_boolean(value));
}

void json_set_take(json_t *object, const char *key, json_t *value)
{
    (void)json_incref(value);
    if (json_object_set_new(object, key, value) != 0) { /* a name from outside that is not UTF-8 */
        json_t *clean = json_text(key, strlen(key));
        must(json_object_set(object, json_string_value(clean), value));
        json_decref(clean);
    }
    json_decref(value);
}

void json_add_str(json_t *array, const char *text)
{
    json_add_take(array, json_text(text, strlen(text)));
}

void json_add_take(json_t *array, json_t *value)
{
    must(json_array_append_new(array, value));
}

char **strv_append(char **strv, char *item)
{
    size_t n = strv_len(strv);
    strv = xrealloc(strv, (n + 2) * sizeof *strv);
    strv[n] = item;
    strv[n + 1] = NULL;
    return strv;
}

char **json_get_strv(const json_t *object, const char *key)
{
    const json_t *array = json_object_get(object, key);
    size_t n = json_array_size(array);
    char **out = xcalloc(n + 1, sizeof *out);
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        const char *s = json_string_value(json_array_get(array, i));
        if (s != NULL) {
            out[used++] = xstrdup(s);
        }
    }
    return out;
}

json_t *json_from_strv(char *const *strv)
{
    json_t *array = json_array();
    for (size_t i = 0; i < strv_len(strv); i++) {
        json_add_str(array, strv[i]);
    }
    return array;
}

size_t strv_len(char *const *strv)
{
    size_t n = 0;
    while (strv != NULL && strv[n] != NULL) {
        n++;
    }
    return n;
}

char **strv_copy(char *const *strv)
{
    size_t n = strv_len(strv);
    char **out = xcalloc(n + 1, sizeof *out);
    for (size_t i = 0; i < n; i++) {
        out[i] = xstrdup(strv[i]);
    }
    return out;
}

void strv_free(char **strv)
{
    for (size_t i = 0; i < strv_len(strv); i++) {
        free(strv[i]);
    }
    free(strv);
}

void strv_release(char ***strv)
{
    strv_free(*strv);
    *strv = NULL;
}
