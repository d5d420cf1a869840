/* SPDX-License-Identifier: MIT
 *
 * Ports: the packet socket of a queue pair, and what is taken from it when.
 */
#include <errno.h>
#include <stdlib.h>

#include "io/descriptor.h"
#include "io/event.h"
#include "links/ethernet/ethernet_link.h"
#include "queue/qp.h"

enum { MOST_WAITING = 100000 };            /* frames in a full buffer */

void vb_ethernet_port_close(struct vb_ethernet_link *ethernet, struct vb_ethernet_port *port)
{
	ethernet->port[vb_schedule_index(port->qp->qpn)] = NULL;
	vb_list_remove(&port->node);
	if (port->starved && port->qp->srq)
		__atomic_sub_fetch(&ethernet->starved, 1, __ATOMIC_RELAXED);
	vb_poller_remove(ethernet->poller, port->fd);
	vb_descriptor_close(port->fd);
	free(port);
}

static int open_port(struct vb_ethernet_link *ethernet, struct vb_qp *qp, struct vb_ethernet_port *port)
{
	int error;

	port->qp = qp;
	port->interface_index = qp->host->interface_index;
	port->fd = vb_packet_socket_open(port->interface_index);
	if (port->fd < 0)
		return port->fd;
	error = vb_poller_add_for_errors(ethernet->poller, port->fd, port);
	if (error != 0)
		vb_descriptor_close(port->fd);
	return error;
}

/* What all ports share: a process without any has none of it. */
static int open_shared(struct vb_ethernet_link *ethernet)
{
	int poller;

	if (!ethernet->incoming)
		ethernet->incoming = vb_packet_batch_create();
	if (!ethernet->incoming)
		return -ENOMEM;
	if (ethernet->poller >= 0)
		return 0;
	poller = vb_poller_open();
	if (poller < 0)
		return poller;
	__atomic_store_n(&ethernet->poller, poller, __ATOMIC_RELAXED);
	/* The engine thread waits for it, too. */
	vb_schedule_kick(ethernet->schedule);
	return 0;
}

int vb_ethernet_prepare(struct vb_link *link, struct vb_qp *qp)
{
	struct vb_ethernet_link *ethernet = vb_ethernet_link_of(link);
	struct vb_ethernet_port *port = calloc(1, sizeof(*port));
	int error = port ? 0 : -ENOMEM;

	vb_lock_take(&link->schedule->progress);
	if (error == 0)
		error = open_shared(ethernet);
	if (error == 0)
		error = open_port(ethernet, qp, port);
	if (error == 0) {
		vb_list_append(&ethernet->ports, &port->node);
		ethernet->port[vb_schedule_index(qp->qpn)] = port;
	} else {
		free(port);
	}
	vb_lock_release(&link->schedule->progress);
	return error;
}

void vb_ethernet_withdraw(struct vb_link *link, struct vb_qp *qp)
{
	struct vb_ethernet_link *ethernet = vb_ethernet_link_of(link);
	struct vb_ethernet_port *port = vb_ethernet_port_of(ethernet, qp);

	if (port)
		vb_ethernet_port_close(ethernet, port);
}

void vb_ethernet_port_watch(struct vb_ethernet_link *ethernet, struct vb_ethernet_port *port)
{
	vb_poller_want(ethernet->poller, port->fd, port, port->reach != VB_PACKETS_NONE && !port->starved, port->blocked);
}

void vb_ethernet_port_starve(struct vb_ethernet_link *ethernet, struct vb_ethernet_port *port, bool starved)
{
	if (port->starved == starved)
		return;
	port->starved = starved;
	if (port->qp->srq)
		__atomic_add_fetch(&ethernet->starved, starved ? 1 : -1u, __ATOMIC_SEQ_CST);
	vb_ethernet_port_watch(ethernet, port);
}

/* IBA 10.3.1: what comes before RTR, or once it has failed, is dropped. */
static bool takes_frames(const struct vb_qp *qp)
{
	return qp->state != IBV_QPS_RESET && qp->state != IBV_QPS_INIT && qp->state != IBV_QPS_ERR;
}

void vb_ethernet_port_listen(struct vb_ethernet_link *ethernet, struct vb_ethernet_port *port)
{
	enum vb_packet_socket_reach reach = takes_frames(port->qp) ? port->wanted : VB_PACKETS_NONE;

	vb_lock_assert_held(&port->qp->lock);
	if (reach == port->reach)
		return;
	vb_packet_socket_listen(port->fd, port->interface_index, reach, port->reach);
	port->reach = reach;
	/* What came for it before is not for what it becomes next. */
	if (reach == VB_PACKETS_NONE)
		vb_packet_socket_discard(port->fd, MOST_WAITING);
	/* Nor does it wait for receives that came to a shared queue while it took nothing in: it looks, and may find none again. */
	vb_ethernet_port_starve(ethernet, port, false);
	vb_ethernet_port_watch(ethernet, port);
}
