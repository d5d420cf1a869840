/* SPDX-License-Identifier: MIT
 *
 * XRC (IBA annex A14) through memory. A connection has an XRC_SEND queue pair at one end, which only sends, and an XRC_RECV one at the
 * other, which only receives; each request is for an SRQ of the latter's domain, whose PD, CQ and receives it goes by.
 *
 *   a record        is for the SRQ that the last SRQ record before it names: one is left whenever that changes. The target looks the
 *                   number up in its domain for each (queue/xrc.h), since an SRQ may be gone meanwhile
 *   direct access   goes by the word that the target shows for the SRQ: is it of the queue pair's domain, and which is its PD?
 *
 * An SRQ that goes takes its word away first, and waits for those who copy on behalf of queue pairs of its domain then: who copies
 * shows that before it looks at the word (direct.c), so that one of the two sees the other.
 */
#include <string.h>

#include "local/engine.h"

/* ---- the owner ---- */

void vb_local_show_srq(struct vb_segment *own, uint32_t number, uint32_t table, uint32_t domain, uint32_t pd)
{
	__atomic_store_n(&own->srq[number % VB_SEGMENT_QPS], vb_segment_srq_word(table, domain, pd), __ATOMIC_RELEASE);
}

void vb_local_hide_srq(struct vb_segment *own, uint32_t number)
{
	__atomic_store_n(&own->srq[number % VB_SEGMENT_QPS], 0, __ATOMIC_SEQ_CST);
}

void vb_local_srq_gone(struct vb_qp *qp, struct vb_local *local, const struct vb_srq *srq)
{
	vb_lock_assert_held(&qp->lock);
	vb_local_wait_for_copies(qp, local->peer);
	if (qp->srq != srq)
		return;
	/* The record under way is refused with the next look at it. */
	local->target.has_receive = false;
	local->target.pulled = 0;
}

bool vb_local_xrc_use_named(struct vb_local *local)
{
	struct vb_qp *qp = local->qp;

	if (qp->srq && qp->srq->number == local->target.srqn)
		return true;
	/* What is held open is of the other one's PD. */
	vb_memory_let_go(&local->target.placing);
	return vb_xrc_choose_srq(qp, local->target.srqn);
}

/* ---- the initiator ---- */

bool vb_local_xrc_leave_name(struct vb_local *local, const struct vb_send_wqe *wqe)
{
	const struct vb_local_record record = {.kind = VB_RECORD_SRQ, .immediate = wqe->srqn};

	/* Some of the verbs let a program say it of any queue pair. */
	if (local->qp->type != IBV_QPT_XRC_SEND)
		return true;
	if (!vb_local_ring_reserve(local, 0) && !(vb_local_records_look(local) && vb_local_ring_reserve(local, 0)))
		return false;
	vb_local_ring_publish(local, 0, &record);
	local->initiator.srqn = wqe->srqn;
	return true;
}

bool vb_local_xrc_choose(struct vb_local *local, uint32_t srqn)
{
	const struct vb_local_peer *peer = local->peer;
	/* After the key was shown; partner of the store in vb_local_hide_srq. */
	uint64_t word = __atomic_load_n(&peer->segment->srq[srqn % VB_SEGMENT_QPS], __ATOMIC_SEQ_CST);
	uint32_t pd = vb_segment_srq_pd(word);

	if (srqn / VB_SEGMENT_QPS != peer->slot || !vb_segment_srq_is_of(word, local->peer_table, local->peer_domain))
		return false;
	/* What is known of keys is known of that PD. */
	if (pd != local->peer_pd)
		memset(local->cached, 0, sizeof(local->cached));
	local->peer_pd = pd;
	return true;
}
