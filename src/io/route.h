/* SPDX-License-Identifier: MIT
 *
 * What the host's routing table says about a destination: which interface, which source address. Addresses are
 * GIDs (IPv4 mapped). Uses rtnetlink's RTM_GETROUTE, which any user may ask.
 */
#ifndef VB_IO_ROUTE_H
#define VB_IO_ROUTE_H

#include <stdbool.h>
#include <stdint.h>

struct vb_route {
	uint32_t interface_index;        /* packets leave here; the loopback for an address of this host */
	uint8_t source[16];              /* what the kernel would send from */
	uint8_t next_hop[16];            /* the router's address, or the destination itself */
	bool local;                      /* the destination is this host */
};

/* `source` NULL: the table chooses. interface_index 0: any (needed for link-local). 0 or -errno: ENETUNREACH,
 * EHOSTUNREACH, EINVAL (a source that is not ours), ... */
int vb_route_lookup(const uint8_t destination[16], const uint8_t *source, uint32_t interface_index, struct vb_route *route);

/* Which interface carries this address of ours. `preferred` (0: none) wins where several do. 0 or -EADDRNOTAVAIL. */
int vb_route_interface_of(const uint8_t address[16], uint32_t preferred, uint32_t *interface_index);

#endif
