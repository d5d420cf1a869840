/* SPDX-License-Identifier: MIT
 *
 * Unreliable connections through memory (unreliable.c): the beginning of a message where the way to the peer is not open.
 */
#include "local/engine.h"

/* The peer goes with a generation of ours that is no more: it has not looked yet, and will begin anew when it does. */
static bool will_come(const struct vb_local *local)
{
	return local->path == VB_LOCAL_TAKEN && !local->initiator.unreachable && !local->initiator.silent &&
	       local->seen_taken != 0 && local->seen_taken != local->generation;
}

enum vb_local_step vb_local_unreliable_begin(struct vb_local *local, struct vb_send_wqe *wqe)
{
	struct vb_local_initiator *initiator = &local->initiator;

	if (!initiator->reaches)
		return will_come(local) ? VB_STEP_WAIT : vb_local_unreliable_lose(local, wqe);
	if (initiator->silent) {
		(void)vb_local_records_look(local);
		initiator->silent = initiator->consumed == initiator->silent_at && initiator->consumed != initiator->produced;
		vb_local_unreliable_settle(local);
	}
	return initiator->silent && vb_local_unreliable_is_by_reference(wqe) ? vb_local_unreliable_lose(local, wqe) : VB_STEP_MORE;
}

enum vb_local_step vb_local_unreliable_tried(struct vb_local *local, struct vb_send_wqe *wqe, enum vb_local_step step)
{
	const struct vb_local_initiator *initiator = &local->initiator;

	if (step == VB_STEP_WAIT && initiator->silent)
		return vb_local_unreliable_lose(local, wqe);
	if (step == VB_STEP_DONE && !initiator->open && !vb_local_unreliable_is_by_reference(wqe))
		wqe->done = true;
	return step;
}
