/* SPDX-License-Identifier: MIT
 *
 * Does the dynamic loader give a program our libraries?
 */
#ifndef VB_CLI_LOADER_H
#define VB_CLI_LOADER_H

/* Warn on stderr where it does not: the program would quietly run without us. */
void vb_cli_loader_warn(const char *path);

#endif
