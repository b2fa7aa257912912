/* SPDX-License-Identifier: Apache-2.0 */
#include "config/run_config.h"

#include "base/path.h"
#include "base/rng.h"
#include "config/schema.h"
#include "config_support.h"

#include <stdlib.h>

#define S INT64_C(1000000000)

Test(run_config, defaults)
{
    AUTO_RUN_CONFIG struct run_config *c = load_good(MINIMAL, NULL);
    cr_assert_str_eq(c->dir, "/project");
    cr_assert_str_eq(c->data.tasks, "/project/tasks.jsonl");
    cr_assert_str_eq(c->candidate.template_dir, "/project/template");
    cr_assert_str_eq(c->task.command[0], "/project/solve");
    cr_assert_eq(c->data.step_size, 8);
    cr_assert(c->data.shuffle);
    cr_assert_str_eq(c->data.answers[0], "answer");
    cr_assert_eq(c->environment.kind, CONFIG_ENVIRONMENT_HOST);
    cr_assert_eq(c->task.environment.kind, CONFIG_ENVIRONMENT_HOST);
    cr_assert(c->task.environment.inherited);
    cr_assert_eq(c->task.timeout_ns, 300 * S);
    cr_assert_eq(c->task.access.limits.memory, INT64_C(1) << 30);
    cr_assert_eq(c->task.access.limits.cpu_ns, -1);
    cr_assert_eq(c->task.access.network, CONFIG_NETWORK_NO_NETWORK);
    cr_assert_eq(c->judge.mode, CONFIG_JUDGE_HOST);
    cr_assert_str_eq(c->judge.collect[0], "output");
    cr_assert_eq(c->evolver.timeout_ns, 1800 * S);
    cr_assert_eq(c->trainer.steps, -1);
    cr_assert_float_eq(c->budget.usd, -1, 0);
    cr_assert_float_eq(c->retry.stop_share, 0.5, 1e-9);
    cr_assert_null(c->state_dir);
    cr_assert_not_null(c->evolver.access.paths_write);
    cr_assert_not_null(c->judge.access.allowed_hosts);
    TEST_END();
}

Test(run_config, the_whole_shape_of_the_design)
{
    static const char text[] =
        "version: 1\nname: dates\nseed: 7\n"
        "data:    {tasks: tasks.jsonl, train: train.txt, val: val.txt, test: test.txt, step_size: 8, shuffle: true}\n"
        "task_info: task-info/\n"
        "candidate:\n  template: template/\n  start_from: null\n  read_only: []\n  hidden: []\n"
        "  build: {command: [], outputs: [], timeout: 10m}\n"
        "environment: {name: host}\n"
        "task:\n  agent: command\n  command: [./solve]\n  model: fast\n  environment: null\n"
        "  paths: {read: [], write: []}\n  env: [\"MWM_*\"]\n  python: python3\n  packages: []\n"
        "  tools: [{name: lookup, command: [./lookup], schema: {type: object}, timeout: 5s, network: public}]\n"
        "  network: no-network\n  allowed_hosts: []\n  devices: {gpu: 0}\n  timeout: 5m\n"
        "  limits: {memory: 1GiB, file: 256MiB, cpu: null, processes: 256, disk: 1GiB, output: 16MiB}\n"
        "  concurrency: 4\n  samples: 1\n"
        "judge:   {mode: host, command: [./judge], tests: [tests/], collect: [output/], timeout: 1m,\n"
        "          check: {command: []}, measure: {command: [], warmup: 1, repeats: 5, metrics: {}}}\n"
        "evolver: {agent: command, command: [./learn], method: null, params: {}, environment: null,\n"
        "          access: {validation: true, environment: [sim], tools: [lookup]}, timeout: 30m}\n"
        "models:\n  fast: {provider: openai, base_url: \"https://api.openai.com/v1\", key: OPENAI_API_KEY, model: x, "
        "price: {input: 1.0, output: 4.0}}\n"
        "trainer: {epochs: 1, steps: null, gate: none, select: last, patience: null}\n"
        "eval:    {repeats: 1}\n"
        "budget:  {wall: null, calls: null, tokens: null, usd: null, unpriced: refuse}\n"
        "retry:   {max: 3, backoff: {min: 1s, max: 1m, factor: 2}, stop_share: 0.5}\n"
        "sandbox: {mechanism: auto, hide: []}\n";
    AUTO_RUN_CONFIG struct run_config *c = load_good(text, NULL);
    cr_assert_eq(c->task.tool_count, 1);
    cr_assert_str_eq(c->task.tools[0].name, "lookup");
    cr_assert_str_eq(c->task.tools[0].command[0], "/project/lookup");
    cr_assert_eq(c->task.tools[0].timeout_ns, 5 * S);
    cr_assert_eq(c->task.tools[0].network, CONFIG_NETWORK_PUBLIC);
    cr_assert_eq(run_config_tool(c, "lookup"), &c->task.tools[0]);
    cr_assert_null(run_config_tool(c, "other"));
    const struct config_model *m = run_config_model(c, c->task.model);
    cr_assert_not_null(m);
    cr_assert_str_eq(m->key, "OPENAI_API_KEY");
    cr_assert_float_eq(m->price_output, 4.0, 1e-9);
    cr_assert_str_eq(c->evolver.grants.environment[0], "/project/sim");
    TEST_END();
}

/* Every key that DESIGN 4 shows is a row. */
Test(run_config, design_keys_have_rows)
{
    static const char *const keys[] = {
        "version",
        "name",
        "seed",
        "data.tasks",
        "data.harbor",
        "data.train",
        "data.val",
        "data.test",
        "data.step_size",
        "data.shuffle",
        "data.answers",
        "task_info",
        "candidate.template",
        "candidate.project",
        "candidate.start_from",
        "candidate.read_only",
        "candidate.hidden",
        "candidate.build.command",
        "candidate.build.outputs",
        "candidate.build.timeout",
        "environment.name",
        "environment.backend",
        "environment.docker",
        "environment.slurm",
        "environment.skypilot",
        "environment.modal",
        "environment.host",
        "environment.loopback-remote.lose",
        "task.agent",
        "task.command",
        "task.model",
        "task.environment.name",
        "task.paths.read",
        "task.paths.write",
        "task.env",
        "task.python",
        "task.packages",
        "task.tools",
        "task.network",
        "task.allowed_hosts",
        "task.devices.gpu",
        "task.timeout",
        "task.limits.memory",
        "task.limits.file",
        "task.limits.cpu",
        "task.limits.processes",
        "task.limits.disk",
        "task.limits.output",
        "task.concurrency",
        "task.samples",
        "judge.mode",
        "judge.command",
        "judge.tests",
        "judge.collect",
        "judge.timeout",
        "judge.check.command",
        "judge.measure.command",
        "judge.measure.warmup",
        "judge.measure.repeats",
        "judge.measure.metrics",
        "evolver.agent",
        "evolver.command",
        "evolver.method",
        "evolver.params",
        "evolver.environment.name",
        "evolver.access.validation",
        "evolver.access.environment",
        "evolver.access.tools",
        "evolver.timeout",
        "models",
        "trainer.epochs",
        "trainer.steps",
        "trainer.gate",
        "trainer.select",
        "trainer.patience",
        "eval.repeats",
        "budget.wall",
        "budget.calls",
        "budget.tokens",
        "budget.usd",
        "budget.unpriced",
        "retry.max",
        "retry.backoff.min",
        "retry.backoff.max",
        "retry.backoff.factor",
        "retry.stop_share",
        "sandbox.mechanism",
        "sandbox.hide",
        "state_dir",
    };
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const struct config_row *row = config_row_find(config_run_table(), keys[i]);
        cr_assert_not_null(row, "%s has no row", keys[i]);
        cr_assert_str_eq(row->key, keys[i]);
    }
    static const char *const inner[] = {"models.x.provider", "models.x.base_url",          "models.x.key",
                                        "models.x.model",    "models.gpt-4.1.price.input", "task.tools[0].schema",
                                        "task.tools.network"};
    for (size_t i = 0; i < ARRAY_LEN(inner); i++) {
        cr_assert_not_null(config_row_find(config_run_table(), inner[i]), "%s has no row", inner[i]);
    }
    TEST_END();
}

Test(run_config, overrides_win_and_have_types)
{
    char *const overrides[] = {(char[]){"task.timeout=10m"},
                               (char[]){"trainer.epochs=3"},
                               (char[]){"environment=docker"},
                               (char[]){"environment.docker.image=debian:12"},
                               (char[]){"models.gpt-4.1.provider=openai"},
                               (char[]){"models.gpt-4.1.model=gpt-4.1"},
                               (char[]){"models.gpt-4.1.price={input: 2, output: 8}"},
                               (char[]){"task.model=gpt-4.1"},
                               (char[]){"task.env=[LANG, \"APP_*\"]"},
                               (char[]){"evolver.params.rate.first=0.5"},
                               (char[]){"task_info="},
                               NULL};
    AUTO_RUN_CONFIG struct run_config *c = load_good(MINIMAL "task_info: info\n", overrides);
    cr_assert_eq(c->task.timeout_ns, 600 * S);
    cr_assert_eq(c->trainer.epochs, 3);
    cr_assert_eq(c->environment.kind, CONFIG_ENVIRONMENT_DOCKER);
    cr_assert_eq(c->task.environment.kind, CONFIG_ENVIRONMENT_DOCKER);
    cr_assert_str_eq(json_get_str(c->environment.docker, "image", ""), "debian:12");
    cr_assert_str_eq(json_get_str(c->task.environment.docker, "image", ""), "debian:12");
    cr_assert_not_null(run_config_model(c, "gpt-4.1"));
    cr_assert_eq(strv_len(c->task.access.env), 2);
    cr_assert_float_eq(json_get_num(json_get(c->evolver.params, "rate"), "first", 0), 0.5, 1e-9);
    cr_assert_null(c->task_info);
    AUTO_FREE char *where = run_config_where(c, "task.timeout");
    cr_assert_str_eq(where, "override task.timeout");
    AUTO_FREE char *name = run_config_where(c, "name");
    cr_assert_str_eq(name, "run.yaml:2:7");
    TEST_END();
}

Test(run_config, bad_overrides_are_named)
{
    static const struct {
        const char *override;
        const char *expected;
    } table[] = {
        {"task.timeout=5", "override task.timeout: `task.timeout` is `5`: a number needs a unit"},
        {"task.tiemout=5m", "override task.tiemout: unknown key `task.tiemout`"},
        {"task.timeout", "this is not an override"},
        {"=5", "this is not an override"},
        {"task..timeout=5m", "this is not an override"},
        {"task.command=[a", "override task.command: not YAML"},
        {"name.first=x", "override name.first: `name` is not a map in the file"},
        {"agent.name=react", "write `task.agent`"},
        {"seed=1.5", "override seed: `seed` is `1.5`"},
        {"models.fast.key=sk-not-to-be-shown", "override models.fast.key: `models.fast.key` is not the name"},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        AUTO_FREE char *copy = xstrdup(table[i].override);
        char *const overrides[] = {copy, NULL};
        AUTO_FREE char *report = load_bad(MINIMAL, overrides);
        assert_has(report, table[i].expected);
        assert_lacks(report, "not-to-be-shown");
    }
    char *const twice[] = {(char[]){"seed=1"}, (char[]){"seed=2"}, NULL};
    AUTO_FREE char *report = load_bad(MINIMAL, twice);
    assert_has(report, "override seed: the override is given twice");
    TEST_END();
}

/* An override of one setting keeps the name that the file gives as a text. */
Test(run_config, override_beneath_a_shorthand)
{
    char *const overrides[] = {(char[]){"environment.loopback-remote.lose=3"}, NULL};
    AUTO_RUN_CONFIG struct run_config *c = load_good(MINIMAL "environment: loopback-remote\n", overrides);
    cr_assert_eq(c->environment.kind, CONFIG_ENVIRONMENT_LOOPBACK_REMOTE);
    cr_assert_eq(c->environment.lose, 3);
    cr_assert_eq(c->evolver.environment.lose, 3);
    TEST_END();
}

/* A tiny, strict reader of our own output is the parser itself. */
static void reads_back(const char *text)
{
    AUTO_RUN_CONFIG struct run_config *c = load_good(text, NULL);
    AUTO_JSON json_t *effective = run_config_effective(c);
    AUTO_FREE char *json = json_pretty(effective);
    AUTO_RUN_CONFIG struct run_config *again = load_good(json, NULL);
    AUTO_JSON json_t *second = run_config_effective(again);
    cr_assert(json_equal(effective, second), "%s", json);
    AUTO_FREE char *yaml = run_config_show(c);
    AUTO_RUN_CONFIG struct run_config *shown = load_good(yaml, NULL);
    AUTO_JSON json_t *third = run_config_effective(shown);
    cr_assert(json_equal(effective, third), "%s", yaml);
}

Test(run_config, effective_and_show_read_back)
{
    reads_back(MINIMAL);
    reads_back(MINIMAL "environment: {name: loopback-remote, loopback-remote: {lose: 2}}\n"
                       "models:\n  m: {provider: local, base_url: \"http://127.0.0.1:8000/v1\", model: \"a b\"}\n"
                       "budget: {usd: 0.5, wall: 1h30m}\n"
                       "sandbox: {hide: [\"no\", \"1\", \"a: b\"]}\n");
    TEST_END();
}

Test(run_config, show_names_origins)
{
    char *const overrides[] = {(char[]){"seed=9"}, NULL};
    AUTO_RUN_CONFIG struct run_config *c = load_good(MINIMAL, overrides);
    AUTO_FREE char *yaml = run_config_show(c);
    assert_has(yaml, "name: dates                                     # run.yaml:2\n");
    assert_has(yaml, "seed: 9                                         # override seed\n");
    assert_has(yaml, "  step_size: 8                                  # default\n");
    TEST_END();
}

/* --- the fingerprint --- */

static char *meaning_of(const char *dir, const char *text)
{
    AUTO_FINDINGS struct config_findings findings = {.count = 0};
    struct orch_err err = ERR_INIT;
    AUTO_RUN_CONFIG struct run_config *c = NULL;
    cr_assert_eq(run_config_parse("run.yaml", dir, text, strlen(text), NULL, &c, &findings, &err), 0, "%s",
                 err.message);
    AUTO_JSON json_t *meaning = run_config_meaning(c);
    return json_canonical(meaning);
}

static void same_meaning(const char *more, bool same)
{
    AUTO_FREE char *text = xasprintf("%s%s", MINIMAL, more);
    AUTO_FREE char *plain = meaning_of("/project", MINIMAL);
    AUTO_FREE char *other = meaning_of("/project", text);
    cr_assert_eq(strcmp(plain, other) == 0, same, "%s: meaning %s", more, same ? "changed" : "did not change");
}

Test(run_config, meaning_ignores_place_and_volatile_keys)
{
    AUTO_FREE char *here = meaning_of("/project", MINIMAL);
    AUTO_FREE char *there = meaning_of("/elsewhere/deep", MINIMAL);
    cr_assert_str_eq(here, there);
    same_meaning("budget: {usd: 5, wall: 1h}\n", true);
    same_meaning("retry: {max: 9}\n", true);
    same_meaning("state_dir: /var/tmp/x\n", true);
    same_meaning("sandbox: {mechanism: bubblewrap}\n", true);
    same_meaning("# a comment\n", true);
    same_meaning("trainer: {epochs: 2}\n", false);
    same_meaning("seed: 1\n", false);
    same_meaning("sandbox: {hide: [pandas]}\n", false);
    same_meaning("eval: {repeats: 2}\n", false);
    TEST_END();
}

Test(run_config, meaning_is_canonical)
{
    static const char a[] =
        "version: 1\nname: dates\ndata: {tasks: ./tasks.jsonl, train: train.txt}\n"
        "candidate: {template: template}\ntask: {command: [./solve], timeout: 300s, concurrency: 9}\n"
        "judge: {command: [./judge], timeout: 3m}\nevolver: {command: [./learn], timeout: 1h}\n";
    AUTO_FREE char *one = meaning_of("/project", a);
    AUTO_FREE char *two = meaning_of("/project", MINIMAL);
    cr_assert_str_eq(one, two);
    static const char path[] = "version: 1\nname: dates\ndata: {tasks: tasks.jsonl, train: train.txt}\n"
                               "candidate: {template: template}\ntask: {command: [solve]}\n"
                               "judge: {command: [./judge]}\nevolver: {command: [./learn]}\n";
    AUTO_FREE char *three = meaning_of("/project", path);
    cr_assert_str_neq(one, three, "a program on the search path is another one than the one beside the config");
    AUTO_FREE char *port_a =
        xasprintf(MINIMAL "models:\n  m: {provider: local, base_url: \"http://127.0.0.1:%d/v1\", model: m}\n", 8000);
    AUTO_FREE char *port_b =
        xasprintf(MINIMAL "models:\n  m: {provider: local, base_url: \"http://127.0.0.1:%d/v1\", model: m}\n", 9000);
    AUTO_FREE char *remote =
        xasprintf(MINIMAL "models:\n  m: {provider: local, base_url: \"http://host:%d/v1\", model: m}\n", 9000);
    AUTO_FREE char *ma = meaning_of("/project", port_a);
    AUTO_FREE char *mb = meaning_of("/project", port_b);
    AUTO_FREE char *mc = meaning_of("/project", remote);
    cr_assert_str_eq(ma, mb, "a loopback port is chance");
    cr_assert_str_neq(mb, mc);
    TEST_END();
}

/* --- paths --- */

Test(run_config, paths_are_expanded)
{
    setenv("ORCH_TEST_DATA", "/data/set", 1);
    setenv("HOME", "/srv/ada", 1);
    AUTO_RUN_CONFIG struct run_config *c =
        load_good("version: 1\nname: d\ndata: {tasks: \"${ORCH_TEST_DATA}/t.jsonl\", train: ~/splits/train.txt, val: "
                  "../up/./val.txt, test: /abs/test.txt}\ncandidate: {template: template/}\ntask: {command: [python3, "
                  "./solve.py]}\njudge: {command: [\"~/bin/judge\"]}\nevolver: {command: [../learn]}\n",
                  NULL);
    cr_assert_str_eq(c->data.tasks, "/data/set/t.jsonl");
    cr_assert_str_eq(c->data.train, "/srv/ada/splits/train.txt");
    cr_assert_str_eq(c->data.val, "/up/val.txt");
    cr_assert_str_eq(c->data.test, "/abs/test.txt");
    cr_assert_str_eq(c->task.command[0], "python3", "a bare name is searched for");
    cr_assert_str_eq(c->task.command[1], "./solve.py", "arguments stay as they are");
    cr_assert_str_eq(c->judge.command[0], "/srv/ada/bin/judge");
    cr_assert_str_eq(c->evolver.command[0], "/learn");
    AUTO_JSON json_t *meaning = run_config_meaning(c);
    cr_assert_str_eq(json_get_str(json_get(meaning, "data"), "tasks", ""), "${ORCH_TEST_DATA}/t.jsonl");
    TEST_END();
}

Test(run_config, bad_paths_are_refused)
{
    unsetenv("ORCH_TEST_UNSET");
    setenv("ORCH_TEST_EMPTY", "", 1);
    static const struct {
        const char *path;
        const char *expected;
    } table[] = {
        {"${ORCH_TEST_UNSET}/x", "the variable ORCH_TEST_UNSET is not set"},
        {"${ORCH_TEST_EMPTY}/x", "the variable ORCH_TEST_EMPTY is empty"},
        {"${OPEN", "`${` has no `}`"},
        {"${A-B}", "`${A-B}` is not a variable"},
        {"~ada/x", "`~name` is not expanded"},
        {"", "it is empty"},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        AUTO_FREE char *text = xasprintf(MINIMAL "task_info: \"%s\"\n", table[i].path);
        AUTO_FREE char *report = load_bad(text, NULL);
        assert_has(report, table[i].expected);
    }
    TEST_END();
}

Test(run_config, forbidden_paths)
{
    setenv("HOME", "/srv/ada", 1);
    static const char *const never[] = {"/",
                                        "/root",
                                        "/home",
                                        "/home/alice",
                                        "/srv/ada",
                                        "/srv/ada/.ssh",
                                        "/home/alice/.aws/x",
                                        "/home/alice/.config",
                                        "/etc",
                                        "/etc/orch/a.yaml",
                                        "/proc",
                                        "/home/alice/.netrc"};
    static const char *const fine[] = {"/home/alice/project", "/srv/ada/data", "/usr/share", "/opt", "/etc/ssl/certs"};
    for (size_t i = 0; i < ARRAY_LEN(never); i++) {
        cr_assert(config_path_is_forbidden(never[i]), "%s", never[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(fine); i++) {
        cr_assert_not(config_path_is_forbidden(fine[i]), "%s", fine[i]);
    }
    TEST_END();
}

/* --- files --- */

Test(run_config, loads_a_file)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    test_write(&dir, "sub/run.yaml", MINIMAL);
    AUTO_FREE char *path = path_join(dir.path, "sub/run.yaml");
    AUTO_FINDINGS struct config_findings findings = {.count = 0};
    struct orch_err err = ERR_INIT;
    AUTO_RUN_CONFIG struct run_config *c = NULL;
    cr_assert_eq(run_config_load(path, NULL, &c, &findings, &err), 0, "%s", err.message);
    AUTO_FREE char *expected = path_join(dir.path, "sub/tasks.jsonl");
    cr_assert_str_eq(c->data.tasks, expected);
    cr_assert_str_eq(path_base(c->file), "run.yaml");
    AUTO_FREE char *absent = path_join(dir.path, "absent.yaml");
    struct run_config *none = NULL;
    cr_assert_eq(run_config_load(absent, NULL, &none, &findings, &err), ORCH_E_NOT_FOUND);
    cr_assert_null(none);
    TEST_END();
}

/* What is built is decided where it runs: the config takes every word of its tables. */
Test(run_config, words_that_are_not_built_are_fine)
{
    AUTO_RUN_CONFIG struct run_config *c =
        load_good("version: 1\nname: d\ndata: {tasks: t, train: r}\ncandidate: {project: .}\ntask: {agent: codex}\n"
                  "judge: {command: [./judge]}\nevolver: {agent: nop}\nenvironment: modal\n",
                  NULL);
    cr_assert_eq(c->environment.kind, CONFIG_ENVIRONMENT_MODAL);
    cr_assert_eq(c->task.agent, CONFIG_AGENT_CODEX);
    TEST_END();
}

/* Whatever becomes of a text: it is refused with findings, or what it means reads back. */
Test(run_config, damaged_texts)
{
    static const char seed_text[] =
        MINIMAL "budget: {usd: 0.5, wall: 1h30m}\nmodels:\n  m: {provider: local, base_url: \"http://127.0.0.1:1/\", "
                "model: x}\nsandbox: {hide: [a, \"b: c\"]}\nenvironment: {name: docker, docker: {image: \"a:1\"}}\n";
    static const char marks[] = "{}[]:,-#\"' \n\t&*!|>~?0aZ.";
    struct rng rng = rng_seeded(1, "damage");
    int good = 0;
    for (int round = 0; round < 1500; round++) {
        char text[sizeof(seed_text)];
        memcpy(text, seed_text, sizeof(text));
        for (uint64_t k = rng_below(&rng, 3) + 1; k > 0; k--) {
            text[rng_below(&rng, sizeof(text) - 1)] = marks[rng_below(&rng, sizeof(marks) - 1)];
        }
        AUTO_FINDINGS struct config_findings findings = {.count = 0};
        struct orch_err err = ERR_INIT;
        AUTO_RUN_CONFIG struct run_config *c = NULL;
        if (run_config_parse("run.yaml", "/project", text, sizeof(text) - 1, NULL, &c, &findings, &err) < 0) {
            cr_assert_gt(findings.count, 0, "%s", text);
            continue;
        }
        good++;
        AUTO_JSON json_t *effective = run_config_effective(c);
        AUTO_FREE char *yaml = run_config_show(c);
        AUTO_RUN_CONFIG struct run_config *again = load_good(yaml, NULL);
        AUTO_JSON json_t *second = run_config_effective(again);
        cr_assert(json_equal(effective, second), "%s", text);
    }
    cr_assert_gt(good, 50, "%d", good);
    TEST_END();
}

/* A fault never ends the search: all of them are told at once, up to a bound. */
Test(run_config, findings_are_bounded)
{
    AUTO_FINDINGS struct config_findings findings = {.count = 0};
    struct orch_err err = ERR_INIT;
    struct run_config *c = NULL;
    char text[4096] = MINIMAL;
    for (int i = 0; i < 100; i++) {
        size_t at = strlen(text);
        snprintf(text + at, sizeof(text) - at, "x%d: 1\n", i);
    }
    cr_assert_eq(run_config_parse("run.yaml", "/p", text, strlen(text), NULL, &c, &findings, &err), ORCH_E_CONFIG);
    cr_assert_eq(findings.count, CONFIG_FINDINGS_MAX);
    cr_assert_eq(findings.dropped, 100 - CONFIG_FINDINGS_MAX);
    AUTO_FREE char *report = config_findings_text(&findings);
    assert_has(report, "and 36 more\n");
    AUTO_JSON json_t *json = config_findings_json(&findings);
    cr_assert_eq(json_array_size(json), CONFIG_FINDINGS_MAX);
    assert_has(err.message, "(and 99 more)");
    TEST_END();
}
