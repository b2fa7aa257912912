/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "base/process.h"
#include "orchestrator/guests.h"
#include "orchestrator/verbs.h"
#include "state/fingerprint.h"
#include "state/layout.h"
#include "state/record.h"

#include <libsmartcols/libsmartcols.h>
#include <openssl/opensslv.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <utf8proc.h>
#include <uv.h>
#include <yaml.h>

#define BWRAP_TIMEOUT (5 * NS_PER_S)

static json_t *libraries(void)
{
    const char *smartcols = NULL;
    (void)scols_get_library_version(&smartcols);
    /* libcrypto: as compiled against; its function that tells would link most of it in (base/digest.c) */
    const struct {
        const char *name, *version;
    } list[] = {
        {"jansson", jansson_version_str()}, {"libcrypto", OPENSSL_VERSION_STR},     {"libsmartcols", smartcols},
        {"libuv", uv_version_string()},     {"libyaml", yaml_get_version_string()}, {"sqlite", sqlite3_libversion()},
        {"utf8proc", utf8proc_version()},
    };
    json_t *o = json_object();
    for (size_t i = 0; i < ARRAY_LEN(list); i++) {
        json_set_str(o, list[i].name, list[i].version);
    }
    return o;
}

static json_t *schemas(void)
{
    json_t *o = json_object();
    json_set_int(o, "record", RECORD_SCHEMA);
    json_set_int(o, "project", LAYOUT_SCHEMA);
    json_set_int(o, "run_config", 1);
    json_set_int(o, "fingerprint", FINGERPRINT_VERSION);
    json_set_int(o, "json", VERB_JSON_VERSION);
    return o;
}

static json_t *guests(const struct verb_call *call)
{
    json_t *o = json_object();
    for (size_t i = 0; guest_names[i] != NULL; i++) {
        struct orch_err err = ERR_INIT;
        AUTO_FREE char *path = NULL;
        (void)!guest_find(call->program, guest_names[i], &path, &err);
        json_set_str(o, guest_names[i], path);
    }
    return o;
}

/* {path, version}, or null: absence is told, not an error. */
static json_t *bubblewrap(void)
{
    static const char *const places[] = {"/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap"};
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        if (access(places[i], X_OK) != 0) {
            continue;
        }
        struct orch_err err = ERR_INIT;
        AUTO_COMMAND_RESULT struct command_result result = {0};
        AUTO_FREE char *name = xstrdup("bwrap");
        AUTO_FREE char *option = xstrdup("--version");
        char *argv[] = {name, option, NULL};
        char *envp[] = {NULL};
        struct command c = {
            .program = places[i],
            .argv = argv,
            .envp = envp,
            .output_max = 200,
            .timeout_ns = BWRAP_TIMEOUT,
        };
        json_t *o = json_object();
        json_set_str(o, "path", places[i]);
        bool good = command_run(&c, &result, &err) == 0 && result.end == END_EXITED && result.code == 0;
        if (good) {
            result.out[strcspn(result.out, "\n")] = '\0';
        }
        const char *space = good ? strrchr(result.out, ' ') : NULL;
        json_set_str(o, "version", space != NULL ? space + 1 : NULL);
        return o;
    }
    return json_null();
}

static json_t *kernel(void)
{
    struct utsname name;
    json_t *o = json_object();
    if (uname(&name) == 0) {
        json_set_str(o, "system", name.sysname);
        json_set_str(o, "release", name.release);
        json_set_str(o, "machine", name.machine);
    }
    return o;
}

static void print_members(const struct verb_call *call, const char *title, const json_t *object)
{
    verb_print(call, "%-12s", title);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        if (json_is_string(value)) {
            verb_print(call, " %s %s", key, json_string_value(value));
        } else if (json_is_integer(value)) {
            verb_print(call, " %s %" JSON_INTEGER_FORMAT, key, json_integer_value(value));
        } else {
            verb_print(call, " %s (not found)", key);
        }
    }
    verb_print(call, "\n");
}

static int run(const struct verb_call *call)
{
    if (!call->json && call->quiet) {
        verb_print(call, "%s\n", ORCH_VERSION);
        return 0;
    }
    json_t *document = verb_json();
    json_set_str(document, "orch", ORCH_VERSION);
    json_set_take(document, "schemas", schemas());
    json_set_take(document, "libraries", libraries());
    json_set_take(document, "guests", guests(call));
    json_set_take(document, "bubblewrap", bubblewrap());
    json_set_take(document, "kernel", kernel());
    if (call->json) {
        verb_print_json(call, document);
        return 0;
    }
    verb_print(call, "orch %s\n", ORCH_VERSION);
    static const char *const parts[] = {"schemas", "libraries", "guests", "bubblewrap", "kernel"};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        const json_t *part = json_get(document, parts[i]);
        if (json_is_null(part)) {
            verb_print(call, "%-12s not found\n", parts[i]);
        } else {
            print_members(call, parts[i], part);
        }
    }
    json_decref(document);
    return 0;
}

const struct verb cmd_version = {
    .name = "version",
    .summary = "Prints the version of orch, its libraries, its guests and what it found",
    .usage = "orch version [--json]",
    .help = "Examples:\n"
            "  orch version\n"
            "  orch version --quiet      the number alone\n"
            "  orch version --json\n",
    .run = run,
};
