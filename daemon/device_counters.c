/* SPDX-License-Identifier: MIT
 *
 * See device_counters.h.
 */
#include "daemon/device_counters.h"

#include <stdlib.h>

#include "daemon/client.h"
#include "daemon/resource_queries.h"
#include "wire/device_kind.h"

/* More than a host has users and devices. One who comes as thousands of users (user_namespaces(7)) gets no more memory than that:
 * what the processes of further ones have counted goes with them. */
enum { MOST_ROWS = 4096 };

struct row {
	struct vb_list node;
	uid_t uid;
	uint32_t device;                   /* vb_device_index */
	struct vb_counters counters;
};

struct port {
	struct vb_list node;
	uint32_t interface_index;
	bool active;
	uint64_t downed;
};

void vb_device_counters_init(struct vb_device_counters *counters)
{
	counters->rows = 0;
	vb_list_init(&counters->left);
	vb_list_init(&counters->ports);
}

void vb_device_counters_fini(struct vb_device_counters *counters)
{
	VB_LIST_FOR_EACH(node, &counters->left) {
		vb_list_remove(node);
		free(vb_container_of(node, struct row, node));
	}
	VB_LIST_FOR_EACH(node, &counters->ports) {
		vb_list_remove(node);
		free(vb_container_of(node, struct port, node));
	}
}

void vb_counters_add(struct vb_counters *sum, const struct vb_counters *more)
{
#define X(name) sum->name += __atomic_load_n(&more->name, __ATOMIC_RELAXED);
	VB_COUNTERS(X)
#undef X
}

/* ---- processes that ended ---- */

static struct row *find_row(struct vb_device_counters *counters, uid_t uid, uint32_t device)
{
	struct row *row;

	VB_LIST_FOR_EACH(node, &counters->left) {
		row = vb_container_of(node, struct row, node);
		if (row->uid == uid && row->device == device)
			return row;
	}
	row = counters->rows < MOST_ROWS ? calloc(1, sizeof(*row)) : NULL;
	if (!row)
		return NULL;
	row->uid = uid;
	row->device = device;
	vb_list_append(&counters->left, &row->node);
	counters->rows++;
	return row;
}

/* A page has what its process wrote there, which may be anything: indices of devices that are none, too. */
static bool is_known(const struct vb_device_counters *counters, uint32_t device)
{
	VB_LIST_FOR_EACH(node, &counters->ports) {
		const struct port *port = vb_container_of(node, struct port, node);

		for (unsigned kind = 0; kind < VB_DEVICE_KINDS; kind++)
			if (vb_device_index(port->interface_index, (enum vb_device_kind)kind) == device)
				return true;
	}
	return false;
}

void vb_device_counters_keep(struct vb_device_counters *counters, uid_t uid, const struct vb_daemon_page *page)
{
	for (unsigned i = 0; i < VB_DAEMON_PAGE_DEVICES; i++) {
		uint32_t device = __atomic_load_n(&page->device[i].interface_index, __ATOMIC_RELAXED);
		struct row *row;

		if (device == 0)
			break;
		row = is_known(counters, device) ? find_row(counters, uid, device) : NULL;
		if (row)
			vb_counters_add(&row->counters, &page->device[i].counters);
	}
}

/* ---- ports ---- */

static struct port *find_port(const struct vb_device_counters *counters, uint32_t interface_index)
{
	VB_LIST_FOR_EACH(node, &counters->ports) {
		struct port *port = vb_container_of(node, struct port, node);

		if (port->interface_index == interface_index)
			return port;
	}
	return NULL;
}

static void forget(struct vb_device_counters *counters, struct port *port)
{
	VB_LIST_FOR_EACH(node, &counters->left) {
		struct row *row = vb_container_of(node, struct row, node);
		bool is_its = false;

		for (unsigned kind = 0; kind < VB_DEVICE_KINDS; kind++)
			is_its |= row->device == vb_device_index(port->interface_index, (enum vb_device_kind)kind);
		if (!is_its)
			continue;
		vb_list_remove(node);
		free(row);
		counters->rows--;
	}
	vb_list_remove(&port->node);
	free(port);
}

void vb_device_counters_note(struct vb_device_counters *counters, const struct vb_daemon_device *device, bool gone)
{
	struct port *port = find_port(counters, device->interface_index);

	if (gone) {
		if (port)
			forget(counters, port);
		return;
	}
	if (!port) {
		port = calloc(1, sizeof(*port));
		if (!port)
			return;
		port->interface_index = device->interface_index;
		vb_list_append(&counters->ports, &port->node);
	}
	if (port->active && !device->active)
		port->downed++;
	port->active = device->active;
}

/* ---- for those who ask ---- */

static void add_page(struct vb_counters *sum, const struct vb_daemon_page *page, uint32_t device)
{
	for (unsigned i = 0; page && i < VB_DAEMON_PAGE_DEVICES; i++) {
		uint32_t index = __atomic_load_n(&page->device[i].interface_index, __ATOMIC_RELAXED);

		if (index == 0)
			break;
		if (index == device)
			vb_counters_add(sum, &page->device[i].counters);
	}
}

void vb_device_counters_sum(const struct vb_device_counters *counters, const struct vb_list *clients, const struct vb_client *asker,
			    uint32_t interface_index, uint32_t kind, struct vb_daemon_counters *sum)
{
	uint32_t device = vb_device_index(interface_index, (enum vb_device_kind)kind);
	const struct port *port = find_port(counters, interface_index);

	*sum = (struct vb_daemon_counters){0};
	VB_LIST_FOR_EACH(node, &counters->left) {
		const struct row *row = vb_container_of(node, struct row, node);

		if (row->device == device && (asker->peer.uid == 0 || asker->peer.uid == row->uid))
			vb_counters_add(&sum->counters, &row->counters);
	}
	VB_LIST_FOR_EACH(node, clients) {
		const struct vb_client *process = vb_container_of(node, struct vb_client, node);

		if (vb_resource_may_see(asker, process))
			add_page(&sum->counters, process->page, device);
	}
	/* Each process that had the device open has counted it. */
	sum->counters.link_downed = port ? port->downed : 0;
	sum->port = (struct vb_port_figures){
		.port_xmit_data = sum->counters.sent_bytes / 4,
		.port_rcv_data = sum->counters.rcvd_bytes / 4,
		.port_xmit_packets = sum->counters.sent_pkts,
		.port_rcv_packets = sum->counters.rcvd_pkts,
		.port_xmit_discards = sum->counters.send_err,
		.link_downed = sum->counters.link_downed,
	};
}
