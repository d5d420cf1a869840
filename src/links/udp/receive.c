/* SPDX-License-Identifier: MIT
 *
 * Receiving: the sockets' share of a pass over a lane, and the RoCE engine's timers.
 *
 * A packet's way: io/udp_receive -> here -> wire/roce_packet (decode, ICRC) -> the queue pair its QPN names -> roce
 * engine. A QP stays locked for consecutive packets of it, and sends (acknowledgements, more data) once per batch.
 */
#include <string.h>

#include "base/inline.h"
#include "base/log.h"
#include "io/clock.h"
#include "io/udp.h"
#include "links/shortcut.h"
#include "links/udp/frames.h"
#include "links/udp/tap.h"
#include "links/udp/udp_link.h"
#include "queue/qp.h"
#include "roce/roce.h"
#include "wire/icrc.h"
#include "wire/icrc_flows.h"
#include "wire/inquiry.h"
#include "wire/roce_packet.h"

enum {
	TOUCHED = 256,                     /* queue pairs that wait for their turn to send */
	ROUNDS_PER_PASS = 16,              /* of answers to reads, a burst each */
	ROUNDS_BEFORE_GIVING_UP = 256,     /* batches: more than a socket's buffer holds */
	LOOK_AT_UNUSED_FAMILY = 64,        /* every so many passes */
	/* Within a batch, answer after this much: acknowledging all of a window at once would let the peer run dry,
	 * and each acknowledgement is a system call. */
	ANSWER_BYTES = 96 * 1024,
	SMALL_BATCH = 8 * 1024,
	SHORT_RUNS_PER_PASS = 16,
};

/* While datagrams come past the sockets those are looked at so often: a look takes longer than the rest of a pass. */
#define SOCKETS_APART VB_MICROSECONDS(4)
/* And for so long after the last one, longer than an answer takes. */
#define SHORT_LASTS VB_MICROSECONDS(100)

/* What a batch has touched so far. */
struct batch_state {
	struct vb_udp_link *udp;
	struct vb_udp_lane *lane;          /* over which the pass goes */
	vb_time now;
	vb_time since;                     /* nothing of what was received came before */
	uint64_t number;                   /* of what was touched */
	struct vb_qp *locked;              /* the QP whose lock we hold */
	unsigned count;
	struct vb_qp **touched;            /* TOUCHED of them, distinct; must send before the batch ends */
	const struct vb_roce_packet *packet;
	size_t length;                     /* of that packet */
	struct vb_counters *counters;      /* of the device that `packets` came in for, not counted yet */
	unsigned packets;
	size_t bytes;
	bool small;                        /* nothing is lost if a mere acknowledgement of it waits for the next pass */
};

/* Once for many: an atomic addition a packet shows at a million of them a second. */
static void count_packets(struct batch_state *state)
{
	if (state->packets > 0) {
		VB_COUNT_MANY(state->counters, rcvd_pkts, state->packets);
		VB_COUNT_MANY(state->counters, rcvd_bytes, state->bytes);
	}
	state->packets = 0;
	state->bytes = 0;
}

/* Its carrier may be another link by now, and its packets may have come to another lane's socket. */
static bool is_of_pass(const struct batch_state *state, const struct vb_qp *qp)
{
	return vb_udp_carries(state->udp, qp) && vb_udp_lane_of(state->udp, qp) == state->lane;
}

static void transmit(struct batch_state *state, struct vb_qp *qp)
{
	if (is_of_pass(state, qp))
		vb_udp_transmit_in_pass(&state->udp->link, qp, state->now);
	else
		vb_link_transmit(qp, state->now);
}

static uint64_t next_batch(struct vb_udp_lane *lane)
{
	return lane->batches += VB_DAEMON_LANES;
}

/* A request has come in, most likely, that the application will answer when it sees it: its answer need not wait for the acknowledgement
 * to be sent, which takes as long as sending the answer itself. */
static bool may_wait(struct batch_state *state, struct vb_qp *qp)
{
	struct vb_schedule *schedule = state->udp->schedule;
	enum vb_roce_patience patience = vb_roce_can_wait(qp);
	bool awaits = patience == VB_CAN_WAIT_FOR_A_PASS && schedule->lane[state->lane->number].by_engine &&
		      vb_spinner_looks_elsewhere(&schedule->spinner, state->now) && vb_roce_await_answer(qp, state->now);

	if (patience == VB_CANNOT_WAIT)
		return false;
	if (patience == VB_CAN_WAIT_FOR_A_PASS && !awaits)
		return vb_schedule_defer(schedule, qp, state->now);
	/* The engine thread does not wake up for it. */
	if (!awaits && !vb_spinner_may_put_off(&schedule->spinner, state->now)) {
		vb_roce_hurry(qp);
		return false;
	}
	vb_schedule_arm(schedule, qp, vb_roce_next_deadline(qp));
	return true;
}

/* Releases the one that is locked. Which that is clang cannot follow. */
static void send_touched(struct batch_state *state) VB_UNCHECKED
{
	count_packets(state);
	/* The one still locked first: it is most likely the only one. */
	if (state->locked) {
		if (!state->small || state->count > 1 || !may_wait(state, state->locked))
			transmit(state, state->locked);
		vb_lock_release(&state->locked->lock);
	}
	for (unsigned i = 0; i < state->count; i++) {
		struct vb_qp *qp = state->touched[i];

		if (qp == state->locked)
			continue;
		vb_lock_take(&qp->lock);
		transmit(state, qp);
		vb_lock_release(&qp->lock);
	}
	vb_udp_flush_lane(&state->udp->link, state->lane->number);
	state->locked = NULL;
	state->count = 0;
	state->number = next_batch(state->lane);
}

/* Instead of the one that was locked before. */
static void lock_qp(struct batch_state *state, struct vb_qp *qp) VB_UNCHECKED
{
	struct vb_udp_state *own = vb_udp_state_of(state->udp, qp);

	if (state->locked == qp)
		return;
	if (state->count == TOUCHED)
		send_touched(state);
	if (state->locked)
		vb_lock_release(&state->locked->lock);
	vb_lock_take(&qp->lock);
	state->locked = qp;
	if (own->batch != state->number)
		state->touched[state->count++] = qp;
	own->batch = state->number;
}

static void count_for(struct batch_state *state, const struct vb_qp *qp, unsigned packets, size_t bytes)
{
	struct vb_binding *binding = qp->scheduler;

	if (state->counters != binding->counters)
		count_packets(state);
	state->counters = binding->counters;
	state->packets += packets;
	state->bytes += bytes;
}

static void deliver_to(struct batch_state *state, struct vb_qp *qp)
{
	struct vb_binding *binding = qp->scheduler;

	lock_qp(state, qp);
	count_for(state, qp, 1, state->length);
	/* A peer that declines sends packets, which may be here before its word; any others are not the peer's. */
	if (!vb_udp_carries(state->udp, qp) && !binding->carrier->driver->gives_back(binding->carrier, qp, state->now)) {
		VB_COUNT(binding->counters, dropped_pkts);
		return;
	}
	vb_roce_receive(qp, state->now, state->packet);
}

static void deliver_multicast(void *context, struct vb_qp *qp)
{
	struct batch_state *state = context;

	/* IBV_QP_CREATE_BLOCK_SELF_MCAST_LB: not what it sent itself. */
	if ((qp->create_flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB) &&
	    (state->packet->op->headers & VB_HEADER_DETH) && state->packet->deth.source_qpn == qp->qpn)
		return;
	deliver_to(state, qp);
}

static void count_refused(struct vb_udp_link *udp, enum vb_roce_decode_result result)
{
	if (result == VB_PACKET_BAD_ICRC)
		VB_COUNT(VB_SCHEDULE_COUNTERS(udp->schedule), icrc_error);
	else
		VB_COUNT(VB_SCHEDULE_COUNTERS(udp->schedule), malformed_pkts);
}

/* A new verbenad asks where our socket stands in the group. The engine thread answers. It asks over the loopback device, whose
 * addresses come in over no other. */
static bool is_probe(const struct batch_state *state, const uint8_t *bytes, size_t length, const struct vb_path *from)
{
	struct vb_daemon_probe probe;

	if (length != sizeof(probe) || bytes[0] != VB_DAEMON_PROBE_MAGIC >> 24 || !vb_gid_is_loopback(from->source) ||
	    !vb_gid_is_loopback(from->destination))
		return false;
	memcpy(&probe, bytes, sizeof(probe));
	if (be32_get(probe.magic) != VB_DAEMON_PROBE_MAGIC)
		return false;
	vb_schedule_note_probe(state->udp->schedule, &state->udp->schedule->lane[state->lane->number], be64_get(probe.nonce));
	return true;
}

/* Those of other kinds of devices have numbers of the same slot, and engines of their own: for packets that come here they are not
 * there. */
static struct vb_qp *find_qp(const struct vb_udp_link *udp, uint32_t qpn)
{
	struct vb_qp *qp = vb_schedule_find(udp->schedule, qpn);
	const struct vb_binding *binding = qp ? qp->scheduler : NULL;

	return qp && binding->wire == &udp->link ? qp : NULL;
}

static void take_inquiry(struct batch_state *state, const uint8_t *bytes, size_t length, const struct vb_path *from)
{
	struct vb_inquiry inquiry;
	struct vb_qp *qp;

	if (!vb_inquiry_decode(&inquiry, bytes, length))
		return;
	qp = find_qp(state->udp, inquiry.qpn);
	if (qp)
		lock_qp(state, qp);
	vb_udp_answer_inquiry(state->udp, state->now, from, &inquiry, qp);
}

static void lock_by_number(struct batch_state *state, const uint8_t *bth, size_t length)
{
	struct vb_qp *qp = length < VB_BTH_LENGTH + VB_ICRC_LENGTH ? NULL : find_qp(state->udp, vb_bth_destination_qpn(bth));

	if (qp)
		lock_qp(state, qp);
}

/* The last of a bundle may be shorter than the others. */
static size_t bytes_taken(const struct vb_roce_bulk *bulk)
{
	if (bulk->taken * bulk->stride <= bulk->length)
		return bulk->taken * bulk->segment;
	return bulk->length - (bulk->taken - 1) * (bulk->stride - bulk->segment);
}

/* Of the rest of a bundle, what the queue pair whose packet came last can take in one go. Returns the number of datagrams done
 * with. A capture wants to see each. */
static unsigned take_bulk(struct batch_state *state, const struct vb_udp_bundle *bundle, size_t at, unsigned index,
			  const struct vb_path *from, struct vb_icrc_prefix *prefix)
{
	struct vb_roce_bulk bulk = {bundle->bytes + at, bundle->length - at, bundle->segment, bundle->stride, index, 0, 0};

	/* The first of them goes on with what those before have begun. */
	if (!state->locked)
		lock_by_number(state, bulk.bytes, bulk.segment);
	if (!state->locked || vb_tap_captures(state->udp->tap) || !vb_udp_carries(state->udp, state->locked))
		return 0;
	vb_roce_receive_bulk(state->locked, state->now, from, prefix, &bulk);
	count_for(state, state->locked, bulk.taken, bytes_taken(&bulk));
	if (bulk.damaged > 0)
		count_refused(state->udp, VB_PACKET_BAD_ICRC);
	return bulk.taken + bulk.damaged;
}

static void take_datagram(struct batch_state *state, const uint8_t *bytes, size_t length, const struct vb_path *from,
			  struct vb_icrc_prefix *prefix, uint32_t interface_index, unsigned index)
{
	struct vb_udp_link *udp = state->udp;
	struct vb_roce_packet packet;
	enum vb_roce_decode_result result;
	struct vb_qp *qp;

	if (from->framing == VB_FRAMING_UDP && is_probe(state, bytes, length, from))
		return;
	if (from->framing == VB_FRAMING_UDP && vb_inquiry_is_likely(bytes, length)) {
		take_inquiry(state, bytes, length, from);
		return;
	}
	result = vb_roce_packet_decode_again(&packet, bytes, length, from, prefix, (uint16_t)index);
	if (udp->tap)
		vb_tap_received(udp->tap, from, bytes, length, result);
	if (result != VB_PACKET_OK) {
		count_refused(udp, result);
		return;
	}
	/* Datagrams come to the first lane; one that was taken along to another is just a datagram. */
	if (udp->schedule->shortcut && packet.op->service == VB_SERVICE_UD && state->lane == &udp->first)
		udp->schedule->shortcut->met(udp->schedule->shortcut, from, packet.deth.source_qpn);
	state->packet = &packet;
	state->length = length;
	if (packet.destination_qpn == VB_MULTICAST_QPN && state->lane == &udp->first) {
		vb_multicast_for_each(udp, from->destination, interface_index, deliver_multicast, state);
		return;
	}
	qp = find_qp(udp, packet.destination_qpn);
	if (!qp) {
		VB_COUNT(VB_SCHEDULE_COUNTERS(udp->schedule), unknown_qp_pkts);
		if (packet.destination_qpn >> VB_DAEMON_INDEX_BITS != udp->schedule->slot && vb_dedicated_forbid(&state->lane->dedicated))
			vb_schedule_kick(udp->schedule);
		return;
	}
	deliver_to(state, qp);
}

static bool is_link_local(const uint8_t gid[16])
{
	return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

/* A request and, shorter and therefore behind it, the acknowledgement of what it answers came together: the acknowledgement
 * counts as first, so that the application sees its send completed before it sees the answer, as it would on an adapter.
 * Returns how many bytes of the bundle are left. */
static size_t take_acknowledgement(struct batch_state *state, const struct vb_udp_bundle *bundle, const struct vb_path *from,
				   struct vb_icrc_prefix *prefix)
{
	size_t last = bundle->stride == bundle->segment ? bundle->length % bundle->segment : 0, before = bundle->length - last;

	if (last != VB_BTH_LENGTH + VB_AETH_LENGTH + VB_ICRC_LENGTH || before == 0 ||
	    vb_roce_opcode(bundle->bytes[before])->kind != VB_KIND_ACKNOWLEDGE)
		return bundle->length;
	take_datagram(state, bundle->bytes + before, last, from, prefix, bundle->from.interface_index,
		      (unsigned)(before / bundle->segment));
	return before;
}

static void take_bundle(struct batch_state *state, const struct vb_udp_bundle *bundle)
{
	struct vb_path from = bundle->from;
	struct vb_icrc_flow *flow = vb_icrc_flows_find(&state->lane->flows, &from);
	struct vb_icrc_prefix prefix = {0};
	unsigned index = 0;
	size_t length;

	if (flow)
		vb_icrc_flow_begin(flow, &from, state->now, &prefix);

	/* Only these need the interface to be answered, and elsewhere it would tell equal paths apart. */
	if (from.framing == VB_FRAMING_UDP && !is_link_local(from.destination) && !is_link_local(from.source) &&
	    !vb_gid_is_multicast(from.destination))
		from.interface_index = 0;
	length = take_acknowledgement(state, bundle, &from, &prefix);
	for (size_t at = 0; at < length; at += bundle->stride, index++) {
		bool many = bundle->segment < bundle->length || from.framing == VB_FRAMING_ETHERNET;
		unsigned taken = many ? take_bulk(state, bundle, at, index, &from, &prefix) : 0;
		size_t left;

		at += taken * bundle->stride;
		index += taken;
		if (at >= length)
			break;
		left = length - at;
		take_datagram(state, bundle->bytes + at, left < bundle->segment ? left : bundle->segment, &from,
			      &prefix, bundle->from.interface_index, index);
	}
	if (flow)
		vb_icrc_flow_end(flow, &from, state->since, &prefix);
}

static size_t bytes_of(const struct vb_udp_bundle *bundle)
{
	return bundle->stride == bundle->segment ? bundle->length : bundle->length / bundle->stride * bundle->segment + bundle->segment;
}

static struct batch_state begin_delivery(struct vb_udp_link *udp, struct vb_udp_lane *lane, struct vb_qp **touched, vb_time now)
{
	__atomic_store_n(&lane->delivering, true, __ATOMIC_RELAXED);
	return (struct batch_state){.udp = udp, .lane = lane, .now = now, .number = next_batch(lane), .touched = touched};
}

static void finish_delivery(const struct batch_state *state)
{
	struct vb_udp_lane *lane = state->lane;

	__atomic_store_n(&lane->delivering, false, __ATOMIC_RELAXED);
	if (__atomic_load_n(&lane->posted_meanwhile, __ATOMIC_RELAXED)) {
		__atomic_store_n(&lane->posted_meanwhile, false, __ATOMIC_RELAXED);
		vb_links_send_active(state->udp->schedule, lane->number, state->now, false);
	}
}

/* `frames`: what was received came in frames. */
static void deliver_batch(struct vb_udp_link *udp, struct vb_udp_lane *lane, const struct vb_frames *frames, unsigned count, vb_time since,
			  vb_time now)
{
	struct vb_qp *touched[TOUCHED];
	struct batch_state state = begin_delivery(udp, lane, touched, now);
	size_t unanswered = 0;

	state.since = since;
	for (unsigned i = 0; i < count; i++) {
		const struct vb_udp_bundle *bundle = frames ? vb_frames_at(frames, i) : vb_udp_batch_at(lane->batch, i);

		if (bundle->length == 0)
			continue;
		take_bundle(&state, bundle);
		if (udp->tap)
			vb_tap_flush(udp->tap);
		unanswered += bytes_of(bundle);
		/* A NAK is waited for with the window at a standstill. */
		if (unanswered < ANSWER_BYTES && !(state.locked && vb_roce_complains(state.locked)))
			continue;
		send_touched(&state);
		unanswered = 0;
	}
	state.small = unanswered < SMALL_BATCH;
	send_touched(&state);
	finish_delivery(&state);
}

/* ---- past the sockets ---- */

static bool has_sources(const struct vb_udp_link *udp)
{
	return udp->schedule->shortcut && udp->schedule->shortcut->sources > 0;
}

/* No ICRC is checked: what it guards against does not happen in memory. A process may leave anything there; what is not of UD could not
 * have come this way. */
static void take_short(struct batch_state *state, const uint8_t *bytes, size_t length, const struct vb_path *from)
{
	struct vb_roce_packet packet;
	struct vb_qp *qp;

	if (vb_roce_packet_decode_again(&packet, bytes, length, from, NULL, 0) != VB_PACKET_OK) {
		count_refused(state->udp, VB_PACKET_TOO_SHORT);
		return;
	}
	qp = find_qp(state->udp, packet.destination_qpn);
	if (!qp || qp->type != IBV_QPT_UD) {
		VB_COUNT(VB_SCHEDULE_COUNTERS(state->udp->schedule), unknown_qp_pkts);
		return;
	}
	state->packet = &packet;
	state->length = length;
	deliver_to(state, qp);
}

/* Some of what `take` gives. False: that was nothing. */
static bool take_short_runs(struct vb_udp_link *udp, vb_time now, bool (*take)(struct vb_shortcut *, struct vb_shortcut_run *))
{
	struct vb_qp *touched[TOUCHED];
	struct batch_state state = begin_delivery(udp, &udp->first, touched, now);
	struct vb_shortcut_run run;
	unsigned runs = 0;

	for (; runs < SHORT_RUNS_PER_PASS && take(udp->schedule->shortcut, &run); runs++) {
		for (size_t at = 0; at < run.length; at += run.segment)
			take_short(&state, run.bytes + at, run.length - at < run.segment ? run.length - at : run.segment, run.from);
		send_touched(&state);
	}
	send_touched(&state);
	finish_delivery(&state);
	return runs > 0;
}

/* A socket has brought something, and what was sent before that may lie in memory. A ring that was full is not filled again meanwhile, or
 * its writer is out of its mind. */
static VB_APART void take_bypassed_runs(struct vb_udp_link *udp, vb_time now)
{
	struct vb_shortcut *shortcut = udp->schedule->shortcut;

	for (unsigned i = 0; i < ROUNDS_BEFORE_GIVING_UP && shortcut->is_bypassed(shortcut) &&
			     take_short_runs(udp, now, shortcut->take_bypassed); i++)
		;
}

/* ---- sockets ---- */

/* Returns how many bundles there were. `empty`: when the socket last was. */
static unsigned drain(struct vb_udp_link *udp, struct vb_udp_lane *lane, int fd, bool ipv6, vb_time *empty, vb_time now)
{
	int count = vb_udp_batch_receive(lane->batch, fd, ipv6);

	if (count == 0)
		*empty = now;
	if (count <= 0)
		return 0;
	if (lane == &udp->first && has_sources(udp))
		take_bypassed_runs(udp, now);
	deliver_batch(udp, lane, NULL, (unsigned)count, *empty, now);
	return (unsigned)count;
}

static unsigned drain_socket(struct vb_udp_link *udp, struct vb_udp_lane *lane, int fd, unsigned family, vb_time *empty, vb_time now)
{
	unsigned count = drain(udp, lane, fd, family == VB_IPV6, empty, now);

	if (count > 0 && !__atomic_load_n(&lane->in_use[family], __ATOMIC_RELAXED))
		__atomic_store_n(&lane->in_use[family], true, __ATOMIC_RELAXED);
	return count;
}

/* Would it be worth while to have a socket for what just came to the lane's own? Bundles stay until the next are received. */
static void consider_flow(struct vb_udp_link *udp, struct vb_udp_lane *lane, unsigned bundles)
{
	const struct vb_udp_bundle *bundle = vb_udp_batch_at(lane->batch, 0);
	bool is_alone = bundles == 1 && bundle->length == bundle->segment && bundle->length >= VB_BTH_LENGTH + VB_ICRC_LENGTH;
	struct vb_qp *qp;
	bool suits;

	if (!vb_dedicated_note(&lane->dedicated, is_alone ? &bundle->from : NULL) || udp->tap || !vb_dedicated_suits(&bundle->from))
		return;
	qp = find_qp(udp, vb_bth_destination_qpn(bundle->bytes));
	if (!qp)
		return;
	vb_lock_take(&qp->lock);
	suits = vb_udp_carries(udp, qp) && vb_udp_lane_of(udp, qp) == lane && vb_roce_knows_peer(qp);
	vb_lock_release(&qp->lock);
	if (suits && vb_dedicated_want(&lane->dedicated, qp->qpn))
		vb_schedule_kick(udp->schedule);
}

/* Its addresses are of IPv6, whatever the flow's (io/udp.h). */
static bool drain_dedicated(struct vb_udp_link *udp, struct vb_udp_lane *lane, vb_time now)
{
	struct vb_dedicated *dedicated = &lane->dedicated;
	bool is_new = dedicated->state == VB_DEDICATED_NEW, ipv6 = !is_new || !vb_path_is_ipv4(&dedicated->flow);
	unsigned family = ipv6 ? VB_IPV6 : VB_IPV4;
	int older = is_new ? lane->receive_fd[family] : dedicated->fd;
	vb_time *older_empty = is_new ? &lane->empty[family] : &lane->dedicated_empty;
	bool done = false, kick = false;

	if (is_new || dedicated->state == VB_DEDICATED_LEFT) {
		for (unsigned i = 0; i < ROUNDS_BEFORE_GIVING_UP && drain(udp, lane, older, ipv6, older_empty, now) > 0; i++)
			done = true;
		kick = vb_dedicated_caught_up(dedicated, now);
	} else if (drain(udp, lane, dedicated->fd, true, &lane->dedicated_empty, now) > 0) {
		vb_dedicated_came(dedicated);
		done = true;
	}
	if (kick)
		vb_schedule_kick(udp->schedule);
	return done;
}

static bool drain_frames(struct vb_udp_link *udp, struct vb_frames *frames, vb_time now)
{
	int count = vb_frames_receive(frames);

	if (count <= 0)
		return false;
	deliver_batch(udp, &udp->first, frames, (unsigned)count, now, now);
	return true;
}

static bool drain_lane(struct vb_udp_link *udp, struct vb_udp_lane *lane, vb_time now, bool all_families)
{
	bool done = false;
	unsigned bundles;

	if (++lane->passes % LOOK_AT_UNUSED_FAMILY == 0)
		all_families = true;
	if (vb_dedicated_is_read(&lane->dedicated)) {
		done = drain_dedicated(udp, lane, now);
		if (!all_families && !vb_dedicated_looks_beyond(&lane->dedicated))
			return done;
	}
	for (unsigned family = 0; family < VB_FAMILIES; family++) {
		if (lane->receive_fd[family] < 0 ||
		    (!all_families && !__atomic_load_n(&lane->in_use[family], __ATOMIC_RELAXED)))
			continue;
		bundles = drain_socket(udp, lane, lane->receive_fd[family], family, &lane->empty[family], now);
		if (bundles == 0)
			continue;
		done = true;
		consider_flow(udp, lane, bundles);
		if (vb_dedicated_others_came(&lane->dedicated))
			vb_schedule_kick(udp->schedule);
	}
	return done;
}

/* Of the first lane. */
static bool drain_sockets(struct vb_udp_link *udp, vb_time now, bool all_families)
{
	struct vb_frames *frames = __atomic_load_n(&udp->frames, __ATOMIC_ACQUIRE);
	bool done = frames && drain_frames(udp, frames, now);

	done |= drain_lane(udp, &udp->first, now, all_families);
	for (unsigned i = 0; udp->group_sockets > 0 && i < udp->groups; i++)
		if (udp->group[i].receive_fd >= 0)
			done |= drain_socket(udp, &udp->first, udp->group[i].receive_fd,
					     vb_gid_is_ipv4(udp->group[i].gid) ? VB_IPV4 : VB_IPV6, &udp->group[i].empty, now) > 0;
	return done;
}

static void read_other_lanes(struct vb_udp_link *udp, vb_time now) VB_UNCHECKED
{
	for (unsigned number = 1; number < VB_DAEMON_LANES; number++) {
		struct vb_udp_lane *lane = __atomic_load_n(&udp->lane[number], __ATOMIC_ACQUIRE);

		if (!lane)
			continue;
		vb_lock_take(udp->schedule->lane[number].lock);
		for (unsigned i = 0; i < ROUNDS_BEFORE_GIVING_UP && drain_lane(udp, lane, now, true); i++)
			;
		vb_lock_release(udp->schedule->lane[number].lock);
	}
}

/* What a QP is about to end for may lie in a socket behind a batch or many of other things: in its lane's, in the first one's after a new
 * verbenad has come, or in any where there are many queue pairs. Caller holds qp->lock, which is released meanwhile: all of it may be for
 * this very QP. */
static void read_all(struct vb_udp_link *udp, struct vb_qp *qp, vb_time now) VB_NEEDS(qp->lock)
{
	vb_lock_release(&qp->lock);
	for (unsigned i = 0; i < ROUNDS_BEFORE_GIVING_UP && drain_sockets(udp, now, true); i++)
		;
	read_other_lanes(udp, now);
	vb_lock_take(&qp->lock);
}

bool vb_udp_expire(struct vb_link *link, struct vb_qp *qp, vb_time now)
{
	struct vb_udp_link *udp = vb_udp_link_of(link);

	vb_lock_assert_held(&qp->lock);
	/* Once in a pass is enough. */
	if (vb_roce_gives_up(qp, now) && udp->all_read_in != link->schedule->passes) {
		udp->all_read_in = link->schedule->passes;
		read_all(udp, qp, now);
	}
	if (!vb_qp_is_reliable(qp))
		vb_udp_ask_for_receiver(udp, qp, now);
	else if (vb_roce_gives_up(qp, now) || udp->questions)
		vb_udp_ask_before_the_end(udp, qp, now);
	/* The deadline may have moved away since the entry was made. */
	if (!vb_udp_carries(udp, qp) || vb_roce_next_deadline(qp) > now) {
		vb_schedule_arm(link->schedule, qp, vb_roce_next_deadline(qp));
		return false;
	}
	vb_roce_expire(qp, now);
	/* Timers are everybody's: of the locks of lanes the caller has the first. */
	if (vb_udp_lane_of(udp, qp) == &udp->first)
		vb_udp_transmit_in_pass(link, qp, now);
	else
		vb_udp_transmit(link, qp, now);
	return true;
}

/* ---- both ---- */

static VB_APART bool drain_shortcut(struct vb_udp_link *udp, vb_time now)
{
	if (!udp->schedule->shortcut->has_work(udp->schedule->shortcut))
		return false;
	if (udp->schedule->shortcut->is_behind(udp->schedule->shortcut))
		for (unsigned i = 0; i < ROUNDS_BEFORE_GIVING_UP && drain_sockets(udp, now, true); i++)
			;
	return take_short_runs(udp, now, udp->schedule->shortcut->take);
}

bool vb_udp_drain(struct vb_link *link, vb_time now, bool all)
{
	struct vb_udp_link *udp = vb_udp_link_of(link);
	bool done;

	if (!has_sources(udp))
		return drain_sockets(udp, now, all);
	done = drain_shortcut(udp, now);
	if (done)
		udp->came_short = now;
	if (!all && now - udp->came_short < SHORT_LASTS && now - udp->sockets_seen < SOCKETS_APART) {
		link->schedule->is_brief = true;
		return done;
	}
	udp->sockets_seen = now;
	done |= drain_sockets(udp, now, all);
	return done;
}

bool vb_udp_drain_lane(struct vb_link *link, unsigned lane, vb_time now, bool all)
{
	struct vb_udp_link *udp = vb_udp_link_of(link);

	return drain_lane(udp, udp->lane[lane], now, all);
}

/* Answers to reads that are longer than a burst. What the requester asks next is there by now, most likely: seen in time, its answer
 * and the end of this one leave together. */
void vb_udp_finish_lane(struct vb_link *link, unsigned number)
{
	struct vb_udp_link *udp = vb_udp_link_of(link);
	struct vb_lane *lane = &link->schedule->lane[number];

	for (unsigned i = 0; lane->unfinished && i < ROUNDS_PER_PASS; i++) {
		vb_time now = vb_clock_now();

		lane->unfinished = false;
		if (number == 0)
			drain_sockets(udp, now, false);
		else
			drain_lane(udp, udp->lane[number], now, false);
		/* If that brought more for it, it is sending. */
		if (!lane->unfinished)
			vb_links_send_active(link->schedule, number, now, false);
	}
	if (lane->unfinished)
		vb_schedule_kick(link->schedule);
	lane->unfinished = false;
}

void vb_udp_finish(struct vb_link *link)
{
	vb_udp_finish_lane(link, 0);
}
