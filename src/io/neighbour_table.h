/* SPDX-License-Identifier: MIT
 *
 * Which Ethernet address stands behind an address, as the kernel's neighbour table has it. It is looked at, not filled:
 * no host is asked on the network.
 */
#ifndef VB_IO_NEIGHBOUR_TABLE_H
#define VB_IO_NEIGHBOUR_TABLE_H

#include <stdint.h>

/* `address`: a GID. 0 or -errno; -EHOSTUNREACH: it is not known. */
int vb_neighbour_lookup(const uint8_t address[16], uint32_t interface_index, uint8_t mac[6]);

#endif
