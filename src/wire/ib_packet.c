/* SPDX-License-Identifier: MIT */
#include "wire/ib_packet.h"

#include <string.h>

#include "base/bytes.h"
#include "base/crc.h"
#include "wire/mad.h"
#include "wire/roce_packet.h"

enum {
	UD_SEND_ONLY = 0x64,
	GRH_NEXT_IBA = 0x1b,
	BTH_CONGESTION_BYTE = 4,
	LENGTH_WORDS = 0x7ff,
	MAD_PAYLOAD = VB_BTH_LENGTH + VB_DETH_LENGTH + VB_MAD_LENGTH + VB_ICRC_LENGTH,
};

static uint16_t load_16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static void store_16(uint8_t *at, uint16_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static bool decode_grh(struct vb_ib_frame *frame, const uint8_t *grh, size_t left)
{
	struct vb_ib_route *route = &frame->route;

	if (left < VB_IB_GRH_LENGTH || grh[0] >> 4 != 6 || grh[6] != GRH_NEXT_IBA || load_16(grh + 4) != left - VB_IB_GRH_LENGTH)
		return false;
	route->traffic_class = (uint8_t)(grh[0] << 4 | grh[1] >> 4);
	route->flow_label = (uint32_t)(grh[1] & 0x0f) << 16 | load_16(grh + 2);
	route->hop_limit = grh[7];
	memcpy(route->sgid, grh + 8, 16);
	memcpy(route->dgid, grh + 24, 16);
	return true;
}

bool vb_ib_frame_decode(struct vb_ib_frame *frame, const void *bytes, size_t length)
{
	const uint8_t *lrh = bytes;
	size_t headers = VB_LRH_LENGTH;

	if (length < VB_LRH_LENGTH || length > VB_IB_MAX_FRAME || (lrh[0] & 0x0f) != 0 || length % 4 != 0 ||
	    (load_16(lrh + 4) & LENGTH_WORDS) != length / 4 || (lrh[1] & 3) < VB_IB_LNH_LOCAL)
		return false;
	frame->route = (struct vb_ib_route){
		.vl = lrh[0] >> 4,
		.sl = lrh[1] >> 4,
		.dlid = load_16(lrh + 2),
		.slid = load_16(lrh + 6),
		.has_grh = (lrh[1] & 3) == VB_IB_LNH_GLOBAL,
	};
	if (frame->route.has_grh) {
		if (!decode_grh(frame, lrh + headers, length - headers))
			return false;
		headers += VB_IB_GRH_LENGTH;
	}
	if (length < headers + VB_BTH_LENGTH + VB_ICRC_LENGTH)
		return false;
	frame->bth = lrh + headers;
	frame->bth_length = length - headers;
	return true;
}

size_t vb_ib_route_encode(const struct vb_ib_route *route, size_t bth_length, uint8_t *out)
{
	size_t headers = VB_LRH_LENGTH + (route->has_grh ? VB_IB_GRH_LENGTH : 0);
	uint8_t *grh = out + VB_LRH_LENGTH;

	out[0] = (uint8_t)(route->vl << 4);
	out[1] = (uint8_t)(route->sl << 4 | (route->has_grh ? VB_IB_LNH_GLOBAL : VB_IB_LNH_LOCAL));
	store_16(out + 2, route->dlid);
	store_16(out + 4, (uint16_t)((headers + bth_length) / 4));
	store_16(out + 6, route->slid);
	if (!route->has_grh)
		return headers;
	grh[0] = (uint8_t)(6 << 4 | route->traffic_class >> 4);
	grh[1] = (uint8_t)(route->traffic_class << 4 | (route->flow_label >> 16 & 0x0f));
	store_16(grh + 2, (uint16_t)route->flow_label);
	store_16(grh + 4, (uint16_t)bth_length);
	grh[6] = GRH_NEXT_IBA;
	grh[7] = route->hop_limit;
	memcpy(grh + 8, route->sgid, 16);
	memcpy(grh + 24, route->dgid, 16);
	return headers;
}

uint32_t vb_ib_icrc(const uint8_t *frame, size_t length)
{
	bool global = (frame[1] & 3) == VB_IB_LNH_GLOBAL;
	size_t headers = VB_LRH_LENGTH + (global ? VB_IB_GRH_LENGTH : 0);
	uint8_t masked[VB_LRH_LENGTH + VB_IB_GRH_LENGTH + VB_BTH_LENGTH];

	memcpy(masked, frame, headers + VB_BTH_LENGTH);
	masked[headers + BTH_CONGESTION_BYTE] = 0xff;
	if (global) {
		uint8_t *grh = masked + VB_LRH_LENGTH;

		memset(masked, 0xff, VB_LRH_LENGTH);
		grh[0] |= 0x0f;
		grh[1] = grh[2] = grh[3] = grh[7] = 0xff;
	} else {
		masked[0] |= 0xf0;
	}
	return vb_crc32(vb_crc32(0, masked, headers + VB_BTH_LENGTH), frame + headers + VB_BTH_LENGTH,
			length - headers - VB_BTH_LENGTH - VB_ICRC_LENGTH);
}

static void store_icrc(uint8_t *at, uint32_t crc)
{
	for (unsigned i = 0; i < VB_ICRC_LENGTH; i++)
		at[i] = (uint8_t)(crc >> 8 * i);
}

void vb_ib_frame_seal(uint8_t *frame, size_t length)
{
	store_icrc(frame + length - VB_ICRC_LENGTH, vb_ib_icrc(frame, length));
}

bool vb_ib_icrc_is_valid(const uint8_t *frame, size_t length)
{
	uint8_t icrc[VB_ICRC_LENGTH];

	store_icrc(icrc, vb_ib_icrc(frame, length));
	return memcmp(icrc, frame + length - VB_ICRC_LENGTH, VB_ICRC_LENGTH) == 0;
}

/* Polynomial 0x100b, bits in the order of the wire: reflected. */
uint16_t vb_ib_vcrc(const void *bytes, size_t length)
{
	const uint8_t *at = bytes;
	uint16_t crc = 0xffff;

	for (size_t i = 0; i < length; i++) {
		crc ^= at[i];
		for (unsigned bit = 0; bit < 8; bit++)
			crc = (uint16_t)(crc & 1 ? crc >> 1 ^ 0xd008 : crc >> 1);
	}
	return (uint16_t)~crc;
}

size_t vb_mad_frame_encode(const struct vb_mad_address *address, const struct vb_mad *mad, uint8_t *out)
{
	size_t at = vb_ib_route_encode(&address->route, MAD_PAYLOAD, out);
	struct vb_roce_packet packet = {
		.opcode = UD_SEND_ONLY,
		.op = vb_roce_opcode(UD_SEND_ONLY),
		.pkey = address->pkey,
		.destination_qpn = address->qpn,
		.deth = {.qkey = address->qkey, .source_qpn = address->source_qpn},
	};

	at += vb_roce_packet_encode_headers(&packet, out + at);
	memcpy(out + at, mad, VB_MAD_LENGTH);
	at += VB_MAD_LENGTH + VB_ICRC_LENGTH;
	vb_ib_frame_seal(out, at);
	return at;
}

bool vb_mad_frame_decode(struct vb_mad_address *address, struct vb_mad *mad, const struct vb_ib_frame *frame, const uint8_t *bytes,
			 size_t length)
{
	static const struct vb_path nowhere;
	struct vb_roce_packet packet;

	if (frame->bth_length != MAD_PAYLOAD || frame->bth[0] != UD_SEND_ONLY ||
	    vb_roce_packet_decode(&packet, frame->bth, frame->bth_length, &nowhere, false, 0) != VB_PACKET_OK ||
	    packet.destination_qpn > 1 || packet.payload_length != VB_MAD_LENGTH || !vb_ib_icrc_is_valid(bytes, length))
		return false;
	/* C10-122: QP1 takes its well-known Q_Key only. QP0 has none. */
	if (packet.destination_qpn == 1 && packet.deth.qkey != VB_GSI_QKEY)
		return false;
	*address = (struct vb_mad_address){
		.route = frame->route,
		.qpn = packet.destination_qpn,
		.source_qpn = packet.deth.source_qpn,
		.qkey = packet.deth.qkey,
		.pkey = packet.pkey,
	};
	memcpy(mad, packet.payload, VB_MAD_LENGTH);
	return mad->base_version == VB_MAD_BASE_VERSION && vb_mad_is_smp(mad) == (packet.destination_qpn == 0);
}
