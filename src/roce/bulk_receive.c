/* SPDX-License-Identifier: MIT
 *
 * The fast path of packets that are like the one before them: of a message under way on RC or UC (SEND, WRITE, or the response to our
 * READ) those that are neither first nor last, in order, all of one size; and of a response in packets that are all alike (singly.c)
 * every whole one. Nearly every packet of a large transfer is one.
 * What they can differ in is checked, everything else was when the message began; whatever does not fit goes the ordinary
 * way, which knows all the cases.
 *
 * The payload is copied to its place in the same pass that computes the ICRC, and only then is the ICRC compared. That is
 * allowed because nothing of the packet's content decides where it goes: the place follows from our own state (the message
 * that began, whose key, rights and range were checked, and how much of it has come), and what a message's memory holds
 * before its end is undefined (IBA 9.5, o9-20). A damaged packet leaves rubbish there, does not move the expected PSN, and is
 * overwritten when it comes again; on UC it does not, and the message never ends.
 * One exception (seed 49182 of tests/sim/campaign.c): a SEND does not say how long it
 * is, so a middle packet whose PSN is damaged to that of the last leaves rubbish behind the message, inside the receive.
 * The last packet of a request, which an application may be watching for, is never placed before it is known to be good.
 */
#include <string.h>

#include "base/inline.h"
#include "profiles/limits.h"
#include "roce/engine.h"
#include "roce/roce.h"
#include "wire/icrc.h"

#define ECN_MASK 0x03
#define ECN_CONGESTION_EXPERIENCED 0x03

/* What is expected of the packets, and where they go. */
struct expected {
	uint8_t opcode;
	uint8_t header_length;
	struct psn psn;
	uint32_t most;                   /* that can still be middle packets of the message */
	uint8_t *to;                     /* NULL: memory of a GPU, reached by the following */
	struct vb_pd *pd;
	const struct ibv_sge *list;      /* NULL: the range that a WRITE named */
	uint32_t sge_count;
	uint64_t offset;
};

/* How many packets of one MTU may come before the last one, if `left` bytes are missing. */
static uint32_t middle_packets(uint32_t left, uint32_t mtu)
{
	return left > mtu ? (left - 1) / mtu : 0;
}

static uint32_t at_most(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* No plain pointer leads there. */
VB_RARE static bool may_stage(struct vb_qp *qp, struct vb_pd *pd, const struct ibv_sge *list, uint32_t count, uint64_t offset,
			      struct expected *expected)
{
	if (!vb_memory_has_gpu(qp->host->memory))
		return false;
	expected->most = at_most(expected->most, VB_ROCE_STAGED / vb_roce_engine(qp)->mtu);
	expected->pd = pd;
	expected->list = list;
	expected->sge_count = count;
	expected->offset = offset;
	return true;
}

/* As many packets as are in what is held, beginning with where the next goes. */
static bool hold_write(struct vb_qp *qp, struct expected *expected)
{
	struct vb_roce_engine *engine = vb_roce_engine(qp);
	struct vb_roce_responder *responder = &engine->responder;
	struct vb_roce_range message = {qp->pd, responder->write_address, responder->write_rkey, responder->write_length};

	if (!(qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE))
		return false;
	expected->most = middle_packets(responder->write_length - responder->received, engine->mtu);
	if (expected->most == 0)
		return false;
	expected->to = vb_roce_hold_remote(qp, &engine->placing, &message, responder->received, expected->most * engine->mtu,
					   IBV_ACCESS_REMOTE_WRITE);
	return expected->to != NULL || may_stage(qp, qp->pd, NULL, 0, responder->received, expected);
}

/* Of a list, what the element holds that the next packet goes to. */
static bool hold_list(struct vb_qp *qp, const struct ibv_sge *list, uint32_t count, uint64_t offset, struct expected *expected)
{
	struct vb_roce_engine *engine = vb_roce_engine(qp);
	const struct ibv_sge *element = list, *end = list + count;
	uint64_t into = offset;

	while (element < end && into >= element->length)
		into -= element++->length;
	if (element == end)
		return false;
	expected->most = at_most(expected->most, (uint32_t)((element->length - into) / engine->mtu));
	if (expected->most == 0)
		return false;
	expected->to = vb_roce_hold_list(qp, &engine->placing, list, count, offset, expected->most * engine->mtu,
					 IBV_ACCESS_LOCAL_WRITE);
	return expected->to != NULL || may_stage(qp, qp->pd, list, count, offset, expected);
}

static bool expect_request(struct vb_qp *qp, struct expected *expected)
{
	struct vb_roce_engine *engine = vb_roce_engine(qp);
	struct vb_roce_responder *responder = &engine->responder;
	enum vb_roce_kind kind = responder->underway == VB_UNDERWAY_WRITE ? VB_KIND_WRITE : VB_KIND_SEND;
	uint64_t room;

	/* Where others wait for this packet, the ordinary way sees to them. */
	if (responder->underway == VB_UNDERWAY_NOTHING || responder->fatal || responder->reorder.count > 0)
		return false;
	expected->opcode = (uint8_t)vb_roce_opcode_find(vb_roce_service(qp), kind, VB_POSITION_MIDDLE, 0);
	expected->header_length = VB_BTH_LENGTH;
	expected->psn = responder->expected;
	if (kind == VB_KIND_WRITE)
		return hold_write(qp, expected);
	/* The last of a SEND may be a whole packet, and how long it is was not said; no longer than a message can be
	 * (responder_checks.c). */
	room = responder->taken.length < VB_MAX_MESSAGE ? responder->taken.length : VB_MAX_MESSAGE;
	if (room < responder->received || qp->receive_pd != qp->pd)
		return false;
	expected->most = (uint32_t)((room - responder->received) / engine->mtu);
	return hold_list(qp, responder->taken.list, responder->taken.sge_count, responder->received, expected);
}

/* `singly`: packets that are each an ONLY, of which the first and the last are like the others. */
static bool expect_response(struct vb_qp *qp, bool singly, struct expected *expected)
{
	struct vb_roce_engine *engine = vb_roce_engine(qp);
	struct vb_roce_requester *requester = &engine->requester;
	const struct vb_send_wqe *wqe;
	const struct vb_roce_asked *asked;
	uint32_t arrived, index;

	/* Not while anything is asked for again: what then comes may belong to either time, or have come before. */
	if ((qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD) || requester->asked_sent == requester->asked_tail ||
	    requester->early.count > 0)
		return false;
	asked = vb_roce_reads_at(requester, requester->asked_tail);
	arrived = psn_ahead(requester->acknowledged, asked->first);
	wqe = vb_send_queue_at(&qp->send, qp->send.tail);
	if (arrived >= asked->packets || vb_send_queue_count(&qp->send) == 0 || wqe->opcode != IBV_WR_RDMA_READ)
		return false;
	index = psn_ahead(requester->acknowledged, vb_roce_note(wqe)->first_psn);
	if (singly ? !asked->singly || index >= vb_roce_note(wqe)->packets : arrived == 0)
		return false;
	expected->opcode = (uint8_t)vb_roce_opcode_find(vb_roce_service(qp), VB_KIND_READ_RESPONSE,
							singly ? VB_POSITION_ONLY : VB_POSITION_MIDDLE, 0);
	expected->header_length = singly ? VB_BTH_LENGTH + VB_AETH_LENGTH : VB_BTH_LENGTH;
	expected->psn = requester->acknowledged;
	expected->most = singly ? at_most(asked->packets - arrived, wqe->length / engine->mtu - index) :
				  at_most(asked->packets - arrived - 1, middle_packets(wqe->length - index * engine->mtu, engine->mtu));
	return expected->most > 0 && hold_list(qp, wqe->list, wqe->sge_count, (uint64_t)index * engine->mtu, expected);
}

static void requests_came(struct vb_qp *qp, uint32_t count, bool ack_request)
{
	struct vb_roce_engine *engine = vb_roce_engine(qp);
	struct vb_roce_responder *responder = &engine->responder;

	responder->nak_owed = responder->nak_outstanding = false;
	responder->received += count * engine->mtu;
	responder->expected = psn_add(responder->expected, count);
	responder->ack_psn = psn_add(responder->expected, VB_PSN_MASK);
	if (ack_request && qp->type != IBV_QPT_UC)
		vb_roce_responder_owe_acknowledgement(qp);
}

/* The packets that are as expected, one after the other to `to`. Returns how many. */
static uint32_t take(struct vb_qp *qp, const struct vb_path *from, struct vb_icrc_prefix *prefix, const struct expected *expected,
		     struct vb_roce_bulk *got, uint8_t *to, bool *ack_request)
{
	uint32_t mtu = vb_roce_engine(qp)->mtu, count = 0;
	size_t size = expected->header_length + mtu + VB_ICRC_LENGTH;
	bool asks;

	for (; count < expected->most && count * got->stride + size <= got->length; count++) {
		const uint8_t *datagram = got->bytes + count * got->stride;

		if (!vb_roce_packet_is_next(datagram, size, expected->opcode, qp->qpn, psn_add(expected->psn, count), &asks))
			break;
		if (!vb_icrc_copy_is_valid(prefix, from, datagram, size, (uint16_t)(got->index + count), expected->header_length,
					   to + (size_t)count * mtu)) {
			got->damaged = 1;
			break;
		}
		*ack_request |= asks;
	}
	return count;
}

/* The same by way of the stack. What cannot be placed is not taken: the ordinary way says why. */
VB_RARE static uint32_t take_staged(struct vb_qp *qp, const struct vb_path *from, struct vb_icrc_prefix *prefix,
				    const struct expected *expected, struct vb_roce_bulk *got, bool *ack_request)
{
	const struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;
	struct vb_accessor who = {
		.pd = expected->pd,
		.qpn = qp->qpn,
		.key = responder->write_rkey,
		.rights = IBV_ACCESS_REMOTE_WRITE,
		.remote = true,
	};
	struct vb_memory *memory = qp->host->memory;
	struct vb_fault_record ignored;
	uint8_t bytes[VB_ROCE_STAGED];
	uint32_t count = take(qp, from, prefix, expected, got, bytes, ack_request);
	size_t length = (size_t)count * vb_roce_engine(qp)->mtu;
	bool placed = expected->list ? vb_memory_scatter(memory, expected->pd, qp->qpn, expected->list, expected->sge_count,
							 expected->offset, bytes, length, &ignored) :
				       vb_memory_place(memory, &who, responder->write_address + expected->offset, bytes, length, &ignored);

	if (!placed)
		got->damaged = 0;
	return placed ? count : 0;
}

void vb_roce_receive_bulk(struct vb_qp *qp, vb_time now, const struct vb_path *from, struct vb_icrc_prefix *prefix,
			    struct vb_roce_bulk *got)
{
	struct vb_roce_engine *engine = vb_roce_engine(qp);
	size_t size = VB_BTH_LENGTH + engine->mtu + VB_ICRC_LENGTH;
	const struct vb_roce_opcode *op = vb_roce_opcode(got->bytes[0]);
	bool response = qp->type != IBV_QPT_UC && !op->is_request;
	bool singly = response && op->kind == VB_KIND_READ_RESPONSE && op->position == VB_POSITION_ONLY &&
		      got->segment == size + VB_AETH_LENGTH;
	bool writes = got->segment != size && !singly, ack_request = false;
	struct expected expected;
	uint32_t count;

	vb_lock_assert_held(&qp->lock);
	got->taken = got->damaged = 0;
	/* It is asked of each datagram that comes with others. */
	if (qp->type == IBV_QPT_UD)
		return;
	if (writes && (op->kind != VB_KIND_WRITE || op->position != VB_POSITION_ONLY))
		return;
	/* Requests of XRC have more than a BTH before the payload. */
	if ((qp->type != IBV_QPT_RC && qp->type != IBV_QPT_XRC_SEND && qp->type != IBV_QPT_UC) ||
	    qp->state < IBV_QPS_RTR || qp->state > IBV_QPS_SQE ||
	    qp->pkey != VB_DEFAULT_PKEY || !vb_path_leads_back(&qp->path, from) ||
	    (from->traffic_class & ECN_MASK) == ECN_CONGESTION_EXPERIENCED)
		return;
	if (writes) {
		if (!vb_roce_bulk_ahead(qp, from, prefix, got))
			vb_roce_bulk_writes(qp, from, prefix, got);
		vb_roce_check_invariants(qp);
		return;
	}
	if (!response && vb_roce_bulk_ahead(qp, from, prefix, got)) {
		vb_roce_check_invariants(qp);
		return;
	}
	if (singly && vb_roce_bulk_early(qp, now, from, prefix, got)) {
		vb_roce_check_invariants(qp);
		return;
	}
	if (!(response ? expect_response(qp, singly, &expected) : expect_request(qp, &expected)))
		return;
	count = expected.to ? take(qp, from, prefix, &expected, got, expected.to, &ack_request) :
			      take_staged(qp, from, prefix, &expected, got, &ack_request);
	got->taken = count;
	if (count == 0)
		return;
	if (response)
		vb_roce_completer_took(qp, now, count, singly ? got->bytes + (count - 1) * got->stride + VB_BTH_LENGTH : NULL);
	else
		requests_came(qp, count, ack_request);
	vb_roce_check_invariants(qp);
}
