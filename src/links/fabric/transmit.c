/* SPDX-License-Identifier: MIT
 *
 * Sending: let the engine fill a burst; each of its runs becomes one message of frames (send.c). Runs in the thread that made the engine
 * ready.
 */
#include <stdlib.h>

#include "links/fabric/fabric_link.h"
#include "links/fabric/tap.h"
#include "queue/qp.h"
#include "roce/roce.h"
#include "wire/burst.h"

enum { BURSTS_PER_CALL = 64 };

static void send_burst(struct vb_fabric_link *fabric, const struct vb_qp *qp, struct vb_burst *burst, struct vb_counters *counters)
{
	uint32_t packets = burst->packets, lost = 0;
	size_t bytes = vb_burst_bytes(burst);

	/* A capture before it is sent: what answers it has come later. */
	if (!fabric->tap || !vb_fabric_tap_sending(fabric->tap, qp, burst, &lost))
		for (uint32_t i = 0; i < burst->runs; i++)
			lost += vb_fabric_link_send_run(fabric, &burst->run[i]);
	vb_link_count_sent(counters, packets, bytes, lost);
}

/* True: there is more. */
static bool send(struct vb_fabric_link *fabric, struct vb_qp *qp, vb_time now, unsigned bursts)
{
	struct vb_binding *binding = qp->scheduler;
	struct vb_burst *burst = vb_burst_pool_take(&fabric->bursts);
	bool more = true;

	/* No memory now: try again from the engine thread. */
	if (!burst)
		return true;
	for (unsigned i = 0; more && i < bursts; i++) {
		vb_burst_reset(burst);
		more = vb_roce_send(qp, now, burst);
		if (!vb_burst_is_empty(burst))
			send_burst(fabric, qp, burst, binding->counters);
	}
	vb_burst_pool_give(&fabric->bursts, burst);
	return more;
}

void vb_fabric_link_transmit(struct vb_link *link, struct vb_qp *qp, vb_time now)
{
	vb_lock_assert_held(&qp->lock);
	if (send(vb_fabric_link_of(link), qp, now, BURSTS_PER_CALL))
		vb_schedule_mark_active(link->schedule, qp);
	vb_schedule_arm(link->schedule, qp, vb_roce_next_deadline(qp));
}

/* One burst at a time: the pass sees what has come meanwhile. */
void vb_fabric_link_transmit_in_pass(struct vb_link *link, struct vb_qp *qp, vb_time now)
{
	vb_lock_assert_held(&link->schedule->progress);
	if (send(vb_fabric_link_of(link), qp, now, 1))
		vb_schedule_mark_active(link->schedule, qp);
	link->schedule->lane[0].sent++;
	vb_schedule_arm(link->schedule, qp, vb_roce_next_deadline(qp));
}
