/* SPDX-License-Identifier: MIT
 *
 * Opening and closing the process's endpoint, its queue pair numbers, and what publishes a queue pair to packets.
 *
 * After fork the child has copies of the parent's descriptors but no engine thread, and the slot is the parent's:
 * packets must not be read twice. The child therefore closes its copies and abandons the endpoint; a child that wants
 * RDMA opens its own device, and gets a slot of its own.
 */
#include "progress/endpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mutex.h"
#include "io/clock.h"
#include "io/descriptor.h"
#include "io/event.h"
#include "io/random.h"
#include "progress/endpoint_parts.h"
#include "progress/links.h"
#include "profiles/limits.h"
#include "profiles/profile.h"
#include "queue/qp.h"
#include "wire/roce_packet.h"

#define LONGEST_FLUSH VB_MILLISECONDS(200)
#define LONGEST_STAY VB_SECONDS(5)         /* as long as a peer may have no receive */

static struct vb_mutex guard = VB_MUTEX_INITIALIZER(VB_RANK_ENDPOINT);
static struct vb_endpoint *the_endpoint VB_GUARDED_BY(guard); /* that is joined by who opens a device */
static struct vb_endpoint *endpoints VB_GUARDED_BY(guard);    /* that one, and others that have lost their slots */

static void close_if_open(int *fd)
{
	if (*fd >= 0)
		vb_descriptor_close(*fd);
	*fd = -1;
}

static void close_descriptors(struct vb_endpoint *endpoint)
{
	for (unsigned family = 0; family < VB_ENDPOINT_FAMILIES; family++) {
		close_if_open(&endpoint->receive_fd[family]);
		close_if_open(&endpoint->daemon_own_fd[family]);
	}
	vb_lanes_close_descriptors(endpoint);
	close_if_open(&endpoint->page_fd);
	close_if_open(&endpoint->claim_fd);
	close_if_open(&endpoint->schedule.event_fd);
	close_if_open(&endpoint->poller);
	__atomic_store_n(&endpoint->sockets, -1, __ATOMIC_RELAXED);
}

static void abandon(struct vb_endpoint *endpoint)
{
	endpoint->schedule.abandoned = true;
	for (struct vb_link *link = endpoint->schedule.links; link; link = link->next)
		link->driver->abandon(link);
	close_descriptors(endpoint);
	close_if_open(&endpoint->daemon.fd);
	if (endpoint->seeker_runs)
		close_if_open(&endpoint->found.fd);
}

/* Only close() and stores: other threads of the parent may have held any lock but the guard, which this very thread
 * took before the fork. */
static void abandon_in_child(void) VB_RELEASES(guard)
{
	for (struct vb_endpoint *endpoint = endpoints; endpoint; endpoint = endpoint->next)
		abandon(endpoint);
	the_endpoint = endpoints = NULL;
	vb_mutex_unlock(&guard);
}

static void hold_guard(void) VB_TAKES(guard)
{
	vb_mutex_lock(&guard);
}

static void release_guard(void) VB_RELEASES(guard)
{
	vb_mutex_unlock(&guard);
}

/* When the library is loaded: handlers run in the reverse order, and this lock is inside those of librdmacm. */
__attribute__((constructor)) static void watch_forks(void)
{
	(void)pthread_atfork(hold_guard, release_guard, abandon_in_child);
}

static void destroy(struct vb_endpoint *endpoint)
{
	vb_engine_stop(endpoint);
	vb_links_close_all(&endpoint->schedule);
	vb_daemon_link_close(endpoint);
	if (endpoint->page_fd >= 0)
		vb_page_unmap(endpoint->schedule.page, sizeof(*endpoint->schedule.page));
	else
		free(endpoint->schedule.page);
	close_descriptors(endpoint);
	vb_mutex_fini(&endpoint->lanes_lock);
	vb_mutex_fini(&endpoint->watcher_lock);
	vb_mutex_fini(&endpoint->table_lock);
	vb_schedule_fini(&endpoint->schedule);
	free(endpoint->allocation);
}

/* Caller holds progress, as do all who take a queue pair out of the table. */
static void hurry_all(struct vb_endpoint *endpoint)
{
	for (uint32_t i = 0; i < VB_DAEMON_INDICES; i++) {
		struct vb_qp *qp = __atomic_load_n(&endpoint->schedule.binding[i].qp, __ATOMIC_ACQUIRE);

		if (qp && vb_lock_try(&qp->lock)) {
			vb_carriers_hurry(endpoint, qp);
			vb_lock_release(&qp->lock);
		}
	}
}

/* Caller holds the lane's lock. */
static void send_deferred_of(struct vb_lane *lane)
{
	struct vb_qp *qp;

	/* A queue pair that has more to send than one call may comes back into the list: once round is enough. */
	for (unsigned i = __atomic_load_n(&lane->active_count, __ATOMIC_SEQ_CST); i > 0; i--) {
		qp = vb_schedule_next_active(lane);
		/* A thread that holds the lock, and will never go on now, must not keep us. */
		if (qp && vb_lock_try(&qp->lock)) {
			vb_link_transmit(qp, vb_clock_now());
			vb_lock_release(&qp->lock);
		}
	}
}

/* What was put off until the next pass, or for longer. Caller holds progress. */
static void send_all_deferred(struct vb_endpoint *endpoint) VB_UNCHECKED
{
	struct vb_schedule *schedule = &endpoint->schedule;

	hurry_all(endpoint);
	send_deferred_of(&schedule->lane[0]);
	for (uint32_t i = 1, lanes = __atomic_load_n(&schedule->lanes, __ATOMIC_ACQUIRE); i < lanes; i++) {
		if (!vb_lock_try(schedule->lane[i].lock))
			continue;
		send_deferred_of(&schedule->lane[i]);
		vb_lock_release(schedule->lane[i].lock);
	}
}

/* Of the thread that holds progress nothing is known but that it does. */
static bool lingers(struct vb_endpoint *endpoint)
{
	bool found = false;

	if (!vb_lock_try(&endpoint->schedule.progress))
		return true;
	for (struct vb_link *link = endpoint->schedule.links; link && !found; link = link->next)
		found = link->driver->lingers && link->driver->lingers(link, vb_clock_now());
	vb_lock_release(&endpoint->schedule.progress);
	return found;
}

/* For what would be lost with the process. The engine thread goes on meanwhile. */
static void linger(struct vb_endpoint *endpoint)
{
	vb_time until = vb_clock_now() + LONGEST_STAY;

	while (lingers(endpoint) && vb_clock_now() < until)
		vb_clock_sleep(VB_MILLISECONDS(1));
}

/* A program may exit as soon as it has what it waited for: before the acknowledgement of it has left, or the NAK that
 * failed its queue pair. Its peer would repeat itself until it gives up. So the pass under way is waited for, if not
 * for ever, and what is owed sent. */
__attribute__((destructor)) static void flush_at_exit(void)
{
	vb_time until = vb_clock_now() + LONGEST_FLUSH;

	if (!vb_mutex_try(&guard))
		return;
	while (the_endpoint && vb_clock_now() < until) {
		if (vb_lock_try(&the_endpoint->schedule.progress)) {
			send_all_deferred(the_endpoint);
			vb_lock_release(&the_endpoint->schedule.progress);
			linger(the_endpoint);
			break;
		}
		vb_thread_yield();
	}
	vb_mutex_unlock(&guard);
}

/* Counters on a page that verbenad sees; without one, in memory of our own. */
static int open_page(struct vb_endpoint *endpoint)
{
	struct vb_daemon_page *page = NULL;

	if (endpoint->page_fd >= 0)
		page = vb_page_map(endpoint->page_fd, sizeof(*page), true);
	if (!page) {
		close_if_open(&endpoint->page_fd);
		page = calloc(1, sizeof(*page));
	}
	if (!page)
		return -ENOMEM;
	page->magic = VB_DAEMON_MAGIC;
	endpoint->schedule.page = page;
	return 0;
}

/* A link that the daemon does not want to hear of is none. */
static int open_links(struct vb_endpoint *endpoint)
{
	struct vb_link *next;
	int error = vb_links_open(&endpoint->schedule, endpoint->receive_fd, endpoint->wire);

	if (error != 0)
		return error;
	for (struct vb_link *link = endpoint->schedule.links; link; link = next) {
		int refused = vb_daemon_link_introduce(endpoint, &endpoint->daemon, link);

		next = link->next;
		if (refused != 0) {
			vb_log(VB_LOG_INFO, "this process goes without %s (%s)", link->driver->name, strerror(-refused));
			vb_links_close(&endpoint->schedule, link);
		} else if (link->driver->poll) {
			endpoint->fast = link;
		}
	}
	vb_carriers_open(endpoint);
	vb_endpoint_shape_links(endpoint);
	return 0;
}

static int create(struct vb_endpoint **out)
{
	/* Most of it is never touched, and need not be there: so not aligned_alloc and memset. */
	char *allocation = calloc(1, sizeof(struct vb_endpoint) + VB_LINE);
	struct vb_endpoint *endpoint;
	int error = 0;

	if (!allocation)
		return -ENOMEM;
	endpoint = (struct vb_endpoint *)(void *)(allocation + (-(uintptr_t)allocation & (VB_LINE - 1)));
	endpoint->allocation = allocation;
	for (unsigned family = 0; family < VB_ENDPOINT_FAMILIES; family++)
		endpoint->receive_fd[family] = endpoint->daemon_own_fd[family] = -1;
	endpoint->page_fd = endpoint->claim_fd = endpoint->daemon.fd = endpoint->poller = endpoint->sockets = -1;
	vb_schedule_init(&endpoint->schedule);
	vb_spinner_set_processors(vb_processors());
	vb_mutex_init(&endpoint->table_lock, VB_RANK_QPNS);
	vb_mutex_init(&endpoint->watcher_lock, VB_RANK_WATCHERS);
	vb_lanes_init(endpoint);
	endpoint->schedule.event_fd = vb_event_open();
	if (endpoint->schedule.event_fd < 0)
		error = endpoint->schedule.event_fd;
	/* Now, though it may never be used: what a process has open does not depend on when its threads sleep. Nothing fails without it. */
	endpoint->poller = vb_poller_open();
	if (error == 0)
		error = vb_daemon_link_open(endpoint);
	if (error == 0)
		error = open_page(endpoint);
	if (error == 0)
		error = open_links(endpoint);
	if (error == 0)
		error = vb_engine_start(endpoint);
	if (error != 0) {
		destroy(endpoint);
		return error;
	}
	*out = endpoint;
	return 0;
}

int vb_endpoint_get(struct vb_endpoint **out)
{
	struct vb_endpoint *created;
	int error = 0;

	vb_mutex_lock(&guard);
	if (!the_endpoint || __atomic_load_n(&the_endpoint->lost, __ATOMIC_ACQUIRE)) {
		error = create(&created);
		if (error == 0) {
			created->next = endpoints;
			the_endpoint = endpoints = created;
		}
	} else {
		/* A good moment to look for a daemon that was lost. */
		__atomic_store_n(&the_endpoint->daemon_needed, true, __ATOMIC_RELAXED);
		vb_schedule_kick(&the_endpoint->schedule);
	}
	if (error == 0) {
		the_endpoint->users++;
		*out = the_endpoint;
	}
	vb_mutex_unlock(&guard);
	return error;
}

struct vb_endpoint *vb_endpoint_visit(void)
{
	struct vb_endpoint *endpoint;

	if (!vb_mutex_try(&guard))
		return NULL;
	endpoint = the_endpoint;
	if (endpoint)
		endpoint->users++;
	vb_mutex_unlock(&guard);
	return endpoint;
}

/* Caller holds the guard. */
static void forget(struct vb_endpoint *endpoint) VB_NEEDS(guard)
{
	struct vb_endpoint **at = &endpoints;

	while (*at != endpoint)
		at = &(*at)->next;
	*at = endpoint->next;
	if (the_endpoint == endpoint)
		the_endpoint = NULL;
}

void vb_endpoint_put(struct vb_endpoint *endpoint)
{
	vb_mutex_lock(&guard);
	/* A child that closes what its parent opened closes nothing of ours. */
	if (!endpoint->schedule.abandoned && --endpoint->users == 0) {
		linger(endpoint);
		forget(endpoint);
		destroy(endpoint);
	}
	vb_mutex_unlock(&guard);
}

void vb_endpoint_sleep_give_up(struct vb_endpoint *endpoint)
{
	const struct vb_endpoint *at;

	vb_mutex_lock(&guard);
	for (at = endpoints; at && at != endpoint; at = at->next)
		;
	if (at)
		vb_endpoint_sleep_end(endpoint);
	vb_mutex_unlock(&guard);
}

const struct vb_queue_observer *vb_endpoint_observer(const struct vb_endpoint *endpoint)
{
	return endpoint->wire[VB_DEVICE_ROCE]->observer;
}

struct vb_receive_share *vb_endpoint_share(const struct vb_endpoint *endpoint)
{
	return endpoint->wire[VB_DEVICE_ROCE]->share;
}

vb_time vb_endpoint_now(void)
{
	return vb_clock_now();
}

uint32_t vb_endpoint_random(void *unused)
{
	(void)unused;
	return vb_random_u32();
}

/* ---- queue pair numbers ---- */

static uint32_t make_qpn(const struct vb_endpoint *endpoint, uint32_t index)
{
	return endpoint->schedule.slot << VB_DAEMON_INDEX_BITS | index;
}

static bool is_reserved(const struct vb_endpoint *endpoint, uint32_t index)
{
	return endpoint->reserved[index / 64] >> index % 64 & 1 || make_qpn(endpoint, index) == VB_MULTICAST_QPN;
}

/* The lowest bits say to which lane's socket its packets come. Once there are half as many as a lane has numbers, any will do: packets that
 * come by another's socket are delivered all the same. */
static uint32_t draw_index(const struct vb_endpoint *endpoint, unsigned lane)
{
	enum { BEFORE_ANY_WILL_DO = VB_DAEMON_INDICES / VB_DAEMON_LANES / 2 };
	uint32_t index = vb_random_u32() % VB_DAEMON_INDICES;
	bool has_lanes = __atomic_load_n(&endpoint->most_lanes, __ATOMIC_RELAXED) > 1;

	return has_lanes && endpoint->reserved_count < BEFORE_ANY_WILL_DO ? (index & ~(VB_DAEMON_LANES - 1u)) | lane : index;
}

int vb_endpoint_reserve_qpn(struct vb_endpoint *endpoint, unsigned lane, uint32_t *qpn)
{
	uint32_t index;
	int error;

	if (endpoint->schedule.abandoned || __atomic_load_n(&endpoint->lost, __ATOMIC_RELAXED))
		return -ENODEV;
	vb_mutex_lock(&endpoint->table_lock);
	error = endpoint->reserved_count >= VB_MAX_QP ? -ENOMEM :
		vb_timers_reserve(&endpoint->schedule.timers, endpoint->reserved_count + 1);
	if (error == 0) {
		index = draw_index(endpoint, lane);
		/* At most VB_MAX_QP of the indices are taken, so a few draws find a free one, and never all fail. */
		while (is_reserved(endpoint, index))
			index = endpoint->reserved_count * 2 > VB_DAEMON_INDICES ?
				(index + 1) % VB_DAEMON_INDICES : draw_index(endpoint, lane);
		endpoint->reserved[index / 64] |= UINT64_C(1) << index % 64;
		endpoint->reserved_count++;
		*qpn = make_qpn(endpoint, index);
	}
	vb_mutex_unlock(&endpoint->table_lock);
	return error;
}

void vb_endpoint_release_qpn(struct vb_endpoint *endpoint, uint32_t qpn)
{
	uint32_t index = qpn & (VB_DAEMON_INDICES - 1);

	if (endpoint->schedule.abandoned)
		return;
	vb_mutex_lock(&endpoint->table_lock);
	if (endpoint->reserved[index / 64] >> index % 64 & 1) {
		endpoint->reserved[index / 64] &= ~(UINT64_C(1) << index % 64);
		endpoint->reserved_count--;
	}
	vb_mutex_unlock(&endpoint->table_lock);
}

void vb_endpoint_publish(struct vb_endpoint *endpoint, struct vb_qp *qp, unsigned lane, struct vb_counters *counters)
{
	struct vb_binding *binding = &endpoint->schedule.binding[vb_schedule_index(qp->qpn)];

	if (endpoint->schedule.abandoned)
		return;
	/* It stands in its context's list already, for those who list queue pairs. */
	vb_lock_take(&qp->lock);
	vb_list_init(&qp->active);
	qp->active_lane = VB_NO_LANE;
	qp->timer_armed = VB_TIME_NEVER;
	qp->timer_index = 0;
	qp->scheduler = binding;
	binding->home = (uint8_t)lane;
	binding->counters = counters ? counters : VB_SCHEDULE_COUNTERS(&endpoint->schedule);
	vb_carriers_publish(endpoint, qp);
	vb_lock_release(&qp->lock);
	/* Pairs with the acquire in vb_schedule_find: a thread that finds the QP finds all of it. */
	__atomic_store_n(&binding->qp, qp, __ATOMIC_RELEASE);
	if (!vb_qp_has_peer(qp))
		__atomic_add_fetch(&endpoint->schedule.peerless, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&endpoint->schedule.page->queue_pairs, 1, __ATOMIC_RELAXED);
}

void vb_endpoint_withdraw(struct vb_endpoint *endpoint, struct vb_qp *qp)
{
	struct vb_binding *binding = qp->scheduler;
	unsigned lane = vb_endpoint_lane(qp);

	if (endpoint->schedule.abandoned || !binding)
		return;
	/* Its packets may come by any lane. A pass that has found it is over when it is told so, and none finds it afterwards. */
	vb_lanes_hold(endpoint, qp);
	vb_lock_take(&qp->lock);
	vb_carriers_send_enlisted(endpoint, qp);
	vb_lock_release(&qp->lock);
	__atomic_store_n(&binding->qp, NULL, __ATOMIC_RELAXED);
	if (__atomic_load_n(&endpoint->schedule.lanes, __ATOMIC_SEQ_CST) > 1) {
		vb_lanes_let_go(endpoint, lane);
		vb_lanes_wait_for_passes(endpoint);
		vb_lanes_hold(endpoint, qp);
	}
	vb_carriers_withdraw(endpoint, qp);
	vb_lock_take(&qp->lock);
	qp->scheduler = NULL;
	vb_lock_release(&qp->lock);
	/* Last: as long as a link had it, a thread that polls could serve it without `progress`, enlist it and arm its timer. */
	vb_schedule_forget(&endpoint->schedule, qp);
	vb_timers_disarm(&endpoint->schedule.timers, qp);
	vb_lanes_let_go(endpoint, lane);
	__atomic_sub_fetch(&endpoint->schedule.page->queue_pairs, 1, __ATOMIC_RELAXED);
	if (!vb_qp_has_peer(qp))
		__atomic_sub_fetch(&endpoint->schedule.peerless, 1, __ATOMIC_RELAXED);
	vb_endpoint_release_qpn(endpoint, qp->qpn);
}

/* ---- completion queues with moderation ---- */

void vb_endpoint_cq_deadline(struct vb_endpoint *endpoint, struct vb_cq *cq, vb_time when)
{
	if (!endpoint->schedule.abandoned && vb_timers_arm_cq(&endpoint->schedule.timers, cq, when))
		vb_schedule_kick(&endpoint->schedule);
}

void vb_endpoint_cq_forget(struct vb_endpoint *endpoint, struct vb_cq *cq)
{
	if (endpoint->schedule.abandoned)
		return;
	/* Deadlines are called under this lock: once we have it, none is under way. */
	vb_lock_take(&endpoint->schedule.progress);
	(void)vb_timers_arm_cq(&endpoint->schedule.timers, cq, VB_TIME_NEVER);
	vb_lock_release(&endpoint->schedule.progress);
}
