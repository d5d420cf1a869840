/* SPDX-License-Identifier: MIT
 *
 * InfiniBand packets against bytes whose ICRC and VCRC were computed by another implementation (Python's zlib, and a
 * shift register fed bit by bit): a UD SEND of eight bytes from LID 3 to LID 7, VL 3, SL 4, without and with a GRH.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "wire/burst.h"
#include "wire/ib_packet.h"
#include "wire/icrc.h"
#include "wire/mad.h"
#include "wire/mad_attributes.h"

static const char local[] =
	"30420007000a00036400ffff000000010000000580010000000000010001020304050607ab7d902b";
static const char global[] =
	"3043000700140003612abcde00201b40fe800000000000000000000000000001fe800000000000000000000000000002"
	"6400ffff0000000100000005800100000000000100010203040506074a6fae69";
enum { LOCAL_VCRC = 0x0b8a, GLOBAL_VCRC = 0x6bdc };


static size_t bytes_of(const char *text, uint8_t *out)
{
	size_t length = strlen(text) / 2;
	unsigned value;

	for (size_t i = 0; i < length; i++) {
		assert_int_equal(sscanf(text + 2 * i, "%2x", &value), 1);
		out[i] = (uint8_t)value;
	}
	return length;
}

static void both_forms(void **state)
{
	static const struct { const char *text; bool has_grh; uint16_t vcrc; } rows[] = {
		{local, false, LOCAL_VCRC}, {global, true, GLOBAL_VCRC},
	};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		uint8_t bytes[128], again[128];
		size_t length = bytes_of(rows[i].text, bytes), headers;
		struct vb_ib_frame frame;

		assert_true(vb_ib_frame_decode(&frame, bytes, length));
		assert_int_equal(frame.route.dlid, 7);
		assert_int_equal(frame.route.slid, 3);
		assert_int_equal(frame.route.vl, 3);
		assert_int_equal(frame.route.sl, 4);
		assert_int_equal(frame.route.has_grh, rows[i].has_grh);
		if (rows[i].has_grh) {
			assert_int_equal(frame.route.traffic_class, 0x12);
			assert_int_equal(frame.route.flow_label, 0xabcde);
			assert_int_equal(frame.route.hop_limit, 64);
			assert_int_equal(frame.route.dgid[15], 2);
		}
		assert_true(vb_ib_icrc_is_valid(bytes, length));
		assert_int_equal(vb_ib_vcrc(bytes, length), rows[i].vcrc);
		headers = vb_ib_route_encode(&frame.route, frame.bth_length, again);
		memcpy(again + headers, bytes + headers, length - headers);
		memset(again + length - 4, 0, 4);
		vb_ib_frame_seal(again, length);
		assert_memory_equal(again, bytes, length);
		/* Switches may change the VL, and the FECN bit; routers traffic class, flow label and hop limit. Nothing else. */
		for (size_t at = 0; at < length; at++)
			for (unsigned bit = 0; bit < 8; bit++) {
				bool may = (at == 0 && bit >= 4) || at == headers + 4;

				if (rows[i].has_grh)
					may |= at < 8 || (at == 8 && bit < 4) || (at >= 9 && at <= 11) || at == 15;
				/* The LNH says which form it is. */
				if (at == 1 && bit < 2)
					continue;
				bytes[at] ^= (uint8_t)(1u << bit);
				assert_int_equal(vb_ib_icrc_is_valid(bytes, length), may);
				bytes[at] ^= (uint8_t)(1u << bit);
			}
	}
}

/* What an engine's bursts are made with, and what comes in is checked with: by the path. */
static void by_path(void **state)
{
	static const char *const rows[] = {local, global};
	static struct vb_burst burst;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		uint8_t bytes[128], again[128], area[VB_GRH_LENGTH];
		size_t length = bytes_of(rows[i], bytes), headers;
		struct vb_ib_frame frame;
		struct vb_roce_packet packet;
		struct vb_ib_route route;
		struct vb_path path;

		assert_true(vb_ib_frame_decode(&frame, bytes, length));
		headers = length - frame.bth_length;
		path = vb_ib_route_to_path(&frame.route);
		assert_int_equal(vb_roce_packet_decode(&packet, frame.bth, frame.bth_length, &path, true, 0), VB_PACKET_OK);
		/* One bit of what the ICRC covers is another packet. */
		path.slid ^= 1;
		assert_int_equal(vb_icrc_is_valid(&path, frame.bth, frame.bth_length, 0), i == 1);
		path.slid ^= 1;
		path.source[15] ^= 1;
		assert_int_equal(vb_icrc_is_valid(&path, frame.bth, frame.bth_length, 0), i == 0);
		path.source[15] ^= 1;
		bytes[headers + 30] ^= 1;
		assert_false(vb_icrc_is_valid(&path, frame.bth, frame.bth_length, 0));
		bytes[headers + 30] ^= 1;
		/* The same packet, made. The VL is a switch's business. */
		vb_burst_reset(&burst);
		vb_burst_append(&burst, &path, &packet, &(struct iovec){(void *)(uintptr_t)packet.payload, packet.payload_length}, 1);
		route = vb_ib_route_of_path(&path);
		route.vl = 3;
		assert_int_equal(vb_ib_route_encode(&route, frame.bth_length, again), headers);
		assert_int_equal(vb_burst_flatten(&burst, 0, 0, again + headers, sizeof(again) - headers), frame.bth_length);
		assert_memory_equal(again, bytes, length);
		vb_roce_grh_area(area, &path, (uint32_t)frame.bth_length);
		for (size_t at = 0; i == 0 && at < sizeof(area); at++)
			assert_int_equal(area[at], 0);
		if (i == 1)
			assert_memory_equal(area, bytes + VB_LRH_LENGTH, sizeof(area));
	}
}

static void lengths_that_lie(void **state)
{
	uint8_t bytes[128];
	size_t length = bytes_of(global, bytes);
	struct vb_ib_frame frame;

	(void)state;
	for (size_t cut = 0; cut < length; cut++)
		assert_false(vb_ib_frame_decode(&frame, bytes, cut));
	bytes[5]++;
	assert_false(vb_ib_frame_decode(&frame, bytes, length));
	bytes[5]--;
	bytes[13]++; /* PayLen of the GRH */
	assert_false(vb_ib_frame_decode(&frame, bytes, length));
	bytes[13]--;
	bytes[1] &= 0xfc; /* a raw packet */
	assert_false(vb_ib_frame_decode(&frame, bytes, length));
}

static void a_mad_as_a_packet(void **state)
{
	struct vb_mad_address back, address = {
		.route = {.dlid = 7, .slid = 3}, .qpn = 1, .source_qpn = 1, .qkey = VB_GSI_QKEY, .pkey = 0xffff,
	};
	struct vb_mad mad = {.base_version = 1, .mgmt_class = VB_MAD_SA, .method = VB_MAD_GET}, got;
	uint8_t bytes[VB_IB_MAD_FRAME];
	struct vb_ib_frame frame;
	size_t length = vb_mad_frame_encode(&address, &mad, bytes);

	(void)state;
	assert_int_equal(length, 8 + 12 + 8 + 256 + 4);
	assert_true(vb_ib_frame_decode(&frame, bytes, length));
	assert_true(vb_mad_frame_decode(&back, &got, &frame, bytes, length));
	assert_memory_equal(&got, &mad, sizeof(mad));
	assert_int_equal(back.qpn, 1);
	assert_int_equal(back.route.slid, 3);
	/* Damaged; with another Q_Key; a class of QP0 at QP1. */
	bytes[100] ^= 1;
	assert_false(vb_mad_frame_decode(&back, &got, &frame, bytes, length));
	address.qkey++;
	length = vb_mad_frame_encode(&address, &mad, bytes);
	assert_false(vb_mad_frame_decode(&back, &got, &frame, bytes, length));
	address.qkey--;
	mad.mgmt_class = VB_MAD_SMP_LID;
	length = vb_mad_frame_encode(&address, &mad, bytes);
	assert_false(vb_mad_frame_decode(&back, &got, &frame, bytes, length));
}

/* The table against a list typed a second time, from IBA tables 141 and 226. */
static void attributes(void **state)
{
	static const struct { uint8_t mgmt_class; uint16_t id, length; const char *name; } rows[] = {
		{0x81, 0x02, 64, "Notice"},
		{0x81, 0x10, 64, "NodeDescription"},
		{0x01, 0x11, 40, "NodeInfo"},
		{0x01, 0x12, 20, "SwitchInfo"},
		{0x81, 0x14, 64, "GUIDInfo"},
		{0x81, 0x15, 64, "PortInfo"},
		{0x81, 0x16, 64, "P_KeyTable"},
		{0x81, 0x17, 8, "SLtoVLMappingTable"},
		{0x81, 0x18, 64, "VLArbitrationTable"},
		{0x81, 0x19, 64, "LinearForwardingTable"},
		{0x81, 0x1b, 64, "MulticastForwardingTable"},
		{0x01, 0x20, 21, "SMInfo"},
		{0x04, 0x01, 72, "ClassPortInfo"},
		{0x04, 0x12, 44, "PortCounters"},
		{0x04, 0x1d, 184, "PortCountersExtended"},
	};

	(void)state;
	assert_int_equal(sizeof(rows) / sizeof(rows[0]), VB_ATTRIBUTE_COUNT);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		enum vb_attribute found = vb_attribute_find(rows[i].mgmt_class, rows[i].id);

		assert_int_not_equal(found, VB_ATTRIBUTE_UNKNOWN);
		assert_int_equal(vb_attributes[found].length, rows[i].length);
		assert_string_equal(vb_attributes[found].name, rows[i].name);
	}
	assert_int_equal(vb_attribute_find(0x03, 0x11), VB_ATTRIBUTE_UNKNOWN);
	assert_int_equal(vb_attribute_find(0x04, 0x11), VB_ATTRIBUTE_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_forms), cmocka_unit_test(by_path),
		cmocka_unit_test(lengths_that_lie),
		cmocka_unit_test(a_mad_as_a_packet),
		cmocka_unit_test(attributes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
