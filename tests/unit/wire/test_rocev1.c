/* SPDX-License-Identifier: MIT
 *
 * RoCEv1: a frame whose CRC was computed by another implementation (zlib), both ways, and frames that lie.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "wire/burst.h"
#include "wire/ib_route.h"
#include "wire/roce_packet.h"

static const uint8_t frame[] = {
	0x62, 0xc1, 0x23, 0x45, 0x00, 0x18, 0x1b, 0x3f,                         /* class 0x2c, flow 0x12345, 24 bytes, hop limit 63 */
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1,
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 2,
	0x04, 0x40, 0xff, 0xff, 0x00, 0x12, 0x34, 0x56, 0x80, 0x00, 0x00, 0x07, /* SEND only, QP 0x123456, PSN 7 */
	'v', 'e', 'r', 'b', 'e', 'n', 'a', '!', 0x83, 0x9b, 0xbe, 0xa7,
};

static void is_read(void **state)
{
	struct vb_roce_packet packet;
	struct vb_path path;
	uint8_t padded[sizeof(frame) + 6] = {0};

	(void)state;
	memcpy(padded, frame, sizeof(frame));
	assert_int_equal(vb_ib_grh_to_path(&path, padded, sizeof(padded)), 24);
	assert_int_equal(path.framing, VB_FRAMING_ETHERNET);
	assert_int_equal(path.traffic_class, 0x2c);
	assert_int_equal(path.flow_label, 0x12345);
	assert_int_equal(path.hop_limit, 63);
	assert_false(vb_path_is_ipv4(&path));
	assert_memory_equal(path.source, frame + 8, 16);
	assert_int_equal(vb_roce_packet_decode(&packet, frame + VB_IB_GRH_LENGTH, 24, &path, true, 0), VB_PACKET_OK);
	assert_int_equal(packet.destination_qpn, 0x123456);
	assert_int_equal(packet.psn.v, 7);
	/* No bit of what counts may change; what a router may change does not count. */
	for (size_t bit = 0; bit < 8 * sizeof(frame); bit++) {
		bool changes = (bit >= 4 && bit < 32) || (bit >= 56 && bit < 64) || (bit >= 8 * 44 && bit < 8 * 45);
		size_t length;

		memcpy(padded, frame, sizeof(frame));
		padded[bit / 8] ^= (uint8_t)(0x80 >> bit % 8);
		length = vb_ib_grh_to_path(&path, padded, sizeof(frame));
		if (changes)
			assert_int_equal(vb_roce_packet_decode(&packet, padded + VB_IB_GRH_LENGTH, length, &path, true, 0), VB_PACKET_OK);
		else
			assert_true(length == 0 || vb_roce_packet_decode(&packet, padded + VB_IB_GRH_LENGTH, length, &path, true, 0) !=
							   VB_PACKET_OK);
	}
}

static void is_written(void **state)
{
	static struct vb_burst burst;
	struct vb_roce_packet packet = {.opcode = 0x04, .op = vb_roce_opcode(0x04), .pkey = 0xffff, .migration_request = true,
					.destination_qpn = 0x123456, .ack_request = true, .psn = {7}};
	struct iovec span = {(void *)(uintptr_t)"verbena!", 8};
	uint8_t grh[VB_IB_GRH_LENGTH];
	struct vb_path path;

	(void)state;
	assert_int_equal(vb_ib_grh_to_path(&path, frame, sizeof(frame)), 24);
	vb_burst_reset(&burst);
	vb_burst_append(&burst, &path, &packet, &span, 1);
	assert_int_equal(burst.run[0].bytes, 24);
	assert_memory_equal(burst.run[0].data, frame + VB_IB_GRH_LENGTH, 24);
	vb_ib_path_grh(&path, 24, grh);
	assert_memory_equal(grh, frame, sizeof(grh));
}

static void lengths_that_lie(void **state)
{
	uint8_t bytes[sizeof(frame)];
	struct vb_path path;

	(void)state;
	for (size_t length = 0; length < sizeof(frame); length++)
		assert_int_equal(vb_ib_grh_to_path(&path, frame, length), 0);
	for (unsigned said = 0; said < 0x10000; said++) {
		memcpy(bytes, frame, sizeof(frame));
		bytes[4] = (uint8_t)(said >> 8);
		bytes[5] = (uint8_t)said;
		assert_int_equal(vb_ib_grh_to_path(&path, bytes, sizeof(bytes)), said <= 24 ? said : 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(is_read), cmocka_unit_test(is_written), cmocka_unit_test(lengths_that_lie)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
