/* SPDX-License-Identifier: MIT
 *
 * What flow rules see of a frame: golden frames, and every one of them cut short.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/flow_key.h"

#define MACS 0x02, 0x11, 0x22, 0x33, 0x44, 0x55, 0x02, 0xaa, 0xbb, 0xcc, 0xdd, 0xee
#define IPV4_UDP                                                                                                       \
	0x45, 0xb8, 0x00, 0x20, 0x12, 0x34, 0x40, 0x00, 0x3f, 0x11, 0x00, 0x00, 10, 77, 0, 2, 10, 77, 0, 1,            \
	0x17, 0x70, 0x13, 0x88, 0x00, 0x0c, 0x00, 0x00, 1, 2, 3, 4
#define IPV6_ADDRESSES                                                                                                 \
	0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1

static struct vb_flow_key decode(const uint8_t *frame, size_t length, struct vb_flow_layout *layout)
{
	/* Of that size and no more, for a sanitizer to see what is read beyond. */
	uint8_t *copy = malloc(length ? length : 1);
	struct vb_flow_key key;

	memcpy(copy, frame, length);
	assert_int_equal(vb_flow_key_decode(&key, copy, length, layout), length >= 14);
	free(copy);
	return key;
}

static void udp_over_ipv4(void **state)
{
	static const uint8_t frame[] = {MACS, 0x08, 0x00, IPV4_UDP};
	static const uint8_t destination[] = {0x02, 0x11, 0x22, 0x33, 0x44, 0x55}, source[] = {0x02, 0xaa, 0xbb, 0xcc, 0xdd, 0xee};
	struct vb_flow_layout layout;
	struct vb_flow_key key = decode(frame, sizeof(frame), &layout);

	(void)state;
	assert_memory_equal(key.destination, destination, 6);
	assert_memory_equal(key.source, source, 6);
	assert_int_equal(be16_get(key.ether_type), 0x0800);
	assert_int_equal(key.is_tagged, 0);
	assert_int_equal(key.ip_version, 4);
	assert_int_equal(key.protocol, 17);
	assert_int_equal(key.traffic_class, 0xb8);
	assert_int_equal(key.hop_limit, 0x3f);
	assert_int_equal(key.ip_flags, VB_IPV4_DONT_FRAGMENT);
	assert_int_equal(key.is_fragment, 0);
	assert_memory_equal(key.source_ip, ((uint8_t[]){10, 77, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}), 16);
	assert_memory_equal(key.destination_ip, ((uint8_t[]){10, 77, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}), 16);
	assert_int_equal(key.has_ports, 1);
	assert_int_equal(be16_get(key.source_port), 6000);
	assert_int_equal(be16_get(key.destination_port), 5000);
	assert_int_equal(layout.network, 14);
	assert_int_equal(layout.transport, 34);
}

static void two_vlan_tags(void **state)
{
	static const uint8_t frame[] = {MACS, 0x88, 0xa8, 0x20, 0x64, 0x81, 0x00, 0x00, 0x0a, 0x08, 0x00, IPV4_UDP};
	struct vb_flow_layout layout;
	struct vb_flow_key key = decode(frame, sizeof(frame), &layout);

	(void)state;
	assert_int_equal(key.is_tagged, 1);
	assert_int_equal(be16_get(key.vlan_tag), 0x2064);
	assert_int_equal(be16_get(key.ether_type), 0x0800);
	assert_int_equal(be16_get(key.destination_port), 5000);
	assert_int_equal(layout.network, 22);
}

static void ipv4_with_options_and_fragments(void **state)
{
	uint8_t frame[] = {MACS, 0x08, 0x00, 0x46, 0, 0, 0x1c, 0, 0, 0x20, 0, 1, 6, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2,
			   1, 1, 1, 1, 0, 80, 0x1f, 0x90};
	struct vb_flow_layout layout;
	struct vb_flow_key key = decode(frame, sizeof(frame), &layout);

	(void)state;
	/* The first of several: its ports are there. */
	assert_int_equal(key.ip_flags, VB_IPV4_MORE_FRAGMENTS);
	assert_int_equal(key.is_fragment, 1);
	assert_int_equal(key.has_ports, 1);
	assert_int_equal(be16_get(key.source_port), 80);
	assert_int_equal(be16_get(key.destination_port), 8080);
	/* A later one has bytes in their place. */
	frame[14 + 7] = 3;
	key = decode(frame, sizeof(frame), &layout);
	assert_int_equal(key.is_fragment, 1);
	assert_int_equal(key.ip_version, 4);
	assert_int_equal(key.protocol, 6);
	assert_int_equal(key.has_ports, 0);
	assert_int_equal(layout.transport, 0);
}

static void ipv6_with_extensions(void **state)
{
	/* Hop-by-hop of 16 bytes, destination options of 8, then TCP. */
	uint8_t frame[] = {MACS, 0x86, 0xdd, 0x6a, 0x5b, 0xcd, 0xef, 0, 28, 0, 64, IPV6_ADDRESSES,
			   60, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
			   6, 0, 0, 0, 0, 0, 0, 0,
			   0x30, 0x39, 0x00, 0x50};
	struct vb_flow_layout layout;
	struct vb_flow_key key = decode(frame, sizeof(frame), &layout);

	(void)state;
	assert_int_equal(key.ip_version, 6);
	assert_int_equal(key.traffic_class, 0xa5);
	assert_int_equal(be32_get(key.flow_label), 0xbcdef);
	assert_int_equal(key.hop_limit, 64);
	assert_int_equal(key.protocol, 6);
	assert_int_equal(key.source_ip[15], 2);
	assert_int_equal(key.destination_ip[15], 1);
	assert_int_equal(be16_get(key.source_port), 12345);
	assert_int_equal(be16_get(key.destination_port), 80);
	assert_int_equal(layout.transport, 14 + 40 + 24);
	/* An extension that says it is longer than the frame. */
	frame[14 + 40 + 1] = 255;
	key = decode(frame, sizeof(frame), &layout);
	assert_int_equal(key.has_ports, 0);
	assert_int_equal(layout.transport, 0);
}

static void ipv6_fragments(void **state)
{
	uint8_t frame[] = {MACS, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 12, 44, 64, IPV6_ADDRESSES, 17, 0, 0, 1, 0, 0, 0, 9, 0x30, 0x39, 0, 53};
	struct vb_flow_key key = decode(frame, sizeof(frame), NULL);

	(void)state;
	assert_int_equal(key.protocol, 17);
	assert_int_equal(be16_get(key.destination_port), 53);
	assert_int_equal(key.is_fragment, 1);
	/* The header alone makes none (RFC 6946). */
	frame[14 + 40 + 3] = 0;
	assert_int_equal(decode(frame, sizeof(frame), NULL).is_fragment, 0);
	frame[14 + 40 + 3] = 8;          /* eight bytes into the datagram */
	key = decode(frame, sizeof(frame), NULL);
	assert_int_equal(key.protocol, 17);
	assert_int_equal(key.has_ports, 0);
	assert_int_equal(key.is_fragment, 1);
}

/* Nothing is read beyond the end, and what is missing is not there. */
static void cut_short(void **state)
{
	static const uint8_t frame[] = {MACS, 0x81, 0x00, 0x00, 0x0a, 0x08, 0x00, IPV4_UDP};
	const struct vb_flow_key whole = decode(frame, sizeof(frame), NULL);

	(void)state;
	for (size_t length = 0; length < sizeof(frame); length++) {
		struct vb_flow_key key = decode(frame, length, NULL);

		assert_int_equal(key.is_tagged, length >= 18);
		assert_int_equal(key.ip_version, length >= 38 ? 4 : 0);
		assert_int_equal(key.has_ports, length >= 42);
		if (length >= 42)
			assert_memory_equal(&key, &whole, sizeof(key));
	}
}

static void a_mask_is_what_counts(void **state)
{
	static const uint8_t frame[] = {MACS, 0x08, 0x00, IPV4_UDP};
	const struct vb_flow_key key = decode(frame, sizeof(frame), NULL);

	(void)state;
	for (size_t byte = 0; byte < sizeof(key); byte++)
		for (unsigned bit = 0; bit < 8; bit++) {
			struct vb_flow_key value, mask = {0};

			((uint8_t *)&mask)[byte] = (uint8_t)(1u << bit);
			memset(&value, 0, sizeof(value));
			((uint8_t *)&value)[byte] = ((const uint8_t *)&key)[byte] & (uint8_t)(1u << bit);
			assert_true(vb_flow_key_matches(&key, &value, &mask));
			((uint8_t *)&value)[byte] ^= (uint8_t)(1u << bit);
			assert_false(vb_flow_key_matches(&key, &value, &mask));
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(udp_over_ipv4),
		cmocka_unit_test(two_vlan_tags),
		cmocka_unit_test(ipv4_with_options_and_fragments),
		cmocka_unit_test(ipv6_with_extensions),
		cmocka_unit_test(ipv6_fragments),
		cmocka_unit_test(cut_short),
		cmocka_unit_test(a_mask_is_what_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
