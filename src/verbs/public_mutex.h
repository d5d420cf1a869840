/* SPDX-License-Identifier: MIT
 *
 * The mutexes of public structures (ibv_context, ibv_cq, ibv_srq, ibv_qp), which have the type and the place that the
 * ABI gives them: with a rank of base/lock_order.h all the same.
 */
#ifndef VB_VERBS_PUBLIC_MUTEX_H
#define VB_VERBS_PUBLIC_MUTEX_H

#include <pthread.h>

#include "base/lock_order.h"

static inline void vb_public_lock(pthread_mutex_t *mutex)
{
	vb_lock_order_take(mutex, VB_RANK_PUBLIC);
	pthread_mutex_lock(mutex);
}

static inline void vb_public_unlock(pthread_mutex_t *mutex)
{
	vb_lock_order_release(mutex, VB_RANK_PUBLIC);
	pthread_mutex_unlock(mutex);
}

static inline void vb_public_wait(pthread_mutex_t *mutex, pthread_cond_t *condition)
{
	vb_lock_order_wait(mutex, VB_RANK_PUBLIC);
	pthread_cond_wait(condition, mutex);
}

/* 0 or ETIMEDOUT. `until` is of CLOCK_REALTIME. */
static inline int vb_public_wait_until(pthread_mutex_t *mutex, pthread_cond_t *condition, const struct timespec *until)
{
	vb_lock_order_wait(mutex, VB_RANK_PUBLIC);
	return pthread_cond_timedwait(condition, mutex, until);
}

#endif
