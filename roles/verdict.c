/* SPDX-License-Identifier: Apache-2.0 */
#include "roles/verdict.h"

#include "base/fd.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

void verdict_done(struct verdict *v)
{
    json_decref(v->metrics);
    free(v->feedback);
    *v = (struct verdict){0};
}

static int check_metric(const char *name, const json_t *m, struct orch_err *err)
{
    if (json_is_number(m)) {
        return 0;
    }
    if (!json_is_object(m) || !json_is_number(json_object_get(m, "value"))) {
        return err_set(err, ORCH_E_FAILED, "verdict: metric \"%s\" is neither a number nor {\"value\": number, …}",
                       name);
    }
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)m, key, value)
    {
        bool known =
            strcmp(key, "value") == 0 || (strcmp(key, "unit") == 0 && json_is_string(value)) ||
            (strcmp(key, "better") == 0 && json_is_string(value) &&
             (strcmp(json_string_value(value), "higher") == 0 || strcmp(json_string_value(value), "lower") == 0));
        if (!known) {
            return err_set(err, ORCH_E_FAILED, "verdict: metric \"%s\" has a wrong member \"%s\"", name, key);
        }
    }
    return 0;
}

static int check_members(json_t *root, struct orch_err *err)
{
    const char *key;
    json_t *value;
    json_object_foreach(root, key, value)
    {
        if (strcmp(key, "score") == 0 && json_is_number(value)) {
            continue;
        }
        if (strcmp(key, "feedback") == 0 && json_is_string(value)) {
            continue;
        }
        if (strcmp(key, "metrics") != 0 || !json_is_object(value)) {
            return err_set(err, ORCH_E_FAILED,
                           "verdict: member \"%s\" is not known or has the wrong type; known: score (number), metrics "
                           "(object), feedback (text)",
                           key);
        }
        const char *name;
        json_t *metric;
        json_object_foreach(value, name, metric)
        {
            TRY(check_metric(name, metric, err));
        }
    }
    return 0;
}

int verdict_parse(const char *data, size_t len, struct verdict *ret, struct orch_err *err)
{
    AUTO_JSON json_t *root = NULL;
    int code = json_parse(data, len, VERDICT_MAX, &root, err);
    if (code < 0) {
        err_wrap(err, "verdict");
        err->code = ORCH_E_FAILED;
        return err->code;
    }
    if (!json_is_object(root) && !json_is_number(root)) {
        return err_set(err, ORCH_E_FAILED, "verdict: neither an object nor a number");
    }
    const json_t *score = json_is_object(root) ? json_object_get(root, "score") : root;
    if (!json_is_number(score) || !isfinite(json_number_value(score))) {
        return err_set(err, ORCH_E_FAILED, "verdict: no finite number \"score\"");
    }
    if (fabs(json_number_value(score)) > VERDICT_SCORE_MAX) {
        return err_set(err, ORCH_E_FAILED, "verdict: the score is beyond %g", VERDICT_SCORE_MAX);
    }
    if (json_is_object(root)) {
        TRY(check_members(root, err));
    }
    *ret = (struct verdict){
        .score = json_number_value(score),
        .metrics = json_incref(json_object_get(root, "metrics")),
        .feedback = xstrdup(json_get_str(root, "feedback", "")),
    };
    return 0;
}

int verdict_read(int dirfd, struct verdict *ret, struct orch_err *err)
{
    AUTO_FREE char *data = NULL;
    size_t len = 0;
    TRY(fd_read_file_at(dirfd, VERDICT_FILE, VERDICT_MAX, &data, &len, err));
    if (len == 0) {
        return err_set(err, ORCH_E_NOT_FOUND, "%s is empty", VERDICT_FILE);
    }
    return verdict_parse(data, len, ret, err);
}
