/* SPDX-License-Identifier: MIT */
#include "wire/ib_packet.h"

#include <string.h>

#include "base/bytes.h"
#include "base/crc.h"
#include "wire/mad.h"
#include "wire/roce_packet.h"

enum {
	UD_SEND_ONLY = 0x64,
	BTH_CONGESTION_BYTE = 4,
	MAD_PAYLOAD = VB_BTH_LENGTH + VB_DETH_LENGTH + VB_MAD_LENGTH + VB_ICRC_LENGTH,
};

bool vb_ib_frame_decode(struct vb_ib_frame *frame, const void *bytes, size_t length)
{
	size_t headers = length <= VB_IB_MAX_FRAME ? vb_ib_route_decode(&frame->route, bytes, length) : 0;

	if (headers == 0 || length < headers + VB_BTH_LENGTH + VB_ICRC_LENGTH)
		return false;
	frame->bth = (const uint8_t *)bytes + headers;
	frame->bth_length = length - headers;
	return true;
}

uint32_t vb_ib_icrc(const uint8_t *frame, size_t length)
{
	size_t headers = VB_LRH_LENGTH + ((frame[1] & 3) == VB_IB_LNH_GLOBAL ? VB_IB_GRH_LENGTH : 0);
	uint8_t masked[VB_IB_MAX_HEADERS + VB_BTH_LENGTH];

	memcpy(masked, frame, headers + VB_BTH_LENGTH);
	vb_ib_route_mask(masked);
	masked[headers + BTH_CONGESTION_BYTE] = 0xff;
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
