/* SPDX-License-Identifier: MIT
 *
 * The kernel's packets, decoded and encoded again. For every RoCEv2 packet of every capture listed in pcap/index.txt:
 * it decodes, its ICRC is right with and without knowledge of its IP identification, our encoder gives the same bytes,
 * and the burst gives the same bytes but for the ICRC, which differs because our identification does.
 *
 * Usage: test_golden PCAP-FOLDER
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "capture.h"
#include "wire/burst.h"
#include "wire/icrc.h"
#include "wire/roce_packet.h"

static const char *folder;
static struct vb_burst burst;

/* Files of the index and the packets they must hold. */
enum { EXPECTED_FILES = 68, EXPECTED_PACKETS = 2425 };

static uint32_t icrc_of(const struct vb_path *path, uint16_t ip_id, const uint8_t *datagram, size_t length)
{
	return vb_icrc_headers(vb_icrc_begin(path, ip_id, length), datagram, length - VB_ICRC_LENGTH);
}

static uint32_t icrc_in(const uint8_t *datagram, size_t length)
{
	const uint8_t *at = datagram + length - VB_ICRC_LENGTH;

	return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static void decode_with_and_without_identification(const struct captured_packet *golden, struct vb_roce_packet *packet)
{
	uint16_t guesses[] = {0, (uint16_t)(golden->ip_id + 1), (uint16_t)~golden->ip_id, golden->ip_id};

	assert_int_equal(icrc_of(&golden->path, golden->ip_id, golden->datagram, golden->length),
			 icrc_in(golden->datagram, golden->length));
	for (unsigned i = 0; i < sizeof(guesses) / sizeof(guesses[0]); i++)
		assert_int_equal(vb_roce_packet_decode(packet, golden->datagram, golden->length, &golden->path, true,
						       guesses[i]),
				 VB_PACKET_OK);
}

static void encode_again(const struct captured_packet *golden, const struct vb_roce_packet *packet)
{
	uint8_t headers[VB_ROCE_MAX_HEADER];
	size_t length = vb_roce_packet_encode_headers(packet, headers);

	assert_int_equal(length, packet->op->header_length);
	assert_memory_equal(headers, golden->datagram, length);
	assert_int_equal(length + packet->payload_length + packet->pad + VB_ICRC_LENGTH, golden->length);
}

static void burst_again(const struct captured_packet *golden, struct vb_roce_packet *packet)
{
	struct iovec span = {(void *)(uintptr_t)packet->payload, packet->payload_length};
	uint8_t out[8192];

	vb_burst_reset(&burst);
	assert_true(vb_burst_has_room(&burst, packet->payload_length));
	vb_burst_append(&burst, &golden->path, packet, &span, 1);
	assert_int_equal(vb_burst_flatten(&burst, 0, 0, out, sizeof(out)), golden->length);
	assert_memory_equal(out, golden->datagram, golden->length - VB_ICRC_LENGTH);
	assert_int_equal(icrc_in(out, golden->length),
			 icrc_of(&golden->path, 0, golden->datagram, golden->length));
	if (!vb_path_is_ipv4(&golden->path))
		assert_memory_equal(out, golden->datagram, golden->length);
}

static unsigned check_file(const char *name)
{
	char path[512];
	struct capture capture;
	struct captured_packet golden;
	struct vb_roce_packet packet;
	unsigned packets = 0;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (!capture_open(&capture, path))
		fail_msg("%s cannot be read", path);
	while (capture_next(&capture, &golden)) {
		decode_with_and_without_identification(&golden, &packet);
		encode_again(&golden, &packet);
		burst_again(&golden, &packet);
		packets++;
	}
	capture_close(&capture);
	return packets;
}

static void every_capture_round_trips(void **state)
{
	char path[512], line[512], name[256];
	unsigned expected, files = 0, packets = 0;
	FILE *index;

	(void)state;
	snprintf(path, sizeof(path), "%s/index.txt", folder);
	index = fopen(path, "r");
	assert_non_null(index);
	while (fgets(line, sizeof(line), index)) {
		if (line[0] == '#')
			continue;
		assert_int_equal(sscanf(line, "%255s %u", name, &expected), 2);
		print_message("%s: %u packets\n", name, expected);
		assert_int_equal(check_file(name), expected);
		files++;
		packets += expected;
	}
	fclose(index);
	assert_true(files >= EXPECTED_FILES);
	assert_true(packets >= EXPECTED_PACKETS);
}

/* The slow way to say whether a damaged packet may pass: try every identification there is. */
static bool some_identification_explains(const struct vb_path *path, const uint8_t *datagram, size_t length)
{
	for (unsigned id = 0; id <= 0xffff; id++)
		if (icrc_of(path, (uint16_t)id, datagram, length) == icrc_in(datagram, length))
			return true;
	return false;
}

/* Each bit of the datagram in turn. Known identification: every damage is found. Unknown: found, or else another
 * identification does make this packet a right one (sixteen of the CRC's bits are spent on the identification, so
 * about one damage in 65,536 is of that kind). */
static void damage_each_bit(const struct captured_packet *golden, unsigned *explained)
{
	uint8_t copy[8192];

	memcpy(copy, golden->datagram, golden->length);
	for (size_t bit = 0; bit < golden->length * 8; bit++) {
		size_t byte = bit / 8;

		copy[byte] ^= (uint8_t)(1 << bit % 8);
		if (byte == 4) { /* FECN, BECN and reserved bits are not covered */
			assert_true(vb_icrc_is_valid(&golden->path, copy, golden->length, golden->ip_id));
		} else {
			assert_int_not_equal(icrc_of(&golden->path, golden->ip_id, copy, golden->length),
					     icrc_in(copy, golden->length));
			if (vb_icrc_is_valid(&golden->path, copy, golden->length, golden->ip_id)) {
				assert_true(vb_path_is_ipv4(&golden->path));
				assert_true(some_identification_explains(&golden->path, copy, golden->length));
				++*explained;
			}
		}
		copy[byte] ^= (uint8_t)(1 << bit % 8);
	}
	assert_true(vb_icrc_is_valid(&golden->path, copy, golden->length, 0));
}

static void every_damaged_bit_is_found(void **state)
{
	static const char *const files[] = {"rxe-op-cas.pcap", "rxe-op-send1.pcap", "rxe-op-writeimm.pcap",
					    "rxe-op-sendinv.pcap", "rxe-rping-v6.pcap", "rxe-mckey.pcap",
					    "rxe-ib_send_bw-ud.pcap"};
	unsigned explained = 0, packets = 0;
	unsigned long bits = 0;

	(void)state;
	for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char path[512];
		struct capture capture;
		struct captured_packet golden;

		snprintf(path, sizeof(path), "%s/%s", folder, files[i]);
		assert_true(capture_open(&capture, path));
		for (unsigned n = 0; n < 8 && capture_next(&capture, &golden); n++) {
			damage_each_bit(&golden, &explained);
			bits += golden.length * 8;
			packets++;
		}
		capture_close(&capture);
	}
	print_message("%u packets, %lu bits flipped, %u explained by another identification\n", packets, bits,
		      explained);
	assert_true(packets > 30);
	/* Expected about bits / 65,536; many more would mean that the check is weaker than it must be. */
	assert_true(explained <= 2 + bits / 16384);
}

/* The addresses and ports are covered too: a packet that was misdelivered does not pass. */
static void wrong_addresses_are_found(void **state)
{
	static const char *const files[] = {"rxe-op-send5.pcap", "rxe-rping-v6.pcap"};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		char path[512];
		struct capture capture;
		struct captured_packet golden;

		snprintf(path, sizeof(path), "%s/%s", folder, files[i]);
		assert_true(capture_open(&capture, path));
		while (capture_next(&capture, &golden)) {
			struct vb_path wrong = golden.path;

			wrong.source_port ^= 1;
			assert_false(vb_icrc_is_valid(&wrong, golden.datagram, golden.length, golden.ip_id));
			wrong = golden.path;
			wrong.source[15] ^= 1;
			assert_false(vb_icrc_is_valid(&wrong, golden.datagram, golden.length, golden.ip_id));
			wrong = golden.path;
			wrong.destination[13] ^= 0x80;
			assert_false(vb_icrc_is_valid(&wrong, golden.datagram, golden.length, golden.ip_id));
			/* What routers and hosts may change is not. */
			wrong = golden.path;
			wrong.traffic_class ^= 3;
			wrong.hop_limit--;
			wrong.flow_label ^= 0x12345;
			wrong.interface_index = 7;
			assert_true(vb_icrc_is_valid(&wrong, golden.datagram, golden.length, golden.ip_id));
		}
		capture_close(&capture);
	}
}

/* A packet cut short never decodes as a whole one. */
static void truncated_packets_are_refused(void **state)
{
	char path[512];
	struct capture capture;
	struct captured_packet golden;
	struct vb_roce_packet packet;

	(void)state;
	snprintf(path, sizeof(path), "%s/rxe-rping-v6.pcap", folder);
	assert_true(capture_open(&capture, path));
	while (capture_next(&capture, &golden))
		for (size_t length = 0; length < golden.length; length++) {
			/* A heap block of its own, so that a sanitizer sees any read past the cut. */
			uint8_t *cut = malloc(length ? length : 1);

			assert_non_null(cut);
			memcpy(cut, golden.datagram, length);
			assert_int_not_equal(vb_roce_packet_decode(&packet, cut, length, &golden.path, true, 0),
					     VB_PACKET_OK);
			free(cut);
		}
	capture_close(&capture);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_capture_round_trips),
		cmocka_unit_test(every_damaged_bit_is_found),
		cmocka_unit_test(wrong_addresses_are_found),
		cmocka_unit_test(truncated_packets_are_refused),
	};

	if (argc < 2) {
		fprintf(stderr, "usage: test_golden PCAP-FOLDER\n");
		return 2;
	}
	folder = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
