/* SPDX-License-Identifier: MIT
 *
 * Which network interfaces there are, with their addresses, and a descriptor that becomes readable when that changes.
 */
#ifndef VB_IO_NETLINK_H
#define VB_IO_NETLINK_H

#include <stdbool.h>
#include <stdint.h>

enum { VB_INTERFACE_ADDRESSES = 64 };

struct vb_interface {
	uint32_t index;
	char name[16];
	bool is_ethernet, is_loopback;     /* ARPHRD_ETHER, ARPHRD_LOOPBACK */
	bool takes_link_local;             /* Ethernet with IPv6: it has an IPv6 link-local address, or will have */
	bool is_up, is_running;            /* IFF_UP, IFF_RUNNING */
	uint32_t mtu;
	uint8_t mac[6];
	uint32_t speed_mbps;               /* 0: not known */
	uint32_t addresses;                /* usable ones: tentative and duplicate IPv6 addresses are not */
	uint8_t address[VB_INTERFACE_ADDRESSES][16]; /* as GIDs */
};

/* A socket told of changes to links and addresses; non-blocking. Descriptor or -errno. */
int vb_netlink_watch(void);
/* Read away what it was told. True: something changed (or was lost): look again. */
bool vb_netlink_drain(int fd);

/* *list is malloc'ed, in order of index. 0 or -errno; -EAGAIN: it changes faster than it can be read. */
int vb_netlink_interfaces(struct vb_interface **list, unsigned *count);

#endif
