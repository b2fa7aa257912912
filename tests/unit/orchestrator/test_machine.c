/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/machine.h"

#include "base/json.h"
#include "base/mem.h"
#include "test.h"

#include <string.h>

#define MOUNT(point, options, type) "36 25 0:5 / " point " " options " shared:2 - " type " " type " rw\n"

static struct machine read_tree(const struct test_dir *dir)
{
    struct machine m;
    machine_read(dir->path, &m);
    return m;
}

Test(machine, an_empty_tree_is_unknown)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    struct machine m = read_tree(&dir);
    cr_assert_eq(m.kernel_major, MACHINE_UNKNOWN);
    cr_assert_eq(m.max_user_namespaces, MACHINE_UNKNOWN);
    cr_assert_eq(m.seccomp, MACHINE_UNKNOWN);
    cr_assert_eq(m.mapped_ids, MACHINE_UNKNOWN);
    cr_assert_eq(m.container, MACHINE_NO_CONTAINER);
    AUTO_JSON json_t *o = machine_json(&m);
    cr_assert(json_is_null(json_get(o, "max_user_namespaces")));
    cr_assert(json_is_null(json_get(o, "kernel")));
    TEST_END();
}

Test(machine, a_plain_machine)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    test_write(&dir, "proc/sys/kernel/osrelease", "6.1.0-28-amd64\n");
    test_write(&dir, "proc/version", "Linux version 6.1.0-28-amd64 (debian-kernel@lists.debian.org)\n");
    test_write(&dir, "proc/self/status", "Name:\torch\nNoNewPrivs:\t0\nSeccomp:\t0\nSeccomp_filters:\t0\n");
    test_write(&dir, "proc/self/uid_map", "         0          0 4294967295\n");
    test_write(&dir, "proc/sys/user/max_user_namespaces", "63432\n");
    test_write(&dir, "sys/kernel/security/lsm", "lockdown,capability,landlock,yama,apparmor");
    test_write(&dir, "proc/self/attr/current", "unconfined\n");
    test_write(&dir, "proc/self/mountinfo",
               MOUNT("/", "rw", "ext4") MOUNT("/proc", "rw,nosuid", "proc")
                   MOUNT("/proc/sys/fs/binfmt_misc", "rw", "autofs") MOUNT("/sys/fs/cgroup", "rw,nosuid", "cgroup2"));
    struct machine m = read_tree(&dir);
    cr_assert_eq(m.kernel_major, 6);
    cr_assert_eq(m.kernel_minor, 1);
    cr_assert_eq(m.wsl, 0);
    cr_assert_eq(m.seccomp, 0);
    cr_assert_eq(m.mapped_ids, 4294967295);
    cr_assert_eq(m.max_user_namespaces, 63432);
    cr_assert_eq(m.landlock_listed, 1);
    cr_assert_eq(m.apparmor_confined, 0);
    cr_assert_eq(m.proc_masked, 0);
    cr_assert_eq(m.proc_sys_read_only, 0);
    cr_assert_eq(m.cgroup_version, 2);
    cr_assert_eq(m.cgroup_read_only, 0);
    TEST_END();
}

Test(machine, docker)
{
    AUTO_TEST_DIR struct test_dir dir = test_dir_new();
    test_write(&dir, ".dockerenv", "");
    test_write(&dir, "proc/self/status", "Name:\torch\nSeccomp:\t2\n");
    test_write(&dir, "proc/self/attr/current", "docker-default (enforce)\n");
    test_write(&dir, "proc/self/mountinfo",
               MOUNT("/proc", "rw", "proc") MOUNT("/proc/sys", "ro,nosuid", "proc") MOUNT("/proc/kcore", "rw", "tmpfs")
                   MOUNT("/sys/fs/cgroup", "ro,nosuid", "cgroup2"));
    struct machine m = read_tree(&dir);
    cr_assert_eq(m.container, MACHINE_DOCKER);
    cr_assert_eq(m.seccomp, 2);
    cr_assert_eq(m.apparmor_confined, 1);
    cr_assert_eq(m.proc_masked, 1);
    cr_assert_eq(m.proc_sys_read_only, 1);
    cr_assert_eq(m.cgroup_read_only, 1);
    TEST_END();
}

Test(machine, others)
{
    static const struct {
        const char *file, *text;
        enum machine_container container;
        int wsl, groups;
    } table[] = {
        {"run/.containerenv", "engine=\"podman\"\n", MACHINE_PODMAN, 0, 0},
        {"proc/1/cgroup", "0::/kubepods.slice/pod1\n", MACHINE_KUBERNETES, 0, 0},
        {"run/systemd/container", "lxc", MACHINE_OTHER_CONTAINER, 0, 0},
        {"proc/version", "Linux version 4.4.0-19041-Microsoft (Microsoft@Microsoft.com)", MACHINE_NO_CONTAINER, 1, 0},
        {"proc/version", "Linux version 5.15.153.1-microsoft-standard-WSL2 (root@x)", MACHINE_NO_CONTAINER, 2, 0},
        {"proc/self/mountinfo",
         MOUNT("/sys/fs/cgroup/memory", "rw", "cgroup") MOUNT("/sys/fs/cgroup/unified", "rw", "cgroup2"),
         MACHINE_NO_CONTAINER, 0, 1},
        {"proc/self/mountinfo",
         MOUNT("/sys/fs/cgroup/unified", "rw", "cgroup2") MOUNT("/sys/fs/cgroup/memory", "rw", "cgroup"),
         MACHINE_NO_CONTAINER, 0, 1},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        AUTO_TEST_DIR struct test_dir dir = test_dir_new();
        test_write(&dir, table[i].file, table[i].text);
        struct machine m = read_tree(&dir);
        cr_assert_eq(m.container, table[i].container, "row %zu", i);
        cr_assert_eq(m.wsl, table[i].wsl, "row %zu", i);
        cr_assert_eq(m.cgroup_version, table[i].groups, "row %zu", i);
    }
    TEST_END();
}
