/* SPDX-License-Identifier: MIT
 *
 * Sizes of rsockets: rdma-core's defaults, so that both ends of a mixed pair behave alike.
 */
#ifndef VB_RDMACM_RSOCKET_LIMITS_H
#define VB_RDMACM_RSOCKET_LIMITS_H

#include <stdint.h>

enum {
	VB_RSOCKET_SMALLEST_QUEUE = 16,
	VB_RSOCKET_LARGEST_QUEUE = 0xfffe, /* credits count modulo 2^16 */
	VB_RSOCKET_DEFAULT_QUEUE = 384,
	VB_RSOCKET_DEFAULT_INLINE = 64,
	VB_RSOCKET_DEFAULT_BUFFER = 128 * 1024,
	VB_RSOCKET_CONTROL_SLOTS = 4,    /* of the send queue, for messages that need no credit */
	VB_RSOCKET_LOW_WATER = 2048,     /* writable: at least this much room; also the size of a datagram's buffer */
	VB_RSOCKET_LARGEST_WRITE = 65536,
	VB_RSOCKET_SPIN_MICROSECONDS = 10,
	VB_RSOCKET_WAKE_MILLISECONDS = 500, /* rpoll looks again at least this often: another thread may have taken its wake-up */
	VB_RSOCKET_CLOSE_MILLISECONDS = 10000, /* how long rclose waits for what was sent */
};

/* Work request ids: received messages, or what was sent (a message word of wire.h). */
#define VB_RSOCKET_RECEIVED (UINT64_C(1) << 63)

#endif
