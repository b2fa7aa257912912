/* SPDX-License-Identifier: Apache-2.0 */
/* The spec as JSON: one table of members an object, so that reading, writing and refusing stay together. */
#include "backends/spec.h"

#include "base/mem.h"

#include <stddef.h>
#include <string.h>

static const char *const mode_names[SPEC_MODE_COUNT] = {"ro", "rw"};
static const char *const kind_names[SPEC_KIND_COUNT] = {"dir", "file"};
static const char *const network_names[SPEC_NETWORK_COUNT] = {"no-network", "public"};

static const struct {
    const char *name;
    size_t offset;
} limit_table[] = {
    {"memory", offsetof(struct spec_limits, memory)}, {"file", offsetof(struct spec_limits, file)},
    {"cpu_s", offsetof(struct spec_limits, cpu_s)},   {"processes", offsetof(struct spec_limits, processes)},
    {"disk", offsetof(struct spec_limits, disk)},     {"output", offsetof(struct spec_limits, output)},
    {"nofile", offsetof(struct spec_limits, nofile)}, {"tmp", offsetof(struct spec_limits, tmp)},
    {"home", offsetof(struct spec_limits, home)},
};

static uint64_t *limit_at(struct spec_limits *l, size_t i)
{
    return (uint64_t *)(void *)((char *)l + limit_table[i].offset);
}

/* ---- writing ---- */

static json_t *limits_to_json(struct spec_limits l)
{
    json_t *o = json_object();
    for (size_t i = 0; i < ARRAY_LEN(limit_table); i++) {
        json_set_int(o, limit_table[i].name, (int64_t)*limit_at(&l, i));
    }
    return o;
}

static json_t *grants_to_json(const struct sandbox_spec *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->grant_count; i++) {
        const struct spec_grant *g = &s->grants[i];
        json_t *o = json_object();
        json_set_str(o, "source", g->source);
        json_set_str(o, "target", g->target);
        json_set_str(o, "mode", mode_names[g->mode]);
        json_set_str(o, "kind", kind_names[g->kind]);
        json_set_flag(o, "required", g->required);
        if (g->from != NULL) {
            json_set_str(o, "from", g->from);
        }
        json_add_take(list, o);
    }
    return list;
}

static json_t *files_to_json(const struct sandbox_spec *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->file_count; i++) {
        json_t *o = json_object();
        json_set_str(o, "path", s->files[i].path);
        json_set_text(o, "text", s->files[i].data, s->files[i].len);
        json_set_int(o, "mode", s->files[i].mode);
        json_add_take(list, o);
    }
    return list;
}

static json_t *env_to_json(char *const *env)
{
    json_t *o = json_object();
    for (char *const *e = env; *e != NULL; e++) {
        const char *eq = strchr(*e, '=');
        if (eq != NULL) {
            AUTO_FREE char *name = xmemdup0(*e, (size_t)(eq - *e));
            json_set_take(o, name, json_bytes(eq + 1));
        }
    }
    return o;
}

json_t *spec_to_json(const struct sandbox_spec *s)
{
    json_t *o = json_object();
    json_set_int(o, "version", SPEC_VERSION);
    json_set_str(o, "name", s->name);
    json_set_str(o, "role", s->role);
    json_set_str(o, "hostname", s->hostname);
    json_set_take(o, "grants", grants_to_json(s));
    json_set_take(o, "files", files_to_json(s));
    json_set_take(o, "dirs", json_from_strv(s->dirs));
    json_set_take(o, "env", env_to_json(s->env));
    json_set_str(o, "cwd", s->cwd);
    json_set_str(o, "network", network_names[s->network]);
    json_t *ports = json_array();
    for (size_t i = 0; i < s->port_count; i++) {
        json_add_take(ports, json_integer(s->ports[i]));
    }
    json_set_take(o, "ports", ports);
    json_set_take(o, "limits", limits_to_json(s->limits));
    json_set_take(o, "absent", json_from_strv(s->absent));
    json_set_take(o, "hide", json_from_strv(s->hide));
    json_set_flag(o, "system", s->system);
    return o;
}

/* ---- reading ---- */

/* One member of an object: its reader gets the value; absence is fine unless required. */
struct member {
    const char *name;
    int (*read)(const json_t *value, const char *name, void *into, struct orch_err *err);
    size_t offset; /* of the destination in `into` */
    bool required;
};

static int wrong(const char *name, const char *expected, struct orch_err *err)
{
    return err_set(err, ORCH_E_CONFIG, "%s: expected %s", name, expected);
}

static int read_members(const json_t *object, const char *what, const struct member *members, size_t count, void *into,
                        struct orch_err *err)
{
    if (!json_is_object(object)) {
        return wrong(what, "an object", err);
    }
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        size_t i = 0;
        while (i < count && strcmp(members[i].name, key) != 0) {
            i++;
        }
        if (i == count) {
            return err_set(err, ORCH_E_CONFIG, "%s: unknown member \"%.100s\"", what, key);
        }
        TRY(members[i].read(value, members[i].name, (char *)into + members[i].offset, err));
    }
    for (size_t i = 0; i < count; i++) {
        if (members[i].required && json_object_get(object, members[i].name) == NULL) {
            return err_set(err, ORCH_E_CONFIG, "%s: \"%s\" is missing", what, members[i].name);
        }
    }
    return 0;
}

static int read_text(const json_t *value, const char *name, void *into, struct orch_err *err)
{
    if (!json_is_string(value) || strlen(json_string_value(value)) != json_string_length(value)) {
        return wrong(name, "text", err);
    }
    char **slot = into;
    free(*slot);
    *slot = xstrdup(json_string_value(value));
    return 0;
}

static int read_flag(const json_t *value, const char *name, void *into, struct orch_err *err)
{
    if (!json_is_boolean(value)) {
        return wrong(name, "true or false", err);
    }
    *(bool *)into = json_is_true(value);
    return 0;
}

static int read_choice(const json_t *value, const char *name, const char *const *names, size_t count, int *ret,
                       struct orch_err *err)
{
    for (size_t i = 0; json_is_string(value) && i < count; i++) {
        if (strcmp(json_string_value(value), names[i]) == 0) {
            *ret = (int)i;
            return 0;
        }
    }
    return wrong(name, "one of its words", err);
}

static int read_mode(const json_t *value, const char *name, void *into, struct orch_err *err)
{
    int i;
    TRY(read_choice(value, name, mode_names, ARRAY_LEN(mode_names), &i, err));
    *(enum spec_mode *)into = (enum spec_mode)i;
    return 0;
}

static int read_kind(const json_t *value, const char *name, void *into, struct orch_err *err)
{
    int i;
    TRY(read_choice(value, name, kind_names, ARRAY_LEN(kind_names), &i, err));
    *(enum spec_kind *)into = (enum spec_kind)i;
    return 0;
}

static int read_network(const json_t *value, const char *name, void *into, struct orch_err *err)
{
    int i;
    TRY(read_choice(value, name, network_names, ARRAY_LEN(network_names), &i, err));
    *(enum spec_network *)into = (enum spec_network)i;
    return 0;
}

static int read_permissions(const json_t *value, const char *name, void *into, struct orch_err *err)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > 0777) {
        return wrong(name, "permission bits", err);
    }
    *(unsigned *)into = (unsigned)json_integer_value(value);
    return 0;
}

static int read_version(const json_t *value, const char *name, void *into, struct orch_err *err)
{
    (void)into;
    if (!json_is_integer(value) || json_integer_value(value) != SPEC_VERSION) {
        return wrong(name, "1", err);
    }
    return 0;
}

static int read_limit(const json_t *value, const char *name, void *into, struct orch_err *err)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0) {
        return wrong(name, "a number from 0", err);
    }
    *(uint64_t *)into = (uint64_t)json_integer_value(value);
    return 0;
}

static int read_limits(const json_t *value, const char *name, void *into, struct orch_err *err)
{
    struct member members[ARRAY_LEN(limit_table)];
    for (size_t i = 0; i < ARRAY_LEN(limit_table); i++) {
        members[i] = (struct member){limit_table[i].name, read_limit, limit_table[i].offset, false};
    }
    return read_members(value, name, members, ARRAY_LEN(members), into, err);
}

int spec_limits_read(const json_t *value, struct spec_limits *limits, struct orch_err *err)
{
    struct spec_limits copy = *limits;
    TRY(read_limits(value, "limits", &copy, err));
    *limits = copy;
    return 0;
}

static int read_texts(const json_t *value, const char *name, void *into, struct orch_err *err)
{
    if (!json_is_array(value) || json_array_size(value) > SPEC_LIST_MAX) {
        return wrong(name, "a list of texts", err);
    }
    char ***slot = into;
    size_t count = json_array_size(value);
    AUTO_STRV char **list = xcalloc(count + 1, sizeof *list);
    for (size_t i = 0; i < count; i++) {
        TRY(read_text(json_array_get(value, i), name, &list[i], err));
    }
    strv_free(*slot);
    *slot = take(list);
    return 0;
}

static int read_ports(const json_t *value, const char *name, void *into, struct orch_err *err)
{
    struct sandbox_spec *s = into;
    if (!json_is_array(value) || json_array_size(value) > SPEC_PORTS_MAX) {
        return wrong(name, "a list of ports", err);
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *port = json_array_get(value, i);
        json_int_t n = json_is_integer(port) ? json_integer_value(port) : 0;
        if (n < SPEC_PORT_MIN || n > UINT16_MAX) {
            return wrong(name, "ports from 1024 to 65535", err);
        }
        spec_add_port(s, (uint16_t)n);
    }
    return 0;
}

static int read_env(const json_t *value, const char *name, void *into, struct orch_err *err)
{
    struct sandbox_spec *s = into;
    if (!json_is_object(value) || json_object_size(value) > SPEC_LIST_MAX) {
        return wrong(name, "an object of variables", err);
    }
    const char *key;
    json_t *item;
    json_object_foreach((json_t *)(uintptr_t)value, key, item)
    {
        AUTO_FREE char *text = json_bytes_get(item);
        if (text == NULL) {
            return wrong(name, "texts, or bytes as {\"hex\": …}", err);
        }
        if (key[0] == '\0' || strchr(key, '=') != NULL) {
            return wrong(name, "names without '='", err);
        }
        s->env = strv_append(s->env, xasprintf("%s=%s", key, text));
    }
    return 0;
}

static int read_grants(const json_t *value, const char *name, void *into, struct orch_err *err)
{
    static const struct member members[] = {
        {"source", read_text, offsetof(struct spec_grant, source), true},
        {"target", read_text, offsetof(struct spec_grant, target), true},
        {"mode", read_mode, offsetof(struct spec_grant, mode), true},
        {"kind", read_kind, offsetof(struct spec_grant, kind), false},
        {"required", read_flag, offsetof(struct spec_grant, required), false},
        {"from", read_text, offsetof(struct spec_grant, from), false},
    };
    struct sandbox_spec *s = into;
    if (!json_is_array(value) || json_array_size(value) > SPEC_GRANTS_MAX) {
        return wrong(name, "a list of grants", err);
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        spec_grant(s, "", "", SPEC_RO, SPEC_DIR);
        TRY(read_members(json_array_get(value, i), name, members, ARRAY_LEN(members), &s->grants[s->grant_count - 1],
                         err));
    }
    return 0;
}

static int read_files(const json_t *value, const char *name, void *into, struct orch_err *err)
{
    static const struct member members[] = {
        {"path", read_text, offsetof(struct spec_file, path), true},
        {"text", read_text, offsetof(struct spec_file, data), true},
        {"mode", read_permissions, offsetof(struct spec_file, mode), false},
    };
    struct sandbox_spec *s = into;
    if (!json_is_array(value) || json_array_size(value) > SPEC_FILES_MAX) {
        return wrong(name, "a list of files", err);
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        spec_add_file(s, "", "", 0, 0444);
        struct spec_file *f = &s->files[s->file_count - 1];
        TRY(read_members(json_array_get(value, i), name, members, ARRAY_LEN(members), f, err));
        f->len = strlen(f->data);
    }
    return 0;
}

static const struct member spec_members[] = {
    {"version", read_version, 0, true},
    {"name", read_text, offsetof(struct sandbox_spec, name), true},
    {"role", read_text, offsetof(struct sandbox_spec, role), false},
    {"hostname", read_text, offsetof(struct sandbox_spec, hostname), false},
    {"grants", read_grants, 0, false},
    {"files", read_files, 0, false},
    {"dirs", read_texts, offsetof(struct sandbox_spec, dirs), false},
    {"env", read_env, 0, false},
    {"cwd", read_text, offsetof(struct sandbox_spec, cwd), false},
    {"network", read_network, offsetof(struct sandbox_spec, network), false},
    {"ports", read_ports, 0, false},
    {"limits", read_limits, offsetof(struct sandbox_spec, limits), false},
    {"absent", read_texts, offsetof(struct sandbox_spec, absent), false},
    {"hide", read_texts, offsetof(struct sandbox_spec, hide), false},
    {"system", read_flag, offsetof(struct sandbox_spec, system), false},
};

int spec_from_json(const json_t *value, struct sandbox_spec *ret, struct orch_err *err)
{
    AUTO_SPEC struct sandbox_spec s;
    spec_init(&s, "");
    TRY(read_members(value, "spec", spec_members, ARRAY_LEN(spec_members), &s, err));
    TRY(spec_check(&s, err));
    *ret = s;
    s = (struct sandbox_spec){.name = NULL}; /* moved */
    return 0;
}

int spec_parse(const char *text, size_t len, struct sandbox_spec *ret, struct orch_err *err)
{
    AUTO_JSON json_t *value = NULL;
    TRY(json_parse(text, len, SPEC_JSON_MAX, &value, err));
    return spec_from_json(value, ret, err);
}
