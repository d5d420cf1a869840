/* SPDX-License-Identifier: MIT
 *
 * Queue pairs that go through memory: from the question at RTR who has the peer, to the pass that looks at all of them.
 *
 *   ibv_modify_qp -> vb_endpoint_begin_modify -> resolve   asks for the host peer (no lock is held)
 *                 -> vb_qp_modify -> modified              attaches to the same-host engine at RTR, detaches at RESET, tells it of
 *                                                          everything else, also of what queue/ does by itself (a fall into ERR)
 *   ibv_post_send, timers -> vb_link_transmit -> transmit
 *   polling, engine thread -> vb_endpoint_pass -> drain
 *
 * The wire's engine is told of every change too as long as it may still be needed: when the peer declines, the queue
 * pair goes on by wire as if nothing had been.
 *
 * A pass looks at queue pairs without their locks (vb_local_has_work): what they lead to is taken away only under
 * `progress`, which RESET and withdrawal therefore take. It looks at all of them if they are few. Where they are many
 * others ring for them (local/doorbells.h), and it looks at those, at what it left unfinished, and at one of all now
 * and then: nothing must depend on others' doorbells but how soon it is found.
 */

#include "io/clock.h"
#include "links/memory/datagrams.h"
#include "links/memory/memory_link.h"
#include "local/bypass.h"
#include "local/local.h"
#include "queue/qp.h"

enum {
	HEARD_AT_ONCE = 64,                /* doorbells of each host peer */
	INSPECT_ONE = 8,                   /* every so many passes */
	RECEIVES_TOGETHER = 16,            /* posted, are filled though others have not been looked at */
};

/* ---- the lists ---- */

static void list(struct vb_same_host *same_host, struct vb_pair *pair)
{
	vb_mutex_lock(&same_host->lock);
	if (!pair->member_link) {
		__atomic_store_n(&pair->next_member, same_host->pairs, __ATOMIC_RELAXED);
		pair->member_link = &same_host->pairs;
		if (same_host->pairs)
			same_host->pairs->member_link = &pair->next_member;
		/* Release: a pass that finds it finds its engine. */
		__atomic_store_n(&same_host->pairs, pair, __ATOMIC_RELEASE);
	}
	vb_mutex_unlock(&same_host->lock);
	/* Those who left something before they could know this are found by a look at all. The newcomer itself needs
	 * none: the thread that moved it to RTR serves it next. */
	if (__atomic_load_n(&same_host->link.members, __ATOMIC_SEQ_CST) > VB_CROWD &&
	    __atomic_exchange_n(&same_host->segment->header.crowded, 1, __ATOMIC_SEQ_CST) == 0)
		__atomic_store_n(&same_host->look_at_all, true, __ATOMIC_SEQ_CST);
}

/* Caller holds progress. */
static void unlist(struct vb_same_host *same_host, struct vb_pair *pair)
{
	vb_mutex_lock(&same_host->lock);
	if (pair->member_link) {
		if (pair->next_member)
			pair->next_member->member_link = pair->member_link;
		__atomic_store_n(pair->member_link, pair->next_member, __ATOMIC_RELEASE);
		pair->member_link = NULL;
	}
	if (same_host->inspected == pair)
		same_host->inspected = NULL;
	vb_mutex_unlock(&same_host->lock);
}

/* ---- looking at all of them ---- */

/* In a crowd: to be looked at again, rung for or not. */
static void leave_unfinished(struct vb_same_host *same_host, struct vb_pair *pair)
{
	if (pair->unfinished)
		return;
	pair->unfinished = true;
	pair->next_unfinished = same_host->unfinished;
	same_host->unfinished = pair;
}

/* XRC: who polls the CQ of its receives looks at it from now on. Only a pass comes without the lock of a poller. */
static void settle(struct vb_pair *pair)
{
	struct vb_qp *qp = __atomic_load_n(&pair->qp, __ATOMIC_ACQUIRE);

	if (!__atomic_load_n(&pair->strays, __ATOMIC_RELAXED) || !qp || !vb_lock_try(&qp->lock))
		return;
	vb_pollers_follow(qp, pair);
	vb_lock_release(&qp->lock);
}

static bool look(struct vb_same_host *same_host, struct vb_pair *pair, vb_time now)
{
	bool done = vb_pair_look(same_host, pair, now, false);

	settle(pair);
	return done;
}

/* As above; what was not done, because it was too much or another thread had it, is not forgotten. */
static bool look_in_crowd(struct vb_same_host *same_host, struct vb_pair *pair, vb_time now)
{
	bool done = look(same_host, pair, now);

	if (__atomic_load_n(&pair->carried, __ATOMIC_ACQUIRE) &&
	    (__atomic_load_n(&pair->stalled, __ATOMIC_RELAXED) || vb_local_has_work(pair->local)))
		leave_unfinished(same_host, pair);
	return done;
}

/* Those that others have rung for. True in `missed`: there were too many doorbells. */
static bool look_at_rung(struct vb_same_host *same_host, struct vb_host_peer *host_peer, vb_time now, bool *missed)
{
	uint32_t qpn[HEARD_AT_ONCE];
	unsigned count = vb_doorbells_hear(host_peer->peer.segment, same_host->schedule->slot, &host_peer->doorbells, qpn,
					   HEARD_AT_ONCE, missed);
	bool done = false;

	for (unsigned i = 0; i < count; i++)
		if (qpn[i] >> VB_DAEMON_INDEX_BITS == same_host->schedule->slot)
			done |= look_in_crowd(same_host, &same_host->pair[vb_schedule_index(qpn[i])], now);
	return done;
}

static bool look_at_unfinished(struct vb_same_host *same_host, vb_time now)
{
	struct vb_pair *next = same_host->unfinished;
	bool done = false;

	same_host->unfinished = NULL;
	for (struct vb_pair *b = next; b; b = next) {
		next = b->next_unfinished;
		b->unfinished = false;
		done |= look_in_crowd(same_host, b, now);
	}
	return done;
}

static bool inspect_next(struct vb_same_host *same_host, vb_time now)
{
	struct vb_pair **at = same_host->inspected ? &same_host->inspected->next_member : &same_host->pairs;

	same_host->inspected = __atomic_load_n(at, __ATOMIC_ACQUIRE);
	return same_host->inspected && look_in_crowd(same_host, same_host->inspected, now);
}

static bool look_at_all(struct vb_same_host *same_host, vb_time now, bool crowded)
{
	struct vb_pair *next = __atomic_load_n(&same_host->pairs, __ATOMIC_ACQUIRE);
	bool done = false;

	for (struct vb_pair *b = next; b; b = next) {
		next = __atomic_load_n(&b->next_member, __ATOMIC_ACQUIRE);
		done |= crowded ? look_in_crowd(same_host, b, now) : look(same_host, b, now);
	}
	return done;
}

/* Looked at first: an exchange in each pass would make the processor wait for all stores before it. */
static bool take_wish_for_all(struct vb_same_host *same_host)
{
	return __atomic_load_n(&same_host->look_at_all, __ATOMIC_RELAXED) &&
	       __atomic_exchange_n(&same_host->look_at_all, false, __ATOMIC_SEQ_CST);
}

static bool look_at_crowd(struct vb_same_host *same_host, vb_time now)
{
	bool missed = false, done;

	done = look_at_unfinished(same_host, now);
	for (struct vb_host_peer *n = __atomic_load_n(&same_host->host_peers, __ATOMIC_ACQUIRE); n;
	     n = __atomic_load_n(&n->next, __ATOMIC_ACQUIRE))
		done |= look_at_rung(same_host, n, now, &missed);
	if (take_wish_for_all(same_host) || missed)
		done |= look_at_all(same_host, now, true);
	else if (same_host->passes % INSPECT_ONE == 0)
		done |= inspect_next(same_host, now);
	return done;
}

bool vb_pairs_drain(struct vb_link *link, vb_time now, bool all)
{
	struct vb_same_host *same_host = vb_same_host_of(link);
	bool done;

	(void)all;
	vb_lock_assert_held(&link->schedule->progress);
	if (!__atomic_load_n(&same_host->pairs, __ATOMIC_RELAXED))
		return false;
	same_host->passes++;
	if (__atomic_load_n(&same_host->segment->header.crowded, __ATOMIC_RELAXED)) {
		done = look_at_crowd(same_host, now);
	} else {
		(void)take_wish_for_all(same_host);
		done = look_at_all(same_host, now, false);
	}
	same_host->fruitful += done;
	return done;
}

bool vb_pairs_any_has_work(struct vb_same_host *same_host)
{
	vb_lock_assert_held(&same_host->schedule->progress);
	if (__atomic_load_n(&same_host->look_at_all, __ATOMIC_SEQ_CST) || vb_datagrams_have_work(same_host->datagrams))
		return true;
	for (struct vb_pair *b = __atomic_load_n(&same_host->pairs, __ATOMIC_SEQ_CST); b;
	     b = __atomic_load_n(&b->next_member, __ATOMIC_ACQUIRE)) {
		if (!__atomic_load_n(&b->carried, __ATOMIC_ACQUIRE) || !vb_local_has_work(b->local))
			continue;
		/* In a crowd a pass might not find it without a ring. */
		leave_unfinished(same_host, b);
		return true;
	}
	return false;
}

bool vb_pairs_have_work(struct vb_link *link)
{
	bool has_work;

	if (__atomic_load_n(&link->members, __ATOMIC_RELAXED) == 0 && !vb_datagrams_attend(vb_same_host_of(link)->datagrams))
		return false;
	vb_lock_take(&link->schedule->progress);
	has_work = vb_pairs_any_has_work(vb_same_host_of(link));
	vb_lock_release(&link->schedule->progress);
	return has_work;
}

/* ---- receives ---- */

void vb_pairs_received(struct vb_link *link, struct vb_qp *qp)
{
	vb_lock_assert_held(&qp->lock);
	/* A program that has completions to look at yet goes on posting receives meanwhile, and polls when it is
	 * through with them; if not, the queue pair's deadline comes soon. Were each receive filled as it is posted, it
	 * would go on like that for ever: SENDs of eight bytes in a stream 4.8 million a second instead of 6.5. */
	if (vb_pair_of(vb_same_host_of(link), qp)->stalled &&
	    (vb_cq_looks_empty(qp->recv_cq) || vb_receive_queue_count(&qp->receive) >= RECEIVES_TOGETHER))
		vb_pairs_transmit(link, qp, vb_clock_now());
}

void vb_pairs_replenished(struct vb_link *link)
{
	struct vb_same_host *same_host = vb_same_host_of(link);

	/* The receive was put into its queue before this; a queue pair that stalls after our look finds it there. */
	if (__atomic_load_n(&same_host->stalled, __ATOMIC_SEQ_CST) == 0)
		return;
	__atomic_store_n(&same_host->look_at_all, true, __ATOMIC_SEQ_CST);
	vb_schedule_kick(link->schedule);
}

/* ---- states ---- */

/* Caller holds qp->lock. */
static void forget_host_peer(struct vb_same_host *same_host, struct vb_pair *pair)
{
	if (pair->host_peer)
		vb_host_peers_put(same_host, pair->host_peer);
	pair->host_peer = NULL;
	pair->resolution = VB_RESOLVED_ELSEWHERE;
}

/* At RTR. Caller holds qp->lock. */
static void attach(struct vb_same_host *same_host, struct vb_qp *qp, struct vb_pair *pair, vb_time now)
{
	struct vb_local_peer *peer = pair->resolution == VB_RESOLVED_HOST_PEER ? &pair->host_peer->peer : NULL;
	struct vb_local *local = NULL;

	/* No process on this host looks for it. */
	if (pair->resolution == VB_RESOLVED_ELSEWHERE)
		return;
	pair->attached = true;
	/* Where there is GPU memory the peer cannot copy for itself. */
	if (peer && !vb_memory_admit_peer(qp->host->memory))
		peer = NULL;
	if (vb_local_attach(qp, same_host->segment, same_host->schedule->slot, pair->table, peer, now, &local) != 0)
		(void)vb_local_attach(qp, same_host->segment, same_host->schedule->slot, pair->table, NULL, now, &local);
	if (!local) {
		if (peer)
			vb_memory_dismiss_peer(qp->host->memory);
		return;
	}
	__atomic_store_n(&pair->qp, qp, __ATOMIC_RELAXED);
	__atomic_store_n(&pair->local, local, __ATOMIC_RELEASE);
	/* Release: a pass may find it by a doorbell as soon as this stands. */
	__atomic_store_n(&pair->carried, true, __ATOMIC_RELEASE);
	vb_link_carry(qp, &same_host->link);
	list(same_host, pair);
	vb_pollers_join(qp, pair);
}

void vb_pairs_publish(struct vb_link *link, const struct vb_qp *qp)
{
	struct vb_same_host *same_host = vb_same_host_of(link);

	if (!vb_qp_has_peer(qp))
		return;
	vb_mutex_lock(&same_host->lock);
	vb_local_assign_index(same_host->segment, qp->qpn, &same_host->qp_indices);
	vb_mutex_unlock(&same_host->lock);
}

/* Caller holds progress and qp->lock. */
static void detach(struct vb_same_host *same_host, struct vb_qp *qp, struct vb_pair *pair)
{
	struct vb_local *local = pair->local;

	vb_meetings_part(same_host, qp, pair);
	vb_pair_leave(same_host, qp, pair);
	unlist(same_host, pair);
	if (local)
		vb_pollers_quit(qp, pair);
	__atomic_store_n(&pair->local, NULL, __ATOMIC_RELEASE);
	__atomic_store_n(&pair->qp, NULL, __ATOMIC_RELAXED);
	if (local)
		vb_memory_dismiss_peer(qp->host->memory);
	if (pair->attached)
		vb_local_detach(qp, same_host->segment, local);
	pair->attached = false;
	forget_host_peer(same_host, pair);
}

void vb_pairs_withdraw(struct vb_link *link, struct vb_qp *qp)
{
	struct vb_same_host *same_host = vb_same_host_of(link);

	vb_lock_take(&qp->lock);
	detach(same_host, qp, vb_pair_of(same_host, qp));
	vb_lock_release(&qp->lock);
	if (!vb_qp_has_peer(qp))
		return;
	vb_mutex_lock(&same_host->lock);
	vb_local_release_index(same_host->segment, qp->qpn, &same_host->qp_indices);
	vb_mutex_unlock(&same_host->lock);
}

void vb_pairs_modified(struct vb_link *link, struct vb_qp *qp, enum ibv_qp_state from, int attr_mask, vb_time now)
{
	struct vb_same_host *same_host = vb_same_host_of(link);
	struct vb_pair *pair = vb_pair_of(same_host, qp);

	(void)attr_mask;
	if (!vb_qp_has_peer(qp))
		return;
	if (qp->state == IBV_QPS_RESET)
		detach(same_host, qp, pair);
	else if (qp->state == IBV_QPS_RTR && from == IBV_QPS_INIT)
		attach(same_host, qp, pair, now);
	else if (pair->local)
		vb_local_modified(qp, pair->local, now);
	else if (pair->bypass)
		vb_local_bypass_modified(pair->bypass);
}

bool vb_pairs_bypasses(struct vb_link *link, const struct vb_qp *qp)
{
	struct vb_local_bypass *bypass = vb_pair_of(vb_same_host_of(link), qp)->bypass;

	return bypass && vb_local_bypass_leads(bypass);
}

void vb_pairs_srq_gone(struct vb_link *link, struct vb_qp *qp, const struct vb_srq *srq)
{
	struct vb_pair *pair = vb_pair_of(vb_same_host_of(link), qp);

	if (!pair->local || pair->qp != qp)
		return;
	vb_local_srq_gone(qp, pair->local, srq);
	vb_pollers_leave(pair, srq->cq);
}

void vb_pairs_resolve(struct vb_link *link, struct vb_qp *qp, const struct vb_path *path, uint32_t destination_qpn, int table)
{
	struct vb_same_host *same_host = vb_same_host_of(link);
	struct vb_pair *pair = vb_pair_of(same_host, qp);
	struct vb_host_peer *host_peer = NULL;
	enum vb_resolution resolution;

	if (!vb_qp_has_peer(qp))
		return;
	/* Who has a LID is not known here. */
	if (path->framing == VB_FRAMING_LOCAL || path->framing == VB_FRAMING_GLOBAL ||
	    vb_schedule_is_shaped(link->schedule, ((const struct vb_binding *)qp->scheduler)->counters))
		resolution = VB_RESOLVED_WIRE;
	else
		resolution = vb_host_peers_resolve(same_host, path->destination, destination_qpn, &host_peer);
	if (resolution == VB_RESOLVED_HOST_PEER && table < 0) {
		/* More devices are open than a segment has tables. */
		vb_host_peers_put(same_host, host_peer);
		host_peer = NULL;
		resolution = VB_RESOLVED_WIRE;
	}
	vb_lock_take(&qp->lock);
	/* A modification that is going to be refused must not take away what an attached queue pair stands on. */
	if (qp->state == IBV_QPS_INIT) {
		forget_host_peer(same_host, pair);
		pair->host_peer = host_peer;
		pair->resolution = (uint8_t)resolution;
		pair->table = table < 0 ? 0 : (uint32_t)table;
		host_peer = NULL;
	}
	vb_lock_release(&qp->lock);
	if (host_peer)
		vb_host_peers_put(same_host, host_peer);
}
