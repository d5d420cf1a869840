/* SPDX-License-Identifier: MIT
 *
 * Sending: let the engine fill a burst; each of its runs leaves by the process's own socket (direct.c) or becomes one
 * message of frames to verbenad, with the same headers before each packet of one length. Runs in the thread that made the
 * engine ready. If verbenad is slow the thread waits for it a little, as an adapter would for credits; then the packets are lost.
 */
#include <stdlib.h>

#include "io/unix_socket.h"
#include "links/fabric/fabric_link.h"
#include "links/fabric/tap.h"
#include "queue/qp.h"
#include "roce/roce.h"
#include "wire/burst.h"

enum { BURSTS_PER_CALL = 64 };

#define PATIENCE VB_MILLISECONDS(20)

static bool send_run(int fd, const struct vb_burst_run *run)
{
	struct vb_ib_route route = vb_ib_route_of_path(&run->path);
	uint8_t headers[VB_IB_MAX_HEADERS], last_headers[VB_IB_MAX_HEADERS];
	struct iovec parts[2 * VB_BURST_RUN_PACKETS];
	uint32_t last = run->bytes - (run->packets - 1) * run->segment_size;
	size_t length = vb_ib_route_encode(&route, run->segment_size, headers);

	(void)vb_ib_route_encode(&route, last, last_headers);
	for (uint32_t i = 0; i < run->packets; i++) {
		bool is_last = i + 1 == run->packets;

		parts[2 * i] = (struct iovec){is_last ? last_headers : headers, length};
		parts[2 * i + 1] = (struct iovec){(void *)(uintptr_t)(run->data + (size_t)i * run->segment_size),
						  is_last ? last : run->segment_size};
	}
	return vb_unix_send_parts(fd, parts, 2 * run->packets, PATIENCE) == 0;
}

/* Before it is sent: what answers it has come later. */
static void capture(struct vb_fabric_tap *tap, const struct vb_qp *qp, const struct vb_burst *burst)
{
	for (uint32_t i = 0; i < burst->runs; i++)
		vb_fabric_tap_sending(tap, qp, &burst->run[i]);
	vb_fabric_tap_flush(tap);
}

static void send_burst(struct vb_fabric_link *fabric, const struct vb_qp *qp, const struct vb_burst *burst, struct vb_counters *counters)
{
	int fd = vb_fabric_link_fd(fabric);
	uint32_t lost = 0;

	if (fabric->tap)
		capture(fabric->tap, qp, burst);
	for (uint32_t i = 0; i < burst->runs; i++)
		if (!vb_fabric_direct_send(fabric, &burst->run[i], &lost) && (fd < 0 || !send_run(fd, &burst->run[i])))
			lost += burst->run[i].packets;
	if (lost > 0)
		VB_COUNT_MANY(counters, send_err, lost);
	VB_COUNT_MANY(counters, sent_pkts, burst->packets - lost);
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
	link->schedule->sent++;
	vb_schedule_arm(link->schedule, qp, vb_roce_next_deadline(qp));
}
