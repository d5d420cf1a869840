/* SPDX-License-Identifier: MIT
 *
 * A MAD between a process and verbenad: what ib_umad has between program and kernel (struct ib_user_mad), one message
 * of a SOCK_SEQPACKET socket each. Behind it the bytes of the MAD, or, of messages longer than VB_UMAD_INLINE, a
 * descriptor of sealed memory that holds them.
 *
 * Integers are of this host, except those named be.
 */
#ifndef VB_WIRE_UMAD_H
#define VB_WIRE_UMAD_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

enum {
	VB_UMAD_HEADER = 64,
	VB_UMAD_INLINE = 64 * 1024,
};

struct vb_umad {
	uint32_t agent;
	uint32_t status;                   /* received: 0 or an errno */
	uint32_t timeout_ms, retries;
	uint32_t length;                   /* of all: header and MAD */
	struct be32 qpn, qkey;
	struct be16 lid;
	uint8_t sl, path_bits, grh_present, gid_index, hop_limit, traffic_class;
	uint8_t gid[16];
	struct be32 flow_label;
	uint16_t pkey_index;
	uint8_t reserved[6];
};

_Static_assert(sizeof(struct vb_umad) == VB_UMAD_HEADER && offsetof(struct vb_umad, qpn) == 20 &&
	offsetof(struct vb_umad, pkey_index) == 56,
	       "struct ib_user_mad");

#endif
