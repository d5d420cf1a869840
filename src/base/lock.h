/* SPDX-License-Identifier: MIT
 *
 * A lock for short sections that is cheap to give back, and that can say whether it is held, so that "Caller holds x" is checked where
 * VB_CHECK_INVARIANTS is defined.
 *
 * A mutex of the C library is released by an exchange, whose result it needs: the processor waits until all stores before it
 * are visible. Where those went to memory that another processor looks at, as in local/, this is 100 ns. Here a store releases
 * the lock, and no thread waits for it: a SEND through memory takes an eighth less time in all.
 *
 * A thread that does not get the lock within some microseconds sleeps (futex), and says so before; the one that releases it looks
 * whether another sleeps, and wakes one: a system call for either. Looking and releasing are two steps, between which a sleeper may
 * come and be missed: so sleepers look for themselves once in a millisecond.
 *
 * Each has a rank, which says in which order locks are taken: base/lock_order.h.
 */
#ifndef VB_BASE_LOCK_H
#define VB_BASE_LOCK_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/lock_order.h"
#include "base/thread_safety.h"

struct VB_IS_LOCK("lock") vb_lock {
	uint32_t taken;                    /* atomic: 0 or 1 */
	uint32_t sleepers;                 /* atomic */
#ifdef VB_CHECK_INVARIANTS
	enum vb_lock_rank rank;
#endif
};

#ifdef VB_CHECK_INVARIANTS
#define VB_LOCK_RANK_OF(lock) ((lock)->rank)
#define VB_LOCK_INITIALIZER(its_rank) {.rank = (its_rank)}
#else
#define VB_LOCK_RANK_OF(lock) ((enum vb_lock_rank)0)
#define VB_LOCK_INITIALIZER(its_rank) {.taken = 0}
#endif

void vb_lock_init(struct vb_lock *lock, enum vb_lock_rank rank);

/* ---- what does not happen often ---- */

void vb_lock_wait(struct vb_lock *lock);       /* until it is ours */
void vb_lock_release_to_sleepers(struct vb_lock *lock);

/* ---- what does ---- */

/* In a loop that waits for another processor: lets it have the memory, and a second thread of this one the execution units. */
static inline void vb_lock_relax(void)
{
#if defined(__aarch64__)
	__asm__ volatile("isb" ::: "memory");
#elif defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#endif
}

static inline bool vb_lock_grab(struct vb_lock *lock)
{
	uint32_t free = 0;

	return __atomic_compare_exchange_n(&lock->taken, &free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static inline void vb_lock_take(struct vb_lock *lock) VB_TAKES(*lock) VB_UNCHECKED
{
	vb_lock_order_take(lock, VB_LOCK_RANK_OF(lock));
	if (!vb_lock_grab(lock))
		vb_lock_wait(lock);
}

/* Where many try, those who fail should not take the line away from the one who holds the lock: they look first. */
static inline bool vb_lock_try(struct vb_lock *lock) VB_TRIES(*lock) VB_UNCHECKED
{
	if (__atomic_load_n(&lock->taken, __ATOMIC_RELAXED) != 0 || !vb_lock_grab(lock))
		return false;
	vb_lock_order_tried(lock, VB_LOCK_RANK_OF(lock));
	return true;
}

static inline void vb_lock_release(struct vb_lock *lock) VB_RELEASES(*lock) VB_UNCHECKED
{
	vb_lock_order_release(lock, VB_LOCK_RANK_OF(lock));
	/* Looked at before it is released: after that the lock may be gone, with what it protects. */
	if (__atomic_load_n(&lock->sleepers, __ATOMIC_RELAXED) != 0)
		vb_lock_release_to_sleepers(lock);
	else
		__atomic_store_n(&lock->taken, 0, __ATOMIC_RELEASE);
}

/* By this thread. */
static inline void vb_lock_assert_held(const struct vb_lock *lock) VB_ASSERTS(*lock)
{
#ifdef VB_CHECK_INVARIANTS
	assert(vb_lock_order_holds(lock));
#else
	(void)lock;
#endif
}

#endif
