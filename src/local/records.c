/* SPDX-License-Identifier: MIT
 *
 * Our records: leaving them for the peer, and what the peer shows of them.
 *
 * What a peer shows is taken for true only if it can be: no more than was left, no less than before.
 */
#include "base/generation.h"
#include "base/stamped_ring.h"
#include "local/engine.h"

void vb_local_records_leave(struct vb_local *local, struct vb_send_wqe *wqe, uint32_t body, const struct vb_local_record *record)
{
	vb_local_ring_publish(local, body, record);
	local->initiator.ordered = local->initiator.produced;
	vb_local_note(wqe)->record = (uint32_t)local->initiator.produced;
}

bool vb_local_records_read(const struct vb_local *local, struct vb_local_shown *shown)
{
	const struct vb_segment_qp *theirs = local->theirs;
	const struct vb_segment_outcome *previous = &theirs->previous;
	uint64_t taken;

	*shown = (struct vb_local_shown){
		/* The NAK first: when there is one, `consumed` does not change any more. */
		.nak = __atomic_load_n(&theirs->nak, __ATOMIC_ACQUIRE),
		.consumed = vb_stamped_consumed(&theirs->consumed),
		.released = vb_stamped_released(&theirs->released),
		.stalled = __atomic_load_n(&theirs->stalled, __ATOMIC_ACQUIRE),
	};
	if (vb_generation_goes_with(&theirs->taken, local->generation, &theirs->word, local->peer_generation))
		return true;
	/* The peer goes on in another generation; how did that with us end? Of answers to atomics nothing is kept. */
	if (vb_sequence_read(&previous->generation) != local->peer_generation ||
	    local->initiator.atomics != local->initiator.atomics_done)
		return false;
	taken = VB_SEQUENCE_GET(previous->taken);
	*shown = (struct vb_local_shown){
		.nak = VB_SEQUENCE_GET(previous->nak),
		.consumed = VB_SEQUENCE_GET(previous->consumed),
		.released = local->initiator.released,
	};
	return vb_sequence_stands(&previous->generation, local->peer_generation) && taken == local->generation;
}

bool vb_local_records_are_possible(const struct vb_local_initiator *initiator, const struct vb_local_shown *shown)
{
	return shown->consumed - initiator->consumed <= initiator->produced - initiator->consumed &&
	       shown->released - initiator->released <= initiator->head - initiator->released &&
	       shown->released % VB_RECORD_ALIGN == 0 && shown->nak <= VB_SEGMENT_NAK_UNREADABLE;
}

bool vb_local_records_accept(struct vb_local *local, const struct vb_local_shown *shown)
{
	struct vb_local_initiator *initiator = &local->initiator;
	bool news = shown->consumed != initiator->consumed || shown->nak != VB_SEGMENT_NAK_NONE;

	if (shown->stalled != initiator->stalled) {
		VB_LOCAL_HINT(initiator->stalled, shown->stalled);
		if (!vb_qp_is_reliable(local->qp)) {
			vb_local_unreliable_starved(local);
			news = true;
		} else if (shown->stalled != 0) {
			VB_COUNT(local->qp->host->counters, rcvd_rnr_err);
		}
	}
	VB_LOCAL_HINT(initiator->consumed, shown->consumed);
	initiator->released = shown->released;
	return news;
}

bool vb_local_records_look(struct vb_local *local)
{
	struct vb_local_shown shown;

	return vb_local_records_read(local, &shown) && vb_local_records_are_possible(&local->initiator, &shown) &&
	       vb_local_records_accept(local, &shown);
}
