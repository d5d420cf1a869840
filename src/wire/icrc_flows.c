/* SPDX-License-Identifier: MIT
 *
 * See icrc_flows.h.
 */
#include "wire/icrc_flows.h"

#include <string.h>

enum {
	LOST = 256,                      /* sends in a row that may be lost */
	SENDS_PER_MICROSECOND = 16,      /* more than any sender does */
	ANY = 0x10000,
};

struct vb_icrc_flow *vb_icrc_flows_find(struct vb_icrc_flows *flows, const struct vb_path *from)
{
	struct vb_icrc_flow *flow;
	uint32_t address, hash;

	if (!vb_path_is_ipv4(from))
		return NULL;
	memcpy(&address, from->source + 12, sizeof(address));
	hash = (address ^ (uint32_t)from->source_port << 16 ^ from->source_port) * 0x9e3779b1u;
	flow = &flows->flow[hash >> 24];
	if (flow->address != address || flow->port != from->source_port)
		*flow = (struct vb_icrc_flow){.address = address, .port = from->source_port};
	return flow;
}

static uint32_t destination_of(const struct vb_path *from)
{
	uint32_t address;

	memcpy(&address, from->destination + 12, sizeof(address));
	return address;
}

static uint32_t how_far_ahead(const struct vb_icrc_flow *flow, vb_time now)
{
	vb_time apart = now > flow->seen ? now - flow->seen : 0;

	if (apart >= VB_MICROSECONDS(ANY / SENDS_PER_MICROSECOND))
		return ANY;
	return LOST + (uint32_t)(apart * SENDS_PER_MICROSECOND / VB_MICROSECONDS(1));
}

void vb_icrc_flow_begin(const struct vb_icrc_flow *flow, const struct vb_path *from, vb_time now, struct vb_icrc_prefix *prefix)
{
	prefix->strict = flow->strict;
	prefix->counts = flow->counts;
	if (flow->counts) {
		prefix->base = flow->next;
		prefix->ahead = how_far_ahead(flow, now);
	}
	if (!flow->has_crc || flow->destination != destination_of(from))
		return;
	prefix->ipv4 = true;
	prefix->crc_of_none = flow->crc_of_none;
}

void vb_icrc_flow_end(struct vb_icrc_flow *flow, const struct vb_path *from, vb_time since, const struct vb_icrc_prefix *prefix)
{
	if (prefix->ipv4) {
		flow->has_crc = true;
		flow->destination = destination_of(from);
		flow->crc_of_none = prefix->crc_of_none;
	}
	/* Other habits than before, or a counter that others share: to be learned anew, if at all. */
	if (!flow->strict && (prefix->counts != flow->counts || prefix->far))
		flow->good = 0;
	flow->counts = prefix->counts;
	flow->next = prefix->counts ? (uint16_t)(prefix->base + 1) : 0;
	flow->seen = since;
	if (prefix->strange) {
		/* Strict, and struck before: this is no damage. */
		flow->strict = flow->strict && !flow->struck;
		flow->struck = flow->strict;
		flow->good = 0;
	} else if (flow->good < VB_ICRC_LEARNED && ++flow->good == VB_ICRC_LEARNED) {
		flow->strict = true;
		flow->struck = false;
	}
}
