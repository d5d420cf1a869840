/* SPDX-License-Identifier: MIT
 *
 * What datagram rsockets say to each other. Interoperates with rdma-core's.
 *
 * A datagram over a UD queue pair begins with the address it comes from:
 *
 *         version (4 or 6), length of this header (8 or 24), port (2), IPv4 address (4) or flow (4), IPv6 address (16)
 *
 * A datagram for a peer whose queue pair is not known yet goes over UDP, to the same address and port, and begins
 * with:
 *
 *         0x55555555 (4), version (4 or 6), operation, length of this header (16 or 28), zero, queue pair number (4),
 *         address of that queue pair (4 or 16)
 *
 * Operation 0 carries a datagram, to be delivered; it is answered with operation 7, which carries nothing. Either way
 * each side learns the other's queue pair. All numbers are big-endian.
 */
#ifndef VB_RDMACM_RSOCKET_DATAGRAM_WIRE_H
#define VB_RDMACM_RSOCKET_DATAGRAM_WIRE_H

#include <stdint.h>
#include <stddef.h>

#include "base/bytes.h"
#include "rdmacm/rsocket/rsocket.h"

enum {
	VB_RDATAGRAM_HEADER_MOST = 24,
	VB_RDATAGRAM_UDP_HEADER_MOST = 28,
};

enum vb_rdatagram_operation {
	VB_RDATAGRAM_DATA = 0,
	VB_RDATAGRAM_ANSWER = 7,
};

struct vb_rdatagram_header_bytes {
	uint8_t version, length;
	uint8_t port[2];                 /* as in a sockaddr: already big-endian */
	union {
		uint8_t v4[4];
		struct {
			uint8_t flow[4];
			uint8_t address[16];
		} v6;
	};
};
_Static_assert(sizeof(struct vb_rdatagram_header_bytes) == VB_RDATAGRAM_HEADER_MOST, "header of a datagram");
_Static_assert(offsetof(struct vb_rdatagram_header_bytes, v4) == 4, "header of a datagram");

struct vb_rdatagram_udp_header_bytes {
	struct be32 tag;
	uint8_t version, operation, length, reserved;
	struct be32 queue_pair;
	uint8_t address[16];             /* IPv4: only the first four */
};
_Static_assert(sizeof(struct vb_rdatagram_udp_header_bytes) == VB_RDATAGRAM_UDP_HEADER_MOST, "header of a UDP message");

/* Header of a datagram from `source`; returns its length. */
size_t vb_rdatagram_header_encode(void *bytes, const union vb_rsocket_address *source);
/* Length of the header, or -EPROTO. */
int vb_rdatagram_header_decode(union vb_rsocket_address *source, const void *bytes, size_t length);

size_t vb_rdatagram_udp_header_encode(void *bytes, enum vb_rdatagram_operation operation, uint32_t queue_pair,
				      const union vb_rsocket_address *address);
/* Length of the header, or -EPROTO; `family` is that of the UDP datagram's source. */
int vb_rdatagram_udp_header_decode(enum vb_rdatagram_operation *operation, uint32_t *queue_pair, int family,
				   const void *bytes, size_t length);

#endif
