/* SPDX-License-Identifier: MIT
 *
 * In which order the kernel holds the sockets of a SO_REUSEPORT group, as far as it is known. Pure.
 *
 * Each socket has a number: its slot, and above that its lane. It is marked with it (io/udp.h), so that a new daemon can trust it.
 *
 * The kernel orders them as they join. When one leaves, the last takes its place. A socket that we make leave is followed here at
 * once. One whose process has not told where it stands (after a daemon's death) leaves when that process dies, unseen: then some other
 * stands lower than is written here.
 *
 * Places are learnt by probes that name an index: who receives one says so. An index behind the end is handed to any socket, by hash.
 * So of two places that one socket reports the lower is true, and the other is empty or behind the end. Unknown places are asked
 * again for as long as there are any: whatever moved unseen moved into one of them, and answers there.
 */
#ifndef VB_DAEMON_GROUP_ORDER_H
#define VB_DAEMON_GROUP_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/daemon_message.h"

enum {
	VB_GROUP_LANES = 256,              /* of all slots: as many as the steering program has room for */
	/* As many as there are slots and lanes, and some that no process claims. */
	VB_GROUP_MEMBERS = VB_DAEMON_SLOTS + VB_GROUP_LANES + 64,
	VB_GROUP_NUMBERS = VB_DAEMON_SLOTS * VB_DAEMON_LANES,
	VB_GROUP_UNKNOWN = 0xffff,
};

_Static_assert(VB_GROUP_NUMBERS <= VB_GROUP_UNKNOWN, "no socket has the number that says that it is not known");

/* Lane 0: the slot's own. */
static inline uint16_t vb_group_number(uint32_t slot, uint32_t lane)
{
	return (uint16_t)(slot | lane << VB_DAEMON_SLOT_BITS);
}

struct vb_group_order {
	unsigned members;
	uint16_t member[VB_GROUP_MEMBERS]; /* number of the socket with that index, or VB_GROUP_UNKNOWN */
	uint64_t nonce[VB_GROUP_MEMBERS];  /* of the probe last sent there; 0: none */
};

/* One joined: that one, or one that is not known. */
void vb_group_order_append(struct vb_group_order *order, uint16_t number);
/* That socket has left. False: its place was not known, and it has not left as far as we know. */
bool vb_group_order_drop(struct vb_group_order *order, uint16_t number);
/* That one stands at `place`, and those before it are not known. */
void vb_group_order_begin(struct vb_group_order *order, uint16_t number, unsigned place);
/* That socket received the probe with this nonce. True: the order is another now. */
bool vb_group_order_seen(struct vb_group_order *order, uint16_t number, uint64_t nonce);

/* Its index, -1: not known. */
int vb_group_order_find(const struct vb_group_order *order, uint16_t number);
unsigned vb_group_order_unknown(const struct vb_group_order *order);

#endif
