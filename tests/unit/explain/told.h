/* SPDX-License-Identifier: MIT
 *
 * What was explained: VERBENA_EXPLAIN is a file of JSON lines, read back here. Tests check the evidence by name.
 */
#ifndef TESTS_EXPLAIN_TOLD_H
#define TESTS_EXPLAIN_TOLD_H

#include <stdbool.h>
#include <stdint.h>

/* Sets the environment of this process; call before anything of the library. */
void told_prepare(void);
void told_remove(void);

/* Forget what was told so far. */
void told_clear(void);

/* The first line since then of which all given evidence holds: name, value, ..., NULL; values as in the JSON, without
 * quotes. Fails the test, showing everything that was told, if there is none. Waits a while for it. */
void told_expect(const char *name, ...) __attribute__((sentinel));
/* As many such lines as there are now. */
unsigned told_count(const char *name, const char *value);

/* Is this anywhere in it? */
bool told_mentions(const char *words);

/* A number as evidence spells it, in a buffer of its own for a while. */
const char *hex(uint64_t value, int digits);
const char *number(uint64_t value);

#endif
