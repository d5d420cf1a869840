/* SPDX-License-Identifier: MIT
 *
 * Does the dynamic loader give a program our libraries?
 */
#ifndef VB_CLI_LOADER_H
#define VB_CLI_LOADER_H

#include <stdbool.h>

/* No PT_INTERP: the kernel starts it without any loader. False for what is no program of this kind, such as scripts. */
bool vb_cli_loader_is_absent(int fd);

/* Warn on stderr where it does not: the program would quietly run without us. */
void vb_cli_loader_warn(const char *path);

#endif
