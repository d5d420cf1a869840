/* SPDX-License-Identifier: MIT
 *
 * Where explanations go: VERBENA_EXPLAIN=1 to stderr, VERBENA_EXPLAIN=FILE appended to that file; unset, empty or 0:
 * nowhere. VERBENA_EXPLAIN_FORMAT=json asks for one JSON object a line. VERBENA_WATCH=1 asks for the misuse
 * watch alone, 0 for explanations without it. Read once; not believed in a program with raised privileges.
 */
#ifndef VB_IO_EXPLAIN_OUTPUT_H
#define VB_IO_EXPLAIN_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

bool vb_explain_output_is_on(void);
bool vb_explain_output_watches(void);
bool vb_explain_output_is_json(void);
/* Also what is no failure, as the end of a connection (VERBENA_EXPLAIN_ALL=1)? */
bool vb_explain_output_tells_all(void);
/* May peers be told why their requests were refused (VERBENA_EXPLAIN_PEERS=0: no)? */
bool vb_explain_output_tells_peers(void);

/* One explanation, written at once, so that those of several threads and processes do not mix. errno is kept. */
void vb_explain_output_write(const char *text, size_t length);

#endif
