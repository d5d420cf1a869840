/* SPDX-License-Identifier: MIT
 *
 * Does a host answer for an address on this link (ARP, neighbour discovery)? The kernel asks the link when something is
 * sent there; rtnetlink, which any user may ask, says how far it has come.
 */
#ifndef VB_IO_NEIGHBOUR_H
#define VB_IO_NEIGHBOUR_H

#include <stdint.h>

#include "base/time.h"
#include "wire/path.h"

enum vb_neighbour {
	VB_NEIGHBOUR_KNOWN,              /* a host answers, or answered not long ago; or the link has no neighbours */
	VB_NEIGHBOUR_ASKED,              /* no host has answered yet */
	VB_NEIGHBOUR_SILENT,             /* no host answered: to be asked again by vb_neighbour_solicit */
	VB_NEIGHBOUR_UNASKED,            /* the kernel has no need to know so far */
};

enum vb_neighbour vb_neighbour_look(const uint8_t address[16], uint32_t interface_index);

/* Let the kernel ask for the next hop to path->destination: one empty datagram to its port 9, which is there to discard
 * them (RFC 863), and which no router passes on. */
void vb_neighbour_solicit(const struct vb_path *path);

/* Wait until a host answers for path->destination on path->interface_index, or none does, or so long. */
void vb_neighbour_await(const struct vb_path *path, vb_time patience);

#endif
