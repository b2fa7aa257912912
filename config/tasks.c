/* SPDX-License-Identifier: Apache-2.0 */
#include "config/tasks.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "config/tasks_ids.h"
#include "config/tasks_scan.h"
#include "config/units.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK ((size_t)256 << 10)
#define NEAREST_TRIES 8 /* findings for which all ids are looked through */

const char *const tasks_split_names[] = {"train", "val", "test", NULL};

struct row {
    char *id;
    int64_t offset;
    uint64_t check; /* first half of the row's digest: tells whether the file still holds it */
    uint32_t len;
    int line;
};

struct split {
    size_t *rows;
    size_t count;
    char digest[DIGEST_TEXT_MAX];
};

struct tasks {
    int fd;
    char *place;
    char **answers;
    struct row *rows;
    size_t count;
    struct map *by_folded_id; /* → row number + 1 */
    struct split splits[TASKS_SPLIT_COUNT];
    char digest[DIGEST_TEXT_MAX];
};

void tasks_free(struct tasks *tasks)
{
    if (tasks == NULL) {
        return;
    }
    fd_close(&tasks->fd);
    for (size_t i = 0; i < tasks->count; i++) {
        free(tasks->rows[i].id);
    }
    for (size_t i = 0; i < TASKS_SPLIT_COUNT; i++) {
        free(tasks->splits[i].rows);
    }
    free(tasks->rows);
    map_free(tasks->by_folded_id);
    strv_free(tasks->answers);
    free(tasks->place);
    free(tasks);
}

void tasks_release(struct tasks **tasks)
{
    tasks_free(*tasks);
    *tasks = NULL;
}

static uint64_t row_check(const char *text, size_t len)
{
    char digest[DIGEST_TEXT_MAX];
    digest_of(text, len, digest);
    char half[17];
    memcpy(half, strchr(digest, ':') + 1, 16);
    half[16] = '\0';
    return strtoull(half, NULL, 16);
}

/* --- rows --- */

/* The exact decimal text of a whole number, or the text of a string; NULL after a finding. */
static char *id_text(const struct tasks_member *m, const char *place, int line, struct config_findings *findings)
{
    char *text = tasks_scan_text(m->value, m->value_len);
    if (text != NULL) {
        return text;
    }
    size_t sign = m->value[0] == '-';
    size_t digits = strspn(m->value + sign, "0123456789");
    if (digits > 0 && sign + digits == m->value_len) {
        return strncmp(m->value, "-0", m->value_len) == 0 ? xstrdup("0") : xmemdup0(m->value, m->value_len);
    }
    config_findings_add(findings, "bad-id", place, line, 0, "text or a whole number", NULL, "quote the id",
                        "the id is `%.*s`", (int)(m->value_len < 40 ? m->value_len : 40), m->value);
    return NULL;
}

static char *find_id(const char *text, size_t len, const char *place, int line, struct config_findings *findings)
{
    struct tasks_member m = {.key = NULL};
    struct tasks_member id = {.key = NULL};
    struct tasks_member task_id = {.key = NULL};
    for (size_t at = 0; tasks_scan_next(text, len, &at, &m);) {
        if (tasks_scan_key_is(&m, "id")) {
            id = m;
        } else if (tasks_scan_key_is(&m, "task_id")) {
            task_id = m;
        }
    }
    const struct tasks_member *used = id.key != NULL ? &id : &task_id;
    if (used->key == NULL) {
        config_findings_add(findings, "missing-key", place, line, 1, "an `id` (or `task_id`) in each row", NULL,
                            "add \"id\": \"…\"", "the row has no `id`");
        return NULL;
    }
    return id_text(used, place, line, findings);
}

static bool is_taken(struct tasks *t, const char *id, const char *folded, int line, struct config_findings *findings)
{
    size_t other = (size_t)(uintptr_t)map_get(t->by_folded_id, folded);
    if (other == 0) {
        return false;
    }
    const struct row *first = &t->rows[other - 1];
    if (strcmp(first->id, id) == 0) {
        config_findings_add(findings, "duplicate-id", t->place, line, 0, "each id once (1 and \"1\" are the same)",
                            NULL, "rename one of them", "id `%s` is given twice: on line %d and on line %d", id,
                            first->line, line);
    } else {
        config_findings_add(findings, "alike-ids", t->place, line, 0,
                            "ids that differ in more than case or Unicode form", NULL, "rename one of them",
                            "id `%s` on line %d and id `%s` on line %d differ only in case or Unicode form", first->id,
                            first->line, id, line);
    }
    return true;
}

static void add_row(struct tasks *t, const char *text, size_t len, int64_t offset, int line,
                    struct config_findings *findings)
{
    if (!tasks_scan_valid(text, len, t->place, line, findings)) {
        return;
    }
    AUTO_FREE char *id = find_id(text, len, t->place, line, findings);
    if (id == NULL) {
        return;
    }
    const char *fault = tasks_id_fault(id);
    if (fault != NULL) {
        config_findings_add(findings, "bad-id", t->place, line, 0, "1 to 200 bytes of visible text", NULL,
                            "rename the task", "%s: `%.40s`", fault, id);
        return;
    }
    AUTO_FREE char *folded = tasks_id_folded(id);
    if (is_taken(t, id, folded, line, findings)) {
        return;
    }
    if ((t->count & (t->count - 1)) == 0) {
        t->rows = xrealloc(t->rows, (t->count == 0 ? 1 : t->count * 2) * sizeof(*t->rows));
    }
    t->rows[t->count] =
        (struct row){.offset = offset, .len = (uint32_t)len, .line = line, .check = row_check(text, len)};
    t->rows[t->count].id = take(id);
    t->count++;
    map_set(t->by_folded_id, folded, (void *)(uintptr_t)t->count);
}

/* The file as lines, each at its offset, in bounded memory. */
struct lines {
    int fd;
    char *data;
    size_t start, len, cap; /* the unread bytes are data[start .. start + len) */
    int64_t offset;         /* of data[start] in the file */
    int line;
    bool end;
    struct digest *digest;
};

static int fill(struct lines *l, const char *place, struct orch_err *err)
{
    if (l->start > 0) {
        memmove(l->data, l->data + l->start, l->len);
        l->start = 0;
    }
    if (l->len + CHUNK > l->cap) {
        l->cap = l->len + CHUNK;
        l->data = xrealloc(l->data, l->cap);
    }
    ssize_t n;
    do {
        n = read(l->fd, l->data + l->len, CHUNK);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return err_errno(err, ORCH_E_IO, "read %s", place);
    }
    l->end = n == 0;
    digest_add(l->digest, l->data + l->len, (size_t)n);
    l->len += (size_t)n;
    return 0;
}

static void use_line(struct tasks *t, const struct lines *l, size_t len, struct config_findings *findings)
{
    const char *text = l->data + l->start;
    int64_t offset = l->offset;
    if (l->line == 1 && len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        text += 3;
        len -= 3;
        offset += 3;
    }
    while (len > 0 && (text[len - 1] == '\r' || text[len - 1] == ' ' || text[len - 1] == '\t')) {
        len--;
    }
    while (len > 0 && (text[0] == ' ' || text[0] == '\t')) {
        text++;
        len--;
        offset++;
    }
    if (len > 0) {
        add_row(t, text, len, offset, l->line, findings);
    }
}

static int read_rows(struct tasks *t, struct lines *l, struct config_findings *findings, struct orch_err *err)
{
    size_t searched = 0;
    while (!l->end || l->len > 0) {
        const char *begin = l->data + l->start;
        const char *newline = l->len > searched ? memchr(begin + searched, '\n', l->len - searched) : NULL;
        if (newline == NULL && !l->end) {
            searched = l->len;
            if (l->len > TASKS_ROW_BYTES_MAX) {
                config_findings_add(findings, "too-large", t->place, l->line, 0, "at most 16 MiB a row", NULL,
                                    "keep large inputs in files", "the row is too large");
                return 0;
            }
            TRY(fill(l, t->place, err));
            continue;
        }
        size_t len = newline == NULL ? l->len : (size_t)(newline - begin);
        if (t->count >= TASKS_ROWS_MAX) {
            config_findings_add(findings, "too-large", t->place, l->line, 0, "at most 4000000 tasks", NULL,
                                "split the data", "there are too many tasks");
            return 0;
        }
        use_line(t, l, len, findings);
        size_t used = newline == NULL ? len : len + 1;
        l->start += used;
        l->len -= used;
        l->offset += (int64_t)used;
        l->line++;
        searched = 0;
    }
    return 0;
}

static int open_rows(struct tasks *t, struct config_findings *findings, struct orch_err *err)
{
    int fd = fd_open(t->place, O_RDONLY | O_NONBLOCK, 0, err);
    if (fd < 0) {
        return err_wrap(err, "data.tasks");
    }
    t->fd = fd;
    struct stat st;
    if (fstat(fd, &st) < 0) {
        return err_errno(err, ORCH_E_IO, "look at %s", t->place);
    }
    if (!S_ISREG(st.st_mode)) {
        return err_set(err, ORCH_E_CONFIG, "data.tasks: %s is not a regular file", t->place);
    }
    AUTO_DIGEST struct digest *digest = digest_new();
    struct lines l = {.fd = fd, .line = 1, .digest = digest};
    int code = read_rows(t, &l, findings, err);
    free(l.data);
    digest_text(digest, t->digest);
    TRY(code);
    if (t->count == 0 && findings->count == 0) {
        config_findings_add(findings, "no-tasks", t->place, 0, 0, "one JSON object a line", NULL, "add tasks",
                            "the file holds no task");
    }
    return 0;
}

/* --- splits --- */

struct membership {
    unsigned char split; /* + 1; 0: in none */
    int line;
};

struct splitting {
    struct tasks *tasks;
    const struct tasks_source *source;
    struct membership *members; /* a row each */
    struct config_findings *findings;
    size_t nearest_left;
};

static const char *nearest_id(struct splitting *s, const char *id)
{
    const struct tasks *t = s->tasks;
    if (strlen(id) > TASKS_ID_BYTES_MAX) {
        return NULL; /* no id of ours is near: not worth the search */
    }
    AUTO_FREE char *folded = tasks_id_folded(id);
    size_t alike = (size_t)(uintptr_t)map_get(t->by_folded_id, folded);
    if (alike > 0) {
        return t->rows[alike - 1].id;
    }
    if (s->nearest_left == 0) {
        return NULL;
    }
    s->nearest_left--;
    const char *best = NULL;
    int best_score = 3;
    for (size_t i = 0; i < t->count; i++) {
        int score = units_distance(id, t->rows[i].id, 2);
        if (score < best_score) {
            best_score = score;
            best = t->rows[i].id;
        }
    }
    return best;
}

static void add_member(struct splitting *s, enum tasks_split split, const char *id, int line)
{
    const char *place = s->source->split[split];
    size_t row;
    if (!tasks_find(s->tasks, id, &row)) {
        AUTO_FREE char *expected = xasprintf("an id of %s", s->tasks->place);
        config_findings_add(s->findings, "unknown-id", place, line, 1, expected, nearest_id(s, id),
                            "correct the id, or remove the line", "id `%.*s` is not in the data", TASKS_ID_BYTES_MAX,
                            id);
        return;
    }
    struct membership *m = &s->members[row];
    if (m->split == split + 1) {
        config_findings_add(s->findings, "duplicate-id", place, line, 1, "each id once in a split", NULL,
                            "remove one of the lines", "id `%s` is given twice: on line %d and on line %d", id, m->line,
                            line);
        return;
    }
    if (m->split != 0) {
        const char *other = s->source->split[m->split - 1];
        config_findings_add(s->findings, "overlap", place, line, 1, "splits that share no task", NULL,
                            "remove it from one of the files", "id `%s` is in two splits: %s:%d and %s:%d", id, other,
                            m->line, place, line);
        return;
    }
    *m = (struct membership){.split = (unsigned char)(split + 1), .line = line};
    struct split *out = &s->tasks->splits[split];
    if ((out->count & (out->count - 1)) == 0) {
        out->rows = xrealloc(out->rows, (out->count == 0 ? 1 : out->count * 2) * sizeof(*out->rows));
    }
    out->rows[out->count++] = row;
}

static int read_split(struct splitting *s, enum tasks_split split, struct orch_err *err)
{
    const char *place = s->source->split[split];
    AUTO_FREE char *data = NULL;
    size_t len;
    if (fd_read_file(place, TASKS_SPLIT_BYTES_MAX, &data, &len, err) < 0) {
        return err_wrap(err, "data.%s", tasks_split_names[split]);
    }
    digest_of(data, len, s->tasks->splits[split].digest);
    size_t at = len >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    size_t found = s->findings->count + s->findings->dropped;
    for (int line = 1; at < len; line++) {
        const char *newline = memchr(data + at, '\n', len - at);
        size_t end = newline == NULL ? len : (size_t)(newline - data);
        size_t start = at;
        at = end + 1;
        while (end > start && strchr(" \t\r", data[end - 1]) != NULL && data[end - 1] != '\0') {
            end--;
        }
        while (start < end && (data[start] == ' ' || data[start] == '\t')) {
            start++;
        }
        if (start == end || data[start] == '#') {
            continue;
        }
        AUTO_FREE char *id = xmemdup0(data + start, end - start);
        if (strlen(id) != end - start) {
            config_findings_add(s->findings, "bad-id", place, line, 1, "one id a line", NULL, "remove the line",
                                "the line holds a NUL");
            continue;
        }
        add_member(s, split, id, line);
    }
    bool trouble = s->findings->count + s->findings->dropped > found;
    if (s->tasks->splits[split].count == 0 && !trouble) {
        config_findings_add(s->findings, "no-tasks", place, 0, 0, "one id a line", NULL,
                            "add ids, or remove the split from the config", "the split holds no id");
    }
    return 0;
}

static int read_splits(struct tasks *t, const struct tasks_source *source, struct config_findings *findings,
                       struct orch_err *err)
{
    struct splitting s = {.tasks = t, .source = source, .findings = findings, .nearest_left = NEAREST_TRIES};
    AUTO_FREE struct membership *members = xcalloc(t->count + 1, sizeof(*members));
    s.members = members;
    for (enum tasks_split i = 0; i < TASKS_SPLIT_COUNT; i++) {
        if (source->split[i] != NULL) {
            TRY(read_split(&s, i, err));
        }
    }
    return 0;
}

int tasks_open(const struct tasks_source *source, struct tasks **ret_tasks, struct config_findings *findings,
               struct orch_err *err)
{
    AUTO_TASKS struct tasks *t = xcalloc(1, sizeof(*t));
    t->fd = -1;
    t->place = xstrdup(source->tasks);
    t->answers = strv_copy(source->answers);
    t->by_folded_id = map_new();
    TRY(open_rows(t, findings, err));
    /* Ids missing because their row has a fault would only be noise. */
    if (findings->count == 0) {
        TRY(read_splits(t, source, findings, err));
    }
    TRY(config_findings_result(findings, err));
    *ret_tasks = take(t);
    return 0;
}

/* --- use --- */

size_t tasks_count(const struct tasks *tasks)
{
    return tasks->count;
}

const char *tasks_id(const struct tasks *tasks, size_t row)
{
    return tasks->rows[row].id;
}

bool tasks_find(const struct tasks *tasks, const char *id, size_t *ret_row)
{
    AUTO_FREE char *folded = tasks_id_folded(id);
    size_t place = (size_t)(uintptr_t)map_get(tasks->by_folded_id, folded);
    if (place == 0 || strcmp(tasks->rows[place - 1].id, id) != 0) {
        return false;
    }
    *ret_row = place - 1;
    return true;
}

size_t tasks_split_count(const struct tasks *tasks, enum tasks_split split)
{
    return tasks->splits[split].count;
}

size_t tasks_split_row(const struct tasks *tasks, enum tasks_split split, size_t place)
{
    return tasks->splits[split].rows[place];
}

const char *tasks_digest(const struct tasks *tasks)
{
    return tasks->digest;
}

const char *tasks_split_digest(const struct tasks *tasks, enum tasks_split split)
{
    return tasks->splits[split].digest;
}

int tasks_read_row(const struct tasks *tasks, size_t row, char **ret_text, size_t *ret_len, struct orch_err *err)
{
    if (row >= tasks->count) {
        return err_set(err, ORCH_E_INTERNAL, "row %zu of %zu", row, tasks->count);
    }
    const struct row *r = &tasks->rows[row];
    AUTO_FREE char *text = xmalloc((size_t)r->len + 1);
    size_t len = 0;
    while (len < r->len) {
        ssize_t n = pread(tasks->fd, text + len, r->len - len, r->offset + (int64_t)len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return err_errno(err, ORCH_E_IO, "read %s", tasks->place);
        }
        if (n == 0) {
            break;
        }
        len += (size_t)n;
    }
    if (len != r->len || row_check(text, len) != r->check) {
        return err_set(err, ORCH_E_DRIFT, "%s:%d: task `%s` changed while the run was open", tasks->place, r->line,
                       r->id);
    }
    text[len] = '\0';
    *ret_text = take(text);
    *ret_len = len;
    return 0;
}

static bool is_answer(const struct tasks *tasks, const struct tasks_member *m)
{
    for (size_t i = 0; i < strv_len(tasks->answers); i++) {
        if (tasks_scan_key_is(m, tasks->answers[i])) {
            return true;
        }
    }
    return false;
}

int tasks_public_row(const struct tasks *tasks, size_t row, char **ret_text, size_t *ret_len, struct orch_err *err)
{
    AUTO_FREE char *text = NULL;
    size_t len = 0;
    TRY(tasks_read_row(tasks, row, &text, &len, err));
    AUTO_BUF struct buf b;
    buf_init(&b, len + 2);
    buf_char(&b, '{');
    struct tasks_member m = {.key = NULL};
    for (size_t at = 0; tasks_scan_next(text, len, &at, &m);) {
        if (!is_answer(tasks, &m)) {
            buf_str(&b, b.len > 1 ? "," : "");
            buf_add(&b, m.key, (size_t)(m.value + m.value_len - m.key));
        }
    }
    buf_char(&b, '}');
    if (b.overflow) {
        return err_set(err, ORCH_E_INTERNAL, "public row of `%s` is larger than the row", tasks->rows[row].id);
    }
    *ret_text = buf_take(&b, ret_len);
    return 0;
}
