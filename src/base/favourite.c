/* SPDX-License-Identifier: MIT
 *
 * Locks that one thread takes most of the time, see lock.h.
 */
#include "base/lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	/* Takes in a row. The first: more than a thread makes that fills the queues of another one. Where it is too few, a favour is ended
	 * once for that many takes, which costs some microseconds of all threads: less than what the takes save, at the latest when the
	 * number has grown. */
	FIRST_STREAK = 1024, LONGEST_STREAK = 1 << 14, GROWTH = 4,
	TRIES = 2000, TRIES_BETWEEN_YIELDS = 100,
	NAP = 1000000,                     /* ns */
	/* What a processor stored is visible long before that, fence or no fence. */
	WITHOUT_BARRIER = 10000000,        /* ns */
};

/* NULL: no lock has a favourite. Atomic. */
static bool (*the_barrier)(void);

void vb_lock_allow_favourites(bool (*barrier)(void))
{
	__atomic_store_n(&the_barrier, barrier, __ATOMIC_RELEASE);
}

/* By thread, which then has its mark on every processor. A filter of system calls may have come since: then time has to do. */
static void impose_barrier(void)
{
	bool (*barrier)(void) = __atomic_load_n(&the_barrier, __ATOMIC_ACQUIRE);
	int saved = errno;

	if (!barrier || !barrier()) {
		vb_lock_allow_favourites(NULL);
		nanosleep(&(struct timespec){.tv_nsec = WITHOUT_BARRIER}, NULL);
	}
	errno = saved;
}

static void end_favour(struct vb_lock *lock, uintptr_t owner)
{
	vb_favourite_is_no_more(&lock->owner, owner & ~(uintptr_t)VB_LOCK_FAVOURED);
	if (lock->streak < LONGEST_STREAK)
		lock->streak *= GROWTH;
	impose_barrier();
}

static void wait_for_favourite(struct vb_lock *lock)
{
	const struct timespec nap = {.tv_nsec = NAP};
	int saved = errno;

	for (unsigned i = 1; vb_favourite_is_inside(&lock->inside); i++) {
		vb_lock_relax();
		if (i > TRIES)
			syscall(SYS_futex, &lock->inside, FUTEX_WAIT_PRIVATE, 1, &nap, NULL, 0);
		else if (i % TRIES_BETWEEN_YIELDS == 0)
			sched_yield();
	}
	errno = saved;
}

/* A lock that had no favourite yet changes its owner, one that had keeps it and counts anew. */
static void break_streak(struct vb_lock *lock)
{
	uintptr_t owner = __atomic_load_n(&lock->owner, __ATOMIC_RELAXED);

	if (owner & VB_LOCK_FAVOURED)
		end_favour(lock, owner);
	else if (!(owner & VB_LOCK_SETTLED))
		__atomic_store_n(&lock->owner, vb_lock_me(), __ATOMIC_RELAXED);
	if (lock->streak == 0)
		lock->streak = FIRST_STREAK;
	lock->left = lock->streak;
}

void vb_lock_taken_by_other(struct vb_lock *lock)
{
	break_streak(lock);
	wait_for_favourite(lock);
}

bool vb_lock_tried_by_other(struct vb_lock *lock)
{
	break_streak(lock);
	if (!vb_favourite_is_inside(&lock->inside))
		return true;
	if (__atomic_load_n(&lock->sleepers, __ATOMIC_RELAXED) != 0)
		vb_lock_release_to_sleepers(lock);
	else
		__atomic_store_n(&lock->taken, 0, __ATOMIC_RELEASE);
	return false;
}

void vb_lock_consider_favour(struct vb_lock *lock)
{
	lock->left = lock->streak;
	if (__atomic_load_n(&the_barrier, __ATOMIC_RELAXED))
		__atomic_store_n(&lock->owner, vb_lock_me() | VB_LOCK_FAVOURED | VB_LOCK_SETTLED, __ATOMIC_RELAXED);
}

/* As in lock.c: the lock may be gone as soon as it is given back. */
void vb_lock_release_by_former(struct vb_lock *lock)
{
	int saved = errno;

	vb_favourite_leaves(&lock->inside);
	syscall(SYS_futex, &lock->inside, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	errno = saved;
}
