/* SPDX-License-Identifier: MIT
 *
 * Scopes in which the calling thread is not cancelled (pthread_cancel, pthreads(7)): what makes, changes or destroys an object takes
 * locks, and calls functions of the C library at which a thread may end with them held, for ever. Scopes nest. A call that waits for the
 * peer, or for an event, holds no lock while it does, and lets the thread be cancelled for that time if the program does.
 *
 * Those who post and poll have no time for that: their system calls are no such points in the first place (io/uncancelled.h).
 */
#ifndef VB_IO_CANCELLATION_H
#define VB_IO_CANCELLATION_H

/* From here to the end of the block. */
#define VB_UNCANCELLED __attribute__((cleanup(vb_cancellation_leave), unused)) int vb_uncancelled = vb_cancellation_enter()

int vb_cancellation_enter(void);
void vb_cancellation_leave(int *scope);
/* How many scopes the thread is in. Around a wait in which the thread may be cancelled: out of all scopes, and back. Outside of scopes
 * these do nothing. A program that leaves the wait by longjmp, from a signal handler, has left the scopes with it. */
unsigned vb_cancellation_depth(void);
unsigned vb_cancellation_allow(void);
void vb_cancellation_forbid(unsigned depth);
/* Around a system call that the C library does not know as one at which a thread is cancelled. Who leaves it by longjmp is
 * asynchronously cancellable until the next scope is entered. */
void vb_cancellation_begin_call(void);
void vb_cancellation_end_call(void);
/* What the thread has to give back if it does not come back from the wait that follows: it is done when the thread ends. Not
 * pthread_cleanup_push: a longjmp out of the wait would leave its list pointing into a stack that is gone. `argument` is not on the
 * stack. Waits may nest: a signal handler's call in ours. Returns what the end of the wait is told. */
unsigned vb_cancellation_owe(void (*settle)(void *argument), void *argument);
void vb_cancellation_settled(unsigned owed);

#endif
