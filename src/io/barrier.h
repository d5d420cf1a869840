/* SPDX-License-Identifier: MIT
 *
 * A memory barrier on all processors at once (membarrier(2), MEMBARRIER_CMD_GLOBAL_EXPEDITED, Linux 4.16): of every process that
 * has joined, each running thread executes a full fence while the call lasts. And the same for this process alone
 * (MEMBARRIER_CMD_PRIVATE_EXPEDITED), which disturbs no other.
 */
#ifndef VB_IO_BARRIER_H
#define VB_IO_BARRIER_H

#include <stdbool.h>

/* This process takes part from now on. False: it cannot, or cannot ask for barriers. In a process that had threads when the
 * library was loaded the first call may take some ten milliseconds. */
bool vb_barrier_join(void);
/* Now. False: the system refuses, though it did not before (a filter of system calls). */
bool vb_barrier_impose(void);

/* On the threads of this process: it may be asked for from now on. False: it cannot. As slow as the other. */
bool vb_barrier_join_own(void);
bool vb_barrier_impose_own(void);

#endif
