/* SPDX-License-Identifier: MIT
 *
 * Sending: let the engine fill a burst, hand each of its runs to the socket its path names, until the engine has
 * nothing more or has had its share; then see to its timer. Runs in whichever thread made the engine ready: posting,
 * polling or the engine thread.
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

/* A post or a received packet keeps its thread no longer than this many bursts; the rest waits for the next pass. */
enum { BURSTS_PER_CALL = 64 };

enum { POSTS_AT_ONCE = 4, POSTS_TOGETHER = 62, SMALL_REQUEST = 2048 };

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
}

static int socket_of(struct vb_endpoint *endpoint, const struct vb_burst_run *run)
{
	return vb_source_ports_socket(&endpoint->ports, !vb_path_is_ipv4(&run->path), run->path.source_port);
}

/* Packets the kernel does not take are lost, as on any wire; the protocol deals with that. */
static void send_burst(struct vb_endpoint *endpoint, const struct vb_qp *qp, const struct vb_burst *burst,
		       struct vb_counters *counters)
{
	uint32_t lost_in_all = 0;
	bool sent = endpoint->tap && vb_tap_sending(endpoint->tap, qp, burst, &lost_in_all);

	for (uint32_t i = 0, next; !sent && i < burst->runs; i = next) {
		int fd = socket_of(endpoint, &burst->run[i]);

		for (next = i + 1; next < burst->runs && socket_of(endpoint, &burst->run[next]) == fd;)
			next++;
		if (fd >= 0)
			lost_in_all += vb_udp_send_runs(fd, burst, i, next - i);
		for (uint32_t r = i; fd < 0 && r < next; r++)
			lost_in_all += burst->run[r].packets;
	}
	if (lost_in_all > 0)
		VB_COUNT_MANY(counters, send_err, lost_in_all);
	VB_COUNT_MANY(counters, sent_pkts, burst->packets - lost_in_all);
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

void vb_endpoint_send_deferred(struct vb_endpoint *endpoint, struct vb_qp *qp)
{
	bool deferred;

	vb_lock_assert_held(&qp->lock);
	if (endpoint->abandoned || !qp->scheduler)
		return;
	pthread_mutex_lock(&endpoint->schedule_lock);
	deferred = !vb_list_is_empty(&qp->active);
	pthread_mutex_unlock(&endpoint->schedule_lock);
	if (deferred)
		vb_endpoint_transmit(endpoint, qp, vb_clock_now());
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

/* In a pass, not more than a burst of answers at a time: the pass sees what else is asked for before it goes on. */
static bool should_look_again(const struct vb_endpoint *endpoint, const struct vb_qp *qp, bool in_pass, unsigned bursts)
{
	return in_pass && bursts > 0 && !endpoint->tap && vb_roce_answers_reads(qp);
}

static void transmit(struct vb_endpoint *endpoint, struct vb_qp *qp, vb_time now, bool in_pass)
{
	struct vb_binding *binding = qp->scheduler;
	struct vb_burst *burst;
	bool more = true;

	vb_lock_assert_held(&qp->lock);
	if (endpoint->abandoned || !binding)
		return;
	if (vb_local_pair_carries(binding) && vb_local_pair_serve(endpoint, qp, now))
		return;
	burst = take_burst(endpoint);
	if (!burst) {
		/* No memory now: try again from the engine thread. */
		vb_endpoint_mark_active(endpoint, qp);
		return;
	}
	for (unsigned i = 0; more && i < BURSTS_PER_CALL && !should_look_again(endpoint, qp, in_pass, i); i++) {
		vb_burst_reset(burst);
		more = vb_roce_send(qp, now, burst);
		if (!vb_burst_is_empty(burst))
			send_burst(endpoint, qp, burst, binding->counters);
	}
	give_burst_back(endpoint, burst);
	if (more && in_pass) {
		enlist(endpoint, qp);
		endpoint->unfinished = true;
	} else if (more) {
		vb_endpoint_mark_active(endpoint, qp);
	}
	vb_endpoint_arm(endpoint, qp);
}

void vb_endpoint_transmit(struct vb_endpoint *endpoint, struct vb_qp *qp, vb_time now)
{
	transmit(endpoint, qp, now, false);
}

void vb_endpoint_transmit_in_pass(struct vb_endpoint *endpoint, struct vb_qp *qp, vb_time now)
{
	vb_lock_assert_held(&endpoint->progress);
	transmit(endpoint, qp, now, true);
}

/* The first requests after a pass leave at once, as does what is large or has become a full run; those between wait for one
 * another. A thousand requests of 1 KiB, posted one by one, so cost sixteen system calls instead of a thousand. */
static bool may_wait_for_more(struct vb_endpoint *endpoint, struct vb_qp *qp, struct vb_binding *binding)
{
	unsigned pass = __atomic_load_n(&endpoint->pass, __ATOMIC_RELAXED);

	if (binding->posts_in_pass != pass) {
		binding->posts_in_pass = pass;
		binding->posts = 0;
	}
	binding->posts++;
	if (binding->posts <= POSTS_AT_ONCE || endpoint->tap || qp->send.head == qp->send.tail ||
	    vb_send_queue_at(&qp->send, qp->send.head - 1)->length > SMALL_REQUEST)
		return false;
	if (binding->posts % POSTS_TOGETHER == 0)
		return false;
	return vb_endpoint_defer(endpoint, qp);
}

void vb_endpoint_posted(struct vb_endpoint *endpoint, struct vb_qp *qp, vb_time now)
{
	struct vb_binding *binding = qp->scheduler;

	if (binding && !vb_local_pair_carries(binding))
		vb_engine_note_post(endpoint, now);
	if (endpoint->abandoned || !binding || vb_local_pair_carries(binding) || !may_wait_for_more(endpoint, qp, binding))
		vb_endpoint_transmit(endpoint, qp, now);
}

uint16_t vb_endpoint_source_port(struct vb_endpoint *endpoint, const uint8_t destination_gid[16],
				 uint32_t destination_qpn, uint32_t flow_label)
{
	bool ipv6 = !vb_gid_is_ipv4(destination_gid) && !vb_gid_is_ipv4_group_alias(destination_gid);

	/* Answers will come that way. */
	__atomic_store_n(&endpoint->in_use[ipv6], true, __ATOMIC_RELAXED);
	return vb_source_ports_choose(&endpoint->ports, ipv6, destination_gid,
				      destination_qpn >> VB_DAEMON_INDEX_BITS, flow_label);
}
