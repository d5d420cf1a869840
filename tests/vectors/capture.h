/* SPDX-License-Identifier: MIT
 *
 * Reads pcap files and finds the RoCEv2 packets in them, for tests. Needs no library and works on any byte order.
 */
#ifndef VB_TESTS_CAPTURE_H
#define VB_TESTS_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/path.h"

struct capture {
	uint8_t *bytes;
	size_t length, at;
	bool big_endian;         /* of the file's own numbers */
};

/* One RoCEv2 packet. */
struct captured_packet {
	struct vb_path path;     /* as its IP and UDP headers say */
	uint16_t ip_id;          /* 0 on IPv6 */
	const uint8_t *datagram; /* UDP payload: BTH to ICRC */
	size_t length;
};

/* False: not there, or not an Ethernet pcap file. */
bool capture_open(struct capture *capture, const char *path);
void capture_close(struct capture *capture);

/* The next RoCEv2 packet; frames of other kinds are passed over. False at the end. */
bool capture_next(struct capture *capture, struct captured_packet *packet);

#endif
