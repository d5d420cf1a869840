/* SPDX-License-Identifier: MIT
 *
 * A mutex of the C library with a rank (base/lock_order.h): where threads wait long, or for a condition. For short
 * sections on the way of every message see base/lock.h.
 */
#ifndef VB_BASE_MUTEX_H
#define VB_BASE_MUTEX_H

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/lock_order.h"
#include "base/thread_safety.h"

struct VB_IS_LOCK("mutex") vb_mutex {
	pthread_mutex_t mutex;
#ifdef VB_CHECK_INVARIANTS
	enum vb_lock_rank rank;
#endif
};

#ifdef VB_CHECK_INVARIANTS
#define VB_MUTEX_RANK(own) __atomic_load_n(&(own)->rank, __ATOMIC_RELAXED)
#define VB_MUTEX_INITIALIZER(its_rank) {.mutex = PTHREAD_MUTEX_INITIALIZER, .rank = (its_rank)}
#else
#define VB_MUTEX_RANK(own) ((enum vb_lock_rank)0)
#define VB_MUTEX_INITIALIZER(its_rank) {.mutex = PTHREAD_MUTEX_INITIALIZER}
#endif

/* Its object became another kind of thing. Others may be waiting for it. */
static inline void vb_mutex_set_rank(struct vb_mutex *own, enum vb_lock_rank rank)
{
#ifdef VB_CHECK_INVARIANTS
	__atomic_store_n(&own->rank, rank, __ATOMIC_RELAXED);
#else
	(void)own;
	(void)rank;
#endif
}

static inline void vb_mutex_init_with(struct vb_mutex *own, enum vb_lock_rank rank,
				      const pthread_mutexattr_t *attributes)
{
	pthread_mutex_init(&own->mutex, attributes);
#ifdef VB_CHECK_INVARIANTS
	vb_lock_order_forget(own);
#endif
	vb_mutex_set_rank(own, rank);
}

static inline void vb_mutex_init(struct vb_mutex *own, enum vb_lock_rank rank)
{
	vb_mutex_init_with(own, rank, NULL);
}

static inline void vb_mutex_fini(struct vb_mutex *own)
{
	pthread_mutex_destroy(&own->mutex);
}

static inline void vb_mutex_lock(struct vb_mutex *own) VB_TAKES(*own) VB_UNCHECKED
{
	vb_lock_order_take(own, VB_MUTEX_RANK(own));
	pthread_mutex_lock(&own->mutex);
}

static inline bool vb_mutex_try(struct vb_mutex *own) VB_TRIES(*own) VB_UNCHECKED
{
	if (pthread_mutex_trylock(&own->mutex) != 0)
		return false;
	vb_lock_order_tried(own, VB_MUTEX_RANK(own));
	return true;
}

static inline void vb_mutex_unlock(struct vb_mutex *own) VB_RELEASES(*own) VB_UNCHECKED
{
	vb_lock_order_release(own, VB_MUTEX_RANK(own));
	pthread_mutex_unlock(&own->mutex);
}

/* By this thread. */
static inline void vb_mutex_assert_held(const struct vb_mutex *own) VB_ASSERTS(*own)
{
#ifdef VB_CHECK_INVARIANTS
	assert(vb_lock_order_holds(own));
#else
	(void)own;
#endif
}

static inline void vb_mutex_wait(struct vb_mutex *own, pthread_cond_t *condition) VB_NEEDS(*own)
{
	vb_lock_order_wait(own, VB_MUTEX_RANK(own));
	pthread_cond_wait(condition, &own->mutex);
}

/* 0 or ETIMEDOUT. `until` is of the condition's clock. */
static inline int vb_mutex_wait_until(struct vb_mutex *own, pthread_cond_t *condition, const struct timespec *until)
	VB_NEEDS(*own)
{
	vb_lock_order_wait(own, VB_MUTEX_RANK(own));
	return pthread_cond_timedwait(condition, &own->mutex, until);
}

#endif
