/* SPDX-License-Identifier: MIT
 *
 * See flow_key.h. Frames come from any host: every length is checked before what it covers is read.
 */
#include "wire/flow_key.h"

enum {
	IPV4_HEADER = 20,
	IPV6_HEADER = 40,
	HOP_BY_HOP = 0,
	ROUTING = 43,
	FRAGMENT = 44,
	DESTINATION_OPTIONS = 60,
	MOST_EXTENSIONS = 8,             /* more than that is an attack, and has no transport header for us */
};

static uint16_t word(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static bool is_vlan(uint16_t type)
{
	return type == VB_ETHERTYPE_VLAN || type == VB_ETHERTYPE_QINQ;
}

/* Returns where the network header begins. */
static size_t decode_link(struct vb_flow_key *key, const uint8_t *frame, size_t length)
{
	size_t at = VB_ETHERNET_HEADER;
	uint16_t type = word(frame + 12);

	memcpy(key->destination, frame, 6);
	memcpy(key->source, frame + 6, 6);
	while (is_vlan(type) && length - at >= VB_VLAN_TAG) {
		if (!key->is_tagged)
			key->vlan_tag = be16_of(word(frame + at));
		key->is_tagged = 1;
		type = word(frame + at + 2);
		at += VB_VLAN_TAG;
	}
	key->ether_type = be16_of(type);
	return at;
}

static void decode_ports(struct vb_flow_key *key, const uint8_t *header, size_t length)
{
	if ((key->protocol != VB_PROTOCOL_TCP && key->protocol != VB_PROTOCOL_UDP) || length < 4)
		return;
	key->has_ports = 1;
	key->source_port = be16_of(word(header));
	key->destination_port = be16_of(word(header + 2));
}

/* Returns the length of the header; 0: there is no transport header behind it. */
static size_t decode_ipv4(struct vb_flow_key *key, const uint8_t *header, size_t length)
{
	size_t own = length < IPV4_HEADER ? 0 : 4 * (size_t)(header[0] & 15);

	if (own < IPV4_HEADER || own > length || header[0] >> 4 != 4)
		return 0;
	key->ip_version = 4;
	key->protocol = header[9];
	key->traffic_class = header[1];
	key->hop_limit = header[8];
	key->ip_flags = (header[6] & 0x40 ? VB_IPV4_DONT_FRAGMENT : 0) | (header[6] & 0x20 ? VB_IPV4_MORE_FRAGMENTS : 0);
	key->is_fragment = (word(header + 6) & 0x3fff) != 0;
	memcpy(key->source_ip, header + 12, 4);
	memcpy(key->destination_ip, header + 16, 4);
	return (word(header + 6) & 0x1fff) != 0 ? 0 : own;
}

/* The same. */
static size_t decode_ipv6(struct vb_flow_key *key, const uint8_t *header, size_t length)
{
	size_t at = IPV6_HEADER;
	uint8_t next;

	if (length < IPV6_HEADER || header[0] >> 4 != 6)
		return 0;
	key->ip_version = 6;
	key->traffic_class = (uint8_t)(header[0] << 4 | header[1] >> 4);
	key->flow_label = be32_of(((uint32_t)header[1] & 15) << 16 | word(header + 2));
	key->hop_limit = header[7];
	memcpy(key->source_ip, header + 8, 16);
	memcpy(key->destination_ip, header + 24, 16);
	next = header[6];
	for (unsigned i = 0; i < MOST_EXTENSIONS; i++) {
		bool is_fragment = next == FRAGMENT;

		key->protocol = next;
		if (next != HOP_BY_HOP && next != ROUTING && next != DESTINATION_OPTIONS && !is_fragment)
			return at;
		if (length - at < 8)
			return 0;
		next = header[at];
		if (is_fragment && (word(header + at + 2) & 0xfff9) != 0)
			key->is_fragment = 1;
		if (is_fragment && (word(header + at + 2) & 0xfff8) != 0) {
			key->protocol = next;
			return 0;
		}
		at += is_fragment ? 8 : 8 * ((size_t)header[at + 1] + 1);
		if (at > length)
			return 0;
	}
	return 0;
}

bool vb_flow_key_decode(struct vb_flow_key *key, const uint8_t *frame, size_t length, struct vb_flow_layout *layout)
{
	struct vb_flow_layout ignored;
	size_t network, own = 0;
	uint16_t type;

	memset(key, 0, sizeof(*key));
	layout = layout ? layout : &ignored;
	*layout = (struct vb_flow_layout){0};
	if (length < VB_ETHERNET_HEADER)
		return false;
	network = decode_link(key, frame, length);
	type = be16_get(key->ether_type);
	if (type == VB_ETHERTYPE_IPV4)
		own = decode_ipv4(key, frame + network, length - network);
	else if (type == VB_ETHERTYPE_IPV6)
		own = decode_ipv6(key, frame + network, length - network);
	if (key->ip_version != 0)
		layout->network = (uint32_t)network;
	if (own == 0)
		return true;
	layout->transport = (uint32_t)(network + own);
	decode_ports(key, frame + layout->transport, length - layout->transport);
	return true;
}
