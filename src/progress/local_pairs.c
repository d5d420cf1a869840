/* SPDX-License-Identifier: MIT
 *
 * Queue pairs that go through memory: from the question at RTR who has the peer, to the pass that looks at all of them.
 *
 *   ibv_modify_qp -> vb_endpoint_begin_modify   asks for the neighbour (no lock is held)
 *                 -> vb_qp_modify -> modified   attaches to the same-host engine at RTR, detaches at RESET, tells it of everything else,
 *                                               also of what queue/ does by itself (a fall into ERR)
 *   ibv_post_send, timers -> vb_endpoint_transmit -> vb_local_pair_serve
 *   polling, engine thread -> vb_endpoint_pass -> vb_local_pairs_pass
 *
 * The RoCE engine is told of every change too as long as it may still be needed: when the peer declines, the queue pair goes on by
 * wire as if nothing had been.
 *
 * A pass looks at queue pairs without their locks (vb_local_beckons): what they lead to is taken away only under `progress`, which RESET
 * and withdrawal therefore take. It looks at all of them if they are few. Where they are many others ring for them (local/bells.h), and it
 * looks at those, at what it left unfinished, and at one of all now and then: nothing must depend on others' bells but how
 * soon it is found.
 */
#include <pthread.h>

#include "io/clock.h"
#include "local/local.h"
#include "progress/endpoint_parts.h"
#include "progress/same_host.h"
#include "queue/qp.h"
#include "roce/roce.h"

enum {
	CROWD = 16,                        /* more than these are not looked at one by one in every pass */
	SERVES_PER_CALL = 8,               /* then others have their turn */
	HEARD_AT_ONCE = 64,                /* bells of each neighbour */
	INSPECT_ONE = 8,                   /* every so many passes */
	RECEIVES_TOGETHER = 16,            /* posted, are filled though others have not been looked at */
};

static struct vb_endpoint *endpoint_of(const struct vb_qp *qp)
{
	struct vb_binding *binding = qp->scheduler;

	return vb_container_of(binding - (qp->qpn & (VB_DAEMON_INDICES - 1)), struct vb_endpoint, binding[0]);
}

bool vb_local_pair_carries(const struct vb_binding *binding)
{
	return __atomic_load_n(&binding->carried, __ATOMIC_RELAXED);
}

/* ---- the lists ---- */

static void list(struct vb_same_host *same_host, struct vb_binding *binding)
{
	pthread_mutex_lock(&same_host->lock);
	if (!binding->member_link) {
		__atomic_store_n(&binding->next_member, same_host->pairs, __ATOMIC_RELAXED);
		binding->member_link = &same_host->pairs;
		if (same_host->pairs)
			same_host->pairs->member_link = &binding->next_member;
		/* Release: a pass that finds it finds its engine. */
		__atomic_store_n(&same_host->pairs, binding, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&same_host->lock);
	/* Those who left something before they could know this are found by a look at all. The newcomer itself needs none: whoever
	 * moved it to RTR serves it next. */
	if (__atomic_add_fetch(&same_host->members, 1, __ATOMIC_SEQ_CST) > CROWD &&
	    __atomic_exchange_n(&same_host->board->header.crowded, 1, __ATOMIC_SEQ_CST) == 0)
		__atomic_store_n(&same_host->look_at_all, true, __ATOMIC_SEQ_CST);
}

/* Caller holds progress. */
static void unlist(struct vb_same_host *same_host, struct vb_binding *binding)
{
	pthread_mutex_lock(&same_host->lock);
	if (binding->member_link) {
		if (binding->next_member)
			binding->next_member->member_link = binding->member_link;
		__atomic_store_n(binding->member_link, binding->next_member, __ATOMIC_RELEASE);
		binding->member_link = NULL;
	}
	if (same_host->inspected == binding)
		same_host->inspected = NULL;
	pthread_mutex_unlock(&same_host->lock);
}

/* Not through memory any more. Caller holds the queue pair's lock. */
static void leave(struct vb_same_host *same_host, struct vb_binding *binding)
{
	if (!binding->carried)
		return;
	__atomic_store_n(&binding->carried, false, __ATOMIC_RELAXED);
	if (__atomic_sub_fetch(&same_host->members, 1, __ATOMIC_SEQ_CST) <= CROWD)
		__atomic_store_n(&same_host->board->header.crowded, 0, __ATOMIC_SEQ_CST);
	if (binding->stalled)
		__atomic_sub_fetch(&same_host->stalled, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&binding->stalled, false, __ATOMIC_RELAXED);
}

/* ---- serving ---- */

static void note_stall(struct vb_same_host *same_host, struct vb_binding *binding)
{
	bool stalled = vb_local_is_stalled(binding->local);

	if (stalled == binding->stalled)
		return;
	__atomic_store_n(&binding->stalled, stalled, __ATOMIC_RELAXED);
	__atomic_add_fetch(&same_host->stalled, stalled ? 1 : UINT32_MAX, __ATOMIC_SEQ_CST);
}

/* Most of the time its entry fires early enough already. */
static void arm(struct vb_endpoint *endpoint, struct vb_qp *qp, const struct vb_binding *binding)
{
	if (vb_local_next_deadline(binding->local) < __atomic_load_n(&qp->timer_armed, __ATOMIC_RELAXED))
		vb_endpoint_arm(endpoint, qp);
}

/* `polled`: by whoever polls the CQ of its receives, and comes again. What was received so far is looked at first, and new receives
 * are posted: a stream would else use them up. */
static bool serve(struct vb_same_host *same_host, struct vb_qp *qp, vb_time now, bool polled)
{
	struct vb_binding *binding = qp->scheduler;
	bool more = true, done = false;

	for (unsigned i = 0; more && i < SERVES_PER_CALL; i++) {
		more = false;
		done |= vb_local_serve(qp, binding->local, now, &more);
		if (more && polled && !vb_cq_looks_empty(qp->recv_cq) && vb_local_beckons(binding->local))
			more = false;
	}
	note_stall(same_host, binding);
	if (vb_local_stance(binding->local) == VB_LOCAL_DECLINED)
		leave(same_host, binding);
	else if (more)
		vb_endpoint_mark_active(same_host->endpoint, qp);
	return done;
}

bool vb_local_pair_serve(struct vb_endpoint *endpoint, struct vb_qp *qp, vb_time now)
{
	struct vb_binding *binding = qp->scheduler;

	(void)serve(endpoint->same_host, qp, now, false);
	if (!binding->carried)
		return false;
	arm(endpoint, qp, binding);
	return true;
}

bool vb_endpoint_post_plain(struct vb_endpoint *endpoint, struct vb_qp *qp, const struct ibv_send_wr *wr, vb_time now)
{
	struct vb_binding *binding = qp->scheduler;

	vb_lock_assert_held(&qp->lock);
	if (!binding || !binding->carried || endpoint->abandoned)
		return false;
	if (vb_local_plain_send(qp, binding->local, wr, now)) {
		arm(endpoint, qp, binding);
		return true;
	}
	/* Complete when it is posted: nothing to wait for. */
	return vb_local_plain_write(qp, binding->local, wr, now);
}

int vb_local_pair_take(struct vb_endpoint *endpoint, struct vb_binding *binding, const struct vb_cq *cq, int room, struct ibv_wc *wc)
{
	struct vb_qp *qp = __atomic_load_n(&binding->qp, __ATOMIC_ACQUIRE);
	int taken = 0;

	if (!__atomic_load_n(&binding->carried, __ATOMIC_ACQUIRE) || !qp ||
	    !vb_local_plain_beckons(binding->local, qp->send_cq == cq, qp->recv_cq == cq) || !vb_lock_try(&qp->lock))
		return 0;
	if (binding->carried && vb_cq_lets_pass(cq)) {
		taken = vb_local_plain_poll(qp, binding->local, cq, room, wc, qp->send_cq == cq ? vb_clock_now() : 0);
		if (taken > 0)
			arm(endpoint, qp, binding);
	}
	vb_lock_release(&qp->lock);
	return taken > 0 ? taken : -1;
}

void vb_local_pair_expire(struct vb_endpoint *endpoint, struct vb_qp *qp, vb_time now)
{
	struct vb_binding *binding = qp->scheduler;

	/* Whoever does not answer may be dead, which the engine wants to know before it goes on waiting. */
	(void)vb_neighbour_has_ended(binding->neighbour);
	vb_endpoint_transmit(endpoint, qp, now);
}

/* One queue pair in a pass. Whoever has it locked serves it or has a reason not to, and it still beckons in the next pass. */
bool vb_local_pair_look(struct vb_endpoint *endpoint, struct vb_binding *binding, vb_time now, bool polled)
{
	struct vb_qp *qp = __atomic_load_n(&binding->qp, __ATOMIC_ACQUIRE);
	bool done = false;

	if (!__atomic_load_n(&binding->carried, __ATOMIC_ACQUIRE) || !qp ||
	    (!vb_local_beckons(binding->local) && !__atomic_load_n(&binding->stalled, __ATOMIC_RELAXED)) ||
	    !vb_lock_try(&qp->lock))
		return false;
	if (binding->carried) {
		done = serve(endpoint->same_host, qp, now, polled);
		/* Declined: what waited goes by wire. */
		if (binding->carried)
			arm(endpoint, qp, binding);
		else
			vb_endpoint_transmit(endpoint, qp, now);
	}
	vb_lock_release(&qp->lock);
	return done;
}

/* In a crowd: to be looked at again, rung for or not. */
static void leave_unfinished(struct vb_same_host *same_host, struct vb_binding *binding)
{
	if (binding->unfinished)
		return;
	binding->unfinished = true;
	binding->next_unfinished = same_host->unfinished;
	same_host->unfinished = binding;
}

/* As above; what was not done, because it was too much or somebody else had it, is not forgotten. */
static bool look_in_crowd(struct vb_endpoint *endpoint, struct vb_binding *binding, vb_time now)
{
	bool done = vb_local_pair_look(endpoint, binding, now, false);

	if (__atomic_load_n(&binding->carried, __ATOMIC_ACQUIRE) &&
	    (__atomic_load_n(&binding->stalled, __ATOMIC_RELAXED) || vb_local_beckons(binding->local)))
		leave_unfinished(endpoint->same_host, binding);
	return done;
}

/* Those that others have rung for. True in `missed`: there were too many bells. */
static bool look_at_rung(struct vb_endpoint *endpoint, struct vb_neighbour *neighbour, vb_time now, bool *missed)
{
	uint32_t qpn[HEARD_AT_ONCE];
	unsigned count = vb_bells_hear(neighbour->peer.board, endpoint->slot, &neighbour->bells, qpn, HEARD_AT_ONCE, missed);
	bool done = false;

	for (unsigned i = 0; i < count; i++)
		if (qpn[i] >> VB_DAEMON_INDEX_BITS == endpoint->slot)
			done |= look_in_crowd(endpoint, &endpoint->binding[qpn[i] & (VB_DAEMON_INDICES - 1)], now);
	return done;
}

static bool look_at_unfinished(struct vb_endpoint *endpoint, vb_time now)
{
	struct vb_binding *next = endpoint->same_host->unfinished;
	bool done = false;

	endpoint->same_host->unfinished = NULL;
	for (struct vb_binding *b = next; b; b = next) {
		next = b->next_unfinished;
		b->unfinished = false;
		done |= look_in_crowd(endpoint, b, now);
	}
	return done;
}

static bool inspect_next(struct vb_endpoint *endpoint, vb_time now)
{
	struct vb_same_host *same_host = endpoint->same_host;
	struct vb_binding **at = same_host->inspected ? &same_host->inspected->next_member : &same_host->pairs;

	same_host->inspected = __atomic_load_n(at, __ATOMIC_ACQUIRE);
	return same_host->inspected && look_in_crowd(endpoint, same_host->inspected, now);
}

static bool look_at_all(struct vb_endpoint *endpoint, vb_time now, bool crowded)
{
	struct vb_binding *next = __atomic_load_n(&endpoint->same_host->pairs, __ATOMIC_ACQUIRE);
	bool done = false;

	for (struct vb_binding *b = next; b; b = next) {
		next = __atomic_load_n(&b->next_member, __ATOMIC_ACQUIRE);
		done |= crowded ? look_in_crowd(endpoint, b, now) : vb_local_pair_look(endpoint, b, now, false);
	}
	return done;
}

/* Looked at first: an exchange in each pass would make the processor wait for all stores before it. */
static bool take_wish_for_all(struct vb_same_host *same_host)
{
	return __atomic_load_n(&same_host->look_at_all, __ATOMIC_RELAXED) &&
	       __atomic_exchange_n(&same_host->look_at_all, false, __ATOMIC_SEQ_CST);
}

static bool look_at_crowd(struct vb_endpoint *endpoint, vb_time now)
{
	struct vb_same_host *same_host = endpoint->same_host;
	bool missed = false, done;

	done = look_at_unfinished(endpoint, now);
	for (struct vb_neighbour *n = __atomic_load_n(&same_host->neighbours, __ATOMIC_ACQUIRE); n;
	     n = __atomic_load_n(&n->next, __ATOMIC_ACQUIRE))
		done |= look_at_rung(endpoint, n, now, &missed);
	if (take_wish_for_all(same_host) || missed)
		done |= look_at_all(endpoint, now, true);
	else if (same_host->passes % INSPECT_ONE == 0)
		done |= inspect_next(endpoint, now);
	return done;
}

bool vb_local_pairs_pass(struct vb_endpoint *endpoint, vb_time now)
{
	struct vb_same_host *same_host = endpoint->same_host;

	vb_lock_assert_held(&endpoint->progress);
	if (!__atomic_load_n(&same_host->pairs, __ATOMIC_RELAXED))
		return false;
	same_host->passes++;
	if (__atomic_load_n(&same_host->board->header.crowded, __ATOMIC_RELAXED))
		return look_at_crowd(endpoint, now);
	(void)take_wish_for_all(same_host);
	return look_at_all(endpoint, now, false);
}

bool vb_local_pairs_beckon(struct vb_endpoint *endpoint)
{
	struct vb_same_host *same_host = endpoint->same_host;

	vb_lock_assert_held(&endpoint->progress);
	if (__atomic_load_n(&same_host->look_at_all, __ATOMIC_SEQ_CST))
		return true;
	for (struct vb_binding *b = __atomic_load_n(&same_host->pairs, __ATOMIC_SEQ_CST); b;
	     b = __atomic_load_n(&b->next_member, __ATOMIC_ACQUIRE)) {
		if (!__atomic_load_n(&b->carried, __ATOMIC_ACQUIRE) || !vb_local_beckons(b->local))
			continue;
		/* In a crowd a pass might not find it without a ring. */
		leave_unfinished(same_host, b);
		return true;
	}
	return false;
}

bool vb_local_pairs_are_all(const struct vb_endpoint *endpoint)
{
	uint32_t members = __atomic_load_n(&endpoint->same_host->members, __ATOMIC_RELAXED);

	return members != 0 && members == __atomic_load_n(&endpoint->page->queue_pairs, __ATOMIC_RELAXED);
}

/* ---- receives ---- */

void vb_endpoint_received(struct vb_endpoint *endpoint, struct vb_qp *qp)
{
	struct vb_binding *binding = qp->scheduler;

	vb_lock_assert_held(&qp->lock);
	/* Whoever has completions to look at yet goes on posting receives meanwhile, and polls when it is through with them; if not, the
	 * queue pair's deadline comes soon. Were each receive filled as it is posted, it would go on like that for ever: SENDs of
	 * eight bytes in a stream 4.8 million a second instead of 6.5. */
	if (binding && !endpoint->abandoned && binding->stalled &&
	    (vb_cq_looks_empty(qp->recv_cq) || vb_receive_queue_count(&qp->receive) >= RECEIVES_TOGETHER))
		vb_endpoint_transmit(endpoint, qp, vb_endpoint_now());
}

void vb_endpoint_replenished(struct vb_endpoint *endpoint)
{
	struct vb_same_host *same_host = endpoint->same_host;

	/* The receive was put into its queue before this; whoever stalls after our look finds it there. */
	if (!same_host || endpoint->abandoned || __atomic_load_n(&same_host->stalled, __ATOMIC_SEQ_CST) == 0)
		return;
	__atomic_store_n(&same_host->look_at_all, true, __ATOMIC_SEQ_CST);
	vb_engine_kick(endpoint);
}

/* ---- states ---- */

/* Caller holds qp->lock. */
static void forget_neighbour(struct vb_same_host *same_host, struct vb_binding *binding)
{
	if (binding->neighbour)
		vb_neighbours_put(same_host, binding->neighbour);
	binding->neighbour = NULL;
	binding->meeting = VB_MEET_ELSEWHERE;
}

/* At RTR. Caller holds qp->lock. */
static void attach(struct vb_endpoint *endpoint, struct vb_qp *qp, struct vb_binding *binding, vb_time now)
{
	struct vb_same_host *same_host = endpoint->same_host;
	struct vb_local_peer *peer = binding->meeting == VB_MEET_NEIGHBOUR ? &binding->neighbour->peer : NULL;
	struct vb_local *local = NULL;

	/* Nobody on this host looks for it. */
	if (binding->meeting == VB_MEET_ELSEWHERE)
		return;
	binding->attached = true;
	if (vb_local_attach(qp, same_host->board, endpoint->slot, binding->table, peer, now, &local) != 0)
		(void)vb_local_attach(qp, same_host->board, endpoint->slot, binding->table, NULL, now, &local);
	if (!local)
		return;
	__atomic_store_n(&binding->local, local, __ATOMIC_RELEASE);
	/* Release: a pass may find it by a bell as soon as this stands. */
	__atomic_store_n(&binding->carried, true, __ATOMIC_RELEASE);
	list(same_host, binding);
	vb_local_pollers_join(qp, binding);
}

void vb_local_pair_settle(struct vb_endpoint *endpoint, const struct vb_qp *qp)
{
	struct vb_same_host *same_host = endpoint->same_host;

	if (same_host && qp->type == IBV_QPT_RC)
		vb_local_settle(same_host->board, qp->qpn, &same_host->places);
}

/* Caller holds progress and qp->lock. */
static void detach(struct vb_endpoint *endpoint, struct vb_qp *qp, struct vb_binding *binding)
{
	struct vb_same_host *same_host = endpoint->same_host;
	struct vb_local *local = binding->local;

	leave(same_host, binding);
	unlist(same_host, binding);
	if (local)
		vb_local_pollers_quit(qp, binding);
	__atomic_store_n(&binding->local, NULL, __ATOMIC_RELEASE);
	if (binding->attached)
		vb_local_detach(qp, same_host->board, local);
	binding->attached = false;
	forget_neighbour(same_host, binding);
}

void vb_local_pair_withdraw(struct vb_endpoint *endpoint, struct vb_qp *qp)
{
	vb_lock_take(&qp->lock);
	detach(endpoint, qp, qp->scheduler);
	vb_lock_release(&qp->lock);
}

static void modified(struct vb_qp *qp, enum ibv_qp_state from, int attr_mask, vb_time now)
{
	struct vb_binding *binding = qp->scheduler;
	struct vb_endpoint *endpoint = binding ? endpoint_of(qp) : NULL;

	/* Work that went through memory is none that the RoCE engine knows of. What could concern it are the ends and beginnings. */
	if (!binding || !binding->carried || qp->state == IBV_QPS_RESET || qp->state == IBV_QPS_ERR || from == IBV_QPS_INIT ||
	    from == IBV_QPS_RTR)
		vb_roce_transport.modified(qp, from, attr_mask, now);
	if (!binding || !endpoint->same_host || endpoint->abandoned || qp->type != IBV_QPT_RC)
		return;
	if (qp->state == IBV_QPS_RESET)
		detach(endpoint, qp, binding);
	else if (qp->state == IBV_QPS_RTR && from == IBV_QPS_INIT)
		attach(endpoint, qp, binding, now);
	else if (binding->local)
		vb_local_modified(qp, binding->local, now);
}

static struct vb_transport transport;
static pthread_once_t transport_once = PTHREAD_ONCE_INIT;

static void fill_transport(void)
{
	transport = vb_roce_transport;
	transport.modified = modified;
}

const struct vb_transport *vb_endpoint_transport(void)
{
	pthread_once(&transport_once, fill_transport);
	return &transport;
}

bool vb_endpoint_begin_modify(struct vb_endpoint *endpoint, struct vb_qp *qp, enum ibv_qp_state to, const struct vb_path *path,
			      uint32_t destination_qpn, int table)
{
	struct vb_same_host *same_host = endpoint->same_host;
	struct vb_binding *binding = qp->scheduler;
	struct vb_neighbour *neighbour = NULL;
	enum vb_meeting meeting;

	if (!same_host || endpoint->abandoned || !binding || qp->type != IBV_QPT_RC)
		return false;
	if (to == IBV_QPS_RESET) {
		vb_lock_take(&endpoint->progress);
		return true;
	}
	if (to != IBV_QPS_RTR || !path)
		return false;
	meeting = vb_neighbours_meet(same_host, path->destination, destination_qpn, &neighbour);
	if (meeting == VB_MEET_NEIGHBOUR && table < 0) {
		/* More devices are open than a board has tables. */
		vb_neighbours_put(same_host, neighbour);
		neighbour = NULL;
		meeting = VB_MEET_WIRE;
	}
	vb_lock_take(&qp->lock);
	/* A modification that is going to be refused must not take away what an attached queue pair stands on. */
	if (qp->state == IBV_QPS_INIT) {
		forget_neighbour(same_host, binding);
		binding->neighbour = neighbour;
		binding->meeting = meeting;
		binding->table = table < 0 ? 0 : (uint32_t)table;
		neighbour = NULL;
	}
	vb_lock_release(&qp->lock);
	if (neighbour)
		vb_neighbours_put(same_host, neighbour);
	return false;
}

void vb_endpoint_end_modify(struct vb_endpoint *endpoint, bool begun)
{
	if (begun)
		vb_lock_release(&endpoint->progress);
}

bool vb_endpoint_goes_through_memory(const struct vb_qp *qp)
{
	const struct vb_binding *binding = qp->scheduler;

	return binding && vb_local_pair_carries(binding);
}
