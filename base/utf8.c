/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

static size_t expected_length(unsigned char lead)
{
    if (lead < 0x80) {
        return 1;
    }
    if (lead >= 0xc2 && lead <= 0xdf) {
        return 2;
    }
    if (lead >= 0xe0 && lead <= 0xef) {
        return 3;
    }
    return lead >= 0xf0 && lead <= 0xf4 ? 4 : 0;
}

size_t utf8_decode(const char *s, size_t len, uint32_t *ret_code_point)
{
    const unsigned char *u = (const unsigned char *)s;
    if (len == 0) {
        return 0;
    }
    size_t n = expected_length(u[0]);
    if (n == 0 || n > len) {
        return 0;
    }
    static const uint32_t lead_mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t c = u[0] & lead_mask[n];
    for (size_t i = 1; i < n; i++) {
        if ((u[i] & 0xc0) != 0x80) {
            return 0;
        }
        c = (c << 6) | (u[i] & 0x3fU);
    }
    if (c < smallest[n] || (c >= 0xd800 && c <= 0xdfff) || c > 0x10ffff) {
        return 0;
    }
    *ret_code_point = c;
    return n;
}

bool utf8_valid(const char *s, size_t len)
{
    size_t i = 0;
    while (i < len) {
        uint32_t c;
        size_t n = utf8_decode(s + i, len - i, &c);
        if (n == 0) {
            return false;
        }
        i += n;
    }
    return true;
}

size_t utf8_cut(const char *s, size_t len, size_t max)
{
    if (len <= max) {
        return len;
    }
    size_t n = max;
    while (n > 0 && max - n < 3 && ((unsigned char)s[n] & 0xc0) == 0x80) {
        n--;
    }
    /* not UTF-8 at all: cut where asked */
    return ((unsigned char)s[n] & 0xc0) == 0x80 ? max : n;
}
