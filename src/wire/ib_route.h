/* SPDX-License-Identifier: MIT
 *
 * What stands before the BTH in InfiniBand's own framing (IBA 7.7, 8.3):
 *
 *   LRH   8   VL << 4 | LVer, SL << 4 | LNH, DLID, length in words up to and with the ICRC, SLID
 *   GRH  40   where LNH is 3
 *
 * as a route, as bytes, as a path (wire/path.h), and as the ICRC covers it (IBA 7.8.1), which is what no switch or router changes.
 * Without GRH: the LRH with its VL as ones. With GRH: eight bytes of ones, the GRH with traffic class, flow label and hop limit as ones.
 */
#ifndef VB_WIRE_IB_ROUTE_H
#define VB_WIRE_IB_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vb_path;

enum {
	VB_LRH_LENGTH = 8,
	VB_IB_GRH_LENGTH = 40,
	VB_IB_MAX_HEADERS = VB_LRH_LENGTH + VB_IB_GRH_LENGTH,
	VB_IB_MANAGEMENT_VL = 15,
	VB_IB_LNH_LOCAL = 2,
	VB_IB_LNH_GLOBAL = 3,
};

struct vb_ib_route {
	uint16_t dlid, slid;
	uint8_t vl, sl;
	bool has_grh;
	uint8_t traffic_class, hop_limit;
	uint32_t flow_label;
	uint8_t sgid[16], dgid[16];
};

/* Is there a sound LRH, and a sound GRH if it says so, and are their lengths that of the frame? Their length in all; 0: no. */
size_t vb_ib_route_decode(struct vb_ib_route *route, const uint8_t *bytes, size_t length);
/* LRH, and GRH if there is one; `bth_length`: from the BTH to the end of the ICRC. Returns their length. */
size_t vb_ib_route_encode(const struct vb_ib_route *route, size_t bth_length, uint8_t *out);
/* Of encoded headers: set to ones what the ICRC does not cover. */
void vb_ib_route_mask(uint8_t *headers);

/* The route of packets on a path whose framing has LIDs, and the path by which a packet came: `source` is the sender. */
struct vb_ib_route vb_ib_route_of_path(const struct vb_path *path);
struct vb_path vb_ib_route_to_path(const struct vb_ib_route *route);
/* A RoCEv1 frame behind its Ethernet header, which may be longer than what the GRH says (Ethernet pads): the path by which it came, but
 * for the interface. Returns the length from the BTH on; 0: that is no such frame. */
size_t vb_ib_grh_to_path(struct vb_path *path, const uint8_t *grh, size_t length);
/* The headers of a packet on such a path, as the ICRC covers them. Returns their length, at most VB_IB_MAX_HEADERS. */
size_t vb_ib_path_masked(const struct vb_path *path, size_t bth_length, uint8_t *out);
/* The GRH of a packet that came by such a path; zeros where there was none. */
void vb_ib_path_grh(const struct vb_path *from, size_t bth_length, uint8_t out[VB_IB_GRH_LENGTH]);

#endif
