/* SPDX-License-Identifier: MIT
 *
 * The short way. Nearly all messages between processes that wait for each other are alike: a SEND of few bytes, posted
 * alone to a queue pair that is up, with nothing waiting before it; its record, found by a poll of an empty completion
 * queue, for which a receive of one element is there; and its acknowledgement. Here these are done at once: from the
 * request into the ring, from the ring into the receive and the caller's ibv_wc, without the queues in between. And a
 * WRITE of few bytes, which is complete when it is posted.
 *
 * Everything else is left as it was found, for the ordinary way (local.c), which does all of this too and more: each
 * function first makes sure that nothing is special, then acts. What it must make sure of are the things that the
 * ordinary way would have acted upon, and they are named where they are asked.
 */
#include <string.h>

#include "local/engine.h"

/* Longer ones cost more than the way. Three lines of the ring with what stands before them. */
enum { FEW_BYTES = 3 * VB_RECORD_ALIGN - (int)sizeof(struct vb_record) };

/* A header and what it is of: UCX has a header of its own, the program's, and its bytes. */
enum { MOST_ELEMENTS = 3 };

/* No observer wants to see each step, and the peer is as update_peer (local.c) last found it: connected to us and in
 * the same state. */
static bool nothing_changed(const struct vb_qp *qp, const struct vb_local *local)
{
	return qp->state == IBV_QPS_RTS && !qp->host->watch && !qp->host->observer &&
	       __atomic_load_n(&local->theirs->word, __ATOMIC_ACQUIRE) == local->seen_word &&
	       __atomic_load_n(&local->theirs->taken, __ATOMIC_RELAXED) == local->seen_taken && local->seen_taken == local->generation;
}

/* ---- sending ---- */

enum vb_local_fast_way vb_local_fast_way(const struct vb_qp *qp, const struct ibv_send_wr *wr)
{
	uint64_t length = 0;

	if (!wr || wr->next || wr->num_sge < 1 || wr->num_sge > MOST_ELEMENTS || (uint32_t)wr->num_sge > qp->send.max_sge ||
	    (wr->send_flags & ~(unsigned)(IBV_SEND_SIGNALED | IBV_SEND_INLINE | IBV_SEND_SOLICITED)))
		return VB_FAST_NONE;
	for (int i = 0; i < wr->num_sge; i++)
		length += wr->sg_list[i].length;
	if (length == 0 || length > FEW_BYTES || (wr->num_sge > 1 && !(wr->send_flags & IBV_SEND_INLINE)) ||
	    ((wr->send_flags & IBV_SEND_INLINE) && length > qp->send.max_inline))
		return VB_FAST_NONE;
	return wr->opcode == IBV_WR_SEND ? VB_FAST_SEND : wr->opcode == IBV_WR_RDMA_WRITE ? VB_FAST_WRITE : VB_FAST_NONE;
}

/* Its turn is now, and it may go: no work before it waits or has failed, the peer takes work, and the queue has room. */
static bool may_begin(const struct vb_qp *qp, const struct vb_local_initiator *initiator)
{
	return initiator->open && initiator->next == qp->send.head && qp->send.reserved == qp->send.head && !initiator->failure.waits &&
	       !vb_send_queue_is_full(&qp->send);
}

/* Of a list, which the caller has found to be short. */
static uint32_t length_of(const struct ibv_send_wr *wr)
{
	uint32_t length = wr->sg_list[0].length;

	for (int i = 1; i < wr->num_sge; i++)
		length += wr->sg_list[i].length;
	return length;
}

static const void *gather(const struct ibv_send_wr *wr, uint8_t gathered[FEW_BYTES])
{
	uint32_t length = 0;

	for (int i = 0; i < wr->num_sge; i++) {
		if (wr->sg_list[i].length > 0)
			memcpy(gathered + length, (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		length += wr->sg_list[i].length;
	}
	return gathered;
}

/* Its bytes: where they are, or as they were fetched. NULL: refused. */
static const void *bytes_of(const struct vb_qp *qp, const struct ibv_send_wr *wr, uint8_t fetched[FEW_BYTES])
{
	const struct ibv_sge *element = wr->sg_list;
	const struct vb_accessor who = {.pd = qp->pd, .qpn = qp->qpn, .key = element->lkey};
	struct vb_fault_record ignored;

	if (wr->send_flags & IBV_SEND_INLINE)
		return wr->num_sge == 1 ? (const void *)(uintptr_t)element->addr : gather(wr, fetched);
	return vb_memory_fetch(qp->host->memory, &who, element->addr, fetched, element->length, &ignored) ? fetched : NULL;
}

/* As work that was begun. Its bytes are in the record, and not asked for again. */
static void enqueue(struct vb_qp *qp, const struct vb_local *local, const struct ibv_send_wr *wr, vb_time now)
{
	struct vb_send_wqe *wqe = vb_send_queue_reserve(&qp->send);

	wqe->wr_id = wr->wr_id;
	wqe->opcode = wr->opcode;
	wqe->send_flags = wr->send_flags | (qp->signal_all ? IBV_SEND_SIGNALED : 0);
	wqe->length = length_of(wr);
	vb_local_note(wqe)->record = (uint32_t)local->initiator.produced;
	wqe->started = true;
	wqe->started_at = now;
	vb_send_queue_commit(&qp->send);
}

bool vb_local_fast_send(struct vb_qp *qp, struct vb_local *local, const struct ibv_send_wr *wr, vb_time now)
{
	struct vb_local_initiator *initiator = &local->initiator;
	struct vb_local_record record = {.kind = VB_RECORD_SEND};
	uint8_t fetched[FEW_BYTES];
	const void *bytes;
	uint8_t *body;

	vb_lock_assert_held(&qp->lock);
	if (!nothing_changed(qp, local) || !may_begin(qp, initiator))
		return false;
	/* Another SRQ must be named first. */
	if (qp->type == IBV_QPT_XRC_SEND && wr->qp_type.xrc.remote_srqn != initiator->srqn)
		return false;
	/* Not straight into the ring: leaving the region would wait until the peer's cache has given that line away. A SEND from
	 * registered memory takes 0.35 us instead of 0.39. */
	bytes = bytes_of(qp, wr, fetched);
	record.length = length_of(wr);
	body = bytes ? vb_local_ring_reserve(local, record.length) : NULL;
	if (!body)
		return false;
	memcpy(body, bytes, record.length);
	record.flags = wr->send_flags & IBV_SEND_SOLICITED ? VB_RECORD_SOLICITED : 0;
	vb_local_ring_publish(local, record.length, &record);
	initiator->ordered = initiator->produced;
	initiator->next++;
	initiator->sent++;
	enqueue(qp, local, wr, now);
	vb_local_initiator_count(local, false);
	vb_local_clock_run(local, now, true);
	if (!(local->watches & VB_LOCAL_WATCHES_ACKNOWLEDGEMENTS))
		VB_LOCAL_HINT(local->watches, local->watches | VB_LOCAL_WATCHES_ACKNOWLEDGEMENTS);
	vb_local_tell(local);
	return true;
}

/* Not behind work that is under way: it would have to complete after that. */
bool vb_local_fast_write(struct vb_qp *qp, struct vb_local *local, const struct ibv_send_wr *wr, vb_time now)
{
	const void *bytes;
	uint8_t fetched[FEW_BYTES];

	vb_lock_assert_held(&qp->lock);
	if (!local->initiator.stores || !nothing_changed(qp, local) || !may_begin(qp, &local->initiator) ||
	    vb_send_queue_count(&qp->send) > 0)
		return false;
	bytes = bytes_of(qp, wr, fetched);
	if (!bytes || !vb_local_direct_store(local, wr->wr.rdma.remote_addr, wr->wr.rdma.rkey, bytes, length_of(wr)))
		return false;
	local->initiator.next++;
	/* In part only: the thread that serves the queue pair next counts the rest. */
	if (++local->initiator.written >= VB_LOCAL_COUNT)
		vb_local_initiator_count(local, true);
	if (qp->signal_all || (wr->send_flags & IBV_SEND_SIGNALED)) {
		enqueue(qp, local, wr, now);
		vb_qp_complete_send(qp, IBV_WC_SUCCESS, VB_FAULT_NONE, now);
	} else {
		vb_send_queue_skip(&qp->send, length_of(wr));
	}
	return true;
}

/* No work of the queue pair's, and in no order with it: the peer's application learns of it from what is sent behind it. */
bool vb_local_place(struct vb_qp *qp, struct vb_local *local, uint64_t address, uint32_t key, const struct iovec *spans, unsigned count)
{
	const struct vb_local_initiator *initiator = &local->initiator;

	vb_lock_assert_held(&qp->lock);
	if (!nothing_changed(qp, local) || !initiator->open || initiator->failure.waits ||
	    !vb_local_direct_place(local, address, key, spans, count))
		return false;
	for (unsigned i = 0; i < count; i++)
		qp->send.bytes += spans[i].iov_len;
	return true;
}

/* ---- polling ---- */

static bool is_acknowledged(const struct vb_local *local)
{
	const struct vb_segment_qp *theirs = __atomic_load_n(&local->theirs, __ATOMIC_RELAXED);

	return __atomic_load_n(&theirs->consumed, __ATOMIC_RELAXED) !=
	       __atomic_load_n(&local->initiator.consumed, __ATOMIC_RELAXED);
}

bool vb_local_fast_has_work(const struct vb_local *local, bool sends, bool receives)
{
	uint32_t watches = __atomic_load_n(&local->watches, __ATOMIC_RELAXED);

	return (receives && (watches & VB_LOCAL_WATCHES_RING) && vb_local_ring_has_work(local)) ||
	       (sends && (watches & VB_LOCAL_WATCHES_ACKNOWLEDGEMENTS) && is_acknowledged(local));
}

/* What was acknowledged completes, straight into wc. What does not fit there, or is no plain message, goes into the
 * completion queue. */
static int complete_sends(struct vb_qp *qp, struct vb_local *local, int room, struct ibv_wc *wc, vb_time now)
{
	int taken = 0;

	if (!vb_local_records_look(local))
		return 0;
	while (taken < room && vb_local_initiator_oldest_is_sent(local))
		taken += vb_qp_complete_send_to(qp, &wc[taken]);
	vb_local_initiator_retire(local, now);
	vb_local_clock_run(local, now, true);
	vb_local_initiator_count(local, false);
	return taken;
}

/* A short SEND, with nothing to do about it but to place its bytes. */
static bool is_short_record(const struct vb_local_record *record)
{
	return record->kind == VB_RECORD_SEND && record->length > 0 && record->length <= FEW_BYTES &&
	       !(record->flags & (VB_RECORD_BY_REFERENCE | VB_RECORD_INVALIDATES));
}

/* The next record, if there is one and it is plain, into a receive that is shared. Once taken it is this queue pair's, and if the short way
 * has no use for it the ordinary one has (target.c). */
static bool receive_shared(struct vb_qp *qp, struct vb_local *local, struct ibv_wc *wc)
{
	struct vb_local_target *target = &local->target;
	const struct vb_taken_receive *taken = &target->taken;
	struct vb_local_record record;
	struct vb_completion completion;
	struct vb_fault_record ignored;
	const uint8_t *body;

	if (vb_local_ring_find(local, &record, &body) != VB_FOUND_RECORD || !is_short_record(&record))
		return false;
	target->has_receive = vb_srq_take(qp->srq, &target->taken);
	if (!target->has_receive || taken->sge_count != 1 || record.length > taken->length ||
	    !vb_memory_place(qp->host->memory,
			     &(struct vb_accessor){.pd = qp->receive_pd, .qpn = qp->qpn, .key = taken->list[0].lkey,
						   .rights = IBV_ACCESS_LOCAL_WRITE},
			     taken->list[0].addr, body, record.length, &ignored) ||
	    !vb_local_sender_stands(local))
		return false;
	completion = vb_local_completion_of(local, taken->wr_id, &record, IBV_WC_RECV, 0);
	target->has_receive = false;
	vb_local_ring_consume(local, &record);
	target->received++;
	vb_completion_to_wc(&completion, wc);
	return true;
}

/* The same into one of its own. */
static bool receive(struct vb_qp *qp, struct vb_local *local, struct ibv_wc *wc)
{
	const struct vb_receive_wqe *wqe = vb_receive_queue_oldest(&qp->receive);
	struct vb_local_record record;
	struct vb_completion completion;
	struct vb_fault_record ignored;
	const uint8_t *body;

	if (!wqe || wqe->sge_count != 1 || vb_local_ring_find(local, &record, &body) != VB_FOUND_RECORD || !is_short_record(&record) ||
	    record.length > wqe->length)
		return false;
	/* A record stands for as long as its sender does (target.c): until then nothing is taken. */
	if (!vb_memory_place(qp->host->memory,
			     &(struct vb_accessor){.pd = qp->pd, .qpn = qp->qpn, .key = wqe->list[0].lkey,
						   .rights = IBV_ACCESS_LOCAL_WRITE},
			     wqe->list[0].addr, body, record.length, &ignored) ||
	    !vb_local_sender_stands(local))
		return false;
	completion = vb_local_completion_of(local, wqe->wr_id, &record, IBV_WC_RECV, 0);
	vb_receive_queue_drop(&qp->receive);
	vb_local_ring_consume(local, &record);
	local->target.received++;
	vb_completion_to_wc(&completion, wc);
	return true;
}

/* Messages go to and fro. Those of a stream are better left until there are several of them: a receiver that takes each
 * as soon as it is there has the sender wait for the cache line of the next, where nothing has come yet. */
static bool is_conversation(const struct vb_local *local)
{
	const struct vb_local_initiator *initiator = &local->initiator;

	return initiator->produced != local->target.answered && initiator->produced - initiator->consumed <= 2;
}

static int receive_all(struct vb_qp *qp, struct vb_local *local, int room, struct ibv_wc *wc)
{
	struct vb_local_target *target = &local->target;
	int taken = 0;

	/* None is under way already. Nor does XRC learn here which receives are meant. */
	if (!is_conversation(local) || qp->xrc_domain || !local->hearing || target->ended || target->stalled || target->has_receive)
		return 0;
	while (taken < room && (qp->srq ? receive_shared(qp, local, &wc[taken]) : receive(qp, local, &wc[taken])))
		if (++taken % VB_LOCAL_PUBLISH == 0)
			vb_local_target_publish(local);
	if (taken == 0)
		return 0;
	target->answered = local->initiator.produced;
	/* Counted first: on x86-64 an addition that is atomic waits until what was stored before it is seen by all. */
	vb_local_target_count(local);
	vb_local_target_publish(local);
	return taken;
}

int vb_local_fast_poll(struct vb_qp *qp, struct vb_local *local, const struct vb_cq *cq, int room, struct ibv_wc *wc, vb_time now)
{
	const struct vb_local_initiator *initiator = &local->initiator;
	int taken = 0;

	vb_lock_assert_held(&qp->lock);
	/* Work that waits to be begun would begin with the acknowledgement that it waits for. */
	if (!nothing_changed(qp, local) || initiator->failure.waits || initiator->next != qp->send.head)
		return 0;
	/* A peer acknowledges before it answers: who waits for an answer finds its request completed first, as on the wire. */
	if (qp->send_cq == cq && initiator->produced != initiator->consumed)
		taken = complete_sends(qp, local, room, wc, now);
	if (qp->recv_cq == cq && taken < room && vb_cq_looks_empty(cq) && qp->state == IBV_QPS_RTS)
		taken += receive_all(qp, local, room - taken, wc + taken);
	if (local->kick)
		vb_local_tell(local);
	return taken;
}
