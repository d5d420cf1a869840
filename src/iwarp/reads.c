/* SPDX-License-Identifier: MIT
 *
 * READs and atomics. Ours: at most ORD are asked for at once, and answered in order (RFC 5040 5.2.1), so an answer is
 * right if it is the next byte of the oldest. The peer's: at most IRD, in order with one another; a READ is checked
 * when it is asked for and again as it is answered, an atomic is executed at once.
 */
#include <stdlib.h>

#include "iwarp/engine.h"

void vb_iwarp_reads_clear(struct vb_iwarp_reads *reads)
{
	free(reads->asked);
	free(reads->owed);
	*reads = (struct vb_iwarp_reads){0};
}

bool vb_iwarp_reads_provide(struct vb_iwarp_engine *engine)
{
	if (!engine->reads.asked && engine->terms.ord > 0)
		engine->reads.asked = calloc(engine->terms.ord, sizeof(*engine->reads.asked));
	return engine->reads.asked;
}

struct vb_iwarp_asked *vb_iwarp_reads_oldest(const struct vb_iwarp_engine *engine)
{
	/* What the socket has not taken, the peer cannot answer. */
	return engine->reads.done == engine->sender.cursor.asked ? NULL : vb_iwarp_asked(engine, engine->reads.done);
}

void vb_iwarp_reads_answered(struct vb_qp *qp, vb_time now)
{
	struct vb_iwarp_engine *engine = vb_iwarp_engine(qp);
	const struct vb_iwarp_asked *asked = vb_iwarp_reads_oldest(engine);

	engine->reads.done++;
	if (asked->greeting || !asked->ends)
		return;
	vb_send_queue_at(&qp->send, asked->element)->done = true;
	vb_iwarp_sender_retire(qp, now);
}

/* ---- the peer's ---- */

static void refuse(struct vb_qp *qp, vb_time now, const struct vb_iwarp_owed *read, struct vb_terminate_cause cause,
		   const struct vb_fault_record *why)
{
	struct vb_iwarp_fall fall = {
		.cause = cause,
		.names_message = true,
		.read = read,
		.has_event = true,
		.event = IBV_EVENT_QP_ACCESS_ERR,
	};

	vb_iwarp_fall(qp, now, &fall, why);
}

/* A place for an answer. NULL: the stream was ended. */
static struct vb_iwarp_owed *make_room(struct vb_qp *qp, vb_time now)
{
	struct vb_iwarp_engine *engine = vb_iwarp_engine(qp);
	struct vb_iwarp_reads *reads = &engine->reads;

	if (reads->owed_head - engine->sender.cursor.answer >= engine->terms.ird) {
		vb_iwarp_fall_by(qp, now, VB_TERMINATE_DDP, 2, 0x02, VB_FAULT_TOO_MANY_READS);
		return NULL;
	}
	if (!reads->owed)
		reads->owed = calloc(engine->terms.ird, sizeof(*reads->owed));
	if (!reads->owed) {
		vb_iwarp_fall_by(qp, now, VB_TERMINATE_RDMAP, 0, 0xff, VB_FAULT_RESPONDER_OPERATION);
		return NULL;
	}
	return vb_iwarp_owed(engine, reads->owed_head);
}

static bool has_right(const struct vb_qp *qp, uint32_t right, struct vb_fault_record *why)
{
	why->rights_asked = right;
	why->rights_granted = qp->attr.qp_access_flags;
	if (qp->attr.qp_access_flags & right)
		return true;
	why->fault = VB_FAULT_QP_RIGHTS;
	return false;
}

bool vb_iwarp_reads_take(struct vb_qp *qp, vb_time now, const struct vb_rdmap_read *read)
{
	struct vb_iwarp_engine *engine = vb_iwarp_engine(qp);
	struct vb_iwarp_owed *owed = make_room(qp, now);
	struct vb_accessor who = {
		.pd = qp->pd,
		.qpn = qp->qpn,
		.key = read->source_stag,
		.rights = IBV_ACCESS_REMOTE_READ,
		.remote = true,
	};
	struct vb_fault_record why = {.key = read->source_stag, .address = read->source_offset, .length = read->size};

	if (!owed)
		return false;
	*owed = (struct vb_iwarp_owed){
		.sink_stag = read->sink_stag,
		.sink_offset = read->sink_offset,
		.size = read->size,
		.key = read->source_stag,
		.address = read->source_offset,
		.msn = engine->receiver.header.msn,
	};
	/* Of no bytes the source is not looked at (RFC 5040 5.2). */
	if (read->size > 0 && (!has_right(qp, IBV_ACCESS_REMOTE_READ, &why) ||
			       !vb_memory_check(qp->host->memory, &who, read->source_offset, read->size, &why))) {
		refuse(qp, now, owed, vb_iwarp_cause_of(&why, true), &why);
		return false;
	}
	engine->receiver.read_msn++;
	engine->reads.owed_head++;
	return true;
}

/* RFC 7306 5.1: masks make fields of the eight bytes. The whole is one field: that is what adapters' verbs have. */
static bool is_plain(const struct vb_rdmap_atomic *atomic)
{
	const uint64_t top = UINT64_C(1) << 63;

	if (atomic->operation == VB_RDMAP_FETCH_ADD)
		return (atomic->add_or_swap_mask & ~top) == 0;
	return atomic->operation == VB_RDMAP_COMPARE_SWAP && atomic->add_or_swap_mask == UINT64_MAX && atomic->compare_mask == UINT64_MAX;
}

bool vb_iwarp_reads_take_atomic(struct vb_qp *qp, vb_time now, const struct vb_rdmap_atomic *atomic)
{
	struct vb_iwarp_engine *engine = vb_iwarp_engine(qp);
	struct vb_iwarp_owed *owed = make_room(qp, now);
	struct vb_accessor who = {
		.pd = qp->pd,
		.qpn = qp->qpn,
		.key = atomic->stag,
		.rights = IBV_ACCESS_REMOTE_ATOMIC,
		.remote = true,
	};
	struct vb_fault_record why = {.key = atomic->stag, .address = atomic->offset, .length = 8};
	enum vb_atomic operation = atomic->operation == VB_RDMAP_FETCH_ADD ? VB_ATOMIC_FETCH_ADD : VB_ATOMIC_CMP_SWP;

	if (!owed)
		return false;
	*owed = (struct vb_iwarp_owed){.is_atomic = true, .id = atomic->id, .msn = engine->receiver.header.msn};
	if (!is_plain(atomic)) {
		why.fault = VB_FAULT_OPCODE_UNSUPPORTED;
		refuse(qp, now, NULL, vb_terminate_cause(VB_TERMINATE_RDMAP, 2, 0x06), &why);
		return false;
	}
	if (!has_right(qp, IBV_ACCESS_REMOTE_ATOMIC, &why) ||
	    !vb_memory_atomic(qp->host->memory, &who, operation, atomic->offset, atomic->add_or_swap, atomic->compare, &owed->original,
			      &why)) {
		refuse(qp, now, NULL,
		       why.fault == VB_FAULT_UNALIGNED_ATOMIC ? vb_terminate_cause(VB_TERMINATE_RDMAP, 2, 0x07) :
								vb_iwarp_cause_of(&why, true),
		       &why);
		return false;
	}
	engine->receiver.read_msn++;
	engine->reads.owed_head++;
	return true;
}

/* ---- requests that wait for one another ---- */

bool vb_iwarp_reads_may_wait(const struct vb_qp *qp)
{
	const struct vb_iwarp_engine *engine = vb_iwarp_engine_of(qp);
	const struct vb_iwarp_cursor *at = &engine->sender.cursor;
	uint32_t outstanding = at->asked - engine->reads.done, waiting = qp->send.head - at->request, to_come = 0;

	/* More than these may not be asked for. */
	if (waiting > engine->terms.ord - outstanding)
		waiting = engine->terms.ord - outstanding;
	if (waiting == 0 || waiting >= VB_IWARP_TOGETHER || outstanding < VB_IWARP_TOGETHER)
		return false;
	if (engine->stage != VB_IWARP_OPEN || engine->sender.kept || at->underway != VB_IWARP_UNDERWAY_NOTHING ||
	    at->request_offset > 0 || at->answer != engine->reads.owed_head || at->greetings < engine->first.owed)
		return false;
	for (uint32_t i = 0; i < waiting; i++)
		if (vb_send_queue_at(&qp->send, at->request + i)->opcode != IBV_WR_RDMA_READ)
			return false;
	for (uint32_t i = 0; i < VB_IWARP_TOGETHER; i++) {
		const struct vb_iwarp_asked *asked = vb_iwarp_asked(engine, engine->reads.done + i);

		to_come += asked->size - asked->received;
	}
	return to_come >= VB_IWARP_MUCH;
}
