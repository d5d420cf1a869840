/* SPDX-License-Identifier: MIT
 *
 * A mutex that can say whether it is held, so that "Caller holds x" is checked where VB_CHECK_INVARIANTS is defined.
 *
 * Order in which locks are taken, outermost first:
 *   endpoint.progress -> qp.lock -> srq.lock -> cq.lock -> channel and event queues
 */
#ifndef VB_BASE_LOCK_H
#define VB_BASE_LOCK_H

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>

struct vb_lock {
	pthread_mutex_t mutex;
#ifdef VB_CHECK_INVARIANTS
	bool held;
#endif
};

static inline void vb_lock_init(struct vb_lock *lock)
{
	pthread_mutex_init(&lock->mutex, NULL);
#ifdef VB_CHECK_INVARIANTS
	lock->held = false;
#endif
}

static inline void vb_lock_fini(struct vb_lock *lock)
{
	pthread_mutex_destroy(&lock->mutex);
}

static inline void vb_lock_take(struct vb_lock *lock)
{
	pthread_mutex_lock(&lock->mutex);
#ifdef VB_CHECK_INVARIANTS
	lock->held = true;
#endif
}

static inline bool vb_lock_try(struct vb_lock *lock)
{
	if (pthread_mutex_trylock(&lock->mutex) != 0)
		return false;
#ifdef VB_CHECK_INVARIANTS
	lock->held = true;
#endif
	return true;
}

static inline void vb_lock_release(struct vb_lock *lock)
{
#ifdef VB_CHECK_INVARIANTS
	assert(lock->held);
	lock->held = false;
#endif
	pthread_mutex_unlock(&lock->mutex);
}

/* Only ever called where the caller must hold the lock, so the unlocked read is its own. */
static inline void vb_lock_assert_held(const struct vb_lock *lock)
{
#ifdef VB_CHECK_INVARIANTS
	assert(lock->held);
#else
	(void)lock;
#endif
}

#endif
