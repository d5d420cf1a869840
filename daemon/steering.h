/* SPDX-License-Identifier: MIT
 *
 * The program by which the kernel hands a packet for port 4791 to the right process: classic BPF that reads the
 * destination QPN from the BTH, takes its upper ten bits as the slot, and finds the socket's index in the group by
 * binary search. Of a slot with lanes the lowest three bits choose the socket; a lane that it does not have is the slot's own.
 *
 * Offset 0 is the first byte behind the UDP header. Probes (wire/daemon_message.h) name their index themselves, so that
 * a new daemon can learn the order of sockets that an old one left without changing the program under running traffic.
 */
#ifndef VB_DAEMON_STEERING_H
#define VB_DAEMON_STEERING_H

#include <stdint.h>

#include "wire/daemon_message.h"

struct sock_filter;

enum {
	VB_STEERING_INSTRUCTIONS = 4096,   /* BPF_MAXINSNS */
	VB_STEERING_LANES = 256,           /* so many of all slots fit */
};

struct vb_steering_entry {
	uint16_t slot;
	uint16_t index;                    /* in the group */
	uint16_t lanes;                    /* bit by lane: which have a socket of their own */
	uint16_t lane_index[VB_DAEMON_LANES];
};

/* Write the program for `entries` (sorted by slot, each once, below VB_DAEMON_SLOTS and not 0, with at most VB_STEERING_LANES lanes);
 * any other slot goes to index `otherwise`. Returns the number of instructions. */
unsigned vb_steering_generate(struct sock_filter *program, const struct vb_steering_entry *entries, unsigned count,
			      uint32_t otherwise);

#endif
