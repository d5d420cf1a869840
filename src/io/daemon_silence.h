/* SPDX-License-Identifier: MIT
 *
 * A verbenad that does not answer: stopped by a signal or a debugger, or without a processor for long. Who can do without it waits for it
 * once, and says so; a thread that comes within the next ten seconds does not wait.
 */
#ifndef VB_IO_DAEMON_SILENCE_H
#define VB_IO_DAEMON_SILENCE_H

#include <stdbool.h>
#include <sys/types.h>

bool vb_daemon_is_silent(void);
/* What came of asking it: -ETIMEDOUT, it was waited for and did not answer. `daemon`: its pid. */
void vb_daemon_note(int error, pid_t daemon);

#endif
