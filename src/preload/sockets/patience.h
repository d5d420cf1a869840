/* SPDX-License-Identifier: MIT
 *
 * For how long a thread that waits goes on looking before it sleeps. To sleep costs a wake-up, or two where the engine thread sees what has
 * come (schedule/waiter.h). To look costs a processor.
 *
 * A peer that answers at once is answered at once, if the thread looks for longer than the answer takes; how long that is no fixed time
 * knows. So a sleep that was short makes the time longer, until the answer is seen without one, and a long sleep makes it short again.
 * Streams of much data are rdmacm/rsocket/pace.h's.
 *
 * Where there are more threads than processors, who looks takes one from those that have something to do; to yield helps only where they
 * are of one session, between which the system shares processors out first. So who loses its processor while it looks sleeps instead for
 * a while: pgbench with four clients between two hosts, each client with a process of the server, on two processors, 8,400 transactions
 * a second without and 12,600 with it.
 *
 * Pure: the time is handed in. Threads that share one may each learn from their own sleeps.
 */
#ifndef VB_PRELOAD_SOCKETS_PATIENCE_H
#define VB_PRELOAD_SOCKETS_PATIENCE_H

#include <stdbool.h>

#include "base/time.h"

#define VB_PATIENCE_LEAST VB_MICROSECONDS(2)
/* Longer than a peer takes to answer that has to be woken itself: its engine thread, and it. */
#define VB_PATIENCE_MOST VB_MICROSECONDS(100)
/* A sleep as long as that was none too early: what was waited for took longer than VB_PATIENCE_MOST, and the waking the rest. Two
 * that both sleep took 230 us for an exchange on two processors (redis-benchmark, one client). */
#define VB_PATIENCE_LONG_SLEEP VB_MICROSECONDS(250)
/* A thread that has been awake for longer than VB_PATIENCE_MOST, and whose sleeps were short before that, is one of a conversation
 * with many: a server that waits for the next requests of fifty clients, which have its answers to read first. It looks for as long as
 * it has been awake, so that no more than half of its time is spent so, and for this long at most. */
#define VB_PATIENCE_BUSY VB_MILLISECONDS(1)

/* A thread that was away for so long between two looks has most likely lost its processor to another, which wants it more: what it waits
 * for is perhaps what that one does. (A look that sends much may take as long; iperf3 was as fast with it as without.) */
#define VB_PATIENCE_AWAY VB_MICROSECONDS(25)
/* So many sleeps then follow without a look, if they are by itself. Where another thread must wake it first, that is what it loses its
 * processor to: one client of one host had 1,100 transactions a second instead of 25,000. */
enum { VB_PATIENCE_CROWDED = 64 };

/* Two sides that both sleep may each take so long to be woken that neither would ever look: one of so many long sleeps is
 * followed by a long look. */
enum { VB_PATIENCE_TRIES = 16 };

struct vb_patience {
	unsigned long_sleeps;            /* atomic */
	vb_time length;                  /* atomic; 0: VB_PATIENCE_LEAST */
	vb_time woke;                    /* atomic: when the last sleep ended */
	bool by_itself;                  /* atomic: the last sleep was on the wire itself */
	unsigned crowded;                /* atomic: sleeps that are left without a look before them */
};

vb_time vb_patience_length(const struct vb_patience *patience, vb_time now);
/* It has looked again: may it once more, up to `end`? *last: when it did before. */
bool vb_patience_goes_on(struct vb_patience *patience, vb_time *last, vb_time now, vb_time end);
/* It slept for so long, and then, just now, something came. `by_itself`: on the sockets of the wire, so that no other thread had to
 * wake it. */
void vb_patience_slept(struct vb_patience *patience, vb_time how_long, vb_time now, bool by_itself);

#endif
