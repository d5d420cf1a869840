/* SPDX-License-Identifier: MIT
 *
 * InfiniBand's own packet (IBA 5.2): LRH, perhaps GRH, then BTH to ICRC as in RoCE, then a VCRC.
 *
 * The ICRC (IBA 7.8.1) covers LRH and GRH as wire/ib_route.h says, then the BTH with byte 4 as ones, and the rest.
 * The VCRC (IBA 7.8.2) covers LRH to ICRC; our cables leave it out, captures put it back.
 */
#ifndef VB_WIRE_IB_PACKET_H
#define VB_WIRE_IB_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/ib_route.h"

struct vb_mad;

enum {
	VB_IB_VCRC_LENGTH = 2,
	/* The longest: both headers, BTH, the longest extension, 4096 bytes, ICRC. */
	VB_IB_MAX_FRAME = VB_IB_MAX_HEADERS + 12 + 32 + 4096 + 4,
	VB_IB_MAD_FRAME = VB_IB_MAX_HEADERS + 12 + 8 + 256 + 4,
};

struct vb_ib_frame {
	struct vb_ib_route route;
	const uint8_t *bth;                /* in the frame that was decoded */
	size_t bth_length;                 /* to the end of the ICRC */
};

/* Are there a sound LRH and GRH, and at least a BTH and an ICRC, and are lengths what the headers say? The ICRC is not looked at. */
bool vb_ib_frame_decode(struct vb_ib_frame *frame, const void *bytes, size_t length);
/* The CRC over all but the ICRC of a frame with sound headers. */
uint32_t vb_ib_icrc(const uint8_t *frame, size_t length);
/* Write the ICRC at the end of a frame that is else complete. */
void vb_ib_frame_seal(uint8_t *frame, size_t length);
bool vb_ib_icrc_is_valid(const uint8_t *frame, size_t length);
uint16_t vb_ib_vcrc(const void *bytes, size_t length);

/* Between which queue pairs a MAD travels. */
struct vb_mad_address {
	struct vb_ib_route route;
	uint32_t qpn, source_qpn, qkey;
	uint16_t pkey;
};

/* A MAD as a UD SEND_ONLY packet, sealed. Returns its length, at most VB_IB_MAD_FRAME. */
size_t vb_mad_frame_encode(const struct vb_mad_address *address, const struct vb_mad *mad, uint8_t *out);
/* Is the frame, whose headers are sound, a MAD to QP0 or QP1 with a right ICRC and Q_Key? */
bool vb_mad_frame_decode(struct vb_mad_address *address, struct vb_mad *mad, const struct vb_ib_frame *frame, const uint8_t *bytes,
			 size_t length);

#endif
