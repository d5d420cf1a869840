/* SPDX-License-Identifier: MIT
 *
 * Ports: who is bound to which, per port space, and who listens. The rules are those of the kernel's rdma_cm, which
 * programs know from rdma_bind_addr and rdma_listen:
 *
 *  - Two ids may share a port if both asked to (REUSEADDR), if their addresses differ and neither is the wildcard, or
 *    if they are of different families and both keep to theirs (AFONLY).
 *  - A clash with a wildcard is EADDRNOTAVAIL, with the same address EADDRINUSE.
 *  - A listener has its port and address for itself: REUSEADDR ends with rdma_listen.
 *  - A wildcard listener that is not AFONLY takes requests of both IP versions; one of AF_IB takes those that come by InfiniBand.
 */
#ifndef VB_CONNECT_PORTS_H
#define VB_CONNECT_PORTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "wire/cm_command.h"

enum {
	VB_CONNECT_EPHEMERAL_FIRST = 32768, /* Linux's default ip_local_port_range */
	VB_CONNECT_EPHEMERAL_LAST = 60999,
	VB_CONNECT_PORT_BUCKETS = 4096,     /* a power of two */
};

struct vb_connect_binding {
	struct vb_list node;
	uint32_t port_space;             /* 0: not bound */
	struct vb_cm_address address;
	bool reuse, family_only, listening;
};

struct vb_connect_ports {
	struct vb_list bucket[VB_CONNECT_PORT_BUCKETS];
	unsigned count;
};

void vb_connect_ports_init(struct vb_connect_ports *ports);

/* Bind to `address`; its port 0: an unused one is chosen beginning at the random number `start`, and stands in
 * binding->address. 0, -EADDRINUSE, -EADDRNOTAVAIL (also: no port left). */
int vb_connect_ports_bind(struct vb_connect_ports *ports, struct vb_connect_binding *binding, uint32_t port_space,
			  const struct vb_cm_address *address, uint32_t start);
int vb_connect_ports_listen(struct vb_connect_ports *ports, struct vb_connect_binding *binding);
void vb_connect_ports_release(struct vb_connect_ports *ports, struct vb_connect_binding *binding);

/* The listener for requests to that address and port; NULL: none. */
struct vb_connect_binding *vb_connect_ports_listener(struct vb_connect_ports *ports, uint32_t port_space,
						     const struct vb_cm_address *destination);

bool vb_connect_address_is_any(const struct vb_cm_address *address);

#endif
