/* SPDX-License-Identifier: MIT
 *
 * Sending sockets: a small pool per IP version, made when first needed, each with a UDP source port of its own in
 * 0xC000 .. 0xFFFF.
 *
 * A receiver may merge datagrams of one address/port 4-tuple into a bundle that goes where the first one's QPN says.
 * Packets for two processes must therefore not share a 4-tuple: each destination process gets a port of its own as long
 * as there are unused ones. Lanes of a process (schedule/lane.h) are better off with ports of their own, too, and would soon have all:
 * they have none beyond half of the pool. Where there are more destinations than ports they share those of the other half: a receiver sees
 * by a port of the first that what comes from there is for one process.
 */
#ifndef VB_LINKS_UDP_SOURCE_PORTS_H
#define VB_LINKS_UDP_SOURCE_PORTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mutex.h"
#include "links/udp/counted.h"
#include "wire/burst.h"
#include "wire/path.h"

enum {
	VB_SOURCE_PORT_BITS = 5,
	VB_SOURCE_PORTS = 1 << VB_SOURCE_PORT_BITS,
	VB_SOURCE_PORTS_OF_LANES = VB_SOURCE_PORTS / 2,
	VB_SOURCE_PORTS_NOT_SHARED = VB_SOURCE_PORTS / 2,
	VB_SOURCE_PORT_LOWEST = 0xc000,
};

struct vb_source_port {
	int fd;                            /* atomic: -1 not made yet */
	uint16_t port;                     /* its lowest bits are its index in the pool */
	uint64_t peer;                     /* from where and to whom it was made for */
	struct vb_path own;                /* what the socket says of itself (io/udp.h) */
	struct vb_counted counted;
};

struct vb_source_ports {
	struct vb_mutex lock;
	bool plain;                        /* none of them is connected */
	struct vb_burst_numbers numbers;   /* with which identification runs leave by them */
	struct vb_source_port port[2][VB_SOURCE_PORTS];
};

void vb_source_ports_init(struct vb_source_ports *ports);
void vb_source_ports_fini(struct vb_source_ports *ports);

/* Of a peer of our own: does it send to one process alone from there? */
static inline bool vb_source_port_has_one_destination(uint16_t port)
{
	return port >= VB_SOURCE_PORT_LOWEST && (port & (VB_SOURCE_PORTS - 1)) < VB_SOURCE_PORTS_NOT_SHARED;
}

/* The port for packets on that path (which lacks just this) to the process of that slot, the same for each call; 0: no socket
 * could be made. */
uint16_t vb_source_ports_choose(struct vb_source_ports *ports, const struct vb_path *path, uint32_t slot);
/* The same, between two lanes, ours and the process's, which `lanes` tells from others. */
uint16_t vb_source_ports_choose_lane(struct vb_source_ports *ports, const struct vb_path *path, uint32_t slot, uint32_t lanes);
/* The socket bound to the port, or NULL if it is none of ours. */
struct vb_source_port *vb_source_ports_find(struct vb_source_ports *ports, bool ipv6, uint16_t port);

#endif
