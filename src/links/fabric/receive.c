/* SPDX-License-Identifier: MIT
 *
 * Receiving: the socket's share of a pass, and the RoCE engine's timers. A queue pair stays locked for consecutive packets of it, and sends
 * (acknowledgements, more data) once per message of frames.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "io/descriptor.h"
#include "links/fabric/fabric_link.h"
#include "links/fabric/tap.h"
#include "queue/qp.h"
#include "roce/roce.h"
#include "wire/ib_packet.h"
#include "wire/icrc.h"
#include "wire/roce_packet.h"

enum {
	MESSAGES_PER_PASS = 16,
	BATCHES_PER_PASS = 4,
	SELDOM = 16,                       /* passes */
	MESSAGES_BEFORE_GIVING_UP = 256,   /* more than the socket holds */
	TOUCHED = 64,                      /* queue pairs that wait for their turn to send */
};

/* What a message has touched so far. */
struct batch {
	struct vb_fabric_link *fabric;
	vb_time now;
	struct vb_qp *locked;              /* the queue pair whose lock we hold */
	struct vb_qp *touched[TOUCHED];    /* distinct */
	unsigned count;
	size_t length;                     /* of the packet under way, from its BTH */
	const uint8_t *frame;              /* that the packet under way is in, for a capture */
	size_t frame_length;
};

/* Which one that is clang cannot follow. */
static void unlock(struct batch *batch) VB_UNCHECKED
{
	if (batch->locked)
		vb_lock_release(&batch->locked->lock);
	batch->locked = NULL;
}

static void send_touched(struct batch *batch)
{
	unlock(batch);
	for (unsigned i = 0; i < batch->count; i++) {
		struct vb_qp *qp = batch->touched[i];

		vb_lock_take(&qp->lock);
		vb_fabric_link_transmit_in_pass(&batch->fabric->link, qp, batch->now);
		vb_lock_release(&qp->lock);
	}
	batch->count = 0;
}

static void lock_qp(struct batch *batch, struct vb_qp *qp) VB_UNCHECKED
{
	unsigned i = 0;

	if (batch->locked == qp)
		return;
	unlock(batch);
	while (i < batch->count && batch->touched[i] != qp)
		i++;
	if (i == TOUCHED) {
		send_touched(batch);
		i = 0;
	}
	if (i == batch->count)
		batch->touched[batch->count++] = qp;
	vb_lock_take(&qp->lock);
	batch->locked = qp;
}

static void deliver(struct batch *batch, struct vb_qp *qp, const struct vb_roce_packet *packet)
{
	struct vb_binding *binding = qp->scheduler;

	/* What came by InfiniBand is for queue pairs of InfiniBand. */
	if (__atomic_load_n(&binding->carrier, __ATOMIC_RELAXED) != &batch->fabric->link) {
		VB_COUNT(binding->counters, dropped_pkts);
		return;
	}
	lock_qp(batch, qp);
	VB_COUNT(binding->counters, rcvd_pkts);
	VB_COUNT_MANY(binding->counters, rcvd_bytes, batch->length);
	vb_roce_receive(qp, batch->now, packet);
}

static void deliver_to_group(struct batch *batch, const struct vb_roce_packet *packet)
{
	const struct vb_fabric_link *fabric = batch->fabric;

	for (unsigned i = 0; i < fabric->groups; i++)
		if (memcmp(fabric->group[i].gid, packet->from.destination, 16) == 0)
			deliver(batch, fabric->group[i].qp, packet);
}

static void count_refused(struct batch *batch, enum vb_roce_decode_result result)
{
	struct vb_counters *counters = VB_SCHEDULE_COUNTERS(batch->fabric->schedule);

	if (result == VB_PACKET_BAD_ICRC)
		VB_COUNT(counters, icrc_error);
	else
		VB_COUNT(counters, malformed_pkts);
}

static void take_packet(struct batch *batch, const uint8_t *bth, size_t length, const struct vb_path *from, struct vb_icrc_prefix *prefix)
{
	struct vb_roce_packet packet;
	enum vb_roce_decode_result result = vb_roce_packet_decode_again(&packet, bth, length, from, prefix, 0);
	struct vb_qp *qp;

	if (batch->fabric->tap)
		vb_fabric_tap_received(batch->fabric->tap, batch->frame, batch->frame_length, result == VB_PACKET_OK);
	if (result != VB_PACKET_OK) {
		count_refused(batch, result);
		return;
	}
	batch->length = length;
	if (packet.destination_qpn == VB_MULTICAST_QPN) {
		deliver_to_group(batch, &packet);
		return;
	}
	qp = vb_schedule_find(batch->fabric->schedule, packet.destination_qpn);
	if (qp)
		deliver(batch, qp, &packet);
	else
		VB_COUNT(VB_SCHEDULE_COUNTERS(batch->fabric->schedule), unknown_qp_pkts);
}

/* Of packets of one length and path, what the queue pair whose packet came last can take in one go. How many are done with. A capture
 * wants to see each. */
static unsigned take_bulk(struct batch *batch, const uint8_t *bth, size_t length, size_t stride, unsigned count,
			  const struct vb_path *from, struct vb_icrc_prefix *prefix)
{
	struct vb_roce_bulk bulk = {.bytes = bth, .length = (count - 1) * stride + length, .segment = length, .stride = stride};
	struct vb_binding *binding;

	if (!batch->locked || batch->fabric->tap)
		return 0;
	binding = batch->locked->scheduler;
	vb_roce_receive_bulk(batch->locked, batch->now, from, prefix, &bulk);
	if (bulk.taken > 0) {
		VB_COUNT_MANY(binding->counters, rcvd_pkts, bulk.taken);
		VB_COUNT_MANY(binding->counters, rcvd_bytes, bulk.taken * length);
	}
	if (bulk.damaged > 0)
		count_refused(batch, VB_PACKET_BAD_ICRC);
	return bulk.taken + bulk.damaged;
}

/* Frames that agree in LRH and GRH: the first, and others, `stride` apart, that may change meanwhile. Of those what is taken in bulk is
 * taken from where it lies, since nothing that it says leads anywhere but by way of a copy (roce/bulk_receive.c); the rest is copied
 * first. */
static void take_frames(struct batch *batch, const uint8_t *bytes, size_t length, const uint8_t *others, size_t stride, unsigned count)
{
	struct vb_icrc_prefix prefix = {0};
	struct vb_ib_frame frame;
	struct vb_path from;
	size_t headers;

	if (!vb_ib_frame_decode(&frame, bytes, length)) {
		VB_COUNT_MANY(VB_SCHEDULE_COUNTERS(batch->fabric->schedule), malformed_pkts, count);
		return;
	}
	headers = (size_t)(frame.bth - bytes);
	from = vb_ib_route_to_path(&frame.route);
	batch->frame = bytes;
	batch->frame_length = length;
	take_packet(batch, frame.bth, frame.bth_length, &from, &prefix);
	for (unsigned i = 0; i + 1 < count; i++) {
		uint8_t copy[VB_IB_MAX_FRAME];

		i += take_bulk(batch, others + i * stride + headers, frame.bth_length, stride, count - 1 - i, &from, &prefix);
		if (i + 1 >= count)
			break;
		memcpy(copy, bytes, headers);
		memcpy(copy + headers, others + i * stride + headers, frame.bth_length);
		batch->frame = copy;
		take_packet(batch, copy + headers, frame.bth_length, &from, &prefix);
	}
}

/* True: there was one. */
static bool take_message(struct vb_fabric_link *fabric, vb_time now)
{
	struct batch batch = {.fabric = fabric, .now = now};
	int fd = vb_fabric_link_fd(fabric);
	ssize_t got = fd < 0 ? -EAGAIN : vb_descriptor_receive(fd, fabric->incoming, sizeof(fabric->incoming));
	const uint8_t *at = fabric->incoming;
	size_t left, own;

	if (got == -EAGAIN)
		return false;
	if (got <= 0) {
		vb_log(VB_LOG_INFO, "verbenad, which is the InfiniBand adapter, is gone: no packets until there is another");
		__atomic_store_n(&fabric->is_closed, true, __ATOMIC_RELEASE);
		return false;
	}
	for (left = (size_t)got; (own = vb_frame_port_next(at, left)) > 0; at += own, left -= own)
		take_frames(&batch, at, own, at, own, 1);
	if (fabric->tap)
		vb_fabric_tap_flush(fabric->tap);
	send_touched(&batch);
	return true;
}

static void take_direct(void *context, const uint8_t *frame, size_t length, const uint8_t *others, size_t stride, unsigned count)
{
	take_frames(context, frame, length, others, stride, count);
}

static void end_direct(void *context)
{
	struct batch *batch = context;

	if (batch->fabric->tap)
		vb_fabric_tap_flush(batch->fabric->tap);
	send_touched(batch);
}

static bool take_bundles(struct vb_fabric_link *fabric, vb_time now, unsigned batches, bool all)
{
	struct batch batch = {.fabric = fabric, .now = now};

	return vb_fabric_direct_receive(fabric, batches, all, take_direct, end_direct, &batch);
}

bool vb_fabric_link_drain(struct vb_link *link, vb_time now, bool all)
{
	struct vb_fabric_link *fabric = vb_fabric_link_of(link);
	bool seldom = all || link->schedule->passes % SELDOM == 0, done = take_bundles(fabric, now, BATCHES_PER_PASS, seldom);

	/* Where data goes past verbenad, little comes from there. */
	if (!seldom && __atomic_load_n(&fabric->known_generation, __ATOMIC_RELAXED) != 0)
		return done;
	for (unsigned i = 0; i < MESSAGES_PER_PASS && take_message(fabric, now); i++)
		done = true;
	return done;
}

bool vb_fabric_link_expire(struct vb_link *link, struct vb_qp *qp, vb_time now) VB_NEEDS(qp->lock)
{
	struct vb_fabric_link *fabric = vb_fabric_link_of(link);

	/* What it is about to end for may lie in the socket. Once in a pass is enough. */
	if (vb_roce_gives_up(qp, now) && fabric->all_read_in != link->schedule->passes) {
		fabric->all_read_in = link->schedule->passes;
		vb_lock_release(&qp->lock);
		(void)take_bundles(fabric, now, MESSAGES_BEFORE_GIVING_UP, true);
		for (unsigned i = 0; i < MESSAGES_BEFORE_GIVING_UP && take_message(fabric, now); i++)
			;
		vb_lock_take(&qp->lock);
	}
	if (vb_roce_next_deadline(qp) > now) {
		vb_schedule_arm(link->schedule, qp, vb_roce_next_deadline(qp));
		return false;
	}
	vb_roce_expire(qp, now);
	vb_fabric_link_transmit_in_pass(link, qp, now);
	return true;
}
