/* SPDX-License-Identifier: MIT
 *
 * Where our libraries are, seen from this executable.
 */
#ifndef VB_CLI_LIBRARY_H
#define VB_CLI_LIBRARY_H

enum { VB_CLI_PATH_MAX = 4096 };

/* The directory above the one that holds this program: a build tree, or PREFIX. 0 or -errno. */
int vb_cli_root_directory(char directory[VB_CLI_PATH_MAX]);

/* The directory that holds our libibverbs.so.1: ../lib of a build tree, ../lib/verbena of an installation.
 * 0 or -errno. */
int vb_cli_library_directory(char directory[VB_CLI_PATH_MAX]);

#endif
