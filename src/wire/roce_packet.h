/* SPDX-License-Identifier: MIT
 *
 * A RoCEv2 packet in meaning (struct vb_roce_packet) and in bytes: BTH, extension headers, payload,
 * pad, ICRC, i.e. what stands inside the UDP datagram. Pure functions.
 */
#ifndef VB_WIRE_ROCE_PACKET_H
#define VB_WIRE_ROCE_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "wire/path.h"
#include "wire/psn.h"
#include "wire/roce_opcode.h"

#define VB_BTH_LENGTH 12
#define VB_XRCETH_LENGTH 4
#define VB_DETH_LENGTH 8
#define VB_RETH_LENGTH 16
#define VB_ATOMIC_ETH_LENGTH 28
#define VB_AETH_LENGTH 4
#define VB_ATOMIC_ACK_ETH_LENGTH 8
#define VB_IMMEDIATE_LENGTH 4
#define VB_IETH_LENGTH 4
#define VB_CNP_RESERVED_LENGTH 16
#define VB_PIGGYBACK_LENGTH 8           /* an AETH and a PSN, between two of our own */
#define VB_ICRC_LENGTH 4
#define VB_ROCE_MAX_HEADER (VB_BTH_LENGTH + VB_XRCETH_LENGTH + VB_ATOMIC_ETH_LENGTH) /* the longest: BTH + XRCETH + AtomicETH */
#define VB_DEFAULT_PKEY 0xffff

/* Is it one partition, and at least one of the two a full member of it (IBA 10.9.3)? */
static inline bool vb_pkeys_match(uint16_t a, uint16_t b)
{
	enum { PARTITION = 0x7fff, FULL = 0x8000 };

	return ((a ^ b) & PARTITION) == 0 && ((a | b) & FULL) != 0 && (a & PARTITION) != 0;
}
#define VB_MULTICAST_QPN 0xffffffu

/* AETH syndrome, IBA 9.7.5.1: type in bits 6..5, value in 4..0 */
enum vb_aeth_type { VB_AETH_ACK = 0x00, VB_AETH_RNR_NAK = 0x20, VB_AETH_NAK = 0x60 };
#define VB_AETH_TYPE_MASK 0xe0
#define VB_AETH_VALUE_MASK 0x1f
#define VB_AETH_NO_CREDITS 0x1f

enum vb_nak_code {
	VB_NAK_PSN_SEQUENCE_ERROR = 0,
	VB_NAK_INVALID_REQUEST = 1,
	VB_NAK_REMOTE_ACCESS_ERROR = 2,
	VB_NAK_REMOTE_OPERATIONAL_ERROR = 3,
	VB_NAK_INVALID_RD_REQUEST = 4,
};

struct vb_roce_packet {
	uint8_t opcode;
	const struct vb_roce_opcode *op; /* row of `opcode`; set by decode, and by encode's caller */
	bool solicited, migration_request, ack_request, fecn, becn;
	bool singly;                     /* a READ request: its response may be packets that are each an ONLY (roce/singly.c) */
	bool piggybacks;                 /* a SEND or WRITE of one packet: `aeth` and `acknowledged` go with it (roce/piggyback.c) */
	bool of_datagrams;               /* encode: of a UD queue pair, whatever it says (wire/burst.h); decode: false */
	uint8_t pad;
	uint16_t pkey;
	uint32_t destination_qpn;
	struct psn psn;

	/* Valid where op->headers has the bit. */
	uint32_t srqn;                   /* 24 bits */
	struct vb_roce_reth { uint64_t address; uint32_t rkey, length; } reth;
	struct { uint64_t address, swap_or_add, compare; uint32_t rkey; } atomic;
	struct { uint8_t syndrome; uint32_t msn; } aeth;
	struct psn acknowledged;         /* where it piggybacks: what an ACKNOWLEDGE would be of */
	uint64_t atomic_original;
	struct { uint32_t qkey, source_qpn; } deth;
	struct be32 immediate;           /* opaque to us, in wire order */
	uint32_t invalidate_rkey;

	const uint8_t *payload;          /* decode: points into the datagram; pad excluded */
	uint32_t payload_length;

	struct vb_path from;             /* decode: how it came; `source` is the sender */
};

/* May an acknowledgement go with such a packet? */
static inline bool vb_roce_may_piggyback(const struct vb_roce_opcode *op)
{
	return op->service == VB_SERVICE_RC && op->position == VB_POSITION_ONLY && (op->kind == VB_KIND_SEND || op->kind == VB_KIND_WRITE);
}

/* Of a BTH in bytes. */
static inline uint32_t vb_bth_destination_qpn(const uint8_t *bth)
{
	return (uint32_t)bth[5] << 16 | (uint32_t)bth[6] << 8 | bth[7];
}

static inline struct psn vb_bth_psn(const uint8_t *bth)
{
	return psn_of((uint32_t)bth[9] << 16 | (uint32_t)bth[10] << 8 | bth[11]);
}

enum vb_roce_decode_result {
	VB_PACKET_OK,
	VB_PACKET_TOO_SHORT,
	VB_PACKET_UNKNOWN_OPCODE,
	VB_PACKET_BAD_VERSION,      /* BTH TVer is not 0 */
	VB_PACKET_BAD_PAD,          /* pad longer than the payload, or payload where none may be */
	VB_PACKET_BAD_ICRC,
};

/* Decode the datagram `bytes` that came over `from`. Everything about lengths is validated here; on
 * VB_PACKET_OK all the fields may be used. Checks the ICRC when check_icrc (IPv4: up to the unknown
 * identification field, see wire/icrc.h). `ip_id_guess`: most likely IP identification (segment index in a
 * GRO bundle), only to be quick. */
enum vb_roce_decode_result vb_roce_packet_decode(struct vb_roce_packet *packet, const void *bytes, size_t length,
						 const struct vb_path *from, bool check_icrc, uint16_t ip_id_guess);

/* The same for many packets over one path: `prefix` (wire/icrc.h) keeps what their ICRCs share. NULL: do not check. */
struct vb_icrc_prefix;
enum vb_roce_decode_result vb_roce_packet_decode_again(struct vb_roce_packet *packet, const void *bytes, size_t length,
						       const struct vb_path *from, struct vb_icrc_prefix *prefix,
						       uint16_t ip_id_guess);

/* Write BTH and extension headers of `packet` (fields opcode/op, …, pad) to out[VB_ROCE_MAX_HEADER]; returns their
 * length, with what it piggybacks. payload, pad bytes and ICRC are the caller's. */
size_t vb_roce_packet_encode_headers(const struct vb_roce_packet *packet, uint8_t *out);
/* What encode_headers will return. */
static inline size_t vb_roce_packet_header_length(const struct vb_roce_packet *packet)
{
	return vb_roce_opcode(packet->opcode)->header_length + (packet->piggybacks ? (size_t)VB_PIGGYBACK_LENGTH : 0);
}

/* The BTH that encode_headers wrote to `headers`, with what differs between neighbours of one message. */
void vb_roce_packet_renumber(uint8_t *out, const uint8_t *headers, struct psn psn, bool ack_request);
/* The same of a response, and the AETH that stands behind its BTH. */
void vb_roce_packet_renumber_answer(uint8_t *out, const uint8_t *headers, struct psn psn, bool ack_request);
/* The RETH behind it, of a packet whose place is that far behind that of `packet`. */
void vb_roce_packet_readdress(uint8_t *out, const struct vb_roce_packet *packet, uint64_t offset);
void vb_roce_packet_read_reth(const uint8_t *at, struct vb_roce_reth *out);
/* Does the datagram begin with a BTH of this opcode, QPN and PSN, for the default partition, with no pad and no reserved bits? Cheap,
 * and looks at no byte beyond the BTH: of packets that are like the one before. */
bool vb_roce_packet_is_next(const uint8_t *datagram, size_t length, uint8_t opcode, uint32_t qpn, struct psn psn,
			    bool *ack_request);

const char *vb_roce_decode_result_name(enum vb_roce_decode_result result);

/* The 40 bytes that a UD receive finds before its payload: the GRH of a RoCEv2 packet is its IP header: IPv6 as it
 * came; IPv4 in the last 20 bytes, the first 20 undefined (we zero them). RoCEv2 annex A17.4.5.2. Of InfiniBand's own packets it is
 * the GRH, or zeros where there was none. */
#define VB_GRH_LENGTH 40
void vb_roce_grh_area(uint8_t out[VB_GRH_LENGTH], const struct vb_path *from, uint32_t udp_payload_length);

#endif
