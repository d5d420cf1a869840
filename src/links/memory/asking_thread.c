/* SPDX-License-Identifier: MIT
 *
 * See asking_thread.h.
 */
#include "links/memory/asking_thread.h"


#include "io/event.h"
#include "io/thread.h"
#include "schedule/schedule.h"

static void *run(void *argument)
{
	struct vb_asking_thread *asking = argument;

	vb_thread_prepare("verbena-meets");
	while (asking->answer(asking->owner))
		;
	/* It joins us before it sleeps. */
	vb_schedule_kick(asking->schedule);
	return NULL;
}

/* Caller holds the lock, which the thread has given back for the last time. */
static void join(struct vb_asking_thread *asking)
{
	if (asking->has_thread)
		pthread_join(asking->thread, NULL);
	__atomic_store_n(&asking->has_thread, false, __ATOMIC_RELAXED);
}

bool vb_asking_thread_start(struct vb_asking_thread *asking)
{
	if (asking->runs || asking->stops)
		return false;
	join(asking);
	asking->runs = vb_thread_start(&asking->thread, run, asking) == 0;
	__atomic_store_n(&asking->has_thread, asking->runs, __ATOMIC_RELAXED);
	return true;
}

void vb_asking_thread_rest(struct vb_asking_thread *asking, struct vb_lock *lock)
{
	if (!__atomic_load_n(&asking->has_thread, __ATOMIC_RELAXED))
		return;
	vb_lock_take(lock);
	if (!asking->runs)
		join(asking);
	vb_lock_release(lock);
}

void vb_asking_thread_stop(struct vb_asking_thread *asking, struct vb_lock *lock)
{
	vb_lock_take(lock);
	asking->stops = true;
	vb_lock_release(lock);
	if (asking->has_thread)
		pthread_join(asking->thread, NULL);
}

void vb_asking_thread_abandon(struct vb_asking_thread *asking)
{
	asking->has_thread = false;
}
