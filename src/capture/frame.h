/* SPDX-License-Identifier: MIT
 *
 * A RoCE packet, or a part of a TCP stream, as what travels, and back. Pure functions.
 */
#ifndef VB_CAPTURE_FRAME_H
#define VB_CAPTURE_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "wire/ib_packet.h"
#include "wire/path.h"

enum {
	VB_FRAME_HEADERS = 40 + 8,         /* the longest: IPv6 and UDP */
	VB_FRAME_TCP_HEADERS = 40 + 20,
	VB_FRAME_TCP_MOST = 65535 - 40,    /* bytes of a stream that one IP packet holds */
};

/* Link types as capture files number them (LINKTYPE_...). "Cooked" is what tcpdump writes of the interface `any`. */
enum vb_frame_link {
	VB_FRAME_ETHERNET = 1, VB_FRAME_RAW_OLD = 12, VB_FRAME_RAW = 101, VB_FRAME_COOKED = 113, VB_FRAME_ERF = 197, VB_FRAME_IPV4 = 228,
	VB_FRAME_IPV6 = 229, VB_FRAME_COOKED_2 = 276,
};

/* Write IP and UDP header, checksums and all, for the packet that is to follow them; returns their length. `ip_id`: IPv4 identification. */
size_t vb_frame_headers(uint8_t out[VB_FRAME_HEADERS], const struct vb_path *path, uint16_t ip_id,
			const uint8_t *datagram, size_t length);

/* Of RoCEv1 (annex A16.4.1): Ethernet header and GRH. */
enum { VB_FRAME_ETHERNET_HEADERS = 14 + 40 };
void vb_frame_ethernet_headers(uint8_t out[VB_FRAME_ETHERNET_HEADERS], const uint8_t destination[6], const uint8_t source[6],
			       const struct vb_path *path, size_t length);

/* A frame of InfiniBand, LRH to ICRC, as an ERF record of type 21, whose VCRC it gets; `time` in nanoseconds since 1970. Returns its
 * length, at most VB_FRAME_ERF_MOST; 0: it is longer than any frame. */
enum { VB_FRAME_ERF_HEADER = 16, VB_FRAME_ERF_MOST = VB_FRAME_ERF_HEADER + VB_IB_MAX_FRAME + VB_IB_VCRC_LENGTH };
size_t vb_frame_erf(uint8_t out[VB_FRAME_ERF_MOST], int64_t time, const uint8_t *frame, size_t length);

enum { VB_FRAME_TCP_FIN = 0x01, VB_FRAME_TCP_SYN = 0x02, VB_FRAME_TCP_RST = 0x04, VB_FRAME_TCP_PSH = 0x08, VB_FRAME_TCP_ACK = 0x10 };

struct vb_frame_tcp {
	struct vb_path path;
	uint16_t destination_port;
	uint32_t sequence, acknowledged;
	uint8_t flags;
};

/* The same of a TCP segment. */
size_t vb_frame_tcp_headers(uint8_t out[VB_FRAME_TCP_HEADERS], const struct vb_frame_tcp *segment, const uint8_t *payload, size_t length);
/* Of an IP packet. 0, or -EPROTO: it is no TCP, or cut short. */
int vb_frame_tcp_parse(const uint8_t *ip, size_t length, struct vb_frame_tcp *segment, const uint8_t **payload, size_t *payload_length);

/* A packet of InfiniBand without GRH has no addresses but LIDs. In their place captures have what no packet carries: 100::LID, of the
 * prefix whose packets are discarded everywhere (RFC 6666). */
void vb_frame_lid_to_address(uint16_t lid, uint8_t address[16]);
/* 0: that is none. */
uint16_t vb_frame_address_to_lid(const uint8_t address[16]);

/* How many bytes stand before the IP header, the GRH of RoCEv1, or the LRH of InfiniBand; -EPROTO: there is none, or the link type is not
 * known. */
int vb_frame_link_length(const uint8_t *frame, size_t length, uint32_t link_type);

/* The RoCE packet in a frame. 0, or -EPROTO: it is none, or cut short. */
int vb_frame_parse(const uint8_t *frame, size_t length, uint32_t link_type, struct vb_path *path,
		   const uint8_t **datagram, size_t *datagram_length);

/* A sniffer on the sending host sees what the kernel is still to split (UDP_SEGMENT): one frame with several datagrams
 * of equal length, the last of which may be shorter. The length of the first; `length`: it is one datagram. */
size_t vb_frame_segment(const uint8_t *datagram, size_t length);

/* The IPv4 identification with which the datagram's ICRC is right: a UDP socket does not show it. 0 when there is none. */
uint16_t vb_frame_guess_id(const struct vb_path *path, const uint8_t *datagram, size_t length);

#endif
