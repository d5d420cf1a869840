/* SPDX-License-Identifier: MIT
 *
 * A queue pair in the segment: what it shows, what it makes of what the peer shows, and the call that serves it.
 *
 *   serve -> look (is the peer there? do we go together?)
 *         -> target.c      the peer's records
 *         -> initiator.c   our send queue
 *         -> clock.c       patience
 *         -> vb_local_tell wake the peer if it sleeps
 *
 * A queue pair begins a new generation with each RTR. Generations of two queue pairs go together when each names the
 * other's QPN and both offer memory and the same path MTU. `taken` says with which generation of the peer: what a peer
 * shows (acknowledgements) or left (records) counts only if it is about this generation of ours. As long as nothing has
 * passed, a peer that comes in a new generation is as good as the old one, as on the wire where no PSN was used.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/generation.h"
#include "base/sleep_flag.h"
#include "local/doorbells.h"
#include "local/engine.h"

#define SHOW(field, value) VB_SEQUENCE_SET(field, value)
#define SHOWN(field) VB_SEQUENCE_GET(field)

/* An index has many queue pairs one after the other, and a QPN many indices: so no two of a segment are the same. */
static uint64_t next_generation(struct vb_segment *own)
{
	uint64_t last = __atomic_load_n(&own->header.generation, __ATOMIC_RELAXED), next;

	do
		next = vb_generation_next(vb_generation_word(last, 0), own->header.id);
	while (!__atomic_compare_exchange_n(&own->header.generation, &last, next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return next;
}

uint64_t vb_local_bits_of(const struct vb_qp *qp)
{
	bool stands = vb_local_sends(qp) || (!vb_qp_is_reliable(qp) && (qp->state == IBV_QPS_SQE || qp->state == IBV_QPS_ERR));

	/* What UC has sent stays sent when its sender fails. */
	return (vb_local_receives(qp) ? VB_WORD_RECEIVES : 0) | (stands ? VB_WORD_SENDS : 0);
}

static uint16_t service_of(const struct vb_qp *qp)
{
	return qp->type == IBV_QPT_XRC_SEND ? VB_SEGMENT_XRC_SEND :
	       qp->type == IBV_QPT_XRC_RECV ? VB_SEGMENT_XRC_RECV :
	       qp->type == IBV_QPT_UC	    ? VB_SEGMENT_UC :
					      VB_SEGMENT_RC;
}

/* Of the peer. */
static uint16_t service_wanted(const struct vb_qp *qp)
{
	return qp->type == IBV_QPT_XRC_SEND ? VB_SEGMENT_XRC_RECV :
	       qp->type == IBV_QPT_XRC_RECV ? VB_SEGMENT_XRC_SEND :
					      service_of(qp);
}

int vb_local_index_of(uint32_t qpn, const struct vb_segment *segment)
{
	uint32_t index = __atomic_load_n(&segment->qp_index[qpn % VB_SEGMENT_QPS], __ATOMIC_ACQUIRE);

	return index <= VB_SEGMENT_QPS ? (int)index - 1 : -1;
}

void vb_local_assign_index(struct vb_segment *own, uint32_t qpn, struct vb_local_qp_indices *indices)
{
	uint32_t index = indices->made;

	if (vb_local_index_of(qpn, own) >= 0)
		return;
	if (indices->resting > VB_LOCAL_INDICES_RESTING || indices->made == VB_SEGMENT_QPS) {
		index = indices->rest[indices->first];
		indices->first = (indices->first + 1) % VB_SEGMENT_QPS;
		indices->resting--;
	} else {
		indices->made++;
	}
	__atomic_store_n(&own->qp_index[qpn % VB_SEGMENT_QPS], (uint16_t)(index + 1), __ATOMIC_RELEASE);
}

void vb_local_release_index(struct vb_segment *own, uint32_t qpn, struct vb_local_qp_indices *indices)
{
	int index = vb_local_index_of(qpn, own);

	if (index < 0)
		return;
	__atomic_store_n(&own->qp_index[qpn % VB_SEGMENT_QPS], 0, __ATOMIC_RELEASE);
	indices->rest[(indices->first + indices->resting++) % VB_SEGMENT_QPS] = (uint16_t)index;
}

/* ---- showing ---- */

void vb_local_show_attributes(const struct vb_qp *qp, struct vb_segment_qp *mine)
{
	SHOW(mine->receive_access, qp->attr.qp_access_flags);
	SHOW(mine->max_reads, qp->attr.max_dest_rd_atomic);
	SHOW(mine->rnr_timer, qp->attr.min_rnr_timer);
	SHOW(mine->rnr_retry, qp->attr.rnr_retry);
	SHOW(mine->send_psn, qp->attr.sq_psn);
}

/* A peer may be late in looking how the generation before ended: an acknowledgement must not be lost because its giver went on. */
static void keep_outcome(struct vb_segment_qp *mine, uint64_t word)
{
	vb_sequence_begin(&mine->previous.generation, 0);
	SHOW(mine->previous.taken, SHOWN(mine->taken));
	SHOW(mine->previous.consumed, SHOWN(mine->consumed));
	SHOW(mine->previous.nak, SHOWN(mine->nak));
	SHOW(mine->previous.nak_fault, SHOWN(mine->nak_fault));
	vb_sequence_end(&mine->previous.generation, vb_generation_of(word));
}

uint64_t vb_local_begin_generation(const struct vb_qp *qp, struct vb_segment *own, const struct vb_local_terms *terms)
{
	struct vb_segment_qp *mine = &own->qp[vb_local_index_of(qp->qpn, own)];
	uint64_t word = SHOWN(mine->word), generation = next_generation(own);

	keep_outcome(mine, word);
	vb_generation_begin(&mine->word, generation);
	SHOW(mine->offer, terms->offers_local ? VB_OFFER_LOCAL : VB_OFFER_WIRE);
	SHOW(mine->peer_qpn, terms->peer_qpn);
	SHOW(mine->path_mtu, qp->path_mtu);
	SHOW(mine->receive_psn, qp->attr.rq_psn);
	SHOW(mine->pd, qp->xrc_domain ? qp->xrc_domain->handle : qp->pd->handle);
	SHOW(mine->table, terms->table);
	SHOW(mine->service, terms->service);
	SHOW(mine->connection, terms->connection);
	SHOW(mine->taken, 0);
	SHOW(mine->produced, 0);
	SHOW(mine->consumed, 0);
	SHOW(mine->released, 0);
	SHOW(mine->pulled, 0);
	SHOW(mine->stalled, 0);
	SHOW(mine->nak, VB_SEGMENT_NAK_NONE);
	SHOW(mine->nak_fault, VB_FAULT_NONE);
	vb_local_show_attributes(qp, mine);
	if (terms->offers_local)
		SHOW(*(uint64_t *)(void *)mine->near, 0);
	vb_generation_show(&mine->word, generation, vb_local_bits_of(qp));
	return generation;
}

static uint64_t begin_generation(const struct vb_qp *qp, struct vb_segment *own, uint32_t table, bool offers_local)
{
	const struct vb_local_terms terms = {
		.table = table,
		.peer_qpn = qp->attr.dest_qp_num,
		.service = service_of(qp),
		.offers_local = offers_local,
	};

	return vb_local_begin_generation(qp, own, &terms);
}

/* The peer gets to know of what was left for it. Partners: an owner that falls asleep (links/memory/attention.c), and
 * one that sets `crowded`, then looks at all, and at each now and then. A look at all comes before each sleep, too. */
void vb_local_tell(struct vb_local *local)
{
	const struct vb_segment_header *header = &local->peer->segment->header;

	local->kick = false;
	if (SHOWN(header->crowded))
		vb_doorbells_ring(local->own, local->peer_qpn, local->lane);
	if (vb_sleep_must_wake(&header->asleep, local->fenced))
		local->peer->host->wake(local->peer);
}

/* Has anything passed between the two? Then a new generation of the peer cannot follow on: its counts would not fit ours. */
static bool is_untouched(const struct vb_local *local)
{
	return local->initiator.produced == 0 && !local->initiator.touched && local->target.consumed == 0;
}

/* What may have work from now on. */
static void set_hints(struct vb_local *local)
{
	uint32_t watches = 0;

	if (local->path != VB_LOCAL_DECLINED && vb_local_receives(local->qp)) {
		watches = VB_LOCAL_WATCHES_WORD;
		if (local->hearing && !local->target.ended && !local->target.stalled)
			watches |= VB_LOCAL_WATCHES_RING;
		/* Those of other generations are not for us, and would seem to be work for ever. */
		if (vb_local_sends(local->qp) && local->initiator.produced != local->initiator.consumed &&
		    local->seen_taken == local->generation && vb_generation_of(local->seen_word) == local->peer_generation)
			watches |= VB_LOCAL_WATCHES_ACKNOWLEDGEMENTS;
		if (is_untouched(local))
			watches |= VB_LOCAL_WATCHES_INDEX;
	}
	if (watches != local->watches)
		VB_LOCAL_HINT(local->watches, watches);
}

/* ---- looking ---- */

/* Does the peer's number stand for another queue pair now than when we looked for it? Its index, or -1. */
static int new_index(const struct vb_local *local, const struct vb_segment_qp *theirs)
{
	int index = vb_local_index_of(local->peer_qpn, local->peer->segment);

	return index >= 0 && theirs != &local->peer->segment->qp[index] ? index : -1;
}

static void look_at_index(struct vb_local *local, int index)
{
	const struct vb_segment *segment = local->peer->segment;

	VB_LOCAL_HINT(local->theirs, &segment->qp[index]);
	VB_LOCAL_HINT(local->their_ring, segment->ring[index]);
	VB_LOCAL_HINT(local->their_answers, segment->answer[index]);
	/* What the peer shows there is looked at with the next call. */
	VB_LOCAL_HINT(local->seen_word, ~UINT64_C(0));
}

static void forget_generation(struct vb_local *local)
{
	local->peer_generation = 0;
	vb_generation_join(&local->mine->taken, 0);
	VB_LOCAL_HINT(local->path, VB_LOCAL_UNDECIDED);
	/* The first record may have been found, and even begun. The next generation's is at the beginning of its ring. */
	VB_LOCAL_HINT(local->target.position, 0);
	local->target.pulled = 0;
	vb_local_target_forget(local);
	/* UC: it was that generation of the peer which took, or sent, nothing any more. */
	if (!vb_qp_is_reliable(local->qp))
		local->initiator.unreachable = local->target.ended = false;
}

/* UC: the peer began anew after something had passed, and so do we. On the wire any PSN is as good as the next one (C9-192). */
static void restart(struct vb_local *local)
{
	struct vb_local_initiator *initiator = &local->initiator;

	vb_local_unreliable_write_off(local);
	/* A WRITE of which some pieces were moved. */
	if (vb_local_sends(local->qp) && initiator->next != local->qp->send.head)
		vb_send_queue_at(&local->qp->send, initiator->next)->started = false;
	initiator->moved = 0;
	local->generation = begin_generation(local->qp, local->own, SHOWN(local->mine->table), true);
	local->restarted = true;
	initiator->produced = initiator->head = initiator->released = initiator->pulled = initiator->ordered = 0;
	VB_LOCAL_HINT(initiator->consumed, 0);
	VB_LOCAL_HINT(initiator->stalled, 0);
	initiator->lonely = 0;
	initiator->touched = initiator->greeted = initiator->stores = false;
	VB_LOCAL_HINT(local->target.consumed, 0);
	local->target.shown = local->target.pulled_total = local->target.answered = local->target.starved = 0;
	forget_generation(local);
	local->kick = true;
}

/* The peer's queue pair was destroyed before anything passed, and its number was given to another one: as on the wire, which knows
 * numbers alone, that is the peer now. */
static void follow(struct vb_local *local)
{
	int index = new_index(local, local->theirs);

	if (index < 0 || !is_untouched(local))
		return;
	look_at_index(local, index);
	forget_generation(local);
}

static void take(struct vb_local *local, uint64_t word)
{
	const struct vb_segment_qp *theirs = local->theirs;
	const struct vb_qp *qp = local->qp;
	uint32_t offer = SHOWN(theirs->offer);
	uint32_t peer_qpn = SHOWN(theirs->peer_qpn);
	uint32_t path_mtu = SHOWN(theirs->path_mtu);
	uint32_t receive_psn = SHOWN(theirs->receive_psn);
	uint32_t pd = SHOWN(theirs->pd);
	uint32_t table = SHOWN(theirs->table);
	uint16_t service = SHOWN(theirs->service);
	bool reliable = vb_qp_is_reliable(qp);

	/* All of one generation? And does it mean us? Another queue pair that has the index of ours now does not. */
	if (!vb_generation_stands(&theirs->word, vb_generation_of(word)) || table >= VB_SEGMENT_TABLES || service != service_wanted(qp) ||
	    vb_local_index_of(local->peer_qpn, local->peer->segment) != theirs - local->peer->segment->qp)
		return;
	/* It is connected to another one. A packet of UC does not say whose it is, and would be taken nevertheless. */
	if (peer_qpn != qp->qpn && (reliable || local->restarted))
		return;
	if (offer != VB_OFFER_LOCAL || path_mtu != qp->path_mtu || peer_qpn != qp->qpn) {
		SHOW(local->mine->offer, VB_OFFER_WIRE);
		VB_LOCAL_HINT(local->path, VB_LOCAL_DECLINED);
		return;
	}
	local->peer_generation = vb_generation_of(word);
	local->peer_pd = local->peer_domain = pd;
	local->peer_table = table;
	local->peer_receive_psn = receive_psn;
	VB_LOCAL_HINT(local->path, VB_LOCAL_TAKEN);
	/* The peer need not be told: it looks when it has something for us, or when we left something for it. */
	vb_generation_join(&local->mine->taken, local->peer_generation);
	/* UC that comes anew waits for that. */
	local->kick |= !reliable;
}

/* What the peer's word means for both directions. */
static void update_peer(struct vb_local *local, uint64_t word, uint64_t taken)
{
	const struct vb_qp *qp = local->qp;
	bool same_generation = local->path == VB_LOCAL_TAKEN && vb_generation_of(word) == local->peer_generation;
	bool any_psn = !vb_qp_is_reliable(qp);

	/* A peer that has not looked yet will find us; one that goes with another generation of ours has no ear for this one. */
	local->initiator.open = same_generation && (word & VB_WORD_RECEIVES) && (taken == 0 || taken == local->generation) &&
				(local->peer_receive_psn == qp->attr.sq_psn || any_psn) && vb_local_sends(qp) &&
				!local->initiator.unreachable;
	local->hearing = same_generation && (word & VB_WORD_SENDS) && taken == local->generation &&
			 (SHOWN(local->theirs->send_psn) == qp->attr.rq_psn || any_psn) && vb_local_receives(qp) &&
			 qp->type != IBV_QPT_XRC_SEND;
	if (!vb_qp_is_reliable(qp))
		vb_local_unreliable_update(local, same_generation && (word & VB_WORD_RECEIVES));
}

/* True: the peer shows something new. */
static bool look(struct vb_local *local)
{
	uint64_t word, taken;

	if (local->watches & VB_LOCAL_WATCHES_INDEX)
		follow(local);
	word = vb_generation_read(&local->theirs->word);
	taken = __atomic_load_n(&local->theirs->taken, __ATOMIC_ACQUIRE);
	if (word == local->seen_word && taken == local->seen_taken)
		return false;
	VB_LOCAL_HINT(local->seen_word, word);
	VB_LOCAL_HINT(local->seen_taken, taken);
	if (local->path == VB_LOCAL_TAKEN && vb_generation_of(word) != local->peer_generation) {
		if (is_untouched(local))
			forget_generation(local);
		else if (!vb_qp_is_reliable(local->qp) && (word & VB_WORD_RECEIVES))
			restart(local);
	}
	if (local->path == VB_LOCAL_UNDECIDED && (word & VB_WORD_RECEIVES))
		take(local, word);
	update_peer(local, word, taken);
	return true;
}

bool vb_local_has_work(const struct vb_local *local)
{
	uint32_t watches = __atomic_load_n(&local->watches, __ATOMIC_RELAXED);
	const struct vb_segment_qp *theirs = SHOWN(local->theirs);

	if (!watches)
		return false;
	if (__atomic_load_n(&theirs->word, __ATOMIC_SEQ_CST) != SHOWN(local->seen_word) ||
	    __atomic_load_n(&theirs->taken, __ATOMIC_SEQ_CST) != SHOWN(local->seen_taken))
		return true;
	if ((watches & VB_LOCAL_WATCHES_INDEX) && new_index(local, theirs) >= 0)
		return true;
	if ((watches & VB_LOCAL_WATCHES_RING) && vb_local_ring_has_work(local))
		return true;
	return (watches & VB_LOCAL_WATCHES_ACKNOWLEDGEMENTS) &&
	       (SHOWN(theirs->consumed) != SHOWN(local->initiator.consumed) ||
		SHOWN(theirs->stalled) != SHOWN(local->initiator.stalled) || SHOWN(theirs->nak) != VB_SEGMENT_NAK_NONE);
}

/* ---- attaching ---- */

/* Threads that have completion queues of their own shall not wait for each other's cache lines when they ring. */
static uint32_t lane_of(const struct vb_qp *qp)
{
	return (uint32_t)((uintptr_t)qp->send_cq / 64 * UINT64_C(0x9e3779b97f4a7c15) >> 32) % VB_SEGMENT_LANES;
}

int vb_local_attach(struct vb_qp *qp, struct vb_segment *own, uint32_t own_slot, uint32_t table, struct vb_local_peer *peer,
		    vb_time now, struct vb_local **out)
{
	int index = vb_local_index_of(qp->qpn, own), their_index = peer ? vb_local_index_of(qp->attr.dest_qp_num, peer->segment) : -1;
	struct vb_local *local = NULL;
	uint64_t generation;

	(void)own_slot;
	(void)now;
	vb_lock_assert_held(&qp->lock);
	*out = NULL;
	if (their_index >= 0) {
		local = calloc(1, sizeof(*local));
		if (!local)
			return -ENOMEM;
	}
	generation = begin_generation(qp, own, table, local != NULL);
	if (!local)
		return 0;
	local->own = own;
	local->mine = &own->qp[index];
	local->ring = own->ring[index];
	local->answers = own->answer[index];
	local->peer = peer;
	local->peer_qpn = qp->attr.dest_qp_num;
	local->qp = qp;
	local->generation = generation;
	local->lane = lane_of(qp);
	local->fenced = own->header.fenced || SHOWN(peer->segment->header.fenced);
	local->path = VB_LOCAL_UNDECIDED;
	local->shown_state = qp->state;
	local->initiator.next = qp->send.tail;
	local->initiator.look_at = VB_TIME_NEVER;
	local->initiator.srqn = qp->type == IBV_QPT_XRC_SEND ? VB_LOCAL_NO_SRQ : 0;
	local->target.srqn = VB_LOCAL_NO_SRQ;
	look_at_index(local, their_index);
	set_hints(local);
	/* One that is not there yet will find us when it comes: both show themselves first and look then. */
	if (__atomic_load_n(&local->theirs->word, __ATOMIC_SEQ_CST) & VB_WORD_RECEIVES)
		vb_local_tell(local);
	*out = local;
	return 0;
}

void vb_local_modified(struct vb_qp *qp, struct vb_local *local, vb_time now)
{
	bool received, receives = vb_local_receives(qp);

	vb_lock_assert_held(&qp->lock);
	if (!local)
		return;
	received = SHOWN(local->mine->word) & VB_WORD_RECEIVES;
	if (qp->state == IBV_QPS_RTS && (local->shown_state == IBV_QPS_RTR || local->shown_state == IBV_QPS_SQE)) {
		local->initiator.next = qp->send.tail;
		local->initiator.moved = 0;
	}
	local->shown_state = qp->state;
	vb_local_show_attributes(qp, local->mine);
	vb_generation_show(&local->mine->word, local->generation, vb_local_bits_of(qp));
	/* Our PSNs and our state are part of what the peer's word means. */
	update_peer(local, local->seen_word, local->seen_taken);
	if (!vb_local_sends(qp))
		local->initiator.waits = false;
	if (qp->state == IBV_QPS_ERR && !vb_qp_is_reliable(qp) && local->path != VB_LOCAL_DECLINED)
		vb_local_unreliable_complete_left(local, now);
	vb_local_initiator_count(local, !vb_local_sends(qp));
	if (received && !receives) {
		vb_local_wait_for_copies(qp, local->peer);
		vb_local_target_flush(local, now);
	}
	set_hints(local);
}

void vb_local_detach(struct vb_qp *qp, struct vb_segment *own, struct vb_local *local)
{
	struct vb_segment_qp *mine = &own->qp[vb_local_index_of(qp->qpn, own)];
	uint64_t word = SHOWN(mine->word);

	/* The generation stays, and what was acknowledged: the peer may still come to see it. */
	if (local)
		vb_local_target_publish(local);
	vb_generation_show(&mine->word, vb_generation_of(word), 0);
	if (!local)
		return;
	vb_local_initiator_count(local, true);
	vb_local_wait_for_copies(qp, local->peer);
	if (local->kick)
		vb_local_tell(local);
	free(local);
}

/* ---- serving ---- */

bool vb_local_serve(struct vb_qp *qp, struct vb_local *local, vb_time now, bool polled, bool *more)
{
	const uint64_t acknowledged = local->initiator.consumed;
	bool did, posted, progress = false;

	vb_lock_assert_held(&qp->lock);
	*more = false;
	if (local->path == VB_LOCAL_DECLINED)
		return false;
	did = look(local);
	if (local->path == VB_LOCAL_DECLINED) {
		/* What was lost before that. */
		if (!vb_qp_is_reliable(qp))
			(void)vb_local_initiator_retire(local, now);
		local->initiator.waits = false;
		set_hints(local);
		return true;
	}
	/* Work that was just posted goes before what came meanwhile: a thread waits for it. */
	posted = local->path == VB_LOCAL_TAKEN && vb_local_sends(qp) && local->initiator.next != qp->send.head;
	if (posted)
		progress = vb_local_initiator_run(local, now, more);
	if (!local->hearing)
		vb_local_target_forget(local);
	else if (local->target.stalled || vb_local_ring_has_work(local))
		did |= vb_local_target_run(local, now, polled, more);
	if (!posted && vb_local_sends(qp)) {
		/* UC waits for no peer. */
		if (local->path == VB_LOCAL_TAKEN || !vb_qp_is_reliable(qp))
			progress = vb_local_initiator_run(local, now, more);
		else
			progress = vb_local_initiator_retire(local, now);
	}
	if (vb_local_sends(qp))
		vb_local_clock_run(local, now, progress);
	/* States that the engine caused itself are not told to it. */
	if (local->shown_state != qp->state)
		vb_local_modified(qp, local, now);
	vb_local_initiator_count(local, false);
	/* Acknowledgements that came after the work was looked at that waits for them, and that nothing will tell of again. */
	if (local->initiator.next != qp->send.head) {
		*more |= (local->initiator.consumed != acknowledged && local->initiator.open) || local->initiator.again;
		local->initiator.again = false;
	}
	set_hints(local);
	if (local->kick)
		vb_local_tell(local);
	return did | progress;
}

vb_time vb_local_next_deadline(const struct vb_local *local)
{
	vb_time deadline = local->initiator.waits ? local->initiator.look_at : VB_TIME_NEVER;

	if (local->target.stalled)
		deadline = vb_time_earlier(deadline, vb_time_earlier(local->target.retry_at, local->target.give_up_at));
	return deadline;
}

/* ---- questions ---- */

enum vb_local_path vb_local_path(const struct vb_local *local)
{
	return (enum vb_local_path)SHOWN(local->path);
}

const struct vb_local_peer *vb_local_peer_of(const struct vb_local *local)
{
	return local->peer;
}

bool vb_local_is_stalled(const struct vb_local *local)
{
	return SHOWN(local->target.stalled);
}

void vb_local_query(const struct vb_local *local, struct vb_transport_status *status)
{
	const struct vb_local_initiator *initiator = &local->initiator;
	const struct ibv_qp_attr *attr = &local->qp->attr;

	*status = (struct vb_transport_status){
		.send = (uint32_t)initiator->produced + 1,
		.acknowledged = (uint32_t)initiator->consumed + 1,
		.expected = (uint32_t)local->target.consumed + 1,
		.msn = (uint32_t)local->target.consumed,
		.outstanding = (uint32_t)(initiator->produced - initiator->consumed),
		.outstanding_reads = (uint32_t)(initiator->atomics - initiator->atomics_done),
		.retries_left = attr->retry_cnt - vb_local_clock_retries(local),
		.rnr_retries_left = attr->rnr_retry,
	};
}
