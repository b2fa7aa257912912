/* SPDX-License-Identifier: Apache-2.0 */
#include "config/yaml.h"

#include "base/buf.h"
#include "base/clock.h"
#include "config_support.h"

static struct yaml_node *parse_good(const char *text, unsigned flags)
{
    AUTO_FINDINGS struct config_findings findings = {.count = 0};
    struct orch_err err = ERR_INIT;
    struct yaml_node *root = NULL;
    int code = yaml_tree_parse("a.yaml", text, strlen(text), flags, &root, &findings, &err);
    cr_assert_eq(code, 0, "%s", err.message);
    return root;
}

static char *parse_bad(const char *text, size_t len, unsigned flags)
{
    AUTO_FINDINGS struct config_findings findings = {.count = 0};
    struct orch_err err = ERR_INIT;
    struct yaml_node *root = NULL;
    int code = yaml_tree_parse("a.yaml", text, len, flags, &root, &findings, &err);
    cr_assert_eq(code, ORCH_E_CONFIG, "accepted: %.80s", text);
    cr_assert_null(root);
    cr_assert_gt(findings.count, 0);
    return config_findings_text(&findings);
}

Test(yaml, marks_count_from_one)
{
    AUTO_YAML struct yaml_node *root = parse_good("é: 1\nmap:\n  key: [a, \"b\"]\n", 0);
    cr_assert_eq(root->count, 2);
    cr_assert_eq(root->items[0]->line, 1);
    cr_assert_eq(root->items[0]->column, 4, "columns count characters");
    const struct yaml_node *list = yaml_node_get(yaml_node_get(root, "map"), "key");
    cr_assert_eq(list->kind, YAML_LIST);
    cr_assert_eq(list->line, 3);
    cr_assert_eq(list->column, 8);
    cr_assert(list->items[0]->plain);
    cr_assert_not(list->items[1]->plain);
    cr_assert_eq(root->items[1]->key_columns[0], 3);
    TEST_END();
}

Test(yaml, bom_crlf_and_blocks_are_fine)
{
    AUTO_YAML struct yaml_node *root = parse_good("\xef\xbb\xbf# c\r\na: 1\r\nscript: |\r\n  if x\r\n  \tthen\r\n", 0);
    cr_assert_str_eq(yaml_node_get(root, "a")->text, "1");
    cr_assert_str_eq(yaml_node_get(root, "script")->text, "if x\n\tthen\n");
    AUTO_YAML struct yaml_node *empty = parse_good("# nothing\n", 0);
    cr_assert_eq(empty->kind, YAML_MAP);
    cr_assert_eq(empty->count, 0);
    TEST_END();
}

Test(yaml, duplicates_name_both_lines)
{
    AUTO_FREE char *nested = parse_bad("a:\n  t: 1\n  u: 2\n  t: 3\n", 23, 0);
    assert_has(nested, "a.yaml:4:3: key `t` is given twice: on line 2 and on line 4 [duplicate-key]");
    AUTO_FREE char *quoted = parse_bad("a: 1\n\"a\": 2\n", 12, 0);
    assert_has(quoted, "on line 1 and on line 2");
    TEST_END();
}

Test(yaml, strict_mode_refuses)
{
    static const struct {
        const char *text;
        const char *id;
    } table[] = {{"a: &x 1\nb: *x\n", "[anchor]"},
                 {"a: *x\n", "[alias]"},
                 {"a: !secret x\n", "[tag]"},
                 {"a: !!str 1\n", "[tag]"},
                 {"a:\n\tb: 1\n", "[tab]"},
                 {"a: [\n\t1]\n", "[tab]"},
                 {"a: 1\n---\nb: 2\n", "[second-document]"},
                 {"? [a]\n: 1\n", "[key-type]"},
                 {"a: \"x\\0y\"\n", "[nul-character]"},
                 {"a: [1\n", "[not-yaml]"},
                 {"a: b: c\n", "[not-yaml]"},
                 {"a: \x01\n", "[not-yaml]"},
                 {"a: \xff\n", "[not-utf8]"},
                 {"a: 1\n  b: 2\n", "[not-yaml]"}};
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        AUTO_FREE char *report = parse_bad(table[i].text, strlen(table[i].text), 0);
        assert_has(report, table[i].id);
        assert_has(report, "remedy: ");
    }
    TEST_END();
}

Test(yaml, size_and_depth_are_capped)
{
    AUTO_BUF struct buf b;
    buf_init(&b, (size_t)4 << 20);
    while (b.len <= YAML_BYTES_MAX) {
        buf_str(&b, "# filler\n");
    }
    AUTO_FREE char *large = parse_bad(b.data, b.len, 0);
    assert_has(large, "[too-large]");
    buf_reset(&b);
    for (int i = 0; i < 100000; i++) {
        buf_char(&b, '[');
    }
    int64_t before = clock_mono_ns(&(struct clock){.mono_ns = clock_system().mono_ns});
    AUTO_FREE char *deep = parse_bad(b.data, b.len, 0);
    assert_has(deep, "[too-deep]");
    cr_assert_lt(clock_mono_ns(&(struct clock){.mono_ns = clock_system().mono_ns}) - before, 5 * NS_PER_S);
    buf_reset(&b);
    buf_str(&b, "a: [");
    for (int i = 0; i < YAML_NODES_MAX + 10; i++) {
        buf_str(&b, "1,");
    }
    buf_str(&b, "]\n");
    AUTO_FREE char *many = parse_bad(b.data, b.len, 0);
    assert_has(many, "[too-many-values]");
    TEST_END();
}

/* Many keys in one map stay cheap: no quadratic search for duplicates. */
Test(yaml, wide_maps_are_fast)
{
    AUTO_BUF struct buf b;
    buf_init(&b, YAML_BYTES_MAX);
    for (int i = 0; i < 45000; i++) {
        buf_fmt(&b, "k%d: 1\n", i);
    }
    AUTO_YAML struct yaml_node *root = parse_good(b.data, 0);
    cr_assert_eq(root->count, 45000);
    TEST_END();
}

Test(yaml, anchors_are_expanded_when_asked)
{
    AUTO_YAML struct yaml_node *root = parse_good("a: &x {b: 1}\nc: *x\nd: [*x, *x]\n", YAML_ANCHORS);
    cr_assert_str_eq(yaml_node_get(yaml_node_get(root, "c"), "b")->text, "1");
    cr_assert_eq(yaml_node_get(root, "d")->count, 2);
    AUTO_FREE char *self = parse_bad("a: &x [*x]\n", 11, YAML_ANCHORS);
    assert_has(self, "[alias]");
    TEST_END();
}

Test(yaml, alias_bombs_end_quickly)
{
    AUTO_BUF struct buf b;
    buf_init(&b, YAML_BYTES_MAX);
    buf_str(&b, "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for (int i = 1; i < 9; i++) {
        buf_fmt(&b, "a%d: &a%d [", i, i);
        for (int k = 0; k < 10; k++) {
            buf_fmt(&b, "%s*a%d", k == 0 ? "" : ", ", i - 1);
        }
        buf_str(&b, "]\n");
    }
    AUTO_FREE char *report = parse_bad(b.data, b.len, YAML_ANCHORS);
    assert_has(report, "[too-many-values]");
    buf_reset(&b);
    buf_str(&b, "a: &a {k: v}\n");
    for (int i = 0; i < 500; i++) {
        buf_fmt(&b, "honest%d: *a\n", i);
    }
    AUTO_YAML struct yaml_node *root = parse_good(b.data, YAML_ANCHORS);
    cr_assert_eq(root->count, 501);
    TEST_END();
}

Test(yaml, scalars_read_back)
{
    static const char *const texts[] = {"plain", "",    "yes",  "null",  "~",    "1",      "0x1f", "1e3",  "a: b",
                                        "# c",   "- x", "it's", "\"q\"", "a\\b", "l1\nl2", "10m",  "1GiB", ".5",
                                        "café",  "*x",  "&x",   "{",     " a ",  "a\tb",   "\x7f"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        AUTO_FREE char *scalar = yaml_scalar_text(texts[i]);
        AUTO_FREE char *line = xasprintf("k: %s\nl: [%s]\n", scalar, scalar);
        AUTO_YAML struct yaml_node *root = parse_good(line, 0);
        cr_assert_str_eq(yaml_node_get(root, "k")->text, texts[i], "%s", line);
        cr_assert_str_eq(yaml_node_get(root, "l")->items[0]->text, texts[i], "%s", line);
        cr_assert_not(yaml_node_is_null(yaml_node_get(root, "k")), "%s", line);
    }
    TEST_END();
}
