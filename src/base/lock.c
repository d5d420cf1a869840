/* SPDX-License-Identifier: MIT
 *
 * Waiting for a lock, see lock.h.
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
	/* Some 20 us, longer than a pass keeps a queue pair: going to sleep and being woken takes as long. Two threads that send to
	 * themselves over the wire, of which one at a time delivers for both, do 1.6 million messages a second so, and 1.3 with one
	 * microsecond. */
#if defined(__x86_64__) || defined(__i386__)
	TRIES = 400,                       /* `pause` takes 40 ns on newer processors */
#else
	TRIES = 2000,
#endif
	/* The thread that has the lock may wait for this very processor, if it lost it in between: it is let in, which is nothing where
	 * no thread waits. */
	TRIES_BETWEEN_YIELDS = TRIES / 8,
	NAP = 1000000,                     /* ns */
};

void vb_lock_init(struct vb_lock *lock, enum vb_lock_rank rank)
{
#ifdef VB_CHECK_INVARIANTS
	*lock = (struct vb_lock){.rank = rank};
	vb_lock_order_forget(lock);
#else
	(void)rank;
	*lock = (struct vb_lock){.taken = 0};
#endif
}

/* Until it was released, or a nap is over. */
static void nap(struct vb_lock *lock)
{
	const struct timespec length = {.tv_nsec = NAP};

	syscall(SYS_futex, &lock->taken, FUTEX_WAIT_PRIVATE, 1, &length, NULL, 0);
}

void vb_lock_wait(struct vb_lock *lock)
{
	int saved;

	for (unsigned i = 1; i <= TRIES; i++) {
		if (__atomic_load_n(&lock->taken, __ATOMIC_RELAXED) == 0 && vb_lock_grab(lock))
			return;
		vb_lock_relax();
		if (i % TRIES_BETWEEN_YIELDS == 0)
			sched_yield();
	}
	saved = errno;
	__atomic_fetch_add(&lock->sleepers, 1, __ATOMIC_SEQ_CST);
	while (!vb_lock_grab(lock))
		nap(lock);
	__atomic_fetch_sub(&lock->sleepers, 1, __ATOMIC_RELAXED);
	errno = saved;
}

/* As soon as it is released another thread may take it, and end what it protects: its address is all that is used after that, and waking
 * threads that sleep at an address at which nothing is any more wakes none, or one that looks and sleeps again. */
void vb_lock_release_to_sleepers(struct vb_lock *lock)
{
	int saved = errno;

	__atomic_store_n(&lock->taken, 0, __ATOMIC_RELEASE);
	syscall(SYS_futex, &lock->taken, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	errno = saved;
}
