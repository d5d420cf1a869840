/* SPDX-License-Identifier: MIT
 *
 * Frames of any bytes where a queue pair's process gets them: InfiniBand's, from the LRH on, and RoCEv1's, from the GRH on. The first
 * byte of the input chooses which, whether sound headers are put before the rest, or such with one byte spoiled, and whether the ICRC is
 * put right. There are two ways to compute that, by the bytes of a frame and by the path that they were read into: they must agree.
 */
#include <stdbool.h>
#include <string.h>

#include "target.h"
#include "wire/frame_port.h"
#include "wire/ib_packet.h"
#include "wire/icrc.h"
#include "wire/mad.h"
#include "wire/path.h"
#include "wire/roce_packet.h"

enum { IS_ETHERNET = 1, IS_GLOBAL = 2, HAS_HEADERS = 4, IS_SPOILED = 8, HAS_ICRC = 16, LONGEST = 8192 };

static enum vb_roce_decode_result take_packet(const uint8_t *bth, size_t length, const struct vb_path *from)
{
	struct vb_roce_packet packet;
	enum vb_roce_decode_result result = vb_roce_packet_decode(&packet, bth, length, from, true, 0);

	if (result == VB_PACKET_OK) {
		FUZZ_CHECK(packet.payload == bth + packet.op->header_length);
		FUZZ_CHECK(packet.op->header_length + packet.payload_length + packet.pad + VB_ICRC_LENGTH == length);
	}
	return result;
}

static void put_icrc(const struct vb_path *path, uint8_t *bth, size_t length)
{
	size_t covered = length - VB_ICRC_LENGTH;

	vb_icrc_store(vb_icrc_headers(vb_icrc_begin(path, 0, length), bth, covered), bth + covered);
}

/* ---- InfiniBand ---- */

/* Encoded and decoded once more it says the same. */
static void check_route(const struct vb_ib_route *route, size_t headers, size_t bth_length)
{
	uint8_t bytes[VB_IB_MAX_HEADERS];
	struct vb_ib_route again;

	FUZZ_CHECK(vb_ib_route_encode(route, bth_length, bytes) == headers);
	FUZZ_CHECK(vb_ib_route_decode(&again, bytes, headers + bth_length) == headers);
	FUZZ_CHECK(again.dlid == route->dlid && again.slid == route->slid && again.vl == route->vl && again.sl == route->sl);
	FUZZ_CHECK(again.has_grh == route->has_grh && again.flow_label == route->flow_label && again.hop_limit == route->hop_limit);
	FUZZ_CHECK(memcmp(again.sgid, route->sgid, 16) == 0 && memcmp(again.dgid, route->dgid, 16) == 0);
}

/* What a path has no place for: reserved bits of the LRH, which an ICRC without GRH covers. */
static bool has_reserved_bits(const uint8_t *frame)
{
	return (frame[1] & 0x0c) != 0 || (frame[4] & 0xf8) != 0;
}

static void take_infiniband(uint8_t *bytes, size_t length, bool has_icrc)
{
	struct vb_ib_frame frame;
	struct vb_mad_address address;
	struct vb_path from;
	enum vb_roce_decode_result result;
	struct vb_mad mad;
	bool is_valid;
	size_t own;

	for (size_t at = 0; (own = vb_frame_port_next(bytes + at, length - at)) > 0; at += own)
		FUZZ_CHECK(own <= length - at);
	if (!vb_ib_frame_decode(&frame, bytes, length))
		return;
	FUZZ_CHECK(frame.bth > bytes && frame.bth + frame.bth_length == bytes + length);
	FUZZ_CHECK(vb_frame_port_next(bytes, length) == length);
	check_route(&frame.route, length - frame.bth_length, frame.bth_length);
	from = vb_ib_route_to_path(&frame.route);
	if (has_icrc)
		vb_ib_frame_seal(bytes, length);
	is_valid = vb_ib_icrc_is_valid(bytes, length);
	FUZZ_CHECK(is_valid || !has_icrc);
	result = take_packet(frame.bth, frame.bth_length, &from);
	if (frame.route.has_grh || !has_reserved_bits(bytes))
		FUZZ_CHECK(result != (is_valid ? VB_PACKET_BAD_ICRC : VB_PACKET_OK));
	if (vb_mad_frame_decode(&address, &mad, &frame, bytes, length))
		FUZZ_CHECK(is_valid && address.qpn <= 1 && mad.base_version == VB_MAD_BASE_VERSION);
}

/* ---- RoCEv1 ---- */

static void take_ethernet(uint8_t *bytes, size_t length, bool has_icrc)
{
	uint8_t grh[VB_IB_GRH_LENGTH];
	struct vb_path from;
	size_t behind = vb_ib_grh_to_path(&from, bytes, length);
	enum vb_roce_decode_result result;

	if (behind == 0)
		return;
	FUZZ_CHECK(VB_IB_GRH_LENGTH + behind <= length && from.framing == VB_FRAMING_ETHERNET);
	vb_ib_path_grh(&from, behind, grh);
	FUZZ_CHECK(memcmp(grh, bytes, sizeof(grh)) == 0);
	if (has_icrc && behind >= VB_BTH_LENGTH + VB_ICRC_LENGTH)
		put_icrc(&from, bytes + VB_IB_GRH_LENGTH, behind);
	result = take_packet(bytes + VB_IB_GRH_LENGTH, behind, &from);
	FUZZ_CHECK(!has_icrc || behind < VB_BTH_LENGTH + VB_ICRC_LENGTH || result != VB_PACKET_BAD_ICRC);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
	struct vb_ib_route route = {.dlid = 5, .slid = 4, .sl = 3, .hop_limit = 64, .sgid = {0xfe, 0x80}, .dgid = {0xfe, 0x80}};
	uint8_t headers[VB_IB_MAX_HEADERS], *frame;
	size_t before = 0, first = 0;

	if (length < 1 || length > LONGEST)
		return 0;
	route.has_grh = (input[0] & (IS_GLOBAL | IS_ETHERNET)) != 0;
	/* Ethernet's has no LRH. */
	first = input[0] & IS_ETHERNET ? VB_LRH_LENGTH : 0;
	if (input[0] & HAS_HEADERS)
		before = vb_ib_route_encode(&route, length - 1, headers) - first;
	/* A block of its own: reading one byte too far is then seen by the sanitizer. */
	frame = malloc(before + length);
	if (!frame)
		return 0;
	memcpy(frame, headers + first, before);
	memcpy(frame + before, input + 1, length - 1);
	if (before > 0 && (input[0] & IS_SPOILED) && length > 2)
		frame[input[1] % before] ^= input[2];
	if (input[0] & IS_ETHERNET)
		take_ethernet(frame, before + length - 1, input[0] & HAS_ICRC);
	else
		take_infiniband(frame, before + length - 1, input[0] & HAS_ICRC);
	free(frame);
	return 0;
}
