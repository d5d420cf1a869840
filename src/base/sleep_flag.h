/* SPDX-License-Identifier: MIT
 *
 * Falling asleep while others (threads, or processes through shared memory) leave work: a flag that says "wake me".
 *
 *   sleeper   asleep = 1 ; barrier on all processors (vb_sleep_begin) ; look for work ; none: sleep until woken
 *   waker     leave work ; look at the flag (vb_sleep_must_wake) ; set: wake the sleeper
 *
 * One of the two must see the other, or the work lies there and the sleeper sleeps. That is Dekker's argument, and it takes a full
 * fence on either side between the store and the load. Wakers leave work with every message, and a fence there waits until the message
 * is visible: 6.1 million SENDs of 8 bytes in a second instead of 6.6. The sleeper sleeps seldom. So it pays for both: it
 * has the system execute a full fence on every processor that runs a thread of a process that takes part (membarrier(2),
 * io/barrier.h); a thread that runs nowhere passed one when it was taken off its processor.
 *
 * Why that holds: each waker passes such a fence at some point of its program, after the flag was stored and before the sleeper looks.
 *
 *   - It left its work before that point: the fence makes it visible to all that the sleeper reads afterwards.
 *   - It leaves it after that point: its look at the flag comes still later, and finds what was stored before the fence.
 *
 * The compiler must not exchange the waker's two steps, nothing more; no time is waited for. Where one of the two processes
 * cannot take part in such barriers, the waker executes the fence itself (`fenced`): both then have one, and Dekker's argument
 * is the usual one. tests/unit/litmus takes every execution of both kinds, and finds those in which the work is lost where neither has it.
 *
 * A sleeper that is slow to get up would be woken by each message that comes meanwhile. A waker may take the flag away, before it wakes
 * (vb_sleep_take_flag):
 *
 *   waker     leave work ; fence ; flag set: asleep = 0 ; wake the sleeper
 *   sleeper   woken, by whatever: asleep = 1 ; fence ; look for work ; none: sleep until woken
 *
 * That 0 may come late: the sleeper has found the work by itself, found no more, and has set the flag anew. Now it sleeps, and who leaves
 * work does not see it. But the waking that belongs to the 0 is still to come, and makes the sleeper say so again, behind the 0: so the
 * waking comes after the 0, and is kept until the sleeper takes it. tests/unit/litmus has it the other way round, too.
 */
#ifndef VB_BASE_SLEEP_FLAG_H
#define VB_BASE_SLEEP_FLAG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/inline.h"

/* Say it, and do not look for work before that. `barrier`: on all processors; NULL where wakers have their own fences. False: the
 * barrier could not be had, so nothing is certain: look again and again. */
VB_INLINE bool vb_sleep_begin(uint32_t *asleep, bool (*barrier)(void))
{
	__atomic_store_n(asleep, 1, __ATOMIC_SEQ_CST);
	if (barrier)
		return barrier();
	/* Partner of the fence in vb_sleep_must_wake. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return true;
}

VB_INLINE void vb_sleep_end(uint32_t *asleep)
{
	__atomic_store_n(asleep, 0, __ATOMIC_SEQ_CST);
}

/* Work was left: must its owner be woken? `fenced`: it cannot have us execute a fence. */
VB_INLINE bool vb_sleep_must_wake(const uint32_t *asleep, bool fenced)
{
	if (fenced)
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
	else
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(asleep, __ATOMIC_RELAXED) != 0;
}

/* The same, fenced, and the flag is taken away. The caller wakes the owner after this, and not before. */
VB_INLINE bool vb_sleep_take_flag(uint32_t *asleep)
{
	if (!vb_sleep_must_wake(asleep, true))
		return false;
	vb_sleep_end(asleep);
	return true;
}

#endif
