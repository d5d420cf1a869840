/* SPDX-License-Identifier: MIT
 *
 * Waiting for a lock, see lock.h.
 */
#include "base/lock.h"

#include <time.h>

enum {
	/* Some 20 us, longer than a pass keeps a queue pair: going to sleep and being woken takes as long. Two threads that send to
	 * themselves over the wire, of which one at a time delivers for both, do 1.6 million messages a second so, and 1.3 with one
	 * microsecond. */
#if defined(__x86_64__) || defined(__i386__)
	TRIES = 400,                       /* `pause` takes 40 ns on newer processors */
#else
	TRIES = 2000,
#endif
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
	pthread_mutex_init(&lock->wait_mutex, NULL);
}

void vb_lock_fini(struct vb_lock *lock)
{
	if (lock->has_condition)
		pthread_cond_destroy(&lock->released);
	pthread_mutex_destroy(&lock->wait_mutex);
}

/* With the first sleeper, and not before: an initializer can give a condition no other clock than the one that is set by hand. Caller holds
 * wait_mutex. */
static void make_condition(struct vb_lock *lock)
{
	pthread_condattr_t attributes;

	if (lock->has_condition)
		return;
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&lock->released, &attributes);
	pthread_condattr_destroy(&attributes);
	lock->has_condition = true;
}

/* Until it was released, or a nap is over. Caller holds wait_mutex. */
static void nap(struct vb_lock *lock)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += NAP;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	pthread_cond_timedwait(&lock->released, &lock->wait_mutex, &until);
}

void vb_lock_wait(struct vb_lock *lock)
{
	for (unsigned i = 0; i < TRIES; i++) {
		if (__atomic_load_n(&lock->taken, __ATOMIC_RELAXED) == 0 && vb_lock_grab(lock))
			return;
		vb_lock_relax();
	}
	pthread_mutex_lock(&lock->wait_mutex);
	make_condition(lock);
	__atomic_fetch_add(&lock->sleepers, 1, __ATOMIC_SEQ_CST);
	while (!vb_lock_grab(lock))
		nap(lock);
	__atomic_fetch_sub(&lock->sleepers, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&lock->wait_mutex);
}

/* A thread that was woken gets wait_mutex after us, and not before may the lock go. */
void vb_lock_release_to_sleepers(struct vb_lock *lock)
{
	pthread_mutex_lock(&lock->wait_mutex);
	__atomic_store_n(&lock->taken, 0, __ATOMIC_RELEASE);
	/* There is one: it was made before `sleepers` was counted up, under wait_mutex. */
	pthread_cond_signal(&lock->released);
	pthread_mutex_unlock(&lock->wait_mutex);
}
