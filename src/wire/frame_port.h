/* SPDX-License-Identifier: MIT
 *
 * Frames between a process and verbenad, which is its host's InfiniBand adapter: on a SOCK_SEQPACKET socket of the process's own
 * (OPEN_FRAME_PORT of wire/daemon_message.h). A message is one frame or several, LRH to ICRC, one behind the other: each says in its LRH
 * how long it is. What either side is slow to read is lost, as on a wire.
 *
 *   process -> verbenad   from its queue pairs. The SLID must be the adapter's, the VL is 0
 *   verbenad -> process   for its queue pairs, by the slot in the destination QPN; multicast goes to every process, which knows
 *                         who of its queue pairs listens, and also to the sender
 */
#ifndef VB_WIRE_FRAME_PORT_H
#define VB_WIRE_FRAME_PORT_H

#include <stddef.h>
#include <stdint.h>

#include "wire/ib_packet.h"

enum { VB_FRAME_PORT_MESSAGE = 65536 };

/* The length of the frame that a message begins with; 0: there is no whole one. */
static inline size_t vb_frame_port_next(const uint8_t *bytes, size_t length)
{
	size_t own = length < VB_LRH_LENGTH ? 0 : 4 * (size_t)((bytes[4] & 7) << 8 | bytes[5]);

	return own >= VB_LRH_LENGTH && own <= length ? own : 0;
}

#endif
