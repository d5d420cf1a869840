/* SPDX-License-Identifier: MIT
 *
 * The invariant CRC (IBA 7.8.1, RoCEv2 annex A17.3.3): CRC-32 over eight bytes of ones, the IP and UDP headers
 * with what routers may change set to ones, the BTH with its congestion byte set to ones, and the rest up to
 * the ICRC, which follows in little-endian order.
 *
 * A UDP socket does not show the IPv4 identification, which the CRC covers. CRC is linear, so the difference
 * between the CRC computed with some identification and the one received tells the identification; if no
 * 16-bit number explains it, the packet is damaged. IPv6 has no such field. Where the sender is known to number in a way that can be
 * foretold, only few are taken for an explanation (wire/icrc_flows.h); what is foretold need not be explained.
 */
#ifndef VB_WIRE_ICRC_H
#define VB_WIRE_ICRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/path.h"

/* State after what stands before the BTH: IP and UDP headers, or InfiniBand's. `udp_payload_length`: from the BTH on, the ICRC included. */
uint32_t vb_icrc_begin(const struct vb_path *path, uint16_t ip_id, size_t udp_payload_length);
/* The same for many packets on one path, of one size as a rule: what they share is computed for the first of them. Begin with zeros. */
struct vb_icrc_prefix {
	size_t udp_payload_length;
	uint32_t crc;                    /* with identification 0 */
	uint32_t crc_of_none;            /* IPv4: the same without payload, from which that of any length is had */
	bool ipv4;

	/* For those that check, what wire/icrc_flows.c foretells; all of it may be left 0. */
	uint16_t base;                   /* identification of the bundle's first packet; moved where another one is found */
	bool counts;                     /* the sender counts on from bundle to bundle; else from 0 in each */
	uint32_t ahead;                  /* of one that counts: so far beyond what is foretold another is believed */
	bool strict;                     /* what is not foretold, and not below VB_ICRC_TRAIN, explains nothing */
	bool strange;                    /* something of that kind would explain, or explained, a packet's ICRC */
	bool far;                        /* explained by one that is believed, but not what comes next */
};
enum {
	VB_ICRC_TRAIN = 64,              /* datagrams of one segmented send */
	VB_ICRC_BEHIND = 128,            /* of one that counts: one that was overtaken, or the next train where this one came in pieces */
};
uint32_t vb_icrc_begin_again(struct vb_icrc_prefix *prefix, const struct vb_path *path, uint16_t ip_id,
			     size_t udp_payload_length);
/* BTH and whatever follows it in the same buffer (BTH's byte 4 is masked on the way). */
uint32_t vb_icrc_headers(uint32_t crc, const uint8_t *bth, size_t length);
/* The same, and `length` bytes of payload behind them that are copied to `to`. */
uint32_t vb_icrc_headers_copy(uint32_t crc, const uint8_t *bth, size_t header_length, uint8_t *to, const uint8_t *from, size_t length);
uint32_t vb_icrc_payload(uint32_t crc, const void *bytes, size_t length);
uint32_t vb_icrc_payload_copy(uint32_t crc, void *to, const void *from, size_t length);
void vb_icrc_store(uint32_t crc, uint8_t out[4]);
/* All of it for one packet of a train, whose headers stand at `datagram`: its payload, which needs no pad, is copied behind them,
 * and the ICRC behind that. */
void vb_icrc_copy_and_store(struct vb_icrc_prefix *prefix, const struct vb_path *path, uint16_t ip_id, uint8_t *datagram,
			    size_t header_length, const uint8_t *payload, size_t length);

/* Is the datagram's ICRC right, for some IP identification in the IPv4 case? The guess counts from the prefix's base. */
bool vb_icrc_is_valid(const struct vb_path *path, const uint8_t *datagram, size_t length, uint16_t ip_id_guess);
bool vb_icrc_is_valid_again(struct vb_icrc_prefix *prefix, const struct vb_path *path, const uint8_t *datagram,
			    size_t length, uint16_t ip_id_guess);
/* The same of a datagram without pad, whose payload begins at `header_length` and is copied to `to` on the way, whether or not
 * the ICRC turns out to be right. */
bool vb_icrc_copy_is_valid(struct vb_icrc_prefix *prefix, const struct vb_path *path, const uint8_t *datagram,
			   size_t length, uint16_t ip_id_guess, size_t header_length, uint8_t *to);

#endif
