/* SPDX-License-Identifier: MIT
 *
 * Receiving, and the pass that everybody who makes progress runs: queue pairs that had more to send, then sockets, then
 * timers.
 *
 * A packet's way: io/udp_receive -> here -> wire/roce_packet (decode, ICRC) -> the queue pair its QPN names -> roce
 * engine. A QP stays locked for consecutive packets of it, and sends (acknowledgements, more data) once per batch.
 */
#include <string.h>

#include "base/log.h"
#include "io/clock.h"
#include "io/udp.h"
#include "progress/endpoint_parts.h"
#include "progress/same_host.h"
#include "progress/tap.h"
#include "queue/qp.h"
#include "roce/roce.h"
#include "wire/icrc.h"
#include "wire/inquiry.h"
#include "wire/roce_packet.h"

enum {
	TOUCHED = 256,                     /* queue pairs that wait for their turn to send */
	EXPIRIES_PER_PASS = 256,
	ROUNDS_PER_PASS = 16,              /* of answers to reads, a burst each */
	LOOK_AT_UNUSED_FAMILY = 64,        /* every so many passes */
	LOOK_AT_UNUSED_SOCKETS = 1024,     /* where all queue pairs go through memory: some 50 us */
	/* Within a batch, answer after this much: acknowledging all of a window at once would let the peer run dry,
	 * and each acknowledgement is a system call. */
	ANSWER_BYTES = 96 * 1024,
	SMALL_BATCH = 8 * 1024,
};

/* What a batch has touched so far. */
struct batch_state {
	struct vb_endpoint *endpoint;
	vb_time now;
	uint64_t number;                   /* of what was touched */
	struct vb_qp *locked;              /* the QP whose lock we hold */
	unsigned count;
	struct vb_qp **touched;            /* TOUCHED of them, distinct; must send before the batch ends */
	const struct vb_roce_packet *packet;
	struct vb_counters *counters;      /* of the device that `packets` came in for, not counted yet */
	unsigned packets;
	bool small;                        /* nothing is lost if a mere acknowledgement of it waits for the next pass */
};

/* Once for many: an atomic addition a packet shows at a million of them a second. */
static void count_packets(struct batch_state *state)
{
	if (state->packets > 0)
		VB_COUNT_MANY(state->counters, rcvd_pkts, state->packets);
	state->packets = 0;
}

static void send_touched(struct batch_state *state)
{
	count_packets(state);
	/* The one still locked first: it is most likely the only one. */
	if (state->locked) {
		/* A request has come in, most likely, that the application will answer when it sees it: its answer need not wait
		 * for the acknowledgement to be sent, which takes as long as sending the answer itself. */
		if (!state->small || state->count > 1 || !vb_roce_only_acknowledges(state->locked) ||
		    !vb_endpoint_defer(state->endpoint, state->locked))
			vb_endpoint_transmit_in_pass(state->endpoint, state->locked, state->now);
		vb_lock_release(&state->locked->lock);
	}
	for (unsigned i = 0; i < state->count; i++) {
		struct vb_qp *qp = state->touched[i];

		if (qp == state->locked)
			continue;
		vb_lock_take(&qp->lock);
		vb_endpoint_transmit_in_pass(state->endpoint, qp, state->now);
		vb_lock_release(&qp->lock);
	}
	vb_endpoint_flush(state->endpoint);
	state->locked = NULL;
	state->count = 0;
	state->number = ++state->endpoint->batches;
}

static void lock_qp(struct batch_state *state, struct vb_qp *qp)
{
	struct vb_binding *binding = qp->scheduler;

	if (state->locked == qp)
		return;
	if (state->count == TOUCHED)
		send_touched(state);
	if (state->locked)
		vb_lock_release(&state->locked->lock);
	vb_lock_take(&qp->lock);
	state->locked = qp;
	if (binding->batch != state->number)
		state->touched[state->count++] = qp;
	binding->batch = state->number;
}

static void count_for(struct batch_state *state, const struct vb_qp *qp, unsigned packets)
{
	struct vb_binding *binding = qp->scheduler;

	if (state->counters != binding->counters)
		count_packets(state);
	state->counters = binding->counters;
	state->packets += packets;
}

static void deliver_to(struct batch_state *state, struct vb_qp *qp)
{
	struct vb_binding *binding = qp->scheduler;

	lock_qp(state, qp);
	count_for(state, qp, 1);
	/* A peer that declines sends packets, which may be here before its word; any others are not the peer's. */
	if (vb_local_pair_carries(binding) && vb_local_pair_serve(state->endpoint, qp, state->now)) {
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

static void count_verdict(struct vb_endpoint *endpoint, enum vb_roce_verdict verdict)
{
	if (verdict == VB_PACKET_BAD_ICRC)
		VB_COUNT(VB_ENDPOINT_COUNTERS(endpoint), icrc_error);
	else
		VB_COUNT(VB_ENDPOINT_COUNTERS(endpoint), malformed_pkts);
}

/* A new verbenad asks where our socket stands in the group. The engine thread answers. It asks over the loopback device, whose
 * addresses come in over no other. */
static bool is_probe(struct vb_endpoint *endpoint, const uint8_t *bytes, size_t length, const struct vb_path *from)
{
	struct vb_daemon_probe probe;

	if (length != sizeof(probe) || bytes[0] != VB_DAEMON_PROBE_MAGIC >> 24 || !vb_gid_is_loopback(from->source) ||
	    !vb_gid_is_loopback(from->destination))
		return false;
	memcpy(&probe, bytes, sizeof(probe));
	if (be32_get(probe.magic) != VB_DAEMON_PROBE_MAGIC)
		return false;
	if (endpoint->probes < VB_KEPT_PROBES) {
		endpoint->probe[endpoint->probes++] = be64_get(probe.nonce);
		vb_engine_kick(endpoint);
	}
	return true;
}

static struct vb_qp *find_qp(const struct vb_endpoint *endpoint, uint32_t qpn)
{
	if (qpn >> VB_DAEMON_INDEX_BITS != endpoint->slot)
		return NULL;
	return __atomic_load_n(&endpoint->binding[qpn & (VB_DAEMON_INDICES - 1)].qp, __ATOMIC_ACQUIRE);
}

static void take_inquiry(struct batch_state *state, const uint8_t *bytes, size_t length, const struct vb_path *from)
{
	struct vb_inquiry inquiry;
	struct vb_qp *qp;

	if (!vb_inquiry_decode(&inquiry, bytes, length))
		return;
	qp = find_qp(state->endpoint, inquiry.qpn);
	if (qp)
		lock_qp(state, qp);
	vb_endpoint_answer_inquiry(state->endpoint, state->now, from, &inquiry, qp);
}

/* Of the rest of a bundle, what the queue pair whose packet came last can take in one go. Returns the number of datagrams done
 * with. A capture wants to see each. */
static unsigned take_series(struct batch_state *state, const struct vb_udp_bundle *bundle, size_t at, unsigned index,
			    const struct vb_path *from, struct vb_icrc_prefix *prefix)
{
	struct vb_roce_series series = {bundle->bytes + at, bundle->length - at, bundle->segment, index, 0, 0};

	if (!state->locked || vb_tap_captures(state->endpoint->tap) || vb_local_pair_carries(state->locked->scheduler))
		return 0;
	vb_roce_receive_series(state->locked, state->now, from, prefix, &series);
	count_for(state, state->locked, series.taken);
	if (series.damaged > 0)
		count_verdict(state->endpoint, VB_PACKET_BAD_ICRC);
	return series.taken + series.damaged;
}

static void take_datagram(struct batch_state *state, const uint8_t *bytes, size_t length, const struct vb_path *from,
			  struct vb_icrc_prefix *prefix, uint32_t interface_index, unsigned index)
{
	struct vb_endpoint *endpoint = state->endpoint;
	struct vb_roce_packet packet;
	enum vb_roce_verdict verdict;
	struct vb_qp *qp;

	if (is_probe(endpoint, bytes, length, from))
		return;
	if (vb_inquiry_is_likely(bytes, length)) {
		take_inquiry(state, bytes, length, from);
		return;
	}
	verdict = vb_roce_packet_decode_again(&packet, bytes, length, from, prefix, (uint16_t)index);
	if (endpoint->tap)
		vb_tap_received(endpoint->tap, from, bytes, length, verdict);
	if (verdict != VB_PACKET_OK) {
		count_verdict(endpoint, verdict);
		return;
	}
	state->packet = &packet;
	if (packet.destination_qpn == VB_MULTICAST_QPN) {
		vb_multicast_for_each(endpoint, from->destination, interface_index, deliver_multicast, state);
		return;
	}
	qp = find_qp(endpoint, packet.destination_qpn);
	if (!qp) {
		VB_COUNT(VB_ENDPOINT_COUNTERS(endpoint), unknown_qp_pkts);
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
	size_t last = bundle->length % bundle->segment, before = bundle->length - last;

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
	struct vb_icrc_prefix prefix = {0};
	unsigned index = 0;
	size_t length;

	/* Only these need the interface to be answered, and elsewhere it would tell equal paths apart. */
	if (!is_link_local(from.destination) && !is_link_local(from.source) && !vb_gid_is_multicast(from.destination))
		from.interface_index = 0;
	length = take_acknowledgement(state, bundle, &from, &prefix);
	for (size_t at = 0; at < length; at += bundle->segment, index++) {
		unsigned series = bundle->segment < bundle->length ? take_series(state, bundle, at, index, &from, &prefix) : 0;
		size_t left;

		at += series * bundle->segment;
		index += series;
		if (at >= length)
			break;
		left = length - at;
		take_datagram(state, bundle->bytes + at, left < bundle->segment ? left : bundle->segment, &from,
			      &prefix, bundle->from.interface_index, index);
	}
}

static bool drain_socket(struct vb_endpoint *endpoint, unsigned family, vb_time now)
{
	struct vb_qp *touched[TOUCHED];
	struct batch_state state = {.endpoint = endpoint, .now = now, .number = ++endpoint->batches, .touched = touched};
	size_t unanswered = 0;
	int count = vb_udp_batch_receive(endpoint->batch, endpoint->receive_fd[family], family == VB_IPV6);

	if (count <= 0)
		return false;
	if (!__atomic_load_n(&endpoint->in_use[family], __ATOMIC_RELAXED))
		__atomic_store_n(&endpoint->in_use[family], true, __ATOMIC_RELAXED);
	__atomic_store_n(&endpoint->delivering, true, __ATOMIC_RELAXED);
	for (int i = 0; i < count; i++) {
		const struct vb_udp_bundle *bundle = vb_udp_batch_at(endpoint->batch, (unsigned)i);

		take_bundle(&state, bundle);
		if (endpoint->tap)
			vb_tap_flush(endpoint->tap);
		unanswered += bundle->length;
		/* A NAK is waited for with the window at a standstill. */
		if (unanswered < ANSWER_BYTES && !(state.locked && vb_roce_complains(state.locked)))
			continue;
		send_touched(&state);
		unanswered = 0;
	}
	state.small = unanswered < SMALL_BATCH;
	send_touched(&state);
	__atomic_store_n(&endpoint->delivering, false, __ATOMIC_RELAXED);
	if (__atomic_load_n(&endpoint->posted_meanwhile, __ATOMIC_RELAXED)) {
		__atomic_store_n(&endpoint->posted_meanwhile, false, __ATOMIC_RELAXED);
		vb_endpoint_send_active(endpoint, now);
	}
	return true;
}

static bool drain_sockets(struct vb_endpoint *endpoint, vb_time now, bool all_families)
{
	bool done = false;

	if (++endpoint->passes % LOOK_AT_UNUSED_FAMILY == 0)
		all_families = true;
	for (unsigned family = 0; family < VB_FAMILIES; family++) {
		if (endpoint->receive_fd[family] < 0 ||
		    (!all_families && !__atomic_load_n(&endpoint->in_use[family], __ATOMIC_RELAXED)))
			continue;
		done |= drain_socket(endpoint, family, now);
	}
	return done;
}

static bool run_timers(struct vb_endpoint *endpoint, vb_time now)
{
	struct vb_qp *qp;
	struct vb_cq *cq;
	bool done = false;

	if (vb_timers_next(&endpoint->timers) > now)
		return false;
	for (unsigned i = 0; i < EXPIRIES_PER_PASS && (qp = vb_timers_pop(&endpoint->timers, now)) != NULL; i++) {
		vb_lock_take(&qp->lock);
		/* The deadline may have moved away since the entry was made. */
		if (vb_local_pair_carries(qp->scheduler)) {
			vb_local_pair_expire(endpoint, qp, now);
			done = true;
		} else if (vb_roce_next_deadline(qp) <= now) {
			vb_roce_expire(qp, now);
			vb_endpoint_transmit_in_pass(endpoint, qp, now);
			done = true;
		} else {
			vb_endpoint_arm(endpoint, qp);
		}
		vb_lock_release(&qp->lock);
	}
	vb_endpoint_flush(endpoint);
	while ((cq = vb_timers_pop_cq(&endpoint->timers, now)) != NULL) {
		vb_cq_expire(cq, now);
		done = true;
	}
	return done;
}

/* Answers to reads that are longer than a burst. What the requester asks next is there by now, most likely: seen in time, its answer
 * and the end of this one leave together. */
static void go_on(struct vb_endpoint *endpoint)
{
	for (unsigned i = 0; endpoint->unfinished && i < ROUNDS_PER_PASS; i++) {
		vb_time now = vb_clock_now();

		endpoint->unfinished = false;
		drain_sockets(endpoint, now, false);
		/* If that brought more for it, it is sending. */
		if (!endpoint->unfinished)
			vb_endpoint_send_active(endpoint, now);
	}
	if (endpoint->unfinished)
		vb_engine_kick(endpoint);
	endpoint->unfinished = false;
}

bool vb_endpoint_pass(struct vb_endpoint *endpoint, vb_time now, bool all_families)
{
	bool done;

	vb_lock_assert_held(&endpoint->progress);
	__atomic_store_n(&endpoint->pass, endpoint->pass + 1, __ATOMIC_RELAXED);
	/* First, because what the sockets bring may have something put off until the next pass. */
	done = vb_endpoint_send_active(endpoint, now);
	done |= endpoint->same_host && vb_local_pairs_pass(endpoint, now);
	/* Looking at a socket costs more than all of this: only now and then where nothing is expected of it. */
	if (all_families || !endpoint->same_host || !vb_local_pairs_are_all(endpoint) ||
	    endpoint->same_host->passes % LOOK_AT_UNUSED_SOCKETS == 0)
		done |= drain_sockets(endpoint, now, all_families);
	done |= run_timers(endpoint, now);
	go_on(endpoint);
	return done;
}
