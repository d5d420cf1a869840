/* SPDX-License-Identifier: MIT
 *
 * Lanes (schedule/lane.h): which queue pair is given which, and verbenad, who has their sockets.
 *
 * A queue pair takes the lane of its CQs, or else that of the thread that makes it. The first thread's is lane 0, so a program with one
 * thread has no other; the next ones have one each, up to half as many as there are processors (the kernel works as long for a packet as we
 * do) or VERBENA_LANES, and share them beyond.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/inline.h"
#include "base/log.h"
#include "io/daemon_silence.h"
#include "io/descriptor.h"
#include "io/event.h"
#include "progress/endpoint_parts.h"

#define PATIENCE VB_SECONDS(2)

struct lane_of_thread {
	uint64_t endpoint;                 /* its serial number; 0: none */
	uint8_t lane;
};

static VB_THREAD_LOCAL struct lane_of_thread own;

static unsigned wanted_lanes(void)
{
	const char *asked = secure_getenv("VERBENA_LANES");
	unsigned long count = vb_processors() / 2;

	if (asked && *asked) {
		char *end;

		count = strtoul(asked, &end, 10);
		if (*end != 0 || count < 1 || count > VB_DAEMON_LANES) {
			vb_log(VB_LOG_WARN, "VERBENA_LANES=%s: a number from 1 to %d is wanted; 1 is taken", asked, VB_DAEMON_LANES);
			return 1;
		}
	}
	return count < 1 ? 1 : count > VB_DAEMON_LANES ? VB_DAEMON_LANES : (unsigned)count;
}

void vb_lanes_init(struct vb_endpoint *endpoint)
{
	static uint64_t serial;            /* atomic */

	vb_mutex_init(&endpoint->lanes_lock, VB_RANK_LANES);
	endpoint->serial = __atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED);
	endpoint->most_lanes = wanted_lanes();
	for (unsigned i = 0; i < VB_DAEMON_LANES; i++)
		for (unsigned family = 0; family < VB_ENDPOINT_FAMILIES; family++)
			endpoint->lane_fd[i][family] = -1;
}

static void close_sockets(struct vb_endpoint *endpoint, unsigned lane)
{
	for (unsigned family = 0; family < VB_ENDPOINT_FAMILIES; family++) {
		if (endpoint->lane_fd[lane][family] >= 0)
			vb_descriptor_close(endpoint->lane_fd[lane][family]);
		endpoint->lane_fd[lane][family] = -1;
	}
}

void vb_lanes_close_descriptors(struct vb_endpoint *endpoint)
{
	for (unsigned i = 0; i < VB_DAEMON_LANES; i++)
		close_sockets(endpoint, i);
}

/* ---- verbenad ---- */

static bool take_sockets(void *context, const struct vb_daemon_message *message, const int *fds, unsigned count)
{
	int *socket = context;

	(void)count;
	if (message->header.type != VB_DAEMON_LANE)
		return true;
	for (unsigned family = 0, next = 0; family < VB_ENDPOINT_FAMILIES; family++)
		if (message->lane.descriptors & 1u << family)
			socket[family] = vb_descriptor_duplicate(fds[next++]);
	return true;
}

/* The daemon's answer to that, about that lane. */
static int ask(struct vb_endpoint *endpoint, enum vb_daemon_type type, unsigned lane)
{
	struct vb_daemon_client daemon;
	struct vb_daemon_message request;
	int error;

	/* A lane is for speed: the thread that finds verbenad silent has waited for all. */
	if (vb_daemon_is_silent())
		return -ETIMEDOUT;
	error = vb_daemon_client_reach(&daemon, PATIENCE);
	if (error == 0) {
		vb_daemon_message_begin(&request, type, 0);
		request.lane.slot = endpoint->schedule.slot;
		request.lane.lane = lane;
		error = vb_daemon_client_try(&daemon, &request, take_sockets, endpoint->lane_fd[lane]);
		vb_daemon_client_close(&daemon);
	}
	return error;
}

/* All that there are: a duplicate may have failed. */
static bool has_sockets(const struct vb_endpoint *endpoint, unsigned lane)
{
	bool found = false;

	for (unsigned family = 0; family < VB_ENDPOINT_FAMILIES; family++) {
		if (endpoint->lane_fd[lane][family] < -1)
			return false;
		found = found || endpoint->lane_fd[lane][family] >= 0;
	}
	return found;
}

/* It is there already where the answer to a question before was lost: with its sockets, which no thread reads. */
static int ask_for_sockets(struct vb_endpoint *endpoint, unsigned lane)
{
	int error = ask(endpoint, VB_DAEMON_OPEN_LANE, lane);

	if (error == -EALREADY && ask(endpoint, VB_DAEMON_CLOSE_LANE, lane) == 0)
		error = ask(endpoint, VB_DAEMON_OPEN_LANE, lane);
	return error;
}

static int open_lane(struct vb_endpoint *endpoint, unsigned lane)
{
	struct vb_link *link = endpoint->schedule.laned;
	int error = ask_for_sockets(endpoint, lane);
	bool is_open = error == 0 || error == -EMFILE; /* the latter: though there was no descriptor for its sockets */

	if (error == 0)
		error = has_sockets(endpoint, lane) ? link->driver->lanes->open(link, lane, endpoint->lane_fd[lane]) : -EMFILE;
	/* Packets are handed to sockets that no thread would read. */
	if (is_open && error != 0)
		(void)ask(endpoint, VB_DAEMON_CLOSE_LANE, lane);
	if (error != 0) {
		close_sockets(endpoint, lane);
		vb_log(VB_LOG_INFO, "threads of this process share %u lanes: %s", lane, strerror(-error));
		return error;
	}
	/* Who sees it finds all of it. */
	__atomic_store_n(&endpoint->schedule.lanes, lane + 1, __ATOMIC_SEQ_CST);
	vb_schedule_kick(&endpoint->schedule);
	return 0;
}

static void adopt_lane(struct vb_endpoint *endpoint, struct vb_daemon_client *daemon, unsigned lane, vb_daemon_take *news)
{
	struct vb_daemon_message request;
	int fds[VB_ENDPOINT_FAMILIES], error;
	unsigned count = 0;

	vb_daemon_message_begin(&request, VB_DAEMON_ADOPT_LANE, 0);
	request.lane.slot = endpoint->schedule.slot;
	request.lane.lane = lane;
	for (unsigned family = 0; family < VB_ENDPOINT_FAMILIES; family++) {
		if (endpoint->lane_fd[lane][family] < 0)
			continue;
		fds[count++] = endpoint->lane_fd[lane][family];
		request.lane.descriptors |= 1u << family;
	}
	error = count > 0 ? vb_daemon_client_request(daemon, &request, fds, count, news, endpoint) : 0;
	if (error != 0)
		vb_log(VB_LOG_INFO, "lane %u has no socket any more: %s", lane, strerror(-error));
}

/* Packets for one that it does not take over come to the slot's own socket. */
void vb_lanes_adopt(struct vb_endpoint *endpoint, struct vb_daemon_client *daemon, vb_daemon_take *news)
{
	vb_mutex_lock(&endpoint->lanes_lock);
	for (unsigned i = 1; i < VB_DAEMON_LANES; i++)
		adopt_lane(endpoint, daemon, i, news);
	vb_mutex_unlock(&endpoint->lanes_lock);
}

/* ---- who has which ---- */

static bool may_have_lane(const struct vb_endpoint *endpoint, enum vb_device_kind kind, enum ibv_qp_type type)
{
	const struct vb_link *laned = endpoint->schedule.laned;

	return __atomic_load_n(&endpoint->most_lanes, __ATOMIC_RELAXED) > 1 && laned && endpoint->wire[kind] == laned &&
	       vb_endpoint_has_port(endpoint) &&
	       (type == IBV_QPT_RC || type == IBV_QPT_UC) && laned->driver->lanes->may_open(laned);
}

static uint8_t lane_of_poller(const struct vb_poller *poller)
{
	return poller ? __atomic_load_n(&poller->lane, __ATOMIC_RELAXED) : VB_NO_LANE;
}

static uint8_t next_lane(struct vb_endpoint *endpoint)
{
	unsigned lane;

	vb_mutex_lock(&endpoint->lanes_lock);
	lane = endpoint->threads++ % endpoint->most_lanes;
	if (lane >= endpoint->schedule.lanes) {
		int error = open_lane(endpoint, lane);

		if (error == -EUSERS || error == -EOPNOTSUPP)
			__atomic_store_n(&endpoint->most_lanes, lane, __ATOMIC_RELAXED);
		else if (error != 0)
			endpoint->threads--;     /* verbenad may be gone for a moment: the next one asks again */
		if (error != 0)
			lane = 0;
	}
	vb_mutex_unlock(&endpoint->lanes_lock);
	return (uint8_t)lane;
}

static uint8_t choose(struct vb_endpoint *endpoint, const struct vb_poller *sends, const struct vb_poller *receives)
{
	uint8_t lane = lane_of_poller(sends);

	if (lane == VB_NO_LANE)
		lane = lane_of_poller(receives);
	if (lane != VB_NO_LANE)
		return lane;
	if (own.endpoint != endpoint->serial)
		own = (struct lane_of_thread){.endpoint = endpoint->serial, .lane = next_lane(endpoint)};
	return own.lane;
}

unsigned vb_endpoint_choose_lane(struct vb_endpoint *endpoint, enum vb_device_kind kind, enum ibv_qp_type type, struct vb_poller *sends,
				 struct vb_poller *receives)
{
	uint8_t lane = 0;

	if (!endpoint->schedule.abandoned && may_have_lane(endpoint, kind, type))
		lane = choose(endpoint, sends, receives);
	if (sends)
		vb_poller_join_lane(sends, lane);
	if (receives)
		vb_poller_join_lane(receives, lane);
	return lane;
}

unsigned vb_endpoint_lane(const struct vb_qp *qp)
{
	const struct vb_binding *binding = qp->scheduler;

	return binding ? binding->home : 0;
}

/* ---- passes ---- */

void vb_lanes_hold(struct vb_endpoint *endpoint, const struct vb_qp *qp) VB_UNCHECKED
{
	unsigned lane = vb_endpoint_lane(qp);

	vb_lock_take(&endpoint->schedule.progress);
	if (lane > 0)
		vb_lock_take(endpoint->schedule.lane[lane].lock);
}

void vb_lanes_let_go(struct vb_endpoint *endpoint, unsigned lane) VB_UNCHECKED
{
	if (lane > 0)
		vb_lock_release(endpoint->schedule.lane[lane].lock);
	vb_lock_release(&endpoint->schedule.progress);
}

void vb_lanes_wait_for_passes(struct vb_endpoint *endpoint)
{
	for (uint32_t i = 1, lanes = __atomic_load_n(&endpoint->schedule.lanes, __ATOMIC_SEQ_CST); i < lanes; i++) {
		vb_lock_take(endpoint->schedule.lane[i].lock);
		vb_lock_release(endpoint->schedule.lane[i].lock);
	}
}
