/* SPDX-License-Identifier: MIT
 *
 * RoCEv2 headers to meaning and back. The layouts are structs of byte-array fields, so that neither alignment nor
 * byte order of the host matters.
 *
 * Peers are hostile: decode looks at no byte before it has checked that it is there, and the caller sees no field of a
 * packet that is not OK.
 */
#include "wire/roce_packet.h"

#include <string.h>

#include "wire/ib_route.h"
#include "wire/icrc.h"

/* IBA 9.2: opcode | SE M Pad TVer | P_Key | F B reserved | DestQP | A reserved | PSN */
struct bth {
	uint8_t opcode;
	uint8_t flags;
	struct be16 pkey;
	uint8_t congestion;
	struct be24 destination_qpn;
	uint8_t ack;
	struct be24 psn;
};

enum { BTH_SOLICITED = 0x80, BTH_MIGRATION = 0x40, BTH_PAD_SHIFT = 4, BTH_PAD_MASK = 3, BTH_VERSION_MASK = 0x0f };
enum { BTH_FECN = 0x80, BTH_BECN = 0x40, BTH_ACK_REQUEST = 0x80 };
/* The seven bits beside it are reserved, and zero but between two of our own. No pattern that comes of one bit too many. */
enum { BTH_RESERVED = 0x7f, BTH_SINGLY = 0x35, BTH_PIGGYBACKS = 0x5a };

struct xrceth { uint8_t reserved; struct be24 srqn; };                                            /* IBA A14 */
struct deth { struct be32 qkey; uint8_t reserved; struct be24 source_qpn; };                      /* IBA 9.3.2 */
struct reth { struct be64 address; struct be32 rkey, length; };                                   /* IBA 9.3.3 */
struct atomic_eth { struct be64 address; struct be32 rkey; struct be64 swap_or_add, compare; };   /* IBA 9.3.4 */
struct aeth { uint8_t syndrome; struct be24 msn; };                                               /* IBA 9.3.5 */
struct piggyback { struct aeth aeth; uint8_t reserved; struct be24 psn; };                         /* roce/piggyback.c */
struct atomic_ack_eth { struct be64 original; };                                                  /* IBA 9.5.3 */
struct ieth { struct be32 rkey; };                                                                /* IBA 9.3.7 */

_Static_assert(sizeof(struct bth) == VB_BTH_LENGTH, "BTH");
_Static_assert(offsetof(struct bth, pkey) == 2 && offsetof(struct bth, destination_qpn) == 5, "BTH");
_Static_assert(offsetof(struct bth, ack) == 8 && offsetof(struct bth, psn) == 9, "BTH");
_Static_assert(sizeof(struct xrceth) == VB_XRCETH_LENGTH && offsetof(struct xrceth, srqn) == 1, "XRCETH");
_Static_assert(sizeof(struct deth) == VB_DETH_LENGTH && offsetof(struct deth, source_qpn) == 5, "DETH");
_Static_assert(sizeof(struct reth) == VB_RETH_LENGTH && offsetof(struct reth, length) == 12, "RETH");
_Static_assert(sizeof(struct atomic_eth) == VB_ATOMIC_ETH_LENGTH && offsetof(struct atomic_eth, compare) == 20,
	       "AtomicETH");
_Static_assert(sizeof(struct aeth) == VB_AETH_LENGTH && offsetof(struct aeth, msn) == 1, "AETH");
_Static_assert(sizeof(struct piggyback) == VB_PIGGYBACK_LENGTH && offsetof(struct piggyback, psn) == 5, "piggyback");
_Static_assert(VB_BTH_LENGTH + VB_RETH_LENGTH + VB_IMMEDIATE_LENGTH + VB_PIGGYBACK_LENGTH <= VB_ROCE_MAX_HEADER, "piggyback");
_Static_assert(sizeof(struct atomic_ack_eth) == VB_ATOMIC_ACK_ETH_LENGTH, "AtomicAckETH");
_Static_assert(sizeof(struct be32) == VB_IMMEDIATE_LENGTH && sizeof(struct ieth) == VB_IETH_LENGTH, "ImmDt, IETH");

/* A word of the wire as a number, and back. The RETH of every packet of a series is read and written by words: gcc for x86-64 does by
 * bytes what base/bytes.h says by bytes where two fields meet, and took 17 ns to write one. */
static uint64_t turned(uint64_t word)
{
	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? __builtin_bswap64(word) : word;
}

void vb_roce_packet_read_reth(const uint8_t *at, struct vb_roce_reth *out)
{
	uint64_t address, rest;

	memcpy(&address, at, sizeof(address));
	memcpy(&rest, at + offsetof(struct reth, rkey), sizeof(rest));
	rest = turned(rest);
	*out = (struct vb_roce_reth){turned(address), (uint32_t)(rest >> 32), (uint32_t)rest};
}

static void read_bth(struct vb_roce_packet *packet, const uint8_t *at)
{
	struct bth bth;

	memcpy(&bth, at, sizeof(bth));
	packet->opcode = bth.opcode;
	packet->solicited = bth.flags & BTH_SOLICITED;
	packet->migration_request = bth.flags & BTH_MIGRATION;
	packet->pad = bth.flags >> BTH_PAD_SHIFT & BTH_PAD_MASK;
	packet->pkey = be16_get(bth.pkey);
	packet->fecn = bth.congestion & BTH_FECN;
	packet->becn = bth.congestion & BTH_BECN;
	packet->of_datagrams = false;
	packet->destination_qpn = be24_get(bth.destination_qpn);
	packet->ack_request = bth.ack & BTH_ACK_REQUEST;
	packet->singly = (bth.ack & BTH_RESERVED) == BTH_SINGLY;
	packet->piggybacks = (bth.ack & BTH_RESERVED) == BTH_PIGGYBACKS;
	packet->psn = psn_of(be24_get(bth.psn));
}

/* In the order of enum vb_roce_header, which is the order on the wire. */
static void read_extensions(struct vb_roce_packet *packet, unsigned headers, const uint8_t *at)
{
	if (headers & VB_HEADER_XRCETH) {
		struct xrceth xrceth;

		memcpy(&xrceth, at, sizeof(xrceth));
		at += sizeof(xrceth);
		packet->srqn = be24_get(xrceth.srqn);
	}
	if (headers & VB_HEADER_DETH) {
		struct deth deth;

		memcpy(&deth, at, sizeof(deth));
		at += sizeof(deth);
		packet->deth.qkey = be32_get(deth.qkey);
		packet->deth.source_qpn = be24_get(deth.source_qpn);
	}
	if (headers & VB_HEADER_RETH) {
		vb_roce_packet_read_reth(at, &packet->reth);
		at += sizeof(struct reth);
	}
	if (headers & VB_HEADER_ATOMIC_ETH) {
		struct atomic_eth atomic;

		memcpy(&atomic, at, sizeof(atomic));
		at += sizeof(atomic);
		packet->atomic.address = be64_get(atomic.address);
		packet->atomic.rkey = be32_get(atomic.rkey);
		packet->atomic.swap_or_add = be64_get(atomic.swap_or_add);
		packet->atomic.compare = be64_get(atomic.compare);
	}
	if (headers & VB_HEADER_AETH) {
		struct aeth aeth;

		memcpy(&aeth, at, sizeof(aeth));
		at += sizeof(aeth);
		packet->aeth.syndrome = aeth.syndrome;
		packet->aeth.msn = be24_get(aeth.msn);
	}
	if (headers & VB_HEADER_ATOMIC_ACK_ETH) {
		struct atomic_ack_eth atomic_ack;

		memcpy(&atomic_ack, at, sizeof(atomic_ack));
		at += sizeof(atomic_ack);
		packet->atomic_original = be64_get(atomic_ack.original);
	}
	if (headers & VB_HEADER_IMMEDIATE) {
		memcpy(&packet->immediate, at, sizeof(packet->immediate));
		at += sizeof(packet->immediate);
	}
	if (headers & VB_HEADER_IETH) {
		struct ieth ieth;

		memcpy(&ieth, at, sizeof(ieth));
		packet->invalidate_rkey = be32_get(ieth.rkey);
	}
}

/* Behind the extension headers, if it is there. */
static void read_piggyback(struct vb_roce_packet *packet)
{
	struct piggyback piggyback;

	packet->piggybacks = vb_roce_may_piggyback(packet->op) && packet->payload_length >= sizeof(piggyback);
	if (!packet->piggybacks)
		return;
	memcpy(&piggyback, packet->payload, sizeof(piggyback));
	packet->aeth.syndrome = piggyback.aeth.syndrome;
	packet->aeth.msn = be24_get(piggyback.aeth.msn);
	packet->acknowledged = psn_of(be24_get(piggyback.psn));
	packet->payload += sizeof(piggyback);
	packet->payload_length -= (uint32_t)sizeof(piggyback);
}

enum vb_roce_decode_result vb_roce_packet_decode(struct vb_roce_packet *packet, const void *bytes, size_t length,
						 const struct vb_path *from, bool check_icrc, uint16_t ip_id_guess)
{
	struct vb_icrc_prefix prefix = {0};

	return vb_roce_packet_decode_again(packet, bytes, length, from, check_icrc ? &prefix : NULL, ip_id_guess);
}

enum vb_roce_decode_result vb_roce_packet_decode_again(struct vb_roce_packet *packet, const void *bytes, size_t length,
						       const struct vb_path *from, struct vb_icrc_prefix *prefix,
						       uint16_t ip_id_guess)
{
	const uint8_t *at = bytes;
	const struct vb_roce_opcode *op;
	size_t after_headers;

	if (length < VB_BTH_LENGTH + VB_ICRC_LENGTH)
		return VB_PACKET_TOO_SHORT;
	if (at[offsetof(struct bth, flags)] & BTH_VERSION_MASK)
		return VB_PACKET_BAD_VERSION;
	op = vb_roce_opcode(at[offsetof(struct bth, opcode)]);
	if (!op->name)
		return VB_PACKET_UNKNOWN_OPCODE;
	if (length < (size_t)op->header_length + VB_ICRC_LENGTH)
		return VB_PACKET_TOO_SHORT;
	after_headers = length - op->header_length - VB_ICRC_LENGTH;
	read_bth(packet, at);
	/* Payload and pad together are a multiple of four bytes (IBA 9.2.1, PadCnt). */
	if (packet->pad > after_headers || after_headers % 4 != 0 || (after_headers && !op->carries_payload))
		return VB_PACKET_BAD_PAD;
	if (prefix && !vb_icrc_is_valid_again(prefix, from, at, length, ip_id_guess))
		return VB_PACKET_BAD_ICRC;

	packet->op = op;
	/* As most have none, they are not asked for one by one. */
	if (op->headers != 0)
		read_extensions(packet, op->headers, at + VB_BTH_LENGTH);
	packet->payload = at + op->header_length;
	packet->payload_length = (uint32_t)(after_headers - packet->pad);
	if (packet->piggybacks)
		read_piggyback(packet);
	packet->from = *from;
	return VB_PACKET_OK;
}

/* In two stores: who reads the header as two words soon after gets them without waiting for the cache, as with single bytes. */
static uint8_t *write_bth(const struct vb_roce_packet *packet, uint8_t *at)
{
	uint8_t flags = (uint8_t)((packet->solicited ? BTH_SOLICITED : 0) | (packet->migration_request ? BTH_MIGRATION : 0) |
				  (packet->pad & BTH_PAD_MASK) << BTH_PAD_SHIFT);
	uint8_t congestion = (uint8_t)((packet->fecn ? BTH_FECN : 0) | (packet->becn ? BTH_BECN : 0));
	uint8_t ack = (uint8_t)((packet->ack_request ? BTH_ACK_REQUEST : 0) | (packet->singly ? BTH_SINGLY : 0) |
				(packet->piggybacks ? BTH_PIGGYBACKS : 0));
	struct be64 first = be64_of((uint64_t)packet->opcode << 56 | (uint64_t)flags << 48 | (uint64_t)packet->pkey << 32 |
				    (uint64_t)congestion << 24 | (packet->destination_qpn & 0xffffff));
	struct be32 second = be32_of((uint32_t)ack << 24 | (packet->psn.v & VB_PSN_MASK));

	memcpy(at, &first, sizeof(first));
	memcpy(at + sizeof(first), &second, sizeof(second));
	return at + sizeof(struct bth);
}

static uint8_t *write_extensions(const struct vb_roce_packet *packet, unsigned headers, uint8_t *at)
{
	if (headers & VB_HEADER_XRCETH) {
		struct xrceth xrceth = {.srqn = be24_of(packet->srqn)};

		memcpy(at, &xrceth, sizeof(xrceth));
		at += sizeof(xrceth);
	}
	if (headers & VB_HEADER_DETH) {
		struct be64 deth = be64_of((uint64_t)packet->deth.qkey << 32 | (packet->deth.source_qpn & 0xffffff));

		memcpy(at, &deth, sizeof(deth));
		at += sizeof(struct deth);
	}
	if (headers & VB_HEADER_RETH) {
		struct reth reth = {
			.address = be64_of(packet->reth.address),
			.rkey = be32_of(packet->reth.rkey),
			.length = be32_of(packet->reth.length),
		};

		memcpy(at, &reth, sizeof(reth));
		at += sizeof(reth);
	}
	if (headers & VB_HEADER_ATOMIC_ETH) {
		struct atomic_eth atomic = {
			.address = be64_of(packet->atomic.address),
			.rkey = be32_of(packet->atomic.rkey),
			.swap_or_add = be64_of(packet->atomic.swap_or_add),
			.compare = be64_of(packet->atomic.compare),
		};

		memcpy(at, &atomic, sizeof(atomic));
		at += sizeof(atomic);
	}
	if (headers & VB_HEADER_AETH) {
		struct aeth aeth = {.syndrome = packet->aeth.syndrome, .msn = be24_of(packet->aeth.msn)};

		memcpy(at, &aeth, sizeof(aeth));
		at += sizeof(aeth);
	}
	if (headers & VB_HEADER_ATOMIC_ACK_ETH) {
		struct atomic_ack_eth atomic_ack = {.original = be64_of(packet->atomic_original)};

		memcpy(at, &atomic_ack, sizeof(atomic_ack));
		at += sizeof(atomic_ack);
	}
	if (headers & VB_HEADER_IMMEDIATE) {
		memcpy(at, &packet->immediate, sizeof(packet->immediate));
		at += sizeof(packet->immediate);
	}
	if (headers & VB_HEADER_IETH) {
		struct ieth ieth = {.rkey = be32_of(packet->invalidate_rkey)};

		memcpy(at, &ieth, sizeof(ieth));
		at += sizeof(ieth);
	}
	if (headers & VB_HEADER_CNP_RESERVED) {
		memset(at, 0, VB_CNP_RESERVED_LENGTH);
		at += VB_CNP_RESERVED_LENGTH;
	}
	return at;
}

static uint8_t *write_piggyback(const struct vb_roce_packet *packet, uint8_t *at)
{
	struct piggyback piggyback = {
		.aeth = {packet->aeth.syndrome, be24_of(packet->aeth.msn)},
		.psn = be24_of(packet->acknowledged.v),
	};

	memcpy(at, &piggyback, sizeof(piggyback));
	return at + sizeof(piggyback);
}

size_t vb_roce_packet_encode_headers(const struct vb_roce_packet *packet, uint8_t *out)
{
	unsigned headers = vb_roce_opcode(packet->opcode)->headers;
	uint8_t *end = write_bth(packet, out);

	if (headers != 0)
		end = write_extensions(packet, headers, end);
	if (packet->piggybacks)
		end = write_piggyback(packet, end);
	return (size_t)(end - out);
}

static uint32_t number_of(struct psn psn, bool ack_request)
{
	return (ack_request ? (uint32_t)BTH_ACK_REQUEST << 24 : 0) | psn.v;
}

void vb_roce_packet_renumber(uint8_t *out, const uint8_t *headers, struct psn psn, bool ack_request)
{
	struct be32 number = be32_of(number_of(psn, ack_request));

	/* Two stores, which those who read it as two words soon after get without waiting for the cache. */
	memcpy(out, headers, offsetof(struct bth, ack));
	memcpy(out + offsetof(struct bth, ack), &number, sizeof(number));
}

void vb_roce_packet_renumber_answer(uint8_t *out, const uint8_t *headers, struct psn psn, bool ack_request)
{
	struct be32 aeth;
	uint64_t rest;

	memcpy(&aeth, headers + VB_BTH_LENGTH, sizeof(aeth));
	rest = turned((uint64_t)number_of(psn, ack_request) << 32 | be32_get(aeth));
	/* Two stores again: its CRC begins with these two words (icrc.c). */
	memcpy(out, headers, offsetof(struct bth, ack));
	memcpy(out + offsetof(struct bth, ack), &rest, sizeof(rest));
}

void vb_roce_packet_readdress(uint8_t *out, const struct vb_roce_packet *packet, uint64_t offset)
{
	uint64_t address = turned(packet->reth.address + offset);
	uint64_t rest = turned((uint64_t)packet->reth.rkey << 32 | packet->reth.length);

	/* Those who sum it read the same two words. */
	memcpy(out + VB_BTH_LENGTH, &address, sizeof(address));
	memcpy(out + VB_BTH_LENGTH + offsetof(struct reth, rkey), &rest, sizeof(rest));
}

bool vb_roce_packet_is_next(const uint8_t *datagram, size_t length, uint8_t opcode, uint32_t qpn, struct psn psn,
			    bool *ack_request)
{
	struct bth bth;

	if (length < VB_BTH_LENGTH + VB_ICRC_LENGTH)
		return false;
	memcpy(&bth, datagram, sizeof(bth));
	*ack_request = bth.ack & BTH_ACK_REQUEST;
	return bth.opcode == opcode && !(bth.ack & BTH_RESERVED) && !(bth.flags & (BTH_VERSION_MASK | BTH_PAD_MASK << BTH_PAD_SHIFT)) &&
	       be16_get(bth.pkey) == VB_DEFAULT_PKEY && be24_get(bth.destination_qpn) == qpn &&
	       be24_get(bth.psn) == psn.v;
}

const char *vb_roce_decode_result_name(enum vb_roce_decode_result result)
{
	switch (result) {
	case VB_PACKET_OK: return "ok";
	case VB_PACKET_TOO_SHORT: return "too short";
	case VB_PACKET_UNKNOWN_OPCODE: return "unknown opcode";
	case VB_PACKET_BAD_VERSION: return "unknown transport version";
	case VB_PACKET_BAD_PAD: return "bad pad or payload length";
	case VB_PACKET_BAD_ICRC: return "bad ICRC";
	}
	return "?";
}

static uint16_t ipv4_checksum(const uint8_t *header)
{
	uint32_t sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += (uint32_t)(header[i] << 8 | header[i + 1]);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static void fill_ipv4_header(uint8_t *out, const struct vb_path *from, uint32_t udp_payload_length)
{
	struct be16 total = be16_of((uint16_t)(20 + 8 + udp_payload_length)), checksum;

	memset(out, 0, 20);
	out[0] = 0x45;
	out[1] = from->traffic_class;
	memcpy(out + 2, &total, 2);
	out[6] = 0x40; /* don't fragment; the identification is not ours to know and stays 0 */
	out[8] = from->hop_limit;
	out[9] = 17;
	memcpy(out + 12, from->source + 12, 4);
	memcpy(out + 16, from->destination + 12, 4);
	checksum = be16_of(ipv4_checksum(out));
	memcpy(out + 10, &checksum, 2);
}

static void fill_ipv6_header(uint8_t *out, const struct vb_path *from, uint32_t udp_payload_length)
{
	struct be32 first = be32_of(6u << 28 | (uint32_t)from->traffic_class << 20 | (from->flow_label & 0xfffff));
	struct be16 payload = be16_of((uint16_t)(8 + udp_payload_length));

	memcpy(out, &first, 4);
	memcpy(out + 4, &payload, 2);
	out[6] = 17;
	out[7] = from->hop_limit;
	memcpy(out + 8, from->source, 16);
	memcpy(out + 24, from->destination, 16);
}

void vb_roce_grh_area(uint8_t out[VB_GRH_LENGTH], const struct vb_path *from, uint32_t udp_payload_length)
{
	if (from->framing != VB_FRAMING_UDP) {
		vb_ib_path_grh(from, udp_payload_length, out);
	} else if (vb_path_is_ipv4(from)) {
		memset(out, 0, 20);
		fill_ipv4_header(out + 20, from, udp_payload_length);
	} else {
		fill_ipv6_header(out, from, udp_payload_length);
	}
}
