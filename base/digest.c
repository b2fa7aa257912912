/* SPDX-License-Identifier: Apache-2.0 */
#include "base/digest.h"

#include "base/mem.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct digest {
    EVP_MD_CTX *ctx;
};

static void must(int ok)
{
    if (ok != 1) {
        abort(); /* SHA-256 is always there; only memory can be missing */
    }
}

struct digest *digest_new(void)
{
    struct digest *d = xcalloc(1, sizeof *d);
    d->ctx = EVP_MD_CTX_new();
    must(d->ctx != NULL);
    must(EVP_DigestInit_ex(d->ctx, EVP_sha256(), NULL));
    return d;
}

void digest_free(struct digest *d)
{
    if (d != NULL) {
        EVP_MD_CTX_free(d->ctx);
        free(d);
    }
}

void digest_release(struct digest **d)
{
    digest_free(*d);
    *d = NULL;
}

void digest_add(struct digest *d, const void *data, size_t len)
{
    must(EVP_DigestUpdate(d->ctx, data, len));
}

void digest_text(struct digest *d, char out[DIGEST_TEXT_MAX])
{
    static const char hex[] = "0123456789abcdef";
    unsigned char raw[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    must(EVP_DigestFinal_ex(d->ctx, raw, &n));
    must(EVP_DigestInit_ex(d->ctx, EVP_sha256(), NULL));
    memcpy(out, "sha256:", 7);
    for (unsigned i = 0; i < n && i < 32; i++) {
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
