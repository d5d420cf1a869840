/* SPDX-License-Identifier: MIT
 *
 * Asking for reads and atomics. A long read is asked for in pieces, each an RDMA READ request of its own: responses
 * are not acknowledged, so what we ask for is what may come down on our socket at once, and pieces are how the
 * window bounds it. On the wire that is an ordinary sequence of reads; each counts against max_rd_atomic.
 *
 * A piece that was asked for keeps its extent when it is asked for again, from its first missing packet on: a
 * responder only answers a duplicate that lies within the original (IBA 9.7.7, and rxe insists).
 */
#include <stdlib.h>

#include "roce/engine.h"

/* Of what kind of peer it is. */
enum { MOST_PROBES = 4 };

void vb_roce_reads_clear(struct vb_roce_requester *requester)
{
	if (requester->asked != &requester->asked_spare)
		free(requester->asked);
	requester->asked = NULL;
	requester->asked_capacity = 0;
	requester->asked_tail = requester->asked_sent = requester->asked_head = 0;
	requester->read_in_flight = 0;
}

/* Room for max_rd_atomic of them, made at the first read: most QPs never do one. Without memory, one at a time. */
static void provide_ring(const struct vb_qp *qp, struct vb_roce_requester *requester)
{
	uint32_t capacity = qp->attr.max_rd_atomic;

	if (requester->asked && (requester->asked_capacity >= capacity || !vb_roce_reads_is_idle(requester)))
		return;
	vb_roce_reads_clear(requester);
	requester->asked = calloc(capacity, sizeof(*requester->asked));
	requester->asked_capacity = capacity;
	if (!requester->asked) {
		requester->asked = &requester->asked_spare;
		requester->asked_capacity = 1;
	}
}

static uint32_t ring_limit(const struct vb_qp *qp, const struct vb_roce_requester *requester)
{
	return qp->attr.max_rd_atomic < requester->asked_capacity ? qp->attr.max_rd_atomic :
								    requester->asked_capacity;
}

static bool is_atomic(const struct vb_send_wqe *wqe)
{
	return wqe->opcode != IBV_WR_RDMA_READ;
}

static uint32_t response_charge(const struct vb_send_wqe *wqe, uint32_t mtu, uint32_t index, uint32_t packets)
{
	uint64_t start = (uint64_t)index * mtu, end = start + (uint64_t)packets * mtu;

	if (end > wqe->length)
		end = wqe->length;
	return vb_roce_charge(end > start ? (uint32_t)(end - start) : 0, packets);
}

static void make_read(struct vb_qp *qp, const struct vb_send_wqe *wqe, uint32_t index, uint32_t packets,
		      struct vb_roce_packet *packet)
{
	uint32_t mtu = vb_roce_engine(qp)->mtu;
	uint64_t start = (uint64_t)index * mtu, length = (uint64_t)packets * mtu;

	if (start + length > wqe->length)
		length = wqe->length - start;
	vb_roce_prepare(qp, packet, vb_roce_opcode_find(vb_roce_service(qp), VB_KIND_READ_REQUEST, VB_POSITION_ONLY, 0),
			psn_add(vb_roce_note(wqe)->first_psn, index));
	packet->srqn = wqe->srqn;
	packet->reth.address = wqe->rdma.address + start;
	packet->reth.rkey = wqe->rdma.rkey;
	packet->reth.length = (uint32_t)length;
}

static void make_atomic(struct vb_qp *qp, const struct vb_send_wqe *wqe, struct vb_roce_packet *packet)
{
	bool swap = wqe->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;

	vb_roce_prepare(qp, packet,
			vb_roce_opcode_find(vb_roce_service(qp), vb_roce_work(wqe->opcode)->kind, VB_POSITION_ONLY, 0),
			vb_roce_note(wqe)->first_psn);
	packet->srqn = wqe->srqn;
	if (wqe->opcode == IBV_WR_ATOMIC_WRITE) {
		packet->reth.address = wqe->atomic.address;
		packet->reth.rkey = wqe->atomic.rkey;
		packet->reth.length = wqe->length;
		return;
	}
	packet->atomic.address = wqe->atomic.address;
	packet->atomic.rkey = wqe->atomic.rkey;
	packet->atomic.swap_or_add = swap ? wqe->atomic.swap : wqe->atomic.compare_or_add;
	packet->atomic.compare = swap ? wqe->atomic.compare_or_add : 0;
}

/* Only an ATOMIC WRITE brings something along. */
static void append(struct vb_qp *qp, struct vb_send_wqe *wqe, struct vb_roce_packet *packet, struct vb_burst *out)
{
	struct iovec value = {&wqe->atomic.swap, sizeof(wqe->atomic.swap)};

	vb_burst_append(out, &qp->path, packet, &value, wqe->opcode == IBV_WR_ATOMIC_WRITE);
}

/* How many packets to ask for from `send` on: the rest of a piece asked for before, or a new piece. 0: not now. */
static uint32_t piece_at(struct vb_qp *qp, const struct vb_send_wqe *wqe, uint32_t index, bool singly)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	const struct vb_roce_asked *asked;

	if (requester->asked_sent != requester->asked_head) {
		asked = vb_roce_reads_at(requester, requester->asked_sent);
		return asked->packets - psn_ahead(requester->send, asked->first);
	}
	if (requester->asked_head - requester->asked_tail >= ring_limit(qp, requester))
		return 0;
	return vb_roce_congestion_read_piece(&requester->congestion, vb_roce_note(wqe)->packets - index, singly);
}

static void book(struct vb_roce_requester *requester, uint32_t packets, bool singly)
{
	if (requester->asked_sent == requester->asked_head) {
		*vb_roce_reads_at(requester, requester->asked_head) =
			(struct vb_roce_asked){.first = requester->send, .packets = packets};
		requester->asked_head++;
	}
	vb_roce_reads_at(requester, requester->asked_sent)->singly |= singly;
	requester->asked_sent++;
}

/* Once all was asked for that may be, half of the window must open: several requests leave together then, while as many responses still
 * come. `packets`: 0, there are as many requests as there may be. */
static bool may_ask(struct vb_roce_requester *requester, uint32_t packets, uint32_t charge)
{
	uint32_t size = requester->congestion.responses.size, least = requester->asked_all ? size / 2 : 0;

	requester->asked_all = packets == 0 || (requester->read_in_flight != 0 &&
						requester->read_in_flight + (charge > least ? charge : least) > size);
	return !requester->asked_all;
}

enum vb_roce_progress vb_roce_reads_ask(struct vb_qp *qp, struct vb_send_wqe *wqe, vb_time now, struct vb_burst *out)
{
	struct vb_roce_engine *engine = vb_roce_engine(qp);
	struct vb_roce_requester *requester = &engine->requester;
	uint32_t index = psn_ahead(requester->send, vb_roce_note(wqe)->first_psn), packets, charge;
	bool again = psn_before(requester->send, requester->high);
	bool singly = !is_atomic(wqe) && vb_roce_singly_suits(requester, vb_roce_note(wqe)->packets - index);
	struct vb_roce_packet packet;

	provide_ring(qp, requester);
	if (singly)
		vb_roce_wide_ask(qp, now);
	packets = piece_at(qp, wqe, index, singly);
	charge = response_charge(wqe, engine->mtu, index, packets);
	if (!may_ask(requester, packets, charge))
		return VB_PROGRESS_MUST_WAIT;
	if (!vb_burst_has_room(out, sizeof(wqe->atomic.swap)))
		return VB_PROGRESS_BURST_FULL;
	if (is_atomic(wqe))
		make_atomic(qp, wqe, &packet);
	else
		make_read(qp, wqe, index, packets, &packet);
	/* rxe asks for an acknowledgement with every request; of these the response is one. */
	packet.ack_request = true;
	packet.singly = singly;
	append(qp, wqe, &packet, out);
	vb_roce_timers_sent(qp, now, requester->send, true, again);
	book(requester, packets, singly);
	vb_roce_singly_asked(requester, packets);
	requester->read_in_flight += charge;
	requester->since_ack_request = 0;
	requester->send = psn_add(requester->send, packets);
	if (psn_before(requester->high, requester->send))
		requester->high = requester->send;
	return VB_PROGRESS_SENT;
}

/* Of the elements that were begun. */
struct vb_send_wqe *vb_roce_reads_element(struct vb_qp *qp, struct psn psn)
{
	for (uint32_t i = qp->send.tail; i != qp->send.head; i++) {
		struct vb_send_wqe *wqe = vb_send_queue_at(&qp->send, i);

		if (!wqe->started)
			break;
		if (psn_ahead(psn, vb_roce_note(wqe)->first_psn) < vb_roce_note(wqe)->packets)
			return wqe;
	}
	return NULL;
}

/* `gap` packets from `psn` on, as far as they are of one request. Returns of how many that is the end. */
static uint32_t ask_part(struct vb_qp *qp, struct psn psn, uint32_t gap, struct vb_burst *out)
{
	struct vb_roce_asked *asked = vb_roce_reads_find(&vb_roce_engine(qp)->requester, psn);
	struct vb_send_wqe *wqe = asked ? vb_roce_reads_element(qp, psn) : NULL;
	struct vb_roce_packet packet;
	uint32_t left;

	/* Of a SEND or WRITE, which nothing responds to. */
	if (!wqe)
		return 1;
	left = asked->packets - psn_ahead(psn, asked->first);
	if (gap > left)
		gap = left;
	asked->in_parts = true;
	if (is_atomic(wqe))
		make_atomic(qp, wqe, &packet);
	else
		make_read(qp, wqe, psn_ahead(psn, vb_roce_note(wqe)->first_psn), gap, &packet);
	packet.ack_request = true;
	append(qp, wqe, &packet, out);
	return gap;
}

bool vb_roce_reads_lost(struct vb_qp *qp, vb_time now, struct psn psn)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	const struct vb_roce_asked *asked = vb_roce_reads_find(requester, psn);

	if (!requester->peer_remembers || !asked || !psn_equal(asked->first, psn))
		return false;
	requester->lost_ask_owed = true;
	requester->lost_ask = psn;
	VB_COUNT(qp->host->counters, completer_retry_err);
	vb_roce_timers_sent_selectively(qp, now);
	return true;
}

void vb_roce_reads_ask_lost(struct vb_qp *qp, struct vb_burst *out)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;

	requester->lost_ask_owed = false;
	if (vb_roce_reads_find(requester, requester->lost_ask))
		ask_part(qp, requester->lost_ask, UINT32_MAX, out);
}

void vb_roce_probe_peer(struct vb_qp *qp, struct vb_burst *out)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;

	if (requester->peer_remembers || requester->peer_probes == MOST_PROBES || !vb_burst_has_room(out, 0) ||
	    qp->type != IBV_QPT_RC || qp->path.framing != VB_FRAMING_UDP)
		return;
	requester->peer_probes++;
	requester->peer_probed = requester->acknowledged;
	vb_roce_flow_probe(qp, requester->acknowledged, out);
}

void vb_roce_reads_ask_missing(struct vb_qp *qp, vb_time now, struct vb_burst *out)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	struct vb_roce_early *early = &requester->early;
	struct psn at;

	if (!early->all_owed) {
		early->ask_owed = false;
		early->asked_at = now;
		ask_part(qp, requester->acknowledged, vb_roce_early_gap(requester), out);
		vb_roce_probe_peer(qp, out);
		return;
	}
	at = psn_before(early->ask_from, requester->acknowledged) ? requester->acknowledged : early->ask_from;
	while (psn_before(at, early->last) && vb_burst_has_room(out, sizeof(uint64_t))) {
		uint32_t gap = vb_roce_early_gap_at(requester, at);

		at = psn_add(at, gap == 0 ? 1 : ask_part(qp, at, gap, out));
	}
	early->ask_from = at;
	early->ask_owed = early->all_owed = psn_before(at, early->last);
}

/* Never a later part of a request before an earlier one: a responder may remember only what was asked last (rxe does, and
 * drops what lies before it). So all that is missing of the last request, if that is little; or if the peer does not send twice what is
 * under way, and most likely it is the request that was lost. */
void vb_roce_reads_probe(struct vb_qp *qp, struct vb_send_wqe *wqe, struct vb_burst *out)
{
	const struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	struct vb_roce_asked missing;
	struct vb_roce_packet packet;
	uint32_t arrived;

	if (vb_roce_reads_is_idle(requester))
		return;
	missing = *vb_roce_reads_at(requester, requester->asked_head - 1);
	arrived = psn_ahead(requester->acknowledged, missing.first);
	if (arrived < missing.packets) {
		missing.first = requester->acknowledged;
		missing.packets -= arrived;
	}
	if (missing.packets > VB_READ_PIECE_MIN_PACKETS && !requester->peer_remembers)
		return;
	if (is_atomic(wqe))
		make_atomic(qp, wqe, &packet);
	else
		make_read(qp, wqe, psn_ahead(missing.first, vb_roce_note(wqe)->first_psn), missing.packets, &packet);
	packet.ack_request = true;
	append(qp, wqe, &packet, out);
}
