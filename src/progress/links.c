/* SPDX-License-Identifier: MIT
 *
 * See links.h.
 */
#include "progress/links.h"

#include <stddef.h>

#include "links/memory/memory_link.h"
#include "links/udp/udp_link.h"
#include "schedule/schedule.h"

int vb_links_open(struct vb_schedule *schedule, const int receive_fd[2], struct vb_link **wire)
{
	struct vb_link *memory;
	int error = vb_udp_link_open(wire, schedule, receive_fd);

	if (error != 0)
		return error;
	schedule->links = *wire;
	/* Looked at first: that is quickly done. */
	memory = vb_memory_link_open(schedule);
	if (memory) {
		memory->next = schedule->links;
		schedule->links = memory;
	}
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
