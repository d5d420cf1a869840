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

void vb_endpoint_watch(struct vb_endpoint *endpoint)
{
	vb_time now = vb_clock_now();

	if (waits)
		return;
	vb_waiter_note(&endpoint->waiter, &self, now);
	if (vb_spinner_watch(&endpoint->schedule.spinner, now))
		vb_schedule_kick(&endpoint->schedule);
	if (endpoint->schedule.abandoned)
		return;
	for (struct vb_link *link = endpoint->schedule.links; link; link = link->next)
		if (link->driver->watched)
			link->driver->watched(link);
}

/* What comes by other links no socket of the wire tells of. */
static bool wire_carries_all(const struct vb_endpoint *endpoint, const struct vb_link *wire)
{
	for (const struct vb_link *link = endpoint->schedule.links; link; link = link->next)
		if (link != wire && __atomic_load_n(&link->members, __ATOMIC_RELAXED) != 0)
			return false;
	return true;
}

int vb_endpoint_sleep_begin(struct vb_endpoint *endpoint)
{
	const struct vb_link *wire = endpoint->wire[VB_DEVICE_ROCE];
	int sockets = __atomic_load_n(&endpoint->sockets, __ATOMIC_ACQUIRE);

	waits = false;
	if (!endpoint->schedule.abandoned && wire && wire_carries_all(endpoint, wire)) {
		if (sockets >= 0 && vb_waiter_begin(&endpoint->waiter, &self, vb_clock_now())) {
			waits = true;
			/* Who was about to sleep before us does: what comes for it is in our passes, or in the engine thread's. */
			__atomic_store_n(&endpoint->schedule.spinner.watched, false, __ATOMIC_RELAXED);
			return sockets;
		}
		if (sockets < 0 && !__atomic_exchange_n(&endpoint->sockets_wanted, true, __ATOMIC_RELAXED))
			vb_schedule_kick(&endpoint->schedule);
	}
	/* CQs that are armed still, from before, are not armed again. */
	vb_endpoint_watch(endpoint);
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
