/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by record*.c only. */
#ifndef ORCH_STATE_RECORD_INTERNAL_H
#define ORCH_STATE_RECORD_INTERNAL_H

#include "state/record.h"

#include <pthread.h>
#include <sqlite3.h>

#define RECORD_APPLICATION_ID 0x6f726368 /* "orch" */
#define RECORD_FILE "record.db"
#define RECORD_BUSY_MS 20000
#define RECORD_GATHER_NS (INT64_C(10) * 1000000) /* how long the first operation of a commit waits for others */
#define RECORD_HASH_MAX 65
#define META_CLEAN "_clean" /* "1": the last writer closed it */
#define META_HEAD "_head"   /* "seq:hash" of the last event: a cut tail shows */

/* One statement an operation; its parameters are the operation's values in order. `rows`: rows it must change, -1: any.
 */
#define OP_TABLE(X)                                                                                                    \
    X(EVENT, 0, NULL)                                                                                                  \
    X(META_SET, 1, "INSERT INTO meta(key,value) VALUES(?,?) ON CONFLICT(key) DO UPDATE SET value=excluded.value")      \
    X(TRIAL_PLAN, 1,                                                                                                   \
      "INSERT INTO trials(planned_ns,updated_ns,id,version,task,sample,repeat,step,split)"                             \
      " VALUES(?1,?1,?2,?3,?4,?5,?6,?7,?8)")                                                                           \
    X(TRIAL_PHASE, 1, "UPDATE trials SET updated_ns=?1,phase=?3 WHERE id=?2")                                          \
    X(TRIAL_AGAIN, 1,                                                                                                  \
      "UPDATE trials SET updated_ns=?1,phase='planned',incarnation=?3,kind='not-run',score=NULL,metrics=NULL,"         \
      "feedback=NULL,reason=NULL,reason_text=NULL,reason_value=0,reason_limit=0,elapsed_ns=0,grade=NULL,"              \
      "output_tree=NULL,trajectory=NULL,evidence=NULL WHERE id=?2")                                                    \
    X(TRIAL_SETTLE, 1,                                                                                                 \
      "UPDATE trials SET updated_ns=?1,phase='settled',kind=?3,score=?4,metrics=?5,feedback=?6,reason=?7,"             \
      "reason_text=?8,reason_value=?9,reason_limit=?10,elapsed_ns=?11,grade=?12,output_tree=?13,trajectory=?14,"       \
      "evidence=?15 WHERE id=?2")                                                                                      \
    X(CALL_PLAN, 1,                                                                                                    \
      "INSERT INTO calls(planned_ns,updated_ns,id,kind,trial,incarnation,step,sandbox,parent,environment,model,spec)"  \
      " VALUES(?1,?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11)")                                                                \
    X(CALL_PHASE, 1, "UPDATE calls SET updated_ns=?1,phase=?3,outside_name=coalesce(?4,outside_name) WHERE id=?2")     \
    X(CALL_SETTLE, 1,                                                                                                  \
      "UPDATE calls SET updated_ns=?1,phase='settled',exit=?3,code=?4,reason=?5,grade=?6,output_tree=?7,stdout=?8,"    \
      "stderr=?9,wall_ns=?10,cpu_ns=?11,rss_bytes=?12,requests=?13,tokens_in=?14,tokens_out=?15,tokens_cached=?16,"    \
      "usd=?17,data=?18 WHERE id=?2")                                                                                  \
    X(SANDBOX_OPEN, 1,                                                                                                 \
      "INSERT INTO sandboxes(opened_ns,updated_ns,id,role,environment,mechanism,name,asked)"                           \
      " VALUES(?1,?1,?2,?3,?4,?5,?6,?7)")                                                                              \
    X(SANDBOX_CHECKED, 1,                                                                                              \
      "UPDATE sandboxes SET updated_ns=?1,phase='checked',grade=?3,enforced=?4,checked=?5 WHERE id=?2")                \
    X(SANDBOX_CLOSED, 1, "UPDATE sandboxes SET updated_ns=?1,phase='closed',how=?3 WHERE id=?2")                       \
    X(STEP_PLAN, 1, "INSERT INTO steps(planned_ns,updated_ns,number,base_version,task_order) VALUES(?1,?1,?2,?3,?4)")  \
    X(STEP_STATE, 1, "UPDATE steps SET updated_ns=?1,state=?3,data=coalesce(?4,data) WHERE number=?2")                 \
    X(STEP_SETTLE, 1,                                                                                                  \
      "UPDATE steps SET updated_ns=?1,state='settled',outcome=?3,version=?4,data=coalesce(?5,data) WHERE number=?2")   \
    X(VERSION_ADD, 1,                                                                                                  \
      "INSERT INTO versions(added_ns,number,state,step,parents,sha,tree,reason,data) VALUES(?,?,?,?,?,?,?,?,?)")       \
    X(VERSION_STATE, 1, "UPDATE versions SET state=?3,reason=?4 WHERE number=?2 AND ?1 IS NOT NULL")                   \
    X(OBJECT_ADD, -1, "INSERT OR IGNORE INTO objects(digest,size,data) VALUES(?,?,?)")

enum op_kind {
#define X(id, rows, sql) OP_##id,
    OP_TABLE(X)
#undef X
        OP_COUNT
};

enum value_type { VALUE_NULL, VALUE_INT, VALUE_REAL, VALUE_TEXT, VALUE_BLOB };
struct value {
    enum value_type type;
    size_t len; /* of text, blob */
    union {
        int64_t i;
        double r;
        const char *text;
    };
};
#define OP_VALUES_MAX 18

/* One posted operation: one allocation, its texts behind it. */
struct op {
    struct op *next;
    enum op_kind kind;
    enum durability durability;
    void (*done)(void *arg, int code);
    void *arg;
    int code;
    size_t size;
    int64_t wall_ns;
    const char *event, *subject, *data; /* event NULL: none */
    int count;
    struct value values[];
};

struct op_list {
    struct op *first, *last;
    size_t count;
    size_t bytes;
};

/* What the state machines need of a trial, call or sandbox: four bytes each. */
struct slot {
    uint8_t phase;
    uint8_t kind;
    uint16_t incarnation;
};
struct slots {
    struct slot *items; /* of id - 1 */
    size_t count, cap;
};

struct record {
    struct clock clock;
    enum record_mode mode;
    char *path;
    bool rollback_journal;

    sqlite3 *write; /* of the writer thread while it runs */
    sqlite3_stmt *statements[OP_COUNT];
    sqlite3_stmt *insert_event;
    struct digest *hasher;
    int64_t event_seq;
    char event_hash[RECORD_HASH_MAX];
    bool full_sync; /* what PRAGMA synchronous is now */

    sqlite3 *read;
    pthread_mutex_t read_lock;

    pthread_mutex_t lock; /* all below */
    pthread_cond_t work, space, idle;
    pthread_t thread;
    bool started, stop;
    bool urgent; /* what is queued is to be committed now, not when more has gathered */
    struct op_list queue, finished;
    uint64_t posted, settled; /* operations, since opening */
    struct orch_err poison;   /* code 0: none */
    struct slots trials, calls, sandboxes;
    struct slots steps, versions; /* by number (see version_slot); phase 255: absent */
    void (*notify)(void *arg);
    void *notify_arg;
};

#define SLOT_ABSENT 255

struct slot *slots_at(struct slots *s, int64_t id);                    /* NULL when there is none */
struct slot *slots_put(struct slots *s, int64_t id, struct slot slot); /* grows; gaps are absent */
int64_t version_slot(int64_t number);                                  /* index of a version, from 1 */

/* record_schema.c */
int record_sql_error(sqlite3 *db, int rc, struct orch_err *err, const char *what);
int record_exec(sqlite3 *db, const char *sql, struct orch_err *err);
int record_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **ret, struct orch_err *err);
int record_file_create(const char *run_dir, struct orch_err *err);
int record_file_check(const char *path, struct orch_err *err);
int record_connect(const char *path, bool writable, sqlite3 **ret, struct orch_err *err);
bool record_on_network(const char *path);
void record_event_hash(struct digest *d, const char *previous, int64_t seq, int64_t wall_ns, const char *kind,
                       const char *subject, const char *data, char out[RECORD_HASH_MAX]);

/* record_writer.c */
void *record_writer_main(void *rec);
void record_hurry(struct record *rec); /* locked: the writer gathers no longer */
void op_list_push(struct op_list *list, struct op *op);
void op_list_free(struct op_list *list);

#endif
