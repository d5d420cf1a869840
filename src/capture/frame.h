/* SPDX-License-Identifier: MIT
 *
 * A RoCE packet as what travels, and back. Pure functions.
 */
#ifndef VB_CAPTURE_FRAME_H
#define VB_CAPTURE_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "wire/path.h"

enum { VB_FRAME_HEADERS = 40 + 8 };        /* the longest: IPv6 and UDP */

/* Link types as capture files number them (LINKTYPE_...). "Cooked" is what tcpdump writes of the interface `any`. */
enum vb_frame_link {
	VB_FRAME_ETHERNET = 1, VB_FRAME_RAW_OLD = 12, VB_FRAME_RAW = 101, VB_FRAME_COOKED = 113, VB_FRAME_IPV4 = 228,
	VB_FRAME_IPV6 = 229, VB_FRAME_COOKED_2 = 276,
};

/* Write IP and UDP header, checksums and all, or the GRH, for the packet that is to follow them; returns their length. `ip_id`:
 * IPv4 identification. */
size_t vb_frame_headers(uint8_t out[VB_FRAME_HEADERS], const struct vb_path *path, uint16_t ip_id,
			const uint8_t *datagram, size_t length);

/* How many bytes stand before the IP header, or the GRH of RoCEv1; -EPROTO: there is none, or the link type is not known. */
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
