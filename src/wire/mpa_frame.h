/* SPDX-License-Identifier: MIT
 *
 * The two frames by which a TCP connection becomes an iWARP one: MPA request and reply (RFC 5044 7.1, enhanced by RFC 6581).
 *
 *   0..15  "MPA ID Req Frame" or "MPA ID Rep Frame"
 *   16     M markers, C CRC, R reject, S enhanced, 4 reserved bits
 *   17     revision
 *   18..19 length of what follows
 *   20..23 if S: A B IRD(14) C D ORD(14)
 *   ...    private data
 */
#ifndef VB_WIRE_MPA_FRAME_H
#define VB_WIRE_MPA_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	VB_MPA_HEADER = 20,
	VB_MPA_ENHANCEMENT = 4,
	VB_MPA_MAX_DATA = 512,           /* RFC 5044 7.1: of what follows the header */
	VB_MPA_MAX_FRAME = VB_MPA_HEADER + VB_MPA_MAX_DATA,
	/* siw counts its own in a byte, and takes no more than 256 with the enhancement. */
	VB_MPA_MAX_PRIVATE = 252,
	VB_MPA_DEPTH_UNKNOWN = 0x3fff,   /* RFC 6581 9: IRD or ORD is not negotiated */
	VB_MPA_MAX_REVISION = 2,
};

enum vb_mpa_kind { VB_MPA_REQUEST, VB_MPA_REPLY };

struct vb_mpa_frame {
	enum vb_mpa_kind kind;
	uint8_t revision;
	bool markers, crc, reject, enhanced;
	bool large;                      /* reserved bit 0x08, which siw gives the meaning: long FPDUs are welcome */
	/* Reserved bit 0x04, which only we set, and only in a reply to a request with 0x08: the end of the stream does not harm what this
	 * side still sends. siw returns the reserved bits of a request, and no others. */
	bool half_close;
	/* If enhanced. The messages that may make the first FPDU of the initiator ("ready to receive", RTR): of length zero. */
	bool peer_to_peer, rtr_send, rtr_write, rtr_read;
	uint16_t ird, ord;
	uint16_t private_length;
	uint8_t private_data[VB_MPA_MAX_DATA];
};

/* How many bytes the frame that begins with these has: as many as have to be there to say more, VB_MPA_HEADER at first. 0: it is no
 * such frame. */
size_t vb_mpa_frame_length(enum vb_mpa_kind kind, const uint8_t *bytes, size_t there);

/* All of a frame. False: not one that we understand (revision, length). */
bool vb_mpa_frame_decode(struct vb_mpa_frame *frame, enum vb_mpa_kind kind, const uint8_t *bytes, size_t length);

/* Returns its length. private_length is at most VB_MPA_MAX_DATA, less the enhancement where there is one. */
size_t vb_mpa_frame_encode(const struct vb_mpa_frame *frame, uint8_t bytes[VB_MPA_MAX_FRAME]);

#endif
