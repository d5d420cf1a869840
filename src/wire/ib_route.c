/* SPDX-License-Identifier: MIT */
#include "wire/ib_route.h"

#include <string.h>

#include "wire/path.h"

enum { GRH_NEXT_IBA = 0x1b, LENGTH_WORDS = 0x7ff };

static uint16_t load_16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static void store_16(uint8_t *at, uint16_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static bool decode_grh(struct vb_ib_route *route, const uint8_t *grh, size_t left)
{
	if (left < VB_IB_GRH_LENGTH || grh[0] >> 4 != 6 || grh[6] != GRH_NEXT_IBA || load_16(grh + 4) != left - VB_IB_GRH_LENGTH)
		return false;
	route->traffic_class = (uint8_t)(grh[0] << 4 | grh[1] >> 4);
	route->flow_label = (uint32_t)(grh[1] & 0x0f) << 16 | load_16(grh + 2);
	route->hop_limit = grh[7];
	memcpy(route->sgid, grh + 8, 16);
	memcpy(route->dgid, grh + 24, 16);
	return true;
}

size_t vb_ib_route_decode(struct vb_ib_route *route, const uint8_t *lrh, size_t length)
{
	if (length < VB_LRH_LENGTH || (lrh[0] & 0x0f) != 0 || length % 4 != 0 || (load_16(lrh + 4) & LENGTH_WORDS) != length / 4 ||
	    (lrh[1] & 3) < VB_IB_LNH_LOCAL)
		return 0;
	*route = (struct vb_ib_route){
		.vl = lrh[0] >> 4,
		.sl = lrh[1] >> 4,
		.dlid = load_16(lrh + 2),
		.slid = load_16(lrh + 6),
		.has_grh = (lrh[1] & 3) == VB_IB_LNH_GLOBAL,
	};
	if (!route->has_grh)
		return VB_LRH_LENGTH;
	return decode_grh(route, lrh + VB_LRH_LENGTH, length - VB_LRH_LENGTH) ? VB_IB_MAX_HEADERS : 0;
}

static void encode_grh(const struct vb_ib_route *route, size_t bth_length, uint8_t *grh)
{
	grh[0] = (uint8_t)(6 << 4 | route->traffic_class >> 4);
	grh[1] = (uint8_t)(route->traffic_class << 4 | (route->flow_label >> 16 & 0x0f));
	store_16(grh + 2, (uint16_t)route->flow_label);
	store_16(grh + 4, (uint16_t)bth_length);
	grh[6] = GRH_NEXT_IBA;
	grh[7] = route->hop_limit;
	memcpy(grh + 8, route->sgid, 16);
	memcpy(grh + 24, route->dgid, 16);
}

size_t vb_ib_route_encode(const struct vb_ib_route *route, size_t bth_length, uint8_t *out)
{
	size_t headers = VB_LRH_LENGTH + (route->has_grh ? VB_IB_GRH_LENGTH : 0);

	out[0] = (uint8_t)(route->vl << 4);
	out[1] = (uint8_t)(route->sl << 4 | (route->has_grh ? VB_IB_LNH_GLOBAL : VB_IB_LNH_LOCAL));
	store_16(out + 2, route->dlid);
	store_16(out + 4, (uint16_t)((headers + bth_length) / 4));
	store_16(out + 6, route->slid);
	if (route->has_grh)
		encode_grh(route, bth_length, out + VB_LRH_LENGTH);
	return headers;
}

void vb_ib_route_mask(uint8_t *headers)
{
	uint8_t *grh = headers + VB_LRH_LENGTH;

	if ((headers[1] & 3) != VB_IB_LNH_GLOBAL) {
		headers[0] |= 0xf0;
		return;
	}
	memset(headers, 0xff, VB_LRH_LENGTH);
	grh[0] |= 0x0f;
	grh[1] = grh[2] = grh[3] = grh[7] = 0xff;
}

struct vb_ib_route vb_ib_route_of_path(const struct vb_path *path)
{
	struct vb_ib_route route = {
		.dlid = path->dlid,
		.slid = path->slid,
		.sl = path->sl,
		.has_grh = path->framing != VB_FRAMING_LOCAL,
		.traffic_class = path->traffic_class,
		.hop_limit = path->hop_limit,
		.flow_label = path->flow_label,
	};

	memcpy(route.sgid, path->source, sizeof(route.sgid));
	memcpy(route.dgid, path->destination, sizeof(route.dgid));
	return route;
}

struct vb_path vb_ib_route_to_path(const struct vb_ib_route *route)
{
	struct vb_path path = {
		.slid = route->slid,
		.dlid = route->dlid,
		.sl = route->sl,
		.framing = route->has_grh ? VB_FRAMING_GLOBAL : VB_FRAMING_LOCAL,
		.traffic_class = route->traffic_class,
		.hop_limit = route->hop_limit,
		.flow_label = route->flow_label,
	};

	memcpy(path.source, route->sgid, sizeof(path.source));
	memcpy(path.destination, route->dgid, sizeof(path.destination));
	return path;
}

size_t vb_ib_grh_to_path(struct vb_path *path, const uint8_t *grh, size_t length)
{
	struct vb_ib_route route = {.has_grh = true};
	size_t behind;

	if (length < VB_IB_GRH_LENGTH)
		return 0;
	behind = load_16(grh + 4);
	if (behind > length - VB_IB_GRH_LENGTH || behind == 0 || !decode_grh(&route, grh, VB_IB_GRH_LENGTH + behind))
		return 0;
	*path = vb_ib_route_to_path(&route);
	path->framing = VB_FRAMING_ETHERNET;
	return behind;
}

size_t vb_ib_path_masked(const struct vb_path *path, size_t bth_length, uint8_t *out)
{
	struct vb_ib_route route = vb_ib_route_of_path(path);
	size_t length = vb_ib_route_encode(&route, bth_length, out);

	vb_ib_route_mask(out);
	return length;
}

void vb_ib_path_grh(const struct vb_path *from, size_t bth_length, uint8_t out[VB_IB_GRH_LENGTH])
{
	struct vb_ib_route route = vb_ib_route_of_path(from);

	if (route.has_grh)
		encode_grh(&route, bth_length, out);
	else
		memset(out, 0, VB_IB_GRH_LENGTH);
}
