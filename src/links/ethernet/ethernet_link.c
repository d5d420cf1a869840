/* SPDX-License-Identifier: MIT
 *
 * Opening and closing the link of raw packets. See ethernet_link.h.
 */
#include "links/ethernet/ethernet_link.h"

#include <errno.h>
#include <stdlib.h>

#include "io/descriptor.h"
#include "queue/qp.h"

static void modified(struct vb_link *link, struct vb_qp *qp, enum ibv_qp_state from, int attr_mask, vb_time now)
{
	struct vb_ethernet_link *ethernet = vb_ethernet_link_of(link);
	struct vb_ethernet_port *port = vb_ethernet_port_of(ethernet, qp);

	(void)from;
	(void)attr_mask;
	(void)now;
	if (port)
		vb_ethernet_port_listen(ethernet, port);
}

static void close_link(struct vb_link *link)
{
	struct vb_ethernet_link *ethernet = vb_ethernet_link_of(link);

	VB_LIST_FOR_EACH(node, &ethernet->ports)
		vb_ethernet_port_close(ethernet, vb_container_of(node, struct vb_ethernet_port, node));
	vb_ethernet_forget_rules(ethernet);
	vb_packet_batch_destroy(ethernet->incoming);
	if (ethernet->poller >= 0)
		vb_descriptor_close(ethernet->poller);
	free(ethernet);
}

static void abandon(struct vb_link *link)
{
	struct vb_ethernet_link *ethernet = vb_ethernet_link_of(link);

	for (unsigned i = 0; i < VB_DAEMON_INDICES; i++)
		if (ethernet->port[i])
			vb_descriptor_close(ethernet->port[i]->fd);
	if (ethernet->poller >= 0)
		vb_descriptor_close(ethernet->poller);
}

static unsigned descriptors(const struct vb_link *link, int fd[VB_LINK_DESCRIPTORS])
{
	fd[0] = __atomic_load_n(&((const struct vb_ethernet_link *)link)->poller, __ATOMIC_RELAXED);
	return fd[0] >= 0;
}

static const struct vb_link_driver driver = {
	.name = "ethernet",
	.engine = &vb_raw_transport,
	.close = close_link,
	.abandon = abandon,
	.prepare = vb_ethernet_prepare,
	.withdraw = vb_ethernet_withdraw,
	.modified = modified,
	.transmit = vb_ethernet_transmit,
	.transmit_in_pass = vb_ethernet_transmit_in_pass,
	.posted = vb_ethernet_transmit,
	.received = vb_ethernet_received,
	.drain = vb_ethernet_drain,
	.expire = vb_ethernet_expire,
	.descriptors = descriptors,
	.has_work = vb_ethernet_has_work,
	.rest = vb_ethernet_rest,
	.replenished = vb_ethernet_replenished,
	.steer = vb_ethernet_steer,
	.unsteer = vb_ethernet_unsteer,
};

int vb_ethernet_link_open(struct vb_link **link, struct vb_schedule *schedule)
{
	/* Most of it is never touched, and need not be there. */
	struct vb_ethernet_link *ethernet = calloc(1, sizeof(*ethernet));

	if (!ethernet)
		return -ENOMEM;
	ethernet->link = (struct vb_link){.driver = &driver, .schedule = schedule};
	ethernet->schedule = schedule;
	vb_list_init(&ethernet->ports);
	vb_list_init(&ethernet->rules);
	ethernet->poller = -1;
	*link = &ethernet->link;
	return 0;
}
