/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One set of tests for every run environment: each body is a function of a lab,
 * and ENVIRONMENT_TEST makes one test of it for each environment. The helpers
 * turn the asynchronous interface into calls that run the loop until the
 * operation has ended; an operation that never ends runs into the test's time-out.
 */
#ifndef ORCH_CONFORMANCE_LAB_H
#define ORCH_CONFORMANCE_LAB_H

#include "backends/environment.h"
#include "backends/spec.h"
#include "base/err.h"
#include "base/mem.h"
#include "test.h"

#include <string.h>

struct lab {
    uv_loop_t loop;
    struct environment *env;
    struct test_dir dir;  /* what the host has */
    struct test_dir work; /* the environment's working directory */
    struct test_dir tmp;
    bool lossy;
    int fds; /* open before */
    struct orch_err err;
    unsigned names;
    int ended, must_end; /* completions that come while the environment closes */
};

void lab_open(struct lab *lab, const char *environment, const char *mechanism, unsigned lose);
void lab_close(struct lab *lab);

/* A spec with a fresh name and the usual variables; free with spec_done. */
struct sandbox_spec lab_spec(struct lab *lab);
/* Opens and waits; asserts success. */
struct sandbox *lab_sandbox(struct lab *lab, const struct sandbox_spec *spec);
/* The same, failure allowed: lab->err says why; NULL then (the handle is removed). */
struct sandbox *lab_try_sandbox(struct lab *lab, const struct sandbox_spec *spec);
void lab_remove(struct lab *lab, struct sandbox *sb);
/* Runs `sh -c script` and waits. */
struct call_result lab_sh(struct lab *lab, struct sandbox *sb, const char *script);
struct call_result lab_call(struct lab *lab, struct sandbox *sb, const struct call_spec *spec);
/* Runs the loop until *done. */
void lab_wait(struct lab *lab, const bool *done);
/* A call name not used before. */
char *lab_name(struct lab *lab);
/* Puts lab->dir/name; returns the source for a grant, owned. */
char *lab_put(struct lab *lab, const char *name);
/* Gets `path` into lab->dir/name (made). */
int lab_get(struct lab *lab, struct sandbox *sb, const char *path, const char *name,
            const struct handoff_limits *limits, struct handoff_report *report);
/* Names the environment lists, NULL-terminated, owned (strv_free). */
char **lab_list(struct lab *lab);

/* Conformance of `body` (static void body(struct lab *lab)) in every environment. */
#define ENVIRONMENT_TEST(name)                                                                                         \
    static void name##_body(struct lab *lab);                                                                          \
    static void name##_in(const char *env, const char *mechanism, unsigned lose)                                       \
    {                                                                                                                  \
        struct lab lab;                                                                                                \
        lab_open(&lab, env, mechanism, lose);                                                                          \
        name##_body(&lab);                                                                                             \
        lab_close(&lab);                                                                                               \
        TEST_END();                                                                                                    \
    }                                                                                                                  \
    Test(host, name)                                                                                                   \
    {                                                                                                                  \
        name##_in("host", "namespaces", 0);                                                                            \
    }                                                                                                                  \
    Test(host_bubblewrap, name)                                                                                        \
    {                                                                                                                  \
        name##_in("host", "bubblewrap", 0);                                                                            \
    }                                                                                                                  \
    Test(loopback_remote, name)                                                                                        \
    {                                                                                                                  \
        name##_in("loopback-remote", "auto", 0);                                                                       \
    }                                                                                                                  \
    Test(loopback_remote_loses, name)                                                                                  \
    {                                                                                                                  \
        name##_in("loopback-remote", "auto", 3);                                                                       \
    }                                                                                                                  \
    static void name##_body(struct lab *lab)

#endif
