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
	if (link->driver->flush) {
		link->next_flushed = schedule->flushed;
		schedule->flushed = link;
	}
	if (link->driver->finish) {
		link->next_finished = schedule->finished;
		schedule->finished = link;
	}
	if (link->driver->spun) {
		link->next_spun = schedule->spun;
		schedule->spun = link;
	}
}

static void take_out(struct vb_schedule *schedule, const struct vb_link *link)
{
	for (struct vb_link **at = &schedule->flushed; *at; at = &(*at)->next_flushed)
		if (*at == link) {
			*at = link->next_flushed;
			break;
		}
	for (struct vb_link **at = &schedule->finished; *at; at = &(*at)->next_finished)
		if (*at == link) {
			*at = link->next_finished;
			break;
		}
	for (struct vb_link **at = &schedule->spun; *at; at = &(*at)->next_spun)
		if (*at == link) {
			*at = link->next_spun;
			break;
		}
	/* Those in use are looked for anew. */
	__atomic_add_fetch(&schedule->changes, 1, __ATOMIC_RELEASE);
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
		take_out(schedule, link);
		link->driver->close(link);
		return;
	}
}

void vb_links_close_all(struct vb_schedule *schedule)
{
	while (schedule->links)
		vb_links_close(schedule, schedule->links);
}
