/* SPDX-License-Identifier: MIT
 *
 * Unreliable connections (IBA 9.8.2) through memory. Records, rings and direct accesses are those of RC. What differs is what comes of
 * trouble: a requester hears of none of it (C9-191). What cannot be delivered is lost, and completes as if it had been sent.
 *
 *   the peer is not there, is reset or fails   lost at once
 *   it refuses: key, rights, range             lost, and nothing happens at the peer (direct.c, target.c)
 *   it has no receive                          lost at once, unless its receives have only just run out (target.c)
 *   it dies                                    lost as soon as that is noticed (clock.c)
 *   it does not look: a stopped process        after a while (clock.c). What is in the ring stays there for it to find; longer messages,
 *                                              whose bytes are still the application's, are withdrawn. So are later ones as long as there
 *                                              is no room for them
 *   it begins anew (RESET, RTR)                so do we (local.c)
 *
 * A message completes when the peer has taken it, or dropped it, or is known to look and to have no receive: then what was sent before a
 * queue pair is destroyed is not lost with its ring.
 */
#include "local/engine.h"

bool vb_local_unreliable_is_by_reference(const struct vb_send_wqe *wqe)
{
	return vb_work(wqe->opcode)->kind == VB_WORK_SEND && wqe->length > VB_RECORD_INLINE;
}

static bool is_taken(const struct vb_local *local, const struct vb_send_wqe *wqe)
{
	return wqe->done || (int32_t)((uint32_t)local->initiator.consumed - vb_local_note(wqe)->record) >= 0;
}

void vb_local_unreliable_settle(struct vb_local *local)
{
	struct vb_local_initiator *initiator = &local->initiator;

	initiator->open = initiator->reaches && !initiator->silent && initiator->stalled == 0;
}

void vb_local_unreliable_let_go(struct vb_local *local, bool of_long_ones_too)
{
	const struct vb_local_initiator *initiator = &local->initiator;

	/* After SQE the queue was flushed beyond what was begun. */
	for (uint32_t i = local->qp->send.tail; (int32_t)(initiator->next - i) > 0; i++) {
		struct vb_send_wqe *wqe = vb_send_queue_at(&local->qp->send, i);

		if (is_taken(local, wqe) || (vb_local_unreliable_is_by_reference(wqe) && !of_long_ones_too))
			continue;
		if (vb_local_unreliable_is_by_reference(wqe))
			vb_local_ring_withdraw(local, vb_local_note(wqe)->place);
		wqe->done = true;
	}
}

void vb_local_unreliable_write_off(struct vb_local *local)
{
	struct vb_local_initiator *initiator = &local->initiator;

	vb_local_unreliable_let_go(local, true);
	VB_LOCAL_HINT(initiator->consumed, initiator->produced);
	VB_LOCAL_HINT(initiator->stalled, 0);
	initiator->unreachable = true;
	initiator->reaches = false;
	initiator->again = true;
	vb_local_unreliable_settle(local);
}

void vb_local_unreliable_update(struct vb_local *local, bool there)
{
	struct vb_local_initiator *initiator = &local->initiator;

	initiator->reaches = initiator->open;
	initiator->silent = false;
	if (local->path == VB_LOCAL_TAKEN && !there)
		vb_local_unreliable_write_off(local);
	vb_local_unreliable_settle(local);
}

void vb_local_unreliable_starved(struct vb_local *local)
{
	if (local->initiator.stalled != 0)
		vb_local_unreliable_let_go(local, false);
	local->initiator.again = true;
	vb_local_unreliable_settle(local);
}

void vb_local_unreliable_complete_left(struct vb_local *local, vb_time now)
{
	struct vb_qp *qp = local->qp;

	vb_local_unreliable_let_go(local, true);
	while (vb_send_queue_count(&qp->send) > 0 && (int32_t)(local->initiator.next - qp->send.tail) > 0)
		vb_qp_complete_send(qp, IBV_WC_SUCCESS, VB_FAULT_NONE, now);
}

enum vb_local_step vb_local_unreliable_lose(struct vb_local *local, struct vb_send_wqe *wqe)
{
	struct vb_qp *qp = local->qp;
	struct vb_fault_record why = {0};

	/* What is at fault at this end is told here, whether there is a peer or not. */
	if (!wqe->is_inline &&
	    !vb_memory_check_list(qp->host->memory, qp->pd, qp->qpn, wqe->list, wqe->sge_count, 0, &why))
		return vb_local_initiator_fail(local, IBV_WC_LOC_PROT_ERR, &why);
	local->initiator.moved = 0;
	wqe->done = true;
	return VB_STEP_DONE;
}
