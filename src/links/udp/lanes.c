/* SPDX-License-Identifier: MIT
 *
 * Lanes beyond the first: sockets of the process's slot that a thread, or several, have to themselves (schedule/lane.h).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/udp.h"
#include "links/udp/udp_link.h"

void vb_udp_init_lane(struct vb_udp_lane *lane, unsigned number, const int receive_fd[VB_FAMILIES])
{
	lane->number = number;
	lane->batches = number;
	memcpy(lane->receive_fd, receive_fd, sizeof(lane->receive_fd));
	lane->batch = vb_udp_batch_create();
	vb_dedicated_init(&lane->dedicated);
}

/* Told with each datagram: that the first knows is enough, for others are told by it when they are opened. */
void vb_udp_expect(struct vb_udp_link *udp, unsigned family)
{
	if (__atomic_load_n(&udp->first.in_use[family], __ATOMIC_RELAXED))
		return;
	for (unsigned i = 0; i < VB_DAEMON_LANES; i++) {
		struct vb_udp_lane *lane = __atomic_load_n(&udp->lane[i], __ATOMIC_ACQUIRE);

		if (lane && !__atomic_load_n(&lane->in_use[family], __ATOMIC_RELAXED))
			__atomic_store_n(&lane->in_use[family], true, __ATOMIC_RELAXED);
	}
}

/* A capture sees all packets in one order. */
static bool may_open(const struct vb_link *link)
{
	return ((const struct vb_udp_link *)link)->tap == NULL;
}

static int open_lane(struct vb_link *link, unsigned number, const int receive_fd[VB_FAMILIES])
{
	struct vb_udp_link *udp = vb_udp_link_of(link);
	struct vb_udp_lane *lane = aligned_alloc(VB_LINE, sizeof(*lane));

	if (!lane)
		return -ENOMEM;
	memset(lane, 0, sizeof(*lane));
	vb_udp_init_lane(lane, number, receive_fd);
	if (!lane->batch) {
		free(lane);
		return -ENOMEM;
	}
	for (unsigned family = 0; family < VB_FAMILIES; family++)
		lane->in_use[family] = __atomic_load_n(&udp->first.in_use[family], __ATOMIC_RELAXED);
	__atomic_store_n(&udp->lane[number], lane, __ATOMIC_RELEASE);
	return 0;
}

void vb_udp_free_lanes(struct vb_udp_link *udp)
{
	for (unsigned i = 0; i < VB_DAEMON_LANES; i++) {
		struct vb_udp_lane *lane = udp->lane[i];

		if (!lane)
			continue;
		vb_udp_batch_destroy(lane->batch);
		vb_dedicated_fini(&lane->dedicated);
		free(lane->tx_batch.burst);
		vb_burst_pool_fini(&lane->bursts);
		if (lane != &udp->first)
			free(lane);
	}
}

static bool tend(struct vb_link *link, unsigned lane, bool connected, struct vb_path *flow)
{
	return vb_dedicated_tend(&vb_udp_link_of(link)->lane[lane]->dedicated, connected, flow);
}

static void dedicate(struct vb_link *link, unsigned lane, const struct vb_path *flow, int fd)
{
	vb_dedicated_take(&vb_udp_link_of(link)->lane[lane]->dedicated, flow, fd);
}

const struct vb_link_lanes vb_udp_lanes = {
	.may_open = may_open,
	.open = open_lane,
	.drain = vb_udp_drain_lane,
	.flush = vb_udp_flush_lane,
	.finish = vb_udp_finish_lane,
	.tend = tend,
	.dedicate = dedicate,
};
