/* SPDX-License-Identifier: MIT
 *
 * The invariant CRC. What it covers, in this order:
 *
 *   InfiniBand              its headers, masked (wire/ib_route.h); else
 *   8 bytes of ones         where InfiniBand would have its local route header
 *   IP header               IPv4: TOS, TTL and checksum as ones. IPv6: traffic class, flow label and hop limit as ones
 *   UDP header              checksum as ones
 *   BTH                     byte 4 (FECN, BECN, reserved) as ones
 *   all the rest up to the ICRC
 *
 * IPv4 headers are taken to have no options and the don't-fragment bit, as RoCEv2 demands (annex A17.4.3.1).
 */
#include "wire/icrc.h"

#include <pthread.h>
#include <string.h>

#include "base/crc.h"
#include "base/inline.h"
#include "wire/ib_route.h"
#include "wire/roce_packet.h"

enum {
	ONES = 8,
	IPV4_LENGTH = 20,
	IPV4_TOTAL = 2,                    /* where the length of all stands */
	IPV4_ID = 4,
	IPV6_LENGTH = 40,
	UDP_LENGTH = 8,
	UDP_TOTAL = 4,
	BTH_CONGESTION_BYTE = 4,
};

#define PROTOCOL_UDP 17

_Static_assert(VB_BTH_LENGTH == sizeof(uint64_t) + sizeof(uint32_t), "two words");
_Static_assert(ONES + IPV6_LENGTH + UDP_LENGTH >= VB_IB_MAX_HEADERS, "room for either");

static uint8_t *store_16(uint8_t *at, uint16_t v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
	return at + 2;
}

static uint8_t *put_ipv4(uint8_t *at, const struct vb_path *path, uint16_t id, size_t udp_payload_length)
{
	*at++ = 0x45;
	*at++ = 0xff; /* TOS */
	at = store_16(at, (uint16_t)(IPV4_LENGTH + UDP_LENGTH + udp_payload_length));
	at = store_16(at, id);
	at = store_16(at, 0x4000); /* don't fragment */
	*at++ = 0xff; /* TTL */
	*at++ = PROTOCOL_UDP;
	at = store_16(at, 0xffff); /* checksum */
	memcpy(at, path->source + 12, 4);
	memcpy(at + 4, path->destination + 12, 4);
	return at + 8;
}

static uint8_t *put_ipv6(uint8_t *at, const struct vb_path *path, size_t udp_payload_length)
{
	*at++ = 0x6f; /* version, then traffic class and flow label */
	*at++ = 0xff;
	*at++ = 0xff;
	*at++ = 0xff;
	at = store_16(at, (uint16_t)(UDP_LENGTH + udp_payload_length));
	*at++ = PROTOCOL_UDP;
	*at++ = 0xff; /* hop limit */
	memcpy(at, path->source, 16);
	memcpy(at + 16, path->destination, 16);
	return at + 32;
}

static uint8_t *put_udp(uint8_t *at, const struct vb_path *path, size_t udp_payload_length)
{
	at = store_16(at, path->source_port);
	at = store_16(at, VB_ROCE_PORT);
	at = store_16(at, (uint16_t)(UDP_LENGTH + udp_payload_length));
	return store_16(at, 0xffff);
}

uint32_t vb_icrc_begin(const struct vb_path *path, uint16_t ip_id, size_t udp_payload_length)
{
	uint8_t bytes[ONES + IPV6_LENGTH + UDP_LENGTH], *at = bytes + ONES;

	if (path->framing != VB_FRAMING_UDP)
		return vb_crc32(0, bytes, vb_ib_path_masked(path, udp_payload_length, bytes));
	memset(bytes, 0xff, ONES);
	if (vb_path_is_ipv4(path))
		at = put_ipv4(at, path, ip_id, udp_payload_length);
	else
		at = put_ipv6(at, path, udp_payload_length);
	at = put_udp(at, path, udp_payload_length);
	return vb_crc32(0, bytes, (size_t)(at - bytes));
}

/* What a field of two bytes changes in the CRC after the UDP header, which is linear: by its high byte and by its low one. */
struct effect {
	uint32_t high[256], low[256];
};

/* Of the identification and of the two lengths in an IPv4 packet. */
static struct effect of_id, of_ip_length, of_udp_length;
static pthread_once_t effects_once = PTHREAD_ONCE_INIT;

/* `behind`: bytes of headers from the field on. */
static void fill_effect(struct effect *effect, size_t behind)
{
	uint8_t bytes[IPV4_LENGTH + UDP_LENGTH] = {0};
	uint32_t zero = vb_crc32(0, bytes, behind);

	for (unsigned i = 0; i < 256; i++) {
		bytes[0] = (uint8_t)i;
		effect->high[i] = vb_crc32(0, bytes, behind) ^ zero;
		bytes[0] = 0;
		bytes[1] = (uint8_t)i;
		effect->low[i] = vb_crc32(0, bytes, behind) ^ zero;
		bytes[1] = 0;
	}
}

static void fill_effects(void)
{
	fill_effect(&of_id, IPV4_LENGTH - IPV4_ID + UDP_LENGTH);
	fill_effect(&of_ip_length, IPV4_LENGTH - IPV4_TOTAL + UDP_LENGTH);
	fill_effect(&of_udp_length, UDP_LENGTH - UDP_TOTAL);
}

VB_INLINE uint32_t effect_of(const struct effect *effect, size_t difference)
{
	return effect->high[difference >> 8 & 0xff] ^ effect->low[difference & 0xff];
}

/* Of a payload of that length, where there was none. */
static uint32_t effect_of_length(size_t udp_payload_length)
{
	return effect_of(&of_ip_length, (IPV4_LENGTH + UDP_LENGTH + udp_payload_length) ^ (IPV4_LENGTH + UDP_LENGTH)) ^
	       effect_of(&of_udp_length, (UDP_LENGTH + udp_payload_length) ^ UDP_LENGTH);
}

/* A packet of a train has two hundred nanoseconds in all: what it needs here is one function, not five that call each other. */
static __attribute__((noinline)) void begin_prefix(struct vb_icrc_prefix *prefix, const struct vb_path *path, size_t udp_payload_length)
{
	prefix->udp_payload_length = udp_payload_length;
	if (!prefix->ipv4) {
		pthread_once(&effects_once, fill_effects);
		prefix->ipv4 = vb_path_is_ipv4(path);
		prefix->crc_of_none = prefix->ipv4 ? vb_icrc_begin(path, 0, 0) : 0;
	}
	prefix->crc = prefix->ipv4 ? prefix->crc_of_none ^ effect_of_length(udp_payload_length) :
				     vb_icrc_begin(path, 0, udp_payload_length);
}

VB_INLINE uint32_t begin_again(struct vb_icrc_prefix *prefix, const struct vb_path *path, uint16_t ip_id, size_t udp_payload_length)
{
	if (prefix->udp_payload_length != udp_payload_length)
		begin_prefix(prefix, path, udp_payload_length);
	return prefix->ipv4 ? prefix->crc ^ effect_of(&of_id, ip_id) : prefix->crc;
}

uint32_t vb_icrc_begin_again(struct vb_icrc_prefix *prefix, const struct vb_path *path, uint16_t ip_id,
			     size_t udp_payload_length)
{
	return begin_again(prefix, path, ip_id, udp_payload_length);
}

/* The BTH, with its congestion byte as ones, in two words. From memory to registers in pieces that were stored as such: others
 * would have to wait for the cache. */
VB_INLINE uint64_t load_bth(const uint8_t *bth, uint32_t *second)
{
	static const uint8_t ones[sizeof(uint64_t)] = {[BTH_CONGESTION_BYTE] = 0xff};
	uint64_t first, mask;

	memcpy(&first, bth, sizeof(first));
	memcpy(&mask, ones, sizeof(mask));
	memcpy(second, bth + sizeof(first), sizeof(*second));
	return first | mask;
}

/* Two words that follow each other in memory, as if they were loaded as one. */
VB_INLINE uint64_t pair_of(uint32_t first, uint32_t second)
{
	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? first | (uint64_t)second << 32 : (uint64_t)first << 32 | second;
}

/* Of the headers: a BTH alone, with an AETH or another header of four bytes, with a DETH, with a RETH, or a longer one. */
VB_INLINE uint32_t headers_and_copy(uint32_t crc, const uint8_t *bth, size_t header_length, uint8_t *to, const uint8_t *from, size_t length)
{
	uint64_t first, pair[2];
	uint32_t second, third;

	if (header_length == VB_BTH_LENGTH + sizeof(pair)) {
		first = load_bth(bth, &second);
		memcpy(&pair[0], bth + VB_BTH_LENGTH, sizeof(pair[0]));
		memcpy(&pair[1], bth + VB_BTH_LENGTH + sizeof(pair[0]), sizeof(pair[1]));
		return vb_crc32_words_pair_copy(crc, first, second, pair, to, from, length);
	}
	if (header_length == VB_BTH_LENGTH + sizeof(pair[0])) {
		first = load_bth(bth, &second);
		memcpy(&pair[0], bth + VB_BTH_LENGTH, sizeof(pair[0]));
		return vb_crc32_words_word_copy(crc, first, second, pair[0], to, from, length);
	}
	if (header_length > VB_BTH_LENGTH + VB_AETH_LENGTH)
		return vb_crc32_copy(vb_icrc_headers(crc, bth, header_length), to, from, length);
	first = load_bth(bth, &second);
	if (header_length > VB_BTH_LENGTH) {
		memcpy(&third, bth + VB_BTH_LENGTH, sizeof(third));
		return vb_crc32_pair_copy(crc, first, pair_of(second, third), to, from, length);
	}
	return vb_crc32_words_copy(crc, first, second, to, from, length);
}

uint32_t vb_icrc_headers(uint32_t crc, const uint8_t *bth, size_t length)
{
	uint32_t second;
	uint64_t first = load_bth(bth, &second);

	return vb_crc32_words_bytes(crc, first, second, bth + VB_BTH_LENGTH, length - VB_BTH_LENGTH);
}

uint32_t vb_icrc_headers_copy(uint32_t crc, const uint8_t *bth, size_t header_length, uint8_t *to, const uint8_t *from, size_t length)
{
	return headers_and_copy(crc, bth, header_length, to, from, length);
}

uint32_t vb_icrc_payload(uint32_t crc, const void *bytes, size_t length)
{
	return vb_crc32(crc, bytes, length);
}

uint32_t vb_icrc_payload_copy(uint32_t crc, void *to, const void *from, size_t length)
{
	return vb_crc32_copy(crc, to, from, length);
}

void vb_icrc_store(uint32_t crc, uint8_t out[4])
{
	out[0] = (uint8_t)crc;
	out[1] = (uint8_t)(crc >> 8);
	out[2] = (uint8_t)(crc >> 16);
	out[3] = (uint8_t)(crc >> 24);
}

void vb_icrc_copy_and_store(struct vb_icrc_prefix *prefix, const struct vb_path *path, uint16_t ip_id, uint8_t *datagram,
			    size_t header_length, const uint8_t *payload, size_t length)
{
	uint8_t *to = datagram + header_length;
	uint32_t crc = begin_again(prefix, path, ip_id, header_length + length + VB_ICRC_LENGTH);

	vb_icrc_store(headers_and_copy(crc, datagram, header_length, to, payload, length), to + length);
}

static uint32_t load_icrc(const uint8_t *at)
{
	return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

bool vb_icrc_is_valid(const struct vb_path *path, const uint8_t *datagram, size_t length, uint16_t ip_id_guess)
{
	struct vb_icrc_prefix prefix = {0};

	return vb_icrc_is_valid_again(&prefix, path, datagram, length, ip_id_guess);
}

/* An identification that is not the one foretold, but so far beyond it. */
static bool is_believed(struct vb_icrc_prefix *prefix, uint16_t id, uint16_t jump)
{
	bool near = (uint16_t)(jump + VB_ICRC_BEHIND) < VB_ICRC_BEHIND + VB_ICRC_TRAIN;

	if (prefix->counts && (near || jump < prefix->ahead)) {
		prefix->far |= !near;
		prefix->base = (uint16_t)(prefix->base + jump);
		return true;
	}
	if (id < VB_ICRC_TRAIN) {
		prefix->counts = false;
		prefix->base = 0;
		return true;
	}
	prefix->strange = true;
	if (prefix->strict)
		return false;
	prefix->counts = true;
	prefix->base = (uint16_t)(prefix->base + jump);
	return true;
}

/* `crc`, which is not what was received, was computed with the identification `foretold` over the `covered` bytes before the ICRC: is
 * there one that makes it right? */
static __attribute__((noinline)) bool is_explained(struct vb_icrc_prefix *prefix, const struct vb_path *path,
						    const uint8_t *datagram, size_t covered, uint32_t crc, uint16_t foretold)
{
	uint32_t difference = crc ^ load_icrc(datagram + covered);
	uint16_t id;

	if (!vb_path_is_ipv4(path))
		return false;
	/* Undone down to and including the identification, what is left is the two identifications' difference in the
	 * register's first two bytes; anything in the other two is damage elsewhere. */
	difference = vb_crc32_rewind(difference, IPV4_LENGTH - IPV4_ID + UDP_LENGTH + covered);
	if (difference >> 16 != 0)
		return false;
	id = (uint16_t)(foretold ^ ((difference & 0xff) << 8 | difference >> 8));
	return is_believed(prefix, id, (uint16_t)(id - foretold));
}

bool vb_icrc_is_valid_again(struct vb_icrc_prefix *prefix, const struct vb_path *path, const uint8_t *datagram,
			    size_t length, uint16_t ip_id_guess)
{
	uint16_t foretold = (uint16_t)(prefix->base + ip_id_guess);
	size_t covered = length - VB_ICRC_LENGTH;
	uint32_t crc;

	if (length < VB_BTH_LENGTH + VB_ICRC_LENGTH)
		return false;
	crc = vb_icrc_headers(begin_again(prefix, path, foretold, length), datagram, covered);
	return crc == load_icrc(datagram + covered) || is_explained(prefix, path, datagram, covered, crc, foretold);
}

bool vb_icrc_copy_is_valid(struct vb_icrc_prefix *prefix, const struct vb_path *path, const uint8_t *datagram,
			   size_t length, uint16_t ip_id_guess, size_t header_length, uint8_t *to)
{
	uint16_t foretold = (uint16_t)(prefix->base + ip_id_guess);
	size_t covered = length - VB_ICRC_LENGTH;
	uint32_t crc;

	if (header_length < VB_BTH_LENGTH || length < header_length + VB_ICRC_LENGTH)
		return false;
	crc = headers_and_copy(begin_again(prefix, path, foretold, length), datagram, header_length, to, datagram + header_length,
			       covered - header_length);
	return crc == load_icrc(datagram + covered) || is_explained(prefix, path, datagram, covered, crc, foretold);
}
