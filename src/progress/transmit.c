/* SPDX-License-Identifier: MIT
 *
 * Sending: let the engine fill a burst, hand each of its runs to the socket its path names, until the engine has
 * nothing more or has had its share; then see to its timer. Runs in whichever thread made the engine ready: posting,
 * polling or the engine thread.
 *
 * A thread that posts sends at once, from a burst of its own, while it holds the queue pair's lock. A pass goes from one queue pair
 * to the next and lets all put their packets into one burst, the outbox: requests and acknowledgements of many queue pairs leave in
 * one system call, where each by itself would cost more than all else that is done for it. By the time the outbox is sent the locks
 * are released. What holds together then:
 *   - payload is copied into a burst, so a queue pair may go meanwhile, and its memory;
 *   - packets of a queue pair leave in the order in which they were made: as long as some are in the outbox (leaves_with), nobody
 *     sends for it by another way, and what is posted waits for the next pass;
 *   - who has progress and puts something in empties the outbox before releasing it, so that with progress in hand it is empty.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "io/clock.h"
#include "io/udp.h"
#include "progress/endpoint_parts.h"
#include "progress/same_host.h"
#include "progress/tap.h"
#include "queue/qp.h"
#include "roce/roce.h"
#include "wire/burst.h"

enum {
	/* A post or a received packet keeps its thread no longer than this many bursts; the rest waits for the next pass. */
	BURSTS_PER_CALL = 64,
	ACTIVE_PER_PASS = 256,
	ACTIVE_BURSTS_PER_PASS = 16,
	POSTS_AT_ONCE = 4,
	POSTS_TOGETHER = 62,
	SMALL_REQUEST = 2048,
};

/* Bursts are large (200 KB) and hot in the cache: a few are kept at hand. */
static struct vb_burst *take_burst(struct vb_endpoint *endpoint)
{
	for (unsigned i = 0; i < VB_SPARE_BURSTS; i++) {
		struct vb_burst *burst = __atomic_exchange_n(&endpoint->spare_burst[i], NULL, __ATOMIC_ACQ_REL);

		if (burst)
			return burst;
	}
	return malloc(sizeof(struct vb_burst));
}

static void give_burst_back(struct vb_endpoint *endpoint, struct vb_burst *burst)
{
	for (unsigned i = 0; i < VB_SPARE_BURSTS; i++) {
		struct vb_burst *none = NULL;

		if (__atomic_compare_exchange_n(&endpoint->spare_burst[i], &none, burst, false, __ATOMIC_ACQ_REL,
						__ATOMIC_RELAXED))
			return;
	}
	free(burst);
}

void vb_endpoint_free_bursts(struct vb_endpoint *endpoint)
{
	for (unsigned i = 0; i < VB_SPARE_BURSTS; i++)
		free(endpoint->spare_burst[i]);
	free(endpoint->outbox.burst);
}

static const struct vb_source_port *port_of(const struct vb_endpoint *endpoint, const struct vb_burst_run *run)
{
	return vb_source_ports_find(&endpoint->ports, !vb_path_is_ipv4(&run->path), run->path.source_port);
}

/* Packets the kernel does not take are lost, as on any wire; the protocol deals with that. `qp`: whose they are, for the tap. */
static void send_burst(struct vb_endpoint *endpoint, const struct vb_qp *qp, struct vb_burst *burst,
		       struct vb_counters *counters)
{
	uint32_t packets = burst->packets, lost_in_all = 0; /* before any are lost on purpose: that is the network's doing */
	bool sent = endpoint->tap && vb_tap_sending(endpoint->tap, qp, burst, &lost_in_all);

	for (uint32_t i = 0, next; !sent && i < burst->runs; i = next) {
		const struct vb_source_port *port = port_of(endpoint, &burst->run[i]);

		for (next = i + 1; next < burst->runs && port_of(endpoint, &burst->run[next]) == port;)
			next++;
		if (port)
			lost_in_all += vb_udp_send_runs(port->fd, &port->own, burst, i, next - i);
		for (uint32_t r = i; !port && r < next; r++)
			lost_in_all += burst->run[r].packets;
	}
	if (lost_in_all > 0)
		VB_COUNT_MANY(counters, send_err, lost_in_all);
	VB_COUNT_MANY(counters, sent_pkts, packets - lost_in_all);
}

/* How many there are with it, or 0: it was there already. */
static uint32_t enlist(struct vb_endpoint *endpoint, struct vb_qp *qp)
{
	uint32_t count = 0;

	pthread_mutex_lock(&endpoint->schedule_lock);
	if (vb_list_is_empty(&qp->active)) {
		vb_list_append(&endpoint->active, &qp->active);
		count = __atomic_add_fetch(&endpoint->active_count, 1, __ATOMIC_SEQ_CST);
	}
	pthread_mutex_unlock(&endpoint->schedule_lock);
	return count;
}

void vb_endpoint_mark_active(struct vb_endpoint *endpoint, struct vb_qp *qp)
{
	if (enlist(endpoint, qp) == 1)
		vb_engine_kick(endpoint);
}

/* Until the next pass, which a thread that polls will make in a moment, and the engine thread when its nap is over (a
 * millisecond at the most) if that thread has stopped. If the engine thread does not nap it is told once, and makes the pass or naps
 * from then on. Where nobody has polled for a while there is nobody to wait for. */
bool vb_endpoint_defer(struct vb_endpoint *endpoint, struct vb_qp *qp)
{
	if (!__atomic_load_n(&endpoint->napping, __ATOMIC_RELAXED) && !vb_engine_is_polled_for(endpoint))
		return false;
	/* Still napping: then it will see the count before it sleeps. Both are sequentially consistent on both sides. */
	if (enlist(endpoint, qp) > 0 && !__atomic_load_n(&endpoint->napping, __ATOMIC_SEQ_CST))
		vb_engine_kick(endpoint);
	return true;
}

struct vb_qp *vb_endpoint_next_active(struct vb_endpoint *endpoint)
{
	struct vb_qp *qp = NULL;

	if (__atomic_load_n(&endpoint->active_count, __ATOMIC_SEQ_CST) == 0)
		return NULL;
	pthread_mutex_lock(&endpoint->schedule_lock);
	if (!vb_list_is_empty(&endpoint->active)) {
		qp = vb_container_of(endpoint->active.next, struct vb_qp, active);
		vb_list_remove(&qp->active);
		__atomic_sub_fetch(&endpoint->active_count, 1, __ATOMIC_SEQ_CST);
	}
	pthread_mutex_unlock(&endpoint->schedule_lock);
	return qp;
}

void vb_endpoint_forget_active(struct vb_endpoint *endpoint, struct vb_qp *qp)
{
	pthread_mutex_lock(&endpoint->schedule_lock);
	if (!vb_list_is_empty(&qp->active)) {
		vb_list_remove(&qp->active);
		__atomic_sub_fetch(&endpoint->active_count, 1, __ATOMIC_SEQ_CST);
	}
	pthread_mutex_unlock(&endpoint->schedule_lock);
}

void vb_endpoint_arm(struct vb_endpoint *endpoint, struct vb_qp *qp)
{
	struct vb_binding *binding = qp->scheduler;
	vb_time deadline = vb_local_pair_carries(binding) ? vb_local_next_deadline(binding->local) : vb_roce_next_deadline(qp);

	if (deadline != VB_TIME_NEVER && vb_timers_arm(&endpoint->timers, qp, deadline))
		vb_engine_kick(endpoint);
}

/* ---- the outbox ---- */

static bool is_in_outbox(struct vb_endpoint *endpoint, const struct vb_binding *binding)
{
	/* Pairs with the release in empty_outbox: whoever sees them gone sends behind them. */
	return binding->leaves_with > __atomic_load_n(&endpoint->outbox.sent, __ATOMIC_ACQUIRE);
}

static void empty_outbox(struct vb_endpoint *endpoint, const struct vb_qp *qp)
{
	struct vb_outbox *outbox = &endpoint->outbox;

	if (!outbox->burst || vb_burst_is_empty(outbox->burst))
		return;
	send_burst(endpoint, qp, outbox->burst, outbox->counters);
	vb_burst_reset(outbox->burst);
	__atomic_store_n(&outbox->sent, outbox->sent + 1, __ATOMIC_RELEASE);
}

void vb_endpoint_flush(struct vb_endpoint *endpoint)
{
	vb_lock_assert_held(&endpoint->progress);
	empty_outbox(endpoint, NULL);
}

static bool open_outbox(struct vb_endpoint *endpoint, struct vb_counters *counters)
{
	struct vb_outbox *outbox = &endpoint->outbox;

	if (!outbox->burst) {
		outbox->burst = malloc(sizeof(*outbox->burst));
		if (!outbox->burst)
			return false;
		vb_burst_reset(outbox->burst);
	}
	if (outbox->counters != counters)
		empty_outbox(endpoint, NULL);
	outbox->counters = counters;
	return true;
}

/* Of answers to reads not more than a burst at a time: the pass sees what else is asked for before it goes on. Nor of requests, where
 * packets get lost: it sees the NAK before more is sent. */
static bool should_look_again(const struct vb_endpoint *endpoint, const struct vb_qp *qp, vb_time now, unsigned bursts)
{
	return bursts > 0 && !vb_tap_captures(endpoint->tap) && (vb_roce_answers_reads(qp) || vb_roce_is_losing(qp, now));
}

/* True: there is more. */
static bool put_into_outbox(struct vb_endpoint *endpoint, struct vb_qp *qp, vb_time now)
{
	struct vb_binding *binding = qp->scheduler;
	struct vb_burst *burst;
	bool more = true;

	if (!open_outbox(endpoint, binding->counters))
		return true;
	burst = endpoint->outbox.burst;
	for (unsigned i = 0; more && i < BURSTS_PER_CALL && !should_look_again(endpoint, qp, now, i); i++) {
		uint32_t before = burst->packets;

		more = vb_roce_send(qp, now, burst);
		if (burst->packets != before)
			binding->leaves_with = endpoint->outbox.sent + 1;
		/* More: there was no room, or it must be in the kernel's hands before the engine goes on (UC, UD). A tap
		 * wants to know whose packets they are. */
		if (more || endpoint->tap || burst->arena_used >= VB_BURST_ENOUGH)
			empty_outbox(endpoint, qp);
	}
	return more;
}

/* ---- queue pairs ---- */

/* By a burst of our own. True: there is more. */
static bool send_at_once(struct vb_endpoint *endpoint, struct vb_qp *qp, vb_time now)
{
	struct vb_binding *binding = qp->scheduler;
	struct vb_burst *burst = take_burst(endpoint);
	bool more = true;

	/* No memory now: try again from the engine thread. */
	if (!burst)
		return true;
	for (unsigned i = 0; more && i < BURSTS_PER_CALL; i++) {
		vb_burst_reset(burst);
		more = vb_roce_send(qp, now, burst);
		if (!vb_burst_is_empty(burst))
			send_burst(endpoint, qp, burst, binding->counters);
	}
	give_burst_back(endpoint, burst);
	return more;
}

static bool goes_by_wire(struct vb_endpoint *endpoint, struct vb_qp *qp, vb_time now)
{
	struct vb_binding *binding = qp->scheduler;

	vb_lock_assert_held(&qp->lock);
	return !endpoint->abandoned && binding && !(vb_local_pair_carries(binding) && vb_local_pair_serve(endpoint, qp, now));
}

void vb_endpoint_transmit(struct vb_endpoint *endpoint, struct vb_qp *qp, vb_time now)
{
	if (!goes_by_wire(endpoint, qp, now))
		return;
	if (is_in_outbox(endpoint, qp->scheduler) ? !vb_endpoint_defer(endpoint, qp) : send_at_once(endpoint, qp, now))
		vb_endpoint_mark_active(endpoint, qp);
	vb_endpoint_arm(endpoint, qp);
}

void vb_endpoint_transmit_in_pass(struct vb_endpoint *endpoint, struct vb_qp *qp, vb_time now)
{
	vb_lock_assert_held(&endpoint->progress);
	if (!goes_by_wire(endpoint, qp, now))
		return;
	if (put_into_outbox(endpoint, qp, now)) {
		enlist(endpoint, qp);
		endpoint->unfinished = true;
	}
	vb_endpoint_arm(endpoint, qp);
}

static bool is_enlisted(struct vb_endpoint *endpoint, const struct vb_qp *qp)
{
	bool enlisted;

	pthread_mutex_lock(&endpoint->schedule_lock);
	enlisted = !vb_list_is_empty(&qp->active);
	pthread_mutex_unlock(&endpoint->schedule_lock);
	return enlisted;
}

void vb_endpoint_send_enlisted(struct vb_endpoint *endpoint, struct vb_qp *qp)
{
	vb_lock_assert_held(&endpoint->progress);
	if (qp->scheduler && is_enlisted(endpoint, qp))
		vb_endpoint_transmit(endpoint, qp, vb_clock_now());
}

void vb_endpoint_send_deferred(struct vb_endpoint *endpoint, struct vb_qp *qp)
{
	bool waits;

	if (endpoint->abandoned)
		return;
	vb_lock_take(&qp->lock);
	waits = qp->scheduler && (is_enlisted(endpoint, qp) || is_in_outbox(endpoint, qp->scheduler));
	vb_lock_release(&qp->lock);
	if (!waits)
		return;
	/* With progress in hand the outbox is empty. */
	vb_lock_take(&endpoint->progress);
	vb_lock_take(&qp->lock);
	vb_endpoint_send_enlisted(endpoint, qp);
	vb_lock_release(&qp->lock);
	vb_lock_release(&endpoint->progress);
}

/* One that is not done is put behind them, for the next time. `only_try`: we hold the lock of one already. */
static bool send_active(struct vb_endpoint *endpoint, vb_time now, bool only_try)
{
	uint32_t count = __atomic_load_n(&endpoint->active_count, __ATOMIC_RELAXED);
	uint64_t until = endpoint->outbox.sent + ACTIVE_BURSTS_PER_PASS;
	struct vb_qp *qp;
	bool done = false;

	if (count > ACTIVE_PER_PASS)
		count = ACTIVE_PER_PASS;
	for (; count > 0 && endpoint->outbox.sent < until && (qp = vb_endpoint_next_active(endpoint)) != NULL; count--) {
		if (!only_try) {
			vb_lock_take(&qp->lock);
		} else if (!vb_lock_try(&qp->lock)) {
			vb_endpoint_mark_active(endpoint, qp);
			continue;
		}
		vb_endpoint_transmit_in_pass(endpoint, qp, now);
		vb_lock_release(&qp->lock);
		done = true;
	}
	vb_endpoint_flush(endpoint);
	return done;
}

bool vb_endpoint_send_active(struct vb_endpoint *endpoint, vb_time now)
{
	return send_active(endpoint, now, false);
}

/* ---- posting ---- */

/* How many requests this thread has posted since it last looked for completions in vain; one that never does, since which pass. */
static __thread struct {
	unsigned pass, count;
	bool polls;
} posts;

void vb_endpoint_polled_in_vain(void)
{
	posts.count = 0;
	posts.polls = true;
}

/* The first requests leave at once, as does what is large; those between wait for one another until they are a full
 * run, of whatever queue pairs. A thousand requests of 1 KiB, posted one by one, so cost sixteen system calls instead of a
 * thousand. */
static bool may_wait_for_more(struct vb_endpoint *endpoint, struct vb_qp *qp)
{
	unsigned pass = __atomic_load_n(&endpoint->pass, __ATOMIC_RELAXED);

	if (!posts.polls && posts.pass != pass)
		posts.count = 0;
	posts.pass = pass;
	posts.count++;
	if (endpoint->tap || qp->send.head == qp->send.tail ||
	    vb_send_queue_at(&qp->send, qp->send.head - 1)->length > SMALL_REQUEST)
		return false;
	/* Somebody delivers, perhaps to us, and will send when he is through. */
	if (__atomic_load_n(&endpoint->delivering, __ATOMIC_RELAXED)) {
		if (!__atomic_load_n(&endpoint->posted_meanwhile, __ATOMIC_RELAXED))
			__atomic_store_n(&endpoint->posted_meanwhile, true, __ATOMIC_RELAXED);
		return true;
	}
	return posts.count > POSTS_AT_ONCE;
}

/* Those that wait leave, as in a pass. The caller holds qp->lock already, so progress and the other queue pairs' locks are only
 * tried. False: somebody makes a pass. */
static bool send_together(struct vb_endpoint *endpoint, struct vb_qp *qp, vb_time now)
{
	if (!vb_lock_try(&endpoint->progress))
		return false;
	vb_endpoint_forget_active(endpoint, qp);
	vb_endpoint_transmit_in_pass(endpoint, qp, now);
	send_active(endpoint, now, true);
	if (endpoint->unfinished)
		vb_engine_kick(endpoint);
	endpoint->unfinished = false;
	vb_lock_release(&endpoint->progress);
	return true;
}

void vb_endpoint_posted(struct vb_endpoint *endpoint, struct vb_qp *qp, vb_time now)
{
	struct vb_binding *binding = qp->scheduler;

	if (endpoint->abandoned || !binding || vb_local_pair_carries(binding)) {
		vb_endpoint_transmit(endpoint, qp, now);
		return;
	}
	vb_engine_note_post(endpoint, now);
	if (may_wait_for_more(endpoint, qp)) {
		if (posts.count % POSTS_TOGETHER == 0 && send_together(endpoint, qp, now))
			return;
		if (posts.count % POSTS_TOGETHER != 0 && vb_endpoint_defer(endpoint, qp))
			return;
	}
	vb_endpoint_transmit(endpoint, qp, now);
}

uint16_t vb_endpoint_source_port(struct vb_endpoint *endpoint, const struct vb_path *path, uint32_t destination_qpn)
{
	/* Answers will come that way. */
	__atomic_store_n(&endpoint->in_use[!vb_path_is_ipv4(path)], true, __ATOMIC_RELAXED);
	return vb_source_ports_choose(&endpoint->ports, path, destination_qpn >> VB_DAEMON_INDEX_BITS);
}
