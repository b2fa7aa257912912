/* SPDX-License-Identifier: Apache-2.0 */
/* The record's file: its schema, its creation in one step, and the checks before anything trusts it. */
#include "state/record_internal.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "state/durable.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define CREATE_FILE ".record.db.new"

/* The words of record.h as SQL lists, so that the file refuses what the program would not write. */
#define WORD(id, text) ",'" text "'"
#define ONE_OF(column, table) "CHECK(" column " IN (''" table(WORD) "))"

static const char *const schema[] = {
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID",
    "CREATE TABLE versions("
    " number INTEGER PRIMARY KEY CHECK(number <> -1),"
    " state TEXT NOT NULL " ONE_OF(
        "state",
        VERSION_STATE_TABLE) ","
                             " step INTEGER, parents TEXT NOT NULL, sha TEXT, tree TEXT, reason TEXT, data TEXT,"
                             " added_ns INTEGER NOT NULL) STRICT",
    "CREATE TABLE steps("
    " number INTEGER PRIMARY KEY CHECK(number >= 0),"
    " state TEXT NOT NULL DEFAULT 'planned' " ONE_OF(
        "state", STEP_STATE_TABLE) ","
                                   " base_version INTEGER REFERENCES versions(number), version INTEGER REFERENCES "
                                   "versions(number),"
                                   " outcome TEXT, task_order TEXT, data TEXT,"
                                   " planned_ns INTEGER NOT NULL, updated_ns INTEGER NOT NULL) STRICT",
    "CREATE TABLE trials("
    " id INTEGER PRIMARY KEY,"
    " version INTEGER REFERENCES versions(number)," /* NULL: no candidate */
    " task TEXT NOT NULL, sample INTEGER NOT NULL, repeat INTEGER NOT NULL,"
    " step INTEGER NOT NULL REFERENCES steps(number),"
    " split TEXT NOT NULL " ONE_OF(
        "split",
        SPLIT_TABLE) ","
                     " incarnation INTEGER NOT NULL DEFAULT 1,"
                     " phase TEXT NOT NULL DEFAULT 'planned' " ONE_OF(
                         "phase",
                         PHASE_TABLE) ","
                                      " kind TEXT NOT NULL DEFAULT 'not-run' " ONE_OF(
                                          "kind",
                                          RESULT_TABLE) ","
                                                        " score REAL, metrics TEXT, feedback TEXT, reason TEXT, "
                                                        "reason_text TEXT,"
                                                        " reason_value REAL NOT NULL DEFAULT 0, reason_limit REAL NOT "
                                                        "NULL DEFAULT 0,"
                                                        " elapsed_ns INTEGER NOT NULL DEFAULT 0, grade TEXT, "
                                                        "output_tree TEXT, trajectory TEXT, evidence TEXT,"
                                                        " planned_ns INTEGER NOT NULL, updated_ns INTEGER NOT NULL,"
                                                        " CHECK((kind = 'scored') <= (score IS NOT NULL)),"
                                                        " CHECK((score IS NOT NULL) <= (kind IN "
                                                        "('scored','agent-limit'))),"
                                                        " CHECK((kind <> 'not-run') <= (phase = 'settled'))) STRICT",
    "CREATE UNIQUE INDEX trials_key ON trials(step, split, coalesce(version, -1), repeat, task, sample)",
    "CREATE INDEX trials_unsettled ON trials(id) WHERE phase <> 'settled'",
    "CREATE TABLE sandboxes("
    " id INTEGER PRIMARY KEY,"
    " phase TEXT NOT NULL DEFAULT 'open' " ONE_OF(
        "phase", SANDBOX_PHASE_TABLE) ","
                                      " role TEXT, environment TEXT, mechanism TEXT, name TEXT, asked TEXT,"
                                      " grade TEXT, enforced TEXT, checked TEXT, how TEXT,"
                                      " opened_ns INTEGER NOT NULL, updated_ns INTEGER NOT NULL) STRICT",
    "CREATE INDEX sandboxes_unclosed ON sandboxes(id) WHERE phase <> 'closed'",
    "CREATE TABLE calls("
    " id INTEGER PRIMARY KEY,"
    " kind TEXT NOT NULL " ONE_OF(
        "kind",
        CALL_KIND_TABLE) ","
                         " trial INTEGER REFERENCES trials(id), incarnation INTEGER NOT NULL,"
                         " step INTEGER, sandbox INTEGER REFERENCES sandboxes(id), parent INTEGER REFERENCES calls(id),"
                         " environment TEXT, model TEXT, spec TEXT,"
                         " phase TEXT NOT NULL DEFAULT 'planned' " ONE_OF(
                             "phase",
                             PHASE_TABLE) ","
                                          " outside_name TEXT,"
                                          " exit TEXT NOT NULL DEFAULT 'unknown' " ONE_OF(
                                              "exit",
                                              EXIT_TABLE) ","
                                                          " code INTEGER NOT NULL DEFAULT 0, reason TEXT, grade TEXT, "
                                                          "output_tree TEXT, stdout TEXT, stderr TEXT,"
                                                          " wall_ns INTEGER NOT NULL DEFAULT -1, cpu_ns INTEGER NOT "
                                                          "NULL DEFAULT -1, rss_bytes INTEGER NOT NULL DEFAULT -1,"
                                                          " requests INTEGER NOT NULL DEFAULT 0, tokens_in INTEGER NOT "
                                                          "NULL DEFAULT 0,"
                                                          " tokens_out INTEGER NOT NULL DEFAULT 0, tokens_cached "
                                                          "INTEGER NOT NULL DEFAULT 0, usd REAL, data TEXT,"
                                                          " planned_ns INTEGER NOT NULL, updated_ns INTEGER NOT NULL) "
                                                          "STRICT",
    "CREATE INDEX calls_trial ON calls(trial)",
    "CREATE INDEX calls_unsettled ON calls(id) WHERE phase <> 'settled'",
    "CREATE TABLE objects(digest TEXT PRIMARY KEY, size INTEGER NOT NULL, data BLOB) STRICT",
    "CREATE TABLE events("
    " seq INTEGER PRIMARY KEY, wall_ns INTEGER NOT NULL, kind TEXT NOT NULL, subject TEXT NOT NULL,"
    " data TEXT NOT NULL, hash TEXT NOT NULL CHECK(length(hash) = 64)) STRICT",
    "CREATE TRIGGER events_no_update BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'events are append-only'); END",
    "CREATE TRIGGER events_no_delete BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'events are append-only'); END",
    "INSERT INTO meta(key, value) VALUES('" META_CLEAN "', '1'), ('" META_HEAD "', '0:')",
};

int record_sql_error(sqlite3 *db, int rc, struct orch_err *err, const char *what)
{
    static const struct {
        int rc, code;
    } rows[] = {
        {SQLITE_FULL, ORCH_E_NO_SPACE},  {SQLITE_IOERR, ORCH_E_IO},       {SQLITE_CORRUPT, ORCH_E_DAMAGED},
        {SQLITE_NOTADB, ORCH_E_DAMAGED}, {SQLITE_BUSY, ORCH_E_IO},        {SQLITE_LOCKED, ORCH_E_IO},
        {SQLITE_CANTOPEN, ORCH_E_IO},    {SQLITE_READONLY, ORCH_E_IO},    {SQLITE_NOMEM, ORCH_E_IO},
        {SQLITE_PROTOCOL, ORCH_E_IO},    {SQLITE_PERM, ORCH_E_IO},        {SQLITE_TOOBIG, ORCH_E_LIMIT},
        {SQLITE_SCHEMA, ORCH_E_DAMAGED}, {SQLITE_FORMAT, ORCH_E_DAMAGED},
    };
    int code = ORCH_E_INTERNAL;
    int sys = db ? sqlite3_system_errno(db) : 0;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].rc == (rc & 0xff)) {
            code = rows[i].code;
        }
    }
    if (code == ORCH_E_IO && (sys == ENOSPC || sys == EDQUOT)) {
        code = ORCH_E_NO_SPACE;
    }
    return err_set_at(err, code, code == ORCH_E_IO || code == ORCH_E_NO_SPACE ? sys : 0, __FILE__, __LINE__,
                      "record: %s: %s", what, db ? sqlite3_errmsg(db) : sqlite3_errstr(rc));
}

int record_exec(sqlite3 *db, const char *sql, struct orch_err *err)
{
    int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0 : record_sql_error(db, rc, err, sql);
}

int record_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **ret, struct orch_err *err)
{
    int rc = sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, ret, NULL);
    return rc == SQLITE_OK ? 0 : record_sql_error(db, rc, err, sql);
}

bool record_on_network(const char *path)
{
    static const long kinds[] = {NFS_SUPER_MAGIC, SMB_SUPER_MAGIC,  SMB2_SUPER_MAGIC,      CIFS_SUPER_MAGIC, V9FS_MAGIC,
                                 AFS_SUPER_MAGIC, CEPH_SUPER_MAGIC, 0x65735546 /* FUSE */, 0x0BD00BD0 /* Lustre */};
    struct statfs fs;
    if (statfs(path, &fs) < 0) {
        return true; /* the rollback journal works everywhere */
    }
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if ((long)fs.f_type == kinds[i]) {
            return true;
        }
    }
    return false;
}

/* A read-only medium cannot hold the shared index of a WAL; without a log there is nothing in it to miss. */
static char *immutable_uri(const char *path)
{
    struct buf uri;
    buf_init(&uri, BUF_MAX_LINE);
    buf_str(&uri, "file:");
    for (const char *p = path; *p; p++) {
        if (strchr("%?#", *p)) {
            buf_fmt(&uri, "%%%02X", (unsigned char)*p);
        } else {
            buf_char(&uri, *p);
        }
    }
    buf_str(&uri, "?immutable=1");
    return buf_take(&uri, NULL);
}

static int touch_schema(sqlite3 *db)
{
    sqlite3_busy_timeout(db, RECORD_BUSY_MS);
    return sqlite3_exec(db, "SELECT 1 FROM sqlite_schema LIMIT 1", NULL, NULL, NULL);
}

/* A dead writer's rollback journal can only be played back by one who may write. */
static void recover_journal(const char *path)
{
    sqlite3 *db = NULL;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) == SQLITE_OK) {
        (void)touch_schema(db);
    }
    sqlite3_close(db);
}

static int open_reader(const char *path, sqlite3 **ret)
{
    AUTO_FREE char *wal = xasprintf("%s-wal", path);
    AUTO_FREE char *journal = xasprintf("%s-journal", path);
    const int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    int rc = sqlite3_open_v2(path, ret, flags, NULL);
    if (rc == SQLITE_OK) {
        rc = touch_schema(*ret);
    }
    if (rc == SQLITE_READONLY_ROLLBACK) {
        recover_journal(path);
        rc = touch_schema(*ret);
    }
    if (((rc & 0xff) == SQLITE_CANTOPEN || (rc & 0xff) == SQLITE_READONLY) && access(path, R_OK) == 0 &&
        access(wal, F_OK) < 0 && access(journal, F_OK) < 0) {
        AUTO_FREE char *uri = immutable_uri(path);
        sqlite3_close(*ret);
        *ret = NULL;
        rc = sqlite3_open_v2(uri, ret, flags | SQLITE_OPEN_URI, NULL);
    }
    return rc;
}

int record_connect(const char *path, bool writable, sqlite3 **ret, struct orch_err *err)
{
    sqlite3 *db = NULL;
    int rc = writable
                 ? sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL)
                 : open_reader(path, &db);
    if (rc != SQLITE_OK) {
        record_sql_error(db, rc, err, "open");
        sqlite3_close(db);
        return err->code;
    }
    sqlite3_busy_timeout(db, RECORD_BUSY_MS);
    /* Closing must never change a file that was refused; a clean close checkpoints on purpose. */
    sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, (int)(RECORD_TEXT_MAX * 2));
    if (record_exec(db,
                    "PRAGMA foreign_keys=ON; PRAGMA cell_size_check=ON; PRAGMA temp_store=MEMORY; "
                    "PRAGMA cache_size=-256",
                    err) < 0) {
        sqlite3_close(db);
        return err->code;
    }
    *ret = db;
    return 0;
}

static uint32_t big_endian(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* The header by hand, before SQLite may touch anything (https://www.sqlite.org/fileformat2.html, 1.3). */
int record_file_check(const char *path, struct orch_err *err)
{
    unsigned char header[100];
    AUTO_FD int fd = fd_open(path, O_RDONLY, 0, err);

    if (fd < 0) {
        return fd;
    }
    ssize_t n = pread(fd, header, sizeof header, 0);
    if (n < 0) {
        return err_errno(err, ORCH_E_IO, "read %s", path);
    }
    if (n < (ssize_t)sizeof header || memcmp(header, "SQLite format 3", 16) != 0) {
        return err_set(err, ORCH_E_DAMAGED, "%s is not a record: its header is damaged", path);
    }
    if (big_endian(header + 68) != RECORD_APPLICATION_ID) {
        return err_set(err, ORCH_E_DAMAGED, "%s is not a record of orch", path);
    }
    uint32_t schema_version = big_endian(header + 60);
    if (schema_version > RECORD_SCHEMA) {
        return err_set(err, ORCH_E_DAMAGED, "%s was written by a newer orch (schema %u, this one knows %d)", path,
                       schema_version, RECORD_SCHEMA);
    }
    if (schema_version < 1) {
        return err_set(err, ORCH_E_DAMAGED, "%s has no schema version", path);
    }
    struct stat st;
    uint32_t page = (uint32_t)header[16] << 8 | header[17];
    page = page == 1 ? 65536 : page;
    if (fstat(fd, &st) < 0) {
        return err_errno(err, ORCH_E_IO, "stat %s", path);
    }
    if (page < 512 || (page & (page - 1)) != 0 || st.st_size % page != 0) {
        return err_set(err, ORCH_E_DAMAGED, "%s was cut: %lld bytes are no whole number of pages", path,
                       (long long)st.st_size);
    }
    return 0;
}

static int fill_new_file(const char *path, struct orch_err *err)
{
    sqlite3 *db = NULL;
    int rc = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    int r = rc == SQLITE_OK ? 0 : record_sql_error(db, rc, err, "create");
    char pragma[160];

    snprintf(pragma, sizeof pragma,
             "PRAGMA journal_mode=DELETE; PRAGMA synchronous=FULL; PRAGMA application_id=%d; BEGIN",
             RECORD_APPLICATION_ID);
    r = r < 0 ? r : record_exec(db, pragma, err);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(schema); i++) {
        r = record_exec(db, schema[i], err);
    }
    snprintf(pragma, sizeof pragma, "PRAGMA user_version=%d; COMMIT", RECORD_SCHEMA);
    r = r < 0 ? r : record_exec(db, pragma, err);
    sqlite3_close(db);
    return r;
}

/* Under another name first: a crash never leaves a record.db without its tables. */
int record_file_create(const char *run_dir, struct orch_err *err)
{
    AUTO_FREE char *temp = path_join(run_dir, CREATE_FILE);
    AUTO_FREE char *journal = xasprintf("%s-journal", temp);
    AUTO_FD int dirfd = fd_open(run_dir, O_RDONLY | O_DIRECTORY, 0, err);

    if (dirfd < 0) {
        return dirfd;
    }
    (void)unlink(temp);
    (void)unlink(journal);
    TRY(fill_new_file(temp, err));
    if (chmod(temp, 0600) < 0) {
        return err_errno(err, ORCH_E_IO, "chmod %s", temp);
    }
    TRY(fault_point(FAULT_RECORD_CREATE, err));
    if (linkat(dirfd, CREATE_FILE, dirfd, RECORD_FILE, 0) < 0) { /* never over an existing one */
        int code = errno == EEXIST ? ORCH_E_FAILED : ORCH_E_IO;
        err_errno(err, code, "create %s/%s", run_dir, RECORD_FILE);
        (void)unlink(temp);
        return err->code;
    }
    (void)unlink(temp);
    return durable_sync_dir(dirfd, err);
}

static void hash_number(struct digest *d, int64_t value)
{
    char text[32];
    digest_add(d, text, (size_t)snprintf(text, sizeof text, "%lld\n", (long long)value));
}

/* sha256 over "previous\nseq\nwall_ns\nkind\nsubject\ndata", previous "" for the first: anyone can recompute it. Only
 * data may hold a newline, and it is last. */
void record_event_hash(struct digest *d, const char *previous, int64_t seq, int64_t wall_ns, const char *kind,
                       const char *subject, const char *data, char out[RECORD_HASH_MAX])
{
    char text[DIGEST_TEXT_MAX];

    digest_add(d, previous, strlen(previous));
    digest_add(d, "\n", 1);
    hash_number(d, seq);
    hash_number(d, wall_ns);
    digest_add(d, kind, strlen(kind));
    digest_add(d, "\n", 1);
    digest_add(d, subject, strlen(subject));
    digest_add(d, "\n", 1);
    digest_add(d, data, strlen(data));
    digest_text(d, text);
    memcpy(out, text + sizeof "sha256:" - 1, RECORD_HASH_MAX);
}
