/* SPDX-License-Identifier: MIT
 *
 * Opening and closing the link of RoCEv2. See udp_link.h.
 */
#include "links/udp/udp_link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "io/descriptor.h"
#include "io/udp.h"
#include "links/udp/frames.h"
#include "links/udp/shaper.h"
#include "links/udp/tap.h"
#include "profiles/roce_versions.h"
#include "queue/qp.h"
#include "roce/control.h"
#include "roce/roce.h"

static void close_link(struct vb_link *link)
{
	struct vb_udp_link *udp = vb_udp_link_of(link);

	/* First: what it has kept back is sent. */
	vb_shaper_close(udp->shaper);
	vb_tap_close(udp->tap);
	vb_multicast_free(udp);
	vb_udp_close_questions(udp);
	free(udp->questions);
	if (udp->groups_fd >= 0)
		vb_descriptor_close(udp->groups_fd);
	vb_udp_free_lanes(udp);
	vb_frames_close(udp->frames);
	vb_source_ports_fini(&udp->ports);
	free(udp->allocation);
}

static void abandon(struct vb_link *link)
{
	struct vb_udp_link *udp = vb_udp_link_of(link);

	vb_tap_abandon(udp->tap);
	vb_udp_close_questions(udp);
	if (udp->frames)
		vb_descriptor_close(vb_frames_descriptor(udp->frames));
	if (udp->groups_fd >= 0)
		vb_descriptor_close(udp->groups_fd);
	for (unsigned i = 0; i < VB_DAEMON_LANES; i++)
		if (udp->lane[i])
			vb_dedicated_fini(&udp->lane[i]->dedicated);
	for (unsigned family = 0; family < VB_FAMILIES; family++)
		for (unsigned i = 0; i < VB_SOURCE_PORTS; i++)
			if (udp->ports.port[family][i].fd >= 0)
				vb_descriptor_close(udp->ports.port[family][i].fd);
}

static void shape(struct vb_link *link, const struct vb_counters *device, const struct vb_shape *wanted)
{
	struct vb_udp_link *udp = vb_udp_link_of(link);
	struct vb_shaper *shaper = udp->shaper;
	int error = 0;

	if (!shaper && !vb_shape_is_none(wanted))
		error = vb_shaper_open(&shaper, udp);
	if (error != 0)
		vb_log(VB_LOG_ERROR, "this process's packets are not shaped: %s", strerror(-error));
	if (!shaper)
		return;
	vb_shaper_set(shaper, device, wanted);
	/* Who sends finds it whole. */
	__atomic_store_n(&udp->shaper, shaper, __ATOMIC_RELEASE);
}

/* Sequentially consistent, as in introduce: either this sees the socket or that sees the interface. */
static int prepare(struct vb_link *link, struct vb_qp *qp)
{
	enum { LOOPBACK = 1 };             /* in every namespace; it has no GIDs of RoCEv1 */
	struct vb_udp_link *udp = vb_udp_link_of(link);
	struct vb_frames *frames;

	if (qp->host->interface_index == LOOPBACK || !vb_frames_widen(&udp->frames_from, qp->host->interface_index))
		return 0;
	frames = __atomic_load_n(&udp->frames, __ATOMIC_SEQ_CST);
	if (frames)
		vb_frames_listen(frames, &udp->frames_from);
	return 0;
}

/* A socket of RoCEv1 is for the slot, whichever verbenad made it. Without one the process has RoCEv2. */
static int introduce(struct vb_link *link, struct vb_daemon_client *daemon, vb_daemon_take *news, void *context)
{
	struct vb_udp_link *udp = vb_udp_link_of(link);
	const char *asked = secure_getenv("VERBENA_ROCE");
	struct vb_frames *frames = NULL;

	(void)news;
	(void)context;
	if (__atomic_load_n(&udp->frames, __ATOMIC_RELAXED) ||
	    !(vb_roce_versions(asked, secure_getenv("VERBENA_PROFILE")) & VB_ROCE_V1))
		return 0;
	/* Where an adapter's profile brings such GIDs along, most programs never use them. */
	if (vb_frames_open(&frames, daemon, asked && *asked) == 0) {
		/* Who sends finds all of it. */
		__atomic_store_n(&udp->frames, frames, __ATOMIC_SEQ_CST);
		vb_frames_listen(frames, &udp->frames_from);
		vb_schedule_kick(udp->schedule);
	}
	return 0;
}

static void withdraw(struct vb_link *link, struct vb_qp *qp)
{
	struct vb_udp_link *udp = vb_udp_link_of(link);
	struct vb_dedicated *dedicated = &vb_udp_lane_of(udp, qp)->dedicated;

	if (dedicated->qpn == qp->qpn && vb_dedicated_end(dedicated))
		vb_schedule_kick(udp->schedule);
	vb_multicast_forget_qp(udp, qp);
	vb_udp_drop_question(udp, qp->qpn);
	*vb_udp_state_of(udp, qp) = (struct vb_udp_state){0};
}

static unsigned descriptors(const struct vb_link *link, int fd[VB_LINK_DESCRIPTORS])
{
	const struct vb_udp_link *udp = (const struct vb_udp_link *)link;
	const struct vb_frames *frames = __atomic_load_n(&udp->frames, __ATOMIC_ACQUIRE);
	int groups_fd = __atomic_load_n(&udp->groups_fd, __ATOMIC_RELAXED);
	unsigned count = 0;

	for (unsigned i = 0; i < VB_DAEMON_LANES; i++) {
		const struct vb_udp_lane *lane = __atomic_load_n(&udp->lane[i], __ATOMIC_ACQUIRE);

		for (unsigned family = 0; lane && family < VB_FAMILIES; family++)
			if (lane->receive_fd[family] >= 0)
				fd[count++] = lane->receive_fd[family];
		if (lane && lane->dedicated.fd >= 0)
			fd[count++] = lane->dedicated.fd;
	}
	if (groups_fd >= 0)
		fd[count++] = groups_fd;
	if (frames)
		fd[count++] = vb_frames_descriptor(frames);
	return count;
}

/* Frames need a socket that verbenad could not make. */
static int admits(struct vb_link *link, const struct vb_path *path)
{
	bool has_frames = __atomic_load_n(&vb_udp_link_of(link)->frames, __ATOMIC_ACQUIRE) != NULL;

	return path->framing == VB_FRAMING_ETHERNET && !has_frames ? -EPERM : 0;
}

/* Packets that go to one socket may share a source port (links/udp/source_ports.h). Of a peer that we talk to from several lanes we
 * believe that it has as many, each for its own; one that we talk to from lane 0 alone is one to us. */
static uint16_t source_port(struct vb_link *link, const struct vb_path *path, uint32_t destination_qpn, unsigned lane)
{
	struct vb_udp_link *udp = vb_udp_link_of(link);
	uint32_t slot = destination_qpn >> VB_DAEMON_INDEX_BITS;

	if (path->framing != VB_FRAMING_UDP)
		return 0;
	/* Answers will come that way. */
	vb_udp_expect(udp, vb_path_is_ipv4(path) ? VB_IPV4 : VB_IPV6);
	return lane == 0 ? vb_source_ports_choose(&udp->ports, path, slot) :
			   vb_source_ports_choose_lane(&udp->ports, path, slot,
						       (destination_qpn & (VB_DAEMON_LANES - 1)) | lane << VB_DAEMON_LANE_BITS);
}

static const struct vb_link_driver driver = {
	.name = "udp",
	.engine = &vb_roce_transport,
	.close = close_link,
	.abandon = abandon,
	.introduce = introduce,
	.prepare = prepare,
	.withdraw = withdraw,
	.transmit = vb_udp_transmit,
	.transmit_in_pass = vb_udp_transmit_in_pass,
	.posted = vb_udp_posted,
	.hurry = vb_roce_hurry,
	.is_behind = vb_udp_is_behind,
	.drain = vb_udp_drain,
	.flush = vb_udp_flush,
	.finish = vb_udp_finish,
	.expire = vb_udp_expire,
	.wakes_sleepers = true,
	.descriptors = descriptors,
	.admits = admits,
	.source_port = source_port,
	.shape = shape,
	.lanes = &vb_udp_lanes,
	.join = vb_multicast_join,
	.leave = vb_multicast_leave,
};

/* What queue pairs of this process obey: they keep a pointer to it, so it stays. */
static void choose_control(void)
{
	static struct vb_roce_policies policies;
	const char *chosen = secure_getenv("VERBENA_CONTROL");
	char word[VB_ROCE_DEVICE_NAME];

	if (!chosen || !*chosen)
		return;
	if (vb_roce_policies_parse(&policies, chosen, word))
		vb_roce_policies_set(&policies);
	else
		vb_log(VB_LOG_WARN,
		       "VERBENA_CONTROL=%s: known are window, dcqcn[:paper|:adapter][@RATE] and timely[@RATE], as in "
		       "dcqcn@25G, for a device as in roce_eth0=dcqcn,window; \"%s\" is none: window is taken for all", chosen, word);
}

int vb_udp_link_open(struct vb_link **link, struct vb_schedule *schedule, const int receive_fd[VB_FAMILIES])
{
	/* Most of it is never touched, and need not be there: so not aligned_alloc and memset. */
	char *allocation = calloc(1, sizeof(struct vb_udp_link) + VB_LINE);
	struct vb_udp_link *udp;
	int error;

	if (!allocation)
		return -ENOMEM;
	udp = (struct vb_udp_link *)(void *)(allocation + (-(uintptr_t)allocation & (VB_LINE - 1)));
	udp->allocation = allocation;
	udp->link = (struct vb_link){.driver = &driver, .schedule = schedule};
	udp->schedule = schedule;
	udp->groups_fd = -1;
	for (unsigned family = 0; family < VB_FAMILIES; family++) {
		uint32_t buffer = vb_udp_receive_buffer(receive_fd[family]);

		if (buffer != 0 && (udp->share.bytes == 0 || buffer < udp->share.bytes))
			udp->share.bytes = buffer;
	}
	udp->link.share = udp->share.bytes != 0 ? &udp->share : NULL;
	choose_control();
	vb_source_ports_init(&udp->ports);
	vb_lock_init(&udp->inquiry_lock, VB_RANK_INQUIRIES);
	vb_udp_init_lane(&udp->first, 0, receive_fd);
	udp->lane[0] = &udp->first;
	error = udp->first.batch ? vb_tap_open(&udp->tap, udp) : -ENOMEM;
	if (error != 0) {
		close_link(&udp->link);
		return error;
	}
	/* A capture shows what left, before it does. */
	udp->ports.plain = udp->tap != NULL;
	udp->link.observer = vb_tap_observer(udp->tap);
	schedule->is_observed = udp->tap != NULL;
	schedule->laned = &udp->link;
	*link = &udp->link;
	return 0;
}
