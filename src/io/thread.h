/* SPDX-License-Identifier: MIT
 *
 * The library's own threads, as an adapter would be: of what a program's thread has set for itself they have nothing.
 */
#ifndef VB_IO_THREAD_H
#define VB_IO_THREAD_H

#include <pthread.h>

/* Signals are blocked in it, since they belong to the program's threads. It may run where the process might when the library was
 * loaded, and by the scheduling policy of then: a program that keeps its polling thread on one processor, at real-time priority
 * (DPDK's do), would else keep those that do connections for it waiting. 0 or -errno. */
int vb_thread_start(pthread_t *thread, void *(*run)(void *context), void *context);

/* One that is not joined. */
int vb_thread_start_detached(void *(*run)(void *context), void *context);

/* For a process that serves others than the one it comes from: this thread may run anywhere, and by no special policy. */
void vb_thread_forget_maker(void);

#endif
