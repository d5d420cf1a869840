/* SPDX-License-Identifier: MIT
 *
 * What the link of a wire asks of the one through memory, where there is one: a way past the wire for WRITEs and READs of a queue pair
 * whose peer may be a process of this host (queue/bypass.h). The queue pair stays with its wire.
 */
#ifndef VB_LINKS_MEETING_H
#define VB_LINKS_MEETING_H

#include <stdint.h>

struct vb_meetings;
struct vb_qp;

/* What the peer has said of itself by wire. */
struct vb_meeting {
	uint8_t gid[16];                   /* where it is */
	uint32_t peer_qpn;
	uint64_t connection;               /* a number that both know and no other process does */
	int table;                         /* of the device of our queue pair */
};

struct vb_meetings {
	/* Find out who that is, and tell the queue pair's engine if there is a way (queue/transport.h, bypassed). Caller holds progress and
	 * qp->lock. */
	void (*meet)(struct vb_meetings *meetings, struct vb_qp *qp, const struct vb_meeting *meeting);
};

#endif
