/* SPDX-License-Identifier: Apache-2.0 */
#include "config/run_config.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "config/config_read.h"
#include "config/run_check.h"
#include "config/schema.h"
#include "config/yaml.h"

#include <string.h>

#define OVERRIDES_MAX 256

static const char *const provider_urls[CONFIG_PROVIDER_COUNT] = {
    [CONFIG_PROVIDER_OPENAI] = "https://api.openai.com/v1",
    [CONFIG_PROVIDER_ANTHROPIC] = "https://api.anthropic.com",
    [CONFIG_PROVIDER_FIREWORKS] = "https://api.fireworks.ai/inference/v1",
    [CONFIG_PROVIDER_DEEPSEEK] = "https://api.deepseek.com",
    [CONFIG_PROVIDER_LOCAL] = NULL,
};

static void inherit(struct config_environment *to, const struct config_environment *from)
{
    json_release(&to->host);
    json_release(&to->docker);
    json_release(&to->slurm);
    json_release(&to->skypilot);
    json_release(&to->modal);
    *to = *from;
    to->inherited = true;
    to->host = json_deep_copy(from->host);
    to->docker = json_deep_copy(from->docker);
    to->slurm = json_deep_copy(from->slurm);
    to->skypilot = json_deep_copy(from->skypilot);
    to->modal = json_deep_copy(from->modal);
}

/* Values that depend on other values. */
static void settle(struct run_config *c)
{
    if (c->task.environment.kind < 0) {
        inherit(&c->task.environment, &c->environment);
    }
    if (c->evolver.environment.kind < 0) {
        inherit(&c->evolver.environment, &c->environment);
    }
    for (size_t i = 0; i < c->model_count; i++) {
        struct config_model *m = &c->models[i];
        if (m->base_url == NULL && m->provider >= 0 && provider_urls[m->provider] != NULL) {
            m->base_url = xstrdup(provider_urls[m->provider]);
        }
    }
    c->judge.access.network = CONFIG_NETWORK_NO_NETWORK;
    if (c->judge.access.paths_write == NULL) {
        c->judge.access.paths_write = xcalloc(1, sizeof(char *));
        c->judge.access.allowed_hosts = xcalloc(1, sizeof(char *));
        c->evolver.access.paths_write = xcalloc(1, sizeof(char *));
    }
}

void run_config_free(struct run_config *config)
{
    if (config == NULL) {
        return;
    }
    config_clear(config_run_table(), config);
    strv_free(config->judge.access.paths_write);
    strv_free(config->judge.access.allowed_hosts);
    strv_free(config->evolver.access.paths_write);
    config_source_free(config->source);
    free(config->file);
    free(config->dir);
    free(config);
}

void run_config_release(struct run_config **config)
{
    run_config_free(*config);
    *config = NULL;
}

static void apply_overrides(struct config_source *source, char *const *overrides, struct config_findings *findings)
{
    size_t count = strv_len(overrides);
    if (count > OVERRIDES_MAX) {
        config_findings_add(findings, "too-many-overrides", "override", 0, 0, "at most 256 overrides", NULL,
                            "write them into the file", "%zu overrides", count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        /* The value stays out of the name: it may be a secret in the wrong place. */
        char *name = xasprintf("override %.*s", (int)strcspn(overrides[i], "="), overrides[i]);
        source->places = strv_append(source->places, name);
        config_override(config_run_table(), source->tree, name, overrides[i], findings);
    }
}

/* Rules between keys say nothing useful about values that could not be read. */
static bool has_only_key_faults(const struct config_findings *findings)
{
    static const char *const key_faults[] = {"unknown-key", "missing-key", "retired-key"};
    for (size_t i = 0; i < findings->count; i++) {
        bool key_fault = false;
        for (size_t k = 0; k < ARRAY_LEN(key_faults); k++) {
            key_fault = key_fault || strcmp(findings->items[i].id, key_faults[k]) == 0;
        }
        if (!key_fault) {
            return false;
        }
    }
    return true;
}

int run_config_parse(const char *place, const char *dir, const char *text, size_t len, char *const *overrides,
                     struct run_config **ret, struct config_findings *findings, struct orch_err *err)
{
    AUTO_RUN_CONFIG struct run_config *c = xcalloc(1, sizeof(*c));
    c->dir = path_normal(dir);
    c->file = path_join(c->dir, path_base(place));
    c->source = xcalloc(1, sizeof(*c->source));
    c->source->places = strv_append(NULL, xstrdup(place));
    TRY(yaml_tree_parse(c->source->places[0], text, len, 0, &c->source->tree, findings, err));
    apply_overrides(c->source, overrides, findings);
    config_read(config_run_table(), c, c->source->tree, c->source->places[0], c->dir, false, findings);
    settle(c);
    if (has_only_key_faults(findings)) {
        run_check(c, c->source->places[0], findings);
    }
    TRY(config_findings_result(findings, err));
    *ret = take(c);
    return 0;
}

int run_config_load(const char *path, char *const *overrides, struct run_config **ret, struct config_findings *findings,
                    struct orch_err *err)
{
    AUTO_FREE char *text = NULL;
    AUTO_FREE char *real = NULL;
    size_t len;
    TRY(path_real(path, &real, err));
    int code = fd_read_file(real, YAML_BYTES_MAX, &text, &len, err);
    if (code == ORCH_E_LIMIT) {
        err_clear(err);
        config_findings_add(findings, "too-large", path, 0, 0, "at most 1048576 bytes", NULL,
                            "move data out of the config into files", "the file is too large");
        return config_findings_result(findings, err);
    }
    if (code < 0) {
        return err_wrap(err, "read config %s", path);
    }
    AUTO_FREE char *dir = path_dir(real);
    struct run_config *c = NULL;
    TRY(run_config_parse(path, dir, text, len, overrides, &c, findings, err));
    free(c->file);
    c->file = take(real);
    *ret = c;
    return 0;
}

/* --- out --- */

static enum config_keep keep_environment(const char *key, const void *arg)
{
    const struct run_config *c = arg;
    static const char task[] = "task.environment.";
    static const char evolver[] = "evolver.environment.";
    const char *rest = NULL;
    if (c->task.environment.inherited && strncmp(key, task, sizeof(task) - 1) == 0) {
        rest = key + sizeof(task) - 1;
    } else if (c->evolver.environment.inherited && strncmp(key, evolver, sizeof(evolver) - 1) == 0) {
        rest = key + sizeof(evolver) - 1;
    }
    if (rest == NULL) {
        return CONFIG_KEEP;
    }
    return strcmp(rest, "name") == 0 ? CONFIG_AS_NULL : CONFIG_LEAVE_OUT;
}

json_t *run_config_effective(const struct run_config *config)
{
    return config_to_json(config_run_table(), config, config->source->tree, CONFIG_FORM_EFFECTIVE, keep_environment,
                          config);
}

json_t *run_config_meaning(const struct run_config *config)
{
    return config_to_json(config_run_table(), config, config->source->tree, CONFIG_FORM_MEANING, keep_environment,
                          config);
}

char *run_config_show(const struct run_config *config)
{
    return config_to_yaml(config_run_table(), config, config->source->tree, keep_environment, config);
}

char *run_config_where(const struct run_config *config, const char *key)
{
    const struct yaml_node *node = config_find(config_run_table(), config->source->tree, key);
    if (node != NULL && node->line > 0) {
        return xasprintf("%s:%d:%d", node->place, node->line, node->column);
    }
    return config_origin(config_run_table(), config->source->tree, key);
}

const struct config_model *run_config_model(const struct run_config *config, const char *name)
{
    for (size_t i = 0; name != NULL && i < config->model_count; i++) {
        if (strcmp(config->models[i].name, name) == 0) {
            return &config->models[i];
        }
    }
    return NULL;
}

const struct config_tool *run_config_tool(const struct run_config *config, const char *name)
{
    for (size_t i = 0; name != NULL && i < config->task.tool_count; i++) {
        if (config->task.tools[i].name != NULL && strcmp(config->task.tools[i].name, name) == 0) {
            return &config->task.tools[i];
        }
    }
    return NULL;
}
