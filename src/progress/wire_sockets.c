/* SPDX-License-Identifier: MIT
 *
 * One epoll descriptor with all that tells of what has come, the sockets of the wire and what host peers raise, for threads of the
 * application that wait for it (sleeping.c). They are in it once it is first asked for: each packet costs a little more then. The engine
 * thread adds them: it hears of each new socket, as it waits for them itself.
 */
#include "io/event.h"
#include "progress/endpoint_parts.h"

/* Seen by their number: lanes' sockets stay. One of a flow comes and goes (links/udp/dedicated.h): who takes it in says so, and when it
 * goes nothing comes to it any more. */
void vb_endpoint_keep_sockets(struct vb_endpoint *endpoint)
{
	int fd[VB_WAIT_ITEMS], sockets = endpoint->poller;
	unsigned count = 0;

	if (!__atomic_load_n(&endpoint->sockets_wanted, __ATOMIC_RELAXED))
		return;
	for (struct vb_link *link = endpoint->schedule.links; link; link = link->next)
		if (link->driver->wakes_sleepers && count + VB_LINK_DESCRIPTORS <= VB_WAIT_ITEMS)
			count += link->driver->descriptors(link, fd + count);
	if (count == endpoint->sockets_kept)
		return;
	if (sockets < 0)
		return;
	/* Those that are there already are refused. */
	for (unsigned i = 0; i < count; i++)
		(void)vb_poller_add(sockets, fd[i], NULL);
	endpoint->sockets_kept = count;
	__atomic_store_n(&endpoint->sockets, sockets, __ATOMIC_RELEASE);
}
