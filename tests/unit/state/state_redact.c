/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/mem.h"
#include "state/redact.h"

#include <stdio.h>
#include <string.h>

#define VALUE "sk-Ab/cd+ef\"gh~ij KL\\mn"

static struct redactor *make(void)
{
    char *env[] = {(char[]){"OPENAI_API_KEY=" VALUE},
                   (char[]){"HF_TOKEN=hf_0123456789abcdefXYZ"},
                   (char[]){"DB_PASSWORD=pass-word"},
                   (char[]){"SHORT_KEY=tiny"},
                   (char[]){"PATH=/usr/bin:/usr/local/bin:/bin"},
                   (char[]){"NOVALUE"},
                   NULL};
    return redact_new(env);
}

static char *redacted(const struct redactor *r, const char *text)
{
    return redact_text(r, text);
}

Test(redact, plain_json_and_url_forms)
{
    AUTO_REDACTOR struct redactor *r = make();
    static const struct {
        const char *text, *becomes;
    } rows[] = {
        {"key=" VALUE "!", "key=<OPENAI_API_KEY>!"},
        {"{\"k\":\"sk-Ab/cd+ef\\\"gh~ij KL\\\\mn\"}", "{\"k\":\"<OPENAI_API_KEY>\"}"},
        {"{\"k\":\"sk-Ab\\/cd+ef\\\"gh~ij KL\\\\mn\"}", "{\"k\":\"<OPENAI_API_KEY>\"}"},
        {"?k=sk-Ab%2Fcd%2Bef%22gh~ij%20KL%5Cmn&x", "?k=<OPENAI_API_KEY>&x"},
        {"?k=sk-Ab%2fcd%2bef%22gh~ij%20KL%5cmn&x", "?k=<OPENAI_API_KEY>&x"},
        {"hf_0123456789abcdefXYZhf_0123456789abcdefXYZ", "<HF_TOKEN><HF_TOKEN>"},
        {"it is pass-word", "it is <DB_PASSWORD>"},
        {"tiny /usr/bin:/usr/local/bin:/bin", "tiny /usr/bin:/usr/local/bin:/bin"},
        {"hf_0123456789abcdefXY", "hf_0123456789abcdefXY"},
        {"", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_FREE char *got = redacted(r, rows[i].text);
        cr_assert_str_eq(got, rows[i].becomes);
        bool has = strcmp(rows[i].text, rows[i].becomes) != 0;
        cr_assert_eq(redact_contains(r, rows[i].text, strlen(rows[i].text)) != NULL, has);
    }
    TEST_END();
}

/* base64 of "xxx" + hf token at the three alignments, made by coreutils. */
Test(redact, base64_at_every_alignment)
{
    AUTO_REDACTOR struct redactor *r = make();
    static const char *const encoded[] = {
        "aGZfMDEyMzQ1Njc4OWFiY2RlZlhZWg==",     /* hf_… */
        "dTpoZl8wMTIzNDU2Nzg5YWJjZGVmWFla",     /* u:hf_… */
        "YTpoZl8wMTIzNDU2Nzg5YWJjZGVmWFlaOmI=", /* a:hf_…:b */
        "dXNlcjpoZl8wMTIzNDU2Nzg5YWJjZGVmWFla", /* user:hf_… */
        "eGhmXzAxMjM0NTY3ODlhYmNkZWZYWVp5eQ==", /* xhf_…yy */
    };
    for (size_t i = 0; i < ARRAY_LEN(encoded); i++) {
        AUTO_FREE char *got = redacted(r, encoded[i]);
        cr_assert(strstr(got, "<HF_TOKEN>"), "%s: %s", encoded[i], got);
        cr_assert(!strstr(got, "MzQ1Njc4"), "%s", got);
    }
    TEST_END();
}

Test(redact, streams_find_values_across_any_border)
{
    AUTO_REDACTOR struct redactor *r = make();
    const char *text = "a " VALUE " b hf_0123456789abcdefXYZ and hf_0123 end " VALUE;
    const char *want = "a <OPENAI_API_KEY> b <HF_TOKEN> and hf_0123 end <OPENAI_API_KEY>";
    size_t len = strlen(text);

    for (size_t step = 1; step <= len; step++) {
        struct redact_stream s;
        AUTO_BUF struct buf out;
        buf_init(&out, BUF_MAX_TEXT);
        redact_stream_init(&s, r);
        for (size_t i = 0; i < len; i += step) {
            redact_stream_add(&s, text + i, len - i < step ? len - i : step, &out);
        }
        redact_stream_end(&s, &out);
        cr_assert_str_eq(out.data, want, "in pieces of %zu", step);
        cr_assert(s.replaced);
        redact_stream_done(&s);
    }
    TEST_END();
}

Test(redact, bytes_stay_bytes)
{
    AUTO_REDACTOR struct redactor *r = make();
    const char data[] = "\0\xff\x80hf_0123456789abcdefXYZ\0tail";
    AUTO_BUF struct buf out;
    buf_init(&out, BUF_MAX_TEXT);
    cr_assert(redact_bytes(r, data, sizeof data - 1, &out));
    cr_assert_eq(out.len, 3 + 10 + 5);
    cr_assert_eq(memcmp(out.data, "\0\xff\x80<HF_TOKEN>\0tail", out.len), 0);
    TEST_END();
}

Test(redact, no_redactor_changes_nothing)
{
    AUTO_REDACTOR struct redactor *empty = redact_new(NULL);
    AUTO_FREE char *a = redact_text(NULL, VALUE);
    AUTO_FREE char *b = redact_text(empty, VALUE);
    cr_assert_str_eq(a, VALUE);
    cr_assert_str_eq(b, VALUE);
    cr_assert_null(redact_contains(NULL, VALUE, 5));
    cr_assert(redact_is_secret_name("aws_secret_access_key"));
    cr_assert(redact_is_secret_name("GITHUB_TOKEN"));
    cr_assert(!redact_is_secret_name("PATH"));
    cr_assert(!redact_is_secret_name("KEYBOARD"));
    TEST_END();
}
