/* SPDX-License-Identifier: MIT
 *
 * The invariant CRC against whole packets assembled here byte by byte, and the check that does not know the IP
 * identification, for all identifications there are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/crc.h"
#include "wire/icrc.h"
#include "wire/roce_packet.h"

enum { SEED = 7919 };

static uint32_t random_state;

static uint8_t random_byte(void)
{
	random_state = random_state * 1664525u + 1013904223u;
	return (uint8_t)(random_state >> 17);
}

static struct vb_path random_path(bool ipv4)
{
	struct vb_path path;
	uint8_t *bytes = (uint8_t *)&path;

	for (unsigned i = 0; i < sizeof(path); i++)
		bytes[i] = random_byte();
	if (ipv4)
		for (unsigned i = 0; i < 12; i++)
			path.source[i] = path.destination[i] = i < 10 ? 0 : 0xff;
	else
		path.source[0] = path.destination[0] = 0x20;
	path.framing = VB_FRAMING_UDP;
	return path;
}

/* What the annex's figure shows, masked fields all ones, up to the ICRC. `flags`: the IPv4 header's, with the fragment
 * offset; always 0x4000 in a right packet. */
static uint32_t reference(const struct vb_path *path, uint16_t id, uint16_t flags, const uint8_t *datagram,
			  size_t length)
{
	static uint8_t all[66000];
	size_t n = 0, udp = length + 8;

	memset(all, 0xff, 8);
	n = 8;
	if (path->destination[0] == 0) {
		uint8_t ip[20] = {0x45, 0xff, (uint8_t)((udp + 20) >> 8), (uint8_t)(udp + 20),
				  (uint8_t)(id >> 8), (uint8_t)id, (uint8_t)(flags >> 8), (uint8_t)flags,
				  0xff, 17, 0xff, 0xff};

		memcpy(ip + 12, path->source + 12, 4);
		memcpy(ip + 16, path->destination + 12, 4);
		memcpy(all + n, ip, 20);
		n += 20;
	} else {
		uint8_t ip[40] = {0x6f, 0xff, 0xff, 0xff, (uint8_t)(udp >> 8), (uint8_t)udp, 17, 0xff};

		memcpy(ip + 8, path->source, 16);
		memcpy(ip + 24, path->destination, 16);
		memcpy(all + n, ip, 40);
		n += 40;
	}
	all[n++] = (uint8_t)(path->source_port >> 8);
	all[n++] = (uint8_t)path->source_port;
	all[n++] = 4791 >> 8;
	all[n++] = 4791 & 0xff;
	all[n++] = (uint8_t)(udp >> 8);
	all[n++] = (uint8_t)udp;
	all[n++] = 0xff;
	all[n++] = 0xff;
	memcpy(all + n, datagram, length - 4);
	all[n + 4] = 0xff;
	return vb_crc32(0, all, n + length - 4);
}

static void fill(uint8_t *datagram, size_t length)
{
	for (size_t i = 0; i < length; i++)
		datagram[i] = random_byte();
}

static void agrees_with_whole_packets(void **state)
{
	static const size_t lengths[] = {16, 20, 28, 44, 100, 272, 1040, 1072, 4112, 4140};
	static uint8_t datagram[4200];

	(void)state;
	for (int round = 0; round < 40; round++)
		for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
			struct vb_path path = random_path(round & 1);
			uint16_t id = (uint16_t)(random_byte() << 8 | random_byte());
			size_t length = lengths[i], headers = length > 28 ? 28 : 12;
			uint32_t crc;

			fill(datagram, length);
			/* In two pieces as a sender does, and in one. */
			crc = vb_icrc_headers(vb_icrc_begin(&path, id, length), datagram, headers);
			crc = vb_icrc_payload(crc, datagram + headers, length - 4 - headers);
			assert_int_equal(crc, reference(&path, id, 0x4000, datagram, length));
			assert_int_equal(vb_icrc_headers(vb_icrc_begin(&path, id, length), datagram, length - 4), crc);
			vb_icrc_store(crc, datagram + length - 4);
			assert_true(vb_icrc_is_valid(&path, datagram, length, id));
			assert_true(vb_icrc_is_valid(&path, datagram, length, 0));
		}
}

static void stored_least_byte_first(void **state)
{
	uint8_t out[4];

	(void)state;
	vb_icrc_store(0x12345678, out);
	assert_memory_equal(out, "\x78\x56\x34\x12", 4);
}

/* Every identification, whatever was guessed. */
static void any_identification_passes(void **state)
{
	uint8_t datagram[64];
	struct vb_path path = random_path(true);

	(void)state;
	fill(datagram, sizeof(datagram));
	for (unsigned id = 0; id <= 0xffff; id++) {
		uint32_t crc = vb_icrc_headers(vb_icrc_begin(&path, (uint16_t)id, 64), datagram, 60);

		vb_icrc_store(crc, datagram + 60);
		assert_true(vb_icrc_is_valid(&path, datagram, 64, 0));
		assert_true(vb_icrc_is_valid(&path, datagram, 64, (uint16_t)(id * 40503)));
	}
}

/* And at every length a datagram may have. */
static void any_length_passes(void **state)
{
	static uint8_t datagram[65508];
	struct vb_path path = random_path(true);

	(void)state;
	fill(datagram, sizeof(datagram));
	for (size_t length = 16; length <= sizeof(datagram); length += length < 5000 ? 4 : 1996) {
		uint8_t kept[4];
		uint32_t crc = vb_icrc_headers(vb_icrc_begin(&path, 0xbeef, length), datagram, length - 4);

		memcpy(kept, datagram + length - 4, 4);
		vb_icrc_store(crc, datagram + length - 4);
		assert_true(vb_icrc_is_valid(&path, datagram, length, 0));
		memcpy(datagram + length - 4, kept, 4);
	}
}

/* Of random wrong ICRCs one in 65,536 is explained by an identification, on IPv6 none. */
static void wrong_ones_do_not(void **state)
{
	enum { TRIES = 200000 };
	uint8_t datagram[64];
	struct vb_path path4 = random_path(true), path6 = random_path(false);
	unsigned passed4 = 0, passed6 = 0;

	(void)state;
	fill(datagram, sizeof(datagram));
	for (int i = 0; i < TRIES; i++) {
		fill(datagram + 60, 4);
		passed4 += vb_icrc_is_valid(&path4, datagram, 64, 0);
		passed6 += vb_icrc_is_valid(&path6, datagram, 64, 0);
	}
	print_message("%u of %d random ICRCs passed on IPv4, %u on IPv6\n", passed4, TRIES, passed6);
	assert_true(passed4 <= 12);
	assert_int_equal(passed6, 0);
}

/* The search is for the identification and not for its neighbours: the length before it and the flags after. */
static void nothing_but_the_identification_is_searched_for(void **state)
{
	uint8_t datagram[64];
	struct vb_path path = random_path(true);

	(void)state;
	fill(datagram, sizeof(datagram));
	for (int bit = 0; bit < 16; bit++)
		for (unsigned id = 0; id <= 0xffff; id += 257) {
			uint16_t flags = (uint16_t)(0x4000 ^ 1 << bit);
			size_t wrong_length = (size_t)(64 ^ 1 << bit);
			uint32_t crc;

			vb_icrc_store(reference(&path, (uint16_t)id, flags, datagram, 64), datagram + 60);
			assert_false(vb_icrc_is_valid(&path, datagram, 64, 0));
			crc = vb_icrc_headers(vb_icrc_begin(&path, (uint16_t)id, wrong_length), datagram, 60);
			vb_icrc_store(crc, datagram + 60);
			assert_false(vb_icrc_is_valid(&path, datagram, 64, 0));
		}
}

/* IPv6 has no identification, so none is searched for. */
static void ipv6_does_not_depend_on_the_guess(void **state)
{
	uint8_t datagram[64];
	struct vb_path path = random_path(false);

	(void)state;
	fill(datagram, sizeof(datagram));
	vb_icrc_store(vb_icrc_headers(vb_icrc_begin(&path, 0, 64), datagram, 60), datagram + 60);
	for (unsigned id = 0; id <= 0xffff; id += 13)
		assert_true(vb_icrc_is_valid(&path, datagram, 64, (uint16_t)id));
}

static void both_spellings_of_a_group_are_ipv4(void **state)
{
	struct vb_path mapped = random_path(true), alias;

	(void)state;
	mapped.destination[12] = 239;
	alias = mapped;
	alias.destination[0] = 0xff;
	alias.destination[1] = 0x0e;
	assert_int_equal(vb_icrc_begin(&mapped, 5, 100), vb_icrc_begin(&alias, 5, 100));
}

static void too_short_is_not_valid(void **state)
{
	uint8_t datagram[16] = {0};
	struct vb_path path = random_path(true);

	(void)state;
	for (size_t length = 0; length < 16; length++)
		assert_false(vb_icrc_is_valid(&path, datagram, length, 0));
}

/* A prefix that has seen other lengths before gives what one that begins with this length gives. */
static void a_prefix_serves_any_length(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 8; i++) {
		struct vb_path path = random_path(i % 4 != 3);
		struct vb_icrc_prefix prefix = {0};

		for (size_t length = 0; length <= 65507; length += 1 + length / 64)
			for (uint16_t id = 0; id < 3; id++)
				assert_int_equal(vb_icrc_begin_again(&prefix, &path, id, length + 1),
						 vb_icrc_begin(&path, vb_path_is_ipv4(&path) ? id : 0, length + 1));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agrees_with_whole_packets),
		cmocka_unit_test(stored_least_byte_first),
		cmocka_unit_test(any_identification_passes),
		cmocka_unit_test(any_length_passes),
		cmocka_unit_test(wrong_ones_do_not),
		cmocka_unit_test(nothing_but_the_identification_is_searched_for),
		cmocka_unit_test(ipv6_does_not_depend_on_the_guess),
		cmocka_unit_test(both_spellings_of_a_group_are_ipv4),
		cmocka_unit_test(too_short_is_not_valid),
		cmocka_unit_test(a_prefix_serves_any_length),
	};

	random_state = SEED;
	print_message("seed %d\n", SEED);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
