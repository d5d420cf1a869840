/* SPDX-License-Identifier: MIT
 *
 * What flow rules look at in an Ethernet frame (ibv_create_flow(3)), brought to fixed places: a rule is a value and a mask of the same
 * layout, and matches when the frame's key, masked, is the value. What a frame does not have is zero, and a byte says whether it is there.
 *
 *   VLAN tags       any number; the key has the first one, and the EtherType behind the last
 *   IPv4            with options; ports only where the fragment begins with them
 *   IPv6            hop-by-hop, routing, destination and fragment headers are passed over: `protocol` is what comes behind
 */
#ifndef VB_WIRE_FLOW_KEY_H
#define VB_WIRE_FLOW_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"

enum {
	VB_ETHERNET_HEADER = 14,
	VB_VLAN_TAG = 4,
	VB_ETHERTYPE_IPV4 = 0x0800,
	VB_ETHERTYPE_VLAN = 0x8100,
	VB_ETHERTYPE_IPV6 = 0x86dd,
	VB_ETHERTYPE_QINQ = 0x88a8,
	VB_PROTOCOL_TCP = 6,
	VB_PROTOCOL_UDP = 17,
	/* As the verbs name the bits of an IPv4 header (ibv_flow_ipv4_ext_filter). */
	VB_IPV4_DONT_FRAGMENT = 2,
	VB_IPV4_MORE_FRAGMENTS = 4,
};

struct vb_flow_key {
	uint8_t destination[6], source[6];
	struct be16 vlan_tag, ether_type;
	uint8_t is_tagged;               /* 1: there is a VLAN tag. So with has_ports */
	uint8_t ip_version;              /* 4, 6, or 0: no whole header of IP */
	uint8_t protocol, has_ports;
	uint8_t traffic_class, hop_limit, ip_flags;
	uint8_t is_fragment;             /* 1: of a longer datagram, the first or a later one */
	struct be32 flow_label;
	struct be16 source_port, destination_port;
	uint8_t source_ip[16], destination_ip[16]; /* IPv4: the first four bytes */
};
_Static_assert(sizeof(struct vb_flow_key) == 64, "compared as eight words");

/* Where things stand in the frame, for code that goes on with it. 0: not there. */
struct vb_flow_layout {
	uint32_t network, transport;
};

/* False: the frame has no whole Ethernet header. `layout` may be NULL. */
bool vb_flow_key_decode(struct vb_flow_key *key, const uint8_t *frame, size_t length, struct vb_flow_layout *layout);

static inline bool vb_flow_key_matches(const struct vb_flow_key *key, const struct vb_flow_key *value, const struct vb_flow_key *mask)
{
	uint64_t k[8], v[8], m[8], differ = 0;

	memcpy(k, key, sizeof(k));
	memcpy(v, value, sizeof(v));
	memcpy(m, mask, sizeof(m));
	for (unsigned i = 0; i < 8; i++)
		differ |= (k[i] & m[i]) ^ v[i];
	return differ == 0;
}

#endif
