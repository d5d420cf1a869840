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
/* Within scopes: as the program has it, and back. */
void vb_cancellation_allow(void);
void vb_cancellation_forbid(void);

#endif
