/* SPDX-License-Identifier: Apache-2.0 */
#include "config/units.h"

#include "base/mem.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct unit {
    const char *word;
    int64_t scale;
};

#define S INT64_C(1000000000)
#define NEEDS_DURATION "a number needs a unit: d, h, m, s, ms, us or ns"
#define NEEDS_SIZE "a number needs a unit: B, KiB, MiB, GiB, TiB (or K, M, G, T; KB, MB, GB, TB are powers of 1000)"

static const struct unit duration_units[] = {
    {"d", 86400 * S}, {"h", 3600 * S}, {"m", 60 * S}, {"s", S}, {"ms", 1000000}, {"us", 1000}, {"ns", 1},
};

static const struct unit size_units[] = {
    {"B", 1},
    {"K", INT64_C(1) << 10},
    {"Ki", INT64_C(1) << 10},
    {"KiB", INT64_C(1) << 10},
    {"M", INT64_C(1) << 20},
    {"Mi", INT64_C(1) << 20},
    {"MiB", INT64_C(1) << 20},
    {"G", INT64_C(1) << 30},
    {"Gi", INT64_C(1) << 30},
    {"GiB", INT64_C(1) << 30},
    {"T", INT64_C(1) << 40},
    {"Ti", INT64_C(1) << 40},
    {"TiB", INT64_C(1) << 40},
    {"KB", 1000},
    {"MB", 1000000},
    {"GB", S},
    {"TB", 1000 * S},
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* digits [. digits]: value = whole + fraction / 10^digits */
struct decimal {
    int64_t whole;
    int64_t fraction;
    int64_t power;
    bool has_fraction;
};

static const char *read_decimal(const char **text, struct decimal *ret)
{
    const char *c = *text;
    struct decimal d = {.power = 1};
    if (!is_digit(*c)) {
        return "a number is missing";
    }
    for (; is_digit(*c); c++) {
        if (__builtin_mul_overflow(d.whole, 10, &d.whole) || __builtin_add_overflow(d.whole, *c - '0', &d.whole)) {
            return "the number is too large";
        }
    }
    if (*c == '.') {
        c++;
        d.has_fraction = true;
        if (!is_digit(*c)) {
            return "digits are missing after the point";
        }
        for (int n = 0; is_digit(*c); c++, n++) {
            if (n == 15) {
                return "too many digits after the point";
            }
            d.fraction = d.fraction * 10 + (*c - '0');
            d.power *= 10;
        }
    }
    *text = c;
    *ret = d;
    return NULL;
}

/* Exact or refused: nothing is rounded. */
static const char *scale_decimal(const struct decimal *d, int64_t scale, const char *inexact, int64_t *ret)
{
    __int128 fraction = (__int128)d->fraction * scale;
    if (fraction % d->power != 0) {
        return inexact;
    }
    __int128 value = (__int128)d->whole * scale + fraction / d->power;
    if (value > INT64_MAX) {
        return "the value is too large";
    }
    *ret = (int64_t)value;
    return NULL;
}

static bool is_zero(const char *text)
{
    return strcmp(text, "0") == 0;
}

static const struct unit *find_unit(const struct unit *units, size_t count, const char *text, size_t len)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(units[i].word) == len && memcmp(units[i].word, text, len) == 0) {
            return &units[i];
        }
    }
    return NULL;
}

static size_t unit_length(const char *c)
{
    size_t n = 0;
    while ((c[n] >= 'a' && c[n] <= 'z') || (c[n] >= 'A' && c[n] <= 'Z')) {
        n++;
    }
    return n;
}

/* PT1H30M2.5S → 1h30m2.5s; out has room for the length of text. */
static const char *from_iso(const char *text, char *out, size_t size)
{
    size_t n = 0;
    bool time = false;
    for (const char *c = text + 1; *c != '\0'; c++) {
        if (*c == 'T' && !time) {
            time = true;
            continue;
        }
        char lower = *c;
        if (!is_digit(*c) && *c != '.') {
            bool known = time ? strchr("HMS", *c) != NULL : *c == 'D';
            if (!known) {
                return "an ISO duration has days, hours, minutes and seconds only: P1DT2H3M4S";
            }
            lower = (char)(*c + ('a' - 'A'));
        }
        if (n + 1 >= size) {
            return "the value is too long";
        }
        out[n++] = lower;
    }
    out[n] = '\0';
    return NULL;
}

const char *units_duration(const char *text, int64_t *ret_ns)
{
    char iso[UNITS_TEXT_MAX];
    if (is_zero(text)) {
        *ret_ns = 0;
        return NULL;
    }
    if (text[0] == 'P') {
        const char *wrong = from_iso(text, iso, sizeof(iso));
        if (wrong != NULL) {
            return wrong;
        }
        text = iso;
    }
    int64_t total = 0;
    const struct unit *last = NULL;
    bool fraction = false;
    if (*text == '-') {
        return "a duration is not negative";
    }
    do {
        struct decimal d;
        int64_t part;
        const char *wrong = read_decimal(&text, &d);
        if (wrong != NULL) {
            return wrong;
        }
        size_t n = unit_length(text);
        const struct unit *unit = find_unit(duration_units, ARRAY_LEN(duration_units), text, n);
        if (unit == NULL) {
            return NEEDS_DURATION;
        }
        if ((last != NULL && unit <= last) || fraction) {
            return "units fall from d to ns, each once, and only the last number has a fraction";
        }
        wrong = scale_decimal(&d, unit->scale, "the duration is finer than a nanosecond", &part);
        if (wrong != NULL) {
            return wrong;
        }
        if (__builtin_add_overflow(total, part, &total)) {
            return "the value is too large";
        }
        last = unit;
        fraction = d.has_fraction;
        text += n;
    } while (*text != '\0');
    *ret_ns = total;
    return NULL;
}

const char *units_size(const char *text, int64_t *ret_bytes)
{
    struct decimal d;
    if (is_zero(text)) {
        *ret_bytes = 0;
        return NULL;
    }
    if (*text == '-') {
        return "a size is not negative";
    }
    const char *wrong = read_decimal(&text, &d);
    if (wrong != NULL) {
        return wrong;
    }
    if (*text == ' ') {
        return "no space between the number and its unit";
    }
    size_t n = unit_length(text);
    const struct unit *unit = find_unit(size_units, ARRAY_LEN(size_units), text, n);
    if (unit == NULL || text[n] != '\0') {
        return NEEDS_SIZE;
    }
    return scale_decimal(&d, unit->scale, "the size is not a whole number of bytes", ret_bytes);
}

const char *units_int(const char *text, int64_t *ret)
{
    const char *c = text + (text[0] == '-');
    size_t digits = strspn(c, "0123456789");
    if (digits == 0 || c[digits] != '\0') {
        return "a whole number has decimal digits only";
    }
    if (c[0] == '0' && digits > 1) {
        return "a number with a leading zero could be read as octal";
    }
    errno = 0;
    long long value = strtoll(text, NULL, 10);
    if (errno == ERANGE) {
        return "the number is too large";
    }
    *ret = value;
    return NULL;
}

const char *units_number(const char *text, double *ret)
{
    const char *c = text + (text[0] == '-');
    size_t whole = strspn(c, "0123456789");
    if (whole == 0 || (c[0] == '0' && whole > 1)) {
        return whole == 0 ? "a number has decimal digits" : "a number with a leading zero could be read as octal";
    }
    c += whole;
    if (*c == '.') {
        size_t n = strspn(c + 1, "0123456789");
        if (n == 0) {
            return "digits are missing after the point";
        }
        c += n + 1;
    }
    if (*c == 'e' || *c == 'E') {
        c += 1 + (c[1] == '+' || c[1] == '-');
        size_t n = strspn(c, "0123456789");
        if (n == 0) {
            return "digits are missing in the exponent";
        }
        c += n;
    }
    if (*c != '\0') {
        return "a number has decimal digits";
    }
    double value = strtod(text, NULL);
    if (!isfinite(value)) {
        return "the number is too large";
    }
    *ret = value;
    return NULL;
}

char *units_duration_text(int64_t ns, char *out)
{
    if (ns < 0) {
        return memcpy(out, "null", sizeof("null"));
    }
    if (ns == 0) {
        return memcpy(out, "0", sizeof("0"));
    }
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(duration_units); i++) {
        int64_t count = ns / duration_units[i].scale;
        if (count > 0) {
            n += (size_t)snprintf(out + n, UNITS_TEXT_MAX - n, "%lld%s", (long long)count, duration_units[i].word);
            ns %= duration_units[i].scale;
        }
    }
    return out;
}

char *units_size_text(int64_t bytes, char *out)
{
    static const char *const words[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    if (bytes < 0) {
        return memcpy(out, "null", sizeof("null"));
    }
    if (bytes == 0) {
        return memcpy(out, "0", sizeof("0"));
    }
    size_t i = 0;
    while (i + 1 < ARRAY_LEN(words) && bytes % 1024 == 0) {
        bytes /= 1024;
        i++;
    }
    snprintf(out, UNITS_TEXT_MAX, "%lld%s", (long long)bytes, words[i]);
    return out;
}

/* --- names --- */

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"
#define NAME_MAX_LENGTH 63
#define VARIABLE_MAX_LENGTH 128
#define HOST_MAX_LENGTH 253

static bool only(const char *text, const char *allowed)
{
    return text[strspn(text, allowed)] == '\0';
}

bool units_is_name(const char *text)
{
    size_t len = strlen(text);
    return len > 0 && len <= NAME_MAX_LENGTH && strchr(LOWER DIGITS, text[0]) != NULL && only(text, LOWER DIGITS "._-");
}

bool units_is_variable(const char *text)
{
    size_t len = strlen(text);
    return len > 0 && len <= VARIABLE_MAX_LENGTH && !is_digit(text[0]) && only(text, LOWER UPPER DIGITS "_");
}

bool units_is_variable_pattern(const char *text)
{
    size_t len = strlen(text);
    return len > 0 && len <= VARIABLE_MAX_LENGTH && !is_digit(text[0]) && only(text, LOWER UPPER DIGITS "_*") &&
           !only(text, "*");
}

bool units_is_host(const char *text)
{
    if (text[0] == '[') { /* [v6]:port */
        const char *close = strchr(text, ']');
        return close != NULL && close > text + 2 &&
               strspn(text + 1, DIGITS "abcdefABCDEF:.") == (size_t)(close - text - 1) &&
               (close[1] == '\0' || (close[1] == ':' && close[2] != '\0' && only(close + 2, DIGITS)));
    }
    const char *name = strncmp(text, "*.", 2) == 0 ? text + 2 : text;
    size_t len = strspn(name, LOWER UPPER DIGITS "-.");
    if (len == 0 || len > HOST_MAX_LENGTH || name[0] == '.' || name[0] == '-' || strstr(name, "..") != NULL) {
        return false;
    }
    const char *rest = name + len;
    size_t port = rest[0] == ':' ? strlen(rest + 1) : 0;
    return rest[0] == '\0' || (rest[0] == ':' && port > 0 && port <= 5 && only(rest + 1, DIGITS));
}

/* --- nearest --- */

#define DISTANCE_MAX_LENGTH 64

static int min3(int a, int b, int c)
{
    int least = a < b ? a : b;
    return least < c ? least : c;
}

int units_distance(const char *a, const char *b, int cap)
{
    size_t m = strlen(a);
    size_t n = strlen(b);
    if (m > DISTANCE_MAX_LENGTH || n > DISTANCE_MAX_LENGTH) {
        return cap + 1;
    }
    /* Optimal string alignment: three rows of the table. */
    int rows[3][DISTANCE_MAX_LENGTH + 1];
    for (size_t j = 0; j <= n; j++) {
        rows[0][j] = (int)j;
    }
    for (size_t i = 1; i <= m; i++) {
        int *now = rows[i % 3];
        const int *before = rows[(i + 2) % 3];
        const int *earlier = rows[(i + 1) % 3];
        now[0] = (int)i;
        for (size_t j = 1; j <= n; j++) {
            now[j] = min3(before[j] + 1, now[j - 1] + 1, before[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && earlier[j - 2] + 1 < now[j]) {
                now[j] = earlier[j - 2] + 1;
            }
        }
    }
    int distance = rows[m % 3][n];
    return distance > cap ? cap + 1 : distance;
}
