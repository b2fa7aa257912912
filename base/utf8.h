/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 as in RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef ORCH_BASE_UTF8_H
#define ORCH_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes one code point; returns its length in bytes (1–4), or 0 if the bytes are not valid (or cut). */
size_t utf8_decode(const char *s, size_t len, uint32_t *ret_code_point);
bool utf8_valid(const char *s, size_t len);
/* Largest n <= max with s[0..n) not ending inside a character (for cutting, bugs.md D2). */
size_t utf8_cut(const char *s, size_t len, size_t max);

#endif
