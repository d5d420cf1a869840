/* SPDX-License-Identifier: MIT
 *
 * See links.h.
 */
#include "progress/links.h"

#include <stddef.h>

#include "links/ethernet/ethernet_link.h"
#include "links/fabric/fabric_link.h"
#include "links/memory/memory_link.h"
#include "links/tcp/tcp_link.h"
#include "links/udp/udp_link.h"
#include "schedule/schedule.h"

static void put_first(struct vb_schedule *schedule, struct vb_link *link)
{
	link->next = schedule->links;
	schedule->links = link;
}

int vb_links_open(struct vb_schedule *schedule, const int receive_fd[2], struct vb_link *wire[VB_WIRES])
{
	struct vb_link *memory;
	int error = vb_ethernet_link_open(&wire[VB_WIRE_RAW], schedule);

	if (error != 0)
		return error;
	put_first(schedule, wire[VB_WIRE_RAW]);
	error = vb_fabric_link_open(&wire[VB_DEVICE_INFINIBAND], schedule);
	if (error != 0)
		return error;
	put_first(schedule, wire[VB_DEVICE_INFINIBAND]);
	error = vb_tcp_link_open(&wire[VB_DEVICE_IWARP], schedule);
	if (error != 0)
		return error;
	put_first(schedule, wire[VB_DEVICE_IWARP]);
	error = vb_udp_link_open(&wire[VB_DEVICE_ROCE], schedule, receive_fd);
	if (error != 0)
		return error;
	put_first(schedule, wire[VB_DEVICE_ROCE]);
	/* Looked at first: that is quickly done. */
	memory = vb_memory_link_open(schedule);
	if (memory)
		put_first(schedule, memory);
	return 0;
}

void vb_links_close(struct vb_schedule *schedule, struct vb_link *link)
{
	for (struct vb_link **at = &schedule->links; *at; at = &(*at)->next) {
		if (*at != link)
			continue;
		*at = link->next;
		link->driver->close(link);
		return;
	}
}

void vb_links_close_all(struct vb_schedule *schedule)
{
	while (schedule->links)
		vb_links_close(schedule, schedule->links);
}
