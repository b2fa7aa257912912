/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An evaluator of the part of Seatbelt's profile language that profiles of orch use: rules (allow|deny OPERATION…
 * (FILTER "…")?), of which the last that matches decides. OPERATION* stands for all that begin so; "default" for all.
 * Filters: literal, subpath, global-name, iokit-user-client-class; remote ip "localhost:PORT"; target same-sandbox.
 */
#ifndef ORCH_TESTS_SBPL_H
#define ORCH_TESTS_SBPL_H

#include <stdbool.h>
#include <stddef.h>

struct sbpl;

/* NULL with a text in `why` (200 bytes) for what is no such profile; freed with sbpl_free. */
struct sbpl *sbpl_parse(const char *text, char why[200]);
void sbpl_free(struct sbpl *p);
size_t sbpl_rules(const struct sbpl *p);
/* Leaves out rule `i` of later questions (SIZE_MAX: none): what a test asks must notice. */
void sbpl_without(struct sbpl *p, size_t i);
/* The words of rule `i`, for messages; borrowed. */
const char *sbpl_text(const struct sbpl *p, size_t i);

/* May a program do `operation` ("file-read-data") to `subject`: a path, a port "localhost:8080", a name; "" for none.
 */
bool sbpl_allows(const struct sbpl *p, const char *operation, const char *subject);

#endif
