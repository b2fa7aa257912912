/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/process.h"
#include "state/control_socket.h"
#include "state/durable.h"
#include "state/fingerprint.h"
#include "state/layout.h"
#include "state/lock.h"
#include "state/record.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void must(int r, const struct orch_err *err)
{
    cr_assert_eq(r, 0, "%s", err->message);
}

/* ---- durable ---- */

static int count_entries(const char *path)
{
    DIR *dir = opendir(path);
    int n = 0;
    for (const struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        n += e->d_name[0] != '.' || strlen(e->d_name) > 2;
    }
    closedir(dir);
    return n;
}

Test(durable, replaces_whole)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    struct orch_err err = ERR_INIT;
    struct stat st;
    must(durable_write_file(dir.fd, "a", "one", 3, 0600, &err), &err);
    must(durable_write_file(dir.fd, "a", "second", 6, 0644, &err), &err);
    AUTO_FREE char *text = test_read(&dir, "a");
    cr_assert_str_eq(text, "second");
    cr_assert_eq(fstatat(dir.fd, "a", &st, 0), 0);
    cr_assert_eq(st.st_mode & 07777, 0644);
    must(durable_mkdir(dir.fd, "d", 0700, true, &err), &err);
    must(durable_mkdir(dir.fd, "d", 0700, false, &err), &err);
    cr_assert_eq(durable_mkdir(dir.fd, "d", 0700, true, &err), ORCH_E_FAILED);
    cr_assert_eq(durable_mkdir(dir.fd, "a", 0700, false, &err), ORCH_E_FAILED);
    TEST_END();
}

Test(durable, a_failed_write_leaves_the_old_file_and_nothing_else)
{
    static const struct {
        const char *plan;
        int code;
    } cases[] = {
        {"durable.write.open:1:enospc", ORCH_E_NO_SPACE},
        {"durable.write.data:1:enospc", ORCH_E_NO_SPACE},
        {"durable.write.data:1:eio", ORCH_E_IO},
        {"durable.write.sync:1:eio", ORCH_E_IO},
        {"durable.write.rename:1:enospc", ORCH_E_NO_SPACE},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        AUTO_TEST_DIR struct test_dir dir = test_dir_new();
        struct orch_err err = ERR_INIT;
        struct fault_plan *plan = NULL;
        must(durable_write_file(dir.fd, "a", "old", 3, 0600, &err), &err);
        must(fault_plan_parse(cases[i].plan, &plan, &err), &err);
        fault_install(plan);
        cr_assert_eq(durable_write_file(dir.fd, "a", "new", 3, 0600, &err), cases[i].code, "%s", cases[i].plan);
        fault_install(NULL);
        fault_plan_free(plan);
        AUTO_FREE char *text = test_read(&dir, "a");
        cr_assert_str_eq(text, "old");
        cr_assert_eq(count_entries(dir.path), 1, "%s", cases[i].plan);
    }
    TEST_END();
}

Test(durable, a_short_write_goes_on)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    struct orch_err err = ERR_INIT;
    struct fault_plan *plan = NULL;
    must(fault_plan_parse("durable.write.data:1:short", &plan, &err), &err);
    fault_install(plan);
    must(durable_write_file(dir.fd, "a", "whole text", 10, 0600, &err), &err);
    fault_install(NULL);
    fault_plan_free(plan);
    AUTO_FREE char *text = test_read(&dir, "a");
    cr_assert_str_eq(text, "whole text");
    TEST_END();
}

Test(durable, plans_are_parsed_strictly)
{
    static const char *const bad[] = {
        "x",          "durable.mkdir",          "durable.mkdir:1",       "durable.mkdir:0:kill",
        "nope:1:eio", "durable.mkdir:1:vanish", "durable.mkdir:1x:kill", "durable.mkdir::kill"};
    struct orch_err err = ERR_INIT;
    struct fault_plan *plan = NULL;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        cr_assert_eq(fault_plan_parse(bad[i], &plan, &err), ORCH_E_USAGE, "%s", bad[i]);
    }
    must(fault_plan_parse("durable.mkdir:2:eio,record.op:1:enospc", &plan, &err), &err);
    fault_install(plan);
    cr_assert_eq(fault_point(FAULT_DURABLE_MKDIR, &err), 0);
    cr_assert_eq(fault_point(FAULT_DURABLE_MKDIR, &err), ORCH_E_IO);
    cr_assert_eq(fault_point(FAULT_DURABLE_MKDIR, &err), 0, "once");
    cr_assert_eq(fault_point(FAULT_RECORD_OP, &err), ORCH_E_NO_SPACE);
    fault_install(NULL);
    fault_plan_free(plan);
    TEST_END();
}

/* ---- layout ---- */

Test(layout, the_nearest_project_is_the_root)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    struct orch_err err = ERR_INIT;
    AUTO_LAYOUT struct layout l = {0};
    AUTO_LAYOUT struct layout inner = {0};
    AUTO_LAYOUT struct layout other = {0};
    AUTO_FREE char *root = NULL;
    must(path_real(dir.path, &root, &err), &err);
    test_write(&dir, "sub/deep/run.yaml", "version: 1\n");
    AUTO_FREE char *config = path_join(dir.path, "sub/deep/run.yaml");
    AUTO_FREE char *deep = path_join(root, "sub/deep");

    must(layout_find(config, NULL, NULL, &l, &err), &err);
    cr_assert_str_eq(l.root, deep, "no project yet: the config's folder");
    test_write(&dir, ".state/project.json", "{\"schema\":1}");
    must(layout_find(config, NULL, NULL, &inner, &err), &err);
    cr_assert_str_eq(inner.root, root);
    must(layout_find(config, deep, "../elsewhere", &other, &err), &err);
    cr_assert_str_eq(other.root, deep);
    AUTO_FREE char *elsewhere = path_join(root, "sub/elsewhere");
    cr_assert_str_eq(other.state, elsewhere);
    TEST_END();
}

Test(layout, makes_the_state_once_and_refuses_a_newer_one)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    struct orch_err err = ERR_INIT;
    AUTO_LAYOUT struct layout l = {0};
    struct stat st;

    must(layout_find(NULL, dir.path, NULL, &l, &err), &err);
    must(layout_make(&l, &err), &err);
    must(layout_make(&l, &err), &err);
    cr_assert_eq(stat(l.local, &st), 0);
    cr_assert_eq(st.st_mode & 07777, 0700);
    AUTO_FREE char *ignore = test_read(&dir, ".state/.gitignore");
    cr_assert_str_eq(ignore, "*\n");
    test_write(&dir, ".state/project.json", "{\"schema\":2}");
    cr_assert_eq(layout_make(&l, &err), ORCH_E_CONFIG);
    TEST_END();
}

static struct clock fixed_clock(int64_t *now);
static int64_t read_now(void *ctx)
{
    return *(int64_t *)ctx;
}
static struct clock fixed_clock(int64_t *now)
{
    return (struct clock){read_now, read_now, now};
}

static void finish(const struct layout *l, const char *id, const char *state)
{
    AUTO_FREE char *dir = layout_run_dir(l, id);
    struct orch_err err = ERR_INIT;
    struct record *rec = NULL;
    struct clock clock = clock_system();
    must(record_open(dir, RECORD_CREATE, &clock, &rec, &err), &err);
    must(record_start_writer(rec, NULL, NULL, &err), &err);
    must(record_meta_set(rec, "state", state, NULL, &err), &err);
    must(record_meta_set(rec, "kind", "run", NULL, &err), &err);
    must(record_close(rec, &err), &err);
}

Test(layout, runs_are_listed_and_selected)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    struct orch_err err = ERR_INIT;
    AUTO_LAYOUT struct layout l = {0};
    int64_t now = INT64_C(1700000000) * NS_PER_S;
    struct clock clock = fixed_clock(&now);
    AUTO_FREE char *a1 = NULL;
    AUTO_FREE char *a2 = NULL;
    AUTO_FREE char *b = NULL;
    AUTO_FREE char *empty = NULL;
    AUTO_FREE struct run_entry *runs = NULL;
    size_t count = 0;

    must(layout_find(NULL, dir.path, NULL, &l, &err), &err);
    must(layout_make(&l, &err), &err);
    must(layout_run_create(&l, "dates", &clock, &a1, &err), &err);
    cr_assert(layout_run_id_valid(a1));
    cr_assert(strstr(a1, "dates-20231114T221320Z-"), "%s", a1);
    now += NS_PER_S;
    must(layout_run_create(&l, "dates", &clock, &a2, &err), &err);
    now += NS_PER_S;
    must(layout_run_create(&l, "dates-2", &clock, &b, &err), &err);
    now += NS_PER_S;
    must(layout_run_create(&l, "dates", &clock, &empty, &err), &err);
    finish(&l, a1, "stopped");
    finish(&l, a2, "finished");
    finish(&l, b, "running");
    test_write(&dir, ".state/runs/not-a-run/x", "");

    must(layout_runs(&l, "dates", &runs, &count, &err), &err);
    cr_assert_eq(count, 3);
    cr_assert_str_eq(runs[0].id, empty);
    cr_assert(!runs[0].has_record);
    cr_assert_str_eq(runs[2].id, a1);
    AUTO_FREE char *newest = NULL;
    must(layout_run_newest(&l, "dates", "run", true, &newest, &err), &err);
    cr_assert_str_eq(newest, a1);
    AUTO_FREE char *any = NULL;
    must(layout_run_newest(&l, "dates", NULL, false, &any, &err), &err);
    cr_assert_str_eq(any, a2);
    cr_assert_eq(layout_run_newest(&l, "dates", "eval", false, &any, &err), ORCH_E_NOT_FOUND);
    cr_assert_eq(layout_run_newest(&l, "none", NULL, false, &any, &err), ORCH_E_NOT_FOUND);

    static const char *const nobody[] = {"zzz", "", "../runs", "dates-2023111"};
    for (size_t i = 0; i < ARRAY_LEN(nobody); i++) {
        AUTO_FREE char *id = NULL;
        cr_assert_lt(layout_run_select(&l, nobody[i], &id, &err), 0, "%s", nobody[i]);
    }
    AUTO_FREE char *by_name = NULL;
    AUTO_FREE char *by_suffix = NULL;
    AUTO_FREE char *by_id = NULL;
    must(layout_run_select(&l, "dates-2", &by_name, &err), &err);
    cr_assert_str_eq(by_name, b);
    must(layout_run_select(&l, a1 + strlen(a1) - 6, &by_suffix, &err), &err);
    cr_assert_str_eq(by_suffix, a1);
    must(layout_run_select(&l, a2, &by_id, &err), &err);
    cr_assert_str_eq(by_id, a2);

    AUTO_FREE char *damaged = xasprintf(".state/runs/%s/record.db", empty);
    test_write(&dir, damaged, "garbage");
    cr_assert_eq(layout_run_newest(&l, "dates", NULL, true, &newest, &err), ORCH_E_DAMAGED, "never skipped");
    TEST_END();
}

Test(layout, names_and_ids_are_checked)
{
    static const char *const bad[] = {"", "-a", "A", "a b", "a/b", ".", "a\n"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        cr_assert(!layout_name_valid(bad[i]), "%s", bad[i]);
    }
    cr_assert(layout_name_valid("a.b_c-9"));
    char longest[70];
    memset(longest, 'a', sizeof longest);
    longest[63] = '\0';
    cr_assert(layout_name_valid(longest));
    longest[63] = 'a';
    longest[64] = '\0';
    cr_assert(!layout_name_valid(longest));
    cr_assert(layout_run_id_valid("a-20261201T021338Z-abc234"));
    cr_assert(!layout_run_id_valid("-20261201T021338Z-abc234"));
    cr_assert(!layout_run_id_valid("a-20261201T021338Z-abc231"));
    cr_assert(!layout_run_id_valid("a-20261201T021338Z-abc23"));
    TEST_END();
}

/* ---- lock ---- */

struct holder {
    pid_t pid;
    int pidfd;
    int in, out;
};

static struct holder hold(const char *run_dir)
{
    struct orch_err err = ERR_INIT;
    AUTO_FREE char *program = test_built("tests/unit/state/state_victim");
    AUTO_FREE char *dir = xstrdup(run_dir);
    char *const argv[] = {program, (char[]){"hold"}, dir, NULL};
    char *const envp[] = {NULL};
    int in[2];
    int out[2];
    char line[8];
    cr_assert_eq(pipe2(in, O_CLOEXEC), 0);
    cr_assert_eq(pipe2(out, O_CLOEXEC), 0);
    const struct spawn_fd fds[] = {{0, in[0]}, {1, out[1]}, {2, 2}};
    const struct spawn s = {.program = program, .argv = argv, .envp = envp, .fds = fds, .fd_count = 3};
    struct holder h = {.in = in[1], .out = out[0]};
    h.pid = process_spawn(&s, &h.pidfd, &err);
    cr_assert_gt(h.pid, 0, "%s", err.message);
    close(in[0]);
    close(out[1]);
    cr_assert_eq(read(h.out, line, sizeof line), 5, "it took the lock");
    return h;
}

static void drop_holder(struct holder *h)
{
    cr_assert_eq(kill(h->pid, SIGKILL), 0);
    cr_assert_eq(waitpid(h->pid, NULL, 0), h->pid);
    close(h->pidfd);
    close(h->in);
    close(h->out);
}

Test(lock, one_owner_and_a_dead_one_does_not_block)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    struct orch_err err = ERR_INIT;
    struct run_lock *lock = NULL;
    struct lock_owner owner;

    must(lock_look(dir.path, &owner, &err), &err);
    cr_assert(!owner.held);
    struct holder h = hold(dir.path);
    cr_assert_eq(lock_take(dir.path, &lock, &err), ORCH_E_OWNED);
    AUTO_FREE char *pid = xasprintf("process %d on ", (int)h.pid);
    cr_assert(strstr(err.message, pid), "%s", err.message);
    must(lock_look(dir.path, &owner, &err), &err);
    cr_assert(owner.held);
    cr_assert(owner.alive);
    cr_assert_eq(owner.pid, h.pid);
    drop_holder(&h);
    must(lock_look(dir.path, &owner, &err), &err);
    cr_assert(!owner.held);
    cr_assert(!owner.alive);
    err_clear(&err);
    must(lock_take(dir.path, &lock, &err), &err);
    struct run_lock *second = NULL;
    cr_assert_eq(lock_take(dir.path, &second, &err), ORCH_E_OWNED, "also within one process");
    lock_drop(lock);
    must(lock_take(dir.path, &lock, &err), &err);
    lock_drop(lock);
    cr_assert_eq(faccessat(dir.fd, "lock", F_OK, 0), 0, "never unlinked");
    TEST_END();
}

/* ---- fingerprint ---- */

Test(fingerprint, order_of_keys_does_not_matter)
{
    AUTO_JSON json_t *a = json_pack("{s:i,s:{s:s}}", "x", 1, "y", "z", "w");
    AUTO_JSON json_t *b = json_pack("{s:{s:s},s:i}", "y", "z", "w", "x", 1);
    AUTO_JSON json_t *c = json_pack("{s:{s:s},s:i}", "y", "z", "w", "x", 2);
    char one[FINGERPRINT_MAX];
    char two[FINGERPRINT_MAX];
    fingerprint_of(a, one);
    fingerprint_of(b, two);
    cr_assert_str_eq(one, two);
    cr_assert_eq(strncmp(one, "1:sha256:", 9), 0);
    fingerprint_of(c, two);
    cr_assert_str_neq(one, two);
    TEST_END();
}

Test(fingerprint, differences_are_named_field_by_field)
{
    AUTO_JSON json_t *a = json_pack("{s:{s:s,s:b},s:[i,i]}", "task", "timeout", "5m", "same", 1, "list", 1, 2);
    AUTO_JSON json_t *b = json_pack("{s:{s:s,s:b,s:n},s:[i]}", "task", "timeout", "6m", "same", 1, "new", "list", 1);
    AUTO_FINGERPRINT_DIFF struct fingerprint_diff d = {0};
    fingerprint_compare(a, b, &d);
    cr_assert_eq(d.count, 3);
    cr_assert_str_eq(d.items[0].path, "task.timeout");
    cr_assert_str_eq(d.items[0].before, "\"5m\"");
    cr_assert_str_eq(d.items[0].after, "\"6m\"");
    cr_assert_str_eq(d.items[1].path, "task.new");
    cr_assert_str_eq(d.items[1].before, "(absent)");
    cr_assert_str_eq(d.items[2].path, "list[1]");
    cr_assert_str_eq(d.items[2].after, "(absent)");
    fingerprint_diff_done(&d);
    fingerprint_compare(a, a, &d);
    cr_assert_eq(d.count, 0);
    TEST_END();
}

/* ---- control ---- */

struct server {
    int listen_fd;
    struct control_request got;
    int parsed;
};

/* What the loop does, without the loop: one client. */
static void *serve(void *arg)
{
    struct server *s = arg;
    struct orch_err err = ERR_INIT;
    char line[CONTROL_REQUEST_MAX];
    struct pollfd p = {.fd = s->listen_fd, .events = POLLIN};
    poll(&p, 1, 10000);
    int fd = control_accept(s->listen_fd, &err);
    if (fd < 0) {
        return NULL;
    }
    p.fd = fd;
    poll(&p, 1, 10000);
    ssize_t n = recv(fd, line, sizeof line, 0);
    struct buf out;
    buf_init(&out, BUF_MAX_LINE);
    s->parsed = n > 0 ? control_parse(line, (size_t)n - 1, &s->got, &err) : -1;
    json_t *reply = json_pack("{s:b,s:s}", "ok", 1, "text", "two\nlines");
    control_add_line(&out, reply);
    json_decref(reply);
    err_set(&err, ORCH_E_BUDGET, "spent");
    control_add_error(&out, &err);
    (void)!write(fd, out.data, out.len);
    buf_done(&out);
    close(fd);
    return NULL;
}

static void ask_in(const char *project, const char *run_id)
{
    struct orch_err err = ERR_INIT;
    AUTO_LAYOUT struct layout l = {0};
    const struct control_request request = {.op = CONTROL_EVENTS, .since = 17, .limit = 5};
    AUTO_JSON json_t *lines = NULL;
    pthread_t thread;
    struct stat st;

    must(layout_find(NULL, project, NULL, &l, &err), &err);
    must(layout_make(&l, &err), &err);
    cr_assert_eq(control_ask(&l, run_id, &request, NS_PER_S, &lines, &err), ORCH_E_NOT_FOUND);
    err_clear(&err);
    int fd = control_listen(&l, run_id, &err);
    cr_assert_geq(fd, 0, "%s", err.message);
    close(fd); /* stale: as after a kill */
    cr_assert_eq(control_ask(&l, run_id, &request, NS_PER_S, &lines, &err), ORCH_E_NOT_FOUND);
    struct server server = {.listen_fd = control_listen(&l, run_id, &err)};
    cr_assert_geq(server.listen_fd, 0, "%s", err.message);
    AUTO_FREE char *path = control_path(&l, run_id);
    cr_assert_eq(stat(path, &st), 0);
    cr_assert_eq(st.st_mode & 07777, 0600);
    cr_assert_eq(control_accept(server.listen_fd, &err), ORCH_E_NOT_FOUND, "nobody waits");
    cr_assert_eq(pthread_create(&thread, NULL, serve, &server), 0);
    err_clear(&err);
    must(control_ask(&l, run_id, &request, 10 * NS_PER_S, &lines, &err), &err);
    pthread_join(thread, NULL);
    cr_assert_eq(server.parsed, 0);
    cr_assert_eq(server.got.op, CONTROL_EVENTS);
    cr_assert_eq(server.got.since, 17);
    cr_assert_eq(json_array_size(lines), 2);
    cr_assert_str_eq(json_get_str(json_array_get(lines, 0), "text", ""), "two\nlines");
    cr_assert(!json_get_flag(json_array_get(lines, 1), "ok", true));
    cr_assert_str_eq(json_get_str(json_get(json_array_get(lines, 1), "error"), "id", ""), "budget");
    close(server.listen_fd);
    control_remove(&l, run_id);
    cr_assert_neq(stat(path, &st), 0);
}

Test(control, asks_and_answers)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    ask_in(dir.path, "dates-20261201T021338Z-abcdef");
    TEST_END();
}

Test(control, long_paths_and_ids_are_no_obstacle)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    char deep[200];
    char name[64];
    memset(deep, 'd', sizeof deep);
    deep[150] = '\0';
    memset(name, 'n', sizeof name);
    name[63] = '\0';
    AUTO_FREE char *file = xasprintf("%s/x", deep);
    test_write(&dir, file, "");
    AUTO_FREE char *project = path_join(dir.path, deep);
    AUTO_FREE char *id = xasprintf("%s-20261201T021338Z-abcdef", name);
    ask_in(project, id);
    TEST_END();
}

Test(control, bad_requests_are_refused)
{
    static const char *const bad[] = {"", "{", "[]", "{\"op\":\"fly\"}", "{\"op\":\"events\",\"since\":-1}", "{}"};
    struct orch_err err = ERR_INIT;
    struct control_request r;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        cr_assert_lt(control_parse(bad[i], strlen(bad[i]), &r, &err), 0, "%s", bad[i]);
    }
    must(control_parse("{\"op\":\"status\"}", 15, &r, &err), &err);
    cr_assert_eq(r.op, CONTROL_STATUS);
    TEST_END();
}
