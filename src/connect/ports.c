/* SPDX-License-Identifier: MIT
 *
 * The port table: a hash of bindings by port space and port.
 */
#include "connect/ports.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

void vb_connect_ports_init(struct vb_connect_ports *ports)
{
	for (unsigned i = 0; i < VB_CONNECT_PORT_BUCKETS; i++)
		vb_list_init(&ports->bucket[i]);
	ports->count = 0;
}

static struct vb_list *bucket_of(struct vb_connect_ports *ports, uint32_t port_space, uint16_t port)
{
	return &ports->bucket[(port ^ port_space * 0x9e3u) & (VB_CONNECT_PORT_BUCKETS - 1)];
}

static struct vb_connect_binding *binding_at(struct vb_list *node)
{
	return vb_container_of(node, struct vb_connect_binding, node);
}

static bool same_port(const struct vb_connect_binding *binding, uint32_t port_space, uint16_t port)
{
	return binding->port_space == port_space && binding->address.port == port;
}

/* The IPv4 wildcard may come as 0.0.0.0 mapped or as all zeros. */
bool vb_connect_address_is_any(const struct vb_cm_address *address)
{
	static const uint8_t zero[16], mapped[16] = {[10] = 0xff, [11] = 0xff};

	return memcmp(address->gid, zero, 16) == 0 || memcmp(address->gid, mapped, 16) == 0;
}

/* Link-local addresses are addresses of one interface. */
static bool same_address(const struct vb_cm_address *a, const struct vb_cm_address *b)
{
	return memcmp(a->gid, b->gid, 16) == 0 && (a->scope == 0 || b->scope == 0 || a->scope == b->scope);
}

static int check_clash(const struct vb_connect_binding *mine, const struct vb_connect_binding *other, bool reuse)
{
	if (reuse && other->reuse)
		return 0;
	if (mine->family_only && other->family_only && mine->address.family != other->address.family)
		return 0;
	if (vb_connect_address_is_any(&mine->address) || vb_connect_address_is_any(&other->address))
		return -EADDRNOTAVAIL;
	return same_address(&mine->address, &other->address) ? -EADDRINUSE : 0;
}

static int check_port(struct vb_connect_ports *ports, const struct vb_connect_binding *mine, uint32_t port_space,
		      bool reuse)
{
	VB_LIST_FOR_EACH(node, bucket_of(ports, port_space, mine->address.port)) {
		const struct vb_connect_binding *other = binding_at(node);
		int clash;

		if (other == mine || !same_port(other, port_space, mine->address.port))
			continue;
		clash = check_clash(mine, other, reuse);
		if (clash)
			return clash;
	}
	return 0;
}

static bool port_is_unused(struct vb_connect_ports *ports, uint32_t port_space, uint16_t port)
{
	VB_LIST_FOR_EACH(node, bucket_of(ports, port_space, port)) {
		if (same_port(binding_at(node), port_space, port))
			return false;
	}
	return true;
}

static uint16_t choose_port(struct vb_connect_ports *ports, uint32_t port_space, uint32_t start)
{
	const uint32_t range = VB_CONNECT_EPHEMERAL_LAST - VB_CONNECT_EPHEMERAL_FIRST + 1;

	for (uint32_t i = 0; i < range; i++) {
		uint16_t port = (uint16_t)(VB_CONNECT_EPHEMERAL_FIRST + (start % range + i) % range);

		if (port_is_unused(ports, port_space, port))
			return port;
	}
	return 0;
}

int vb_connect_ports_bind(struct vb_connect_ports *ports, struct vb_connect_binding *binding, uint32_t port_space,
			  const struct vb_cm_address *address, uint32_t start)
{
	int error = 0;

	binding->address = *address;
	if (address->port == 0) {
		binding->address.port = choose_port(ports, port_space, start);
		if (binding->address.port == 0)
			error = -EADDRNOTAVAIL;
	} else {
		error = check_port(ports, binding, port_space, binding->reuse);
	}
	if (error)
		return error;
	binding->port_space = port_space;
	vb_list_append(bucket_of(ports, port_space, binding->address.port), &binding->node);
	ports->count++;
	return 0;
}

int vb_connect_ports_listen(struct vb_connect_ports *ports, struct vb_connect_binding *binding)
{
	int error = check_port(ports, binding, binding->port_space, false);

	if (error)
		return error;
	binding->reuse = false;
	binding->listening = true;
	return 0;
}

void vb_connect_ports_release(struct vb_connect_ports *ports, struct vb_connect_binding *binding)
{
	if (binding->port_space == 0)
		return;
	vb_list_remove(&binding->node);
	binding->port_space = 0;
	binding->listening = false;
	ports->count--;
}

static bool listens_for(const struct vb_connect_binding *binding, const struct vb_cm_address *destination)
{
	/* GIDs and IP addresses have nothing to do with each other. */
	if (!binding->listening || vb_cm_address_is_native(&binding->address) != vb_cm_address_is_native(destination))
		return false;
	if (vb_connect_address_is_any(&binding->address))
		return !binding->family_only || binding->address.family == destination->family;
	return binding->address.family == destination->family && same_address(&binding->address, destination);
}

struct vb_connect_binding *vb_connect_ports_listener(struct vb_connect_ports *ports, uint32_t port_space,
						     const struct vb_cm_address *destination)
{
	struct vb_connect_binding *wildcard = NULL;

	VB_LIST_FOR_EACH(node, bucket_of(ports, port_space, destination->port)) {
		struct vb_connect_binding *binding = binding_at(node);

		if (!same_port(binding, port_space, destination->port) || !listens_for(binding, destination))
			continue;
		if (!vb_connect_address_is_any(&binding->address))
			return binding;
		wildcard = binding;
	}
	return wildcard;
}
