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

/* Those whose drivers have that, in the order of all. */
static void list_some(struct vb_schedule *schedule)
{
	struct vb_link **flushed = &schedule->flushed, **finished = &schedule->finished, **spun = &schedule->spun;

	for (struct vb_link *link = schedule->links; link; link = link->next) {
		if (link->driver->flush) {
			*flushed = link;
			flushed = &link->next_flushed;
		}
		if (link->driver->finish) {
			*finished = link;
			finished = &link->next_finished;
		}
		if (link->driver->spun) {
			*spun = link;
			spun = &link->next_spun;
		}
	}
	*flushed = *finished = *spun = NULL;
	/* Those in use are looked for anew. */
	__atomic_add_fetch(&schedule->changes, 1, __ATOMIC_RELEASE);
}

static void put_first(struct vb_schedule *schedule, struct vb_link *link)
{
	link->next = schedule->links;
	schedule->links = link;
	list_some(schedule);
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
		list_some(schedule);
		link->driver->close(link);
		return;
	}
}

void vb_links_close_all(struct vb_schedule *schedule)
{
	while (schedule->links)
		vb_links_close(schedule, schedule->links);
}
