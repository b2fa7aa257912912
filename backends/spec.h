/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one spec of a sandbox, as data: what exists inside and what it may use.
 * Each mechanism lowers it. The same JSON travels to the node, is kept by the
 * record and is what `orch sandbox exec SPEC` takes. A path, variable or port
 * that is not named here does not exist inside.
 *
 * JSON (unknown members, duplicate keys, wrong types and values out of range are
 * ORCH_E_CONFIG; every member but "version" and "name" may be absent):
 *
 *   {"version": 1,
 *    "name": "t7-solve",            [a-zA-Z0-9._-]{1,128}, names it among all sandboxes of a node
 *    "role": "task",                opaque text
 *    "hostname": "sandbox",
 *    "grants": [{"source": S, "target": "/w/data", "mode": "ro"|"rw",
 *                "kind": "dir"|"file", "required": true, "from": F}],
 *    "files":  [{"path": "/w/task.json", "text": "…", "mode": 420}],   appear read-only
 *    "dirs":   ["/w/empty"],        made inside, read-only, before the grants
 *    "env":    {"PATH": "/usr/bin"},   complete: nothing else is set
 *    "cwd":    "/w",
 *    "network": "no-network"|"public",
 *    "ports":  [8080],              each one a listener on 127.0.0.1 inside, from 1024
 *    "limits": {"memory": bytes, "file": bytes, "cpu_s": seconds, "processes": n, "disk": bytes,
 *               "output": bytes, "nofile": n, "tmp": bytes, "home": bytes},     0: see below
 *    "absent": ["/root"],           must not exist inside (checked before go)
 *    "hide":   ["/w/adapter/.env"], covered by an empty thing of the same type if it exists
 *    "system": true}                /usr and its links are there (read-only)
 *
 * S, where a grant comes from:
 *   "/abs/path"       a path on the node's machine (only when host and node share paths)
 *   "tree:sha256:…"   a tree that was `put` before; mode must be "ro", kind "dir"
 *   "work:rel"        a directory of the sandbox's own, made by the node, kept until `remove`,
 *                     read back by `get`; kind must be "dir". With "from" ("tree:…" or
 *                     "/abs/path") it starts as a copy of that.
 * A "/abs/path" with mode "rw": its content is given to the sandbox's identity while the sandbox
 * exists and back to the owner of the directory at the end.
 * A source that is absent fails the open, unless "required" is false: then it is left out.
 *
 * Writable inside: rw grants, /tmp and /home/agent (HOME; both memory, sized by limits.tmp and
 * limits.home), and devices. Targets must be absolute and normalised, and may not be or
 * lie in /proc, /sys, /dev, /usr, /etc, /bin, /sbin, /lib*, nor be "/", "/tmp", "/home" or HOME
 * itself (below those is fine).
 */
#ifndef ORCH_BACKENDS_SPEC_H
#define ORCH_BACKENDS_SPEC_H

#include "base/err.h"
#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPEC_VERSION 1
#define SPEC_JSON_MAX ((size_t)4 << 20) /* bytes of one spec's text */
#define SPEC_NAME_MAX 128
#define SPEC_PATH_MAX 4096
#define SPEC_GRANTS_MAX 256
#define SPEC_FILES_MAX 64
#define SPEC_FILE_BYTES_MAX ((size_t)1 << 20)
#define SPEC_LIST_MAX 1024 /* dirs, env, absent, hide */
#define SPEC_PORTS_MAX 16
#define SPEC_PORT_MIN 1024

/* Used when a limit is 0. */
#define SPEC_DEFAULT_TMP ((uint64_t)64 << 20)
#define SPEC_DEFAULT_HOME ((uint64_t)64 << 20)
#define SPEC_DEFAULT_NOFILE 1024
#define SPEC_MEMORY_MIN ((uint64_t)1 << 20) /* with less no program starts */
#define SPEC_DEFAULT_OUTPUT ((uint64_t)16 << 20)

#define SPEC_HOME "/home/agent" /* the private home of every sandbox */

enum spec_mode { SPEC_RO, SPEC_RW, SPEC_MODE_COUNT };
enum spec_kind { SPEC_DIR, SPEC_FILE, SPEC_KIND_COUNT };
enum spec_network { SPEC_NO_NETWORK, SPEC_PUBLIC, SPEC_NETWORK_COUNT };

struct spec_grant {
    char *source; /* owned, as all text here */
    char *target;
    char *from; /* NULL: starts empty */
    enum spec_mode mode;
    enum spec_kind kind;
    bool required;
};

struct spec_file {
    char *path;
    char *data; /* NUL-terminated */
    size_t len;
    unsigned mode; /* permission bits; the owner is the sandbox's identity or root, never writable */
};

/* 0 means: memory, file, cpu, processes, disk: no limit; the others: SPEC_DEFAULT_*. */
struct spec_limits {
    uint64_t memory;    /* bytes of writable private memory a process (RLIMIT_DATA) */
    uint64_t file;      /* bytes of one file (RLIMIT_FSIZE) */
    uint64_t cpu_s;     /* seconds of CPU a process (RLIMIT_CPU) */
    uint64_t processes; /* processes and threads of the sandbox's identity (RLIMIT_NPROC) */
    uint64_t disk;      /* bytes of all work directories together */
    uint64_t output;    /* forwarded bytes of stdout and stderr, each; the rest is read and dropped */
    uint64_t nofile;    /* RLIMIT_NOFILE */
    uint64_t tmp;       /* bytes of /tmp */
    uint64_t home;      /* bytes of the home */
};

struct sandbox_spec {
    char *name;
    char *role;
    char *hostname;
    struct spec_grant *grants;
    size_t grant_count;
    struct spec_file *files;
    size_t file_count;
    char **dirs; /* NULL-terminated, never NULL after spec_init */
    char **env;  /* "NAME=value" */
    char *cwd;
    enum spec_network network;
    uint16_t *ports;
    size_t port_count;
    struct spec_limits limits;
    char **absent;
    char **hide;
    bool system;
};

/* An empty spec with that name: no-network, system true, cwd "/", hostname "sandbox". */
void spec_init(struct sandbox_spec *s, const char *name);
void spec_done(struct sandbox_spec *s); /* accepts a zeroed struct */
#define AUTO_SPEC __attribute__((cleanup(spec_done)))

/* Builders: copy their arguments; validity is judged by spec_check. `from` may be NULL. */
void spec_grant(struct sandbox_spec *s, const char *source, const char *target, enum spec_mode mode,
                enum spec_kind kind);
void spec_grant_work(struct sandbox_spec *s, const char *relative, const char *from, const char *target,
                     enum spec_mode mode);
void spec_add_file(struct sandbox_spec *s, const char *path, const void *data, size_t len, unsigned mode);
void spec_add_dir(struct sandbox_spec *s, const char *path);
/* Replaces an earlier value of the same name. */
void spec_set_env(struct sandbox_spec *s, const char *name, const char *value);
void spec_add_port(struct sandbox_spec *s, uint16_t port);
void spec_add_absent(struct sandbox_spec *s, const char *path);
void spec_add_hide(struct sandbox_spec *s, const char *path);

/* Judges every rule above that needs no file system; ORCH_E_CONFIG names the member. */
MUST_USE int spec_check(const struct sandbox_spec *s, struct orch_err *err);

/* Members in the order above; new reference. spec_from_json(spec_to_json(s)) equals s. */
json_t *spec_to_json(const struct sandbox_spec *s);
/* Strict; the result passed spec_check. *ret is filled only on success, owned by the caller (spec_done). */
MUST_USE int spec_from_json(const json_t *value, struct sandbox_spec *ret, struct orch_err *err);
/* The same from text. */
MUST_USE int spec_parse(const char *text, size_t len, struct sandbox_spec *ret, struct orch_err *err);

/* Overwrites the named members of `limits` from an object like the spec's "limits"; strict. */
MUST_USE int spec_limits_read(const json_t *value, struct spec_limits *limits, struct orch_err *err);

/* [a-zA-Z0-9._-]{1,128}, not starting with '.' or '-': names of sandboxes and calls. */
bool spec_name_is_valid(const char *name);

#endif
