/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of FIPS 180-4 (examples published with the standard). */
#include "test.h"

#include "base/digest.h"
#include "base/fd.h"
#include "base/mem.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define EMPTY "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define ABC "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define MILLION_A "sha256:cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"
#define TWO_BLOCKS "sha256:248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"

Test(digest, known_vectors)
{
    char text[DIGEST_TEXT_MAX];
    digest_of("", 0, text);
    cr_assert_str_eq(text, EMPTY);
    digest_of("abc", 3, text);
    cr_assert_str_eq(text, ABC);
    static const char two[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    digest_of(two, strlen(two), text);
    cr_assert_str_eq(text, TWO_BLOCKS);
    cr_assert_eq(strlen(text), DIGEST_TEXT_LEN);
    TEST_END();
}

Test(digest, pieces_and_a_new_start)
{
    AUTO_DIGEST struct digest *d = digest_new();
    char text[DIGEST_TEXT_MAX];
    for (int i = 0; i < 1000000; i++) {
        digest_add(d, "a", 1);
    }
    digest_text(d, text);
    cr_assert_str_eq(text, MILLION_A);
    digest_text(d, text);
    cr_assert_str_eq(text, EMPTY, "the text starts the computation anew");
    digest_add(d, "abc", 3);
    digest_text(d, text);
    cr_assert_str_eq(text, ABC);
    digest_free(NULL);
    TEST_END();
}

Test(digest, of_a_descriptor_from_its_offset)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    test_write(&dir, "file", "xyabc");
    struct orch_err err = ERR_INIT;
    AUTO_FD int fd = fd_open_beneath(dir.fd, "file", O_RDONLY, 0, &err);
    cr_assert_geq(fd, 0, "%s", err.message);
    cr_assert_eq(lseek(fd, 2, SEEK_SET), 2);
    char text[DIGEST_TEXT_MAX] = "untouched";
    cr_assert_eq(digest_of_fd(fd, text, &err), 0, "%s", err.message);
    cr_assert_str_eq(text, ABC);
    char kept[DIGEST_TEXT_MAX] = "untouched";
    cr_assert_eq(digest_of_fd(dir.fd, kept, &err), ORCH_E_IO, "a directory cannot be read");
    cr_assert_str_eq(kept, "untouched");
    TEST_END();
}

Test(digest, validity)
{
    cr_assert(digest_is_valid(ABC));
    static const char *const bad[] = {
        "",
        "sha256:",
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        "sha256:BA7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015a",
        "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015add",
        "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015a\n",
        "sha256:../../../../../../../../../../../../../../../../../../../../../x",
        "sha512:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        cr_assert_not(digest_is_valid(bad[i]), "%s", bad[i]);
    }
    TEST_END();
}
