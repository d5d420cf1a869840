/* SPDX-License-Identifier: MIT
 *
 * Times that travel as five-bit codes: how long a requester waits after an RNR NAK (IBA table 45), and how long for
 * an acknowledgement (IBA 9.7.6.1.3).
 */
#ifndef VB_WIRE_RNR_TIMER_H
#define VB_WIRE_RNR_TIMER_H

#include <stdint.h>

#include "base/time.h"

/* The wait that the RNR NAK's low five syndrome bits ask for. Code 0 is the longest: 655.36 ms. */
vb_time vb_rnr_timer_delay(uint8_t code);

/* Local ack timeout: 4.096 us * 2^code for 1..31; 0 means for ever. */
static inline vb_time vb_local_ack_timeout(uint8_t code)
{
	return (code & 0x1f) == 0 ? VB_TIME_NEVER : VB_NANOSECONDS(4096) << (code & 0x1f);
}

#endif
