/* SPDX-License-Identifier: MIT
 *
 * One queue pair that goes through memory, served: when work was posted, when its time has come, or because a thread
 * looked and found that it has work. Which ones are looked at is decided elsewhere, by passes (pairs.c) and by threads
 * that poll a CQ (pollers.c).
 */
#include "base/inline.h"
#include "io/clock.h"
#include "links/memory/memory_link.h"
#include "local/local.h"
#include "queue/qp.h"

enum {
	SERVES_PER_CALL = 8,               /* then others have their turn */
	RECEIVING_SERVES = 2,              /* of those, where the peer has left more: a thread may wait for the lock */
};

void vb_pair_leave(struct vb_same_host *same_host, struct vb_qp *qp, struct vb_pair *pair)
{
	struct vb_binding *binding = qp->scheduler;

	if (!pair->carried)
		return;
	__atomic_store_n(&pair->carried, false, __ATOMIC_RELAXED);
	vb_link_carry(qp, binding->wire);
	if (__atomic_load_n(&same_host->link.members, __ATOMIC_SEQ_CST) <= VB_CROWD)
		__atomic_store_n(&same_host->segment->header.crowded, 0, __ATOMIC_SEQ_CST);
	if (pair->stalled)
		__atomic_sub_fetch(&same_host->stalled, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&pair->stalled, false, __ATOMIC_RELAXED);
}

static void note_stall(struct vb_same_host *same_host, struct vb_pair *pair)
{
	bool stalled = vb_local_is_stalled(pair->local);

	if (stalled == pair->stalled)
		return;
	__atomic_store_n(&pair->stalled, stalled, __ATOMIC_RELAXED);
	__atomic_add_fetch(&same_host->stalled, stalled ? 1 : UINT32_MAX, __ATOMIC_SEQ_CST);
}

/* Most of the time its entry fires early enough already. */
static void arm(struct vb_same_host *same_host, struct vb_qp *qp, const struct vb_pair *pair)
{
	vb_time deadline = vb_local_next_deadline(pair->local);

	if (deadline < __atomic_load_n(&qp->timer_armed, __ATOMIC_RELAXED))
		vb_schedule_arm(same_host->schedule, qp, deadline);
}

/* `polled`: by the thread that polls the CQ of its receives, and comes again. What was received so far is looked at first, and
 * new receives are posted: a stream would else use them up. */
static bool serve(struct vb_same_host *same_host, struct vb_qp *qp, vb_time now, bool polled)
{
	struct vb_pair *pair = vb_pair_of(same_host, qp);
	bool more = true, done = false;

	for (unsigned i = 1; more && i <= SERVES_PER_CALL; i++) {
		more = false;
		done |= vb_local_serve(qp, pair->local, now, polled, &more);
		if (!more || !vb_local_has_work(pair->local))
			continue;
		if (polled && qp->recv_cq && !vb_cq_looks_empty(qp->recv_cq))
			more = false;
		else if (i == RECEIVING_SERVES)
			break;
	}
	note_stall(same_host, pair);
	if (qp->xrc_domain && pair->receiver != (qp->recv_cq ? qp->recv_cq->poller : NULL))
		__atomic_store_n(&pair->strays, true, __ATOMIC_RELAXED);
	if (vb_local_path(pair->local) == VB_LOCAL_DECLINED) {
		vb_pair_leave(same_host, qp, pair);
		if (qp->transport->resumed)
			qp->transport->resumed(qp);
	} else if (more) {
		vb_schedule_mark_active(same_host->schedule, qp);
	}
	return done;
}

/* False: it goes by wire from now on. */
static bool serve_and_arm(struct vb_same_host *same_host, struct vb_qp *qp, vb_time now)
{
	struct vb_pair *pair = vb_pair_of(same_host, qp);

	(void)serve(same_host, qp, now, false);
	if (!pair->carried)
		return false;
	arm(same_host, qp, pair);
	return true;
}

void vb_pairs_query(struct vb_link *link, const struct vb_qp *qp, struct vb_transport_status *status)
{
	vb_local_query(vb_pair_of(vb_same_host_of(link), qp)->local, status);
}

bool vb_pairs_gives_back(struct vb_link *link, struct vb_qp *qp, vb_time now)
{
	return !serve_and_arm(vb_same_host_of(link), qp, now);
}

void vb_pairs_transmit(struct vb_link *link, struct vb_qp *qp, vb_time now)
{
	vb_lock_assert_held(&qp->lock);
	/* Declined: what waited goes by wire. */
	if (!serve_and_arm(vb_same_host_of(link), qp, now))
		vb_link_transmit(qp, now);
}

VB_FLAT bool vb_pairs_post_fast(struct vb_link *link, struct vb_qp *qp, const struct ibv_send_wr *wr)
{
	struct vb_same_host *same_host = vb_same_host_of(link);
	struct vb_pair *pair = vb_pair_of(same_host, qp);
	bool signaled;

	vb_lock_assert_held(&qp->lock);
	switch (vb_local_fast_way(qp, wr)) {
	case VB_FAST_SEND:
		if (!vb_local_fast_send(qp, pair->local, wr, vb_clock_now()))
			return false;
		arm(same_host, qp, pair);
		return true;
	case VB_FAST_WRITE:
		signaled = qp->signal_all || (wr->send_flags & IBV_SEND_SIGNALED);
		/* Complete when it is posted: nothing to wait for. */
		return vb_local_fast_write(qp, pair->local, wr, signaled ? vb_clock_now() : 0);
	case VB_FAST_NONE:
		break;
	}
	return false;
}

bool vb_pairs_place(struct vb_link *link, struct vb_qp *qp, uint64_t address, uint32_t key, const struct iovec *spans, unsigned count)
{
	return vb_local_place(qp, vb_pair_of(vb_same_host_of(link), qp)->local, address, key, spans, count);
}

VB_FLAT int vb_pair_take(struct vb_same_host *same_host, struct vb_pair *pair, const struct vb_cq *cq, int room, struct ibv_wc *wc)
{
	struct vb_qp *qp = __atomic_load_n(&pair->qp, __ATOMIC_ACQUIRE);
	bool through = false;
	int taken = 0;

	if (!__atomic_load_n(&pair->carried, __ATOMIC_ACQUIRE) || !qp ||
	    !vb_local_fast_has_work(pair->local, qp->send_cq == cq, __atomic_load_n(&qp->recv_cq, __ATOMIC_RELAXED) == cq) ||
	    !vb_lock_try(&qp->lock))
		return 0;
	if (pair->carried && vb_cq_lets_pass(cq)) {
		taken = vb_local_fast_poll(qp, pair->local, cq, room, wc, qp->send_cq == cq ? vb_clock_now() : 0);
		if (taken > 0)
			arm(same_host, qp, pair);
		/* Done, and nothing came of it: no completion was asked for. */
		through = taken == 0 && vb_cq_looks_empty(cq) && !vb_local_fast_has_work(pair->local, qp->send_cq == cq, qp->recv_cq == cq);
	}
	vb_lock_release(&qp->lock);
	return taken > 0 || through ? taken : -1;
}

bool vb_pairs_expire(struct vb_link *link, struct vb_qp *qp, vb_time now)
{
	/* A peer that does not answer may be dead, which the engine wants to know before it goes on waiting. */
	(void)vb_host_peer_has_ended(vb_pair_of(vb_same_host_of(link), qp)->host_peer);
	vb_pairs_transmit(link, qp, now);
	return true;
}

/* One queue pair in a pass. The thread that has it locked serves it or has a reason not to, and it still has work in
 * the next pass. */
bool vb_pair_look(struct vb_same_host *same_host, struct vb_pair *pair, vb_time now, bool polled)
{
	struct vb_qp *qp = __atomic_load_n(&pair->qp, __ATOMIC_ACQUIRE);
	bool done = false;

	if (!__atomic_load_n(&pair->carried, __ATOMIC_ACQUIRE) || !qp ||
	    (!vb_local_has_work(pair->local) && !__atomic_load_n(&pair->stalled, __ATOMIC_RELAXED)) ||
	    !vb_lock_try(&qp->lock))
		return false;
	if (pair->carried) {
		done = serve(same_host, qp, now, polled);
		/* Declined: what waited goes by wire. */
		if (pair->carried)
			arm(same_host, qp, pair);
		else
			vb_link_transmit(qp, now);
	}
	vb_lock_release(&qp->lock);
	return done;
}
