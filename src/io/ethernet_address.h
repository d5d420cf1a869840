/* SPDX-License-Identifier: MIT
 *
 * Which Ethernet address a GID has, for RoCEv1 (io/ethernet.h), in one of these ways:
 *
 *   multicast          33:33 and the last four bytes
 *   fe80::, an EUI-64  the address that it was made of
 *   else               the kernel's neighbour table. Where that has none, the kernel is made to ask for it
 *
 * The table is asked once a second for each GID that is sent to. Any thread may ask.
 */
#ifndef VB_IO_ETHERNET_ADDRESS_H
#define VB_IO_ETHERNET_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

struct vb_ethernet_addresses;
struct vb_path;

/* NULL: out of memory. */
struct vb_ethernet_addresses *vb_ethernet_addresses_create(void);
void vb_ethernet_addresses_destroy(struct vb_ethernet_addresses *addresses);

/* Of the destination of a path, which names the interface. False: it is not known yet. */
bool vb_ethernet_address_find(struct vb_ethernet_addresses *addresses, const struct vb_path *path, uint8_t mac[6]);
void vb_ethernet_address_of_group(const uint8_t gid[16], uint8_t mac[6]);

/* Both of a frame on that path, for a capture: one that this host sends by `fd`, or has received. Zeros where one is not known. */
void vb_ethernet_address_pair(struct vb_ethernet_addresses *addresses, int fd, const struct vb_path *path, bool sent,
			      uint8_t destination[6], uint8_t source[6]);

#endif
