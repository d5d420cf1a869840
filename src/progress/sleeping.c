/* SPDX-License-Identifier: MIT
 *
 * Threads of the application that go to sleep: until the engine thread raises an event for them, or on the descriptors of links themselves,
 * the sockets of the wire and what host peers raise (schedule/waiter.h).
 */
#include "base/inline.h"
#include "io/clock.h"
#include "progress/endpoint_parts.h"

static VB_THREAD_LOCAL bool arms;          /* what it arms meanwhile is for its own sleep */
static const char polls;                   /* stands for all threads that poll */

void vb_endpoint_watch(struct vb_endpoint *endpoint)
{
	vb_time now = vb_clock_now();
	bool naps;

	if (vb_thread_dozes() && arms)
		return;
	naps = vb_spinner_watch(&endpoint->schedule.spinner, now);
	if (!vb_waiter_comes_back(&endpoint->waiter, vb_thread_address(), now)) {
		vb_waiter_note(&endpoint->waiter, vb_thread_address(), now);
		naps |= vb_waiter_need_engine(&endpoint->waiter);
	}
	if (naps)
		vb_schedule_kick(&endpoint->schedule);
	if (endpoint->schedule.abandoned)
		return;
	for (struct vb_link *link = endpoint->schedule.links; link; link = link->next)
		if (link->driver->watched)
			link->driver->watched(link);
}

/* What comes by others only the engine thread hears of. */
static bool links_wake_sleepers(const struct vb_endpoint *endpoint)
{
	for (const struct vb_link *link = endpoint->schedule.links; link; link = link->next)
		if (!link->driver->wakes_sleepers && __atomic_load_n(&link->members, __ATOMIC_RELAXED) != 0)
			return false;
	return true;
}

static bool links_doze(struct vb_endpoint *endpoint)
{
	for (struct vb_link *link = endpoint->schedule.links; link; link = link->next)
		if (link->driver->doze && !link->driver->doze(link))
			return false;
	return true;
}

int vb_endpoint_sleep_begin(struct vb_endpoint *endpoint, enum vb_sleeper sleeper)
{
	int sockets = __atomic_load_n(&endpoint->sockets, __ATOMIC_ACQUIRE);

	vb_thread_doze(false);
	if (!endpoint->schedule.abandoned && links_wake_sleepers(endpoint)) {
		if (sockets >= 0 && vb_waiter_begin(&endpoint->waiter, vb_thread_address(), vb_clock_now())) {
			if (links_doze(endpoint)) {
				vb_thread_doze(true);
				arms = sleeper == VB_SLEEPER_ARMS;
				/* It looks before it sleeps. One that does not is no thread that polls. */
				if (arms)
					__atomic_store_n(&endpoint->schedule.spinner.watched, false, __ATOMIC_RELAXED);
				return sockets;
			}
			vb_waiter_end(&endpoint->waiter, vb_clock_now());
		}
		if (sockets < 0 && !__atomic_exchange_n(&endpoint->sockets_wanted, true, __ATOMIC_RELAXED))
			vb_schedule_kick(&endpoint->schedule);
	}
	/* CQs that are armed still, from before, are not armed again. */
	if (sleeper == VB_SLEEPER_ARMS)
		vb_endpoint_watch(endpoint);
	else if (vb_waiter_need_engine(&endpoint->waiter))
		vb_schedule_kick(&endpoint->schedule);
	return -1;
}

bool vb_endpoint_sleep_is_begun(void)
{
	return vb_thread_dozes();
}

void vb_endpoint_sleep_end(struct vb_endpoint *endpoint)
{
	if (!vb_thread_dozes())
		return;
	vb_thread_doze(false);
	vb_waiter_end(&endpoint->waiter, vb_clock_now());
	vb_engine_slept();
}

static bool came_before(struct vb_endpoint *endpoint)
{
	for (struct vb_link *link = endpoint->schedule.links; link; link = link->next)
		if (link->driver->doze && link->driver->has_work(link))
			return true;
	return false;
}

enum vb_sleep_look vb_endpoint_sleep_look(struct vb_endpoint *endpoint, vb_time since)
{
	if (endpoint->schedule.abandoned)
		return VB_SLEEP_ON;
	/* Another thread that polls may have said since that this process need not be woken. */
	(void)links_doze(endpoint);
	if (!came_before(endpoint))
		return vb_schedule_waits(&endpoint->schedule) && vb_endpoint_sleep_pass(endpoint, since) ? VB_SLEEP_DONE : VB_SLEEP_ON;
	if (vb_endpoint_sleep_pass(endpoint, since))
		return VB_SLEEP_DONE;
	if (!came_before(endpoint))
		return VB_SLEEP_ON;
	/* Another thread has that queue pair, and it may have looked already. */
	(void)vb_waiter_need_engine(&endpoint->waiter);
	vb_schedule_kick(&endpoint->schedule);
	return VB_SLEEP_ELSEWHERE;
}

void vb_endpoint_sleep_woken(struct vb_endpoint *endpoint)
{
	if (endpoint->schedule.abandoned)
		return;
	for (struct vb_link *link = endpoint->schedule.links; link; link = link->next)
		if (link->driver->woken)
			link->driver->woken(link);
}

/* Not as one that polls: what is sent meanwhile does not wait for a next pass. Nor does it only try whether another thread is at it: that
 * one may be the engine thread, which lost this very processor when the packet came, and would be asked for milliseconds. */
bool vb_endpoint_sleep_pass(struct vb_endpoint *endpoint, vb_time since)
{
	struct vb_schedule *schedule = &endpoint->schedule;
	vb_time now = vb_clock_now();
	bool done;

	vb_spinner_forget_posts();
	if (schedule->abandoned)
		return false;
	vb_endpoint_sleep_woken(endpoint);
	vb_lock_take(&schedule->progress);
	/* Whichever socket has woken it is among those that are looked at. */
	done = (__atomic_load_n(&schedule->lanes, __ATOMIC_RELAXED) == 1 && vb_endpoint_pass(endpoint, now, false)) ||
	       vb_endpoint_pass(endpoint, now, true);
	vb_lock_release(&schedule->progress);
	if (vb_spinner_last_seen(&schedule->spinner) > since)
		vb_waiter_note(&endpoint->waiter, &polls, now);
	return done;
}
