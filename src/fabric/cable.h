/* SPDX-License-Identifier: MIT
 *
 * One end of a cable (wire/cable.h): when to say that we are there, and when the other end is lost.
 */
#ifndef VB_FABRIC_CABLE_H
#define VB_FABRIC_CABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "fabric/node.h"
#include "wire/cable.h"

#define VB_CABLE_INTERVAL VB_MILLISECONDS(100)
/* A process that waits for a processor is silent, too. A port that goes down for that stays so until the subnet manager has found it again;
 * so it does not before connections give up by themselves (2.1 s with the timeout and the retries of most programs). */
#define VB_CABLE_PATIENCE VB_SECONDS(3)
/* There is a reason to think that the other end is dead: does it say nothing for so long? */
#define VB_CABLE_DOUBT VB_MILLISECONDS(500)

/* Where datagrams of a cable come from and go to. */
struct vb_cable_address {
	uint8_t gid[16];                   /* IPv4 mapped */
	uint16_t port;
	uint16_t memory;                   /* number of the cable of memory that is used instead; 0: none */
	uint32_t interface_index;          /* of link-local addresses */
};

struct vb_cable_end {
	struct vb_cable_address address;   /* of the other end */
	uint32_t key;
	struct vb_fabric_port *port;       /* that it is in */
	vb_time next_sign, lost_at;
	vb_time doubted_at;                /* 0: never */
	uint32_t training, seen_training;  /* ours, and the other end's as of its last word */
	bool has_seen;
};

void vb_cable_end_init(struct vb_cable_end *end, const struct vb_cable_address *address, uint32_t key, struct vb_fabric_port *port,
		       vb_time now);
/* Does our end say anything? A cable that was cut, or a port that is disabled, is silent. */
bool vb_cable_end_speaks(const struct vb_cable_end *end);
/* The other end's sign of life. */
void vb_cable_end_heard(struct vb_cable_end *end, vb_time now, const struct vb_cable_keep_alive *sign);
/* Another says that it is in the other end's place. True: wait, the answer is not known yet. */
bool vb_cable_end_doubt(struct vb_cable_end *end, vb_time now);
/* A port of ours went down and up again by a subnet manager's word. */
void vb_cable_end_restarted(struct vb_cable_end *end, vb_time now);
vb_time vb_cable_end_deadline(const struct vb_cable_end *end);
/* True: `out` is to be sent. */
bool vb_cable_end_expire(struct vb_cable_end *end, vb_time now, union vb_cable_message *out);

#endif
