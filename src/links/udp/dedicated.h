/* SPDX-License-Identifier: MIT
 *
 * A lane's socket for one flow (io/udp_dedicated.c), beside its own, to which all others come: where short messages are exchanged with one
 * peer, a third of a microsecond less for each.
 *
 * The flow must bring packets for this process alone, or others' would be lost. So it is one of a peer of our own, whose source port says
 * that it has no other destination (source_ports.h). Where that is not so after all, the first packet for another process shows it, and
 * the lane has no such socket any more.
 *
 * It goes when the queue pair that it was made for goes, when much else comes to the lane, so that both sockets had to be looked at all
 * the time, and when verbenad goes, which must know of it.
 *
 * The order of packets stays: those of before are read first, by the lane's own socket when this one is new, and by this one when it has
 * left its flow. Then it is read for a while longer: a packet for which the kernel found it before may still be on its way there.
 *
 * Passes decide, and the engine thread sees to what they want: it asks verbenad, takes the flow away from the socket, closes it. All of it
 * under the lane's lock. `fd` is changed by the engine thread alone, which waits for it as well.
 */
#ifndef VB_LINKS_UDP_DEDICATED_H
#define VB_LINKS_UDP_DEDICATED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "wire/path.h"

enum { VB_DEDICATED_LINGERS_MS = 10 };

enum vb_dedicated_state {
	VB_DEDICATED_NONE,
	VB_DEDICATED_WANTED,               /* to be asked for */
	VB_DEDICATED_ASKED,
	VB_DEDICATED_NEW,                  /* what came before lies in the lane's own */
	VB_DEDICATED_OPEN,
	VB_DEDICATED_UNWANTED,             /* its flow is to be taken away */
	VB_DEDICATED_LEFT,                 /* no more packets are found to be its own */
	VB_DEDICATED_EMPTY,                /* to be closed */
};

struct vb_dedicated {
	enum vb_dedicated_state state;
	int fd;                            /* -1: none */
	uint32_t qpn;                      /* for which it was made; 0: that is gone */
	struct vb_path flow;               /* or that of the last datagram */
	unsigned in_a_row, enough;         /* datagrams of that flow; so many make it worth while */
	unsigned others;                   /* how often something else came of late */
	unsigned passes;
	vb_time left;                      /* when it was first found empty in that state; 0: not yet */
	bool forbidden;                    /* it brought packets for others */
};

void vb_dedicated_init(struct vb_dedicated *dedicated);
/* What it has open. In a forked child, too. */
void vb_dedicated_fini(struct vb_dedicated *dedicated);

/* ---- passes ---- */

/* Something came to the lane's own socket: one datagram of that flow; NULL: anything else. True: it is time to see whether a socket for it
 * could be had. */
bool vb_dedicated_note(struct vb_dedicated *dedicated, const struct vb_path *from);
/* May the flow of a peer of our own have one? */
bool vb_dedicated_suits(const struct vb_path *flow);
/* True of these, and those behind them: the engine thread has something to do. */
bool vb_dedicated_want(struct vb_dedicated *dedicated, uint32_t qpn);
bool vb_dedicated_end(struct vb_dedicated *dedicated);
bool vb_dedicated_forbid(struct vb_dedicated *dedicated);
/* All of before was read: by the lane's own socket of a new one, or by the one that was left. */
bool vb_dedicated_caught_up(struct vb_dedicated *dedicated, vb_time now);
/* The flow's socket brought something; another did. */
void vb_dedicated_came(struct vb_dedicated *dedicated);
bool vb_dedicated_others_came(struct vb_dedicated *dedicated);
/* Is the lane's own socket to be looked at in this pass? */
bool vb_dedicated_looks_beyond(struct vb_dedicated *dedicated);

static inline bool vb_dedicated_is_read(const struct vb_dedicated *dedicated)
{
	return dedicated->state >= VB_DEDICATED_NEW && dedicated->state <= VB_DEDICATED_LEFT;
}

/* ---- the engine thread: struct vb_link_lanes has the words ---- */

bool vb_dedicated_tend(struct vb_dedicated *dedicated, bool connected, struct vb_path *flow);
void vb_dedicated_take(struct vb_dedicated *dedicated, const struct vb_path *flow, int fd);

#endif
