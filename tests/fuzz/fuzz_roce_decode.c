/* SPDX-License-Identifier: MIT
 *
 * The decoder against any bytes. The first byte of the input chooses IPv4 or IPv6, whether the ICRC is checked and
 * whether it is put right before, the rest is the datagram. What is accepted must survive being encoded again.
 */
#include <stdbool.h>
#include <string.h>

#include "target.h"
#include "wire/burst.h"
#include "wire/icrc.h"
#include "wire/roce_packet.h"

static struct vb_burst burst;

static struct vb_path choose_path(bool ipv6)
{
	struct vb_path path = {.source_port = 0xc000, .hop_limit = 64};

	if (ipv6) {
		path.source[0] = path.destination[0] = 0xfe;
		path.source[1] = path.destination[1] = 0x80;
		path.interface_index = 2;
	} else {
		memcpy(path.source + 10, "\xff\xff\xc0\x00\x02\x01", 6);
		memcpy(path.destination + 10, "\xff\xff\xc0\x00\x02\x02", 6);
	}
	return path;
}

static size_t header_length(const struct vb_roce_packet *packet)
{
	return packet->op->header_length + (packet->piggybacks ? VB_PIGGYBACK_LENGTH : 0u);
}

/* The lengths of an accepted packet add up and stay inside the datagram. */
static void check_bounds(const struct vb_roce_packet *packet, const uint8_t *datagram, size_t length)
{
	FUZZ_CHECK(packet->op == vb_roce_opcode(datagram[0]) && packet->op->name);
	FUZZ_CHECK(packet->pad <= 3);
	FUZZ_CHECK(packet->payload == datagram + header_length(packet));
	FUZZ_CHECK(header_length(packet) + packet->payload_length + packet->pad + VB_ICRC_LENGTH == length);
	FUZZ_CHECK(packet->op->carries_payload || packet->payload_length == 0);
	FUZZ_CHECK(packet->destination_qpn <= 0xffffff && packet->psn.v <= VB_PSN_MASK);
}

/* Encoded and decoded once more it says the same: headers are equal bytes. */
static void check_round_trip(struct vb_roce_packet *packet, const struct vb_path *path)
{
	static uint8_t out[70000];
	uint8_t first[VB_ROCE_MAX_HEADER], second[VB_ROCE_MAX_HEADER];
	struct iovec span = {(void *)(uintptr_t)packet->payload, packet->payload_length};
	struct vb_roce_packet again;
	size_t length;

	vb_burst_reset(&burst);
	vb_burst_append(&burst, path, packet, &span, 1);
	length = vb_burst_flatten(&burst, 0, 0, out, sizeof(out));
	FUZZ_CHECK(vb_roce_packet_decode(&again, out, length, path, true, 0) == VB_PACKET_OK);
	FUZZ_CHECK(again.payload_length == packet->payload_length);
	FUZZ_CHECK(again.payload_length == 0 || memcmp(again.payload, packet->payload, again.payload_length) == 0);
	FUZZ_CHECK(vb_roce_packet_encode_headers(packet, first) == header_length(packet));
	FUZZ_CHECK(vb_roce_packet_encode_headers(&again, second) == header_length(packet));
	FUZZ_CHECK(memcmp(first, second, header_length(packet)) == 0);
	FUZZ_CHECK(memcmp(first, out, header_length(packet)) == 0);
}

static void put_icrc(const struct vb_path *path, uint16_t ip_id, uint8_t *datagram, size_t length)
{
	size_t covered = length - VB_ICRC_LENGTH;

	vb_icrc_store(vb_icrc_headers(vb_icrc_begin(path, ip_id, length), datagram, covered), datagram + covered);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
	struct vb_roce_packet packet;
	struct vb_path path;
	uint8_t *datagram;
	bool check_icrc;

	if (length < 1 || length > 65508)
		return 0;
	path = choose_path(input[0] & 1);
	check_icrc = input[0] & 2;
	length--;
	/* A block of its own: reading one byte too far is then seen by the sanitizer. */
	datagram = malloc(length ? length : 1);
	if (!datagram)
		return 0;
	memcpy(datagram, input + 1, length);
	if (input[0] & 4 && length >= VB_BTH_LENGTH + VB_ICRC_LENGTH)
		put_icrc(&path, input[0], datagram, length);
	if (vb_roce_packet_decode(&packet, datagram, length, &path, check_icrc, 3) == VB_PACKET_OK) {
		check_bounds(&packet, datagram, length);
		FUZZ_CHECK(!check_icrc || vb_icrc_is_valid(&path, datagram, length, 0));
		check_round_trip(&packet, &path);
	}
	free(datagram);
	return 0;
}
