/* SPDX-License-Identifier: Apache-2.0 */
/* Every file of broken/ is refused with exactly the words of its .expected file. */
#include "base/fd.h"
#include "base/path.h"
#include "config_support.h"

#include <dirent.h>
#include <stdlib.h>

#define LEAST_BROKEN 30
#define FILE_MAX ((size_t)2 << 20)

static char *slurp(const char *dir, const char *name, size_t *ret_len)
{
    struct orch_err err = ERR_INIT;
    AUTO_FREE char *path = path_join(dir, name);
    char *data = NULL;
    cr_assert_eq(fd_read_file(path, FILE_MAX, &data, ret_len, &err), 0, "%s", err.message);
    return data;
}

static void try_broken(const char *dir, const char *name)
{
    AUTO_FINDINGS struct config_findings findings = {.count = 0};
    struct orch_err err = ERR_INIT;
    size_t len;
    size_t expected_len;
    AUTO_FREE char *text = slurp(dir, name, &len);
    AUTO_FREE char *expected_name = xasprintf("%.*s.expected", (int)(strlen(name) - strlen(".yaml")), name);
    AUTO_FREE char *expected = slurp(dir, expected_name, &expected_len);
    struct run_config *config = NULL;
    int code = run_config_parse(name, "/project", text, len, NULL, &config, &findings, &err);
    cr_assert_eq(code, ORCH_E_CONFIG, "%s was accepted", name);
    AUTO_FREE char *got = config_findings_text(&findings);
    cr_assert_str_eq(got, expected, "%s\n--- got\n%s--- expected\n%s", name, got, expected);
}

Test(broken, every_config_gets_its_exact_message)
{
    AUTO_FREE char *dir = test_source("tests/unit/config/broken");
    unsetenv("ORCH_TEST_UNSET");
    setenv("HOME", "/srv/ada", 1);
    DIR *d = opendir(dir);
    cr_assert_not_null(d);
    size_t broken = 0;
    size_t expected = 0;
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        const char *dot = strrchr(e->d_name, '.');
        if (dot != NULL && strcmp(dot, ".yaml") == 0) {
            try_broken(dir, e->d_name);
            broken++;
        }
        expected += dot != NULL && strcmp(dot, ".expected") == 0;
    }
    closedir(d);
    cr_assert_geq(broken, LEAST_BROKEN);
    cr_assert_eq(broken, expected, "%zu configs, %zu expectations", broken, expected);
    TEST_END();
}

/* What goes wrong is said with a place and with what to do, always. */
Test(broken, every_message_has_a_place_and_a_remedy)
{
    AUTO_FREE char *dir = test_source("tests/unit/config/broken");
    DIR *d = opendir(dir);
    cr_assert_not_null(d);
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        const char *dot = strrchr(e->d_name, '.');
        if (dot == NULL || strcmp(dot, ".expected") != 0) {
            continue;
        }
        size_t len;
        AUTO_FREE char *text = slurp(dir, e->d_name, &len);
        AUTO_FREE char *place = xasprintf("%.*s.yaml:", (int)(dot - e->d_name), e->d_name);
        assert_has(text, place);
        assert_has(text, "\n  expected: ");
        assert_has(text, "\n  remedy: ");
        assert_lacks(text, "not-to-be-shown");
        assert_lacks(text, "secret@");
    }
    closedir(d);
    TEST_END();
}
