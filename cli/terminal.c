/* SPDX-License-Identifier: MIT
 *
 * Colours: decided once per command, spelled out as escape sequences or as empty strings.
 */
#include "cli/terminal.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct vb_cli_colours vb_cli_colours_get(void)
{
	const char *terminal = getenv("TERM"), *off = getenv("NO_COLOR");
	bool on = isatty(STDOUT_FILENO) && terminal && strcmp(terminal, "dumb") != 0 && !(off && *off);

	if (!on)
		return (struct vb_cli_colours){ "", "", "", "", "" };
	return (struct vb_cli_colours){ "\033[1m", "\033[32m", "\033[31m", "\033[2m", "\033[0m" };
}
