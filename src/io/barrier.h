/* SPDX-License-Identifier: MIT
 *
 * A memory barrier on all processors at once (membarrier(2), MEMBARRIER_CMD_GLOBAL_EXPEDITED, Linux 4.16): of every process that
 * has joined, each running thread executes a full fence while the call lasts.
 */
#ifndef VB_IO_BARRIER_H
#define VB_IO_BARRIER_H

#include <stdbool.h>

/* This process takes part from now on. False: it cannot, or cannot ask for barriers. In a process with threads the first call may take
 * some ten milliseconds. */
bool vb_barrier_join(void);
/* Now. False: the system refuses, though it did not before (a filter of system calls). */
bool vb_barrier_impose(void);

#endif
