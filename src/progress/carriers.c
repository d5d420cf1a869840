/* SPDX-License-Identifier: MIT
 *
 * Which link carries a queue pair, and what the verbs ask of that link. A queue pair's transport is the engine of its wire; changes
 * of state are told to that engine and to every other link, one of which may take the queue pair over (links/link.h).
 */
#include <errno.h>

#include "io/clock.h"
#include "links/shortcut.h"
#include "progress/endpoint_parts.h"
#include "queue/flow.h"
#include "queue/qp.h"

static const struct vb_wire_transport *wire_of(const struct vb_qp *qp)
{
	return vb_container_of(qp->transport, struct vb_wire_transport, transport);
}

static bool is_served(const struct vb_endpoint *endpoint, const struct vb_qp *qp)
{
	return qp->scheduler && !endpoint->schedule.abandoned;
}

static struct vb_link *carrier_of(const struct vb_qp *qp)
{
	const struct vb_binding *binding = qp->scheduler;

	return binding->carrier;
}

/* ---- states ---- */

/* Work that another link carries is none that the wire's engine knows of. What could concern it are the ends and beginnings. */
static bool concerns_wire(const struct vb_qp *qp, enum ibv_qp_state from)
{
	const struct vb_binding *binding = qp->scheduler;

	return !binding || binding->carrier == binding->wire || qp->state == IBV_QPS_RESET || qp->state == IBV_QPS_ERR ||
	       from == IBV_QPS_INIT || from == IBV_QPS_RTR;
}

static void modified(struct vb_qp *qp, enum ibv_qp_state from, int attr_mask, vb_time now)
{
	const struct vb_binding *binding = qp->scheduler;
	const struct vb_transport *engine = wire_of(qp)->engine;

	/* Nothing that is left was the engine's: where it believes to be in the queue is long past. */
	if (binding && binding->carrier != binding->wire && qp->state == IBV_QPS_ERR && engine->resumed)
		engine->resumed(qp);
	if (concerns_wire(qp, from))
		engine->modified(qp, from, attr_mask, now);
	if (!qp->scheduler || vb_schedule_of(qp)->abandoned)
		return;
	for (struct vb_link *link = vb_schedule_of(qp)->links; link; link = link->next)
		if (link->driver->modified)
			link->driver->modified(link, qp, from, attr_mask, now);
}

static void srq_gone(struct vb_qp *qp, const struct vb_srq *srq)
{
	wire_of(qp)->engine->srq_gone(qp, srq);
	if (!qp->scheduler || vb_schedule_of(qp)->abandoned)
		return;
	for (struct vb_link *link = vb_schedule_of(qp)->links; link; link = link->next)
		if (link->driver->srq_gone)
			link->driver->srq_gone(link, qp, srq);
}

void vb_carriers_open(struct vb_endpoint *endpoint)
{
	for (unsigned i = 0; i < VB_WIRES; i++) {
		struct vb_wire_transport *own = &endpoint->transport[i];

		own->wire = endpoint->wire[i];
		if (!own->wire)
			continue;
		own->engine = own->wire->driver->engine;
		own->transport = *own->engine;
		own->transport.modified = modified;
		if (own->engine->srq_gone)
			own->transport.srq_gone = srq_gone;
		/* One engine at a time has a queue pair, so there is room for the larger note. */
		for (const struct vb_link *link = endpoint->schedule.links; link; link = link->next)
			if (link->driver->note_size > own->transport.note_size)
				own->transport.note_size = link->driver->note_size;
	}
}

const struct vb_transport *vb_endpoint_transport(const struct vb_endpoint *endpoint, enum vb_device_kind kind, enum ibv_qp_type type)
{
	return &endpoint->transport[type == IBV_QPT_RAW_PACKET ? VB_WIRE_RAW : (unsigned)kind].transport;
}

int vb_endpoint_prepare(struct vb_endpoint *endpoint, struct vb_qp *qp)
{
	struct vb_link *wire = wire_of(qp)->wire;

	if (endpoint->schedule.abandoned)
		return -ENODEV;
	return wire->driver->prepare ? wire->driver->prepare(wire, qp) : 0;
}

static bool sends_wait(struct vb_qp *qp)
{
	bool wait;

	vb_lock_take(&qp->lock);
	wait = vb_send_queue_count(&qp->send) > 0;
	vb_lock_release(&qp->lock);
	return wait;
}

/* An adapter takes an acknowledgement in when it comes. Ours may lie in a socket still when the queue pair is told to end, most likely
 * because a peer that has all it wanted disconnects: sends that have arrived are not to be flushed. A pass may take a single packet
 * of each socket, and others' traffic need not end. */
static void take_in_what_has_come(struct vb_endpoint *endpoint, const struct vb_qp *qp) VB_UNCHECKED
{
	enum { MOST_PASSES = 256 };
	unsigned lane = vb_endpoint_lane(qp);
	bool more = true;

	vb_lock_take(&endpoint->schedule.progress);
	for (unsigned i = 0; i < MOST_PASSES && more; i++) {
		more = vb_endpoint_pass(endpoint, vb_clock_now(), true);
		/* Not held during the former: a timer of another queue pair of the lane may take it, too. */
		if (lane > 0) {
			vb_lock_take(endpoint->schedule.lane[lane].lock);
			more |= vb_endpoint_pass_lane(endpoint, lane, vb_clock_now(), true);
			vb_lock_release(endpoint->schedule.lane[lane].lock);
		}
	}
	vb_lock_release(&endpoint->schedule.progress);
}

bool vb_endpoint_begin_modify(struct vb_endpoint *endpoint, struct vb_qp *qp, enum ibv_qp_state to, const struct vb_path *path,
			      uint32_t destination_qpn, int table) VB_UNCHECKED /* true: holds the locks of lanes */
{
	bool could_be_elsewhere = false;

	if (to == IBV_QPS_ERR && is_served(endpoint, qp) && sends_wait(qp))
		take_in_what_has_come(endpoint, qp);
	if (!is_served(endpoint, qp) || !vb_qp_has_peer(qp))
		return false;
	for (struct vb_link *link = endpoint->schedule.links; link; link = link->next) {
		could_be_elsewhere = could_be_elsewhere || link->driver->modified;
		if (link->driver->resolve && to == IBV_QPS_RTR && path)
			link->driver->resolve(link, qp, path, destination_qpn, table);
	}
	if (to != IBV_QPS_RESET || !could_be_elsewhere)
		return false;
	vb_lanes_hold(endpoint, qp);
	return true;
}

void vb_endpoint_end_modify(struct vb_endpoint *endpoint, const struct vb_qp *qp, bool begun) VB_UNCHECKED
{
	if (begun)
		vb_lanes_let_go(endpoint, vb_endpoint_lane(qp));
}

/* Of UD: it stays with its wire, whatever way its datagrams take. */
static bool last_datagram_goes_through_memory(const struct vb_qp *qp, struct vb_shortcut *shortcut)
{
	const struct vb_send_wqe *last;

	if (!shortcut || qp->send.head == 0)
		return false;
	last = vb_send_queue_at(&qp->send, qp->send.head - 1);
	return shortcut->is_open(shortcut, &last->datagram.path, last->datagram.qpn >> VB_DAEMON_INDEX_BITS);
}

bool vb_endpoint_goes_through_memory(const struct vb_qp *qp)
{
	const struct vb_binding *binding = qp->scheduler;

	if (binding && qp->type == IBV_QPT_UD)
		return last_datagram_goes_through_memory(qp, binding->wire->schedule->shortcut);
	return binding && __atomic_load_n(&binding->carrier, __ATOMIC_RELAXED) != binding->wire;
}

bool vb_endpoint_goes_past_wire(const struct vb_qp *qp)
{
	for (struct vb_link *link = qp->scheduler ? vb_schedule_of(qp)->links : NULL; link; link = link->next)
		if (link->driver->bypasses && link->driver->bypasses(link, qp))
			return true;
	return false;
}

bool vb_endpoint_addresses(const struct vb_qp *qp, uint8_t local[16], uint8_t peer[16])
{
	struct vb_link *link = qp->scheduler ? carrier_of(qp) : NULL;

	return link && link->driver->addresses && link->driver->addresses(link, qp, local, peer);
}

void vb_endpoint_query_qp(const struct vb_qp *qp, struct vb_transport_status *status)
{
	struct vb_link *link = qp->scheduler ? carrier_of(qp) : NULL;

	if (link && link->driver->query)
		link->driver->query(link, qp, status);
	else
		qp->transport->query(qp, status);
}

void vb_carriers_publish(struct vb_endpoint *endpoint, struct vb_qp *qp)
{
	struct vb_binding *binding = qp->scheduler;

	for (struct vb_link *link = endpoint->schedule.links; link; link = link->next)
		if (link->driver->publish)
			link->driver->publish(link, qp);
	binding->wire = wire_of(qp)->wire;
	vb_link_carry(qp, binding->wire);
}

void vb_carriers_withdraw(struct vb_endpoint *endpoint, struct vb_qp *qp)
{
	for (struct vb_link *link = endpoint->schedule.links; link; link = link->next)
		if (link->driver->withdraw)
			link->driver->withdraw(link, qp);
	vb_link_carry(qp, NULL);
}

/* ---- sending and receiving ---- */

void vb_endpoint_transmit(struct vb_endpoint *endpoint, struct vb_qp *qp, vb_time now)
{
	(void)endpoint;
	vb_link_transmit(qp, now);
}

void vb_endpoint_posted(struct vb_endpoint *endpoint, struct vb_qp *qp, vb_time now)
{
	vb_lock_assert_held(&qp->lock);
	if (is_served(endpoint, qp))
		carrier_of(qp)->driver->posted(carrier_of(qp), qp, now);
}

bool vb_endpoint_place(struct vb_endpoint *endpoint, struct vb_qp *qp, uint64_t address, uint32_t key, const struct iovec *spans,
		       unsigned count)
{
	struct vb_link *link;

	vb_lock_assert_held(&qp->lock);
	if (!is_served(endpoint, qp))
		return false;
	link = carrier_of(qp);
	return link->driver->place && link->driver->place(link, qp, address, key, spans, count);
}

bool vb_endpoint_post_fast(struct vb_endpoint *endpoint, struct vb_qp *qp, const struct ibv_send_wr *wr)
{
	struct vb_link *link;

	vb_lock_assert_held(&qp->lock);
	if (!is_served(endpoint, qp))
		return false;
	link = carrier_of(qp);
	return link->driver->post_fast && link->driver->post_fast(link, qp, wr);
}

void vb_carriers_hurry(struct vb_endpoint *endpoint, struct vb_qp *qp)
{
	if (is_served(endpoint, qp) && carrier_of(qp)->driver->hurry && carrier_of(qp)->driver->hurry(qp))
		vb_schedule_enlist(&endpoint->schedule, qp);
}

void vb_carriers_send_enlisted(struct vb_endpoint *endpoint, struct vb_qp *qp)
{
	vb_lock_assert_held(&endpoint->schedule.progress);
	vb_carriers_hurry(endpoint, qp);
	if (qp->scheduler && vb_schedule_is_enlisted(qp))
		vb_link_transmit(qp, vb_clock_now());
}

void vb_endpoint_send_deferred(struct vb_endpoint *endpoint, struct vb_qp *qp)
{
	bool waits = false;

	vb_lock_take(&qp->lock);
	if (is_served(endpoint, qp)) {
		struct vb_link *link = carrier_of(qp);

		vb_carriers_hurry(endpoint, qp);
		waits = vb_schedule_is_enlisted(qp) || (link->driver->is_behind && link->driver->is_behind(link, qp));
	}
	vb_lock_release(&qp->lock);
	if (!waits)
		return;
	/* With these in hand nothing is on its way. */
	vb_lanes_hold(endpoint, qp);
	vb_lock_take(&qp->lock);
	vb_carriers_send_enlisted(endpoint, qp);
	vb_lock_release(&qp->lock);
	vb_lanes_let_go(endpoint, vb_endpoint_lane(qp));
}

void vb_endpoint_received(struct vb_endpoint *endpoint, struct vb_qp *qp)
{
	struct vb_link *link;

	if (!is_served(endpoint, qp))
		return;
	link = carrier_of(qp);
	if (link->driver->received)
		link->driver->received(link, qp);
}

void vb_endpoint_replenished(struct vb_endpoint *endpoint)
{
	if (endpoint->schedule.abandoned)
		return;
	for (struct vb_link *link = endpoint->schedule.links; link; link = link->next)
		if (link->driver->replenished)
			link->driver->replenished(link);
}

void vb_endpoint_wait_for_pass(struct vb_endpoint *endpoint)
{
	if (endpoint->schedule.abandoned)
		return;
	vb_lock_take(&endpoint->schedule.progress);
	vb_lock_release(&endpoint->schedule.progress);
	vb_lanes_wait_for_passes(endpoint);
}

int vb_endpoint_take(struct vb_endpoint *endpoint, struct vb_poller *poller, const struct vb_cq *cq, int room, struct ibv_wc *wc)
{
	return endpoint->fast ? endpoint->fast->driver->take(endpoint->fast, poller, cq, room, wc) : -1;
}

/* ---- addresses ---- */

int vb_endpoint_admits(struct vb_endpoint *endpoint, const struct vb_path *path)
{
	struct vb_link *wire = endpoint->wire[VB_DEVICE_ROCE];

	return wire->driver->admits(wire, path);
}

uint16_t vb_endpoint_source_port(struct vb_endpoint *endpoint, const struct vb_path *path, uint32_t destination_qpn, unsigned lane)
{
	struct vb_link *wire = endpoint->wire[VB_DEVICE_ROCE];

	return wire->driver->source_port(wire, path, destination_qpn, lane);
}

int vb_endpoint_attach_multicast(struct vb_endpoint *endpoint, struct vb_qp *qp, const uint8_t gid[16],
				 uint32_t interface_index)
{
	struct vb_link *wire;

	if (!vb_gid_is_multicast(gid))
		return -EINVAL;
	if (endpoint->schedule.abandoned)
		return -ENODEV;
	wire = wire_of(qp)->wire;
	return wire->driver->join ? wire->driver->join(wire, qp, gid, interface_index) : -EOPNOTSUPP;
}

int vb_endpoint_detach_multicast(struct vb_endpoint *endpoint, struct vb_qp *qp, const uint8_t gid[16],
				 uint32_t interface_index)
{
	struct vb_link *wire;

	if (!vb_gid_is_multicast(gid))
		return -EINVAL;
	if (endpoint->schedule.abandoned)
		return -ENODEV;
	wire = wire_of(qp)->wire;
	return wire->driver->leave ? wire->driver->leave(wire, qp, gid, interface_index) : -EOPNOTSUPP;
}

/* ---- flow rules ---- */

int vb_endpoint_steer(struct vb_endpoint *endpoint, struct vb_qp *qp, struct vb_flow_rule *rule)
{
	struct vb_link *wire = wire_of(qp)->wire;

	if (!is_served(endpoint, qp))
		return -ENODEV;
	return wire->driver->steer ? wire->driver->steer(wire, qp, rule) : -EOPNOTSUPP;
}

void vb_endpoint_unsteer(struct vb_endpoint *endpoint, struct vb_flow_rule *rule)
{
	struct vb_link *wire = wire_of(rule->qp)->wire;

	if (!endpoint->schedule.abandoned)
		wire->driver->unsteer(wire, rule);
}

/* ---- connections made by librdmacm ---- */

int vb_endpoint_stream_events(struct vb_endpoint *endpoint, enum vb_device_kind kind, vb_handover_show_ids *show)
{
	const struct vb_link *wire = endpoint->wire[kind];

	if (!wire || !wire->driver->report_fd || endpoint->schedule.abandoned)
		return -ENOSYS;
	__atomic_store_n(&endpoint->show_ids[kind], show, __ATOMIC_RELEASE);
	return wire->driver->report_fd(wire);
}

int vb_endpoint_adopt_stream(struct vb_endpoint *endpoint, enum vb_device_kind kind, uint32_t qpn, int table, int fd,
			     const struct vb_handover_terms *terms, uint64_t cookie)
{
	struct vb_link *wire = endpoint->wire[kind];

	if (!wire || !wire->driver->adopt || endpoint->schedule.abandoned)
		return -ENOSYS;
	return wire->driver->adopt(wire, qpn, table, fd, terms, cookie, vb_clock_now());
}

unsigned vb_endpoint_stream_reports(struct vb_endpoint *endpoint, enum vb_device_kind kind, struct vb_handover_report *reports,
				    unsigned room)
{
	struct vb_link *wire = endpoint->wire[kind];

	return wire && wire->driver->report && !endpoint->schedule.abandoned ? wire->driver->report(wire, reports, room) : 0;
}

/* ---- region tables ---- */

/* The one link that has them; NULL: none. */
static struct vb_link *find_tables(struct vb_endpoint *endpoint)
{
	for (struct vb_link *link = endpoint->schedule.links; link; link = link->next)
		if (link->driver->tables)
			return link;
	return NULL;
}

int vb_endpoint_open_table(struct vb_endpoint *endpoint, struct vb_memory_host *host)
{
	struct vb_link *link = endpoint->schedule.abandoned ? NULL : find_tables(endpoint);

	return link ? link->driver->tables->open(link, host) : -1;
}

void vb_endpoint_show_table(struct vb_endpoint *endpoint, int table, const struct vb_memory *memory)
{
	struct vb_link *link = find_tables(endpoint);

	if (table >= 0)
		link->driver->tables->show(link, table, memory);
}

void vb_endpoint_hide_table(struct vb_endpoint *endpoint, int table)
{
	struct vb_link *link = find_tables(endpoint);

	if (table >= 0)
		link->driver->tables->hide(link, table);
}

void vb_endpoint_show_srq(struct vb_endpoint *endpoint, int table, uint32_t number, uint32_t domain, uint32_t pd)
{
	struct vb_link *link = find_tables(endpoint);

	if (table >= 0)
		link->driver->tables->show_srq(link, table, number, domain, pd);
}

void vb_endpoint_hide_srq(struct vb_endpoint *endpoint, int table, uint32_t number)
{
	struct vb_link *link = find_tables(endpoint);

	if (table >= 0 && !endpoint->schedule.abandoned)
		link->driver->tables->hide_srq(link, number);
}

void vb_endpoint_close_table(struct vb_endpoint *endpoint, int table)
{
	struct vb_link *link = find_tables(endpoint);

	if (table >= 0 && !endpoint->schedule.abandoned)
		link->driver->tables->close(link, table);
}
