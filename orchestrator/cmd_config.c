/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "config/operator.h"
#include "config/run_config.h"
#include "config/schema.h"
#include "orchestrator/verbs.h"

static const struct config_table *chosen_table(const struct verb_call *call)
{
    return verb_flag(call, "operator") ? config_operator_table() : config_run_table();
}

static int show(const struct verb_call *call)
{
    struct orch_err err = ERR_INIT;
    AUTO_FINDINGS struct config_findings findings = {0};
    AUTO_RUN_CONFIG struct run_config *config = NULL;
    if (run_config_load(call->args[0], call->args + 1, &config, &findings, &err) < 0) {
        return verb_fail_findings(call, &findings, &err);
    }
    if (call->json) {
        json_t *document = verb_json();
        json_set_str(document, "file", config->file);
        json_set_take(document, "config", run_config_effective(config));
        verb_print_json(call, document);
        return 0;
    }
    AUTO_FREE char *text = run_config_show(config);
    verb_print(call, "%s", text);
    return 0;
}

static int explain(const struct verb_call *call)
{
    struct orch_err err = ERR_INIT;
    AUTO_FREE char *text = NULL;
    if (schema_explain(chosen_table(call), call->args[0], &text, &err) < 0) {
        return verb_fail(call, &err);
    }
    if (call->json) {
        json_t *document = verb_json();
        json_set_str(document, "key", call->args[0]);
        json_set_str(document, "text", text);
        verb_print_json(call, document);
        return 0;
    }
    verb_print(call, "%s", text);
    return 0;
}

/* JSON either way: with --json inside a document of the usual shape. */
static int schema(const struct verb_call *call)
{
    json_t *value = schema_json(chosen_table(call));
    if (call->json) {
        json_t *document = verb_json();
        json_set_take(document, "schema", value);
        value = document;
    }
    verb_print_json(call, value);
    return 0;
}

static int reference(const struct verb_call *call)
{
    AUTO_FREE char *text = schema_markdown(chosen_table(call));
    if (call->json) {
        json_t *document = verb_json();
        json_set_str(document, "markdown", text);
        verb_print_json(call, document);
        return 0;
    }
    verb_print(call, "%s", text);
    return 0;
}

static const struct verb_option options[] = {
    {"operator", NULL, "the operator config instead of the run config"},
    {NULL, NULL, NULL},
};

const struct verb cmd_config_show = {
    .name = "config show",
    .summary = "Shows the effective config, each value with where it came from",
    .usage = "orch config show FILE [key.path=value…]",
    .help = "Built-in defaults < the file < key.path=value. What it prints reads back as an equal config.\n"
            "\n"
            "Examples:\n"
            "  orch config show run.yaml\n"
            "  orch config show run.yaml task.timeout=1m trainer.epochs=2\n"
            "  orch config show run.yaml --json\n",
    .min_args = 1,
    .max_args = SIZE_MAX,
    .run = show,
};

const struct verb cmd_config_explain = {
    .name = "config explain",
    .summary = "Explains one key of the config, or a group of them",
    .usage = "orch config explain KEY [--operator]",
    .help = "Examples:\n"
            "  orch config explain task.timeout\n"
            "  orch config explain judge\n"
            "  orch config explain confinement.required --operator\n",
    .options = options,
    .min_args = 1,
    .max_args = 1,
    .run = explain,
};

const struct verb cmd_config_schema = {
    .name = "config schema",
    .summary = "Prints the JSON Schema of the config",
    .usage = "orch config schema [--operator]",
    .help = "Examples:\n"
            "  orch config schema >run.schema.json\n"
            "  orch config schema --operator\n",
    .options = options,
    .run = schema,
};

const struct verb cmd_config_reference = {
    .name = "config reference",
    .summary = "Prints the reference page of the config as Markdown",
    .usage = "orch config reference [--operator]",
    .help = "Examples:\n"
            "  orch config reference >config.md\n",
    .options = options,
    .run = reference,
};
