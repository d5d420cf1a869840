/* SPDX-License-Identifier: MIT
 *
 * Colours on a terminal; nothing but text in a pipe, with NO_COLOR set, or on TERM=dumb.
 */
#ifndef VB_CLI_TERMINAL_H
#define VB_CLI_TERMINAL_H

struct vb_cli_colours {
	const char *strong, *good, *bad, *faint, *plain;
};

/* For stdout. */
struct vb_cli_colours vb_cli_colours_get(void);

#endif
