/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox shows and hides, how it begins and ends; by a node as root and as a user. */
#include "node_driver.h"

#include "backends/node/tree_stream.h"
#include "base/fd.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void expect_out(struct driver *d, const char *call, const char *script, const char *out)
{
    AUTO_OUTCOME struct outcome o = driver_sh(d, "box", call, script, 30000);
    cr_assert_str_eq(o.out, out, "%s: \"%s\" (%s)", script, o.out, o.err);
}

static void check_shown(struct driver *d)
{
    test_write(&d->dir, "shown/file", "public\n");
    test_write(&d->dir, "secret", "secret\n");
    AUTO_FREE char *shown = xasprintf("%s/shown", d->dir.path);
    AUTO_SPEC struct sandbox_spec s;
    driver_spec(&s, "box");
    spec_grant(&s, shown, "/w/shown", SPEC_RO, SPEC_DIR);
    spec_add_file(&s, "/w/task.json", "{\"id\":1}\n", 9, 0644);
    spec_add_absent(&s, "/root");
    spec_add_absent(&s, "/etc/shadow");
    spec_add_absent(&s, d->dir.path);
    driver_open_ok(d, &s);
    expect_out(d, "c1", "cat /w/shown/file /w/task.json", "public\n{\"id\":1}\n");
    expect_out(d, "c2", "id -u | grep -vc '^0$'; whoami", "1\nagent\n");
    expect_out(d, "c3", "for p in /root /etc/shadow /sys /boot /var /opt /mnt /run; do [ -e $p ] && echo $p; done", "");
    AUTO_FREE char *look = xasprintf("ls %s %s/secret 2>/dev/null; ls /tmp", d->dir.path, d->dir.path);
    expect_out(d, "c4", look, "");
    expect_out(d, "c5",
               "for p in / /w /w/shown /w/task.json /usr /etc /proc/sys/kernel/core_pattern /dev; do "
               "if [ -d $p ]; then touch $p/x 2>/dev/null && echo $p; else echo x 2>/dev/null >> $p && echo $p; fi; "
               "done; touch /w/output/x /tmp/x $HOME/x /dev/shm/x && echo writable",
               "writable\n");
    expect_out(d, "c6",
               "grep -E '^(Cap(Inh|Prm|Eff|Bnd|Amb)):' /proc/self/status | grep -vc 0000000000000000; "
               "grep -c 'NoNewPrivs:.1' /proc/self/status",
               "0\n1\n");
    expect_out(d, "c7", "unshare -U true 2>/dev/null && echo nested; env | sort",
               "HOME=/home/agent\nPATH=/usr/bin:/bin\nPWD=/w\n");
    expect_out(d, "c8",
               "ls /proc | grep '^[0-9]' | head -1; cat /proc/1/environ 2>/dev/null | wc -c; "
               "grep -ac orch-init /proc/1/cmdline; ls -l /proc/1/exe >/dev/null 2>&1 && echo exe",
               "1\n0\n1\n");
    expect_out(d, "c9", "ls -l /proc/self/fd | grep -c -- '->'; hostname", "4\nsandbox\n");
    driver_remove(d, "box");
}

Test(node_sandbox, only_what_was_granted_exists)
{
    driver_each(check_shown);
    TEST_END();
}

/* Mounts with their options, identity, what is in the root and in /dev, what can be written. Left out: parts of /proc
 * that one covers and the other only where they could be written, how each forbids user namespaces, and who owns the
 * directory of terminals: the machine's root, whom a user's namespace may know or not. */
#define VIEW                                                                                                           \
    "awk '{print $5, $6}' /proc/self/mountinfo | grep -vE '^/proc/(bus|irq|sysrq-trigger) ' | sort; "                  \
    "grep -E '^(Cap|NoNew|Seccomp|Groups)' /proc/self/status; cat /proc/self/setgroups; "                              \
    "cat /proc/self/uid_map /proc/self/gid_map | awk '{print $3}'; "                                                   \
    "ls -lA -I .orch-init / /dev /dev/pts /etc /w | awk '/^[-cdl]/ && $NF != \"pts\" {print $1, $3, $4, $NF}'; "       \
    "for p in /x /dev/x /etc/x /usr/x /tmp/x /home/agent/x /dev/shm/x /w/x /w/output/x /proc/sys/kernel/hostname; do " \
    "(: >$p) 2>/dev/null && echo may write $p; done; "                                                                 \
    "for w in -U -m -n -p; do unshare $w true 2>/dev/null && echo may unshare $w; done; "                              \
    "cat /proc/self/cgroup /proc/net/dev | cut -d: -f1; hostname; ulimit -a"

static char *view_under(const char *mechanism, bool as_user)
{
    struct driver *d = xcalloc(1, sizeof *d);
    driver_start(d, as_user, 0, mechanism);
    AUTO_SPEC struct sandbox_spec s;
    driver_spec(&s, "box");
    spec_grant(&s, "/usr/share", "/w/granted", SPEC_RO, SPEC_DIR);
    spec_add_hide(&s, "/w/granted/doc");
    spec_add_file(&s, "/w/task.json", "{}", 2, 0644);
    driver_open_ok(d, &s);
    AUTO_OUTCOME struct outcome o = driver_sh(d, "box", "view", VIEW, 20000);
    char *text = xstrdup(o.out);
    driver_remove(d, "box");
    driver_stop(d);
    free(d);
    return text;
}

Test(node_sandbox, every_mechanism_shows_the_same)
{
    for (int user = geteuid() == 0 ? 0 : 1; user <= 1; user++) {
        AUTO_FREE char *own = view_under("namespaces", user == 1);
        AUTO_FREE char *bwrap = view_under("bubblewrap", user == 1);
        cr_assert_not_null(strstr(own, "/w/output rw,nosuid,nodev"), "%s", own); /* it did look */
        cr_assert_not_null(strstr(own, "may write /tmp/x"), "%s", own);
        cr_assert_null(strstr(own, "may unshare"), "%s", own);
        cr_assert_str_eq(own, bwrap);
    }
    TEST_END();
}

/* As root a 0600 file of root that is granted stays closed, because the process has a real uid of its own. */
static void check_identity(struct driver *d)
{
    if (geteuid() != 0) {
        return;
    }
    test_write(&d->dir, "in/closed", "secret\n");
    test_write(&d->dir, "in/open", "public\n");
    cr_assert_eq(fchmodat(d->dir.fd, "in", 0755, 0), 0);
    cr_assert_eq(fchmodat(d->dir.fd, "in/closed", 0600, 0), 0);
    cr_assert_eq(fchmodat(d->dir.fd, "in/open", 0644, 0), 0);
    AUTO_FREE char *in = xasprintf("%s/in", d->dir.path);
    AUTO_SPEC struct sandbox_spec s;
    driver_spec(&s, "box");
    spec_grant(&s, in, "/w/in", SPEC_RO, SPEC_DIR);
    driver_open_ok(d, &s);
    expect_out(d, "c1", "cat /w/in/open; cat /w/in/closed 2>/dev/null", "public\n");
    expect_out(
        d, "c2",
        "touch /w/output/mine; u=$(id -u); [ $u = $(stat -c %u /w/output/mine) ] && [ $u -ge 65534 ] && echo own",
        "own\n");
    driver_remove(d, "box");
}

Test(node_sandbox, its_uid_is_not_roots)
{
    driver_each(check_identity);
    TEST_END();
}

/* A closed home of somebody else on the way to what is granted, as when root works in a user's project. */
static void check_closed_home(struct driver *d)
{
    if (geteuid() != 0 || d->as_user) {
        return;
    }
    test_write(&d->dir, "home/project/file", "public\n");
    cr_assert_eq(fchmodat(d->dir.fd, "home", 0700, 0), 0);
    cr_assert_eq(fchmodat(d->dir.fd, "home/project", 0755, 0), 0);
    cr_assert_eq(fchmodat(d->dir.fd, "home/project/file", 0644, 0), 0);
    cr_assert_eq(fchownat(d->dir.fd, "home", 12345, 12346, 0), 0);
    AUTO_FREE char *project = xasprintf("%s/home/project", d->dir.path);
    AUTO_SPEC struct sandbox_spec before;
    driver_spec(&before, "before");
    driver_open_ok(d, &before);
    driver_remove(d, "before"); /* its slot does not know that owner yet */
    AUTO_SPEC struct sandbox_spec s;
    driver_spec(&s, "box");
    spec_grant(&s, project, "/w/project", SPEC_RO, SPEC_DIR);
    driver_open_ok(d, &s);
    expect_out(d, "c1", "cat /w/project/file", "public\n");
    driver_remove(d, "box");
}

Test(node_sandbox, roots_grants_may_lie_in_a_closed_home)
{
    driver_each(check_closed_home);
    TEST_END();
}

static void check_lent(struct driver *d)
{
    test_write(&d->dir, "project/sub/file", "before\n");
    AUTO_FREE char *project = xasprintf("%s/project", d->dir.path);
    uid_t owner = d->as_user && geteuid() == 0 ? 65534 : geteuid();
    AUTO_FREE char *give = xasprintf("chown -R %u %s", (unsigned)owner, project);
    cr_assert_eq(system(give), 0); // NOLINT: a fixed text
    AUTO_SPEC struct sandbox_spec s;
    driver_spec(&s, "box");
    spec_grant(&s, project, "/home/me/project", SPEC_RW, SPEC_DIR);
    spec_grant(&s, "/no/such/thing", "/w/optional", SPEC_RO, SPEC_DIR);
    s.grants[s.grant_count - 1].required = false;
    AUTO_JSON json_t *r = driver_open(d, &s);
    cr_assert_not_null(json_get(r, "ok"), "%s", json_get_str(json_get(r, "error"), "message", ""));
    const json_t *left = json_get(json_get(r, "ok"), "left_out");
    cr_assert_eq(json_array_size(left), 1u);
    expect_out(d, "c1", "cd /home/me/project && echo after > sub/file && mkdir new && echo x > new/y && echo ok",
               "ok\n");
    driver_remove(d, "box");
    AUTO_FREE char *text = test_read(&d->dir, "project/sub/file");
    cr_assert_str_eq(text, "after\n");
    struct stat st;
    cr_assert(fstatat(d->dir.fd, "project/new/y", &st, 0) == 0 && st.st_uid == owner, "it comes back to its owner");
    cr_assert(fstatat(d->dir.fd, "project", &st, 0) == 0 && st.st_uid == owner);
}

Test(node_sandbox, a_lent_directory_comes_back)
{
    driver_each(check_lent);
    TEST_END();
}

static void check_hidden(struct driver *d)
{
    test_write(&d->dir, "p/conf/keys/id", "secret\n");
    test_write(&d->dir, "p/.env", "secret\n");
    test_write(&d->dir, "p/code", "code\n");
    AUTO_FREE char *p = xasprintf("%s/p", d->dir.path);
    if (geteuid() == 0 && d->as_user) {
        AUTO_FREE char *give = xasprintf("chown -R 65534 %s", p);
        cr_assert_eq(system(give), 0); // NOLINT: a fixed text
    }
    AUTO_SPEC struct sandbox_spec s;
    driver_spec(&s, "box");
    spec_grant(&s, p, "/w/p", SPEC_RW, SPEC_DIR);
    spec_add_hide(&s, "/w/p/.env");
    spec_add_hide(&s, "/w/p/conf/keys");
    driver_open_ok(d, &s);
    expect_out(d, "c1",
               "cd /w/p; cat code .env; ls conf/keys; mv conf other 2>/dev/null; mv .env e 2>/dev/null; "
               "rm -rf conf 2>/dev/null; grep -rs secret /w; echo $?",
               "code\n1\n");
    driver_remove(d, "box");
    AUTO_FREE char *still = test_read(&d->dir, "p/conf/keys/id");
    cr_assert_str_eq(still, "secret\n");
}

Test(node_sandbox, hidden_paths_stay_hidden_when_moved)
{
    driver_each(check_hidden);
    TEST_END();
}

/* ---- refusals ---- */

static void check_refused(struct driver *d)
{
    AUTO_SPEC struct sandbox_spec s;
    driver_spec(&s, "box");
    spec_grant(&s, "/no/such/thing", "/w/x", SPEC_RO, SPEC_DIR);
    AUTO_JSON json_t *absent = driver_open(d, &s);
    cr_assert_str_eq(driver_code(absent), "not-found");
    AUTO_SPEC struct sandbox_spec t;
    driver_spec(&t, "box");
    spec_add_absent(&t, "/usr");
    AUTO_JSON json_t *there = driver_open(d, &t);
    cr_assert_str_eq(driver_code(there), "unavailable");
    cr_assert_not_null(strstr(json_get_str(json_get(there, "error"), "message", ""), "absent"));
    json_t *m = json_object();
    json_set_str(m, "sandbox", "box");
    AUTO_JSON json_t *seen = driver_ask(d, "observe", m);
    cr_assert_str_eq(json_get_str(json_get(seen, "ok"), "state", ""), "absent", "a failed open leaves nothing");
    AUTO_SPEC struct sandbox_spec ok;
    driver_spec(&ok, "box");
    driver_open_ok(d, &ok);
    driver_open_ok(d, &ok); /* the same: the same answer */
    ok.limits.tmp = 12345678;
    AUTO_JSON json_t *other = driver_open(d, &ok);
    cr_assert_str_eq(driver_code(other), "config");
    AUTO_JSON json_t *unknown = driver_ask(d, "dance", NULL);
    cr_assert_str_eq(driver_code(unknown), "protocol");
    m = json_object();
    json_set_str(m, "color", "red");
    AUTO_JSON json_t *member = driver_ask(d, "list", m);
    cr_assert_str_eq(driver_code(member), "protocol");
    driver_remove(d, "box");
    driver_remove(d, "box"); /* absent: gone */
}

Test(node_sandbox, what_cannot_be_is_refused)
{
    driver_each(check_refused);
    TEST_END();
}

/* ---- ports ---- */

static bool connected(struct driver *d, const void *arg)
{
    (void)arg;
    for (size_t i = 0; i < json_array_size(d->events); i++) {
        if (strcmp(json_get_str(json_array_get(d->events, i), "event", ""), "connect") == 0) {
            return true;
        }
    }
    return false;
}

static bool asked(struct driver *d, const void *arg)
{
    const struct driver_channel *c = driver_channel(d, *(const uint32_t *)arg);
    return c->data.len >= 5 || c->ended;
}

static void check_port(struct driver *d)
{
    AUTO_SPEC struct sandbox_spec s;
    driver_spec(&s, "box");
    spec_add_port(&s, 8080);
    spec_add_port(&s, 9090);
    driver_open_ok(d, &s);
    char bash[] = "bash";
    char c[] = "-c";
    char script[] = "exec 3<>/dev/tcp/127.0.0.1/9090; printf hello >&3; cat <&3";
    char *argv[] = {bash, c, script, NULL};
    struct call_ids ids = driver_call_start(d, "box", "c1", argv, 30000, false);
    driver_until(d, connected, NULL);
    uint32_t channel = 0;
    for (size_t i = 0; i < json_array_size(d->events); i++) {
        const json_t *e = json_array_get(d->events, i);
        if (strcmp(json_get_str(e, "event", ""), "connect") == 0) {
            channel = (uint32_t)json_get_int(e, "channel", 0);
            cr_assert_eq(json_get_int(e, "port", 0), 9090);
        }
    }
    cr_assert(channel != 0 && channel % 2 == 0);
    driver_until(d, asked, &channel);
    cr_assert_str_eq(driver_channel(d, channel)->data.data, "hello");
    driver_data(d, channel, "world", 5);
    driver_end(d, channel);
    AUTO_OUTCOME struct outcome o = driver_call_wait(d, &ids);
    cr_assert_str_eq(o.out, "world");
    driver_wait_ended(d, channel);
    expect_out(d, "c2", "(exec 3<>/dev/tcp/127.0.0.1/22) 2>/dev/null && echo host", "");
    driver_remove(d, "box");
}

Test(node_sandbox, a_port_inside_is_a_channel_outside)
{
    driver_each(check_port);
    TEST_END();
}

/* ---- trees ---- */

static void pack(int dirfd, struct buf *out, char digest[DIGEST_TEXT_MAX])
{
    struct tree_packer *p = NULL;
    struct orch_err err = ERR_INIT;
    struct tree_counts counts;
    cr_assert_eq(tree_packer_new(dirfd, NULL, &p, &err), 0);
    char chunk[4096];
    size_t n = 1;
    while (n > 0) {
        cr_assert_eq(tree_packer_read(p, chunk, sizeof chunk, &n, &err), 0);
        buf_add(out, chunk, n);
    }
    tree_packer_result(p, &counts, digest);
    tree_packer_free(p);
}

static json_t *put_tree(struct driver *d, const struct buf *b, const char *digest)
{
    uint32_t channel = driver_new_channel(d);
    json_t *m = json_object();
    json_set_str(m, "digest", digest);
    json_set_int(m, "channel", channel);
    int64_t id = driver_send(d, "put", m);
    for (size_t at = 0; at < b->len; at += 30000) {
        driver_data(d, channel, b->data + at, at + 30000 <= b->len ? 30000 : b->len - at);
    }
    driver_end(d, channel);
    return driver_wait(d, id);
}

static void check_trees(struct driver *d)
{
    AUTO_TEST_DIR struct test_dir from = test_dir_new();
    test_write(&from, "adapter.yaml", "learnable: [x]\n");
    test_write(&from, "bin/solve", "#!/bin/sh\necho solved\n");
    cr_assert_eq(fchmodat(from.fd, "bin/solve", 0700, 0), 0);
    AUTO_BUF struct buf b;
    buf_init(&b, BUF_MAX_TEXT);
    char digest[DIGEST_TEXT_MAX];
    pack(from.fd, &b, digest);
    AUTO_FREE char *other = xstrdup(digest);
    other[10] = other[10] == '0' ? '1' : '0';
    AUTO_JSON json_t *wrong = put_tree(d, &b, other);
    cr_assert_str_eq(driver_code(wrong), "damaged");
    AUTO_JSON json_t *first = put_tree(d, &b, digest);
    cr_assert_eq(json_is_false(json_get(json_get(first, "ok"), "present")), 1, "%s", driver_code(first));
    AUTO_JSON json_t *again = put_tree(d, &b, digest);
    cr_assert(json_get_flag(json_get(again, "ok"), "present", false));
    AUTO_FREE char *source = xasprintf("tree:%s", digest);
    AUTO_SPEC struct sandbox_spec s;
    driver_spec(&s, "box");
    spec_grant(&s, source, "/w/adapter", SPEC_RO, SPEC_DIR);
    spec_grant_work(&s, "next", source, "/w/next", SPEC_RW);
    driver_open_ok(d, &s);
    expect_out(
        d, "c1",
        "/w/adapter/bin/solve; touch /w/adapter/x 2>/dev/null || echo closed; echo changed > /w/next/adapter.yaml; "
        "rm -r /w/next/bin; ln -s /etc/passwd /w/next/link; mkfifo /w/next/pipe",
        "solved\nclosed\n");
    uint32_t channel = driver_new_channel(d);
    json_t *m = json_object();
    json_set_str(m, "sandbox", "box");
    json_set_str(m, "path", "next");
    json_set_int(m, "channel", channel);
    AUTO_JSON json_t *got = driver_ask(d, "get", m);
    cr_assert_eq(json_get_int(json_get(got, "ok"), "entries", 0), 1, "%s", driver_code(got));
    cr_assert_eq(json_get_int(json_get(got, "ok"), "skipped", 0), 2);
    AUTO_TEST_DIR struct test_dir to = test_dir_new();
    struct tree_unpacker *u = NULL;
    struct orch_err err = ERR_INIT;
    struct tree_counts counts;
    char after[DIGEST_TEXT_MAX];
    const struct driver_channel *c = driver_channel(d, channel);
    cr_assert_eq(tree_unpacker_new(to.fd, NULL, &u, &err), 0);
    cr_assert_eq(tree_unpacker_feed(u, c->data.data, c->data.len, &err), 0, "%s", err.message);
    cr_assert_eq(tree_unpacker_finish(u, &counts, after, &err), 0);
    tree_unpacker_free(u);
    cr_assert_str_eq(after, json_get_str(json_get(got, "ok"), "digest", ""));
    AUTO_FREE char *text = test_read(&to, "adapter.yaml");
    cr_assert_str_eq(text, "changed\n");
    driver_remove(d, "box");
}

Test(node_sandbox, trees_go_in_and_come_out)
{
    driver_each(check_trees);
    TEST_END();
}

/* ---- ends ---- */

static int64_t stat_of(struct driver *d, const char *name)
{
    AUTO_JSON json_t *r = driver_ask(d, "stats", NULL);
    return json_get_int(json_get(r, "ok"), name, -1);
}

/* Keys that count against that user's quota; 0 without any. */
static int keys_of(unsigned uid)
{
    AUTO_FREE char *command = xasprintf("awk '$1 == \"%u:\" {n = $2} END {print n + 0}' /proc/key-users", uid);
    FILE *f = popen(command, "r"); // NOLINT: a fixed text
    int n = -1;
    cr_assert_eq(fscanf(f, "%d", &n), 1);
    (void)pclose(f);
    return n;
}

static void check_nothing_is_left(struct driver *d)
{
    int64_t before = 0;
    unsigned uid = d->as_user && geteuid() == 0 ? 65534 : geteuid();
    int keys = 0;
    for (int i = 0; i < 30; i++) {
        AUTO_SPEC struct sandbox_spec s;
        driver_spec(&s, "box");
        spec_add_port(&s, 8080);
        driver_open_ok(d, &s);
        AUTO_OUTCOME struct outcome o =
            driver_sh(d, "box", "c", "bash -c 'exec 3<>/dev/tcp/127.0.0.1/8080; sleep 100 & exit 6'", 30000);
        cr_assert_eq(outcome_code(&o), 6);
        if (i == 0 && !d->as_user) {
            AUTO_OUTCOME struct outcome id = driver_sh(d, "box", "id", "id -u", 30000);
            uid = (unsigned)strtoul(id.out, NULL, 10);
        }
        driver_remove(d, "box");
        (void)json_array_clear(d->events); /* the names are used again */
        if (i == 2) {
            before = stat_of(d, "descriptors");
            keys = keys_of(uid);
        }
    }
    cr_assert_lt(keys_of(uid), keys + 15, "sandboxes use up the keys of user %u", uid);
    cr_assert_eq(stat_of(d, "descriptors"), before);
    cr_assert_eq(stat_of(d, "slots"), d->as_user ? 0 : 1, "one slot served them all");
    cr_assert_eq(stat_of(d, "sandboxes"), 0);
    cr_assert_eq(stat_of(d, "channels"), 0);
}

Test(node_sandbox, a_removed_one_leaves_no_descriptor)
{
    driver_each(check_nothing_is_left);
    TEST_END();
}

static void check_two_at_once(struct driver *d)
{
    AUTO_SPEC struct sandbox_spec a;
    AUTO_SPEC struct sandbox_spec b;
    driver_spec(&a, "box");
    driver_spec(&b, "other");
    driver_open_ok(d, &a);
    driver_open_ok(d, &b);
    AUTO_OUTCOME struct outcome x = driver_sh(d, "box", "c", "id -u; touch /tmp/x; ls /tmp", 30000);
    AUTO_OUTCOME struct outcome y = driver_sh(d, "other", "c", "id -u; ls /tmp", 30000);
    cr_assert_eq(strtol(x.out, NULL, 10) != strtol(y.out, NULL, 10), !d->as_user, "each has a uid of its own: %s %s",
                 x.out, y.out);
    cr_assert_null(strstr(y.out, "x"));
    AUTO_JSON json_t *l = driver_ask(d, "list", NULL);
    cr_assert_eq(json_array_size(json_get(json_get(l, "ok"), "sandboxes")), 2u);
}

Test(node_sandbox, two_at_once_share_nothing_and_end_with_the_stream)
{
    driver_each(check_two_at_once); /* driver_stop proves that nothing is left */
    TEST_END();
}

/* Processes of this machine whose command line holds the mark. */
static int marked(const char *mark)
{
    AUTO_FREE char *command = xasprintf("pgrep -f '[s]leep %s' | wc -l", mark);
    FILE *f = popen(command, "r"); // NOLINT: a fixed text
    int n = -1;
    cr_assert_eq(fscanf(f, "%d", &n), 1);
    (void)pclose(f);
    return n;
}

static void start_marked(struct driver *d, const char *mark)
{
    AUTO_SPEC struct sandbox_spec s;
    driver_spec(&s, "box");
    driver_open_ok(d, &s);
    char sh[] = "sh";
    char c[] = "-c";
    AUTO_FREE char *script = xasprintf("(setsid sleep %s &); echo ready; sleep %s", mark, mark);
    char *argv[] = {sh, c, script, NULL};
    struct call_ids ids = driver_call_start(d, "box", "c", argv, 0, false);
    while (driver_channel(d, ids.out)->data.len == 0) {
        (void)stat_of(d, "calls");
    }
    while (marked(mark) < 2) { /* the positive control: it runs, and we would see it */
        (void)stat_of(d, "calls");
    }
}

static void wait_gone(const char *mark)
{
    for (int i = 0; i < 500 && marked(mark) > 0; i++) {
        (void)poll(NULL, 0, 20);
    }
    cr_assert_eq(marked(mark), 0, "processes outlived their node");
}

Test(node_sandbox, the_end_of_the_stream_kills_everything)
{
    struct driver *d = xcalloc(1, sizeof *d);
    for (int user = geteuid() == 0 ? 0 : 1; user <= 1; user++) {
        AUTO_FREE char *mark = xasprintf("7%d%d", (int)getpid(), user);
        driver_start(d, user == 1, 0, "auto");
        start_marked(d, mark);
        driver_stop(d);
        cr_assert_eq(marked(mark), 0, "the node exits only when all is dead");
    }
    free(d);
    TEST_END();
}

Test(node_sandbox, a_killed_node_leaves_no_process)
{
    struct driver *d = xcalloc(1, sizeof *d);
    for (int user = geteuid() == 0 ? 0 : 1; user <= 1; user++) {
        AUTO_FREE char *mark = xasprintf("8%d%d", (int)getpid(), user);
        driver_start(d, user == 1, 0, "auto");
        start_marked(d, mark);
        cr_assert_eq(kill(d->pid, SIGKILL), 0);
        cr_assert_eq(waitpid(d->pid, NULL, 0), d->pid);
        wait_gone(mark);
        frame_decoder_done(&d->in);
        json_release(&d->replies);
        json_release(&d->events);
        json_release(&d->hello);
        for (size_t i = 0; i < d->channel_count; i++) {
            buf_done(&d->channels[i].data);
        }
        fd_close(&d->fd);
        free(d->work);
        test_dir_done(&d->dir);
    }
    free(d);
    TEST_END();
}

static bool is_closed(struct driver *d, const void *arg)
{
    (void)arg;
    for (size_t i = 0; i < json_array_size(d->events); i++) {
        if (strcmp(json_get_str(json_array_get(d->events, i), "event", ""), "closed") == 0) {
            return true;
        }
    }
    return false;
}

/* Whatever kills the sandbox from outside: the call is lost, not failed, and the end is told. */
static void check_lost(struct driver *d)
{
    AUTO_FREE char *mark = xasprintf("9%d%d", (int)getpid(), d->as_user);
    start_marked(d, mark);
    AUTO_FREE char *command = xasprintf("pkill -KILL -P %d 'bwrap|orch-init'", (int)d->pid);
    cr_assert_eq(system(command), 0); // NOLINT: a fixed text
    driver_until(d, is_closed, NULL);
    wait_gone(mark);
    struct call_ids ids = {.sandbox = "box", .call = "c", .out = d->next_channel - 4, .err = d->next_channel - 2};
    AUTO_OUTCOME struct outcome o = driver_call_wait(d, &ids);
    cr_assert_str_eq(outcome_end(&o), "lost");
    json_t *m = json_object();
    json_set_str(m, "sandbox", "box");
    AUTO_JSON json_t *seen = driver_ask(d, "observe", m);
    cr_assert_str_eq(json_get_str(json_get(seen, "ok"), "state", ""), "closed");
    driver_remove(d, "box");
}

Test(node_sandbox, a_call_whose_sandbox_died_is_lost)
{
    driver_each(check_lost);
    TEST_END();
}

/* ---- lost replies ---- */

static bool any_reply(struct driver *d, const void *arg)
{
    (void)arg;
    return json_object_size(d->replies) > 0;
}

/* Every second reply is lost: of two equal requests one is answered, and it says the same. */
static void check_losing(struct driver *d)
{
    AUTO_SPEC struct sandbox_spec s;
    driver_spec(&s, "box");
    for (int i = 0; i < 2; i++) {
        json_t *m = json_object();
        json_set_str(m, "sandbox", "box");
        json_set_take(m, "spec", spec_to_json(&s));
        (void)driver_send(d, "open", m);
    }
    driver_until(d, any_reply, NULL);
    const char *key;
    json_t *reply;
    json_object_foreach(d->replies, key, reply)
    {
        cr_assert_str_eq(json_get_str(json_get(reply, "ok"), "state", ""), "open");
    }
    (void)json_object_clear(d->replies);
    for (int i = 0; i < 2; i++) {
        (void)driver_send(d, "stats", NULL);
    }
    driver_until(d, any_reply, NULL);
    json_object_foreach(d->replies, key, reply)
    {
        cr_assert_eq(json_get_int(json_get(reply, "ok"), "opened", 0), 1);
        cr_assert_geq(json_get_int(json_get(reply, "ok"), "lost", 0), 1);
    }
    (void)json_object_clear(d->replies);
}

Test(node_sandbox, a_lost_reply_is_answered_by_asking_again)
{
    driver_each_losing(2, check_losing);
    TEST_END();
}
