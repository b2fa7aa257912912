/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the machine and its tools. */
#include "orchestrator/doctor.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/process.h"
#include "orchestrator/guests.h"
#include "roles/context.h"

#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#define SPACE_WARNING ((uint64_t)1 << 30)
#define SPACE_ERROR ((uint64_t)64 << 20)
#define INODES_WARNING 10000
#define DESCRIPTORS_WARNING 4096
#define DESCRIPTORS_ERROR 512
#define CLOCK_EARLIEST (INT64_C(1700000000) * NS_PER_S) /* 2023-11: an unset clock is before it */
#define CLOCK_SLACK_NS (INT64_C(60) * NS_PER_S)
#define GIT_LEAST "2.30.0"
#define GIT_TIMEOUT_NS (INT64_C(10) * NS_PER_S)

void doctor_guests(const struct doctor *d, int step, struct doctor_finding *f)
{
    (void)step;
    AUTO_FREE char *path = NULL;
    for (size_t i = 0; guest_names[i] != NULL; i++) {
        struct orch_err err = ERR_INIT;
        free(path);
        path = NULL;
        if (guest_find(d->call->program, guest_names[i], &path, &err) < 0) {
            doctor_say(f, DOCTOR_ERROR, xstrdup(err.message), NULL, "install orch again: `cmake --install build`");
            return;
        }
    }
    AUTO_FREE char *dir = path_dir(path);
    doctor_say(f, DOCTOR_OK, xasprintf("orch-node and orch-init are in %s", dir), NULL, NULL);
}

void doctor_git(const struct doctor *d, int step, struct doctor_finding *f)
{
    (void)d;
    (void)step;
    static const char install[] = "install git (`apt install git`): versions of candidates are kept in it";
    struct orch_err err = ERR_INIT;
    AUTO_FREE char *git = NULL;
    if (path_search("git", CONTEXT_PATH, &git, &err) < 0) {
        doctor_say(f, DOCTOR_ERROR, xstrdup(err.message), NULL, install);
        return;
    }
    char name[] = "git";
    char option[] = "--version";
    char *argv[] = {name, option, NULL};
    char *envp[] = {NULL};
    struct command c = {
        .program = git, .argv = argv, .envp = envp, .cwd = "/", .output_max = 256, .timeout_ns = GIT_TIMEOUT_NS};
    AUTO_COMMAND_RESULT struct command_result r = {.end = END_UNKNOWN};
    if (command_run(&c, &r, &err) < 0 || command_check(&r, "git --version", &err) < 0) {
        doctor_say(f, DOCTOR_ERROR, xstrdup(err.message), NULL, install);
        return;
    }
    const char *digits = strpbrk(r.out, "0123456789");
    AUTO_FREE char *version =
        xmemdup0(digits != NULL ? digits : "", digits != NULL ? strspn(digits, "0123456789.") : 0);
    bool old = walk_is_older(version, GIT_LEAST);
    doctor_say(f, old ? DOCTOR_WARNING : DOCTOR_OK, xasprintf("git %s (%s)", version, git), NULL,
               old ? "update git: orch is tested from " GIT_LEAST " on" : NULL);
}

/* ---- the state's place ---- */

/* The state, or where it would be made. */
static const char *place_of(const struct doctor *d, struct doctor_finding *f)
{
    struct stat st;
    if (!d->has_layout) {
        doctor_say(f, DOCTOR_SKIPPED, xstrdup("the project's root cannot be found"), NULL, "name it with --project");
        return NULL;
    }
    return stat(d->layout.state, &st) == 0 ? d->layout.state : d->layout.root;
}

void doctor_space(const struct doctor *d, int step, struct doctor_finding *f)
{
    (void)step;
    struct statvfs st;
    const char *place = place_of(d, f);
    if (place == NULL) {
        return;
    }
    if (statvfs(place, &st) < 0) {
        doctor_say(f, DOCTOR_ERROR, xasprintf("%s: cannot be examined", place), NULL, NULL);
        return;
    }
    uint64_t space = (uint64_t)st.f_bavail * st.f_frsize;
    uint64_t inodes = (uint64_t)st.f_favail;
    bool few = st.f_files > 0 && inodes < INODES_WARNING; /* some file systems do not count them */
    enum doctor_status status = space < SPACE_ERROR            ? DOCTOR_ERROR
                                : space < SPACE_WARNING || few ? DOCTOR_WARNING
                                                               : DOCTOR_OK;
    doctor_say(f, status, xasprintf("%s: %" PRIu64 " MiB free, %" PRIu64 " inodes", place, space >> 20, inodes), NULL,
               status == DOCTOR_OK ? NULL : "free some space, or set state_dir to a larger disk");
}

#define NO_LOCKS "locks and rollback are not reliable there: set state_dir to a local disk"

static const struct {
    int64_t magic; /* statfs(2), linux/magic.h */
    const char *name;
    const char *remedy;
} file_systems[] = {
    {0x6969, "NFS", NO_LOCKS},
    {0xff534d42, "CIFS", NO_LOCKS},
    {0xfe534d42, "SMB", NO_LOCKS},
    {0x517b, "SMB", NO_LOCKS},
    {0x01021997, "9p (a folder of Windows in WSL, or of a host)", NO_LOCKS},
    {0x65735546, "FUSE", "other users and the kernel may be shut out of it: set state_dir to a local disk"},
    {0x0bd00bd0, "Lustre", NO_LOCKS},
    {0x5346414f, "AFS", NO_LOCKS},
    {0x01021994, "tmpfs", "it is gone after a restart: set state_dir to a disk"},
    {0x4d44, "FAT", "it has no owners and no modes: set state_dir to another disk"},
    {0x2011bab0, "exFAT", "it has no owners and no modes: set state_dir to another disk"},
    {0xef53, "ext4", NULL},
    {0x58465342, "XFS", NULL},
    {0x9123683e, "Btrfs", NULL},
    {0x2fc12fc1, "ZFS", NULL},
    {0x794c7630, "overlay", NULL},
    {0xf2f52010, "F2FS", NULL},
};

const char *doctor_file_system_name(int64_t magic, const char **ret_remedy)
{
    *ret_remedy = NULL;
    for (size_t i = 0; i < ARRAY_LEN(file_systems); i++) {
        if (file_systems[i].magic == magic) {
            *ret_remedy = file_systems[i].remedy;
            return file_systems[i].name;
        }
    }
    return "";
}

void doctor_file_system(const struct doctor *d, int step, struct doctor_finding *f)
{
    (void)step;
    struct statfs st;
    const char *place = place_of(d, f);
    if (place == NULL) {
        return;
    }
    if (statfs(place, &st) < 0) {
        doctor_say(f, DOCTOR_ERROR, xasprintf("%s: cannot be examined", place), NULL, NULL);
        return;
    }
    const char *remedy = NULL;
    int64_t magic = (int64_t)st.f_type & INT64_C(0xffffffff);
    const char *name = doctor_file_system_name(magic, &remedy);
    char *summary = name[0] != '\0' ? xasprintf("%s is on %s", place, name)
                                    : xasprintf("%s is on a file system of type %#" PRIx64, place, (uint64_t)magic);
    doctor_say(f, remedy != NULL ? DOCTOR_WARNING : DOCTOR_OK, summary, NULL, remedy);
}

/* ---- the process and its surroundings ---- */

/* A clock behind the files of orch itself was set back, or never set. */
void doctor_clock(const struct doctor *d, int step, struct doctor_finding *f)
{
    (void)step;
    char text[CLOCK_TEXT_MAX];
    struct stat st;
    int64_t now = clock_wall_ns(&d->call->clock);
    bool built = stat(d->call->program, &st) == 0;
    bool behind = built && (int64_t)st.st_mtim.tv_sec * NS_PER_S > now + CLOCK_SLACK_NS;
    bool bad = now < CLOCK_EARLIEST || behind;
    (void)clock_iso(now, text);
    doctor_say(f, bad ? DOCTOR_WARNING : DOCTOR_OK, xasprintf("the clock says %s", text),
               behind ? xstrdup("orch itself is younger than that") : NULL,
               bad ? "set the clock: names and reports carry it (limits do not depend on it)" : NULL);
}

void doctor_descriptors(const struct doctor *d, int step, struct doctor_finding *f)
{
    (void)d;
    (void)step;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0) {
        doctor_say(f, DOCTOR_WARNING, xstrdup("the limit of descriptors is not known"), NULL, NULL);
        return;
    }
    enum doctor_status status = limit.rlim_cur < DESCRIPTORS_ERROR     ? DOCTOR_ERROR
                                : limit.rlim_cur < DESCRIPTORS_WARNING ? DOCTOR_WARNING
                                                                       : DOCTOR_OK;
    doctor_say(f, status, xasprintf("%llu descriptors may be open", (unsigned long long)limit.rlim_cur), NULL,
               status == DOCTOR_OK ? NULL : "raise the hard limit (`ulimit -Hn`, LimitNOFILE= of a service)");
}

static const char *variable(const struct doctor *d, const char *name)
{
    size_t n = strlen(name);
    for (char *const *v = d->call->environ; *v != NULL; v++) {
        if (strncmp(*v, name, n) == 0 && (*v)[n] == '=') {
            return *v + n + 1;
        }
    }
    return NULL;
}

/* Names only: a value is nobody's to see. */
void doctor_keys(const struct doctor *d, int step, struct doctor_finding *f)
{
    (void)step;
    AUTO_FREE char *set = xstrdup("");
    for (size_t i = 0; d->config != NULL && i < d->config->credential_count; i++) {
        const char *name = d->config->credentials[i].name;
        const char *value = variable(d, name);
        if (value == NULL) {
            continue;
        }
        if (value[0] == '\0' || value[strcspn(value, " \t\r\n\"'")] != '\0') {
            doctor_say(f, DOCTOR_WARNING,
                       xasprintf("%s is %s", name, value[0] == '\0' ? "set but empty" : "set, with a space or a quote"),
                       xstrdup("a key has neither; a copied line end is the usual reason"), "export it anew");
            return;
        }
        char *more = xasprintf("%s%s%s", set, set[0] != '\0' ? ", " : "", name);
        free(set);
        set = more;
    }
    if (set[0] == '\0') {
        doctor_say(f, DOCTOR_SKIPPED, xstrdup("no key variable is set; runs with models need one"), NULL, NULL);
        return;
    }
    doctor_say(f, DOCTOR_OK, xasprintf("set: %s", set), NULL, NULL);
}
