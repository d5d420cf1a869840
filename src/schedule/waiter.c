/* SPDX-License-Identifier: MIT
 *
 * See waiter.h.
 */
#include "schedule/waiter.h"

#include <stddef.h>

/* As long as a thread that has polled counts as polling. */
#define JUST_LEFT VB_MICROSECONDS(50)
/* As long as the engine thread may nap on its account. */
#define COMES_BACK VB_MILLISECONDS(1)

void vb_waiter_note(struct vb_waiter *waiter, const void *thread, vb_time now)
{
	if (__atomic_load_n(&waiter->thread, __ATOMIC_RELAXED) == thread)
		return;
	__atomic_store_n(&waiter->thread, thread, __ATOMIC_RELAXED);
	__atomic_store_n(&waiter->since, now, __ATOMIC_RELAXED);
}

static bool is_alone(const struct vb_waiter *waiter, const void *thread, vb_time now)
{
	return __atomic_load_n(&waiter->thread, __ATOMIC_RELAXED) == thread &&
	       now - __atomic_load_n(&waiter->since, __ATOMIC_RELAXED) >= VB_WAITER_ALONE;
}

bool vb_waiter_begin(struct vb_waiter *waiter, const void *thread, vb_time now)
{
	const void *none = NULL;

	vb_waiter_note(waiter, thread, now);
	if (!is_alone(waiter, thread, now))
		return false;
	/* One that has left its sleep by longjmp has it still. */
	if (!__atomic_compare_exchange_n(&waiter->waits, &none, thread, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED) && none != thread)
		return false;
	/* Who was about to sleep before does: what comes for it is in this thread's passes, or in the engine thread's. */
	__atomic_store_n(&waiter->needed, false, __ATOMIC_RELAXED);
	return true;
}

void vb_waiter_end(struct vb_waiter *waiter, vb_time now)
{
	__atomic_store_n(&waiter->left, now, __ATOMIC_RELAXED);
	__atomic_store_n(&waiter->last, __atomic_load_n(&waiter->waits, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
	__atomic_store_n(&waiter->waits, NULL, __ATOMIC_RELEASE);
}

bool vb_waiter_comes_back(const struct vb_waiter *waiter, const void *thread, vb_time now)
{
	return __atomic_load_n(&waiter->last, __ATOMIC_RELAXED) == thread && is_alone(waiter, thread, now) &&
	       now - __atomic_load_n(&waiter->left, __ATOMIC_RELAXED) < COMES_BACK;
}

bool vb_waiter_just_left(const struct vb_waiter *waiter, const void *thread, vb_time now)
{
	return __atomic_load_n(&waiter->last, __ATOMIC_RELAXED) == thread &&
	       now - __atomic_load_n(&waiter->left, __ATOMIC_RELAXED) < JUST_LEFT;
}

/* Sequentially consistent, with the store of `napping` and the load of `needed` before a nap: one of the two sees the other. */
bool vb_waiter_need_engine(struct vb_waiter *waiter)
{
	__atomic_store_n(&waiter->needed, true, __ATOMIC_SEQ_CST);
	return __atomic_load_n(&waiter->napping, __ATOMIC_SEQ_CST);
}

bool vb_waiter_sleeps(const struct vb_waiter *waiter)
{
	return __atomic_load_n(&waiter->waits, __ATOMIC_ACQUIRE) != NULL;
}

bool vb_waiter_attends(const struct vb_waiter *waiter, vb_time now)
{
	vb_time left = __atomic_load_n(&waiter->left, __ATOMIC_RELAXED);

	return !__atomic_load_n(&waiter->needed, __ATOMIC_SEQ_CST) &&
	       (vb_waiter_sleeps(waiter) || (left != 0 && now - left < JUST_LEFT));
}

bool vb_waiter_may_still_come(const struct vb_waiter *waiter, vb_time *since, vb_time now)
{
	if (!vb_waiter_sleeps(waiter))
		return false;
	if (*since == 0)
		*since = now;
	return now - *since < VB_WAITER_GRACE;
}

vb_time vb_waiter_last_seen(const struct vb_waiter *waiter)
{
	return __atomic_load_n(&waiter->left, __ATOMIC_RELAXED);
}
