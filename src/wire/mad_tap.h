/* SPDX-License-Identifier: MIT
 *
 * What verbenad tells a capture of the MADs that pass its adapter's cable, one message of a SOCK_SEQPACKET socket each: this header, and
 * the frame behind it, LRH to ICRC. What is not read in time is lost.
 */
#ifndef VB_WIRE_MAD_TAP_H
#define VB_WIRE_MAD_TAP_H

#include <stdint.h>

#include "wire/ib_packet.h"

struct vb_mad_tapped {
	int64_t time;                      /* of the monotonic clock */
	uint32_t length;                   /* of the frame, at most VB_IB_MAD_FRAME */
	uint32_t sent;                     /* 1, or 0: received */
};

_Static_assert(sizeof(struct vb_mad_tapped) == 16, "mad_tapped");

#endif
