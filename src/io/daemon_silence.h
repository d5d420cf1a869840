/* SPDX-License-Identifier: MIT
 *
 * A verbenad that does not answer: stopped by a signal or a debugger, or without a processor for long. Who has no answer has waited
 * for the whole process, and says so: for the next ten seconds those who can do without it do not ask, and those who cannot are told at
 * once if it is stopped still, and wait for a moment only if not.
 */
#ifndef VB_IO_DAEMON_SILENCE_H
#define VB_IO_DAEMON_SILENCE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/time.h"

bool vb_daemon_is_silent(void);
/* Of the last one that did not answer; 0: not known. */
pid_t vb_daemon_silent_pid(void);
/* Its pid, if it is silent and stopped still; 0 if not. */
pid_t vb_daemon_that_is_stopped(void);
/* How long to wait for an answer that the caller cannot do without. */
vb_time vb_daemon_patience(vb_time patience);
/* What came of asking it: -ETIMEDOUT, it was waited for and did not answer. `daemon`: its pid, 0 if unknown. */
void vb_daemon_note(int error, pid_t daemon);
/* What is the matter with it, to follow "verbenad (pid 1) ". */
const char *vb_daemon_silence_in_words(pid_t daemon);

#endif
