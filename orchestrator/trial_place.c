/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/trial_place.h"

#include "base/fd.h"
#include "base/mem.h"

#include <fcntl.h>

static void place_free(struct trial_place *p)
{
    fd_close(&p->collected);
    fd_close(&p->verdict);
    fd_close(&p->home);
    free(p->path);
    free(p);
}

static int open_part(const struct trial_place *p, const char *name, mode_t mode, int *ret, struct orch_err *err)
{
    AUTO_FREE char *path = xasprintf("%s/%s", p->path, name);
    TRY(fd_mkdirs(path, mode, err));
    *ret = fd_open(path, O_RDONLY | O_DIRECTORY, 0, err);
    return *ret < 0 ? *ret : 0;
}

static int place_new(struct engine *e, struct trial_place **ret, struct orch_err *err)
{
    AUTO_FREE char *name = xasprintf("place-%zu", e->places_made++);
    struct trial_place *p = xcalloc(1, sizeof *p);
    *p = (struct trial_place){.collected = -1, .verdict = -1, .home = -1};
    int code = engine_fresh_dir(e, name, &p->path, err);
    code = code < 0 ? code : open_part(p, "collected", 0755, &p->collected, err);
    code = code < 0 ? code : open_part(p, "verdict", 0700, &p->verdict, err);
    code = code < 0 ? code : open_part(p, "home", 0700, &p->home, err);
    if (code < 0) {
        place_free(p);
        return code;
    }
    *ret = p;
    return 0;
}

int place_take(struct engine *e, struct trial_place **ret, struct orch_err *err)
{
    if (e->place_count == 0) {
        return place_new(e, ret, err);
    }
    *ret = e->places[--e->place_count];
    return 0;
}

void place_give(struct engine *e, struct trial_place *p)
{
    if (p == NULL) {
        return;
    }
    struct orch_err err = ERR_INIT;
    if (fd_empty_dir(p->collected, &err) < 0 || fd_empty_dir(p->verdict, &err) < 0 || fd_empty_dir(p->home, &err) < 0) {
        place_free(p); /* engine_close removes what is left of it */
        return;
    }
    e->places = xrealloc(e->places, (e->place_count + 1) * sizeof(struct trial_place *));
    e->places[e->place_count++] = p;
}

void places_free(struct engine *e)
{
    for (size_t i = 0; i < e->place_count; i++) {
        place_free(e->places[i]);
    }
    free(e->places);
    e->places = NULL;
    e->place_count = 0;
}
