/* SPDX-License-Identifier: MIT
 *
 * Threads of the application that go to sleep: until the engine thread raises an event for them, or on the sockets of the wire themselves
 * (schedule/waiter.h).
 */
#include "base/inline.h"
#include "io/clock.h"
#include "progress/endpoint_parts.h"

static VB_THREAD_LOCAL char self;          /* its address is the thread's */
static VB_THREAD_LOCAL bool waits;         /* until vb_endpoint_sleep_end */
static VB_THREAD_LOCAL bool arms;          /* what it arms meanwhile is for its own sleep */
static const char polls;                   /* stands for all threads that poll */

void vb_endpoint_watch(struct vb_endpoint *endpoint)
{
	vb_time now = vb_clock_now();
	bool naps;

	if (waits && arms)
		return;
	naps = vb_spinner_watch(&endpoint->schedule.spinner, now);
	if (!vb_waiter_comes_back(&endpoint->waiter, &self, now)) {
		vb_waiter_note(&endpoint->waiter, &self, now);
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

/* What comes by other links no socket of the wire tells of, nor of datagrams that come past it. */
static bool wire_carries_all(const struct vb_endpoint *endpoint, const struct vb_link *wire)
{
	if (endpoint->schedule.shortcut && __atomic_load_n(&endpoint->schedule.peerless, __ATOMIC_RELAXED) != 0)
		return false;
	for (const struct vb_link *link = endpoint->schedule.links; link; link = link->next)
		if (link != wire && __atomic_load_n(&link->members, __ATOMIC_RELAXED) != 0)
			return false;
	return true;
}

int vb_endpoint_sleep_begin(struct vb_endpoint *endpoint, enum vb_sleeper sleeper)
{
	const struct vb_link *wire = endpoint->wire[VB_DEVICE_ROCE];
	int sockets = __atomic_load_n(&endpoint->sockets, __ATOMIC_ACQUIRE);

	waits = false;
	if (!endpoint->schedule.abandoned && wire && wire_carries_all(endpoint, wire)) {
		if (sockets >= 0 && vb_waiter_begin(&endpoint->waiter, &self, vb_clock_now())) {
			waits = true;
			arms = sleeper == VB_SLEEPER_ARMS;
			/* It looks before it sleeps. One that does not is no thread that polls. */
			if (arms)
				__atomic_store_n(&endpoint->schedule.spinner.watched, false, __ATOMIC_RELAXED);
			return sockets;
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

void vb_endpoint_sleep_end(struct vb_endpoint *endpoint)
{
	if (!waits)
		return;
	waits = false;
	vb_waiter_end(&endpoint->waiter, vb_clock_now());
	vb_engine_slept();
}

bool vb_endpoint_has_put_off(const struct vb_endpoint *endpoint)
{
	return !endpoint->schedule.abandoned && vb_schedule_waits(&endpoint->schedule);
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
	vb_lock_take(&schedule->progress);
	/* Whichever socket has woken it is among those that are looked at. */
	done = (__atomic_load_n(&schedule->lanes, __ATOMIC_RELAXED) == 1 && vb_endpoint_pass(endpoint, now, false)) ||
	       vb_endpoint_pass(endpoint, now, true);
	vb_lock_release(&schedule->progress);
	if (vb_spinner_last_seen(&schedule->spinner) > since)
		vb_waiter_note(&endpoint->waiter, &polls, now);
	return done;
}
