/* SPDX-License-Identifier: MIT
 *
 * A lock for short sections that is cheap to take and to give back, and that can say whether it is held, so that "Caller holds x" is
 * checked where VB_CHECK_INVARIANTS is defined.
 *
 * A mutex of the C library is released by an exchange, whose result it needs: the processor waits until all stores before it
 * are visible. Where those went to memory that another processor looks at, as in local/, this is 100 ns. Here a store releases
 * the lock, and no thread waits for it: a SEND through memory takes an eighth less time in all.
 *
 * Taking it is an exchange as well, of `taken`. Most locks are taken by one thread only, a thousand times in a row and more. Such a thread
 * becomes the lock's favourite (base/favourite.h) and takes it by a store. Any other thread takes the lock by `taken`, ends the
 * favour, which interrupts all threads of this process for some microseconds, and waits until the favourite is outside. A favour that was
 * ended takes four times as long to come back as it did before, so that a lock that threads share has few such barriers.
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

#include "base/favourite.h"
#include "base/lock_order.h"
#include "base/thread_safety.h"

struct VB_IS_LOCK("lock") vb_lock {
	uint32_t taken;                    /* atomic: 0 or 1 */
	uint32_t sleepers;                 /* atomic */
	uintptr_t owner;                   /* atomic, written by who has `taken`: the thread that takes it most, and what it is */
	uint32_t inside;                   /* atomic: 0 or 1; the favourite has it. Written by that thread */
	uint32_t left;                     /* takes by its owner in a row, until that is the favourite */
	uint32_t streak;                   /* how many it takes from the first; 0: the lock is new */
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

/* `taken` is ours, and we are not the owner. */
void vb_lock_taken_by_other(struct vb_lock *lock);
bool vb_lock_tried_by_other(struct vb_lock *lock);     /* false: given back, the favourite has it */
/* `taken` is ours, and nothing is left. */
void vb_lock_consider_favour(struct vb_lock *lock);
/* We are inside, and the favour has been ended. */
void vb_lock_release_by_former(struct vb_lock *lock);

/* From now on locks have favourites. `barrier`: a fence on every running thread of this process; false: it could not be had. */
void vb_lock_allow_favourites(bool (*barrier)(void));

/* ---- what does ---- */

/* What an owner is. Threads are known by their thread pointers, which are multiples of four. */
enum { VB_LOCK_FAVOURED = 1, VB_LOCK_SETTLED = 2 /* it was, once */ };

static inline uintptr_t vb_lock_me(void)
{
#if defined(__x86_64__)
	uintptr_t pointer;

	/* clang knows the function for other processors only. */
	__asm__("mov %%fs:0, %0" : "=r"(pointer));
	return pointer;
#else
	return (uintptr_t)__builtin_thread_pointer();
#endif
}

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

/* By any thread, as far as can be seen without taking it: a hint. */
static inline bool vb_lock_is_held(const struct vb_lock *lock)
{
	return __atomic_load_n(&lock->taken, __ATOMIC_RELAXED) != 0 || __atomic_load_n(&lock->inside, __ATOMIC_RELAXED) != 0;
}

static inline bool vb_lock_favours(const struct vb_lock *lock, uintptr_t me)
{
	return vb_favourite_is_favoured(&lock->owner, me | VB_LOCK_FAVOURED | VB_LOCK_SETTLED);
}

/* Who has just become the favourite may still have it by `taken`. A thread that gets the pointer of one that has ended must see what that
 * one did: so it is an acquiring look at `inside`. */
static inline bool vb_lock_enter_as_favourite(struct vb_lock *lock, uintptr_t me)
{
	return vb_lock_favours(lock, me) && __atomic_load_n(&lock->taken, __ATOMIC_RELAXED) == 0 &&
	       !vb_favourite_is_inside(&lock->inside) &&
	       vb_favourite_enters(&lock->inside, &lock->owner, me | VB_LOCK_FAVOURED | VB_LOCK_SETTLED);
}

static inline bool vb_lock_is_of(const struct vb_lock *lock, uintptr_t me)
{
	return (__atomic_load_n(&lock->owner, __ATOMIC_RELAXED) & ~(uintptr_t)(VB_LOCK_FAVOURED | VB_LOCK_SETTLED)) == me;
}

static inline void vb_lock_count(struct vb_lock *lock)
{
	if (--lock->left == 0)
		vb_lock_consider_favour(lock);
}

static inline void vb_lock_take(struct vb_lock *lock) VB_TAKES(*lock) VB_UNCHECKED
{
	uintptr_t me = vb_lock_me();

	vb_lock_order_take(lock, VB_LOCK_RANK_OF(lock));
	if (vb_lock_enter_as_favourite(lock, me))
		return;
	if (!vb_lock_grab(lock))
		vb_lock_wait(lock);
	if (vb_lock_is_of(lock, me))
		vb_lock_count(lock);
	else
		vb_lock_taken_by_other(lock);
}

/* Where many try, those who fail should not take the line away from the one who holds the lock: they look first. */
static inline bool vb_lock_try(struct vb_lock *lock) VB_TRIES(*lock) VB_UNCHECKED
{
	uintptr_t me = vb_lock_me();

	if (!vb_lock_enter_as_favourite(lock, me)) {
		if (vb_lock_is_held(lock) || !vb_lock_grab(lock))
			return false;
		if (vb_lock_is_of(lock, me))
			vb_lock_count(lock);
		else if (!vb_lock_tried_by_other(lock))
			return false;
	}
	vb_lock_order_tried(lock, VB_LOCK_RANK_OF(lock));
	return true;
}

static inline void vb_lock_release(struct vb_lock *lock) VB_RELEASES(*lock) VB_UNCHECKED
{
	uintptr_t me = vb_lock_me();

	vb_lock_order_release(lock, VB_LOCK_RANK_OF(lock));
	/* Looked at before it is released: after that the lock may be gone, with what it protects. */
	if (vb_lock_is_of(lock, me) && __atomic_load_n(&lock->inside, __ATOMIC_RELAXED) != 0) {
		if (vb_lock_favours(lock, me))
			vb_favourite_leaves(&lock->inside);
		else
			vb_lock_release_by_former(lock);
	} else if (__atomic_load_n(&lock->sleepers, __ATOMIC_RELAXED) != 0) {
		vb_lock_release_to_sleepers(lock);
	} else {
		__atomic_store_n(&lock->taken, 0, __ATOMIC_RELEASE);
	}
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
