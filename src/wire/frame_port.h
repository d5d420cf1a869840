/* SPDX-License-Identifier: MIT
 *
 * Frames between a process and verbenad, which is its host's InfiniBand adapter: on a SOCK_SEQPACKET socket of the process's own
 * (OPEN_FRAME_PORT of wire/daemon_message.h). A message is one frame or several, LRH to ICRC, one behind the other: each says in its LRH
 * how long it is. What either side is slow to read is lost, as on a wire.
 *
 *   process -> verbenad   from its queue pairs. The SLID must be the adapter's, the VL is 0
 *   verbenad -> process   for its queue pairs, by the slot in the destination QPN; multicast goes to every process, which knows
 *                         who of its queue pairs listens, and also to the sender
 *
 * Data need not pass verbenad: the process also has a UDP socket, connected to the fabric, by which it sends and receives frames as on a
 * cable (wire/cable.h), with the slot's key, once the fabric has said that it knows the slot. What verbenad has to say to it then, and it
 * to verbenad, is in a page that both have mapped. To groups, and to the adapter's own LIDs, frames still go to verbenad, and what
 * comes for groups, or before the fabric knows of the slot, comes from there.
 */
#ifndef VB_WIRE_FRAME_PORT_H
#define VB_WIRE_FRAME_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/ib_packet.h"

enum { VB_FRAME_PORT_MESSAGE = 65536 };

/* All fields are atomic; neither side relies on what the other writes but for its own packets. */
struct vb_frame_page {
	/* verbenad's: */
	uint32_t key;                      /* of the slot */
	uint32_t generation;               /* of SLOT: a new one each time that the adapter joins; 0: it has not */
	uint32_t source;                   /* LIDs to send from: VB_FRAME_SOURCE_ACTIVE, LID << 3, LMC; 0: the port is not active */
	uint32_t reserved;
	/* The process's: what it has sent and received, which verbenad adds to the port's counters. Data in units of four bytes. */
	uint64_t transmit_data, transmit_packets, receive_data, receive_packets, transmit_discards, receive_errors;
};

enum { VB_FRAME_PAGE = 4096 };

#define VB_FRAME_SOURCE_ACTIVE 0x80000000u

_Static_assert(sizeof(struct vb_frame_page) == 64, "page");

static inline bool vb_frame_source_has(uint32_t source, uint16_t slid)
{
	return (source & VB_FRAME_SOURCE_ACTIVE) && (uint16_t)(slid - (source >> 3 & 0xffff)) < 1u << (source & 7);
}

/* The length of the frame that a message begins with; 0: there is no whole one. */
static inline size_t vb_frame_port_next(const uint8_t *bytes, size_t length)
{
	size_t own = length < VB_LRH_LENGTH ? 0 : 4 * (size_t)((bytes[4] & 7) << 8 | bytes[5]);

	return own >= VB_LRH_LENGTH && own <= length ? own : 0;
}

#endif
