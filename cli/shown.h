/* SPDX-License-Identifier: MIT
 *
 * Text that others have written (a file, a peer, another program) on its way to a terminal, which obeys some of what it is sent: it moves
 * the cursor, changes colours and titles, and some answer as if the user had typed. Characters stay as they are. What is none, control
 * characters and marks that turn the direction of writing become \xNN, byte by byte.
 */
#ifndef VB_CLI_SHOWN_H
#define VB_CLI_SHOWN_H

#include <stddef.h>
#include <stdio.h>

/* Of text of at most so many bytes. */
#define VB_CLI_SHOWN_ROOM(bytes) (4 * (bytes) + 1)

/* As one line; as much of it as there is room for, with no half of a character at its end. Returns `out`. */
const char *vb_cli_shown(const char *text, char *out, size_t room);
/* As it is, line by line. */
void vb_cli_show_lines(FILE *out, const char *text);

#endif
