/* SPDX-License-Identifier: MIT
 *
 * Sending by a socket of the pool that is connected to the peer it was made for. Over IPv4 such a socket counts what it sends, and the
 * ICRC of each packet depends on how far it has come (io/udp_connect.c): so there one thread sends at a time, and knows the number.
 * When a send fails it is not known whether it was counted. Then, and where threads wait for one another too often, the socket is
 * disconnected for good: it sends with identification 0 from then on, as one that never was connected.
 *
 * It is connected at its first send: of those to a process of this host most never have one, since all goes through memory.
 */
#ifndef VB_LINKS_UDP_COUNTED_H
#define VB_LINKS_UDP_COUNTED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"

struct vb_burst;
struct vb_path;
struct vb_source_port;

enum vb_counted_state { VB_COUNTED_PLAIN, VB_COUNTED_UNUSED, VB_COUNTED_CONNECTED };

struct vb_counted {
	enum vb_counted_state state;       /* atomic, changed under `lock`: from UNUSED to one of the others, from CONNECTED to PLAIN */
	bool passed_by;                    /* atomic, a hint: what was to leave by it last went another way */
	uint16_t next;                     /* atomic, under `lock`: identification of the next send */
	unsigned crowd;                    /* under `lock`: how often it was waited for, of late */
	struct vb_lock lock;               /* held while it is connected, and over IPv4 while it sends */
};

void vb_counted_init(struct vb_counted *counted);
/* Before others know of the socket: it is to be connected, if `own` allows it. One that cannot be connected is a plain one. */
void vb_counted_begin(struct vb_counted *counted, const struct vb_path *own);
/* False: it does not count. True: the number may be another one by the time of sending. */
bool vb_counted_next(const struct vb_counted *counted, uint16_t *id);
/* A run with a number of its went another way, by which none has any: until one is sent by it again it is as if it did not count. To take
 * the number away means to sum the whole run once more. */
void vb_counted_pass_by(struct vb_counted *counted);
/* By any socket of the pool. Returns how many packets were not sent. */
uint32_t vb_counted_send(struct vb_source_port *port, struct vb_burst *burst, uint32_t run, uint32_t count);

#endif
