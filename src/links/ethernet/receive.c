/* SPDX-License-Identifier: MIT
 *
 * Receiving: the sockets' share of a pass. Of each no more is read than its queue pair has receives for: the rest waits in the socket until
 * there are more, or its buffer is full.
 */
#include "io/event.h"
#include "links/ethernet/ethernet_link.h"
#include "queue/qp.h"

enum {
	BATCHES_PER_PASS = 8,              /* of one port */
	EVENTS = 64,
};

static void deliver(struct vb_ethernet_port *port, const struct vb_flow_table *table, const struct vb_packet *packet, vb_time now)
{
	struct vb_binding *binding = port->qp->scheduler;
	const struct vb_flow_rule *rule;
	struct vb_flow_key key;

	if (!vb_flow_key_decode(&key, packet->bytes, packet->length, NULL))
		return;
	rule = vb_flow_table_find(table, &key, packet->is_sent, port->qp);
	if (!rule)
		return;
	vb_flow_rule_count(rule, packet->length);
	if (rule->drops)
		return;
	VB_COUNT(binding->counters, rcvd_pkts);
	VB_COUNT_MANY(binding->counters, rcvd_bytes, packet->length);
	vb_raw_receive(port->qp, packet->bytes, packet->length, &key, rule, now);
}

/* How many may be read: of none is known before whether it takes a receive. A shared queue may be empty by then. Of several work queues
 * one that is empty must not keep the others waiting: as long as any has receives frames are read, and those for the empty one are lost. */
static unsigned readable(struct vb_qp *qp)
{
	if (qp->rss)
		return vb_rss_room(qp->rss);
	return qp->srq ? vb_raw_has_receive(qp) : vb_receive_queue_count(&qp->receive);
}

/* Caller holds progress and qp->lock. True: something came. */
static bool read_port(struct vb_ethernet_link *ethernet, struct vb_ethernet_port *port, vb_time now)
{
	const struct vb_flow_table *table = vb_ethernet_table(ethernet, port->interface_index);
	/* Before frames are lost for want of a receive, the program has had a chance to post more. */
	unsigned batches = port->qp->rss ? 1 : BATCHES_PER_PASS;
	bool done = false;

	for (unsigned i = 0; table && port->reach != VB_PACKETS_NONE && i < batches; i++) {
		unsigned room = readable(port->qp);
		int count;

		vb_ethernet_port_starve(ethernet, port, room == 0);
		if (room == 0 && port->qp->srq) {
			/* Again: a receive may have come to a shared queue before it was known that this one waits for it. */
			room = readable(port->qp);
			vb_ethernet_port_starve(ethernet, port, room == 0);
		}
		if (room == 0)
			return done;
		count = vb_packet_batch_receive(ethernet->incoming, port->fd, room);
		for (int at = 0; at < count; at++)
			deliver(port, table, vb_packet_batch_at(ethernet->incoming, (unsigned)at), now);
		done |= count > 0;
		/* It is empty now, most likely. If not, the next pass looks. */
		if (count < (int)room && count < VB_PACKET_BATCH)
			break;
	}
	return done;
}

/* `was_told`: by the poller, or it is looked at whether anything is there that was not told. */
static bool serve(struct vb_ethernet_link *ethernet, struct vb_ethernet_port *port, vb_time now, bool was_told)
{
	struct vb_qp *qp = port->qp;
	bool done = false;

	vb_lock_take(&qp->lock);
	/* Published, and not yet withdrawn. */
	if (qp->scheduler) {
		if (port->blocked) {
			port->blocked = false;
			vb_ethernet_port_watch(ethernet, port);
			vb_ethernet_transmit_in_pass(&ethernet->link, qp, now);
			done = true;
		}
		done |= read_port(ethernet, port, now);
		if (was_told && !done)
			vb_packet_socket_clear_error(port->fd);
	}
	vb_lock_release(&qp->lock);
	return done;
}

static bool serve_ready(struct vb_ethernet_link *ethernet, vb_time now)
{
	void *tags[EVENTS];
	unsigned count = vb_poller_wait(ethernet->poller, tags, EVENTS, 0);
	bool done = false;

	for (unsigned i = 0; i < count; i++)
		done |= serve(ethernet, tags[i], now, true);
	return done;
}

/* Receives were posted to a shared queue: who waits for them looks again. */
static bool resume(struct vb_ethernet_link *ethernet, vb_time now)
{
	bool done = false;

	if (!__atomic_load_n(&ethernet->replenished, __ATOMIC_RELAXED) ||
	    !__atomic_exchange_n(&ethernet->replenished, false, __ATOMIC_SEQ_CST))
		return false;
	VB_LIST_FOR_EACH(node, &ethernet->ports)
		done |= serve(ethernet, vb_container_of(node, struct vb_ethernet_port, node), now, false);
	return done;
}

bool vb_ethernet_drain(struct vb_link *link, vb_time now, bool all)
{
	struct vb_ethernet_link *ethernet = vb_ethernet_link_of(link);
	bool done = resume(ethernet, now);

	if (vb_list_is_empty(&ethernet->ports))
		return false;
	/* One is looked at straight away, which is quicker than asking the poller; more may have nothing. */
	if (ethernet->ports.next == ethernet->ports.previous)
		return serve(ethernet, vb_container_of(ethernet->ports.next, struct vb_ethernet_port, node), now, all) || done;
	return serve_ready(ethernet, now) || done;
}

/* Caller holds qp->lock. The engine thread, or who polls next, reads what waits. */
void vb_ethernet_received(struct vb_link *link, struct vb_qp *qp)
{
	struct vb_ethernet_link *ethernet = vb_ethernet_link_of(link);
	struct vb_ethernet_port *port = vb_ethernet_port_of(ethernet, qp);

	if (port && port->starved)
		vb_ethernet_port_starve(ethernet, port, false);
}

void vb_ethernet_replenished(struct vb_link *link)
{
	struct vb_ethernet_link *ethernet = vb_ethernet_link_of(link);

	if (__atomic_load_n(&ethernet->starved, __ATOMIC_SEQ_CST) == 0)
		return;
	__atomic_store_n(&ethernet->replenished, true, __ATOMIC_SEQ_CST);
	vb_schedule_kick(ethernet->schedule);
}

bool vb_ethernet_has_work(struct vb_link *link)
{
	return __atomic_load_n(&vb_ethernet_link_of(link)->replenished, __ATOMIC_RELAXED);
}

/* The wake-up may have been used up while another thread was in a pass that had looked already. */
vb_time vb_ethernet_rest(struct vb_link *link, vb_time until)
{
	return vb_ethernet_has_work(link) ? 0 : until;
}
