/* SPDX-License-Identifier: MIT
 *
 * The view: a directory with the files of /sys and /dev that programs look for devices in, and the environment that
 * makes a program see it (docs/applications.md).
 */
#ifndef VB_CLI_VIEW_H
#define VB_CLI_VIEW_H

#include "cli/library.h"

/* Bring this user's view of this network namespace up to date and let commands started from here see it. 0, or
 * -errno with the reason in `why`: then the command runs without one. */
int vb_cli_view_provide(char why[VB_CLI_PATH_MAX]);

/* The path of a directory `name` for this network namespace, kept where views are and removed with them; it is not made, the one that
 * it would be in is there. 0 or -errno. */
int vb_cli_view_beside(const char *name, char path[VB_CLI_PATH_MAX]);

/* Could it be done? Changes nothing. `found` is the directory that views are kept in, or the reason. 0 or -errno. */
int vb_cli_view_check(char found[VB_CLI_PATH_MAX]);

/* Have commands started from here preload this library of ours. 0, or -errno with the reason in `why`. */
int vb_cli_preload(const char *name, char why[VB_CLI_PATH_MAX]);

#endif
