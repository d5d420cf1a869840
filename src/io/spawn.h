/* SPDX-License-Identifier: MIT
 *
 * Starting verbenad from whatever program our library sits in: the new process must inherit nothing of it.
 */
#ifndef VB_IO_SPAWN_H
#define VB_IO_SPAWN_H

#include <stddef.h>

#include "base/time.h"

/* Run `path`, found next to the library, as a daemon, and wait until it says that it is ready or why not: it writes
 * one line to descriptor 3 ("ready" or the reason) and closes it. 0 or -errno; the reason goes to `why`. */
int vb_spawn_daemon(const char *path, char *why, size_t room, vb_time deadline);

/* Directory of the shared object (or program) that holds this code, without a slash at its end. 0 or -errno. */
int vb_spawn_own_directory(char *out, size_t room);

#endif
