/* SPDX-License-Identifier: MIT
 *
 * pcap: a 24-byte file header (magic number, ..., link type), then for each frame a 16-byte record header (seconds,
 * microseconds, captured length, true length) and the frame.
 */
#include "capture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_HEADER = 24, RECORD_HEADER = 16, LINK_ETHERNET = 1, ETHERNET = 14, IPV4 = 20, IPV6 = 40, UDP = 8 };

static uint32_t file_u32(const struct capture *capture, size_t at)
{
	const uint8_t *b = capture->bytes + at;

	return capture->big_endian ? (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3]
				   : (uint32_t)b[3] << 24 | (uint32_t)b[2] << 16 | (uint32_t)b[1] << 8 | b[0];
}

static uint16_t u16(const uint8_t *b)
{
	return (uint16_t)(b[0] << 8 | b[1]);
}

static bool read_file(struct capture *capture, const char *path)
{
	FILE *file = fopen(path, "rb");
	size_t room = 1 << 20, got;

	if (!file)
		return false;
	capture->bytes = malloc(room);
	capture->length = 0;
	while (capture->bytes && (got = fread(capture->bytes + capture->length, 1, room - capture->length, file)) > 0) {
		capture->length += got;
		if (capture->length == room) {
			uint8_t *larger = realloc(capture->bytes, room *= 2);

			if (!larger)
				free(capture->bytes);
			capture->bytes = larger;
		}
	}
	fclose(file);
	return capture->bytes != NULL;
}

bool capture_open(struct capture *capture, const char *path)
{
	memset(capture, 0, sizeof(*capture));
	if (!read_file(capture, path))
		return false;
	capture->at = FILE_HEADER;
	if (capture->length >= FILE_HEADER) {
		capture->big_endian = capture->bytes[0] == 0xa1;
		if (file_u32(capture, 0) == 0xa1b2c3d4 && file_u32(capture, 20) == LINK_ETHERNET)
			return true;
	}
	capture_close(capture);
	return false;
}

void capture_close(struct capture *capture)
{
	free(capture->bytes);
	capture->bytes = NULL;
}

static void mapped_gid(uint8_t gid[16], const uint8_t *ipv4)
{
	memset(gid, 0, 10);
	gid[10] = gid[11] = 0xff;
	memcpy(gid + 12, ipv4, 4);
}

/* The UDP header within `length` bytes of IP packet, and the length of it and its payload; NULL: not UDP. */
static const uint8_t *find_udp(const uint8_t *ip, size_t length, bool is_ipv6, struct captured_packet *packet)
{
	size_t header = is_ipv6 ? IPV6 : IPV4, total;

	if (length < header + UDP)
		return NULL;
	if (is_ipv6) {
		total = IPV6 + (size_t)u16(ip + 4);
		if (ip[6] != 17)
			return NULL;
		packet->ip_id = 0;
		packet->path.traffic_class = (uint8_t)(ip[0] << 4 | ip[1] >> 4);
		packet->path.flow_label = (uint32_t)(ip[1] & 0xf) << 16 | u16(ip + 2);
		packet->path.hop_limit = ip[7];
		memcpy(packet->path.source, ip + 8, 16);
		memcpy(packet->path.destination, ip + 24, 16);
	} else {
		total = u16(ip + 2);
		if (ip[0] != 0x45 || ip[9] != 17)
			return NULL;
		packet->ip_id = u16(ip + 4);
		packet->path.traffic_class = ip[1];
		packet->path.hop_limit = ip[8];
		mapped_gid(packet->path.source, ip + 12);
		mapped_gid(packet->path.destination, ip + 16);
	}
	if (total > length || total < header + UDP || u16(ip + header + 4) != total - header)
		return NULL;
	packet->length = total - header - UDP;
	return ip + header;
}

static bool read_frame(const uint8_t *frame, size_t length, struct captured_packet *packet)
{
	const uint8_t *udp;

	memset(packet, 0, sizeof(*packet));
	if (length < ETHERNET || (u16(frame + 12) != 0x0800 && u16(frame + 12) != 0x86dd))
		return false;
	udp = find_udp(frame + ETHERNET, length - ETHERNET, u16(frame + 12) == 0x86dd, packet);
	if (!udp || u16(udp + 2) != VB_ROCE_PORT)
		return false;
	packet->path.source_port = u16(udp);
	packet->datagram = udp + UDP;
	return true;
}

bool capture_next(struct capture *capture, struct captured_packet *packet)
{
	while (capture->length - capture->at >= RECORD_HEADER) {
		size_t captured = file_u32(capture, capture->at + 8);
		const uint8_t *frame = capture->bytes + capture->at + RECORD_HEADER;

		if (captured > capture->length - capture->at - RECORD_HEADER)
			return false;
		capture->at += RECORD_HEADER + captured;
		if (read_frame(frame, captured, packet))
			return true;
	}
	return false;
}
