/* SPDX-License-Identifier: MIT
 *
 * Running a command with its packets captured, and drawing captures: what `capture`, `run --capture` and `ladder`
 * share.
 */
#ifndef VB_CLI_CAPTURE_H
#define VB_CLI_CAPTURE_H

#include "capture/ladder.h"

struct vb_cli_pictures {
	const char *svg, *html, *text;     /* NULL: none; "-": to standard output */
	struct vb_ladder_options options;
};

enum { VB_CLI_LADDER_ARROWS = 200 };       /* unless told otherwise */

/* Run `argv` (NULL-terminated) with everything captured to `file`; then draw. Returns the exit code. `who`: the
 * subcommand, for messages; `shown`: the name that these give the file. */
int vb_cli_capture_command(const char *who, const char *file, const char *shown, const struct vb_cli_pictures *pictures,
			   char **argv);

/* Draw a capture that is there. 0 or 1, with the reason said. */
int vb_cli_draw(const char *who, const char *file, const struct vb_cli_pictures *pictures);

/* Is it a specification of faults? If so commands started from here on suffer them. 0 or VB_CLI_USAGE, with the reason
 * said. */
int vb_cli_set_faults(const char *who, const char *specification);

#endif
