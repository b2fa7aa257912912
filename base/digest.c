/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that are SHA-256 alone, though OpenSSL 3 calls them deprecated: those of <openssl/evp.h> link every
 * cipher of the library into a program, and its start relocates them all. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "base/digest.h"

#include "base/mem.h"

#include <errno.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct digest {
    SHA256_CTX ctx;
};

static void must(int ok)
{
    if (ok != 1) {
        abort(); /* only in a library that was built without it */
    }
}

struct digest *digest_new(void)
{
    struct digest *d = xcalloc(1, sizeof *d);
    must(SHA256_Init(&d->ctx));
    return d;
}

void digest_free(struct digest *d)
{
    free(d);
}

void digest_release(struct digest **d)
{
    digest_free(*d);
    *d = NULL;
}

void digest_add(struct digest *d, const void *data, size_t len)
{
    must(SHA256_Update(&d->ctx, data, len));
}

void digest_text(struct digest *d, char out[DIGEST_TEXT_MAX])
{
    static const char hex[] = "0123456789abcdef";
    unsigned char raw[SHA256_DIGEST_LENGTH];
    must(SHA256_Final(raw, &d->ctx));
    must(SHA256_Init(&d->ctx));
    memcpy(out, "sha256:", 7);
    for (size_t i = 0; i < sizeof raw; i++) {
        out[7 + 2 * i] = hex[raw[i] >> 4];
        out[8 + 2 * i] = hex[raw[i] & 15];
    }
    out[DIGEST_TEXT_LEN] = '\0';
}

void digest_of(const void *data, size_t len, char out[DIGEST_TEXT_MAX])
{
    AUTO_DIGEST struct digest *d = digest_new();
    digest_add(d, data, len);
    digest_text(d, out);
}

int digest_of_fd(int fd, char out[DIGEST_TEXT_MAX], struct orch_err *err)
{
    AUTO_DIGEST struct digest *d = digest_new();
    char chunk[65536];
    for (;;) {
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return err_errno(err, ORCH_E_IO, "read");
        }
        if (n == 0) {
            break;
        }
        digest_add(d, chunk, (size_t)n);
    }
    digest_text(d, out);
    return 0;
}

bool digest_is_valid(const char *text)
{
    return strlen(text) == DIGEST_TEXT_LEN && strncmp(text, "sha256:", 7) == 0 &&
           strspn(text + 7, "0123456789abcdef") == 64;
}
