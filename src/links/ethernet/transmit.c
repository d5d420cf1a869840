/* SPDX-License-Identifier: MIT
 *
 * Sending: what the engine has ready goes to the socket in one call. A frame that the system takes is sent, as far as
 * can be known; if it takes none, the work waits, as it would before an adapter that is held up.
 */
#include <errno.h>

#include "links/ethernet/ethernet_link.h"
#include "queue/qp.h"

enum { BATCHES_PER_CALL = 64 };

#define FULL_RETRY VB_MICROSECONDS(100)
/* The same error is given where a filter drops every frame. A queue that moves at all takes the longest frame of Ethernet within
 * this time, at a megabit a second. */
#define FULL_AT_MOST VB_MILLISECONDS(200)

/* Lost, as on a cable that is not plugged in. */
static void lose(struct vb_ethernet_port *port, vb_time now)
{
	struct vb_binding *binding = port->qp->scheduler;

	VB_COUNT(binding->counters, send_err);
	vb_raw_sent(port->qp, 1, now);
}

/* The first that was not taken. True: go on. */
static bool refused(struct vb_ethernet_link *ethernet, struct vb_ethernet_port *port, int error, vb_time now)
{
	switch (error) {
	case -EAGAIN:
		port->blocked = true;
		vb_ethernet_port_watch(ethernet, port);
		return false;
	case -ENOBUFS:
	case -ENOMEM:
		/* The interface's queue is full, and nothing tells when it is not. */
		if (port->full_since == 0)
			port->full_since = now;
		if (now - port->full_since >= FULL_AT_MOST) {
			lose(port, now);
			return true;
		}
		vb_schedule_arm(ethernet->schedule, port->qp, now + FULL_RETRY);
		return false;
	case -EMSGSIZE:
		vb_raw_too_long(port->qp, now);
		return false;
	default:
		/* The interface is down or gone. */
		lose(port, now);
		return true;
	}
}

/* True: there may be more. */
static bool send_batch(struct vb_ethernet_link *ethernet, struct vb_ethernet_port *port, vb_time now)
{
	struct vb_binding *binding = port->qp->scheduler;
	struct vb_raw_batch *out = &port->out;
	size_t bytes = 0;
	unsigned sent;
	int error;

	vb_raw_fill(port->qp, out, now);
	if (out->frames == 0)
		return false;
	sent = vb_packet_socket_send(port->fd, out->frame, out->length, out->frames, &error);
	VB_COUNT_MANY(binding->counters, sent_pkts, sent);
	for (unsigned i = 0; i < sent; i++)
		bytes += out->length[i];
	VB_COUNT_MANY(binding->counters, sent_bytes, bytes);
	vb_raw_sent(port->qp, sent, now);
	if (sent > 0)
		port->full_since = 0;
	return error == 0 || refused(ethernet, port, error, now);
}

static void transmit(struct vb_link *link, struct vb_qp *qp, vb_time now, unsigned batches)
{
	struct vb_ethernet_link *ethernet = vb_ethernet_link_of(link);
	struct vb_ethernet_port *port = vb_ethernet_port_of(ethernet, qp);
	bool more = !port->blocked;

	vb_lock_assert_held(&qp->lock);
	for (unsigned i = 0; more && i < batches; i++)
		more = send_batch(ethernet, port, now);
	if (more && vb_send_queue_count(&qp->send) > 0)
		vb_schedule_mark_active(link->schedule, qp);
	if (!port->blocked)
		vb_schedule_arm(link->schedule, qp, vb_raw_due(qp));
}

void vb_ethernet_transmit(struct vb_link *link, struct vb_qp *qp, vb_time now)
{
	transmit(link, qp, now, BATCHES_PER_CALL);
}

/* One batch at a time: the pass sees what has come meanwhile. */
void vb_ethernet_transmit_in_pass(struct vb_link *link, struct vb_qp *qp, vb_time now)
{
	vb_lock_assert_held(&link->schedule->progress);
	link->schedule->lane[0].sent++;
	transmit(link, qp, now, 1);
}

bool vb_ethernet_expire(struct vb_link *link, struct vb_qp *qp, vb_time now)
{
	bool retries = vb_ethernet_port_of(vb_ethernet_link_of(link), qp)->full_since != 0;

	if (!retries && vb_raw_due(qp) > now) {
		vb_schedule_arm(link->schedule, qp, vb_raw_due(qp));
		return false;
	}
	vb_ethernet_transmit_in_pass(link, qp, now);
	return true;
}
