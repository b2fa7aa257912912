/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 (FIPS 180-4) by libcrypto. A digest is written "sha256:" + 64 hex digits everywhere. */
#ifndef ORCH_BASE_DIGEST_H
#define ORCH_BASE_DIGEST_H

#include "base/err.h"

#include <stdint.h>

#define DIGEST_TEXT_LEN 71
#define DIGEST_TEXT_MAX (DIGEST_TEXT_LEN + 1)

struct digest; /* a running computation */

struct digest *digest_new(void);
void digest_free(struct digest *d); /* NULL is fine */
void digest_release(struct digest **d);
#define AUTO_DIGEST __attribute__((cleanup(digest_release)))
void digest_add(struct digest *d, const void *data, size_t len);
/* Writes the text form; the computation starts anew. */
void digest_text(struct digest *d, char out[DIGEST_TEXT_MAX]);

void digest_of(const void *data, size_t len, char out[DIGEST_TEXT_MAX]);
/* From the current offset to the end. */
MUST_USE int digest_of_fd(int fd, char out[DIGEST_TEXT_MAX], struct orch_err *err);
bool digest_is_valid(const char *text);

#endif
