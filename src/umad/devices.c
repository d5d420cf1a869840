/* SPDX-License-Identifier: MIT
 *
 * umad_get_ca and what belongs to it. libibumad reads /sys/class/infiniband; we ask verbenad. Its RoCE devices
 * are listed too, as they are elsewhere; they have no port to open. iWARP's are none of libibumad's.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/umad.h>

#include "io/cancellation.h"
#include "io/daemon_client.h"
#include "umad/ports.h"
#include "wire/device_kind.h"
#include "wire/mad_attributes.h"

int vb_umad_debug_level;

enum { CA_TYPE = 1, PHYSICAL_DISABLED = 3, ETHERNET_CAPABILITIES = 0x00010000 };

struct listing {
	struct vb_umad_device *devices;
	int count;
};

static bool take_device(void *context, const struct vb_daemon_message *message, const int *fds, unsigned count)
{
	struct listing *listing = context;
	struct vb_umad_device *device = &listing->devices[listing->count];

	(void)fds;
	(void)count;
	if (listing->count == VB_UMAD_DEVICES)
		return true;
	if (message->header.type == VB_DAEMON_ADAPTER) {
		*device = (struct vb_umad_device){.is_infiniband = true, .adapter = message->adapter};
		memcpy(device->name, message->adapter.name, sizeof(message->adapter.name));
	} else if (message->header.type == VB_DAEMON_DEVICE && message->device.kind == VB_DEVICE_ROCE &&
		   strlen(message->device.name) < sizeof(device->name)) {
		*device = (struct vb_umad_device){.ethernet = message->device};
		memcpy(device->name, message->device.name, strlen(message->device.name));
	} else {
		return true;
	}
	listing->count++;
	return true;
}

int vb_umad_devices(struct vb_umad_device *devices)
{
	VB_UNCANCELLED;
	struct listing listing = {.devices = devices};
	struct vb_daemon_message message;
	struct vb_daemon_client client;
	int error = vb_daemon_client_connect(&client, true);

	if (error != 0)
		return error;
	vb_daemon_message_begin(&message, VB_DAEMON_LIST_ADAPTERS, 0);
	error = vb_daemon_client_request(&client, &message, NULL, 0, take_device, &listing);
	if (error == 0) {
		vb_daemon_message_begin(&message, VB_DAEMON_LIST_DEVICES, 0);
		error = vb_daemon_client_request(&client, &message, NULL, 0, take_device, &listing);
	}
	vb_daemon_client_close(&client);
	return error == 0 ? listing.count : error;
}

static int port_of(const struct vb_umad_device *device)
{
	return device->is_infiniband ? (int)device->adapter.port : 1;
}

/* InfiniBand before Ethernet, active before what is not. */
static int preference(const struct vb_umad_device *device)
{
	if (!device->is_infiniband)
		return 0;
	return device->adapter.state == VB_PORT_ACTIVE ? 3 : device->adapter.state != VB_PORT_DOWN ? 2 : 1;
}

int vb_umad_find(const char *name, int port, struct vb_umad_device *device, int *found_port)
{
	struct vb_umad_device *devices = calloc(VB_UMAD_DEVICES, sizeof(*devices)), *best = NULL;
	int count = devices ? vb_umad_devices(devices) : -ENOMEM;

	for (int i = 0; i < count; i++) {
		if (name && strncmp(devices[i].name, name, sizeof(devices[i].name)) != 0)
			continue;
		if (!best || preference(&devices[i]) > preference(best))
			best = &devices[i];
	}
	if (best) {
		*device = *best;
		*found_port = port > 0 ? port : port_of(best);
	}
	free(devices);
	return best ? 0 : count < 0 ? count : -ENODEV;
}

/* ---- the public functions ---- */

static unsigned rate_of(const struct vb_daemon_adapter *adapter)
{
	static const struct { unsigned bit, lanes; } widths[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
	unsigned lanes = 1, tenths = adapter->speed == 1 ? 25 : adapter->speed == 2 ? 50 : 100;

	for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++)
		if (widths[i].bit == adapter->width)
			lanes = widths[i].lanes;
	if (adapter->extended)
		tenths = adapter->extended == 1 ? 140 : adapter->extended == 2 ? 250 : adapter->extended == 4 ? 500 : 1000;
	return lanes * tenths / 10;
}

static int fill_infiniband_port(const struct vb_daemon_adapter *adapter, int number, umad_port_t *port)
{
	bool has_cable = (uint32_t)number == adapter->port;
	uint16_t *pkeys = calloc(VB_DAEMON_ADAPTER_PKEYS, sizeof(*pkeys));

	if (!pkeys)
		return -ENOMEM;
	memcpy(pkeys, adapter->pkeys, sizeof(adapter->pkeys));
	memcpy(port->link_layer, "InfiniBand", sizeof("InfiniBand"));
	port->base_lid = has_cable ? adapter->lid : 0;
	port->lmc = has_cable ? adapter->lmc : 0;
	port->sm_lid = has_cable ? adapter->sm_lid : 0;
	port->sm_sl = has_cable ? adapter->sm_sl : 0;
	port->state = has_cable ? adapter->state : VB_PORT_DOWN;
	port->phys_state = has_cable ? adapter->physical : VB_PHYSICAL_POLLING;
	port->rate = rate_of(adapter);
	port->capmask = htobe32(adapter->capabilities);
	port->gid_prefix = htobe64(adapter->gid_prefix);
	port->port_guid = htobe64(has_cable ? adapter->port_guid : adapter->node_guid + (unsigned)number);
	port->pkeys_size = VB_DAEMON_ADAPTER_PKEYS;
	port->pkeys = pkeys;
	return 0;
}

static int fill_ethernet_port(const struct vb_daemon_device *device, umad_port_t *port)
{
	uint16_t *pkeys = calloc(1, sizeof(*pkeys));

	if (!pkeys)
		return -ENOMEM;
	pkeys[0] = 0xffff;
	memcpy(port->link_layer, "Ethernet", sizeof("Ethernet"));
	port->state = device->active ? VB_PORT_ACTIVE : VB_PORT_DOWN;
	port->phys_state = device->active ? VB_PHYSICAL_LINK_UP : PHYSICAL_DISABLED;
	port->rate = device->speed_mbps / 1000;
	port->capmask = htobe32(ETHERNET_CAPABILITIES);
	port->gid_prefix = htobe64(0xfe80000000000000ull);
	port->port_guid = htobe64(device->guid);
	port->pkeys_size = 1;
	port->pkeys = pkeys;
	return 0;
}

static int fill_port(const struct vb_umad_device *device, int number, umad_port_t *port)
{
	int ports = device->is_infiniband ? (int)device->adapter.ports : 1;

	if (number < 1 || number > ports)
		return -EINVAL;
	memset(port, 0, sizeof(*port));
	memcpy(port->ca_name, device->name, sizeof(port->ca_name));
	port->portnum = number;
	return device->is_infiniband ? fill_infiniband_port(&device->adapter, number, port) : fill_ethernet_port(&device->ethernet, port);
}

int umad_get_cas_names(char cas[][UMAD_CA_NAME_LEN], int max)
{
	struct vb_umad_device *devices = calloc(VB_UMAD_DEVICES, sizeof(*devices));
	int count = devices ? vb_umad_devices(devices) : -ENOMEM;

	if (count > max)
		count = max;
	for (int i = 0; i < count; i++)
		memcpy(cas[i], devices[i].name, UMAD_CA_NAME_LEN);
	free(devices);
	return count < 0 ? 0 : count;
}

int umad_release_port(umad_port_t *port)
{
	if (!port)
		return -ENODEV;
	free(port->pkeys);
	port->pkeys = NULL;
	port->pkeys_size = 0;
	return 0;
}

int umad_release_ca(umad_ca_t *ca)
{
	if (!ca)
		return -ENODEV;
	for (int i = 0; i < UMAD_CA_MAX_PORTS; i++) {
		if (!ca->ports[i])
			continue;
		umad_release_port(ca->ports[i]);
		free(ca->ports[i]);
		ca->ports[i] = NULL;
	}
	return 0;
}

int umad_get_ca(const char *ca_name, umad_ca_t *ca)
{
	struct vb_umad_device device;
	int port, error = vb_umad_find(ca_name, 0, &device, &port);

	if (error != 0)
		return error;
	memset(ca, 0, sizeof(*ca));
	memcpy(ca->ca_name, device.name, sizeof(ca->ca_name));
	ca->node_type = CA_TYPE;
	snprintf(ca->fw_ver, sizeof(ca->fw_ver), "verbena");
	snprintf(ca->ca_type, sizeof(ca->ca_type), "verbena");
	snprintf(ca->hw_ver, sizeof(ca->hw_ver), "1");
	ca->numports = device.is_infiniband ? (int)device.adapter.ports : 1;
	if (ca->numports >= UMAD_CA_MAX_PORTS)
		ca->numports = UMAD_CA_MAX_PORTS - 1;
	ca->node_guid = htobe64(device.is_infiniband ? device.adapter.node_guid : device.ethernet.guid);
	ca->system_guid = htobe64(device.is_infiniband ? device.adapter.system_guid : device.ethernet.guid);
	for (int i = 1; i <= ca->numports && error == 0; i++) {
		ca->ports[i] = calloc(1, sizeof(*ca->ports[i]));
		error = ca->ports[i] ? fill_port(&device, i, ca->ports[i]) : -ENOMEM;
	}
	if (error != 0)
		umad_release_ca(ca);
	return error;
}

int umad_get_port(const char *ca_name, int portnum, umad_port_t *port)
{
	struct vb_umad_device device;
	int error = vb_umad_find(ca_name, portnum, &device, &portnum);

	return error != 0 ? error : fill_port(&device, portnum, port);
}

int umad_get_ca_portguids(const char *ca_name, __be64 *portguids, int max)
{
	umad_ca_t ca;
	int count;

	if (umad_get_ca(ca_name, &ca) != 0)
		return -ENODEV;
	count = ca.numports + 1;
	if (portguids) {
		if (count > max)
			count = -ENOMEM;
		for (int i = 0; i < count; i++)
			portguids[i] = ca.ports[i] ? ca.ports[i]->port_guid : 0;
	}
	umad_release_ca(&ca);
	return count;
}

/* A subnet manager holds a file open to be known as one. Here it is known by what it registers for; the file need only be there. */
int umad_get_issm_path(const char *ca_name, int portnum, char path[], int max)
{
	struct vb_umad_device device;

	if (vb_umad_find(ca_name, portnum, &device, &portnum) != 0 || !device.is_infiniband)
		return -EINVAL;
	snprintf(path, (size_t)max, "/dev/null");
	return 0;
}

/* ---- lists ---- */

void umad_free_ca_device_list(struct umad_device_node *head)
{
	while (head) {
		struct umad_device_node *next = head->next;

		free((void *)(uintptr_t)head->ca_name);
		free(head);
		head = next;
	}
}

struct umad_device_node *umad_get_ca_device_list(void)
{
	struct umad_device_node *head = NULL, **last = &head;
	char names[VB_UMAD_DEVICES][UMAD_CA_NAME_LEN];
	int count = umad_get_cas_names(names, VB_UMAD_DEVICES);

	errno = 0;
	for (int i = 0; i < count; i++) {
		struct umad_device_node *node = calloc(1, sizeof(*node));

		if (node)
			node->ca_name = strdup(names[i]);
		if (!node || !node->ca_name) {
			free(node);
			umad_free_ca_device_list(head);
			errno = ENOMEM;
			return NULL;
		}
		*last = node;
		last = &node->next;
	}
	return head;
}

static int by_name(const void *a, const void *b)
{
	return strcmp((*(struct umad_device_node *const *)a)->ca_name, (*(struct umad_device_node *const *)b)->ca_name);
}

int umad_sort_ca_device_list(struct umad_device_node **head, size_t size)
{
	struct umad_device_node **nodes;
	size_t count = 0;

	if (!head)
		return EINVAL;
	for (struct umad_device_node *node = *head; node; node = node->next)
		count++;
	if (size != 0 && count != size)
		return EINVAL;
	if (count < 2)
		return 0;
	nodes = calloc(count, sizeof(struct umad_device_node *));
	if (!nodes)
		return ENOMEM;
	count = 0;
	for (struct umad_device_node *node = *head; node; node = node->next)
		nodes[count++] = node;
	qsort(nodes, count, sizeof(struct umad_device_node *), by_name);
	for (size_t i = 0; i + 1 < count; i++)
		nodes[i]->next = nodes[i + 1];
	nodes[count - 1]->next = NULL;
	*head = nodes[0];
	free(nodes);
	return 0;
}
