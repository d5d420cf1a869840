/* SPDX-License-Identifier: MIT
 *
 * Between which addresses a packet travels: all that the headers before its BTH will say. Addresses are GIDs: an IPv4 address stands as
 * ::ffff:a.b.c.d. In InfiniBand's own framing LIDs lead to the peer, and GIDs are there if there is a GRH.
 */
#ifndef VB_WIRE_PATH_H
#define VB_WIRE_PATH_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define VB_ROCE_PORT 4791

enum vb_framing {
	VB_FRAMING_UDP,           /* IP and UDP: RoCEv2 */
	VB_FRAMING_LOCAL,         /* LRH: InfiniBand within a subnet */
	VB_FRAMING_GLOBAL,        /* LRH and GRH */
	VB_FRAMING_ETHERNET,      /* GRH in an Ethernet frame: RoCEv1 */
};

struct vb_path {
	uint8_t source[16];
	uint8_t destination[16];
	uint16_t source_port;     /* UDP, host order; the destination port is always 4791 */
	uint8_t traffic_class;    /* IPv4 TOS / IPv6 traffic class, ECN bits included */
	uint8_t hop_limit;        /* IPv4 TTL */
	uint32_t flow_label;      /* IPv6 only */
	uint32_t interface_index; /* of frames; scope of link-local and multicast destinations; else 0 */
	uint16_t slid, dlid;      /* of framings with LIDs, as is the next; else 0 */
	uint8_t sl;
	uint8_t framing;          /* enum vb_framing */
	uint16_t pkey;            /* of InfiniBand's messages of connection management; else 0: a queue pair knows its own */
};

/* No holes, so that its bytes compare paths. */
_Static_assert(sizeof(struct vb_path) == 52, "struct vb_path has padding");

/* In words: a call of memcmp takes three times as long, and packets ask several times each. */
static inline bool vb_path_equal(const struct vb_path *a, const struct vb_path *b)
{
	uint64_t left[6], right[6];
	uint32_t left_end, right_end;

	memcpy(left, a, sizeof(left));
	memcpy(right, b, sizeof(right));
	memcpy(&left_end, (const uint8_t *)a + sizeof(left), sizeof(left_end));
	memcpy(&right_end, (const uint8_t *)b + sizeof(right), sizeof(right_end));
	return ((left[0] ^ right[0]) | (left[1] ^ right[1]) | (left[2] ^ right[2]) | (left[3] ^ right[3]) | (left[4] ^ right[4]) |
		(left[5] ^ right[5]) | (left_end ^ right_end)) == 0;
}

static inline bool vb_gid_is_ipv4(const uint8_t gid[16])
{
	static const uint8_t prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

	return memcmp(gid, prefix, sizeof(prefix)) == 0;
}

/* 127.0.0.0/8 or ::1. */
static inline bool vb_gid_is_loopback(const uint8_t gid[16])
{
	static const uint8_t ipv6[16] = {[15] = 1};

	return vb_gid_is_ipv4(gid) ? gid[12] == 127 : memcmp(gid, ipv6, sizeof(ipv6)) == 0;
}

/* IPv4 groups have two spellings as a GID: ::ffff:224.0.0.0/4 as RoCEv2 says (annex A17.9.1), and ff0e::ffff:a.b.c.d
 * from RoCEv1 times, which rdma_cm may still hand out: this is true for the second. Packets to either travel as IPv4
 * to a.b.c.d; a packet received from the group always shows the first spelling (vb_gid_canonical). */
static inline bool vb_gid_is_ipv4_group_alias(const uint8_t gid[16])
{
	static const uint8_t prefix[12] = {0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

	return memcmp(gid, prefix, sizeof(prefix)) == 0 && (gid[12] & 0xf0) == 0xe0;
}

/* Rewrite the second spelling as the first; any other GID stays as it is. */
static inline void vb_gid_canonical(uint8_t gid[16])
{
	if (vb_gid_is_ipv4_group_alias(gid))
		gid[0] = gid[1] = 0;
}

static inline bool vb_gid_is_multicast(const uint8_t gid[16])
{
	return gid[0] == 0xff || (vb_gid_is_ipv4(gid) && (gid[12] & 0xf0) == 0xe0);
}

/* Could a packet that came by `from` be one of the peer that `path` leads to? */
static inline bool vb_path_leads_back(const struct vb_path *path, const struct vb_path *from)
{
	return memcmp(from->source, path->destination, sizeof(path->destination)) == 0 && from->slid == path->dlid;
}

/* Do its packets travel as IPv4? Then the last four bytes of source and destination are the addresses. */
static inline bool vb_path_is_ipv4(const struct vb_path *path)
{
	return path->framing == VB_FRAMING_UDP && (vb_gid_is_ipv4(path->destination) || vb_gid_is_ipv4_group_alias(path->destination));
}

#endif
